/* From codes and scales back to values, in Transformer Engine's order of operations.
 *
 * For tools and tests: the training path multiplies `decoded` values and moves the tensor's
 * factor into the product. Numerics sections 2.2 (one scale), 4 and 5 (blocks), 6.2 (a second
 * level: by the amax, not by the encode scale). */
#include "kernels/quantize_job.h"

static uint32_t code_at(const mpt_quantize_job *job, const mpt_quantize_shape *s, int64_t r,
                        int64_t k) {
    int bits = mpt_code_bits(job->q->format);
    if (bits == 4)
        return (uint32_t)job->codes[r * ((s->k + 1) / 2) + k / 2] >> 4 * (k % 2) & 15u;
    uint32_t code = 0;
    int64_t bytes = bits / 8;
    for (int64_t i = 0; i < bytes; i++)
        code |= (uint32_t)job->codes[(r * s->k + k) * bytes + i] << 8 * i;
    return code;
}

/* What elements are multiplied by; `at` is the block's index. */
static float restore_of(const mpt_quantize_job *job, int64_t at, int64_t r) {
    const mpt_quantizer *q = job->q;
    if (q->scale_format <= MPT_SCALE_POW2)
        return ((const float *)job->scales)[at];
    uint32_t code = ((const uint8_t *)job->scales)[at];
    if (q->scale_format == MPT_SCALE_E8M0)
        return mpt_decode_e8m0(code);
    float scale = mpt_decode(MPT_DTYPE_E4M3, code);
    if (q->outer == MPT_OUTER_NONE)
        return scale;
    const float *amax = job->amax ? job->amax : job->factor;
    return mpt_outer_restore(scale, amax[q->outer == MPT_OUTER_ROW ? r : 0],
                             mpt_quantizer_constant(q));
}

/* The one scale of a tensor, or 1 where there is none at all. */
static float restore_of_tensor(const mpt_quantize_job *job) {
    if (job->q->scale.kind == MPT_SCALING_NONE)
        return 1.0f;
    return job->factor ? *job->factor : *(const float *)job->scales;
}

enum { MANY = 1 << 14 }; /* elements that are worth more than one thread */

void mpt_dequantize(const mpt_quantize_job *job, float *y) {
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    float one = s.one_scale ? restore_of_tensor(job) : 0.0f;
#pragma omp parallel for schedule(static) if (s.rows * s.k_in > MANY)
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t k = 0; k < s.k_in; k++) {
            int64_t at = s.one_scale ? 0 : r / s.block_rows * s.blocks_k + k / s.block_k;
            float restore = s.one_scale ? one : restore_of(job, at, r);
            float value = mpt_decode(job->q->format, code_at(job, &s, r, k));
            y[r * s.row_stride + k * s.k_stride] = value * restore;
        }
}
