/* Faults of number formats that other tools had in the field, by the id of their case, each
 * with the rest of its kind: scales of tiny values, values that are not finite, exponents near
 * powers of two, casts. */

/* What a release build may compile out must not be needed: P61. */
#ifndef NDEBUG
#define NDEBUG 1
#endif
#include "any_quantizer.h"

#include <math.h>

static const mpt_dtype narrow[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6,
                                   MPT_DTYPE_E3M2, MPT_DTYPE_E2M3, MPT_DTYPE_E2M1,
                                   MPT_DTYPE_INT8};
typedef void (*quantize_fn)(const mpt_quantize_job *);
static const quantize_fn backends[] = {mpt_ref_quantize_operand, mpt_quantize_operand};

/* Every kind of scale that a narrow format may have. */
static const mpt_quantizer kinds[] = {
    {.name = "e4m3"},
    {.name = "pow2", .scale_format = MPT_SCALE_POW2, .scale_rule.kind = MPT_RULE_UP},
    {.name = "fp8_block", .block_rows = 1, .block_cols = 128},
    {.name = "pow2 blocks",
     .block_rows = 32,
     .block_cols = 32,
     .scale_format = MPT_SCALE_POW2,
     .scale_rule.kind = MPT_RULE_UP},
    {.name = "mx up",
     .block_rows = 1,
     .block_cols = 32,
     .scale_format = MPT_SCALE_E8M0,
     .scale_rule.kind = MPT_RULE_UP},
    {.name = "mx floor",
     .block_rows = 1,
     .block_cols = 32,
     .scale_format = MPT_SCALE_E8M0,
     .scale_rule.kind = MPT_RULE_FLOOR},
    {.name = "mx ceil",
     .block_rows = 16,
     .block_cols = 16,
     .scale_format = MPT_SCALE_E8M0,
     .scale_rule.kind = MPT_RULE_CEIL},
    {.name = "mx even",
     .block_rows = 1,
     .block_cols = 0,
     .scale_format = MPT_SCALE_E8M0,
     .scale_rule.kind = MPT_RULE_EVEN},
    {.name = "e4m3 scales", .block_rows = 1, .block_cols = 16, .scale_format = MPT_SCALE_E4M3},
    {.name = "nvfp4",
     .block_rows = 1,
     .block_cols = 16,
     .scale_format = MPT_SCALE_E4M3,
     .outer = MPT_OUTER_TENSOR},
    {.name = "nvfp4 by row",
     .block_rows = 1,
     .block_cols = 32,
     .scale_format = MPT_SCALE_E4M3,
     .outer = MPT_OUTER_ROW},
};

static mpt_quantizer quantizer(size_t kind, mpt_dtype format, mpt_nonfinite nonfinite) {
    mpt_quantizer q = kinds[kind];
    q.format = format;
    q.scale.kind = MPT_SCALING_CURRENT;
    q.nonfinite = nonfinite;
    return q;
}

static mpt_quantizer mx(mpt_dtype format, mpt_scale_rule_kind rule) {
    return (mpt_quantizer){.name = "mx",
                           .format = format,
                           .block_rows = 1,
                           .block_cols = 32,
                           .scale.kind = MPT_SCALING_CURRENT,
                           .scale_format = MPT_SCALE_E8M0,
                           .scale_rule.kind = rule};
}

static const float *floats(const any_buffer *b) {
    return (const float *)(const void *)b->data;
}

/* ---- P24: max/amax is Inf ---- */

static bool all_finite(const any_buffer *b) {
    for (size_t i = 0; i < b->bytes / 4; i++)
        if (!mpt_is_finite(floats(b)[i]))
            return false;
    return true;
}

static void fill(float *x, size_t n, float value) {
    for (size_t i = 0; i < n; i++)
        x[i] = i % 3 ? value : -value;
}

static void
test_p24_amax_when_1e_38_per_tensor_then_scale_finite_and_cap_counted(void **state) {
    (void)state;
    float x[16 * 16];
    fill(x, 256, 1e-38f);
    mpt_quantizer q = case_fp8(MPT_DTYPE_E4M3);
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 16, .cols = 16};
    for (size_t b = 0; b < MPT_COUNT(backends); b++) {
        any_outputs o = any_run(backends[b], job);
        assert_true(floats(&o.scales)[0] == 1.0f / MPT_FLT_MAX);
        assert_true(all_finite(&o.dequantized));
        for (int i = 0; i < 256; i++)
            assert_true(fabsf(floats(&o.dequantized)[i] - x[i]) < 0.07e-38f);
        assert_int_equal(o.counts.capped, 1);
        any_free(&o);
    }
}

