/* Sixteen values of one block to their codes, in registers: the inner step of the fast
 * quantizers, for E4M3, E5M2 and E2M1.
 *
 * The same codes as mpt_quantize_code gives, in fewer instructions: by the instruction of the
 * hardware where there is one (FP8 from SM89 on, E2M1 on SM100a); else E2M1 by one float
 * addition that rounds at the right place. Tests hold both against mpt_encode and
 * mpt_encode_stochastic. */
#ifndef MPT_KERNELS_CUDA_QUANTIZE_GROUP_H
#define MPT_KERNELS_CUDA_QUANTIZE_GROUP_H

#include "kernels/cuda/quantize_copy.h"

enum { GROUP = MPT_RANDOM_GROUP };

/* ---- one code ---- */

/* E2M1 to nearest even: a number of 2^22 steps is added, so that the sum ends at a step, and
 * taken away again from the bits. Steps are 0.5 below 2, then 1, then 2. */
static __device__ __forceinline__ uint32_t e2m1_nearest(float x) {
    uint32_t bits = mpt_float_bits(x), a = bits & MPT_ABS_BITS;
    if (a > MPT_INF_BITS)
        return 7u;
    float m = mpt_bits_float(a > 0x40C00000u ? 0x40C00000u : a); /* 6 */
    uint32_t exponent = mpt_float_bits(m) & MPT_INF_BITS;
    exponent = exponent < 0x3F800000u ? 0x3F800000u : exponent;
    uint32_t magic = exponent + (22u << 23);
    uint32_t steps = mpt_float_bits(m + mpt_bits_float(magic)) - magic;
    return (bits >> 28 & 8u) | (steps + (exponent >> 22) - (0x3F800000u >> 22));
}

/* Two codes of E2M1, the first in the low half of a byte. */
static __device__ __forceinline__ uint32_t e2m1_pair(float low, float high) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    uint32_t pair;
    asm("{ .reg .b8 codes;\n"
        " cvt.rn.satfinite.e2m1x2.f32 codes, %1, %2;\n"
        " cvt.u32.u8 %0, codes; }"
        : "=r"(pair)
        : "f"(high), "f"(low));
    return pair;
#else
    return e2m1_nearest(low) | e2m1_nearest(high) << 4;
#endif
}

/* E2M1 by one random byte, as mpt_encode_stochastic_byte: byte/256 of a step is added, then all
 * below a step is cut off. */
static __device__ __forceinline__ uint32_t e2m1_stochastic(float x, uint32_t byte) {
    uint32_t bits = mpt_float_bits(x), a = bits & MPT_ABS_BITS;
    if (a > MPT_INF_BITS)
        return 7u;
    float m = mpt_bits_float(a > 0x40C00000u ? 0x40C00000u : a);
    uint32_t exponent = mpt_float_bits(m) & MPT_INF_BITS;
    exponent = exponent < 0x3F800000u ? 0x3F800000u : exponent;
    float t = m + (float)byte * mpt_bits_float(exponent - (9u << 23)); /* of a step's 256th */
    uint32_t u = mpt_float_bits(t);
    uint32_t code = t < 1.0f ? (t >= 0.5f ? 1u : 0u) : (u >> 22) - (0x3F800000u >> 22) + 2u;
    return (bits >> 28 & 8u) | (code > 7u ? 7u : code);
}

/* Two codes of FP8, saturating, NaN without its sign. */
template <mpt_dtype FORMAT>
static __device__ __forceinline__ uint32_t fp8_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    unsigned short pair;
    if (FORMAT == MPT_DTYPE_E4M3)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    mpt_format f = mpt_format_of(FORMAT);
    return mpt_encode_as(FORMAT, &f, low, MPT_ROUND_EVEN) |
           mpt_encode_as(FORMAT, &f, high, MPT_ROUND_EVEN) << 8;
#endif
}

/* ---- a group ---- */

template <mpt_dtype FORMAT> struct group_codes {
    static const int WORDS = FORMAT == MPT_DTYPE_E2M1 ? 2 : 4;
    uint32_t word[WORDS];
};

/* The largest bits of magnitudes. */
static __device__ __forceinline__ uint32_t group_most(const float v[GROUP]) {
    uint32_t most = 0;
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++) {
        uint32_t a = mpt_abs_bits(v[i]);
        most = a > most ? a : most;
    }
    return most;
}

/* The same without NaN, for what has seen one. */
static __device__ __forceinline__ uint32_t group_most_but_nan(const float v[GROUP],
                                                              uint32_t limit) {
    uint32_t most = 0;
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++) {
        uint32_t a = mpt_abs_bits(v[i]);
        most = a <= limit && a > most ? a : most;
    }
    return most;
}

