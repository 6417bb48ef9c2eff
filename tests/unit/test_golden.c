/* Golden vectors of NVFP4 and its variants: codes, scales, amax and decoded values of ref and
 * cpu, bit for bit. */
#include "golden_case.h"

/* "q" or "s" or "amax" of one copy; `suffix` is "_cuda", "_nosign" or nothing. */
static golden_tensor side_of(const golden_files *files, const char *name, const char *what,
                             bool column, const char *suffix) {
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s_%s%s", what, column ? "col" : "row", suffix);
    return golden_find(&files->file, name, tensor);
}

/* The quantizers of the two copies. */
typedef struct two_copies {
    mpt_quantizer row, column;
} two_copies;

static void check_side(const golden_files *files, const char *name, const mpt_quantizer *q,
                       bool column, const char *suffix) {
    /* "_2d" is part of the name of a Four Over Six case, not of its input. */
    char input[128];
    const char *end = strstr(name, "_2d");
    snprintf(input, sizeof input, "%.*s", (int)(end ? (size_t)(end - name) : strlen(name)),
             name);
    mpt_quantize_job job = golden_input(&files->inputs, input);
    job.column = column;
    golden_want want = {.q = q, .scales_repeated = true};
    want.codes = side_of(files, name, "q", column, *suffix ? suffix : "_cuda");
    if (!want.codes.data)
        want.codes = side_of(files, name, "q", column, suffix);
    want.positive_zeros = q->outer == MPT_OUTER_ROW;
    want.scales = side_of(files, name, "s", column, suffix);
    want.amax = want.factor = side_of(files, name, "amax", column, suffix);
    if (!*suffix)
        want.hash = side_of(files, name, "deq", column, "_fnv");
    assert_true(want.codes.data && want.scales.data && want.amax.data);
    golden_check(name, job, &want);
}

static void check_case(const golden_files *files, const char *name, const void *with) {
    const two_copies *q = with;
    check_side(files, name, &q->row, false, "");
    check_side(files, name, &q->column, true, "");
    if (!side_of(files, name, "q", true, "_nosign").data)
        return;
    mpt_quantizer plain = q->column;
    plain.hadamard.signs = MPT_SIGNS_NONE;
    check_side(files, name, &plain, true, "_nosign");
}

static void test_nvfp4_when_1x16_blocks_then_golden(void **state) {
    (void)state;
    two_copies q = {case_nvfp4(1), case_nvfp4(1)};
    assert_int_equal(golden_for_each("nvfp4_1d", "q_row", check_case, &q), 30);
}

static void test_nvfp4_when_16x16_blocks_then_golden(void **state) {
    (void)state;
    two_copies q = {case_nvfp4(16), case_nvfp4(16)};
    assert_int_equal(golden_for_each("nvfp4_2d", "q_row", check_case, &q), 30);
}

static void test_nvfp4_when_columns_are_rotated_then_golden(void **state) {
    (void)state;
    two_copies q = {case_nvfp4(1), case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED)};
    assert_int_equal(golden_for_each("nvfp4_rht", "q_row", check_case, &q), 11);
    golden_file file = golden_open("nvfp4_rht");
    uint32_t mask, signs[4];
    memcpy(&mask, golden_get(&file, "constants", "sign_mask").data, 4);
    mpt_fixed_signs(signs);
    for (int i = 0; i < 4; i++)
        assert_int_equal(signs[i], mask | mask << 16);
    golden_close(&file);
}

static void test_nvfp4_when_rows_have_their_own_amax_then_golden(void **state) {
    (void)state;
    two_copies q = {case_nvfp4(1), case_nvfp4(1)};
    q.row.outer = q.column.outer = MPT_OUTER_ROW;
    assert_int_equal(golden_for_each("nvfp4_rowscaled", "q_row", check_case, &q), 30);
}

/* ---- four over six ---- */

static void check_four_over_six_case(const golden_files *files, const char *name,
                                     const void *with) {
    two_copies q = *(const two_copies *)with;
    q.row.block_rows = q.column.block_rows = strstr(name, "_2d") ? 16 : 1;
    check_case(files, name, &q);
}

static void check_four_over_six(const char *file, mpt_choice_error error, int32_t bound) {
    two_copies q = {case_nvfp4(1), case_nvfp4(1)};
    q.row.scale_rule = q.column.scale_rule =
        (mpt_scale_rule){MPT_RULE_FOUR_OVER_SIX, error, bound};
    assert_int_equal(golden_for_each(file, "q_row", check_four_over_six_case, &q), 16);
}

static void test_four_over_six_when_mean_absolute_error_then_golden(void **state) {
    (void)state;
    check_four_over_six("nvfp4_4over6_mae256", MPT_ERROR_MAE, 256);
    check_four_over_six("nvfp4_4over6_mae448", MPT_ERROR_MAE, 448);
}

static void test_four_over_six_when_mean_squared_error_then_golden(void **state) {
    (void)state;
    check_four_over_six("nvfp4_4over6_mse256", MPT_ERROR_MSE, 256);
}

/* ---- stochastic rounding ---- */

static void test_stochastic_when_bytes_are_given_then_golden(void **state) {
    (void)state;
    golden_file file = golden_open("nvfp4_sr");
    static const char *const names[] = {"elements", "sweep"};
    for (int c = 0; c < 2; c++) {
        golden_tensor x = golden_get(&file, names[c], "x");
        const uint8_t *byte = golden_get(&file, names[c], "rbits8").data;
        const uint8_t *code = golden_get(&file, names[c], "code").data;
        for (int64_t i = 0; i < x.rows; i++)
            assert_int_equal(mpt_encode_stochastic(MPT_DTYPE_E2M1, ((const float *)x.data)[i],
                                                   (uint32_t)byte[i] << 8 | 0xFF),
                             code[i]);
    }
    golden_close(&file);
}

/* The vectors count in (seed, subsequence, offset); our group is the offset, operand and step
 * are the subsequence. */
static void test_philox_when_keyed_then_golden(void **state) {
    (void)state;
    golden_file file = golden_open("nvfp4_sr");
    for (int c = 0; c < 5; c++) {
        char name[16];
        snprintf(name, sizeof name, "philox%d", c);
        golden_tensor out = golden_get(&file, name, "out");
        const uint32_t *w = golden_get(&file, name, "seed_sub_off").data;
        mpt_random_key key = {w[0] | (uint64_t)w[1] << 32, w[2], w[3],
                              w[4] | (uint64_t)w[5] << 32};
        for (int64_t i = 0; i < out.rows; i++) {
            uint8_t bytes[16];
            mpt_random_bytes(&key, (uint64_t)i, 0, bytes);
            assert_memory_equal(bytes, (const char *)out.data + 16 * i, 16);
        }
    }
    golden_close(&file);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_nvfp4_when_1x16_blocks_then_golden),
    cmocka_unit_test(test_nvfp4_when_16x16_blocks_then_golden),
    cmocka_unit_test(test_nvfp4_when_columns_are_rotated_then_golden),
    cmocka_unit_test(test_nvfp4_when_rows_have_their_own_amax_then_golden),
    cmocka_unit_test(test_four_over_six_when_mean_absolute_error_then_golden),
    cmocka_unit_test(test_four_over_six_when_mean_squared_error_then_golden),
    cmocka_unit_test(test_stochastic_when_bytes_are_given_then_golden),
    cmocka_unit_test(test_philox_when_keyed_then_golden),
};

MPT_TEST_MAIN(cases)
