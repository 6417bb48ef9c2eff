/* Golden vectors of FP8 with FP32 and power-of-two scales: one a tensor, current or from
 * earlier steps, and one a block; of MXFP8; and the update of delayed scales. */
#include "golden_case.h"

#include <math.h>

typedef struct fp8_kind {
    mpt_dtype format;
    mpt_scale_format scale_format;
} fp8_kind;

/* ---- one scale a tensor ---- */

static void check_current_case(const golden_files *files, const char *name, const void *with) {
    const fp8_kind *kind = with;
    mpt_quantizer q = case_fp8(kind->format);
    q.scale_format = kind->scale_format;
    golden_want want = {.q = &q};
    want.codes = golden_get(&files->file, name, "q");
    want.amax = golden_get(&files->file, name, "amax");
    want.factor = golden_get(&files->file, name, "scale_inv");
    want.hash = golden_find(&files->file, name, "deq_fnv");
    mpt_quantize_job job = golden_input(&files->inputs, name);
    golden_check(name, job, &want);
    float encode;
    memcpy(&encode, golden_get(&files->file, name, "scale").data, 4);
    float scale =
        mpt_current_scale(mpt_format_of(q.format).max, *(const float *)want.amax.data);
    assert_true((q.scale_format == MPT_SCALE_POW2 ? mpt_pow2_below(scale) : scale) == encode);
}

static void check_current(const char *file, mpt_dtype format, mpt_scale_format scale_format) {
    fp8_kind kind = {format, scale_format};
    assert_int_equal(golden_for_each(file, "q", check_current_case, &kind), 30);
}

static void test_fp8_when_scaling_is_current_then_golden(void **state) {
    (void)state;
    check_current("fp8_current_e4m3", MPT_DTYPE_E4M3, MPT_SCALE_FP32);
    check_current("fp8_current_e5m2", MPT_DTYPE_E5M2, MPT_SCALE_FP32);
}

static void test_fp8_when_scale_is_a_power_of_two_then_golden(void **state) {
    (void)state;
    check_current("fp8_current_e4m3_pow2", MPT_DTYPE_E4M3, MPT_SCALE_POW2);
    check_current("fp8_current_e5m2_pow2", MPT_DTYPE_E5M2, MPT_SCALE_POW2);
}

/* Scales from elsewhere: products overflow and must saturate, not turn into NaN. */
static void check_given_case(const golden_files *files, const char *name, const void *with) {
    mpt_quantizer q = case_fp8(((const fp8_kind *)with)->format);
    golden_want want = {.q = &q};
    want.codes = golden_get(&files->file, name, "q");
    want.amax = golden_get(&files->file, name, "amax");
    want.factor = golden_get(&files->file, name, "scale_inv");
    want.hash = golden_find(&files->file, name, "deq_fnv");
    mpt_quantize_job job = golden_input(&files->inputs, name);
    float scale, history = 0.0f;
    memcpy(&scale, golden_get(&files->file, name, "scale").data, 4);
    q.scale.kind = MPT_SCALING_DELAYED;
    job.scale = &scale;
    job.amax_history = &history;
    golden_check(name, job, &want);
    assert_memory_equal(&history, want.amax.data, 4);
    q.scale.kind = MPT_SCALING_STATIC;
    q.scale.value = (double)scale;
    golden_check(name, job, &want);
}

static void test_fp8_when_scale_is_given_then_golden(void **state) {
    (void)state;
    fp8_kind e4m3 = {MPT_DTYPE_E4M3, MPT_SCALE_FP32}, e5m2 = {MPT_DTYPE_E5M2, MPT_SCALE_FP32};
    assert_int_equal(golden_for_each("fp8_delayed_cast_e4m3", "q", check_given_case, &e4m3),
                     28);
    assert_int_equal(golden_for_each("fp8_delayed_cast_e5m2", "q", check_given_case, &e5m2),
                     28);
}

/* ---- blocks with FP32 scales ---- */

