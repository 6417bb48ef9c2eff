/* From a stored tensor to a job of the quantizer: see matrix.h. */
#include "tools/matrix.h"

#include <omp.h>
#include <string.h>

#include "io/system.h"
#include "recipe/schema.h"

bool mpt_tool_takes(const mpt_stored_tensor *tensor) {
    switch (tensor->type) {
    case MPT_TENSOR_F64:
    case MPT_TENSOR_F32:
    case MPT_TENSOR_F16:
    case MPT_TENSOR_BF16:
    case MPT_TENSOR_F8_E4M3:
    case MPT_TENSOR_F8_E5M2:
        return tensor->elements > 0;
    default:
        return false;
    }
}

mpt_quantize_job mpt_tool_job(const mpt_quantizer *q, const mpt_stored_tensor *tensor,
                              const mpt_tool_key *key) {
    const mpt_hadamard *h = &q->hadamard;
    uint64_t id = mpt_hash(tensor->name, strlen(tensor->name));
    mpt_quantize_job job = {.q = q, .column = key->column};
    job.cols = tensor->rank ? tensor->dims[tensor->rank - 1] : 1;
    job.rows = tensor->elements / job.cols;
    job.bf16 = tensor->type == MPT_TENSOR_BF16;
    job.fp16 = tensor->type == MPT_TENSOR_F16;
    job.key = (mpt_random_key){
        .seed = key->seed, .operand = (uint32_t)id & ~MPT_RANDOM_LOW, .step = key->step};
    if (h->size && h->signs == MPT_SIGNS_RANDOM)
        mpt_random_signs(h->seed >= 0 ? (uint64_t)h->seed : key->seed,
                         h->scope == MPT_SCOPE_LAYER ? (uint32_t)id : 0,
                         h->redraw == MPT_REDRAW_STEP ? key->step : 0, job.signs);
    return job;
}

/* ---- what does not divide ---- */

static bool divides(int64_t part, int64_t extent) {
    return part == 0 || extent % part == 0;
}

mpt_status mpt_tool_fit(mpt_ctx *ctx, const mpt_tool_format *format,
                        const mpt_stored_tensor *tensor, bool column, mpt_quantizer *out) {
    const mpt_quantizer *q = &format->q;
    mpt_quantize_job job = mpt_tool_job(q, tensor, &(mpt_tool_key){.column = column});
    int64_t rows = column ? job.cols : job.rows, k = column ? job.rows : job.cols;
    *out = *q;
    if (q->pad == MPT_PAD_ZERO || (divides(q->block_rows, rows) && divides(q->block_cols, k) &&
                                   divides(q->hadamard.size, k)))
        return MPT_OK;
    if (q->pad == MPT_PAD_BF16 && mpt_quantizer_by_name("bf16", out))
        return MPT_OK;
    mpt_status status = MPT_FAIL(
        ctx, MPT_DATA, ((mpt_where){tensor->file, 0}),
        "tensor '%s' is %lld x %lld, which the blocks and rotation of '%s' do not divide",
        tensor->name, (long long)rows, (long long)k, format->text);
    mpt_hint(ctx, "pad = \"zero\" fills up, pad = \"bf16\" keeps such tensors in BF16");
    return status;
}

/* ---- values ---- */

enum { PIECE = 1 << 16 };

/* Whether the kernels can read the mapped bytes; a file may leave them anywhere. */
static bool lies_ready(const mpt_stored_tensor *tensor) {
    uintptr_t at = (uintptr_t)tensor->data;
    return (tensor->type == MPT_TENSOR_F32 && at % sizeof(float) == 0) ||
           (tensor->type == MPT_TENSOR_BF16 && at % sizeof(uint16_t) == 0);
}

size_t mpt_tool_room(const mpt_stored_tensor *tensor, int64_t n) {
    return lies_ready(tensor) ? 0 : mpt_size_mul((size_t)n, sizeof(float));
}

mpt_tool_values mpt_tool_load(const mpt_stored_tensor *tensor, int64_t first, int64_t n,
                              float *room) {
    int64_t pieces = (n + PIECE - 1) / PIECE;
    if (lies_ready(tensor) && tensor->type == MPT_TENSOR_F32)
        return (mpt_tool_values){.x = (const float *)tensor->data + first};
    if (lies_ready(tensor))
        return (mpt_tool_values){.bf16 = (const uint16_t *)tensor->data + first};
#pragma omp parallel for schedule(static) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * PIECE, end = at + PIECE < n ? at + PIECE : n;
        mpt_stored_tensor_floats(tensor, first + at, end - at, room + at);
    }
    return (mpt_tool_values){.x = room};
}

void mpt_tool_see(const mpt_tool_values *values, int64_t n, mpt_tool_seen *seen) {
    uint32_t most = 0;
    uint64_t inf = 0, nan = 0;
#pragma omp parallel for schedule(static) reduction(max : most) reduction(+ : inf, nan) if (n > PIECE)
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = mpt_abs_bits(mpt_tool_value(values, i));
        inf += a == MPT_INF_BITS;
        nan += a > MPT_INF_BITS;
        most = a < MPT_INF_BITS && a > most ? a : most;
    }
    mpt_quantize_amax part = {most, inf > 0, nan > 0};
    mpt_quantize_amax_merge(&seen->most, part);
    seen->nonfinite += inf + nan;
}

/* ---- sizes ---- */

/* Blocks along an extent; a block of 0 is the whole of it. */
static int64_t blocks(int64_t extent, int64_t block) {
    return block ? (extent + block - 1) / block : 1;
}

mpt_tool_layout mpt_tool_layout_of(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    int bits = mpt_dtype_bits(q->format);
    mpt_tool_layout l = {.rows = job->column ? job->cols : job->rows};
    l.k = mpt_quantizer_extent(q, job->column ? job->rows : job->cols);
    if (q->scale.kind == MPT_SCALING_NONE)
        return l;
    l.row_bytes = bits == 4 ? (l.k + 1) / 2 : bits <= 8 ? l.k : 2 * l.k;
    l.scale_rows = blocks(l.rows, q->block_rows);
    l.scale_cols = blocks(l.k, q->block_cols);
    l.scale_bytes = q->scale_format >= MPT_SCALE_E8M0 ? 1 : (int)sizeof(float);
    if (q->outer == MPT_OUTER_ROW)
        l.n_amax = l.rows;
    else if (q->outer == MPT_OUTER_TENSOR || mpt_quantizer_is_one_scale(q))
        l.n_amax = 1;
    return l;
}

double mpt_tool_bits(const mpt_quantize_job *job) {
    mpt_tool_layout l = mpt_tool_layout_of(job);
    double bits = (double)l.rows * (double)l.k * mpt_dtype_bits(job->q->format);
    bits += 8.0 * l.scale_bytes * (double)l.scale_rows * (double)l.scale_cols;
    bits += 8.0 * sizeof(float) * (double)l.n_amax;
    return bits / ((double)job->rows * (double)job->cols);
}

/* ---- threads ---- */

int mpt_tool_set_threads(int n_threads) {
    int before = omp_get_max_threads();
    omp_set_num_threads(n_threads > 0 ? n_threads : mpt_system_processors());
    return before;
}
