/* Jobs of the quantizer run by the CUDA kernels: a job becomes a node, its packed copies are
 * taken apart again into the job's outputs.
 *
 * Every buffer of the device has a margin on both sides. What a packed copy holds beside codes
 * and scales (padding of scales, turned codes) is checked here, so that a comparison of the
 * outputs with ref's is one of the whole copy. */
#ifndef MPT_TESTS_DEVICE_QUANTIZE_H
#define MPT_TESTS_DEVICE_QUANTIZE_H

#include "any_quantizer.h"
#include "kernels/cuda/cuda.h"
#include "kernels/packed.h"
#include "kernels/quantize_job.h"

enum { DEVICE_SCOPE = 77 }; /* of random signs */

/* The stream and the signs that a node of this micro-batch has: jobs that run on a device are
 * keyed so. */
static inline void device_key(mpt_quantize_job *job, uint64_t seed, uint32_t operand,
                              uint32_t step, uint32_t micro_batch) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    job->key = mpt_quantize_key(seed, step, operand, micro_batch, s.rows * s.groups);
    mpt_hadamard_signs(&job->q->hadamard, &job->key, DEVICE_SCOPE, job->signs);
}

/* x in a device's memory, as job says: BF16 and FP16 operands in two bytes where `packed2`. */
static inline any_buffer device_x(const mpt_quantize_job *job, bool two_bytes,
                                  mpt_tensor *out) {
    size_t n = (size_t)(job->rows * job->cols);
    bool bf16 = mpt_quantize_is_bf16(job);
    mpt_storage storage = !two_bytes || !(bf16 || job->fp16) ? MPT_STORAGE_HOST
                          : bf16                             ? MPT_STORAGE_BF16
                                                             : MPT_STORAGE_FP16;
    any_buffer b = any_buffer_of(n * mpt_storage_bytes(storage));
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = job->x_bf16 ? mpt_bits_float((uint32_t)job->x_bf16[i] << 16) : job->x[i];
    mpt_pack(storage, x, (int64_t)n, b.data);
    free(x);
    *out = (mpt_tensor){.data = b.data, .rank = 2, .dims = {job->rows, job->cols}};
    out->dtype = bf16 ? MPT_DTYPE_BF16 : job->fp16 ? MPT_DTYPE_FP16 : MPT_DTYPE_FP32;
    out->storage = storage;
    return b;
}

/* ---- packed copies ---- */

static inline uint32_t device_code(const mpt_packed *p, const uint8_t *row, int64_t k) {
    uint32_t code = 0;
    int bits = mpt_code_bits(p->q.format);
    if (bits == 4)
        return row[k / 2] >> 4 * (k % 2) & 15u;
    memcpy(&code, row + k * (bits / 8), (size_t)(bits / 8));
    return code;
}

static inline void device_check_turned(const mpt_packed *p, const uint8_t *bytes) {
    size_t row_bytes = (size_t)((p->rows * mpt_code_bits(p->q.format) + 7) / 8);
    for (int64_t k = 0; p->turned && k < p->k; k++)
        for (int64_t r = 0; r < p->rows; r++)
            assert_int_equal(device_code(p, bytes + p->turned + (size_t)k * row_bytes, r),
                             device_code(p, bytes + r * p->code_row, k));
}

/* Scales to the order of a job's output; all that is not one of them is zero. */
static inline void device_take_scales(const mpt_packed *p, const uint8_t *bytes, void *out) {
    size_t size = mpt_packed_byte_scales(p) ? 1 : sizeof(float), n = p->bytes - p->scales;
    uint8_t *left = malloc(n + 1);
    assert_non_null(left);
    memcpy(left, bytes + p->scales, n);
    int64_t block = p->q.block_rows ? p->q.block_rows : p->rows;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t b = 0; b < p->blocks_k; b++) {
            size_t at = (size_t)mpt_packed_scale(p, r, b) * size;
            uint8_t *to = (uint8_t *)out + (size_t)(r / block * p->blocks_k + b) * size;
            if (r % block == 0)
                memcpy(to, bytes + p->scales + at, size);
            assert_memory_equal(to, bytes + p->scales + at, size);
            memset(left + at, 0, size);
        }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(left[i], 0);
    free(left);
}

