/* Vectors of four: the words of the quantizer's kernels for any processor.
 *
 * What each word means, in the vectors that gcc and clang know on every machine: operators work
 * lane by lane, comparisons give all ones or zero. The same words are in lanes_avx2.h and
 * lanes_avx512.h, with the vectors of that hardware; kernels written over them give the same
 * bytes with each. vf is a vector of floats, vi one of 32-bit integers. */
#ifndef MPT_KERNELS_CPU_LANES_PORTABLE_H
#define MPT_KERNELS_CPU_LANES_PORTABLE_H

#include <stdbool.h>
#include <string.h>

#include "kernels/numerics_cast.h"

enum { LANES = 4 };

#define KERNEL
#define LANE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef uint32_t vi __attribute__((vector_size(16)));
typedef int32_t v_signed __attribute__((vector_size(16)));

/* ---- memory ---- */

LANE vf v_all(float x) {
    return (vf){x, x, x, x};
}
LANE vi v_set(uint32_t u) {
    return (vi){u, u, u, u};
}
LANE vf v_load(const float *p) {
    vf r;
    memcpy(&r, p, sizeof r);
    return r;
}
LANE void v_store(float *p, vf x) {
    memcpy(p, &x, sizeof x);
}
LANE vi v_load_bits(const uint32_t *p) {
    vi r;
    memcpy(&r, p, sizeof r);
    return r;
}
LANE void v_store_bits(uint32_t *p, vi u) {
    memcpy(p, &u, sizeof u);
}
LANE vi v_load_bytes(const uint8_t *p) {
    return (vi){p[0], p[1], p[2], p[3]};
}
LANE vi v_load_halves(const uint16_t *p) {
    return (vi){p[0], p[1], p[2], p[3]};
}

/* ---- between floats and integers ---- */

LANE vi v_bits(vf x) {
    return (vi)x;
}
LANE vf v_float(vi u) {
    return (vf)u;
}
LANE vf v_of_int(vi u) {
    return __builtin_convertvector((v_signed)u, vf);
}
LANE vi v_cut(vf x) { /* toward zero; x is below 2^31 */
    return (vi) __builtin_convertvector(x, v_signed);
}

/* ---- choices ---- */

/* `mask` is all ones in the lanes that take yes, else zero. */
LANE vi v_choose(vi mask, vi yes, vi no) {
    return (yes & mask) | (no & ~mask);
}
LANE vi v_if_more(vi a, vi b, vi yes, vi no) { /* a > b, with signs */
    return v_choose((vi)((v_signed)a > (v_signed)b), yes, no);
}
LANE bool v_any_more(vi a, vi b) {
    vi more = (vi)((v_signed)a > (v_signed)b);
    return (more[0] | more[1] | more[2] | more[3]) != 0;
}
LANE vi v_one_if_at_least(vf a, vf b) {
    return (vi)(a >= b) >> 31;
}
LANE vf v_keep_nan(vf x, vf y) { /* y, but the canonical NaN where x is NaN */
    return v_float(v_choose((vi)(x == x), v_bits(y), v_set(MPT_NAN_BITS)));
}
LANE vf v_pick4(vi at, float t0, float t1, float t2, float t3) { /* by the two lowest bits */
    const float t[4] = {t0, t1, t2, t3};
    return (vf){t[at[0] & 3u], t[at[1] & 3u], t[at[2] & 3u], t[at[3] & 3u]};
}

/* ---- arithmetic, one IEEE operation a lane ---- */

LANE vf v_add(vf a, vf b) {
    return a + b;
}
LANE vf v_sub(vf a, vf b) {
    return a - b;
}
LANE vf v_mul(vf a, vf b) {
    return a * b;
}
LANE vf v_div(vf a, vf b) {
    return a / b;
}
LANE vf v_min(vf a, vf b) { /* of NaN and b: b */
    return v_float(v_choose((vi)(a < b), v_bits(a), v_bits(b)));
}
LANE vi v_plus(vi a, vi b) {
    return a + b;
}
LANE vi v_minus(vi a, vi b) {
    return a - b;
}
LANE vi v_smaller(vi a, vi b) { /* with signs, as v_larger */
    return v_if_more(a, b, b, a);
}
LANE vi v_larger(vi a, vi b) {
    return v_if_more(a, b, a, b);
}
LANE vi v_and(vi a, vi b) {
    return a & b;
}
LANE vi v_or(vi a, vi b) {
    return a | b;
}
LANE vi v_xor(vi a, vi b) {
    return a ^ b;
}
LANE vi v_up(vi a, int n) {
    return a << n;
}
LANE vi v_down(vi a, int n) {
    return a >> n;
}

/* ---- across lanes ---- */

LANE vi v_max_of_each(const vi m[LANES]) { /* lane i: the largest of m[i] */
    vi a[4];
    for (int i = 0; i < 4; i++)
        a[i] = (vi){m[0][i], m[1][i], m[2][i], m[3][i]};
    return v_larger(v_larger(a[0], a[1]), v_larger(a[2], a[3]));
}

