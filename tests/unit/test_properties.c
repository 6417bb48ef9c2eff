/* What holds for every quantizer: finite stays finite, zero stays zero, rounding is monotone
 * within a block, errors are within half a step, and counts say what the outputs show.
 *
 * Over quantizers drawn from all that can be written; the definition is what is looked at, as
 * test_properties_backends.c holds the fast kernels to its bytes. */
#include "any_quantizer.h"

#include <math.h>

enum { CASES = 400 };

typedef struct run {
    any_case c;
    mpt_quantize_job job;
    any_shape s;
    any_outputs o;
} run;

static run run_of(uint64_t seed, bool finite) {
    run r = {.c = any_case_of(seed, finite)};
    r.job = any_job(&r.c);
    r.job.q = NULL; /* it would lead out of this copy */
    mpt_quantize_job job = any_job(&r.c);
    r.s = any_shape_of(&job);
    r.o = any_run(mpt_ref_quantize_operand, job);
    return r;
}

static void run_free(run *r) {
    any_free(&r->o);
    any_case_free(&r->c);
}

/* Element (r, k) of the quantized orientation of a matrix that lies as x. */
static float at(const run *r, const void *matrix, int64_t row, int64_t k) {
    int64_t i = r->job.column ? k * r->job.cols + row : row * r->job.cols + k;
    return ((const float *)matrix)[i];
}

static float x_at(const run *r, int64_t row, int64_t k) {
    return at(r, r->c.x, row, k);
}

static float y_at(const run *r, int64_t row, int64_t k) {
    return at(r, r->o.dequantized.data, row, k);
}

/* What codes of the block of (row, k) are multiplied by, in double, without the tensor's. */
static double scale_at(const run *r, int64_t row, int64_t k) {
    const mpt_quantizer *q = &r->c.q;
    int64_t i = row / r->s.block_rows * r->s.scale_cols + k / r->s.block_k;
    if (q->scale_format <= MPT_SCALE_POW2)
        return (double)((const float *)(const void *)r->o.scales.data)[i];
    uint8_t code = r->o.scales.data[i];
    if (q->scale_format == MPT_SCALE_E8M0)
        return ldexp(1.0, code - 127);
    return (double)mpt_decode(MPT_DTYPE_E4M3, code);
}

/* The amax that an outer scale decodes by. */
static double outer_at(const run *r, int64_t row) {
    const float *amax = (const void *)r->o.amax.data;
    return (double)amax[r->c.q.outer == MPT_OUTER_ROW ? row : 0];
}

/* The same with the outer scale: what a code is worth. */
static double unit_at(const run *r, int64_t row, int64_t k) {
    double unit = scale_at(r, row, k);
    if (r->c.q.outer == MPT_OUTER_NONE)
        return unit;
    double bound =
        r->c.q.scale_rule.kind == MPT_RULE_FOUR_OVER_SIX ? r->c.q.scale_rule.bound : 448;
    double max = (double)mpt_format_of(r->c.q.format).max * (double)(float)r->c.q.headroom;
    return unit * outer_at(r, row) / (bound * max);
}

/* Transformer Engine multiplies a block scale by the amax, which overflows past FLT_MAX/448 and
 * loses digits among the subnormals; where S_enc is capped the two do not agree at all. */
static bool outer_is_tame(const run *r, int64_t row) {
    double amax = r->c.q.outer == MPT_OUTER_NONE ? 1.0 : outer_at(r, row);
    return amax < 7e35 && amax > 1e-34;
}

/* ---- finite and zero ---- */

static void test_any_when_input_is_finite_then_no_nan_comes_out(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        run r = run_of(seed, true);
        const float *decoded = (const void *)r.o.decoded.data;
        bool rotated = r.c.q.hadamard.size > 0; /* whose sums may overflow */
        for (int64_t i = 0; !rotated && i < r.s.rows * r.s.k; i++)
            if (decoded[i] != decoded[i])
                any_fail(&r.c, "NaN among the decoded values");
        for (int64_t row = 0; !rotated && row < r.s.rows; row++)
            for (int64_t k = 0; k < r.s.k_in; k++) {
                double unit = scale_at(&r, row, k);
                if (unit != unit || unit > (double)MPT_FLT_MAX)
                    any_fail(&r.c, "a scale that is not finite");
                float y = y_at(&r, row, k);
                if (y != y && (r.c.q.outer == MPT_OUTER_NONE || outer_is_tame(&r, row)))
                    any_fail(&r.c, "NaN among the dequantized values");
            }
        run_free(&r);
    }
}

static void test_any_when_all_values_are_zero_then_exact_zeros(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        any_case c = any_case_of(seed, true);
        for (size_t i = 0; i < c.n; i++)
            c.x[i] = i / 16 % 2 ? -0.0f : 0.0f;
        any_outputs o = any_run(mpt_ref_quantize_operand, any_job(&c));
        for (size_t i = 0; i < c.n; i++)
            if (((const float *)(const void *)o.dequantized.data)[i] != 0)
                any_fail(&c, "zeros did not stay");
        assert_true(o.counts.signal == 0 && o.counts.noise == 0);
        assert_int_equal(o.counts.zeros, o.counts.elements);
        assert_int_equal(o.counts.underflow + o.counts.overflow + o.counts.capped, 0);
        any_free(&o);
        any_case_free(&c);
    }
}

