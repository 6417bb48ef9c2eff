/* lua/bind/expression.c: a quantizer from one expression, as `mptrun quantize` takes it. */
#include "mpt_test.h"

#include "lua/bind/expression.h"

static void read(const char *expression, mpt_quantizer *out) {
    mpt_ctx *ctx = mpt_test_ctx();
    assert_mpt_ok(ctx, mpt_quantizer_from_text(ctx, expression, out));
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void refuse(const char *expression, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_quantizer q;
    assert_int_equal(mpt_quantizer_from_text(ctx, expression, &q), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_expression_when_a_preset_then_its_fields_and_name_outlive_it(void **state) {
    (void)state;
    mpt_quantizer q;
    read("nvfp4", &q);
    assert_string_equal(q.name, "nvfp4");
    assert_int_equal(q.format, MPT_DTYPE_E2M1);
    assert_int_equal(q.block_cols, 16);
    assert_int_equal(q.outer, MPT_OUTER_TENSOR);
}

static void test_expression_when_refined_then_fields_are_set(void **state) {
    (void)state;
    mpt_quantizer q;
    read("nvfp4 {\n  block = {16, 16},\n  rounding = 'stochastic',\n}", &q);
    assert_int_equal(q.block_rows, 16);
    assert_int_equal(q.rounding, MPT_ROUNDING_STOCHASTIC);
    read("nvfp4 { hadamard = hadamard { size = 32 } }", &q);
    assert_int_equal(q.hadamard.size, 32);
    read("bf16 -- a comment", &q);
    assert_int_equal(q.format, MPT_DTYPE_BF16);
}

static void test_expression_when_wrong_then_it_is_the_place_of_the_error(void **state) {
    (void)state;
    refuse("nvfp4 { blok = 3 }", "nvfp4 { blok = 3 }: no field 'blok'; did you mean 'block'?");
    refuse("nvpf4", "nvpf4: unknown name 'nvpf4'; did you mean 'nvfp4'?");
    refuse("nvfp4 { rounding = 'stochastc' }",
           "nvfp4 { rounding = 'stochastc' }: rounding: no rounding 'stochastc'; did you mean "
           "'stochastic'?");
    refuse("nvfp4 {\n  rounding = 'stochastc' }",
           "nvfp4 {\\x0a  rounding = 'stochastc' }:2: rounding: no rounding 'stochastc'; did "
           "you mean 'stochastic'?");
    refuse("nvfp4 {", "nvfp4 {: unexpected symbol near <eof>");
}

static void test_expression_when_no_format_then_it_is_refused(void **state) {
    (void)state;
    refuse("'nvfp4'", "'nvfp4': this is a text, not a number format; write a format, bare or "
                      "refined: nvfp4, nvfp4 { block = {16, 16} }");
    refuse(
        "gemm { weight = nvfp4 }",
        "gemm { weight = nvfp4 }: this is gemm, not a number format; write a format, bare or "
        "refined: nvfp4, nvfp4 { block = {16, 16} }");
    refuse("nvfp4, bf16",
           "nvfp4, bf16: these are 2 values, not one number format; write a format, bare or "
           "refined: nvfp4, nvfp4 { block = {16, 16} }");
    refuse("", ": these are 0 values, not one number format; write a format, bare or refined: "
               "nvfp4, nvfp4 { block = {16, 16} }");
    refuse("require 'models.gpt2'",
           "require 'models.gpt2': unknown name 'require'; did you mean 'recipe'?");
    refuse("(function() while true do end end)()",
           "(function() while true do end end)(): the recipe did not end within 20 million "
           "steps; a recipe only declares: look for a loop without an end");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_expression_when_a_preset_then_its_fields_and_name_outlive_it),
    cmocka_unit_test(test_expression_when_refined_then_fields_are_set),
    cmocka_unit_test(test_expression_when_wrong_then_it_is_the_place_of_the_error),
    cmocka_unit_test(test_expression_when_no_format_then_it_is_refused),
};
MPT_TEST_MAIN(cases)
