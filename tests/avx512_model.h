/* AVX-512 in plain C, as much of it as lanes_avx512.h uses.
 *
 * Each function is what the manual's pseudocode of its instruction says, lane by lane, so that
 * the kernels of that level can be held against ref on a processor without it. Include this
 * before lanes_avx512.h, in place of its intrinsics; those of 128 and 256 bits are the
 * compiler's own. */
#ifndef MPT_TESTS_AVX512_MODEL_H
#define MPT_TESTS_AVX512_MODEL_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define MPT_AVX512_MODEL 1
#define KERNEL           __attribute__((target("avx2")))
#define MODEL            static __attribute__((unused, noinline, target("avx2")))

/* The 512 bits, lowest first, as every width that is needed. */
typedef union model_bits {
    float f32[16];
    double f64[8];
    int32_t i32[16];
    uint32_t u32[16];
    uint64_t u64[8];
    int16_t i16[32];
    uint16_t u16[32];
    uint8_t u8[64];
    int8_t i8[64];
} model_bits;
typedef struct model_ps {
    model_bits b;
} model_ps;
typedef struct model_pd {
    model_bits b;
} model_pd;
typedef struct model_si {
    model_bits b;
} model_si;

#define __m512    model_ps
#define __m512d   model_pd
#define __m512i   model_si
#define __mmask16 uint16_t

/* One line an instruction: FIELD of the result in lane i is VALUE, of operands a and b. */
#define MODEL_LANES(type, name, lanes, FIELD, VALUE)                                           \
    MODEL type name(type a, type b) {                                                          \
        type r;                                                                                \
        for (int i = 0; i < (lanes); i++)                                                      \
            r.b.FIELD[i] = VALUE;                                                              \
        return r;                                                                              \
    }

/* ---- arithmetic ---- */

MODEL_LANES(model_ps, model_add_ps, 16, f32, a.b.f32[i] + b.b.f32[i])
MODEL_LANES(model_ps, model_sub_ps, 16, f32, a.b.f32[i] - b.b.f32[i])
MODEL_LANES(model_ps, model_mul_ps, 16, f32, a.b.f32[i] * b.b.f32[i])
MODEL_LANES(model_ps, model_div_ps, 16, f32, a.b.f32[i] / b.b.f32[i])
MODEL_LANES(model_ps, model_min_ps, 16, f32,
            a.b.f32[i] < b.b.f32[i] ? a.b.f32[i] : b.b.f32[i]) /* the second for NaN, and 0 */
MODEL_LANES(model_pd, model_add_pd, 8, f64, a.b.f64[i] + b.b.f64[i])
MODEL_LANES(model_pd, model_sub_pd, 8, f64, a.b.f64[i] - b.b.f64[i])
MODEL_LANES(model_pd, model_mul_pd, 8, f64, a.b.f64[i] * b.b.f64[i])
MODEL_LANES(model_si, model_add_epi32, 16, u32, a.b.u32[i] + b.b.u32[i])
MODEL_LANES(model_si, model_sub_epi32, 16, u32, a.b.u32[i] - b.b.u32[i])
MODEL_LANES(model_si, model_min_epi32, 16, i32,
            a.b.i32[i] < b.b.i32[i] ? a.b.i32[i] : b.b.i32[i])
MODEL_LANES(model_si, model_max_epi32, 16, i32,
            a.b.i32[i] > b.b.i32[i] ? a.b.i32[i] : b.b.i32[i])
MODEL_LANES(model_si, model_and_si512, 16, u32, a.b.u32[i] & b.b.u32[i])
MODEL_LANES(model_si, model_or_si512, 16, u32, a.b.u32[i] | b.b.u32[i])
MODEL_LANES(model_si, model_xor_si512, 16, u32, a.b.u32[i] ^ b.b.u32[i])
MODEL_LANES(model_si, model_add_epi64, 8, u64, a.b.u64[i] + b.b.u64[i])
MODEL_LANES(model_si, model_mullo_epi64, 8, u64, a.b.u64[i] * b.b.u64[i])
MODEL_LANES(model_si, model_mul_epu32, 8, u64,
            (a.b.u64[i] & 0xFFFFFFFFu) * (b.b.u64[i] & 0xFFFFFFFFu))

