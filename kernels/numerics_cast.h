/* Casts: float32 to the codes of a format and back.
 *
 * Each cast rounds once, from the float32 value. FP8, FP6, FP4, INT8 and E5M6 saturate; FP16,
 * BF16 and TF32 overflow to Inf, as the loss scaler has to see it. NaN gives one canonical code
 * a format; a format without NaN gives its largest value, so callers that must keep NaN visible
 * look at the source (numerics_scale.h). The facts of each format are its row in formats.h. */
#ifndef MPT_KERNELS_NUMERICS_CAST_H
#define MPT_KERNELS_NUMERICS_CAST_H

#include <stdint.h>

#include "kernels/formats.h"

#if defined(__CUDACC__)
#define MPT_NUMERIC static __host__ __device__ __forceinline__
#else
#include <string.h>
#define MPT_NUMERIC static inline
#endif

#define MPT_INF_BITS 0x7F800000u
#define MPT_NAN_BITS 0x7FC00000u
#define MPT_ABS_BITS 0x7FFFFFFFu
#define MPT_FLT_MAX  0x1.fffffep127f

MPT_NUMERIC uint32_t mpt_float_bits(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
#endif
}

MPT_NUMERIC float mpt_bits_float(uint32_t u) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(u);
#else
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
#endif
}

MPT_NUMERIC uint32_t mpt_abs_bits(float x) {
    return mpt_float_bits(x) & MPT_ABS_BITS;
}

MPT_NUMERIC int mpt_is_finite(float x) {
    return mpt_abs_bits(x) < MPT_INF_BITS;
}

/* Formats whose values are kept as they are, without a scale; overflow there is Inf. */
MPT_NUMERIC int mpt_is_wide(mpt_dtype dtype) {
    return dtype == MPT_DTYPE_FP32 || dtype == MPT_DTYPE_TF32 || dtype == MPT_DTYPE_BF16 ||
           dtype == MPT_DTYPE_FP16;
}

/* Whether an element can say NaN by itself; where none can, the scale has to. */
MPT_NUMERIC int mpt_has_nan(mpt_dtype dtype) {
    return dtype != MPT_DTYPE_E2M1 && dtype != MPT_DTYPE_E3M2 && dtype != MPT_DTYPE_E2M3 &&
           dtype != MPT_DTYPE_INT8;
}

/* Whether an element can say Inf. */
MPT_NUMERIC int mpt_has_inf(mpt_dtype dtype) {
    return mpt_is_wide(dtype) || dtype == MPT_DTYPE_E5M2 || dtype == MPT_DTYPE_E5M6;
}

/* Bits that a code takes in memory: 4-bit codes lie two a byte, all others in whole bytes. */
MPT_NUMERIC int mpt_code_bits(mpt_dtype dtype) {
    switch (dtype) {
    case MPT_DTYPE_E2M1:
        return 4;
    case MPT_DTYPE_BF16:
    case MPT_DTYPE_FP16:
    case MPT_DTYPE_E5M6:
        return 16;
    case MPT_DTYPE_FP32:
    case MPT_DTYPE_TF32:
        return 32;
    default:
        return 8;
    }
}

/* ---- formats ---- */

/* What a cast needs to know of a format. Codes here are without the sign. */
typedef struct mpt_format {
    int exponent_bits, mantissa_bits, bias;
    int shift;              /* from the code to its place in memory: TF32 lies in 32 bits */
    float max;              /* largest finite value */
    uint32_t max_code;      /* its code */
    uint32_t overflow_code; /* what everything larger becomes, Inf included */
    uint32_t nan_code;      /* what NaN becomes; the largest finite code where there is none */
} mpt_format;

/* What is added to a significand that loses k bits, of which `odd` is the one that stays
 * lowest. Half an ulp less one, plus that bit, makes ties go to even. */
typedef enum mpt_round_mode { MPT_ROUND_EVEN, MPT_ROUND_ZERO, MPT_ROUND_AWAY } mpt_round_mode;

MPT_NUMERIC uint32_t mpt_round_addend(mpt_round_mode mode, int k, uint32_t odd) {
    if (mode == MPT_ROUND_ZERO)
        return 0;
    return mode == MPT_ROUND_AWAY ? 1u << (k - 1) : (1u << (k - 1)) - 1u + odd;
}

/* Code of the magnitude with bits a (not NaN), with no upper limit. The significand as an
 * integer loses k bits. Where k reaches 25 nothing is left to round up. */
MPT_NUMERIC uint32_t mpt_magnitude_code(const mpt_format *f, uint32_t a, mpt_round_mode mode) {
    int biased = (int)(a >> 23);
    uint32_t m = (a & 0x7FFFFFu) | (biased ? 0x800000u : 0u);
    int target = (biased ? biased : 1) - 127 + f->bias;
    int k = 23 - f->mantissa_bits;
    if (target < 1) {
        k += 1 - target;
        target = 1;
    }
    k = k > 25 ? 25 : k;
    if (k == 0)
        return a;
    uint32_t q = (m + mpt_round_addend(mode, k, m >> k & 1u)) >> k;
    return q + ((uint32_t)(target - 1) << f->mantissa_bits);
}