/* Some pieces of a row are zero, and in other places whole blocks of any size. */
static void test_any_when_some_values_are_zero_then_those_stay(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        any_case c = any_case_of(seed, true);
        case_fill(c.x, c.n, 0, seed);
        for (size_t i = 0; i < c.n; i++)
            if (i / 16 % 3 == 0 || i > c.n / 2)
                c.x[i] = i % 2 ? -0.0f : 0.0f;
        any_outputs o = any_run(mpt_ref_quantize_operand, any_job(&c));
        const float *y = (const void *)o.dequantized.data;
        for (size_t i = 0; c.q.hadamard.size == 0 && i < c.n; i++)
            if (c.x[i] == 0 && y[i] != 0)
                any_fail(&c, "a zero did not stay");
        any_free(&o);
        any_case_free(&c);
    }
}

/* ---- rounding ---- */

/* Pairs of a block: a larger value never becomes a smaller one. */
static void check_monotone(const run *r, uint64_t *state) {
    for (int pair = 0; pair < 2000; pair++) {
        int64_t row = any_below(state, (uint32_t)r->s.rows);
        int64_t k = any_below(state, (uint32_t)r->s.k_in);
        int64_t row2 = row / r->s.block_rows * r->s.block_rows +
                       any_below(state, (uint32_t)r->s.block_rows);
        int64_t k2 = k / r->s.block_k * r->s.block_k + any_below(state, (uint32_t)r->s.block_k);
        if (row2 >= r->s.rows || k2 >= r->s.k_in || !outer_is_tame(r, row) ||
            !outer_is_tame(r, row2))
            continue;
        float a = x_at(r, row, k), b = x_at(r, row2, k2);
        float ya = y_at(r, row, k), yb = y_at(r, row2, k2);
        if ((a <= b && !(ya <= yb)) || (a >= b && !(ya >= yb)))
            any_fail(&r->c, "rounding is not monotone");
    }
}

static void test_rounding_when_in_one_block_then_monotone(void **state) {
    (void)state;
    int checked = 0;
    for (uint64_t seed = 5000; seed < 5000 + CASES; seed++) {
        run r = run_of(seed, true);
        uint64_t draw = seed;
        if (r.c.q.rounding != MPT_ROUNDING_STOCHASTIC && r.c.q.hadamard.size == 0) {
            check_monotone(&r, &draw);
            checked++;
        }
        run_free(&r);
    }
    assert_true(checked > CASES / 4);
}

/* How far a value may be from what it became, in units of the block's scale: the gap to the
 * next code on its side, times what the rounding allows. */
static double allowed(const mpt_quantizer *q, double u, double v) {
    mpt_format f = mpt_format_of(q->format);
    uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits);
    uint32_t code = mpt_encode(q->format, (float)fabs(v)) & (sign - 1);
    uint32_t lower = code ? code - 1 : 0, upper = code < f.max_code ? code + 1 : code;
    uint32_t next = fabs(u) > fabs(v) ? upper : lower;
    double gap = fabs((double)mpt_decode(q->format, next) - fabs(v));
    bool half = q->rounding == MPT_ROUNDING_NEAREST || q->rounding == MPT_ROUNDING_HALF_AWAY;
    /* The scale and its reciprocal are rounded, so values are off by a few parts in 2^23. */
    return (half ? 0.5 : 1.0) * gap + fabs(u) * 0x1p-20;
}

/* Whether (row, k) was checked. A scale of zero or among the subnormals says too little. */
static bool check_error(const run *r, int64_t row, int64_t k) {
    double unit = unit_at(r, row, k), x = (double)x_at(r, row, k);
    const mpt_quantizer *q = &r->c.q;
    if (unit < 0x1p-120 || !outer_is_tame(r, row))
        return false;
    double largest = (double)mpt_format_of(q->format).max;
    double u = x / unit, v = (double)y_at(r, row, k) / unit;
    if (largest * unit >= (double)MPT_FLT_MAX * (1 - 0x1p-20))
        return false; /* what the largest code stands for may round to Inf */
    if (!(fabs(v) <= largest * (1 + 0x1p-20)))
        any_fail(&r->c, "a value beyond the largest code");
    v = (double)mpt_round(q->format, (float)v);
    if (fabs(u) >= largest) { /* it saturates, to the largest code or close by */
        if (fabs(v) < largest && fabs(u) > largest * (1 + 0x1p-20))
            any_fail(&r->c, "a large value became less than the largest");
        return true;
    }
    if (fabs(u - v) > allowed(q, u, v))
        any_fail(&r->c, "an error of more than the rounding allows");
    if (q->rounding == MPT_ROUNDING_TOWARD_ZERO && fabs(v) > fabs(u) * (1 + 0x1p-20))
        any_fail(&r->c, "toward_zero went away from zero");
    return true;
}