static void test_p24_amax_when_tiny_in_any_format_and_scale_then_all_finite(void **state) {
    (void)state;
    static const float tiny[] = {1e-38f, 0x1p-126f, 0x1p-127f, 0x1.8p-140f, 0x1p-149f};
    float x[5 * 48];
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (size_t f = 0; f < MPT_COUNT(narrow); f++)
            for (size_t t = 0; t < MPT_COUNT(tiny); t++) {
                mpt_quantizer q = quantizer(k, narrow[f], MPT_NONFINITE_PROPAGATE);
                fill(x, MPT_COUNT(x), tiny[t]);
                mpt_quantize_job job = {.q = &q, .x = x, .rows = 5, .cols = 48};
                job.column = t % 2;
                any_outputs o = any_run(backends[(k + f) % 2], job);
                assert_true(all_finite(&o.decoded) && all_finite(&o.dequantized));
                assert_true(all_finite(&o.factor) && all_finite(&o.amax));
                if (q.scale_format <= MPT_SCALE_POW2)
                    assert_true(all_finite(&o.scales) && floats(&o.scales)[0] > 0);
                double max = (double)mpt_format_of(narrow[f]).max;
                bool fp32 = q.scale_format <= MPT_SCALE_POW2;
                if (fp32 || q.outer != MPT_OUTER_NONE) {
                    max *= q.outer != MPT_OUTER_NONE ? 448 : 1;
                    bool capped = max / (double)tiny[t] > (double)MPT_FLT_MAX;
                    assert_int_equal(o.counts.capped > 0, capped);
                }
                any_free(&o);
            }
}

/* ---- P27, P28, P69: values that are not finite ---- */

enum { BAD_ROWS = 6, BAD_COLS = 70, BAD_ROW = 3, BAD_COL = 37 };

/* Whether (r, k) lies in the block of the bad value; both in the quantized orientation. */
static bool in_bad_block(const any_shape *s, int64_t r, int64_t k, int64_t br, int64_t bk) {
    return r / s->block_rows == br / s->block_rows && k / s->block_k == bk / s->block_k;
}

static void check_propagated(const any_outputs *o, const mpt_quantize_job *job, float bad) {
    any_shape s = any_shape_of(job);
    int64_t br = job->column ? BAD_COL : BAD_ROW, bk = job->column ? BAD_ROW : BAD_COL;
    bool one = mpt_quantizer_is_one_scale(job->q), says = mpt_has_nan(job->q->format);
    for (int64_t r = 0; r < BAD_ROWS; r++)
        for (int64_t c = 0; c < BAD_COLS; c++) {
            float y = floats(&o->dequantized)[r * BAD_COLS + c];
            int64_t qr = job->column ? c : r, qk = job->column ? r : c;
            bool inside =
                one && says ? r == BAD_ROW && c == BAD_COL : in_bad_block(&s, qr, qk, br, bk);
            bool is_inf = one && mpt_has_inf(job->q->format) && isinf(bad);
            if (!inside)
                assert_true(mpt_is_finite(y));
            else
                assert_true(is_inf ? y == bad : isnan(y));
        }
    if (one)
        return;
    int64_t at = br / s.block_rows * s.scale_cols + bk / s.block_k;
    if (job->q->scale_format <= MPT_SCALE_POW2)
        assert_true(isnan(floats(&o->scales)[at]));
    else
        assert_int_equal(o->scales.data[at],
                         job->q->scale_format == MPT_SCALE_E8M0 ? 0xFF : 0x7F);
}

/* No scale is NaN, and the bad value is the largest one or, where the format has it, NaN. */
static void check_saturated(const any_outputs *o, const mpt_quantize_job *job, float bad) {
    any_shape s = any_shape_of(job);
    for (int64_t i = 0; i < s.scale_rows * s.scale_cols; i++) {
        const mpt_quantizer *q = job->q;
        if (q->scale_format <= MPT_SCALE_POW2)
            assert_true(mpt_is_finite(floats(&o->scales)[i]));
        else
            assert_true(o->scales.data[i] != (q->scale_format == MPT_SCALE_E8M0 ? 0xFF : 0x7F));
    }
    int64_t r = job->column ? BAD_COL : BAD_ROW, k = job->column ? BAD_ROW : BAD_COL;
    mpt_format f = mpt_format_of(job->q->format);
    float value = mpt_decode(job->q->format, any_code(job->q, &s, o->codes.data, r, k));
    if (isnan(bad) && mpt_has_nan(job->q->format))
        assert_true(isnan(value));
    else
        assert_true(value == (bad < 0 ? -f.max : f.max));
}

