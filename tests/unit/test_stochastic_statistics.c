/* Stochastic rounding over many draws: no bias in any part of any format's range, streams of
 * different operands, steps and micro-batches that know nothing of each other, and the same
 * bytes for any number of threads. */
#include "any_quantizer.h"

#include <math.h>
#include <omp.h>

static const mpt_dtype narrow[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6,
                                   MPT_DTYPE_E3M2, MPT_DTYPE_E2M3, MPT_DTYPE_E2M1,
                                   MPT_DTYPE_INT8};

/* The plain stochastic cast: a scale of 1. */
static mpt_quantizer plain_cast(mpt_dtype format) {
    mpt_quantizer q = case_stochastic(case_fp8(format));
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_STATIC, .value = 1.0};
    return q;
}

/* ---- means ---- */

/* Sums of the errors and of their squares; |sum| < 4 sigma holds for all but 1 in 16,000. */
typedef struct error_sums {
    double sum, squares;
} error_sums;

static void add_errors(error_sums *e, const float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        e->sum += d;
        e->squares += d * d;
    }
}

static void assert_unbiased(const error_sums *e, const char *what, double at) {
    if (!(fabs(e->sum) < 4 * sqrt(e->squares)))
        fail_msg("%s near %g: error %g, 4 sigma is %g", what, at, e->sum, 4 * sqrt(e->squares));
}

/* Uniform values of one octave after another, down to below the smallest subnormal. */
static void test_mean_when_any_octave_of_any_format_then_within_four_sigma(void **state) {
    (void)state;
    enum { N = 64 * 64 };
    float x[N];
    for (size_t f = 0; f < MPT_COUNT(narrow); f++) {
        mpt_quantizer q = plain_cast(narrow[f]);
        float top = mpt_format_of(narrow[f]).max, least = mpt_decode(narrow[f], 1) * 0.125f;
        for (uint32_t octave = 0; top > least; octave++, top *= 0.5f) {
            uint64_t seed = octave + 100 * f;
            for (int i = 0; i < N; i++) {
                float u = (float)(case_random(&seed) >> 8) * 0x1p-24f;
                x[i] = (i % 2 ? -top : top) * (0.5f + 0.5f * u);
            }
            mpt_quantize_job job = {.q = &q, .x = x, .rows = 64, .cols = 64};
            job.key = (mpt_random_key){9, octave, 0, 0};
            any_outputs o = any_run(mpt_quantize_operand, job);
            error_sums e = {0, 0};
            add_errors(&e, (const float *)(void *)o.dequantized.data, x, N);
            assert_true(e.squares > 0);
            assert_unbiased(&e, mpt_dtype_name(narrow[f]), (double)top);
            any_free(&o);
        }
    }
}

/* One value many times, where nearest rounding would always err to one side. */
static void test_mean_when_one_value_is_drawn_often_then_unbiased(void **state) {
    (void)state;
    enum { N = 128 * 128 };
    static const float value[] = {0.01f, 0.13f, 1.3f, 1.7f, -0.9f};
    float *x = case_buffer(N * 4);
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (size_t v = 0; v < MPT_COUNT(value); v++) {
            for (int i = 0; i < N; i++)
                x[i] = value[v];
            mpt_quantizer q = plain_cast(narrow[f]);
            mpt_quantize_job job = {.q = &q, .x = x, .rows = 128, .cols = 128};
            job.key = (mpt_random_key){5, (uint32_t)v, 0, 0};
            any_outputs o = any_run(mpt_quantize_operand, job);
            error_sums e = {0, 0};
            add_errors(&e, (const float *)(void *)o.dequantized.data, x, N);
            assert_true(e.squares > 0);
            assert_unbiased(&e, mpt_dtype_name(narrow[f]), (double)value[v]);
            any_free(&o);
        }
    free(x);
}

/* Bell-like values, by a sum of twelve uniform ones. */
static void fill_normal(float *x, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        float g = -6;
        for (int j = 0; j < 12; j++)
            g += (float)(case_random(&seed) >> 8) * 0x1p-24f;
        x[i] = g;
    }
}

/* Scales are rounded to nearest, so a block's largest element may be cut: blocks under E8M0
 * scales that round up have room for it. */
static void test_mean_when_blocks_are_scaled_then_within_four_sigma(void **state) {
    (void)state;
    enum { ROWS = 96, COLS = 256 };
    float *x = case_buffer(ROWS * COLS * 4);
    fill_normal(x, ROWS * COLS, 11);
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (int column = 0; column < 2; column++) {
            mpt_quantizer q = case_stochastic(case_fp8(narrow[f]));
            q.block_rows = 1;
            q.block_cols = 32;
            q.scale_format = MPT_SCALE_E8M0;
            q.scale_rule.kind = MPT_RULE_UP;
            mpt_quantize_job job = {
                .q = &q, .x = x, .rows = ROWS, .cols = COLS, .column = column};
            job.key = (mpt_random_key){3, 1, 0, 0};
            any_outputs o = any_run(mpt_quantize_operand, job);
            error_sums e = {0, 0};
            add_errors(&e, (const float *)(void *)o.dequantized.data, x, ROWS * COLS);
            assert_true(e.squares > 0);
            assert_unbiased(&e, mpt_dtype_name(narrow[f]), (double)column);
            any_free(&o);
        }
    free(x);
}

static void test_nvfp4_when_normal_values_then_unbiased_and_few_zeros(void **state) {
    (void)state;
    enum { N = 256 * 256 };
    float *x = case_buffer(N * 4);
    fill_normal(x, N, 11);
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    for (int column = 0; column < 2; column++) {
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 256, .cols = 256, .column = column};
        job.key = (mpt_random_key){3, 1, 0, 0};
        any_outputs o = any_run(mpt_quantize_operand, job);
        error_sums e = {0, 0};
        add_errors(&e, (const float *)(void *)o.dequantized.data, x, N);
        assert_unbiased(&e, "nvfp4", 0);
        assert_true(o.counts.zeros < N * 4 / 10);
        any_free(&o);
    }
    free(x);
}

