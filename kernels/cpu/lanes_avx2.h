/* Vectors of eight: the words of the quantizer's kernels in AVX2.
 *
 * The kernels (quantize_kernels.h, cast_kernels.h) are written once over these words: vf is a
 * vector of floats, vi one of 32-bit integers, v_* one operation on every lane. lanes_avx512.h
 * and lanes_portable.h say the same with other vectors; the portable one is the plainest and
 * defines what each word means. Only functions marked KERNEL may use them, and those are
 * reached only where the processor has AVX2. */
#ifndef MPT_KERNELS_CPU_LANES_AVX2_H
#define MPT_KERNELS_CPU_LANES_AVX2_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/numerics_cast.h"

enum { LANES = 8 };

#define KERNEL __attribute__((target("avx2")))
#define LANE   static inline __attribute__((always_inline, target("avx2")))

typedef __m256 vf;
typedef __m256i vi;

/* ---- memory ---- */

LANE vf v_all(float x) {
    return _mm256_set1_ps(x);
}
LANE vi v_set(uint32_t u) {
    return _mm256_set1_epi32((int)u);
}
LANE vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
LANE void v_store(float *p, vf x) {
    _mm256_storeu_ps(p, x);
}
LANE vi v_load_bits(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
LANE void v_store_bits(uint32_t *p, vi u) {
    _mm256_storeu_si256((__m256i *)(void *)p, u);
}
LANE vi v_load_bytes(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
LANE vi v_load_halves(const uint16_t *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* ---- arithmetic, one IEEE operation a lane ---- */

LANE vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
LANE vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
LANE vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
LANE vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
LANE vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
LANE vi v_plus(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
LANE vi v_minus(vi a, vi b) {
    return _mm256_sub_epi32(a, b);
}
LANE vi v_smaller(vi a, vi b) {
    return _mm256_min_epi32(a, b);
}
LANE vi v_larger(vi a, vi b) {
    return _mm256_max_epi32(a, b);
}
LANE vi v_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
LANE vi v_or(vi a, vi b) {
    return _mm256_or_si256(a, b);
}
LANE vi v_xor(vi a, vi b) {
    return _mm256_xor_si256(a, b);
}
LANE vi v_up(vi a, int n) {
    return _mm256_slli_epi32(a, n);
}
LANE vi v_down(vi a, int n) {
    return _mm256_srli_epi32(a, n);
}

/* ---- between floats and integers ---- */

LANE vi v_bits(vf x) {
    return _mm256_castps_si256(x);
}
LANE vf v_float(vi u) {
    return _mm256_castsi256_ps(u);
}
LANE vf v_of_int(vi u) {
    return _mm256_cvtepi32_ps(u);
}
LANE vi v_cut(vf x) {
    return _mm256_cvttps_epi32(x);
}

/* ---- choices ---- */

LANE vi v_if_more(vi a, vi b, vi yes, vi no) {
    return _mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(a, b));
}
LANE bool v_any_more(vi a, vi b) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, b)) != 0;
}
LANE vi v_one_if_at_least(vf a, vf b) {
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GE_OQ)), 31);
}
LANE vf v_keep_nan(vf x, vf y) {
    vf nan = _mm256_castsi256_ps(v_set(MPT_NAN_BITS));
    return _mm256_blendv_ps(y, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
LANE vf v_pick4(vi at, float t0, float t1, float t2, float t3) {
    return _mm256_permutevar_ps(_mm256_setr_ps(t0, t1, t2, t3, t0, t1, t2, t3), at);
}

/* ---- across lanes ---- */

LANE vi v_max_of_2(vi a, vi b) {
    return _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
LANE vi v_max_of_4(vi a, vi b, vi c, vi d) {
    vi ab = v_max_of_2(a, b), cd = v_max_of_2(c, d);
    return _mm256_max_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}
LANE vi v_max_of_each(const vi m[LANES]) {
    vi low = v_max_of_4(m[0], m[1], m[2], m[3]), high = v_max_of_4(m[4], m[5], m[6], m[7]);
    return _mm256_max_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                            _mm256_permute2x128_si256(low, high, 0x31));
}

/* Lanes i and i ^ h become their sum and their difference. */
LANE vf v_butterfly(vf x, int h) {
    const vf minus = v_all(-0.0f), none = v_all(0.0f);
    if (h == 1)
        return v_add(_mm256_moveldup_ps(x),
                     _mm256_xor_ps(_mm256_movehdup_ps(x), _mm256_blend_ps(none, minus, 0xAA)));
    if (h == 2)
        return v_add(
            _mm256_permute_ps(x, 0x44),
            _mm256_xor_ps(_mm256_permute_ps(x, 0xEE), _mm256_blend_ps(none, minus, 0xCC)));
    return v_add(
        _mm256_permute2f128_ps(x, x, 0x00),
        _mm256_xor_ps(_mm256_permute2f128_ps(x, x, 0x11), _mm256_blend_ps(none, minus, 0xF0)));
}

/* Lanes below 256 of four vectors as bytes, in order. */
LANE void v_store_bytes4(uint8_t *p, vi a, vi b, vi c, vi d) {
    vi t = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    t = _mm256_permutevar8x32_epi32(t, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)p, t);
}

/* The same of four vectors of codes below 1 << `width`, with the signs of y above them: the
 * saturating packs keep what is negative. The order is that of the packs. */
LANE vi v_signed_bytes4(const vi code[4], const vf y[4], int width) {
    vi t = _mm256_packus_epi16(_mm256_packus_epi32(code[0], code[1]),
                               _mm256_packus_epi32(code[2], code[3]));
    vi s = _mm256_packs_epi16(
        _mm256_packs_epi32(_mm256_castps_si256(y[0]), _mm256_castps_si256(y[1])),
        _mm256_packs_epi32(_mm256_castps_si256(y[2]), _mm256_castps_si256(y[3])));
    vi sign = _mm256_set1_epi8((char)(1 << width));
    return _mm256_or_si256(t, _mm256_and_si256(_mm256_srli_epi16(s, 7 - width), sign));
}
LANE void v_store_signed4(uint8_t *p, const vi code[4], const vf y[4], int width) {
    vi t = v_signed_bytes4(code, y, width);
    t = _mm256_permutevar8x32_epi32(t, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)p, t);
}
/* Codes of four bits with their signs, two a byte, the even one low. */
LANE void v_store_nibbles4(uint8_t *p, const vi code[4], const vf y[4]) {
    vi t = _mm256_maddubs_epi16(v_signed_bytes4(code, y, 3), _mm256_set1_epi16(0x1001));
    __m128i b = _mm_packus_epi16(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1));
    b = _mm_shuffle_epi8(b,
                         _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    _mm_storeu_si128((__m128i *)(void *)p, b);
}

