/* Scales, their order of operations, and the Hadamard rotation.
 *
 * Every line is one float32 operation or a cast, in the order that the contract fixes: writing
 * S_enc/s8 for 1/(s8*S_dec), or amax/6*S_enc for amax*(S_enc/6), changes codes. NaN passes
 * through, so a block with a value that is not finite gets a NaN scale. */
#ifndef MPT_KERNELS_NUMERICS_SCALE_H
#define MPT_KERNELS_NUMERICS_SCALE_H

#include "kernels/numerics_cast.h"

#define MPT_E4M3_MAX 448.0f

/* ---- the largest element ---- */

/* What takes the place of a format's largest value where there is headroom: rounded once. */
MPT_NUMERIC float mpt_effective_max(float max, double headroom) {
    return headroom == 0.0 || headroom == 1.0 ? max : (float)((double)max * headroom);
}

/* The same for the update of a delayed scale: 2^-margin of it, divided by the source's own
 * headroom. */
MPT_NUMERIC float mpt_delayed_max(float max, int margin, double headroom) {
    double m = (double)max;
    for (; margin > 0; margin--)
        m *= 0.5;
    for (; margin < 0; margin++)
        m *= 2.0;
    return (float)(headroom == 0.0 ? m : m / headroom);
}

/* ---- FP32 scales ---- */

/* What the values of one tensor or block are multiplied by before a cast to a format whose
 * largest value is max; its reciprocal decodes. A scale past FLT_MAX becomes `cap`: FLT_MAX
 * with one scale a tensor, the largest value of the operand's type where there are blocks
 * (numerics contract 6). An amax that is not finite gives 1, as Transformer Engine; callers
 * that propagate NaN put it in place of the result. */
MPT_NUMERIC float mpt_capped_scale(float max, float amax, float cap) {
    if (amax == 0.0f || !mpt_is_finite(amax))
        return 1.0f;
    float scale = max / amax;
    return scale > MPT_FLT_MAX ? cap : scale;
}

MPT_NUMERIC float mpt_current_scale(float max, float amax) {
    return mpt_capped_scale(max, amax, MPT_FLT_MAX);
}

/* The scale, or the smallest one whose reciprocal is finite: huge values under a small largest
 * element would decode to Inf, and zeros to NaN. */
MPT_NUMERIC float mpt_decodable_scale(float scale) {
    return scale < 0x1.000008p-128f ? 0x1.000008p-128f : scale;
}

/* The power of two at or below a positive scale: the decode scale is rounded up. NaN stays.
 * Subnormal scales become 2^-127, the least power of two with a finite reciprocal. */
MPT_NUMERIC float mpt_pow2_below(float scale) {
    uint32_t u = mpt_float_bits(scale);
    if (!mpt_is_finite(scale))
        return scale;
    return mpt_bits_float(u >> 23 ? u & 0xFF800000u : 0x400000u);
}

/* ---- E8M0 scales (OCP Microscaling 1.0; numerics contract 8 and section 5) ---- */

/* What values are multiplied by: 2^(127 - code), subnormal for code 254. */
MPT_NUMERIC float mpt_e8m0_reciprocal(uint32_t code) {
    if (code == 0xFFu)
        return mpt_bits_float(MPT_NAN_BITS);
    return mpt_bits_float(code == 254u ? 0x400000u : (254u - code) << 23);
}

/* The smallest code whose power of two is not below the positive value with bits a; Inf
 * gives 254. */
MPT_NUMERIC uint32_t mpt_e8m0_at_least(uint32_t a) {
    uint32_t e = a >> 23, m = a & 0x7FFFFFu;
    if (a > MPT_INF_BITS)
        return 0xFFu;
    if (e >= 254u)
        return 254u;
    return m > (e ? 0u : 0x400000u) ? e + 1u : e;
}

/* "up": nothing saturates. `max` is the largest element. */
MPT_NUMERIC uint32_t mpt_e8m0_up(float max, float amax) {
    return mpt_e8m0_at_least(mpt_float_bits(amax * (1.0f / max)));
}