/* Lanes i and i ^ h become their sum and their difference. */
LANE vf v_butterfly(vf x, int h) {
    if (h == 1)
        return (vf){x[0] + x[1], x[0] - x[1], x[2] + x[3], x[2] - x[3]};
    return (vf){x[0] + x[2], x[1] + x[3], x[0] - x[2], x[1] - x[3]};
}

/* Lanes below 256 of four vectors as bytes, in order. */
LANE void v_store_bytes4(uint8_t *p, vi a, vi b, vi c, vi d) {
    for (int i = 0; i < LANES; i++) {
        p[i] = (uint8_t)a[i];
        p[LANES + i] = (uint8_t)b[i];
        p[2 * LANES + i] = (uint8_t)c[i];
        p[3 * LANES + i] = (uint8_t)d[i];
    }
}

/* The same of codes below 1 << `width`, with the signs of y above them. */
LANE void v_store_signed4(uint8_t *p, const vi code[4], const vf y[4], int width) {
    vi c[4];
    for (int u = 0; u < 4; u++)
        c[u] = code[u] | (v_bits(y[u]) >> 31) << width;
    v_store_bytes4(p, c[0], c[1], c[2], c[3]);
}

/* Codes of four bits with their signs, two a byte, the even one low. */
LANE void v_store_nibbles4(uint8_t *p, const vi code[4], const vf y[4]) {
    uint8_t codes[4 * LANES];
    v_store_signed4(codes, code, y, 3);
    for (int i = 0; i < 2 * LANES; i++)
        p[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
}

/* 64 codes of four bits, a byte each, as 32 bytes: the even one low. */
LANE void v_pack_nibbles(uint8_t *p, const uint8_t *codes) {
    for (int i = 0; i < 32; i++)
        p[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
}

/* Two rows of sixteen codes become one; p may be the lower. */
LANE void v_merge_nibbles(uint8_t *p, const uint8_t *low, const uint8_t *high) {
    for (int i = 0; i < 16; i++)
        p[i] = (uint8_t)(low[i] | high[i] << 4);
}

/* Sixteen codes of two bytes from their low and their high ones. */
LANE void v_zip_bytes(uint8_t *p, const uint8_t *low, const uint8_t *high) {
    for (int i = 0; i < 16; i++) {
        p[2 * i] = low[i];
        p[2 * i + 1] = high[i];
    }
}

/* A square of 16x16 bytes, rows become columns. */
LANE void v_transpose_bytes(uint8_t *to, int64_t to_ld, const uint8_t *from, int64_t from_ld) {
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            to[j * to_ld + i] = from[i * from_ld + j];
}

/* ---- half as many lanes of doubles: sums ---- */

typedef double vd __attribute__((vector_size(16)));

LANE vd v_no_sum(void) {
    return (vd){0, 0};
}
LANE vd v_lower(vf x) { /* the first half of the lanes */
    return (vd){(double)x[0], (double)x[1]};
}
LANE vd v_upper(vf x) {
    return (vd){(double)x[2], (double)x[3]};
}
LANE vd v_less(vd a, vd b) {
    return a - b;
}
LANE vd v_add_square(vd sum, vd x) {
    return sum + x * x;
}
LANE void v_store_sum(double *p, vd x) {
    memcpy(p, &x, sizeof x);
}

/* ---- half as many lanes of 64 bits, the low half first: counters of the random stream ---- */

LANE uint64_t v_lane64(vi a, int i) {
    return (uint64_t)a[2 * i + 1] << 32 | a[2 * i];
}
LANE vi v_pair64(uint64_t a, uint64_t b) {
    return (vi){(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
}
LANE vi v_series64(uint64_t first, uint64_t step) {
    return v_pair64(first, first + step);
}
LANE vi v_plus64(vi a, vi b) {
    return v_pair64(v_lane64(a, 0) + v_lane64(b, 0), v_lane64(a, 1) + v_lane64(b, 1));
}
LANE vi v_product64(vi a, vi b) { /* of the low halves */
    return v_pair64((uint64_t)a[0] * b[0], (uint64_t)a[2] * b[2]);
}
LANE vi v_high64(vi a) {
    return (vi){a[1], 0, a[3], 0};
}
LANE vi v_halves64(vi low, vi high) { /* the low halves of both */
    return (vi){low[0], high[0], low[2], high[2]};
}
LANE void v_store_pairs64(uint8_t *p, vi a, vi b) { /* a0 b0 a1 b1, low bytes first */
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 8; j++) {
            p[16 * i + j] = (uint8_t)(v_lane64(a, i) >> 8 * j);
            p[16 * i + 8 + j] = (uint8_t)(v_lane64(b, i) >> 8 * j);
        }
}

#endif