/* 64 codes of four bits, a byte each, as 32 bytes: the even one low. */
LANE void v_pack_nibbles(uint8_t *p, const uint8_t *codes) {
    vi weights = _mm256_set1_epi16(0x1001);
    vi a = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    vi b = _mm256_loadu_si256((const __m256i *)(const void *)(codes + 32));
    vi t =
        _mm256_packus_epi16(_mm256_maddubs_epi16(a, weights), _mm256_maddubs_epi16(b, weights));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(t, 0xD8));
}

#include "kernels/cpu/lanes_bytes.h"

/* ---- half as many lanes of doubles: sums ---- */

typedef __m256d vd;

LANE vd v_no_sum(void) {
    return _mm256_setzero_pd();
}
LANE vd v_lower(vf x) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
LANE vd v_upper(vf x) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}
LANE vd v_less(vd a, vd b) {
    return _mm256_sub_pd(a, b);
}
LANE vd v_add_square(vd sum, vd x) {
    return _mm256_add_pd(sum, _mm256_mul_pd(x, x));
}
LANE void v_store_sum(double *p, vd x) {
    _mm256_storeu_pd(p, x);
}

/* ---- half as many lanes of 64 bits: counters of the random stream ---- */

LANE vi v_series64(uint64_t first, uint64_t step) {
    return _mm256_setr_epi64x((int64_t)first, (int64_t)(first + step),
                              (int64_t)(first + 2 * step), (int64_t)(first + 3 * step));
}
LANE vi v_plus64(vi a, vi b) {
    return _mm256_add_epi64(a, b);
}
LANE vi v_product64(vi a, vi b) { /* of the low halves */
    return _mm256_mul_epu32(a, b);
}
LANE vi v_high64(vi a) {
    return _mm256_srli_epi64(a, 32);
}
LANE vi v_halves64(vi low, vi high) { /* the low halves of both */
    return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
}
LANE void v_store_pairs64(uint8_t *p, vi a, vi b) { /* a0 b0 a1 b1 ... */
    vi low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(p + 32),
                        _mm256_permute2x128_si256(low, high, 0x31));
}

#endif
