/* The AVX-512 kernels against ref, their instructions modelled in plain C.
 *
 * What test_cpu_quantize.c does where the processor has AVX-512 this does everywhere: it
 * compiles the source of those kernels once more, with tests/avx512_model.h in place of the
 * compiler's intrinsics. */
#include "avx512_model.h"

#include "kernels/cpu/lanes_avx512.h"

#include "kernels/cpu/cast_kernels.h"
#include "kernels/cpu/quantize_strip.h"

static const mpt_quantize_kernels modelled = {panel_amax, panel_run, panel_both, round_values};
#define CPU_KERNELS modelled
#include "cpu_quantize_case.h"

static void test_avx512_when_one_scale_then_ref(void **state) {
    (void)state;
    for (mpt_dtype format = MPT_DTYPE_E4M3; format <= MPT_DTYPE_INT8; format++) {
        mpt_quantizer q = cpu_case(format, 0, 0, MPT_SCALE_FP32);
        q.rounding = (mpt_rounding)(format % 4);
        cpu_check(&q);
        q.rounding = MPT_ROUNDING_STOCHASTIC;
        cpu_check(&q);
    }
}

static void test_avx512_when_nearest_then_ref(void **state) {
    (void)state;
    for (mpt_dtype format = MPT_DTYPE_E4M3; format <= MPT_DTYPE_INT8; format++) {
        mpt_quantizer q = cpu_case(format, 1, 64, MPT_SCALE_POW2);
        q.scale_rule.kind = MPT_RULE_UP;
        cpu_check(&q);
    }
}

static void test_avx512_when_nvfp4_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 16; rows += 15)
        for (int rounding = 0; rounding < 2; rounding++) {
            mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, rows, 16, MPT_SCALE_E4M3);
            q.outer = MPT_OUTER_TENSOR;
            q.rounding = (mpt_rounding)rounding;
            cpu_check(&q);
        }
}

static void test_avx512_when_blocks_then_ref(void **state) {
    (void)state;
    for (int rule = MPT_RULE_UP; rule <= MPT_RULE_EVEN; rule++) {
        mpt_quantizer q = cpu_case(MPT_DTYPE_E4M3, rule % 2 ? 1 : 32, 32, MPT_SCALE_E8M0);
        q.scale_rule.kind = (mpt_scale_rule_kind)rule;
        cpu_check(&q);
    }
    mpt_quantizer q = cpu_case(MPT_DTYPE_E5M2, 1, 128, MPT_SCALE_FP32);
    cpu_check(&q);
    q.block_rows = 128;
    cpu_check(&q);
}

static void test_avx512_when_four_over_six_then_ref(void **state) {
    (void)state;
    for (int32_t rows = 1; rows <= 16; rows += 15) {
        mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, rows, 16, MPT_SCALE_E4M3);
        q.outer = rows == 1 ? MPT_OUTER_ROW : MPT_OUTER_TENSOR;
        q.scale_rule.kind = MPT_RULE_FOUR_OVER_SIX;
        q.scale_rule.bound = 256;
        cpu_check(&q);
    }
}

static void test_avx512_when_rotated_then_ref(void **state) {
    (void)state;
    for (int n = 2; n <= MPT_HADAMARD_MAX; n *= 2) {
        mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, 1, 16, MPT_SCALE_E4M3);
        q.outer = MPT_OUTER_TENSOR;
        q.hadamard = (mpt_hadamard){.size = n, .signs = MPT_SIGNS_RANDOM};
        q.rounding = (mpt_rounding)(n % 3);
        cpu_check(&q);
    }
}

static void test_avx512_when_both_copies_then_ref(void **state) {
    (void)state;
    mpt_quantizer row = cpu_case(MPT_DTYPE_E2M1, 1, 16, MPT_SCALE_E4M3), col = row;
    row.outer = col.outer = MPT_OUTER_TENSOR;
    col.hadamard = (mpt_hadamard){.size = 16, .signs = MPT_SIGNS_FIXED};
    col.rounding = MPT_ROUNDING_STOCHASTIC;
    cpu_check_both(&row, &col, 150, 301);
}

/* Lines of a row, and bands of rows, that are read in turn. */
static void test_avx512_when_squares_fill_many_lines_then_ref(void **state) {
    (void)state;
    enum { ROWS = 37, COLS = 1111 };
    mpt_quantizer q = cpu_case(MPT_DTYPE_E2M1, 16, 16, MPT_SCALE_E4M3);
    float *x = case_buffer(ROWS * COLS * sizeof *x);
    for (int kind = 0; kind < 5; kind += 4) { /* 4: some values are bad */
        case_fill(x, ROWS * COLS, kind, 3);
        q.outer = MPT_OUTER_TENSOR;
        cpu_check_job((mpt_quantize_job){.q = &q, .x = x, .rows = ROWS, .cols = COLS}, "lines");
        q.outer = MPT_OUTER_NONE;
        cpu_check_job((mpt_quantize_job){.q = &q, .x = x, .rows = ROWS, .cols = COLS}, "lines");
    }
    free(x);
}

static void test_avx512_casts_then_ref(void **state) {
    (void)state;
    static const mpt_dtype formats[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP16, MPT_DTYPE_TF32};
    float x[1003], want[1003], got[1003];
    for (size_t f = 0; f < MPT_COUNT(formats); f++)
        for (int kind = 0; kind < CASE_KINDS; kind++) {
            case_fill(x, 1003, kind, 9 + f);
            mpt_ref_round_copy(formats[f], x, want, 1003);
            mpt_round_copy_with(&modelled, formats[f], x, got, 1003);
            assert_memory_equal(want, got, sizeof want);
        }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_avx512_when_one_scale_then_ref),
    cmocka_unit_test(test_avx512_when_nearest_then_ref),
    cmocka_unit_test(test_avx512_when_nvfp4_then_ref),
    cmocka_unit_test(test_avx512_when_blocks_then_ref),
    cmocka_unit_test(test_avx512_when_four_over_six_then_ref),
    cmocka_unit_test(test_avx512_when_rotated_then_ref),
    cmocka_unit_test(test_avx512_when_both_copies_then_ref),
    cmocka_unit_test(test_avx512_when_squares_fill_many_lines_then_ref),
    cmocka_unit_test(test_avx512_casts_then_ref),
};

MPT_TEST_MAIN(cases)
