/* The CPU's quantizer kernels against ref, byte for byte: every level that can run here, every
 * place that blocks can have, every rounding and format, with edges, tails and bad values. */
#include "cpu_quantize_case.h"

static void check_formats(mpt_rounding rounding) {
    for (mpt_dtype format = MPT_DTYPE_E4M3; format <= MPT_DTYPE_INT8; format++) {
        mpt_quantizer q = cpu_case(format, 0, 0, MPT_SCALE_FP32);
        q.rounding = rounding;
        cpu_check(&q);
    }
}

static void test_cpu_when_nearest_then_ref(void **state) {
    (void)state;
    check_formats(MPT_ROUNDING_NEAREST);
}

static void test_cpu_when_stochastic_then_ref(void **state) {
    (void)state;
    check_formats(MPT_ROUNDING_STOCHASTIC);
}

static void test_cpu_when_toward_zero_then_ref(void **state) {
    (void)state;
    check_formats(MPT_ROUNDING_TOWARD_ZERO);
}

static void test_cpu_when_half_away_then_ref(void **state) {
    (void)state;
    check_formats(MPT_ROUNDING_HALF_AWAY);
}

static void test_cpu_when_scale_is_given_then_ref(void **state) {
    (void)state;
    static const mpt_dtype formats[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E2M1};
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        mpt_quantizer q = cpu_case(formats[i], 0, 0, MPT_SCALE_FP32);
        q.scale.kind = MPT_SCALING_DELAYED;
        cpu_check(&q);
        q.scale.kind = MPT_SCALING_STATIC;
        q.scale.value = 1.5;
        cpu_check(&q);
        q.nonfinite = MPT_NONFINITE_SATURATE;
        cpu_check(&q);
    }
}

static void test_cpu_when_nvfp4_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 16; rows += 15)
        for (int rounding = 0; rounding < 4; rounding++) {
            mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, rows, 16, MPT_SCALE_E4M3);
            q.outer = MPT_OUTER_TENSOR;
            q.rounding = (mpt_rounding)rounding;
            cpu_check(&q);
            q.headroom = 0.875;
            q.nonfinite = MPT_NONFINITE_SATURATE;
            cpu_check(&q);
        }
}

static void test_cpu_when_rows_have_outer_scales_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, 1, 16, MPT_SCALE_E4M3);
    q.outer = MPT_OUTER_ROW;
    cpu_check(&q);
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    q.hadamard = (mpt_hadamard){.size = 16, .signs = MPT_SIGNS_RANDOM};
    cpu_check(&q);
    q.nonfinite = MPT_NONFINITE_SATURATE;
    cpu_check(&q);
}

static void test_cpu_when_four_over_six_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 16; rows += 15)
        for (int i = 0; i < 4; i++) {
            mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, rows, 16, MPT_SCALE_E4M3);
            q.outer = i == 3 && rows == 1 ? MPT_OUTER_ROW : MPT_OUTER_TENSOR;
            q.scale_rule.kind = MPT_RULE_FOUR_OVER_SIX;
            q.scale_rule.error = i % 2 ? MPT_ERROR_MSE : MPT_ERROR_MAE;
            q.scale_rule.bound = i / 2 ? 256 : 448;
            q.nonfinite = i == 2 ? MPT_NONFINITE_SATURATE : MPT_NONFINITE_PROPAGATE;
            cpu_check(&q);
        }
}

static void test_cpu_when_e4m3_scales_stand_alone_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = cpu_case(MPT_DTYPE_E2M3, 1, 32, MPT_SCALE_E4M3);
    cpu_check(&q);
    q.block_rows = 32;
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    cpu_check(&q);
}

static void test_cpu_when_mx_then_ref(void **state) {
    (void)state;
    static const mpt_dtype formats[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E3M2,
                                        MPT_DTYPE_E2M3, MPT_DTYPE_E2M1, MPT_DTYPE_INT8};
    for (size_t i = 0; i < MPT_COUNT(formats); i++)
        for (int rule = MPT_RULE_UP; rule <= MPT_RULE_EVEN; rule++) {
            mpt_quantizer q = cpu_case(formats[i], rule % 2 ? 1 : 32, 32, MPT_SCALE_E8M0);
            q.scale_rule.kind = (mpt_scale_rule_kind)rule;
            q.rounding = (mpt_rounding)((i + (size_t)rule) % 4);
            q.headroom = rule == MPT_RULE_CEIL ? 0.75 : 0;
            cpu_check(&q);
        }
}

static void test_cpu_when_fp8_block_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 128; rows += 127)
        for (int format = MPT_SCALE_FP32; format <= MPT_SCALE_POW2; format++) {
            mpt_quantizer q = cpu_case(MPT_DTYPE_E4M3, rows, 128, (mpt_scale_format)format);
            q.scale_rule.kind = format == MPT_SCALE_POW2 ? MPT_RULE_UP : MPT_RULE_NEAREST;
            cpu_check(&q);
            q.format = MPT_DTYPE_E5M2;
            q.nonfinite = MPT_NONFINITE_SATURATE;
            cpu_check(&q);
        }
}