/* The format of a floating dtype, or of INT8. */
MPT_NUMERIC mpt_format mpt_format_of(mpt_dtype dtype) {
    mpt_format f = {0, 0, 0, 0, 0.0f, 0, 0, 0};
    switch (dtype) {
#define MPT_FORMAT_CASE(id, text, width, e, m, b, largest)                                     \
    case MPT_DTYPE_##id:                                                                       \
        f.exponent_bits = (e);                                                                 \
        f.mantissa_bits = (m);                                                                 \
        f.bias = (b);                                                                          \
        f.max = (float)(largest);                                                              \
        break;
        MPT_FORMAT_LIST(MPT_FORMAT_CASE)
#undef MPT_FORMAT_CASE
    default:
        break;
    }
    f.shift = dtype == MPT_DTYPE_TF32 ? 13 : 0;
    f.max_code = mpt_magnitude_code(&f, mpt_float_bits(f.max), MPT_ROUND_EVEN);
    f.overflow_code = mpt_is_wide(dtype) ? f.max_code + 1u : f.max_code;
    f.nan_code =
        mpt_has_nan(dtype) ? (1u << (f.exponent_bits + f.mantissa_bits)) - 1u : f.max_code;
    return f;
}

/* A magnitude's code with its sign, in the place that it has in memory. INT8 is in two's
 * complement, so it has one zero only. */
MPT_NUMERIC uint32_t mpt_code_with_sign(mpt_dtype dtype, const mpt_format *f, uint32_t code,
                                        uint32_t sign) {
    if (dtype == MPT_DTYPE_INT8)
        return (sign ? 0u - code : code) & 0xFFu;
    return (code | sign << (f->exponent_bits + f->mantissa_bits)) << f->shift;
}

/* ---- casts ---- */

/* The code of x in memory's width; NaN loses its sign. `f` is mpt_format_of(dtype), which loops
 * make once. */
MPT_NUMERIC uint32_t mpt_encode_as(mpt_dtype dtype, const mpt_format *f, float x,
                                   mpt_round_mode mode) {
    uint32_t a = mpt_abs_bits(x);
    if (a > MPT_INF_BITS)
        return f->nan_code << f->shift;
    uint32_t code = mpt_magnitude_code(f, a, mode);
    if (code > f->max_code)
        code = f->overflow_code;
    return mpt_code_with_sign(dtype, f, code, mpt_float_bits(x) >> 31);
}

MPT_NUMERIC uint32_t mpt_encode_by(mpt_dtype dtype, float x, mpt_round_mode mode) {
    mpt_format f = mpt_format_of(dtype);
    return mpt_encode_as(dtype, &f, x, mode);
}

/* Whether a cast of x meets the end of the range: rounded to nearest with no upper limit it
 * would be beyond the largest value. NaN does not. */
MPT_NUMERIC int mpt_overflows(const mpt_format *f, float x) {
    uint32_t a = mpt_abs_bits(x);
    return a <= MPT_INF_BITS && mpt_magnitude_code(f, a, MPT_ROUND_EVEN) > f->max_code;
}

/* To nearest, ties to even. */
MPT_NUMERIC uint32_t mpt_encode(mpt_dtype dtype, float x) {
    return mpt_encode_by(dtype, x, MPT_ROUND_EVEN);
}

/* A scale's value: 2^(code - 127), subnormal for code 0; 0xFF is NaN. */
MPT_NUMERIC float mpt_decode_e8m0(uint32_t code) {
    if (code == 0xFFu)
        return mpt_bits_float(MPT_NAN_BITS);
    return mpt_bits_float(code ? code << 23 : 0x400000u);
}

MPT_NUMERIC float mpt_decode_int8(uint32_t code) {
    int value = (int)(code & 0xFFu);
    return (float)(value < 128 ? value : value - 256) * 0x1p-6f;
}

/* The value of a code; exact in float32 for every format. */
MPT_NUMERIC float mpt_decode(mpt_dtype dtype, uint32_t code) {
    if (dtype == MPT_DTYPE_E8M0)
        return mpt_decode_e8m0(code);
    if (dtype == MPT_DTYPE_INT8)
        return mpt_decode_int8(code);
    mpt_format f = mpt_format_of(dtype);
    code >>= f.shift;
    int width = f.exponent_bits + f.mantissa_bits;
    uint32_t sign = (code >> width & 1u) << 31, a = code & ((1u << width) - 1u);
    uint32_t e = a >> f.mantissa_bits, m = a & ((1u << f.mantissa_bits) - 1u);
    if (a > f.max_code) /* beyond the largest: Inf where the format has it, else NaN */
        return mpt_bits_float(sign | (m == 0 ? MPT_INF_BITS : MPT_NAN_BITS));
    m <<= 23 - f.mantissa_bits;
    if (e == 0 && f.bias == 127)
        return mpt_bits_float(sign | m);
    if (e == 0) { /* subnormal: two exact float operations normalize it */
        float one = mpt_bits_float((uint32_t)(128 - f.bias) << 23);
        return mpt_bits_float(
            sign | mpt_float_bits(mpt_bits_float((uint32_t)(128 - f.bias) << 23 | m) - one));
    }
    return mpt_bits_float(sign | (e + (uint32_t)(127 - f.bias)) << 23 | m);
}

/* x rounded to the format, as a float. */
MPT_NUMERIC float mpt_round(mpt_dtype dtype, float x) {
    return mpt_decode(dtype, mpt_encode(dtype, x));
}

#endif
