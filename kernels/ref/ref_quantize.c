/* ref.quantize: the definition of every quantizer.
 *
 * Four steps over the quantized orientation (for the column copy, the transpose): rotate into
 * scratch where there is a rotation; amax of the tensor; its scale; then block by block the
 * block's scale and each element's code. The formulas are numerics.h's, here is only their
 * order. A backend may run the row ranges of each step apart. */
#include "kernels/quantize_job.h"

/* The value that is quantized at (r, k). */
static float value_at(const mpt_quantize_job *job, const mpt_quantize_shape *s, int64_t r,
                      int64_t k) {
    if (job->q->hadamard.size)
        return job->scratch[r * s->k + k];
    return job->x[r * s->row_stride + k * s->k_stride];
}

void mpt_quantize_rotate_rows(const mpt_quantize_job *job, int64_t first, int64_t last) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    int n = job->q->hadamard.size;
    uint32_t signs[4] = {0};
    if (job->q->hadamard.signs == MPT_SIGNS_FIXED)
        mpt_fixed_signs(signs);
    float v[MPT_HADAMARD_MAX];
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < s.k; k += n) {
            for (int i = 0; i < n; i++)
                v[i] = k + i < s.k_in ? job->x[r * s.row_stride + (k + i) * s.k_stride] : 0.0f;
            mpt_hadamard_rotate(v, n, signs);
            for (int i = 0; i < n; i++)
                job->scratch[r * s.k + k + i] =
                    job->bf16 ? mpt_round(MPT_DTYPE_BF16, v[i]) : v[i];
        }
}

/* Whether one scale speaks for all and only it can be NaN. */
static bool scale_must_show(const mpt_quantize_job *job, const mpt_quantize_shape *s) {
    return s->one_scale && job->q->format == MPT_DTYPE_E2M1;
}

uint32_t mpt_quantize_amax_rows(const mpt_quantize_job *job, int64_t first, int64_t last) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    bool all = scale_must_show(job, &s);
    uint32_t most = 0;
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < s.k; k++) {
            uint32_t a = mpt_abs_bits(value_at(job, &s, r, k));
            if (a > most && (all || a < MPT_INF_BITS))
                most = a;
        }
    return most;
}

mpt_tensor_scale mpt_quantize_tensor_scale(const mpt_quantize_job *job, float amax) {
    const mpt_quantizer *q = job->q;
    float max = mpt_format_of(q->format).max, nan = mpt_bits_float(MPT_NAN_BITS);
    mpt_tensor_scale t;
    t.amax = mpt_is_finite(amax) ? amax : nan;
    t.outer = mpt_outer_scale_of(max, MPT_E4M3_MAX, q->outer == MPT_OUTER_TENSOR ? amax : 0.0f);
    t.scale = q->scale.kind == MPT_SCALING_NONE ? 1.0f : mpt_current_scale(max, amax);
    if (!mpt_is_finite(amax))
        t.scale = nan;
    return t;
}

void mpt_quantize_put_tensor(const mpt_quantize_job *job, const mpt_tensor_scale *tensor) {
    const mpt_quantizer *q = job->q;
    float decode = mpt_quantize_shape_of(job).one_scale ? 1.0f / tensor->scale : 1.0f;
    if (job->amax)
        *job->amax = tensor->amax;
    if (job->factor)
        *job->factor = q->outer == MPT_OUTER_TENSOR ? tensor->amax : decode;
}

/* ---- one block ---- */

typedef struct area {
    int64_t r0, r1, k0, k1;
} area;

/* What a block multiplies by on the way in and on the way out. */
typedef struct block_factors {
    float encode, decode;
} block_factors;

static float block_amax(const mpt_quantize_job *job, const mpt_quantize_shape *s, area a) {
    uint32_t most = 0;
    for (int64_t r = a.r0; r < a.r1; r++)
        for (int64_t k = a.k0; k < a.k1; k++) {
            uint32_t u = mpt_abs_bits(value_at(job, s, r, k));
            most = u > most ? u : most;
        }
    return mpt_bits_float(most < MPT_INF_BITS ? most : MPT_NAN_BITS);
}

static block_factors block_scale(const mpt_quantize_job *job, const mpt_quantize_shape *s,
                                 const mpt_tensor_scale *tensor, area a) {
    uint32_t code = mpt_block_scale(block_amax(job, s, a), &tensor->outer);
    int64_t a_row = (s->k + s->block_k - 1) / s->block_k;
    if (job->scales)
        ((uint8_t *)job->scales)[a.r0 / s->block_rows * a_row + a.k0 / s->block_k] =
            (uint8_t)code;
    block_factors f;
    f.decode = mpt_decode(MPT_DTYPE_E4M3, code);
    f.encode = mpt_block_encode(f.decode, &tensor->outer);
    return f;
}