static void test_error_when_any_rounding_then_within_its_share_of_a_step(void **state) {
    (void)state;
    int64_t checked = 0;
    for (uint64_t seed = 6000; seed < 6000 + CASES; seed++) {
        run r = run_of(seed, true);
        for (int64_t row = 0; r.c.q.hadamard.size == 0 && row < r.s.rows; row++)
            for (int64_t k = 0; k < r.s.k_in; k++)
                checked += check_error(&r, row, k);
        run_free(&r);
    }
    assert_true(checked > 100000);
}

/* ---- counts ---- */

/* The counts of a run, again, from x, codes and dequantized values. */
static mpt_quantize_counts recount(const run *r, uint64_t *out_largest) {
    mpt_quantize_counts c = {.elements = r->c.n};
    float largest = mpt_format_of(r->c.q.format).max;
    *out_largest = 0;
    for (int64_t row = 0; row < r->s.rows; row++)
        for (int64_t k = 0; k < r->s.k_in; k++) {
            float x = x_at(r, row, k), y = y_at(r, row, k);
            uint32_t code = any_code(&r->c.q, &r->s, r->o.codes.data, row, k);
            float value = mpt_decode(r->c.q.format, code);
            c.zeros += value == 0;
            *out_largest += fabsf(value) == largest;
            if (!mpt_is_finite(x)) {
                c.nonfinite++;
                continue;
            }
            c.underflow += x != 0 && value == 0;
            c.amax = fmaxf(c.amax, fabsf(x));
            if (y != y)
                continue;
            c.signal += (double)x * (double)x;
            c.noise += ((double)x - (double)y) * ((double)x - (double)y);
        }
    return c;
}

static bool close_to(double a, double b) {
    return a == b || fabs(a - b) <= 1e-10 * fabs(b) || (isnan(a) && isnan(b));
}

static void check_counts(const run *r) {
    uint64_t largest;
    mpt_quantize_counts want = recount(r, &largest), got = r->o.counts;
    if (got.elements != want.elements || got.zeros != want.zeros ||
        got.nonfinite != want.nonfinite || got.underflow != want.underflow ||
        got.amax != want.amax)
        any_fail(&r->c, "counts of elements");
    bool by_row = r->c.q.outer == MPT_OUTER_ROW;
    uint64_t scales = (uint64_t)(r->s.scale_rows * r->s.scale_cols + (by_row ? r->s.rows : 1));
    if (got.overflow > largest || got.capped > scales)
        any_fail(&r->c, "more overflows than largest codes, or more caps than scales");
    if (!close_to(got.signal, want.signal) || !close_to(got.noise, want.noise))
        any_fail(&r->c, "signal or noise");
    double sqnr = want.signal > 0 ? 10 * log10(want.signal / want.noise) : (double)NAN;
    double said = mpt_quantize_sqnr(&got);
    if (!close_to(said, sqnr) && !(fabs(said - sqnr) < 1e-8))
        any_fail(&r->c, "sqnr");
}

static void test_counts_when_counted_again_from_the_outputs_then_the_same(void **state) {
    (void)state;
    int checked = 0;
    for (uint64_t seed = 7000; seed < 7000 + CASES; seed++) {
        run r = run_of(seed, false);
        if (r.c.q.hadamard.size == 0) {
            check_counts(&r);
            checked++;
        }
        run_free(&r);
    }
    assert_true(checked > CASES / 2);
}

/* Scales that are powers of two are exact, so that what saturates can be told from outside. */
static void test_overflow_when_scales_are_powers_of_two_then_counted_exactly(void **state) {
    (void)state;
    uint64_t total = 0;
    for (uint64_t seed = 8000; seed < 8000 + 2 * CASES; seed++) {
        run r = run_of(seed, true);
        if (r.c.q.scale_format == MPT_SCALE_E8M0 && r.c.q.hadamard.size == 0) {
            mpt_format f = mpt_format_of(r.c.q.format);
            double max = (double)f.max,
                   below = (double)mpt_decode(r.c.q.format, f.max_code - 1);
            double limit = max + 0.5 * (max - below);
            uint64_t n = 0;
            for (int64_t row = 0; row < r.s.rows; row++)
                for (int64_t k = 0; k < r.s.k_in; k++) {
                    double u = fabs((double)x_at(&r, row, k)) / scale_at(&r, row, k);
                    n += u > limit || (u == limit && f.max_code % 2);
                }
            if (n != r.o.counts.overflow)
                any_fail(&r.c, "overflow");
            total += n;
        }
        run_free(&r);
    }
    assert_true(total > 1000);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_any_when_input_is_finite_then_no_nan_comes_out),
    cmocka_unit_test(test_any_when_all_values_are_zero_then_exact_zeros),
    cmocka_unit_test(test_any_when_some_values_are_zero_then_those_stay),
    cmocka_unit_test(test_rounding_when_in_one_block_then_monotone),
    cmocka_unit_test(test_error_when_any_rounding_then_within_its_share_of_a_step),
    cmocka_unit_test(test_counts_when_counted_again_from_the_outputs_then_the_same),
    cmocka_unit_test(test_overflow_when_scales_are_powers_of_two_then_counted_exactly),
};

MPT_TEST_MAIN(cases)