static inline void device_take(const mpt_quantize_job *job, const mpt_packed *p,
                               const uint8_t *bytes, const float *factor) {
    const mpt_quantizer *q = job->q;
    bool outer = q->outer != MPT_OUTER_NONE;
    size_t n = q->outer == MPT_OUTER_ROW ? (size_t)p->rows : 1;
    device_check_turned(p, bytes);
    if (job->codes)
        memcpy(job->codes, bytes, (size_t)(p->rows * p->code_row));
    if (job->scales && p->scales)
        device_take_scales(p, bytes, job->scales);
    else if (job->scales && q->scale.kind != MPT_SCALING_NONE)
        memcpy(job->scales, factor, sizeof *factor);
    if (job->decoded) /* of padded extent */
        mpt_unpack(MPT_STORAGE_PACKED, p, bytes, p->rows * p->k, job->decoded);
    memcpy(job->factor, factor, n * sizeof *factor);
    if (job->amax && outer)
        memcpy(job->amax, factor, n * sizeof *factor);
}

/* ---- runs ---- */

/* A node with one or two sides, and the memory of its values. */
typedef struct device_node {
    mpt_node node;
    mpt_tensor in[5], out[4];
    mpt_packed packed[2];
    any_buffer x, codes[2], factor[2];
    float scale[2], history[2];
    mpt_quantize_counts counts[2];
} device_node;

static inline void device_side(device_node *d, const mpt_quantize_job *job, bool turned) {
    int s = job->column, in = s ? 3 : 1, out = s ? 2 : 0;
    mpt_attrs *a = &d->node.attrs;
    *(s ? &a->col : &a->row) = *job->q;
    *(s ? &a->has_col : &a->has_row) = true;
    *(s ? &a->col_operand : &a->row_operand) = job->key.operand;
    *(s ? &a->col_scope : &a->row_scope) = DEVICE_SCOPE;
    *(s ? &a->col_index : &a->row_index) = s;
    d->packed[s] = mpt_packed_of(job->q, s, job->rows, job->cols, turned);
    d->codes[s] = any_buffer_of(d->packed[s].bytes);
    size_t n = job->q->outer == MPT_OUTER_ROW ? (size_t)d->packed[s].rows : 1;
    d->factor[s] = any_buffer_of(n * sizeof(float));
    d->out[out] = (mpt_tensor){.data = d->codes[s].data,
                               .rank = 2,
                               .storage = MPT_STORAGE_PACKED,
                               .packed = &d->packed[s]};
    d->out[out + 1] = (mpt_tensor){.data = d->factor[s].data, .rank = 1, .dims = {(int64_t)n}};
    d->scale[s] = job->scale ? *job->scale : 0;
    d->history[s] = job->amax_history ? *job->amax_history : 0;
    if (job->scale)
        d->in[in] = (mpt_tensor){.data = &d->scale[s], .rank = 1, .dims = {1}};
    if (job->amax_history)
        d->in[in + 1] = (mpt_tensor){.data = &d->history[s], .rank = 1, .dims = {1}};
}

/* Scratch is not promised to be zero, nor to be longer than asked for. */
static inline void device_launch(const device_node *d, const mpt_kernel_args *args,
                                 void (*kernel)(const mpt_kernel_args *),
                                 size_t (*scratch)(const mpt_graph *, const mpt_node *, int)) {
    mpt_value values[1] = {{.rank = args->in[d->node.in[0]].rank}};
    values[0].dtype = args->in[d->node.in[0]].dtype;
    memcpy(values[0].dims, args->in[d->node.in[0]].dims, sizeof values[0].dims);
    mpt_graph graph = {.values = values, .n_values = 1};
    mpt_node node = d->node;
    node.in[0] = node.in[1] = 0;
    size_t bytes = scratch(&graph, &node, 1);
    any_buffer room = any_buffer_of(bytes + 64);
    memset(room.data, 0xFF, room.bytes);
    mpt_kernel_args own = *args;
    own.node = &node;
    own.scratch = room.data + (64 - (uintptr_t)room.data % 64) % 64;
    kernel(&own);
    for (uint8_t *p = (uint8_t *)own.scratch + bytes; p < room.data + room.bytes; p++)
        assert_int_equal(*p, 0xFF);
    any_buffer_free(&room);
}

