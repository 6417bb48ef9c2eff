/* Rounding, scales and random bytes, a vector at a time: numerics_*.h over lanes.
 *
 * Included after one of the lanes_*.h, once a level. Values here are finite: what holds NaN or
 * Inf goes the careful way (quantize_careful.c). Each word gives the bits of its namesake in
 * the definition, which tests compare. quantize_strip.h puts them together. */
#ifndef MPT_KERNELS_CPU_ROUND_LANES_H
#define MPT_KERNELS_CPU_ROUND_LANES_H

#include "kernels/cpu/quantize.h"

/* Loops of constant length over vectors: unrolled, these stay in registers. The model of a
 * test has none. */
#if defined(MPT_AVX512_MODEL)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
/* The same where the length is constant in some copies of the loop only, which clang wants to
 * hear nothing about. */
#if defined(__clang__)
#define UNROLL_WHERE_KNOWN
#else
#define UNROLL_WHERE_KNOWN UNROLL
#endif
#define EACH4(u) UNROLL for (int u = 0; u < 4; u++)

/* Asks for four vectors of values of `size` bytes that will be read soon, by their lines of 64
 * bytes; one of smaller values is asked for twice. */
LANE void v_fetch4(const char *p, int64_t size) {
    UNROLL
    for (int i = 0; i < 4 * LANES; i += 16)
        __builtin_prefetch(p + i * size);
}

LANE vf v_abs(vf x) {
    return v_float(v_and(v_bits(x), v_set(MPT_ABS_BITS)));
}
LANE vi v_sign(vf x) {
    return v_and(v_bits(x), v_set(~MPT_ABS_BITS));
}

/* Bits rounded to nearest even so that `shift` low bits are zero; carries run into the
 * exponent, as they should. */
LANE vi v_round_bits(vi u, int shift) {
    vi odd = v_and(v_down(u, shift), v_set(1));
    vi r = v_plus(u, v_plus(odd, v_set((1u << (shift - 1)) - 1u)));
    return v_and(r, v_set(~((1u << shift) - 1u)));
}

LANE vf v_round_bf16(vf x) {
    return v_keep_nan(x, v_float(v_round_bits(v_bits(x), 16)));
}

/* ---- elements ---- */

/* Which rounding a loop is compiled for. The formats with names have constants of their own,
 * the others take theirs from the plan. */
typedef struct lane_kind {
    mpt_dtype format; /* FP32 stands for any */
    mpt_rounding rounding;
} lane_kind;

/* What a narrow format is to a vector: constants that fold away where the format is one. */
typedef struct lane_format {
    float max;
    int mantissa, width; /* bits of the mantissa; of the code without its sign */
    uint32_t lowest;     /* bits of the smallest normal value */
    bool twos;           /* INT8 */
} lane_format;

LANE lane_format v_format(const mpt_quantize_plan *plan, mpt_dtype format) {
    const mpt_format *f = &plan->tensor.format;
    if (format == MPT_DTYPE_E2M1)
        return (lane_format){6.0f, 1, 3, 127u << 23, false};
    if (format == MPT_DTYPE_E4M3)
        return (lane_format){448.0f, 3, 7, 121u << 23, false};
    if (format == MPT_DTYPE_E5M2)
        return (lane_format){57344.0f, 2, 7, 113u << 23, false};
    lane_format r = {f->max, f->mantissa_bits, f->exponent_bits + f->mantissa_bits,
                     (uint32_t)(128 - f->bias) << 23, plan->job->q->format == MPT_DTYPE_INT8};
    return r;
}

/* A magnitude on its way to a code: it lies on a grid whose step follows from its exponent,
 * n steps from zero. */
typedef struct lane_place {
    vf y;    /* as it came, for its sign */
    vi grid; /* its binade, that of the smallest normal at least */
    vi n;
} lane_place;

/* Nearest even by one addition: a power of two whose last place is the grid's step rounds the
 * magnitude to it. Its low bits carry how far the binade's codes are, so that the sum ends in
 * the code. */