static void check_bad_value(float bad, size_t kind, mpt_dtype format, int variant) {
    float x[BAD_ROWS * BAD_COLS];
    case_fill(x, MPT_COUNT(x), 0, 5);
    x[BAD_ROW * BAD_COLS + BAD_COL] = bad;
    mpt_nonfinite policy = variant & 1 ? MPT_NONFINITE_SATURATE : MPT_NONFINITE_PROPAGATE;
    mpt_quantizer q = quantizer(kind, format, policy);
    mpt_quantize_job job = {.q = &q, .x = x, .rows = BAD_ROWS, .cols = BAD_COLS};
    job.column = variant & 2;
    for (size_t b = 0; b < MPT_COUNT(backends); b++) {
        any_outputs o = any_run(backends[b], job);
        assert_int_equal(o.counts.nonfinite, 1);
        if (policy == MPT_NONFINITE_PROPAGATE)
            check_propagated(&o, &job, bad);
        else
            check_saturated(&o, &job, bad);
        any_free(&o);
    }
}

static void check_bad_everywhere(const mpt_dtype *formats, size_t n, float bad) {
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (size_t f = 0; f < n; f++)
            for (int variant = 0; variant < 4; variant++)
                check_bad_value(bad, k, formats[f], variant);
}

static void test_p27_nan_when_in_any_block_and_copy_then_seen_and_counted(void **state) {
    (void)state;
    check_bad_everywhere(narrow, MPT_COUNT(narrow), NAN);
    check_bad_everywhere(narrow, MPT_COUNT(narrow), mpt_bits_float(0xFFFFFFFFu));
}

static void
test_p28_inf_when_in_any_block_and_copy_then_seen_or_saturated_and_counted(void **state) {
    (void)state;
    check_bad_everywhere(narrow, MPT_COUNT(narrow), INFINITY);
    check_bad_everywhere(narrow, MPT_COUNT(narrow), -INFINITY);
}

/* Blocks of one length of all, with the one NaN first, in the middle and last: no quiet 6, and
 * no quiet 0. */
static void test_p69_nan_when_elements_have_none_then_the_whole_block_is_nan(void **state) {
    (void)state;
    static const mpt_dtype without[] = {MPT_DTYPE_E2M1, MPT_DTYPE_E3M2, MPT_DTYPE_E2M3,
                                        MPT_DTYPE_INT8};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (size_t f = 0; f < MPT_COUNT(without); f++)
            for (int column = 0; column < 2; column++)
                for (int place = 0; place < 3; place++) {
                    mpt_quantizer q = quantizer(k, without[f], MPT_NONFINITE_PROPAGATE);
                    int n = q.block_cols == 32 ? 32 : 16;
                    float x[32];
                    case_fill(x, 32, 0, 6);
                    x[place * (n - 1) / 2] = NAN;
                    mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = n};
                    if (column) {
                        job.column = true;
                        job.rows = n;
                        job.cols = 1;
                    }
                    any_outputs o = any_run(backends[place % 2], job);
                    for (int i = 0; i < n; i++)
                        assert_true(isnan(floats(&o.dequantized)[i]));
                    any_free(&o);
                }
}

/* ---- P29, P30, P31: exponents ---- */

static uint32_t scale_code(mpt_dtype format, mpt_scale_rule_kind rule, float amax, float *out) {
    float x[32] = {0};
    x[7] = -amax;
    mpt_quantizer q = mx(format, rule);
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 32};
    uint32_t code[2];
    for (size_t b = 0; b < MPT_COUNT(backends); b++) {
        any_outputs o = any_run(backends[b], job);
        code[b] = o.scales.data[0];
        *out = -floats(&o.dequantized)[7];
        any_free(&o);
    }
    assert_int_equal(code[0], code[1]);
    return code[0];
}

