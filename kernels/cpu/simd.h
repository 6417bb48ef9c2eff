/* Eight floats at a time: the AVX2 words that the CPU's quantizers are written in.
 *
 * Functions that use AVX2 carry the attribute and are reached only where mpt_cpu_has_avx2()
 * says so, so one build runs on every x86-64. Each word gives the bits of its namesake in
 * numerics.h; tests compare them over all inputs. */
#ifndef MPT_KERNELS_CPU_SIMD_H
#define MPT_KERNELS_CPU_SIMD_H

#include <stdbool.h>

#include "kernels/numerics.h"

#if defined(__x86_64__)
#define MPT_HAS_X86 1
#include <immintrin.h>

/* Before a loop of constant length: its vectors then stay in registers. */
#if defined(__clang__)
#define MPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MPT_UNROLL _Pragma("GCC unroll 16")
#endif

#define MPT_AVX2 __attribute__((target("avx2")))
#define MPT_LANE static inline __attribute__((always_inline, target("avx2")))

MPT_LANE __m256 mpt_v_all(float x) {
    return _mm256_set1_ps(x);
}
/* A vector of eight of one 32-bit pattern, and casts that cost nothing. */
MPT_LANE __m256i mpt_v_set(uint32_t u) {
    return _mm256_set1_epi32((int)u);
}
MPT_LANE __m256i mpt_v_bits(__m256 x) {
    return _mm256_castps_si256(x);
}
MPT_LANE __m256 mpt_v_float(__m256i u) {
    return _mm256_castsi256_ps(u);
}
MPT_LANE __m256i mpt_v_abs(__m256 x) {
    return _mm256_and_si256(mpt_v_bits(x), mpt_v_set(MPT_ABS_BITS));
}

/* y where x is a number, the canonical NaN where it is not. */
MPT_LANE __m256 mpt_v_keep_nan(__m256 x, __m256 y) {
    return _mm256_blendv_ps(y, mpt_v_float(mpt_v_set(MPT_NAN_BITS)),
                            _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* Bits rounded to nearest even so that `shift` low bits are zero; carries run into the
 * exponent, as they should. */
MPT_LANE __m256i mpt_v_round_bits(__m256i u, int shift) {
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, shift), mpt_v_set(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, mpt_v_set((1u << (shift - 1)) - 1u)));
    return _mm256_and_si256(r, mpt_v_set(~((1u << shift) - 1u)));
}

/* mpt_round(BF16, x) but for NaN, and for TF32 with shift 13. */
MPT_LANE __m256 mpt_v_round_wide(__m256 x, int shift) {
    return mpt_v_float(mpt_v_round_bits(mpt_v_bits(x), shift));
}

MPT_LANE __m256 mpt_v_round_bf16(__m256 x) {
    return mpt_v_keep_nan(x, mpt_v_round_wide(x, 16));
}

/* What a narrow format is to a vector: constants that fold away once inlined. */
typedef struct mpt_v_format {
    int shift;    /* mantissa bits that go */
    float normal; /* smallest normal; below it values are multiples of its last place ... */
    float magic;  /* ... which is the last place of this power of two */
    float max;
    float overflow; /* what is larger becomes this: max, or Inf */
} mpt_v_format;

#define MPT_V_FP16                                                                             \
    { 13, 0x1p-14f, 0x1p-1f, 65504.0f, 0.0f }
#define MPT_V_E4M3                                                                             \
    { 20, 0x1p-6f, 0x1p14f, 448.0f, 448.0f }
#define MPT_V_E5M2                                                                             \
    { 21, 0x1p-14f, 0x1p7f, 57344.0f, 57344.0f }

/* Finite x rounded to a format of smaller exponent range than float32; Inf overflows. */
MPT_LANE __m256 mpt_v_round_narrow(__m256 x, mpt_v_format f) {
    __m256i a = mpt_v_abs(x),
            sign = _mm256_andnot_si256(mpt_v_set(MPT_ABS_BITS), mpt_v_bits(x));
    __m256 magic = _mm256_set1_ps(f.magic), max = _mm256_set1_ps(f.max);
    __m256 normal = mpt_v_float(mpt_v_round_bits(a, f.shift));
    __m256 small = _mm256_sub_ps(_mm256_add_ps(mpt_v_float(a), magic), magic);
    __m256i is_small = _mm256_cmpgt_epi32(mpt_v_set(mpt_float_bits(f.normal)), a);
    __m256 r = _mm256_blendv_ps(normal, small, mpt_v_float(is_small));
    r = _mm256_blendv_ps(r, _mm256_set1_ps(f.overflow), _mm256_cmp_ps(r, max, _CMP_GT_OQ));
    return _mm256_or_ps(r, mpt_v_float(sign));
}

static inline bool mpt_cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") != 0;
}
#else
static inline bool mpt_cpu_has_avx2(void) {
    return false;
}
#endif

#endif