/* ---- independence ---- */

/* The errors of one matrix of equal values under a key: +- half a step, as a fair coin has it.
 */
enum { COINS = 128 * 256 };
static void toss(mpt_dtype format, mpt_random_key key, bool column, signed char *coin) {
    float *x = case_buffer(COINS * 4);
    float middle = 0.5f * (mpt_decode(format, 1) + mpt_decode(format, 2));
    for (int i = 0; i < COINS; i++)
        x[i] = middle;
    mpt_quantizer q = plain_cast(format);
    mpt_quantize_job job = {
        .q = &q, .x = x, .rows = 128, .cols = 256, .key = key, .column = column};
    any_outputs o = any_run(mpt_quantize_operand, job);
    const float *y = (const float *)(void *)o.dequantized.data;
    for (int i = 0; i < COINS; i++)
        coin[i] = y[i] > middle ? 1 : -1;
    any_free(&o);
    free(x);
}

/* The sum of the products of fair independent coins has sigma sqrt(n). */
static void assert_independent(const signed char *a, const signed char *b, int n,
                               const char *what) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    if (abs(sum) >= 4 * sqrt(n))
        fail_msg("%s: %d of %d, 4 sigma is %g", what, sum, n, 4 * sqrt(n));
}

static void test_streams_when_keys_differ_then_uncorrelated(void **state) {
    (void)state;
    static signed char a[COINS], b[COINS];
    mpt_random_key base = {1, 2, 3, 0};
    mpt_random_key other[] = {{2, 2, 3, 0},
                              {1ull << 32 | 1, 2, 3, 0},
                              {1, 3, 3, 0},
                              {1, 2, 4, 0},
                              {1, 2, 3, COINS / 16}};
    static const char *const what[] = {"seed", "seed's high word", "operand", "step",
                                       "micro-batch"};
    for (size_t f = 0; f < MPT_COUNT(narrow); f++) {
        toss(narrow[f], base, false, a);
        for (size_t i = 0; i < MPT_COUNT(other); i++) {
            toss(narrow[f], other[i], false, b);
            assert_independent(a, b, COINS, what[i]);
        }
        toss(narrow[f], base, true, b);
        assert_independent(a, b, COINS, "row and column copy");
    }
}

static void test_stream_when_shifted_in_itself_then_uncorrelated(void **state) {
    (void)state;
    static signed char a[COINS];
    static const int shift[] = {1, 2, 4, 8, 15, 16, 17, 256, 257};
    for (size_t f = 0; f < MPT_COUNT(narrow); f++) {
        toss(narrow[f], (mpt_random_key){1, 2, 3, 0}, false, a);
        for (size_t i = 0; i < MPT_COUNT(shift); i++)
            assert_independent(a, a + shift[i], COINS - shift[i], "neighbours");
    }
}

/* The two bytes of 16 random bits come of two calls: they too are apart. */
static void test_bits_when_high_and_low_then_uncorrelated(void **state) {
    (void)state;
    static signed char a[COINS], b[COINS];
    mpt_random_key key = {77, 1, 0, 0};
    for (int i = 0; i < COINS; i += 16) {
        uint8_t high[16], low[16];
        mpt_random_bytes(&key, (uint64_t)i / 16, 0, high);
        mpt_random_bytes(&key, (uint64_t)i / 16, MPT_RANDOM_LOW, low);
        for (int j = 0; j < 16; j++) {
            a[i + j] = high[j] & 128 ? 1 : -1;
            b[i + j] = low[j] & 128 ? 1 : -1;
        }
    }
    assert_independent(a, b, COINS, "high and low byte");
}

/* ---- what changes nothing ---- */

static void test_stream_when_threads_differ_then_same_bytes(void **state) {
    (void)state;
    enum { ROWS = 70, COLS = 300 };
    float *x = case_buffer(ROWS * COLS * 4);
    fill_normal(x, ROWS * COLS, 4);
    int before = omp_get_max_threads();
    for (size_t f = 0; f < MPT_COUNT(narrow); f++)
        for (int column = 0; column < 2; column++) {
            mpt_quantizer q = case_stochastic(case_fp8(narrow[f]));
            mpt_quantize_job job = {
                .q = &q, .x = x, .rows = ROWS, .cols = COLS, .column = column};
            job.key = (mpt_random_key){1, 2, 3, 4};
            omp_set_num_threads(1);
            any_outputs one = any_run(mpt_quantize_operand, job);
            omp_set_num_threads(2);
            any_outputs two = any_run(mpt_quantize_operand, job);
            assert_null(any_difference(&one, &two));
            any_free(&one);
            any_free(&two);
        }
    omp_set_num_threads(before);
    free(x);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_mean_when_any_octave_of_any_format_then_within_four_sigma),
    cmocka_unit_test(test_mean_when_one_value_is_drawn_often_then_unbiased),
    cmocka_unit_test(test_mean_when_blocks_are_scaled_then_within_four_sigma),
    cmocka_unit_test(test_nvfp4_when_normal_values_then_unbiased_and_few_zeros),
    cmocka_unit_test(test_streams_when_keys_differ_then_uncorrelated),
    cmocka_unit_test(test_stream_when_shifted_in_itself_then_uncorrelated),
    cmocka_unit_test(test_bits_when_high_and_low_then_uncorrelated),
    cmocka_unit_test(test_stream_when_threads_differ_then_same_bytes),
};

MPT_TEST_MAIN(cases)
