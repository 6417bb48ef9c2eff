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
           "nvfp4 { rounding = 'stochastc' }: rounding: no value 'stochastc'; did you mean "
           "'stochastic'?");
    refuse("nvfp4 {\n  rounding = 'stochastc' }",
           "nvfp4 {\\x0a  rounding = 'stochastc' }:2: rounding: no value 'stochastc'; did "
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
    refuse("", ": there is no number format here; write a format, bare or refined: "
               "nvfp4, nvfp4 { block = {16, 16} }");
    refuse("require 'models.gpt2'",
           "require 'models.gpt2': unknown name 'require'; did you mean 'recipe'?");
    refuse("(function() while true do end end)()",
           "(function() while true do end end)(): the expression did not end within 20 "
           "million steps; it only declares: look for a loop without an end");
    refuse(
        "nvfp4 { \"block\" }",
        "nvfp4 { \"block\" }: nvfp4: a text stands here without a name; give it a name: name = "
        "value");
}

/* The text of a quantizer goes into files, where it must be UTF-8: a comment is no way out. */
static void test_expression_when_no_utf8_then_the_byte_is_named(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\xff",
        "\x80",
        "\xc0\x80",
        "\xe2\x82",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
        "\xf0\x8f\xbf\xbf",
    };
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_quantizer q;
    for (size_t i = 0; i < MPT_COUNT(bad); i++) {
        char text[64], named[64];
        snprintf(text, sizeof text, "nvfp4 -- %s", bad[i]);
        snprintf(named, sizeof named, ": byte 9 of it, 0x%02x, is no UTF-8",
                 (unsigned char)bad[i][0]);
        assert_int_equal(mpt_quantizer_from_text(ctx, text, &q), MPT_INVALID);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, named));
    }
    mpt_ctx_destroy(ctx);
    read("nvfp4 -- \xe2\x82\xac \xc3\xa9 \xf0\x9f\x98\x80", &q);
    assert_string_equal(q.name, "nvfp4");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_expression_when_a_preset_then_its_fields_and_name_outlive_it),
    cmocka_unit_test(test_expression_when_refined_then_fields_are_set),
    cmocka_unit_test(test_expression_when_wrong_then_it_is_the_place_of_the_error),
    cmocka_unit_test(test_expression_when_no_format_then_it_is_refused),
    cmocka_unit_test(test_expression_when_no_utf8_then_the_byte_is_named),
};
MPT_TEST_MAIN(cases)