static inline void device_finish(device_node *d, const mpt_quantize_job *job) {
    int s = job->column;
    device_take(job, &d->packed[s], d->codes[s].data, (const float *)(void *)d->factor[s].data);
    if (job->amax_history)
        *job->amax_history = d->history[s];
    if (job->counts)
        *job->counts = d->counts[s];
    any_buffer_free(&d->codes[s]);
    any_buffer_free(&d->factor[s]);
}

static inline mpt_run_env device_env(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    uint64_t groups = (uint64_t)(s.rows * s.groups);
    return (mpt_run_env){.seed = job->key.seed,
                         .step = job->key.step,
                         .micro_batch = (uint32_t)(groups ? job->key.first_group / groups : 0)};
}

/* One copy, or both of one operand; either may be NULL. */
static inline void device_run(const mpt_quantize_job *row, const mpt_quantize_job *col,
                              bool two_bytes, bool turned) {
    const mpt_quantize_job *any = row ? row : col;
    device_node d = {.node = {.op = MPT_OP_quantize, .pass = MPT_PASS_FORWARD}};
    d.node.n_in = 5;
    d.node.n_out = 4;
    d.x = device_x(any, two_bytes, &d.in[0]);
    if (row)
        device_side(&d, row, turned);
    if (col)
        device_side(&d, col, turned);
    mpt_run_env env = device_env(any);
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2, .env = &env};
    gpu.counting = any->counts != NULL;
    gpu.counts = d.counts;
    mpt_kernel_args args = {.node = &d.node, .in = d.in, .out = d.out, .env = &env};
    args.gpu = &gpu;
    device_launch(&d, &args, mpt_cuda_quantize, mpt_cuda_quantize_scratch);
    if (row)
        device_finish(&d, row);
    if (col)
        device_finish(&d, col);
    any_buffer_free(&d.x);
}

/* What record_amax makes of a history that begins with `before`. */
static inline float device_recorded(const mpt_quantize_job *job, float before) {
    device_node d = {.node = {.op = MPT_OP_record_amax, .n_in = 2, .n_out = 1}};
    *(job->column ? &d.node.attrs.col : &d.node.attrs.row) = *job->q;
    *(job->column ? &d.node.attrs.has_col : &d.node.attrs.has_row) = true;
    *(job->column ? &d.node.attrs.col_scope : &d.node.attrs.row_scope) = DEVICE_SCOPE;
    d.node.in[0] = 1; /* device_launch takes the shape of x */
    d.x = device_x(job, true, &d.in[1]);
    d.in[0] = (mpt_tensor){.data = &before, .rank = 1, .dims = {1}};
    mpt_run_env env = device_env(job);
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2, .env = &env};
    mpt_kernel_args args = {.node = &d.node, .in = d.in, .out = d.out, .env = &env};
    args.gpu = &gpu;
    device_launch(&d, &args, mpt_cuda_record_amax, mpt_cuda_record_amax_scratch);
    any_buffer_free(&d.x);
    return before;
}

/* What codes and scales stand for, which is no output of a device; without a rotation. */
static inline void device_stand_for(const mpt_quantize_job *job) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    float *y = malloc((size_t)(s.rows * s.k_in + 1) * sizeof *y);
    assert_non_null(y);
    mpt_dequantize(job, y);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t k = 0; k < s.k_in; k++)
            job->stands_for[r * s.k + k] = y[r * s.row_stride + k * s.k_stride];
    free(y);
}

/* Runs a job as mpt_ref_quantize_operand does. An amax that a device does not put out is that
 * which it records. */
static inline void device_operand(const mpt_quantize_job *job) {
    device_run(job->column ? NULL : job, job->column ? job : NULL, true, true);
    if (job->stands_for && job->codes)
        device_stand_for(job);
    if (job->amax && job->q->outer == MPT_OUTER_NONE)
        *job->amax = device_recorded(job, 0);
}

#endif