static void
test_p29_floor_when_amax_would_round_up_in_bf16_then_its_own_exponent(void **state) {
    (void)state;
    float y;
    assert_true(mpt_round(MPT_DTYPE_BF16, 2.0f - 0x1p-10f) == 2.0f);
    assert_int_equal(scale_code(MPT_DTYPE_E4M3, MPT_RULE_FLOOR, 2.0f - 0x1p-10f, &y), 127 - 8);
    for (int e = -100; e <= 100; e += 25)
        for (size_t f = 0; f < MPT_COUNT(narrow); f++) {
            float amax = ldexpf(2.0f - 0x1p-10f, e);
            int emax = ilogb((double)mpt_format_of(narrow[f]).max);
            assert_int_equal(scale_code(narrow[f], MPT_RULE_FLOOR, amax, &y), 127 + e - emax);
            assert_int_equal(scale_code(narrow[f], MPT_RULE_CEIL, amax, &y),
                             127 + e + 1 - emax);
        }
}

static int clamped(int code) {
    return code < 0 ? 0 : code > 254 ? 254 : code;
}

static void test_p30_exponent_when_beside_a_power_of_two_then_of_the_bits(void **state) {
    (void)state;
    float y;
    assert_int_equal(scale_code(MPT_DTYPE_E4M3, MPT_RULE_FLOOR, nextafterf(8, 0), &y), 127 - 6);
    for (int e = -125; e <= 127; e++) {
        float p = ldexpf(1.0f, e), below = nextafterf(p, 0), above = nextafterf(p, INFINITY);
        mpt_format f = mpt_format_of(MPT_DTYPE_E4M3);
        assert_int_equal(mpt_e8m0_floor(&f, below), clamped(127 + e - 1 - 8));
        assert_int_equal(mpt_e8m0_floor(&f, p), clamped(127 + e - 8));
        assert_int_equal(mpt_e8m0_floor(&f, above), clamped(127 + e - 8));
        assert_int_equal(mpt_e8m0_ceil(&f, below), clamped(127 + e - 8));
        assert_int_equal(mpt_e8m0_ceil(&f, p), clamped(127 + e - 8));
        assert_int_equal(mpt_e8m0_ceil(&f, above), clamped(127 + e + 1 - 8));
        assert_int_equal(mpt_e8m0_even(&f, below), clamped(127 + e - 8));
        assert_int_equal(mpt_e8m0_even(&f, p), clamped(127 + e - 8));
        if (e <= 118) { /* "up": just what makes 448 of the largest, and one more ulp */
            assert_int_equal(mpt_e8m0_up(448.0f, 448.0f * p), clamped(127 + e));
            assert_int_equal(mpt_e8m0_up(448.0f, nextafterf(448.0f * p, INFINITY)),
                             clamped(127 + e + (e > -127)));
        }
    }
}

static void
test_p31_code_0_when_amax_is_2_to_the_minus_126_then_2_to_the_minus_127(void **state) {
    (void)state;
    float y;
    assert_true(mpt_decode_e8m0(0) == 0x1p-127f);
    assert_true(mpt_e8m0_reciprocal(254) == 0x1p-127f);
    assert_int_equal(scale_code(MPT_DTYPE_E5M2, MPT_RULE_UP, 0x1p-126f, &y), 0);
    assert_true(y == 0x1p-126f);
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (int rule = MPT_RULE_UP; rule <= MPT_RULE_EVEN; rule++) {
            uint32_t code = scale_code(narrow[f], (mpt_scale_rule_kind)rule, 0x1p-126f, &y);
            assert_true(code <= 1);
            assert_true(y == 0x1p-126f);
        }
}

/* ---- P61: stochastic rounding with asserts compiled out ---- */

static void
test_p61_stochastic_when_release_build_then_mean_zeros_and_bits_as_said(void **state) {
    (void)state;
    enum { N = 16 * 64 };
    float x[N];
    uint64_t seed = 61;
    for (int i = 0; i < N; i++) {
        x[i] = -6;
        for (int j = 0; j < 12; j++)
            x[i] += (float)(case_random(&seed) >> 8) * 0x1p-24f;
    }
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 16, .cols = 64, .key = {61, 1, 2, 0}};
    any_outputs ref = any_run(mpt_ref_quantize_operand, job);
    any_outputs cpu = any_run(mpt_quantize_operand, job);
    assert_null(any_difference(&ref, &cpu));
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double d = (double)floats(&ref.dequantized)[i] - (double)x[i];
        sum += d;
        squares += d * d;
    }
    assert_true(squares > 0 && fabs(sum) < 3 * sqrt(squares));
    assert_true(ref.counts.zeros < N * 4 / 10);
    any_free(&ref);
    any_free(&cpu);
}

/* ---- P64, P65, P67: casts ---- */

/* Between two neighbouring codes the halfway point alone decides, to the last bit of float32.
 */