LANE vf v_magic(lane_format f, mpt_dtype format, vf a) {
    if (format == MPT_DTYPE_E2M1) /* three grids only, told by the exponent */
        return v_pick4(v_larger(v_down(v_bits(a), 23), v_set(127)), 0x1p23f + 2, 0x1p24f + 8, 0,
                       0x1p22f);
    vi e = v_larger(v_and(v_bits(a), v_set(MPT_INF_BITS)), v_set(f.lowest));
    uint32_t constant = ((uint32_t)(23 - f.mantissa) << 23) - (f.lowest >> (23 - f.mantissa));
    return v_float(v_plus(v_plus(e, v_down(e, 23 - f.mantissa)), v_set(constant)));
}

/* The roundings that need the place between two steps. `high` and `low` are random bytes. */
LANE lane_place v_placed(lane_format f, lane_kind kind, vf y, vi high, vi low) {
    vf a = v_min(v_abs(y), v_all(f.max));
    lane_place p = {.y = y};
    p.grid = v_larger(v_and(v_bits(a), v_set(MPT_INF_BITS)), v_set(f.lowest));
    uint32_t inverse = (254u + (uint32_t)f.mantissa) << 23;
    vf steps = v_mul(a, v_float(v_minus(v_set(inverse), p.grid)));
    bool one_byte = kind.format == MPT_DTYPE_E2M1 || (f.width < 7 && !f.twos);
    if (kind.rounding == MPT_ROUNDING_STOCHASTIC && one_byte)
        steps = v_add(steps, v_mul(v_of_int(high), v_all(0x1p-8f)));
    p.n = v_cut(steps);
    if (kind.rounding == MPT_ROUNDING_TOWARD_ZERO ||
        (kind.rounding == MPT_ROUNDING_STOCHASTIC && one_byte))
        return p;
    vf rest = v_sub(steps, v_of_int(p.n)), enough = v_all(0.5f);
    if (kind.rounding == MPT_ROUNDING_STOCHASTIC) {
        vi bits = v_or(v_up(high, 8), low);
        enough = v_mul(v_of_int(v_minus(v_set(65536), bits)), v_all(0x1p-16f));
    }
    p.n = v_plus(p.n, v_one_if_at_least(rest, enough));
    return p;
}

/* INT8's code from that of the magnitude. */
LANE vi v_twos(vf y, vi code) {
    vi minus = v_minus(v_set(0), v_down(v_bits(y), 31));
    return v_and(v_minus(v_xor(code, minus), minus), v_set(0xFF));
}

/* Four vectors of codes of two bytes with their signs, low and high bytes apart. */
LANE void v_store_pairs4(lane_format f, uint8_t *low, uint8_t *high, const vi code[4],
                         const vf y[4]) {
    vi c[4], byte = v_set(255);
    EACH4(u)
    c[u] = v_or(code[u], v_and(v_down(v_bits(y[u]), 31 - f.width), v_set(1u << f.width)));
    v_store_bytes4(high, v_down(c[0], 8), v_down(c[1], 8), v_down(c[2], 8), v_down(c[3], 8));
    v_store_bytes4(low, v_and(c[0], byte), v_and(c[1], byte), v_and(c[2], byte),
                   v_and(c[3], byte));
}

/* Four vectors of codes with their signs, a byte each. */
LANE void v_store_codes4(lane_format f, uint8_t *p, const vi code[4], const vf y[4]) {
    if (f.twos)
        v_store_bytes4(p, v_twos(y[0], code[0]), v_twos(y[1], code[1]), v_twos(y[2], code[2]),
                       v_twos(y[3], code[3]));
    else
        v_store_signed4(p, code, y, f.width);
}

/* INT8 has one zero; the others keep its sign. */
LANE vf v_signed_value(lane_format f, vf y, vf value) {
    if (f.twos)
        return v_add(v_float(v_or(v_bits(value), v_sign(y))), v_all(0.0f));
    return v_float(v_or(v_bits(value), v_sign(y)));
}

