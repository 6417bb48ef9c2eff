/* Quantizers on a few numbers that can be followed by hand: scales of every format, values that
 * are not finite, delayed scales, counts, and a column copy made from the row copy. */
#include "quantize_case.h"

#include <math.h>

static const float inf = INFINITY, nan_ = NAN;

typedef void (*quantize_fn)(const mpt_quantize_job *);
static const quantize_fn backends[] = {mpt_ref_quantize_operand, mpt_quantize_operand};
enum { BACKENDS = 2, ALL = CASE_DECODED | CASE_CODES | CASE_COUNTS | CASE_STANDS_FOR };

static mpt_quantizer blocks(mpt_dtype format, int32_t rows, int32_t cols,
                            mpt_scale_format scale_format) {
    mpt_quantizer q = case_fp8(format);
    q.block_rows = rows;
    q.block_cols = cols;
    q.scale_format = scale_format;
    q.scale_rule.kind = scale_format == MPT_SCALE_E8M0 || scale_format == MPT_SCALE_POW2
                            ? MPT_RULE_UP
                            : MPT_RULE_NEAREST;
    return q;
}

static float scale_at(const case_result *r, int i) {
    float scale;
    memcpy(&scale, r->scales + 4 * i, 4);
    return scale;
}

/* ---- scales ---- */

static void test_e8m0_when_one_scale_a_row_or_tensor_then_of_its_amax(void **state) {
    (void)state;
    float x[] = {448, 1, 3, 900, -7, 0}; /* rows have amax 448 and 900 */
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = blocks(MPT_DTYPE_E4M3, 1, 0, MPT_SCALE_E8M0);
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 2, .cols = 3};
        case_result r = case_run(backends[b], job, ALL);
        assert_int_equal(r.scales_bytes, 2);
        assert_memory_equal(r.scales, "\x7F\x81", 2); /* 2^0; 900 / 448 > 2, so 2^2 */
        assert_true(r.decoded[0] == 448 && r.decoded[3] == 896); /* 225 / 1 of 4: 224 * 4 */
        case_free(&r);
        q.block_rows = 0;
        r = case_run(backends[b], job, ALL);
        assert_int_equal(r.scales_bytes, 1);
        assert_int_equal(r.scales[0], 0x81);
        assert_true(r.factor == 1.0f && r.amax == 900.0f);
        case_free(&r);
    }
}

static void test_fp32_blocks_when_scale_would_be_inf_then_the_operand_caps_it(void **state) {
    (void)state;
    float x[32];
    for (int i = 0; i < 32; i++)
        x[i] = 1e-38f;
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = blocks(MPT_DTYPE_E4M3, 1, 16, MPT_SCALE_FP32);
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 32};
        static const float cap[] = {MPT_FLT_MAX, 0x1.fep127f, 65504.0f};
        for (int operand = 0; operand < 3; operand++) {
            job.bf16 = operand == 1;
            job.fp16 = operand == 2;
            case_result r = case_run(backends[b], job, ALL);
            assert_true(scale_at(&r, 0) == 1.0f / cap[operand]);
            assert_true(scale_at(&r, 1) == scale_at(&r, 0));
            assert_int_equal(r.counts.capped, 2);
            case_free(&r);
        }
        q.scale_format = MPT_SCALE_POW2;
        case_result r = case_run(backends[b], job, ALL);
        assert_true(scale_at(&r, 0) == 0x1p-15f);
        case_free(&r);
    }
}

static void test_headroom_when_below_one_then_the_largest_value_is_smaller(void **state) {
    (void)state;
    float x[] = {512, -256, 1, 0};
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = case_fp8(MPT_DTYPE_E4M3);
        q.headroom = 0.75; /* 336 */
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 4};
        case_result r = case_run(backends[b], job, ALL);
        assert_true(r.decoded[0] == 336 - 16 || r.decoded[0] == 336 + 16);
        assert_true(r.factor == 1.0f / (336.0f / 512.0f));
        case_free(&r);
        q = blocks(MPT_DTYPE_E4M3, 1, 32, MPT_SCALE_E8M0);
        q.scale_rule.kind = MPT_RULE_FLOOR;
        r = case_run(backends[b], job, ALL);
        assert_int_equal(r.scales[0], 127 + 9 - 8);
        case_free(&r);
        q.headroom = 0.5; /* 1024 in place of 512 */
        r = case_run(backends[b], job, ALL);
        assert_int_equal(r.scales[0], 127 + 10 - 8);
        case_free(&r);
        q = case_nvfp4(1);
        q.headroom = 0.5;
        assert_true(mpt_quantizer_constant(&q) == 1.0f / 1344.0f);
        r = case_run(backends[b], job, ALL);
        assert_int_equal(r.scales[0], 0x7E); /* the largest block still has 448 */
        assert_true(r.decoded[0] == 448 * 3);
        case_free(&r);
    }
    mpt_quantizer none = case_nvfp4(1);
    none.outer = MPT_OUTER_NONE;
    assert_true(mpt_quantizer_constant(&none) == 1.0f);
}