/* 16 random bits an element of the group that k lies in; E2M1 uses the upper eight only. */
static void draw(const mpt_quantize_job *job, const mpt_quantize_shape *s, int64_t r, int64_t k,
                 uint32_t bits[MPT_RANDOM_GROUP]) {
    uint64_t group = (uint64_t)(r * s->groups + k / MPT_RANDOM_GROUP);
    uint8_t high[MPT_RANDOM_GROUP], low[MPT_RANDOM_GROUP] = {0};
    mpt_random_bytes(&job->key, group, 0, high);
    if (job->q->format != MPT_DTYPE_E2M1)
        mpt_random_bytes(&job->key, group, MPT_RANDOM_LOW, low);
    for (int i = 0; i < MPT_RANDOM_GROUP; i++)
        bits[i] = (uint32_t)high[i] << 8 | low[i];
}

static void put(const mpt_quantize_job *job, const mpt_quantize_shape *s, int64_t r, int64_t k,
                uint32_t code, float decode) {
    mpt_dtype format = job->q->format;
    if (job->decoded && k < job->decoded_k) {
        int64_t at = job->column ? k * job->cols + r : r * job->decoded_k + k;
        job->decoded[at] = mpt_decode(format, code) * decode;
    }
    if (!job->codes)
        return;
    if (format == MPT_DTYPE_E2M1) {
        uint8_t *byte = &job->codes[r * ((s->k + 1) / 2) + k / 2];
        *byte = (uint8_t)(k % 2 ? *byte | code << 4 : code);
        return;
    }
    int64_t bytes = mpt_dtype_bits(format) / 8;
    for (int64_t i = 0; i < bytes; i++)
        job->codes[(r * s->k + k) * bytes + i] = (uint8_t)(code >> 8 * i);
}

static void encode_area(const mpt_quantize_job *job, const mpt_quantize_shape *s, area a,
                        block_factors f) {
    mpt_dtype format = job->q->format;
    bool stochastic = job->q->rounding == MPT_ROUNDING_STOCHASTIC;
    uint32_t bits[MPT_RANDOM_GROUP] = {0};
    for (int64_t r = a.r0; r < a.r1; r++)
        for (int64_t k = a.k0; k < a.k1; k++) {
            float x = value_at(job, s, r, k), y = x * f.encode;
            if (stochastic && (k == a.k0 || k % MPT_RANDOM_GROUP == 0))
                draw(job, s, r, k, bits);
            uint32_t code = stochastic
                                ? mpt_encode_stochastic(format, y, bits[k % MPT_RANDOM_GROUP])
                                : mpt_encode(format, y);
            put(job, s, r, k, s->one_scale ? mpt_code_visible(format, x, code) : code,
                f.decode);
        }
}

void mpt_quantize_block_rows(const mpt_quantize_job *job, const mpt_tensor_scale *tensor,
                             int64_t first, int64_t last) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    if (s.one_scale) {
        area whole = {first, last, 0, s.k};
        block_factors f = {tensor->scale, 1.0f};
        encode_area(job, &s, whole, f);
        return;
    }
    for (int64_t r = first; r < last; r += s.block_rows)
        for (int64_t k = 0; k < s.k; k += s.block_k) {
            area a = {r, r + s.block_rows, k, k + s.block_k};
            a.r1 = a.r1 < last ? a.r1 : last;
            a.k1 = a.k1 < s.k ? a.k1 : s.k;
            encode_area(job, &s, a, block_scale(job, &s, tensor, a));
        }
}

void mpt_ref_quantize_operand(const mpt_quantize_job *job) {
    int64_t rows = mpt_quantize_shape_of(job).rows;
    if (job->q->hadamard.size)
        mpt_quantize_rotate_rows(job, 0, rows);
    float amax = mpt_bits_float(mpt_quantize_amax_rows(job, 0, rows));
    mpt_tensor_scale tensor = mpt_quantize_tensor_scale(job, amax);
    mpt_quantize_put_tensor(job, &tensor);
    mpt_quantize_block_rows(job, &tensor, 0, rows);
}

void mpt_ref_quantize(const mpt_kernel_args *args) {
    mpt_quantize_node(args, mpt_ref_quantize_operand);
}

size_t mpt_ref_quantize_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)n_threads;
    return mpt_quantize_node_scratch(graph, node, mpt_quantize_scratch);
}