/* What mpt_quantize_amax_see makes of the group. */
static __device__ __forceinline__ mpt_quantize_amax group_seen(const float v[GROUP],
                                                               uint32_t most) {
    mpt_quantize_amax seen = {most, false, false};
    if (most < MPT_INF_BITS)
        return seen;
    seen.finite = group_most_but_nan(v, MPT_INF_BITS - 1u);
    seen.inf = group_most_but_nan(v, MPT_INF_BITS) == MPT_INF_BITS;
    seen.nan = most > MPT_INF_BITS;
    return seen;
}

/* ---- its rotation ---- */

template <int H> static __device__ __forceinline__ void butterfly(float v[GROUP]) {
    GPU_UNROLL
    for (int p = 0; p < GROUP / 2; p++) {
        const int i = p / H * 2 * H + p % H;
        float a = v[i], b = v[i + H];
        v[i] = a + b;
        v[i + H] = a - b;
    }
}

/* mpt_hadamard_rotate of 16 values but for the last factor. */
static __device__ __forceinline__ void rotate_sums(float v[GROUP], uint32_t signs) {
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++)
        v[i] = mpt_bits_float(mpt_float_bits(v[i]) ^ (signs >> i & 1u) << 31);
    butterfly<1>(v);
    butterfly<2>(v);
    butterfly<4>(v);
    butterfly<8>(v);
}

/* All of it, and the rounding of a BF16 operand. */
static __device__ __forceinline__ void rotate(float v[GROUP], uint32_t signs) {
    rotate_sums(v, signs);
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++)
        v[i] = mpt_bits_float(gpu_encode_bf16(v[i] * 0.25f) << 16);
}

/* ---- its codes ---- */

template <mpt_dtype FORMAT, bool STOCHASTIC>
static __device__ __forceinline__ group_codes<FORMAT>
group_encode(const float v[GROUP], float encode, const mpt_random_key *key, uint64_t group) {
    group_codes<FORMAT> codes;
    uint8_t random[GROUP];
    if (STOCHASTIC)
        mpt_random_bytes(key, group, 0, random);
    GPU_UNROLL
    for (int w = 0; w < group_codes<FORMAT>::WORDS; w++)
        codes.word[w] = 0;
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++) {
        float y = v[i] * encode;
        if (FORMAT == MPT_DTYPE_E2M1 && STOCHASTIC) {
            codes.word[i / 8] |= e2m1_stochastic(y, random[i]) << (i % 8 * 4);
        } else if (FORMAT == MPT_DTYPE_E2M1 && i % 2 == 0) {
            codes.word[i / 8] |= e2m1_pair(y, v[i + 1] * encode) << (i % 8 * 4);
        } else if (i % 2 == 0) {
            codes.word[i / 4] |= fp8_pair<FORMAT>(y, v[i + 1] * encode) << (i % 4 * 8);
        }
    }
    return codes;
}

/* Of FP8 under one scale: what is not finite stays visible. */
template <mpt_dtype FORMAT>
static __device__ __forceinline__ void group_show(const float v[GROUP],
                                                  group_codes<FORMAT> *codes) {
    GPU_UNROLL
    for (int i = 0; i < GROUP; i++) {
        uint32_t *word = &codes->word[i / 4 % group_codes<FORMAT>::WORDS];
        int at = i % 4 * 8;
        uint32_t code = mpt_code_visible(FORMAT, v[i], *word >> at & 0xFFu);
        *word = (*word & ~(0xFFu << at)) | code << at;
    }
}

static __device__ __forceinline__ void group_put(uint8_t *to, const uint32_t (&word)[2]) {
    *(uint2 *)to = uint2{word[0], word[1]};
}

static __device__ __forceinline__ void group_put(uint8_t *to, const uint32_t (&word)[4]) {
    *(uint4 *)to = uint4{word[0], word[1], word[2], word[3]};
}

/* ---- pairs of columns ---- */

/* Words of two BF16 values, as a group of each of two columns. */
static __device__ __forceinline__ void pair_values(uint32_t word, int i, float v[2][GROUP]) {
    v[0][i] = mpt_bits_float(word << 16);
    v[1][i] = mpt_bits_float(word & 0xFFFF0000u);
}

static __device__ __forceinline__ uint32_t pair_word(const float v[2][GROUP], int i) {
    return mpt_float_bits(v[0][i]) >> 16 | (mpt_float_bits(v[1][i]) & 0xFFFF0000u);
}

#endif