MODEL model_si model_slli_epi32(model_si a, unsigned n) {
    for (int i = 0; i < 16; i++)
        a.b.u32[i] = n > 31 ? 0 : a.b.u32[i] << n;
    return a;
}
MODEL model_si model_srli_epi32(model_si a, unsigned n) {
    for (int i = 0; i < 16; i++)
        a.b.u32[i] = n > 31 ? 0 : a.b.u32[i] >> n;
    return a;
}
MODEL model_si model_slli_epi64(model_si a, unsigned n) {
    for (int i = 0; i < 8; i++)
        a.b.u64[i] = n > 63 ? 0 : a.b.u64[i] << n;
    return a;
}
MODEL model_si model_srli_epi64(model_si a, unsigned n) {
    for (int i = 0; i < 8; i++)
        a.b.u64[i] = n > 63 ? 0 : a.b.u64[i] >> n;
    return a;
}

/* Unsigned bytes of a by signed bytes of b, neighbours added, to 16 bits that saturate. */
MODEL model_si model_maddubs_epi16(model_si a, model_si b) {
    model_si r;
    for (int i = 0; i < 32; i++) {
        int sum = a.b.u8[2 * i] * b.b.i8[2 * i] + a.b.u8[2 * i + 1] * b.b.i8[2 * i + 1];
        r.b.i16[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
    }
    return r;
}

/* ---- constants, memory, conversions ---- */

MODEL model_ps model_set1_ps(float x) {
    model_ps r;
    for (int i = 0; i < 16; i++)
        r.b.f32[i] = x;
    return r;
}
MODEL model_pd model_set1_pd(double x) {
    model_pd r;
    for (int i = 0; i < 8; i++)
        r.b.f64[i] = x;
    return r;
}
MODEL model_ps model_setr4_ps(float a, float b, float c, float d) {
    model_ps r;
    const float of[4] = {a, b, c, d};
    for (int i = 0; i < 16; i++)
        r.b.f32[i] = of[i % 4];
    return r;
}
MODEL model_si model_set1_epi32(int x) {
    model_si r;
    for (int i = 0; i < 16; i++)
        r.b.i32[i] = x;
    return r;
}
MODEL model_si model_set1_epi16(short x) {
    model_si r;
    for (int i = 0; i < 32; i++)
        r.b.i16[i] = x;
    return r;
}
MODEL model_si model_set1_epi64(long long x) {
    model_si r;
    for (int i = 0; i < 8; i++)
        r.b.u64[i] = (uint64_t)x;
    return r;
}
#define model_setr_epi32(...) ((model_si){{.i32 = {__VA_ARGS__}}})
#define model_setr_epi64(...) ((model_si){{.u64 = {__VA_ARGS__}}})

MODEL model_ps model_loadu_ps(const void *p) {
    model_ps r;
    memcpy(&r, p, sizeof r);
    return r;
}
MODEL model_si model_loadu_si512(const void *p) {
    model_si r;
    memcpy(&r, p, sizeof r);
    return r;
}
MODEL void model_storeu_ps(void *p, model_ps a) {
    memcpy(p, &a, sizeof a);
}
MODEL void model_storeu_pd(void *p, model_pd a) {
    memcpy(p, &a, sizeof a);
}
MODEL void model_storeu_si512(void *p, model_si a) {
    memcpy(p, &a, sizeof a);
}
MODEL model_si model_castps_si512(model_ps a) {
    return (model_si){a.b};
}
MODEL model_ps model_castsi512_ps(model_si a) {
    return (model_ps){a.b};
}
MODEL model_ps model_cvtepi32_ps(model_si a) {
    model_ps r;
    for (int i = 0; i < 16; i++)
        r.b.f32[i] = (float)a.b.i32[i];
    return r;
}
MODEL __m256 model_extractf32x8_ps(model_ps a, int half) {
    __m256 r;
    memcpy(&r, a.b.f32 + 8 * half, sizeof r);
    return r;
}
MODEL __m256 model_castps512_ps256(model_ps a) {
    return model_extractf32x8_ps(a, 0);
}
MODEL model_pd model_cvtps_pd(__m256 a) {
    model_pd r;
    float of[8];
    memcpy(of, &a, sizeof of);
    for (int i = 0; i < 8; i++)
        r.b.f64[i] = (double)of[i];
    return r;
}
MODEL model_si model_cvttps_epi32(model_ps a) { /* out of range: the lowest integer */
    model_si r;
    for (int i = 0; i < 16; i++) {
        float x = a.b.f32[i];
        r.b.i32[i] = x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
    }
    return r;
}
MODEL model_si model_cvtepu8_epi32(__m128i a) {
    model_si r;
    uint8_t of[16];
    memcpy(of, &a, sizeof of);
    for (int i = 0; i < 16; i++)
        r.b.u32[i] = of[i];
    return r;
}
MODEL model_si model_cvtepu16_epi32(__m256i a) {
    model_si r;
    uint16_t of[16];
    memcpy(of, &a, sizeof of);
    for (int i = 0; i < 16; i++)
        r.b.u32[i] = of[i];
    return r;
}
MODEL __m256i model_cvtepi16_epi8(model_si a) { /* the low bytes */
    uint8_t of[32];
    __m256i r;
    for (int i = 0; i < 32; i++)
        of[i] = (uint8_t)a.b.u16[i];
    memcpy(&r, of, sizeof r);
    return r;
}

/* ---- masks ---- */

MODEL uint16_t model_cmpgt_epi32_mask(model_si a, model_si b) {
    unsigned m = 0;
    for (int i = 0; i < 16; i++)
        m |= (unsigned)(a.b.i32[i] > b.b.i32[i]) << i;
    return (uint16_t)m;
}
/* Of the predicates only two: "at least", false for NaN, and "one is NaN". */
MODEL uint16_t model_cmp_ps_mask(model_ps a, model_ps b, int predicate) {
    unsigned m = 0;
    for (int i = 0; i < 16; i++) {
        float x = a.b.f32[i], y = b.b.f32[i];
        int yes = predicate == _CMP_GE_OQ ? x >= y : x != x || y != y;
        m |= (unsigned)yes << i;
    }
    return (uint16_t)m;
}
MODEL model_si model_mask_blend_epi32(uint16_t k, model_si a, model_si b) {
    for (int i = 0; i < 16; i++)
        a.b.u32[i] = k >> i & 1 ? b.b.u32[i] : a.b.u32[i];
    return a;
}
MODEL model_ps model_mask_blend_ps(uint16_t k, model_ps a, model_ps b) {
    return (model_ps){model_mask_blend_epi32(k, (model_si){a.b}, (model_si){b.b}).b};
}
MODEL model_si model_maskz_set1_epi32(uint16_t k, int x) {
    model_si r;
    for (int i = 0; i < 16; i++)
        r.b.i32[i] = k >> i & 1 ? x : 0;
    return r;
}
MODEL model_si model_mask_xor_epi32(model_si source, uint16_t k, model_si a, model_si b) {
    return model_mask_blend_epi32(k, source, model_xor_si512(a, b));
}

/* ---- across lanes: "part" is one of the four of 128 bits ---- */

/* Dwords of each part, taken from the same part of a. */
MODEL model_ps model_permute_ps(model_ps a, int control) {
    model_ps r;
    for (int i = 0; i < 16; i++)
        r.b.u32[i] = a.b.u32[i / 4 * 4 + (control >> 2 * (i % 4) & 3)];
    return r;
}
MODEL model_ps model_permutevar_ps(model_ps a, model_si control) {
    model_ps r;
    for (int i = 0; i < 16; i++)
        r.b.u32[i] = a.b.u32[i / 4 * 4 + (int)(control.b.u32[i] & 3u)];
    return r;
}
MODEL model_ps model_moveldup_ps(model_ps a) {
    return model_permute_ps(a, 0xA0);
}
MODEL model_ps model_movehdup_ps(model_ps a) {
    return model_permute_ps(a, 0xF5);
}
MODEL_LANES(model_si, model_unpacklo_epi32, 16, u32,
            (i % 2 ? b : a).b.u32[i / 4 * 4 + i % 4 / 2])
MODEL_LANES(model_si, model_unpackhi_epi32, 16, u32,
            (i % 2 ? b : a).b.u32[i / 4 * 4 + 2 + i % 4 / 2])
MODEL_LANES(model_si, model_unpacklo_epi64, 8, u64, (i % 2 ? b : a).b.u64[i / 2 * 2])
MODEL_LANES(model_si, model_unpackhi_epi64, 8, u64, (i % 2 ? b : a).b.u64[i / 2 * 2 + 1])

/* Whole parts: two of a, then two of b. */
MODEL model_si model_shuffle_i32x4(model_si a, model_si b, int control) {
    model_si r;
    for (int i = 0; i < 16; i++) {
        int part = control >> 2 * (i / 4) & 3;
        r.b.u32[i] = (i < 8 ? a : b).b.u32[4 * part + i % 4];
    }
    return r;
}
MODEL model_ps model_shuffle_f32x4(model_ps a, model_ps b, int control) {
    return (model_ps){model_shuffle_i32x4((model_si){a.b}, (model_si){b.b}, control).b};
}
MODEL model_si model_permutexvar_epi32(model_si index, model_si a) {
    model_si r;
    for (int i = 0; i < 16; i++)
        r.b.u32[i] = a.b.u32[index.b.u32[i] & 15u];
    return r;
}
MODEL model_si model_permutex2var_epi64(model_si a, model_si index, model_si b) {
    model_si r;
    for (int i = 0; i < 8; i++) {
        uint64_t at = index.b.u64[i];
        r.b.u64[i] = (at & 8u ? b : a).b.u64[at & 7u];
    }
    return r;
}

/* In each part a's four, then b's, from 32 bits with sign to 16 without. */
MODEL model_si model_packus_epi32(model_si a, model_si b) {
    model_si r;
    for (int i = 0; i < 32; i++) {
        int32_t x = (i % 8 < 4 ? a : b).b.i32[i / 8 * 4 + i % 4];
        r.b.u16[i] = (uint16_t)(x < 0 ? 0 : x > 65535 ? 65535 : x);
    }
    return r;
}
MODEL model_si model_packus_epi16(model_si a, model_si b) {
    model_si r;
    for (int i = 0; i < 64; i++) {
        int x = (i % 16 < 8 ? a : b).b.i16[i / 16 * 8 + i % 8];
        r.b.u8[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
    return r;
}

/* ---- the names by which the kernels call them; the compiler has some as macros ---- */

#undef _mm512_add_epi32
#define _mm512_add_epi32 model_add_epi32
#undef _mm512_add_epi64
#define _mm512_add_epi64 model_add_epi64
#undef _mm512_add_pd
#define _mm512_add_pd model_add_pd
#undef _mm512_add_ps
#define _mm512_add_ps model_add_ps
#undef _mm512_and_si512
#define _mm512_and_si512 model_and_si512
#undef _mm512_castps512_ps256
#define _mm512_castps512_ps256 model_castps512_ps256
#undef _mm512_castps_si512
#define _mm512_castps_si512 model_castps_si512
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps model_castsi512_ps
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask model_cmp_ps_mask
#undef _mm512_cmpgt_epi32_mask
#define _mm512_cmpgt_epi32_mask model_cmpgt_epi32_mask
#undef _mm512_cvtepi16_epi8
#define _mm512_cvtepi16_epi8 model_cvtepi16_epi8
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps model_cvtepi32_ps
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 model_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 model_cvtepu8_epi32
#undef _mm512_cvtps_pd
#define _mm512_cvtps_pd model_cvtps_pd
#undef _mm512_cvttps_epi32
#define _mm512_cvttps_epi32 model_cvttps_epi32
#undef _mm512_div_ps
#define _mm512_div_ps model_div_ps
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps model_extractf32x8_ps
#undef _mm512_loadu_ps
#define _mm512_loadu_ps model_loadu_ps
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 model_loadu_si512
#undef _mm512_maddubs_epi16
#define _mm512_maddubs_epi16 model_maddubs_epi16
#undef _mm512_mask_blend_epi32
#define _mm512_mask_blend_epi32 model_mask_blend_epi32
#undef _mm512_mask_blend_ps
#define _mm512_mask_blend_ps model_mask_blend_ps
#undef _mm512_mask_xor_epi32
#define _mm512_mask_xor_epi32 model_mask_xor_epi32
#undef _mm512_maskz_set1_epi32
#define _mm512_maskz_set1_epi32 model_maskz_set1_epi32
#undef _mm512_max_epi32
#define _mm512_max_epi32 model_max_epi32
#undef _mm512_min_epi32
#define _mm512_min_epi32 model_min_epi32
#undef _mm512_min_ps
#define _mm512_min_ps model_min_ps
#undef _mm512_movehdup_ps
#define _mm512_movehdup_ps model_movehdup_ps
#undef _mm512_moveldup_ps
#define _mm512_moveldup_ps model_moveldup_ps
#undef _mm512_mul_epu32
#define _mm512_mul_epu32 model_mul_epu32
#undef _mm512_mul_pd
#define _mm512_mul_pd model_mul_pd
#undef _mm512_mul_ps
#define _mm512_mul_ps model_mul_ps
#undef _mm512_mullo_epi64
#define _mm512_mullo_epi64 model_mullo_epi64
#undef _mm512_or_si512
#define _mm512_or_si512 model_or_si512
#undef _mm512_packus_epi16
#define _mm512_packus_epi16 model_packus_epi16
#undef _mm512_packus_epi32
#define _mm512_packus_epi32 model_packus_epi32
#undef _mm512_permute_ps
#define _mm512_permute_ps model_permute_ps
#undef _mm512_permutevar_ps
#define _mm512_permutevar_ps model_permutevar_ps
#undef _mm512_permutex2var_epi64
#define _mm512_permutex2var_epi64 model_permutex2var_epi64
#undef _mm512_permutexvar_epi32
#define _mm512_permutexvar_epi32 model_permutexvar_epi32
#undef _mm512_set1_epi16
#define _mm512_set1_epi16 model_set1_epi16
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 model_set1_epi32
#undef _mm512_set1_epi64
#define _mm512_set1_epi64 model_set1_epi64
#undef _mm512_set1_pd
#define _mm512_set1_pd model_set1_pd
#undef _mm512_set1_ps
#define _mm512_set1_ps model_set1_ps
#undef _mm512_setr4_ps
#define _mm512_setr4_ps model_setr4_ps
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 model_setr_epi32
#undef _mm512_setr_epi64
#define _mm512_setr_epi64 model_setr_epi64
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 model_shuffle_f32x4
#undef _mm512_shuffle_i32x4
#define _mm512_shuffle_i32x4 model_shuffle_i32x4
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 model_slli_epi32
#undef _mm512_slli_epi64
#define _mm512_slli_epi64 model_slli_epi64
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 model_srli_epi32
#undef _mm512_srli_epi64
#define _mm512_srli_epi64 model_srli_epi64
#undef _mm512_storeu_pd
#define _mm512_storeu_pd model_storeu_pd
#undef _mm512_storeu_ps
#define _mm512_storeu_ps model_storeu_ps
#undef _mm512_storeu_si512
#define _mm512_storeu_si512 model_storeu_si512
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 model_sub_epi32
#undef _mm512_sub_pd
#define _mm512_sub_pd model_sub_pd
#undef _mm512_sub_ps
#define _mm512_sub_ps model_sub_ps
#undef _mm512_unpackhi_epi32
#define _mm512_unpackhi_epi32 model_unpackhi_epi32
#undef _mm512_unpackhi_epi64
#define _mm512_unpackhi_epi64 model_unpackhi_epi64
#undef _mm512_unpacklo_epi32
#define _mm512_unpacklo_epi32 model_unpacklo_epi32
#undef _mm512_unpacklo_epi64
#define _mm512_unpacklo_epi64 model_unpacklo_epi64
#undef _mm512_xor_si512
#define _mm512_xor_si512 model_xor_si512

#endif