/* An exponent's code less the element's own exponent, within 0 ... 254. */
MPT_NUMERIC uint32_t mpt_e8m0_less(uint32_t code, const mpt_format *f) {
    uint32_t emax = (mpt_float_bits(f->max) >> 23) - 127u;
    uint32_t low = code > emax ? code - emax : 0u;
    return low > 254u ? 254u : low;
}

/* "floor", "ceil" and "even" look at amax's bits only. Subnormals come out as code 0 or as the
 * one above it, as their logarithms say. */
MPT_NUMERIC uint32_t mpt_e8m0_floor(const mpt_format *f, float amax) {
    uint32_t a = mpt_float_bits(amax);
    return a > MPT_INF_BITS ? 0xFFu : mpt_e8m0_less(a >> 23, f);
}

MPT_NUMERIC uint32_t mpt_e8m0_ceil(const mpt_format *f, float amax) {
    uint32_t a = mpt_float_bits(amax), e = a >> 23, m = a & 0x7FFFFFu;
    if (a > MPT_INF_BITS)
        return 0xFFu;
    return mpt_e8m0_less(m > (e ? 0u : 0x400000u) ? e + 1u : e, f);
}

MPT_NUMERIC uint32_t mpt_e8m0_even(const mpt_format *f, float amax) {
    uint32_t a = mpt_float_bits(amax);
    if (a > MPT_INF_BITS)
        return 0xFFu;
    return mpt_e8m0_less((a + (1u << (22 - f->mantissa_bits))) >> 23, f);
}

/* ---- E4M3 scales under an FP32 one (numerics section 6.1) ---- */

/* The second level: FP32 scales of a tensor, or of a row, whose blocks have E4M3 scales. */
typedef struct mpt_outer_scale {
    float encode;     /* S_enc: brings the largest block scale to its bound */
    float decode;     /* fl(1/S_enc) */
    float multiplier; /* fl(S_enc * fl(1/max)): from a block's amax to its scale */
} mpt_outer_scale;

/* `max` is the largest element value, `bound` the largest block scale; amax 0 (also of what has
 * no outer scale) and Inf give 1. */
MPT_NUMERIC mpt_outer_scale mpt_outer_scale_of(float max, float bound, float amax) {
    mpt_outer_scale s;
    s.encode = mpt_current_scale(bound * max, amax);
    s.decode = 1.0f / s.encode;
    s.multiplier = s.encode * (1.0f / max);
    return s;
}

/* The stored scale of a block: an E4M3 code, NaN for a NaN amax. */
MPT_NUMERIC uint32_t mpt_block_scale(float block_amax, const mpt_outer_scale *outer) {
    return mpt_encode(MPT_DTYPE_E4M3, block_amax * outer->multiplier);
}

/* What the block's values are multiplied by: the reciprocal of the scale as it was rounded. */
MPT_NUMERIC float mpt_block_encode(float block_scale, const mpt_outer_scale *outer) {
    float e = 1.0f / (block_scale * outer->decode);
    return e > MPT_FLT_MAX ? MPT_FLT_MAX : e;
}

/* What an element's value is multiplied by for what it stands for: Transformer Engine's order,
 * with the tensor's amax in place of the outer scale. `constant` is 1 / (bound * max). */
MPT_NUMERIC float mpt_outer_restore(float block_scale, float amax, float constant) {
    return block_scale * amax * constant;
}

/* Four Over Six (numerics section 6.7): the two scales that a block may have, so that its
 * largest element becomes 6 or 4. Another order of operations than mpt_block_scale. */
MPT_NUMERIC void mpt_four_over_six(float block_amax, const mpt_outer_scale *outer,
                                   uint32_t *out_six, uint32_t *out_four) {
    float base = block_amax / 6.0f * outer->encode, wide = base * 1.5f;
    *out_six = mpt_encode(MPT_DTYPE_E4M3, base);
    *out_four = mpt_encode(MPT_DTYPE_E4M3, wide);
}

/* The error of one element under a scale: `q` is its rounded value, `bound` the scale's. */
MPT_NUMERIC float mpt_four_over_six_error(float q, float scale, float amax, float bound,
                                          float x) {
    float decoded = q * scale;
    decoded = decoded * amax;
    return decoded / (6.0f * bound) - x;
}

/* ---- delayed scaling (numerics section 2.4: the fused rules) ---- */