/* The code of y's magnitude. */
LANE vi v_code(lane_format f, lane_kind kind, vf y, vi high, vi low) {
    if (kind.rounding == MPT_ROUNDING_NEAREST) {
        vf a = v_min(v_abs(y), v_all(f.max));
        vf sum = v_add(a, v_magic(f, kind.format, a));
        return v_and(v_bits(sum), v_set((1u << f.width) - 1u));
    }
    lane_place p = v_placed(f, kind, y, high, low);
    vi binades = v_minus(p.grid, v_set(f.lowest));
    return v_plus(p.n, v_down(binades, 23 - f.mantissa));
}

LANE vf v_value(lane_format f, lane_kind kind, vf y, vi high, vi low) {
    if (kind.rounding == MPT_ROUNDING_NEAREST) {
        vf a = v_min(v_abs(y), v_all(f.max)), magic = v_magic(f, kind.format, a);
        return v_signed_value(f, y, v_sub(v_add(a, magic), magic));
    }
    lane_place p = v_placed(f, kind, y, high, low);
    vf step = v_float(v_minus(p.grid, v_set((uint32_t)f.mantissa << 23)));
    return v_signed_value(f, y, v_mul(v_of_int(p.n), step));
}

/* ---- scales, a block a lane ---- */

typedef struct lane_scale {
    vf encode, decode;
    vi code;
} lane_scale;

/* The scale that a value of its range is rounded to. */
LANE lane_scale v_e4m3_of(const mpt_quantize_plan *plan, vf a) {
    const mpt_outer_scale *outer = &plan->tensor.outer;
    lane_format f = v_format(plan, MPT_DTYPE_E4M3);
    a = v_min(a, v_all(f.max));
    vf magic = v_magic(f, MPT_DTYPE_E4M3, a), sum = v_add(a, magic);
    lane_scale s;
    s.code = v_and(v_bits(sum), v_set(0x7F));
    s.decode = v_sub(sum, magic);
    s.encode = v_div(v_all(1.0f), v_mul(s.decode, v_all(outer->decode)));
    s.encode = v_min(s.encode, v_all(MPT_FLT_MAX));
    return s;
}

LANE lane_scale v_scale_e4m3(const mpt_quantize_plan *plan, vf amax) {
    return v_e4m3_of(plan, v_mul(amax, v_all(plan->tensor.outer.multiplier)));
}

/* The exponent's code of a power of two not below the value with bits a. */
LANE vi v_e8m0_above(vi a) {
    vi room = v_if_more(v_set(0x800000), a, v_set(0x3FFFFF), v_set(0x7FFFFF));
    return v_down(v_plus(a, room), 23);
}

LANE lane_scale v_scale_e8m0(const mpt_quantize_plan *plan, vf amax) {
    const mpt_format *f = &plan->tensor.format;
    uint32_t emax = (mpt_float_bits(f->max) >> 23) - 127u;
    vi a = v_bits(v_div(amax, v_all(plan->tensor.headroom))), code;
    switch (plan->job->q->scale_rule.kind) {
    case MPT_RULE_FLOOR:
        code = v_minus(v_down(a, 23), v_set(emax));
        break;
    case MPT_RULE_CEIL:
        code = v_minus(v_e8m0_above(a), v_set(emax));
        break;
    case MPT_RULE_EVEN:
        code =
            v_minus(v_down(v_plus(a, v_set(1u << (22 - f->mantissa_bits))), 23), v_set(emax));
        break;
    default:
        code = v_e8m0_above(v_bits(v_mul(amax, v_all(1.0f / plan->tensor.max))));
    }
    lane_scale s;
    s.code = v_smaller(v_larger(code, v_set(0)), v_set(254));
    vi least = v_set(0x400000); /* 2^-127 */
    s.encode = v_float(v_larger(v_up(v_minus(v_set(254), s.code), 23), least));
    s.decode = v_float(v_larger(v_up(s.code, 23), least));
    return s;
}