static void test_p64_cast_when_beside_a_midpoint_then_one_rounding_only(void **state) {
    (void)state;
    assert_int_equal(mpt_encode(MPT_DTYPE_E4M3, -431.999969f), 0xFD);
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (uint32_t c = 0; c < mpt_format_of(narrow[f]).max_code; c++) {
            float middle = 0.5f * (mpt_decode(narrow[f], c) + mpt_decode(narrow[f], c + 1));
            assert_int_equal(mpt_encode(narrow[f], nextafterf(middle, 0)), c);
            assert_int_equal(mpt_encode(narrow[f], nextafterf(middle, INFINITY)), c + 1);
            assert_int_equal(mpt_encode(narrow[f], middle), c + c % 2);
        }
}

static void test_p65_cast_when_tie_subnormal_zero_or_overflow_then_as_ieee(void **state) {
    (void)state;
    static const float row[][2] = {{1.125f, 1.0f},    {1.625f, 1.5f},  {0x1p-16f, 0x1p-16f},
                                   {1e-5f, 0x1p-16f}, {-0.0f, -0.0f},  {65504, 57344},
                                   {0x1p-17f, 0.0f},  {-1e30f, -57344}};
    for (size_t i = 0; i < MPT_COUNT(row); i++)
        assert_int_equal(mpt_float_bits(mpt_round(MPT_DTYPE_E5M2, row[i][0])),
                         mpt_float_bits(row[i][1]));
    for (size_t f = 0; f < MPT_COUNT(narrow); f++) {
        float least = mpt_decode(narrow[f], 1), max = mpt_format_of(narrow[f]).max;
        float zero = mpt_round(narrow[f], -0.0f);
        assert_true(zero == 0 && (signbit(zero) != 0) == (narrow[f] != MPT_DTYPE_INT8));
        assert_true(mpt_round(narrow[f], least) == least);
        assert_true(mpt_round(narrow[f], 0.5f * least) == 0);
        assert_true(mpt_round(narrow[f], nextafterf(0.5f * least, 1)) == least);
        assert_true(mpt_round(narrow[f], 1.5f * least) == 2 * least);
        assert_true(mpt_round(narrow[f], -MPT_FLT_MAX) == -max);
        assert_true(mpt_round(narrow[f], nextafterf(max, INFINITY)) == max);
    }
}

static void test_p67_cast_when_any_value_then_no_code_is_nearer(void **state) {
    (void)state;
    assert_true(mpt_round(MPT_DTYPE_E4M3, 1.8131605f) == 1.875f);
    uint64_t seed = 67;
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (int i = 0; i < 2000; i++) {
            float max = mpt_format_of(narrow[f]).max;
            float x = max * (float)(case_random(&seed) >> 8) * 0x1p-24f;
            x *= mpt_bits_float((127 - case_random(&seed) % 12) << 23);
            double error = fabs((double)mpt_round(narrow[f], x) - (double)x);
            for (uint32_t c = 0; c <= mpt_format_of(narrow[f]).max_code; c += i % 50 ? 7 : 1)
                assert_true(error <= fabs((double)mpt_decode(narrow[f], c) - (double)x));
        }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p24_amax_when_1e_38_per_tensor_then_scale_finite_and_cap_counted),
    cmocka_unit_test(test_p24_amax_when_tiny_in_any_format_and_scale_then_all_finite),
    cmocka_unit_test(test_p27_nan_when_in_any_block_and_copy_then_seen_and_counted),
    cmocka_unit_test(
        test_p28_inf_when_in_any_block_and_copy_then_seen_or_saturated_and_counted),
    cmocka_unit_test(test_p29_floor_when_amax_would_round_up_in_bf16_then_its_own_exponent),
    cmocka_unit_test(test_p30_exponent_when_beside_a_power_of_two_then_of_the_bits),
    cmocka_unit_test(test_p31_code_0_when_amax_is_2_to_the_minus_126_then_2_to_the_minus_127),
    cmocka_unit_test(test_p61_stochastic_when_release_build_then_mean_zeros_and_bits_as_said),
    cmocka_unit_test(test_p64_cast_when_beside_a_midpoint_then_one_rounding_only),
    cmocka_unit_test(test_p65_cast_when_tie_subnormal_zero_or_overflow_then_as_ieee),
    cmocka_unit_test(test_p67_cast_when_any_value_then_no_code_is_nearer),
    cmocka_unit_test(test_p69_nan_when_elements_have_none_then_the_whole_block_is_nan),
};

MPT_TEST_MAIN(cases)
