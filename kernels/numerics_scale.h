/* Scales, their order of operations, and the Hadamard rotation.
 *
 * Every line is one float32 operation or a cast, in the order that the contract fixes: writing
 * S_enc/s8 for 1/(s8*S_dec), or amax/6*S_enc for amax*(S_enc/6), changes codes. NaN passes
 * through, so a block with a value that is not finite gets a NaN scale. */
#ifndef MPT_KERNELS_NUMERICS_SCALE_H
#define MPT_KERNELS_NUMERICS_SCALE_H

#include "kernels/numerics_cast.h"

#define MPT_E4M3_MAX 448.0f

/* What the values of one tensor or block are multiplied by before a cast to a format whose
 * largest value is max. Its reciprocal decodes. */
MPT_NUMERIC float mpt_current_scale(float max, float amax) {
    if (amax == 0.0f)
        return 1.0f;
    float scale = max / amax;
    return scale > MPT_FLT_MAX ? MPT_FLT_MAX : scale;
}

/* The second level: FP32 scales of a tensor whose blocks have E4M3 scales. */
typedef struct mpt_outer_scale {
    float encode;     /* S_enc: brings the largest block scale to E4M3's largest value */
    float decode;     /* fl(1/S_enc) */
    float multiplier; /* fl(S_enc * fl(1/max)): from a block's amax to its scale */
} mpt_outer_scale;

/* `max` is the largest element value; amax is finite, and 0 stands for "no outer scale". */
MPT_NUMERIC mpt_outer_scale mpt_outer_scale_of(float max, float amax) {
    mpt_outer_scale s;
    s.encode = mpt_current_scale(MPT_E4M3_MAX * max, amax);
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

/* With one scale a tensor, what is not finite stays so element by element: x is the value
 * before the scale, `code` its cast, which saturates. E2M1 has no way to say it. */
MPT_NUMERIC uint32_t mpt_code_visible(mpt_dtype dtype, float x, uint32_t code) {
    if (mpt_is_finite(x))
        return code;
    if (dtype == MPT_DTYPE_E4M3)
        return 0x7Fu;
    if (dtype == MPT_DTYPE_E5M2 && mpt_abs_bits(x) == MPT_INF_BITS)
        return 0x7Cu | mpt_float_bits(x) >> 31 << 7;
    return code;
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

/* v becomes H diag(signs) v / sqrt(n), in place; n = 2, 4 ... 128. */
MPT_NUMERIC void mpt_hadamard_rotate(float *v, int n, uint32_t signs) {
    for (int i = 0; i < n; i++)
        if (signs >> (i % 16) & 1u)
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

#endif