LANE lane_scale v_scale_fp32(const mpt_quantize_plan *plan, vf amax) {
    lane_scale s = {.code = v_set(0)};
    vi e = v_bits(v_div(v_all(plan->tensor.max), amax));
    e = v_if_more(e, v_set(MPT_INF_BITS - 1), v_bits(v_all(plan->tensor.cap)), e);
    e = v_if_more(v_bits(amax), v_set(0), e, v_bits(v_all(1.0f)));
    e = v_larger(e, v_set(mpt_float_bits(mpt_decodable_scale(0.0f))));
    if (plan->job->q->scale_format == MPT_SCALE_POW2)
        e = v_larger(v_and(e, v_set(MPT_INF_BITS)), v_set(0x400000));
    s.encode = v_float(e);
    s.decode = v_div(v_all(1.0f), s.encode);
    return s;
}

LANE lane_scale v_scale(const mpt_quantize_plan *plan, vf amax) {
    if (plan->job->q->scale_format == MPT_SCALE_E4M3)
        return v_scale_e4m3(plan, amax);
    if (plan->job->q->scale_format == MPT_SCALE_E8M0)
        return v_scale_e8m0(plan, amax);
    return v_scale_fp32(plan, amax);
}

/* ---- random bytes ---- */

/* Philox4x32-10 of LANES / 2 groups, one a 64-bit lane; the high halves of the words are junk.
 * `low` is 0 or MPT_RANDOM_LOW. */
LANE void v_philox(const mpt_quantize_plan *plan, vi group, uint32_t low, vi word[4]) {
    vi c0 = group, c1 = v_high64(group);
    vi c2 = v_set(plan->job->key.operand | low), c3 = v_set(plan->job->key.step);
    vi m0 = v_set(0xD2511F53u), m1 = v_set(0xCD9E8D57u);
    UNROLL
    for (int i = 0; i < 10; i++) {
        vi p0 = v_product64(m0, c0), p1 = v_product64(m1, c2);
        c0 = v_xor(v_high64(p1), v_xor(c1, v_set(plan->round_keys[2 * i])));
        c2 = v_xor(v_high64(p0), v_xor(c3, v_set(plan->round_keys[2 * i + 1])));
        c1 = p1;
        c3 = p0;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* The bytes of n elements of a row, a multiple of 16 * LANES, from a group on. */
LANE void v_row_bytes(const mpt_quantize_plan *plan, uint64_t group, uint32_t low, int64_t n,
                      uint8_t *out) {
    for (int64_t i = 0; i < n; i += 8 * LANES) {
        vi w[4];
        v_philox(plan, v_series64(group + (uint64_t)i / 16, 1), low, w);
        v_store_pairs64(out + i, v_halves64(w[0], w[1]), v_halves64(w[2], w[3]));
    }
}

/* The bytes of 16 rows of n columns, whose groups run down: that of the first column is
 * `group`, those of its neighbours are `step` apart. */
LANE void v_column_bytes(const mpt_quantize_plan *plan, uint64_t group, uint64_t step,
                         uint32_t low, int64_t n, uint8_t *out, int64_t ld) {
    for (int64_t j = 0; j < n; j += 4 * LANES) {
        vi w[4][4];
        EACH4(u) {
            vi even[4], odd[4];
            vi g = v_series64(group + (uint64_t)(j + u * LANES) * step, 2 * step);
            v_philox(plan, g, low, even);
            v_philox(plan, v_plus64(g, v_series64(step, 0)), low, odd);
            EACH4(i)
            w[i][u] = v_halves64(even[i], odd[i]);
        }
        UNROLL
        for (int i = 0; i < 16; i++) {
            vi b[4];
            EACH4(u)
            b[u] = v_and(v_down(w[i / 4][u], 8 * (i % 4)), v_set(255));
            v_store_bytes4(out + i * ld + j, b[0], b[1], b[2], b[3]);
        }
    }
}

#endif
