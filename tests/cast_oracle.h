/* An oracle for casts that knows only the facts of each format: a sorted table of its values in
 * double, where the place of a number is found by search and compared exactly.
 *
 * No step of it looks at float32's bits, so it shares no mistake with numerics_cast.h. */
#ifndef MPT_TESTS_CAST_ORACLE_H
#define MPT_TESTS_CAST_ORACLE_H

#include <math.h>
#include <stdlib.h>

#include "kernels/numerics.h"
#include "mpt_test.h"
#include "recipe/quantizer.h"

typedef struct cast_format {
    mpt_dtype dtype;
    int eb, mb, bias; /* INT8 is k/64: one exponent bit, six mantissa bits, bias 1 */
    double max;
    bool saturates;
    uint32_t nan, inf; /* what NaN and Inf become */
} cast_format;

static const cast_format cast_formats[] = {
    {MPT_DTYPE_E4M3, 4, 3, 7, 448, true, 0x7F, 0x7E},
    {MPT_DTYPE_E5M2, 5, 2, 15, 57344, true, 0x7F, 0x7B},
    {MPT_DTYPE_E5M6, 5, 6, 15, 65024, true, 0x7FF, 0x7BF},
    {MPT_DTYPE_E3M2, 3, 2, 3, 28, true, 0x1F, 0x1F},
    {MPT_DTYPE_E2M3, 2, 3, 1, 7.5, true, 0x1F, 0x1F},
    {MPT_DTYPE_E2M1, 2, 1, 1, 6, true, 7, 7},
    {MPT_DTYPE_INT8, 1, 6, 1, 127.0 / 64, true, 0x7F, 0x7F},
    {MPT_DTYPE_FP16, 5, 10, 15, 65504, false, 0x7FFF, 0x7C00},
    {MPT_DTYPE_BF16, 8, 7, 127, 0x1.fep127, false, 0x7FFF, 0x7F80},
    {MPT_DTYPE_TF32, 8, 10, 127, 0x1.ffcp127, false, 0x7FFFE000, 0x7F800000},
};

typedef struct oracle {
    const cast_format *f;
    int n; /* finite values that are not negative, ascending: value[i] has code i */
    double *value;
    double limit; /* one step beyond the largest: where rounding without end would go next */
} oracle;

static inline oracle oracle_make(const cast_format *f) {
    oracle o = {f, 0, NULL, 0};
    int n = 1 << (f->eb + f->mb);
    o.value = malloc(sizeof(double) * (size_t)n);
    assert_non_null(o.value);
    for (int c = 0; c < n; c++) {
        int e = c >> f->mb, m = c & ((1 << f->mb) - 1);
        double v =
            e ? ldexp(1.0 + ldexp(m, -f->mb), e - f->bias) : ldexp(m, 1 - f->bias - f->mb);
        if (v > f->max)
            break;
        o.value[o.n++] = v;
    }
    o.limit = 2 * o.value[o.n - 1] - o.value[o.n - 2];
    return o;
}

static inline void oracle_free(oracle *o) {
    free(o->value);
}

/* The last index whose value is not above x >= 0; n from the limit on. */
static inline int oracle_below(const oracle *o, double x) {
    if (x >= o->limit)
        return o->n;
    int lo = 0, hi = o->n;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (o->value[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static inline double oracle_step(const oracle *o, int below) {
    return (below + 1 < o->n ? o->value[below + 1] : o->limit) - o->value[below];
}

/* Index of the value that finite x >= 0 becomes; n means that it is beyond the largest. */
static inline int oracle_round(const oracle *o, double x, mpt_rounding rounding,
                               uint32_t bits) {
    int below = oracle_below(o, x);
    if (below == o->n)
        return below;
    double step = oracle_step(o, below), part = (x - o->value[below]) / step; /* exact */
    switch (rounding) {
    case MPT_ROUNDING_NEAREST:
        return below + (part > 0.5 || (part == 0.5 && below % 2 == 1));
    case MPT_ROUNDING_HALF_AWAY:
        return below + (part >= 0.5);
    case MPT_ROUNDING_STOCHASTIC:
        if (!mpt_takes_one_byte(o->f->dtype))
            return below + (part >= (65536.0 - bits) / 65536.0);
        /* The contract adds in float32, which rounds: so does this. */
        float sum = fmaf((float)(bits >> 8) / 256.0f, (float)step, (float)x);
        return oracle_below(o, (double)sum);
    case MPT_ROUNDING_TOWARD_ZERO:
        break;
    }
    return below;
}

/* The code of index i under a sign, where it lies in memory. */
static inline uint32_t oracle_code(const oracle *o, int i, bool negative) {
    const cast_format *f = o->f;
    if (i == o->n && !f->saturates)
        return f->inf | (negative ? 1u << (mpt_code_bits(f->dtype) - 1) : 0u);
    uint32_t code = (uint32_t)(i == o->n ? i - 1 : i);
    if (f->dtype == MPT_DTYPE_INT8)
        return negative ? (0u - code) & 0xFFu : code;
    code |= negative ? 1u << (f->eb + f->mb) : 0u;
    return f->dtype == MPT_DTYPE_TF32 ? code << 13 : code;
}

/* What a cast must give for any x. */
static inline uint32_t oracle_encode(const oracle *o, float x, mpt_rounding rounding,
                                     uint32_t bits) {
    if (isnan(x))
        return o->f->nan;
    if (isinf(x))
        return oracle_code(o, o->n, signbit(x) != 0);
    return oracle_code(o, oracle_round(o, fabs((double)x), rounding, bits), signbit(x) != 0);
}

/* The cast under test. */
static inline uint32_t cast_encode(mpt_dtype dtype, float x, mpt_rounding rounding,
                                   uint32_t bits) {
    switch (rounding) {
    case MPT_ROUNDING_STOCHASTIC:
        return mpt_encode_stochastic(dtype, x, bits);
    case MPT_ROUNDING_TOWARD_ZERO:
        return mpt_encode_by(dtype, x, MPT_ROUND_ZERO);
    case MPT_ROUNDING_HALF_AWAY:
        return mpt_encode_by(dtype, x, MPT_ROUND_AWAY);
    case MPT_ROUNDING_NEAREST:
        break;
    }
    return mpt_encode(dtype, x);
}

#endif