static void test_cpu_when_rotated_then_ref(void **state) {
    (void)state;
    for (int n = 2; n <= MPT_HADAMARD_MAX; n *= 2) {
        mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, n == 8 ? 16 : 1, 16, MPT_SCALE_E4M3);
        q.outer = MPT_OUTER_TENSOR;
        q.hadamard = (mpt_hadamard){.size = n, .signs = (mpt_signs)(n % 3)};
        q.rounding = n % 3 ? MPT_ROUNDING_STOCHASTIC : MPT_ROUNDING_NEAREST;
        cpu_check(&q);
    }
}

static void test_cpu_when_rotated_with_other_scales_then_ref(void **state) {
    (void)state;
    mpt_quantizer q = cpu_case(MPT_DTYPE_E4M3, 0, 0, MPT_SCALE_FP32);
    q.hadamard = (mpt_hadamard){.size = 32, .signs = MPT_SIGNS_RANDOM};
    cpu_check(&q);
    q = cpu_case(MPT_DTYPE_E4M3, 1, 32, MPT_SCALE_E8M0);
    q.scale_rule.kind = MPT_RULE_UP;
    q.hadamard = (mpt_hadamard){.size = 128, .signs = MPT_SIGNS_FIXED};
    cpu_check(&q);
    q = cpu_case(MPT_DTYPE_E5M2, 128, 128, MPT_SCALE_FP32);
    q.hadamard = (mpt_hadamard){.size = 16, .signs = MPT_SIGNS_FIXED};
    cpu_check(&q);
}

/* Pairs as recipes have them, and pairs whose scales are known at different times. */
static void test_both_copies_when_read_once_then_as_two_jobs(void **state) {
    (void)state;
    mpt_quantizer nvfp4 = cpu_case(MPT_DTYPE_E2M1, 1, 16, MPT_SCALE_E4M3);
    nvfp4.outer = MPT_OUTER_TENSOR;
    mpt_quantizer turned = nvfp4, square = nvfp4;
    turned.hadamard = (mpt_hadamard){.size = 32, .signs = MPT_SIGNS_FIXED};
    turned.rounding = MPT_ROUNDING_STOCHASTIC;
    square.block_rows = 16;
    mpt_quantizer mx = cpu_case(MPT_DTYPE_E4M3, 1, 32, MPT_SCALE_E8M0);
    mx.scale_rule.kind = MPT_RULE_UP;
    mpt_quantizer one = cpu_case(MPT_DTYPE_E5M2, 0, 0, MPT_SCALE_FP32), fixed = one;
    fixed.format = MPT_DTYPE_E2M1;
    fixed.scale.kind = MPT_SCALING_STATIC;
    fixed.scale.value = 2;
    const mpt_quantizer *pairs[][2] = {{&nvfp4, &turned}, {&square, &square}, {&mx, &mx},
                                       {&one, &turned},   {&turned, &fixed},  {&fixed, &one}};
    for (size_t i = 0; i < MPT_COUNT(pairs); i++) {
        cpu_check_both(pairs[i][0], pairs[i][1], 40, 24);
        cpu_check_both(pairs[i][0], pairs[i][1], 150, 301);
    }
}

static void test_both_copies_when_one_is_made_from_the_other_then_ref(void **state) {
    (void)state;
    mpt_quantizer row = cpu_case(MPT_DTYPE_E2M1, 1, 16, MPT_SCALE_E4M3), col = row;
    row.outer = col.outer = MPT_OUTER_TENSOR;
    col.source = MPT_SOURCE_DEQUANTIZED;
    cpu_check_both(&row, &col, 40, 24);
}

static void test_casts_at_every_level_then_ref(void **state) {
    (void)state;
    static const mpt_dtype formats[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP16, MPT_DTYPE_TF32,
                                        MPT_DTYPE_FP32, MPT_DTYPE_E4M3};
    float x[1003], want[1003], got[1003];
    for (size_t f = 0; f < MPT_COUNT(formats); f++)
        for (int kind = 0; kind < CASE_KINDS; kind++)
            for (int level = 0; level <= (int)mpt_quantize_best_level(); level++) {
                case_fill(x, 1003, kind, 9 + f);
                mpt_ref_round_copy(formats[f], x, want, 1003);
                mpt_round_copy_at((mpt_quantize_level)level, formats[f], x, got, 1003);
                assert_memory_equal(want, got, sizeof want);
            }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_cpu_when_nearest_then_ref),
    cmocka_unit_test(test_cpu_when_stochastic_then_ref),
    cmocka_unit_test(test_cpu_when_toward_zero_then_ref),
    cmocka_unit_test(test_cpu_when_half_away_then_ref),
    cmocka_unit_test(test_cpu_when_scale_is_given_then_ref),
    cmocka_unit_test(test_cpu_when_nvfp4_then_ref),
    cmocka_unit_test(test_cpu_when_rows_have_outer_scales_then_ref),
    cmocka_unit_test(test_cpu_when_four_over_six_then_ref),
    cmocka_unit_test(test_cpu_when_e4m3_scales_stand_alone_then_ref),
    cmocka_unit_test(test_cpu_when_mx_then_ref),
    cmocka_unit_test(test_cpu_when_fp8_block_then_ref),
    cmocka_unit_test(test_cpu_when_rotated_then_ref),
    cmocka_unit_test(test_cpu_when_rotated_with_other_scales_then_ref),
    cmocka_unit_test(test_both_copies_when_read_once_then_as_two_jobs),
    cmocka_unit_test(test_both_copies_when_one_is_made_from_the_other_then_ref),
    cmocka_unit_test(test_casts_at_every_level_then_ref),
};

MPT_TEST_MAIN(cases)
