/* Vectors of sixteen: the words of the quantizer's kernels in AVX-512 (F, BW, DQ and VL).
 *
 * What each word means is in lanes_portable.h. A test compiles this file against an AVX-512
 * written in plain C (tests/avx512_model.h), by defining MPT_AVX512_MODEL, so that it is also
 * held against ref where no processor has these instructions. */
#ifndef MPT_KERNELS_CPU_LANES_AVX512_H
#define MPT_KERNELS_CPU_LANES_AVX512_H

#include <stdbool.h>

#ifndef MPT_AVX512_MODEL
#include <immintrin.h>
#define KERNEL __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif
#define LANE static inline __attribute__((always_inline)) KERNEL

#include "kernels/numerics_cast.h"

enum { LANES = 16 };

typedef __m512 vf;
typedef __m512i vi;

/* ---- memory ---- */

LANE vf v_all(float x) {
    return _mm512_set1_ps(x);
}
LANE vi v_set(uint32_t u) {
    return _mm512_set1_epi32((int)u);
}
LANE vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LANE void v_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}
LANE vi v_load_bits(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
LANE void v_store_bits(uint32_t *p, vi u) {
    _mm512_storeu_si512(p, u);
}
LANE vi v_load_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LANE vi v_load_halves(const uint16_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* ---- arithmetic, one IEEE operation a lane ---- */

LANE vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
LANE vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
LANE vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
LANE vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
LANE vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
LANE vi v_plus(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
LANE vi v_minus(vi a, vi b) {
    return _mm512_sub_epi32(a, b);
}
LANE vi v_smaller(vi a, vi b) {
    return _mm512_min_epi32(a, b);
}
LANE vi v_larger(vi a, vi b) {
    return _mm512_max_epi32(a, b);
}
LANE vi v_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
LANE vi v_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
LANE vi v_xor(vi a, vi b) {
    return _mm512_xor_si512(a, b);
}
LANE vi v_up(vi a, int n) {
    return _mm512_slli_epi32(a, (unsigned)n);
}
LANE vi v_down(vi a, int n) {
    return _mm512_srli_epi32(a, (unsigned)n);
}

/* ---- between floats and integers ---- */

LANE vi v_bits(vf x) {
    return _mm512_castps_si512(x);
}
LANE vf v_float(vi u) {
    return _mm512_castsi512_ps(u);
}
LANE vf v_of_int(vi u) {
    return _mm512_cvtepi32_ps(u);
}
LANE vi v_cut(vf x) {
    return _mm512_cvttps_epi32(x);
}

/* ---- choices ---- */

LANE vi v_if_more(vi a, vi b, vi yes, vi no) {
    return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), no, yes);
}
LANE bool v_any_more(vi a, vi b) {
    return _mm512_cmpgt_epi32_mask(a, b) != 0;
}
LANE vi v_one_if_at_least(vf a, vf b) {
    return _mm512_maskz_set1_epi32(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), 1);
}
LANE vf v_keep_nan(vf x, vf y) {
    vf nan = _mm512_castsi512_ps(v_set(MPT_NAN_BITS));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), y, nan);
}
LANE vf v_pick4(vi at, float t0, float t1, float t2, float t3) {
    return _mm512_permutevar_ps(_mm512_setr4_ps(t0, t1, t2, t3), at);
}

/* ---- across lanes ---- */

LANE vi v_max_of_each(const vi m[LANES]) {
    vi a[8], b[4], c[2];
    for (int i = 0; i < 8; i++)
        a[i] = _mm512_max_epi32(_mm512_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                                _mm512_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
    for (int i = 0; i < 4; i++)
        b[i] = _mm512_max_epi32(_mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        c[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0x88),
                                _mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0xDD));
    return _mm512_max_epi32(_mm512_shuffle_i32x4(c[0], c[1], 0x88),
                            _mm512_shuffle_i32x4(c[0], c[1], 0xDD));
}

/* even + odd, with odd's sign turned in the lanes of the mask. */
LANE vf v_turned_sum(vf even, vf odd, __mmask16 turned) {
    vi bits = v_bits(odd);
    bits = _mm512_mask_xor_epi32(bits, turned, bits, v_set(~MPT_ABS_BITS));
    return v_add(even, v_float(bits));
}
LANE vf v_butterfly(vf x, int h) {
    if (h == 1)
        return v_turned_sum(_mm512_moveldup_ps(x), _mm512_movehdup_ps(x), 0xAAAA);
    if (h == 2)
        return v_turned_sum(_mm512_permute_ps(x, 0x44), _mm512_permute_ps(x, 0xEE), 0xCCCC);
    if (h == 4)
        return v_turned_sum(_mm512_shuffle_f32x4(x, x, 0xA0), _mm512_shuffle_f32x4(x, x, 0xF5),
                            0xF0F0);
    return v_turned_sum(_mm512_shuffle_f32x4(x, x, 0x44), _mm512_shuffle_f32x4(x, x, 0xEE),
                        0xFF00);
}

LANE void v_store_bytes4(uint8_t *p, vi a, vi b, vi c, vi d) {
    vi t = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    vi order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, t));
}
LANE void v_store_signed4(uint8_t *p, const vi code[4], const vf y[4], int width) {
    vi c[4];
    for (int u = 0; u < 4; u++)
        c[u] = v_or(code[u], v_and(v_down(v_bits(y[u]), 31 - width), v_set(1u << width)));
    v_store_bytes4(p, c[0], c[1], c[2], c[3]);
}
LANE void v_pack_nibbles(uint8_t *p, const uint8_t *codes) {
    vi pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(codes), _mm512_set1_epi16(0x1001));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi16_epi8(pairs));
}

LANE void v_store_nibbles4(uint8_t *p, const vi code[4], const vf y[4]) {
    uint8_t codes[4 * LANES];
    v_store_signed4(codes, code, y, 3);
    v_pack_nibbles(p, codes);
}

#include "kernels/cpu/lanes_bytes.h"

/* ---- half as many lanes of doubles: sums ---- */

typedef __m512d vd;

LANE vd v_no_sum(void) {
    return _mm512_set1_pd(0);
}
LANE vd v_lower(vf x) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
LANE vd v_upper(vf x) {
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}
LANE vd v_less(vd a, vd b) {
    return _mm512_sub_pd(a, b);
}
LANE vd v_add_square(vd sum, vd x) {
    return _mm512_add_pd(sum, _mm512_mul_pd(x, x));
}
LANE void v_store_sum(double *p, vd x) {
    _mm512_storeu_pd(p, x);
}

/* ---- half as many lanes of 64 bits: counters of the random stream ---- */

LANE vi v_series64(uint64_t first, uint64_t step) {
    vi i = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_add_epi64(_mm512_set1_epi64((int64_t)first),
                            _mm512_mullo_epi64(i, _mm512_set1_epi64((int64_t)step)));
}
LANE vi v_plus64(vi a, vi b) {
    return _mm512_add_epi64(a, b);
}
LANE vi v_product64(vi a, vi b) {
    return _mm512_mul_epu32(a, b);
}
LANE vi v_high64(vi a) {
    return _mm512_srli_epi64(a, 32);
}
LANE vi v_halves64(vi low, vi high) {
    return _mm512_mask_blend_epi32(0xAAAA, low, _mm512_slli_epi64(high, 32));
}
LANE void v_store_pairs64(uint8_t *p, vi a, vi b) {
    vi low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    vi high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_si512(p, _mm512_permutex2var_epi64(a, low, b));
    _mm512_storeu_si512(p + 64, _mm512_permutex2var_epi64(a, high, b));
}

#endif