static golden_tensor block_tensor(const golden_files *files, const char *name, const char *what,
                                  const char *side, const char *blocks) {
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s_%s_%s", what, side, blocks);
    return golden_find(&files->file, name, tensor);
}

/* Square blocks of the transpose are the transposed blocks: the file has them once. */
static void check_block_case(const golden_files *files, const char *name, const void *with) {
    const fp8_kind *kind = with;
    static const char *const blocks[] = {"1x128", "128x128"};
    mpt_quantize_job job = golden_input(&files->inputs, name);
    job.bf16 = strstr(name, "@bf16") != NULL; /* else an FP32 operand: FLT_MAX is the cap */
    for (int square = 0; square < 2; square++)
        for (int column = 0; column < 2; column++) {
            mpt_quantizer q = case_fp8(kind->format);
            q.scale_format = kind->scale_format;
            q.block_rows = square ? 128 : 1;
            q.block_cols = 128;
            const char *side = column && !square ? "col" : "row";
            golden_want want = {.q = &q, .in_layout_of_x = square};
            want.codes = block_tensor(files, name, "q", side, blocks[square]);
            want.scales = block_tensor(files, name, "sinv", side, blocks[square]);
            assert_true(want.codes.data && want.scales.data);
            if (square || !column)
                want.hash = block_tensor(files, name, "deq_row", blocks[square], "fnv");
            job.column = column;
            golden_check(name, job, &want);
        }
}

static void test_fp8_blocks_when_scales_are_fp32_then_golden(void **state) {
    (void)state;
    fp8_kind e4m3 = {MPT_DTYPE_E4M3, MPT_SCALE_FP32}, e5m2 = {MPT_DTYPE_E5M2, MPT_SCALE_FP32};
    int n = golden_for_each("fp8_block_e4m3_f32scale", "q_row_1x128", check_block_case, &e4m3);
    assert_int_equal(n, 30);
    n = golden_for_each("fp8_block_e5m2_f32scale", "q_row_1x128", check_block_case, &e5m2);
    assert_int_equal(n, 30);
}

static void test_fp8_blocks_when_scales_are_powers_of_two_then_golden(void **state) {
    (void)state;
    fp8_kind e4m3 = {MPT_DTYPE_E4M3, MPT_SCALE_POW2}, e5m2 = {MPT_DTYPE_E5M2, MPT_SCALE_POW2};
    int n = golden_for_each("fp8_block_e4m3_pow2", "q_row_1x128", check_block_case, &e4m3);
    assert_int_equal(n, 30);
    n = golden_for_each("fp8_block_e5m2_pow2", "q_row_1x128", check_block_case, &e5m2);
    assert_int_equal(n, 30);
}

/* ---- MXFP8 ---- */

/* The column copy lies as x does. Square blocks are one tensor for both copies. */
static void check_mx_case(const golden_files *files, const char *name, const void *with) {
    static const char *const codes[] = {"q_row", "q_col", "q_2d"};
    static const char *const scales[] = {"s_row", "s_col", "s_2d"};
    static const char *const hashes[] = {"deq_row_fnv", "deq_col_fnv", "deq_2d_fnv"};
    mpt_quantize_job job = golden_input(&files->inputs, name);
    for (int square = 0; square < 2; square++)
        for (int column = 0; column < 2; column++) {
            mpt_quantizer q = case_fp8(((const fp8_kind *)with)->format);
            q.block_rows = square ? 32 : 1;
            q.block_cols = 32;
            q.scale_format = MPT_SCALE_E8M0;
            q.scale_rule.kind = MPT_RULE_UP;
            int at = square ? 2 : column;
            golden_want want = {.q = &q, .in_layout_of_x = true};
            want.codes = golden_get(&files->file, name, codes[at]);
            want.scales = golden_get(&files->file, name, scales[at]);
            want.hash = golden_find(&files->file, name, hashes[at]);
            job.column = column;
            golden_check(name, job, &want);
        }
}