static void test_e4m3_scales_when_no_outer_then_amax_by_the_largest(void **state) {
    (void)state;
    float x[] = {6, 1.5f, -3, 0, 12, -12, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4000, 1};
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = case_nvfp4(1);
        q.outer = MPT_OUTER_NONE;
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 18};
        case_result r = case_run(backends[b], job, ALL);
        assert_memory_equal(r.scales, "\x40\x7E", 2); /* 2; 667 does not fit, so 448 */
        assert_true(r.factor == 1.0f);
        assert_true(r.decoded[0] == 6 && r.decoded[4] == 12 && r.decoded[16] == 6 * 448);
        assert_int_equal(r.counts.overflow, 1);
        case_free(&r);
    }
}

/* ---- values that are not finite ---- */

static void test_blocks_when_not_finite_then_their_scale_is_nan_or_saturates(void **state) {
    (void)state;
    static const struct {
        mpt_scale_format format;
        uint32_t nan, inf; /* scale of a block with Inf: "propagate", "saturate" */
    } want[] = {{MPT_SCALE_E8M0, 0xFF, 0xFE},
                {MPT_SCALE_E4M3, 0x7F, 0x7E},
                {MPT_SCALE_FP32, MPT_NAN_BITS, 0x3F800000}};
    float x[48] = {1, 2};
    x[16] = inf;
    x[33] = nan_;
    x[34] = 3;
    for (int b = 0; b < BACKENDS; b++)
        for (size_t i = 0; i < MPT_COUNT(want); i++)
            for (int saturate = 0; saturate < 2; saturate++) {
                mpt_quantizer q = blocks(MPT_DTYPE_E2M1, 1, 16, want[i].format);
                q.nonfinite = saturate ? MPT_NONFINITE_SATURATE : MPT_NONFINITE_PROPAGATE;
                mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 48};
                case_result r = case_run(backends[b], job, ALL);
                uint32_t scale[3] = {r.scales[0], r.scales[1], r.scales[2]};
                if (want[i].format == MPT_SCALE_FP32)
                    memcpy(scale, r.scales, sizeof scale);
                assert_int_equal(scale[1], saturate ? want[i].inf : want[i].nan);
                assert_int_equal(scale[2] == want[i].nan, !saturate);
                assert_true(r.decoded[1] == 2 || saturate || i == 1);
                assert_int_equal(r.codes[8] & 15, 7);  /* Inf is the largest, or under NaN */
                assert_int_equal(r.codes[16] >> 4, 7); /* NaN is +6, or under NaN */
                assert_int_equal(isnan(r.stands_for[34]) != 0, !saturate);
                assert_true(r.amax == (saturate ? inf : 3.0f));
                assert_int_equal(r.counts.nonfinite, 2);
                assert_true(r.counts.amax == 3.0f && isfinite(r.counts.signal));
                case_free(&r);
            }
}

static void test_nvfp4_when_amax_is_inf_and_saturates_then_as_transformer_engine(void **state) {
    (void)state;
    float x[32] = {2, -1};
    x[16] = -inf;
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = case_nvfp4(1);
        q.nonfinite = MPT_NONFINITE_SATURATE;
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 32};
        case_result r = case_run(backends[b], job, ALL);
        assert_memory_equal(r.scales, "\x2B\x7E", 2); /* S_enc is 1: 2/6 and 448 */
        assert_true(r.factor == inf);
        assert_int_equal(r.codes[0], 0xD7); /* 2 and -1 by 0.34375: 5.8 and -2.9 */
        assert_int_equal(r.codes[8] & 15, 15);
        case_free(&r);
    }
}