/* The scale after a step: `last` is the step's amax, `largest` that of the window's other
 * entries, NaN left out. Where the step saw nothing (0), or the amax is 0, Inf or NaN, the
 * scale stays. */
MPT_NUMERIC float mpt_delayed_scale(float scale, float last, float largest, int most_recent,
                                    float max) {
    float amax = last;
    if (!most_recent && last != 0.0f)
        amax = last == last && last > largest ? last : largest;
    if (!(amax > 0.0f) || !mpt_is_finite(amax))
        return scale;
    float next = max / amax;
    return next > MPT_FLT_MAX ? MPT_FLT_MAX : next;
}

/* One update, after a step: history[0] gathered the step's amax; `reduced` is the largest over
 * the ranks, or 0. `max` is the largest element times 2^-margin. The scale stays where amax is
 * 0, Inf or NaN. */
MPT_NUMERIC void mpt_delayed_update(float *scale, float *history, int n, int most_recent,
                                    float reduced, float max) {
    float last = reduced != 0.0f ? reduced : history[0], largest = 0.0f;
    for (int i = 1; i < n; i++)
        largest = history[i] > largest ? history[i] : largest;
    if (last != 0.0f) {
        for (int i = 1; i + 1 < n; i++)
            history[i] = history[i + 1];
        if (n > 1)
            history[n - 1] = last;
        history[0] = 0.0f;
    }
    *scale = mpt_delayed_scale(*scale, last, largest, most_recent, max);
}

/* ---- values that are not finite ---- */

/* With one scale a tensor, what is not finite stays so element by element: x is the value
 * before the scale, `code` its cast, which saturates. Formats without NaN cannot say it. */
MPT_NUMERIC uint32_t mpt_code_visible(mpt_dtype dtype, float x, uint32_t code) {
    if (mpt_is_finite(x) || !mpt_has_nan(dtype) || mpt_is_wide(dtype))
        return code;
    mpt_format f = mpt_format_of(dtype);
    if (mpt_has_inf(dtype) && mpt_abs_bits(x) == MPT_INF_BITS)
        return mpt_code_with_sign(dtype, &f, f.max_code + 1u, mpt_float_bits(x) >> 31);
    return f.nan_code;
}

/* ---- the rotation ---- */

enum { MPT_HADAMARD_MAX = 128 };

/* Bit i set: element i is negated first. Repeated or cut for sizes other than 16. */
#define MPT_HADAMARD_SIGNS 0xD7E8u

/* fl(1/sqrt(n)) for a power of two. */
MPT_NUMERIC float mpt_hadamard_factor(int n) {
    float f = 1.0f;
    for (; n >= 4; n /= 4)
        f *= 0.5f;
    return n == 2 ? f * 0x1.6a09e6p-1f : f;
}

/* The fixed signs as a mask of 128. */
MPT_NUMERIC void mpt_fixed_signs(uint32_t signs[4]) {
    for (int i = 0; i < 4; i++)
        signs[i] = MPT_HADAMARD_SIGNS << 16 | MPT_HADAMARD_SIGNS;
}

/* v becomes H diag(signs) v / sqrt(n), in place; n = 2, 4 ... 128. Bit i of the mask stands for
 * element i. */
MPT_NUMERIC void mpt_hadamard_rotate(float *v, int n, const uint32_t signs[4]) {
    for (int i = 0; i < n; i++)
        if (signs[i / 32] >> (i % 32) & 1u)
            v[i] = -v[i];
    for (int h = 1; h < n; h *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & h)) {
                float a = v[i], b = v[i + h];
                v[i] = a + b;
                v[i + h] = a - b;
            }
    float factor = mpt_hadamard_factor(n);
    for (int i = 0; i < n; i++)
        v[i] *= factor;
}

/* The way back, in place: the matrix is symmetric but for the signs. */
MPT_NUMERIC void mpt_hadamard_unrotate(float *v, int n, const uint32_t signs[4]) {
    const uint32_t none[4] = {0, 0, 0, 0};
    mpt_hadamard_rotate(v, n, none);
    for (int i = 0; i < n; i++)
        if (signs[i / 32] >> (i % 32) & 1u)
            v[i] = -v[i];
}

#endif