static void test_mxfp8_when_rows_columns_and_squares_then_golden(void **state) {
    (void)state;
    fp8_kind e4m3 = {MPT_DTYPE_E4M3, MPT_SCALE_E8M0}, e5m2 = {MPT_DTYPE_E5M2, MPT_SCALE_E8M0};
    assert_int_equal(golden_for_each("mxfp8_e4m3", "q_row", check_mx_case, &e4m3), 30);
    assert_int_equal(golden_for_each("mxfp8_e5m2", "q_row", check_mx_case, &e5m2), 30);
}

static void test_swizzle_when_scales_go_to_a_gemm_then_golden(void **state) {
    (void)state;
    golden_file file = golden_open("swizzle");
    golden_tensor compact = golden_get(&file, "r256c12", "compact");
    golden_tensor swizzled = golden_get(&file, "r256c12", "swizzled");
    assert_int_equal(mpt_swizzled_bytes(compact.rows, compact.cols), swizzled.bytes);
    for (int64_t i = 0; i < compact.rows; i++)
        for (int64_t j = 0; j < compact.cols; j++)
            assert_int_equal(((const uint8_t *)swizzled.data)[mpt_swizzled(i, j, compact.cols)],
                             ((const uint8_t *)compact.data)[i * compact.cols + j]);
    golden_close(&file);
    assert_int_equal(mpt_swizzled_bytes(129, 5), 256 * 8);
}

/* ---- the update of delayed scales ---- */

static bool same_float(float a, float b) {
    return mpt_float_bits(a) == mpt_float_bits(b) || (isnan(a) && isnan(b));
}

/* Names say the kind: "basic_L4_most_recent_m2_e5m2". */
static void check_delayed_case(const golden_files *files, const char *name, const void *with) {
    (void)with;
    golden_tensor amax = golden_get(&files->file, name, "amax_in");
    golden_tensor history = golden_get(&files->file, name, "history");
    golden_tensor scale = golden_get(&files->file, name, "scale");
    int n = (int)history.cols;
    bool most_recent = strstr(name, "most_recent") != NULL;
    mpt_dtype format = strstr(name, "e4m3") ? MPT_DTYPE_E4M3 : MPT_DTYPE_E5M2;
    float max = mpt_delayed_max(mpt_format_of(format).max, strstr(name, "_m2_") ? 2 : 0, 1.0);
    float own[16] = {0}, own_scale = 1.0f;
    assert_true(n <= 16);
    for (int64_t t = 0; t < amax.rows; t++) {
        own[0] = ((const float *)amax.data)[t];
        mpt_delayed_update(&own_scale, own, n, most_recent, 0.0f, max);
        if (!same_float(own_scale, ((const float *)scale.data)[t]))
            fail_msg("%s: scale %a of step %d", name, (double)own_scale, (int)t);
        for (int i = 0; i < n; i++)
            if (!same_float(own[i], ((const float *)history.data)[t * n + i]))
                fail_msg("%s: history %d of step %d", name, i, (int)t);
    }
}

static void test_delayed_when_updated_then_golden(void **state) {
    (void)state;
    assert_int_equal(golden_for_each("delayed_scaling", "scale", check_delayed_case, NULL), 96);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_fp8_when_scaling_is_current_then_golden),
    cmocka_unit_test(test_fp8_when_scale_is_a_power_of_two_then_golden),
    cmocka_unit_test(test_fp8_when_scale_is_given_then_golden),
    cmocka_unit_test(test_fp8_blocks_when_scales_are_fp32_then_golden),
    cmocka_unit_test(test_fp8_blocks_when_scales_are_powers_of_two_then_golden),
    cmocka_unit_test(test_mxfp8_when_rows_columns_and_squares_then_golden),
    cmocka_unit_test(test_swizzle_when_scales_go_to_a_gemm_then_golden),
    cmocka_unit_test(test_delayed_when_updated_then_golden),
};

MPT_TEST_MAIN(cases)