static void test_one_scale_when_elements_have_no_nan_then_the_scale_is(void **state) {
    (void)state;
    static const mpt_dtype formats[] = {MPT_DTYPE_E2M1, MPT_DTYPE_E3M2, MPT_DTYPE_E2M3,
                                        MPT_DTYPE_INT8, MPT_DTYPE_E5M6};
    float x[] = {1, inf, 2, 0};
    for (int b = 0; b < BACKENDS; b++)
        for (size_t i = 0; i < MPT_COUNT(formats); i++)
            for (int fixed = 0; fixed < 2; fixed++) {
                mpt_quantizer q = case_fp8(formats[i]);
                q.scale.kind = fixed ? MPT_SCALING_STATIC : MPT_SCALING_CURRENT;
                q.scale.value = 1;
                mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 4};
                case_result r = case_run(backends[b], job, ALL);
                bool shows = formats[i] == MPT_DTYPE_E5M6;
                assert_int_equal(isnan(r.factor) != 0, !shows);
                assert_int_equal(isnan(r.amax) != 0, !shows);
                assert_int_equal(isnan(scale_at(&r, 0)) != 0, !shows);
                assert_true(!shows || r.decoded[1] == inf);
                case_free(&r);
                q.nonfinite = MPT_NONFINITE_SATURATE;
                r = case_run(backends[b], job, ALL);
                assert_true(r.factor == 1.0f && r.amax == inf); /* Inf: the scale is 1 */
                assert_true(r.decoded[1] == mpt_format_of(formats[i]).max);
                case_free(&r);
            }
}

/* ---- delayed scales ---- */

static void test_delayed_when_it_has_no_scale_yet_then_current(void **state) {
    (void)state;
    float x[] = {7, -14, 0, 1}, scale = 0, history = 3;
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = case_fp8(MPT_DTYPE_E4M3);
        q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 4, .margin = 3};
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 2, .cols = 2};
        case_result r = case_run(backends[b], job, ALL);
        assert_true(r.factor == 1.0f / 32 && scale_at(&r, 0) == 1.0f / 32);
        case_free(&r);
        job.scale = &scale;
        job.amax_history = &history;
        r = case_run(backends[b], job, ALL);
        assert_true(r.factor == 1.0f / 32 && history == 14 && r.amax == 14);
        case_free(&r);
        scale = 100; /* from now on: -1400 saturates */
        r = case_run(backends[b], job, ALL);
        assert_true(r.factor == 1.0f / 100 && r.decoded[1] == -448);
        assert_int_equal(r.counts.overflow, 2);
        case_free(&r);
        q.scale_format = MPT_SCALE_POW2;
        r = case_run(backends[b], job, ALL);
        assert_true(r.factor == 1.0f / 64);
        case_free(&r);
        scale = 0;
        history = 3;
    }
}

static void test_history_when_values_are_not_finite_then_it_shows(void **state) {
    (void)state;
    static const struct {
        float bad, before, propagate, saturate;
    } want[] = {{INFINITY, 1, INFINITY, INFINITY},
                {NAN, 1, NAN, 2},
                {NAN, 5, NAN, 5},
                {0, NAN, NAN, NAN},
                {0, INFINITY, INFINITY, INFINITY}};
    for (int b = 0; b < BACKENDS; b++)
        for (size_t i = 0; i < MPT_COUNT(want); i++)
            for (int saturate = 0; saturate < 2; saturate++) {
                float x[] = {1, want[i].bad, 2, 0}, scale = 1, history = want[i].before;
                mpt_quantizer q = case_fp8(MPT_DTYPE_E5M2);
                q.scale.kind = MPT_SCALING_DELAYED;
                q.nonfinite = saturate ? MPT_NONFINITE_SATURATE : MPT_NONFINITE_PROPAGATE;
                mpt_quantize_job job = {.q = &q, .x = x, .rows = 1, .cols = 4};
                job.scale = &scale;
                job.amax_history = &history;
                case_result r = case_run(backends[b], job, ALL);
                float expected = saturate ? want[i].saturate : want[i].propagate;
                assert_true(history == expected || (isnan(history) && isnan(expected)));
                case_free(&r);
            }
}

/* ---- counts ---- */

static void test_counts_when_every_fate_occurs_then_each_is_counted(void **state) {
    (void)state;
    /* 464 is a tie that goes to 448: it is rounded, not cut. */
    float x[] = {1000, 0, 1e-9f, nan_, -inf, -500, 464, -0.0f, 3};
    for (int b = 0; b < BACKENDS; b++) {
        mpt_quantizer q = case_fp8(MPT_DTYPE_E4M3);
        q.scale = (mpt_scale_source){.kind = MPT_SCALING_STATIC, .value = 1};
        mpt_quantize_job job = {.q = &q, .x = x, .rows = 3, .cols = 3};
        case_result r = case_run(backends[b], job, ALL);
        mpt_quantize_counts c = r.counts;
        assert_int_equal(c.elements, 9);
        assert_int_equal(c.overflow, 2);
        assert_int_equal(c.underflow, 1);
        assert_int_equal(c.zeros, 3);
        assert_int_equal(c.nonfinite, 2);
        assert_int_equal(c.capped, 0);
        assert_true(c.amax == 1000);
        double tiny = (double)x[2];
        assert_true(c.signal == 1e6 + tiny * tiny + 25e4 + 464. * 464 + 9);
        assert_true(c.noise == 552. * 552 + tiny * tiny + 52. * 52 + 16. * 16);
        mpt_quantize_counts_add(&c, &r.counts);
        assert_int_equal(c.elements, 18);
        assert_true(c.amax == 1000 && c.noise == 2 * r.counts.noise);
        assert_true(fabs(mpt_quantize_sqnr(&c) - 10 * log10(c.signal / c.noise)) < 1e-12);
        case_free(&r);
    }
    mpt_quantize_counts exact = {.signal = 4}, empty = {0};
    assert_true(mpt_quantize_sqnr(&exact) == (double)inf);
    assert_true(isnan(mpt_quantize_sqnr(&empty)));
}

