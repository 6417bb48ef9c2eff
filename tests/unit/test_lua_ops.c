/* lua/bind: precision.ops and state.activation as a recipe writes them: places, refusals. */
#include "lua_test.h"

static void test_ops_when_written_then_formats_and_lines_are_kept(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, "precision = {\n"
                                             "  ops = { softmax = bf16,\n"
                                             "    norm = e4m3, gelu = fp32 },\n"
                                             "  state = { residual = fp32,\n"
                                             "    activation = e5m6 } }");
    assert_int_equal(r->ops[MPT_OPS_SOFTMAX].format, MPT_DTYPE_BF16);
    assert_int_equal(r->ops[MPT_OPS_SOFTMAX].where.line, 6);
    assert_string_equal(r->ops[MPT_OPS_SOFTMAX].where.file, "r.lua");
    assert_int_equal(r->ops[MPT_OPS_NORM].format, MPT_DTYPE_E4M3);
    assert_int_equal(r->ops[MPT_OPS_NORM].where.line, 7);
    assert_int_equal(r->ops[MPT_OPS_GELU].format, MPT_DTYPE_FP32);
    assert_int_equal(r->ops[MPT_OPS_SILU].format, MPT_DTYPE_COUNT);
    assert_int_equal(r->residual, MPT_DTYPE_FP32);
    assert_int_equal(r->activation, MPT_DTYPE_E5M6);
    assert_int_equal(r->activation_where.line, 9);
    mpt_lua_finish(ctx, r);
}

/* A host's calls say the same recipe. */
static void test_ops_when_set_by_a_host_then_the_text_is_the_same(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    char one[17], other[17];
    mpt_recipe *lua = mpt_lua_load_fields(
        ctx,
        "precision = { ops = { softmax = fp16, conv = fp32 }, state = { activation = bf16 } "
        "}");
    mpt_recipe *host = mpt_lua_load_fields(ctx, "");
    assert_mpt_ok(ctx, mpt_recipe_hash(lua, one));
    assert_mpt_ok(ctx, mpt_recipe_hash(host, other));
    assert_string_not_equal(one, other);
    assert_mpt_ok(ctx, mpt_recipe_set(host, "precision.ops.softmax", "fp16"));
    assert_mpt_ok(ctx, mpt_recipe_set(host, "precision.ops.conv", "fp32"));
    assert_mpt_ok(ctx, mpt_recipe_set(host, "precision.state.activation", "bf16"));
    assert_mpt_ok(ctx, mpt_recipe_hash(host, other));
    assert_string_equal(one, other);
    mpt_recipe_destroy(host);
    mpt_lua_finish(ctx, lua);
}

static void test_ops_when_wrong_then_the_way_out_is_given(void **state) {
    (void)state;
    mpt_lua_refuse_fields("precision = { ops = {\n  softmx = bf16 } }",
                          "r.lua:6: precision.ops: no field 'softmx'; did you mean 'softmax'?");
    mpt_lua_refuse_fields("precision = { ops = {\n  linear = bf16 } }",
                          "r.lua:6: precision.ops: no field 'linear'; rules say it: rule { "
                          "\"linear\", use = bf16 }");
    mpt_lua_refuse_fields("precision = { ops = {\n  split = bf16 } }",
                          "r.lua:6: precision.ops: no field 'split'; it moves numbers and "
                          "keeps their format");
    static const char *const rows[][2] = {
        {"concat", "it moves numbers and keeps their format"},
        {"moe_dispatch", "it moves numbers and keeps their format"},
        {"moe_combine", "it puts out precision.base"},
        {"moe_route", "it always puts out fp32"},
        {"scale", "it always puts out the format of its input"},
        {"dropout", "it always puts out the format of its input"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char fields[128], message[128];
        snprintf(fields, sizeof fields, "precision = { ops = {\n  %s = bf16 } }", rows[i][0]);
        snprintf(message, sizeof message, "r.lua:6: precision.ops: no field '%s'; %s",
                 rows[i][0], rows[i][1]);
        mpt_lua_refuse_fields(fields, message);
    }
    mpt_lua_refuse_fields(
        "precision = { ops = {\n  gelu = e4m3 } }",
        "r.lua:6: precision.ops.gelu: no format 'e4m3' here; take fp32, bf16 or fp16");
    mpt_lua_refuse_fields("precision = { ops = {\n  softmax = nvfp4 } }",
                          "r.lua:6: precision.ops.softmax: no format 'nvfp4' here; take fp32, "
                          "bf16, fp16, e4m3 or "
                          "e5m2");
    mpt_lua_refuse_fields(
        "precision = { ops = {\n  softmax = 16 } }",
        "r.lua:6: precision.ops.softmax: cannot be 16; give fp32, bf16, fp16, "
        "e4m3 or e5m2");
    mpt_lua_refuse_fields("precision = {\n  ops = bf16 }",
                          "r.lua:6: precision.ops: cannot be 'bf16'; give a table of ops, such "
                          "as { softmax = ... }");
    mpt_lua_refuse_fields("precision = { state = {\n  activation = e2m1 } }",
                          "r.lua:6: precision.state.activation: no format 'e2m1' here; take "
                          "fp32, bf16, fp16, e5m6, "
                          "e4m3 or e5m2");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_ops_when_written_then_formats_and_lines_are_kept),
    cmocka_unit_test(test_ops_when_set_by_a_host_then_the_text_is_the_same),
    cmocka_unit_test(test_ops_when_wrong_then_the_way_out_is_given),
};
MPT_TEST_MAIN(cases)