/* ---- the column copy from what the row copy stands for ---- */

static void
test_both_when_the_row_is_rotated_then_the_column_sees_it_rotated_back(void **state) {
    (void)state;
    enum { ROWS = 20, COLS = 40, K = 48 };
    float x[ROWS * COLS], seen[ROWS * K], back[ROWS * COLS];
    case_fill(x, ROWS * COLS, 0, 3);
    mpt_ref_round_to(MPT_DTYPE_BF16, x, ROWS * COLS);
    mpt_quantizer q = case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED);
    mpt_quantizer col = case_nvfp4(1);
    col.source = MPT_SOURCE_DEQUANTIZED;
    mpt_quantize_job rows = {.q = &q, .x = x, .rows = ROWS, .cols = COLS, .bf16 = true};
    rows.stands_for = seen;
    rows.scratch = case_buffer(mpt_quantize_scratch(&rows));
    mpt_ref_quantize_operand(&rows);
    uint32_t signs[4];
    mpt_fixed_signs(signs);
    double error = 0, power = 0;
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < K; k += 16)
            mpt_hadamard_unrotate(seen + r * K + k, 16, signs);
        for (int k = 0; k < COLS; k++) {
            back[r * COLS + k] = mpt_round(MPT_DTYPE_BF16, seen[r * K + k]);
            error += pow((double)(back[r * COLS + k] - x[r * COLS + k]), 2);
            power += pow((double)x[r * COLS + k], 2);
        }
    }
    assert_true(error < 0.02 * power); /* it is x again, but for the rounding */
    mpt_quantize_job job = {.q = &col, .x = back, .rows = ROWS, .cols = COLS, .column = true};
    case_result want = case_run(mpt_ref_quantize_operand, job, ALL);
    void (*both[])(const mpt_quantize_job *, const mpt_quantize_job *) = {mpt_ref_quantize_both,
                                                                          mpt_quantize_both};
    for (int b = 0; b < BACKENDS; b++) {
        case_result got = case_result_for(&job);
        mpt_quantize_job columns = case_job(job, &got, ALL);
        columns.x = x;
        columns.bf16 = true;
        columns.scratch = case_buffer(mpt_quantize_both_scratch(&rows, &columns));
        both[b](&rows, &columns);
        assert_memory_equal(got.codes, want.codes, want.codes_bytes);
        assert_memory_equal(got.scales, want.scales, want.scales_bytes);
        assert_memory_equal(got.decoded, want.decoded, want.decoded_bytes);
        free(columns.scratch);
        case_free(&got);
    }
    case_free(&want);
    free(rows.scratch);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_e8m0_when_one_scale_a_row_or_tensor_then_of_its_amax),
    cmocka_unit_test(test_fp32_blocks_when_scale_would_be_inf_then_the_operand_caps_it),
    cmocka_unit_test(test_headroom_when_below_one_then_the_largest_value_is_smaller),
    cmocka_unit_test(test_e4m3_scales_when_no_outer_then_amax_by_the_largest),
    cmocka_unit_test(test_blocks_when_not_finite_then_their_scale_is_nan_or_saturates),
    cmocka_unit_test(test_nvfp4_when_amax_is_inf_and_saturates_then_as_transformer_engine),
    cmocka_unit_test(test_one_scale_when_elements_have_no_nan_then_the_scale_is),
    cmocka_unit_test(test_delayed_when_it_has_no_scale_yet_then_current),
    cmocka_unit_test(test_history_when_values_are_not_finite_then_it_shows),
    cmocka_unit_test(test_counts_when_every_fate_occurs_then_each_is_counted),
    cmocka_unit_test(test_both_when_the_row_is_rotated_then_the_column_sees_it_rotated_back),
};

MPT_TEST_MAIN(cases)
