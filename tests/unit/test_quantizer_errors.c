/* recipe/quantizer_check.c and the rows: each combination that is refused, word by word. */
#include "recipe_fixture.h"

#include "lua/bind/expression.h"

/* The message without its place, which is the expression. */
static void refuse(const char *expression, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_quantizer q;
    assert_int_equal(mpt_quantizer_from_text(ctx, expression, &q), MPT_INVALID);
    const char *said = mpt_ctx_error(ctx)->message;
    assert_memory_equal(said, expression, strlen(expression));
    assert_string_equal(said + strlen(expression) + 2, message);
    mpt_ctx_destroy(ctx);
}

static void test_wide_when_any_field_is_given_then_refused(void **state) {
    (void)state;
    static const char *const fields[][2] = {
        {"block", "{1, 16}"},        {"scale", "delayed {}"},     {"scale_format", "e8m0"},
        {"scale_rule", "'up'"},      {"outer", "'tensor'"},       {"headroom", "0.5"},
        {"rounding", "'half_away'"}, {"hadamard", "hadamard {}"}, {"nonfinite", "'saturate'"},
        {"source", "'dequantized'"}, {"pad", "'error'"}};
    for (size_t i = 0; i < MPT_COUNT(fields); i++) {
        char expression[128], message[256];
        snprintf(expression, sizeof expression, "tf32 { %s = %s }", fields[i][0], fields[i][1]);
        snprintf(message, sizeof message,
                 "%s: tf32 has no %s; tf32 holds values as they are; take e4m3, mxfp8 or nvfp4 "
                 "to quantize",
                 fields[i][0], fields[i][0]);
        refuse(expression, message);
    }
}

static void test_format_when_the_name_says_another_then_refused(void **state) {
    (void)state;
    refuse(
        "e4m3 { format = e5m2 }",
        "format: e4m3 does not have elements of e5m2; begin with that format instead: e5m2 { "
        "... }");
    refuse("mxfp8 { format = int8 }", "format: mxfp8 does not have elements of int8; mxfp8 has "
                                      "elements of e4m3 or e5m2");
    refuse("mxfp6 { format = e4m3 }", "format: mxfp6 does not have elements of e4m3; mxfp6 has "
                                      "elements of e3m2 or e2m3");
    refuse("fp8_block { format = e2m1 }",
           "format: fp8_block does not have elements of e2m1; fp8_block has e4m3 or e5m2");
    refuse("mxfp8 { format = bf16 }", "format: no format 'bf16' here; take e4m3, e5m2, e5m6, "
                                      "e3m2, e2m3, e2m1 or int8");
    refuse(
        "mxfp8 { format = e5m2 { rounding = 'stochastic' } }",
        "format: cannot be a number format; give e4m3, e5m2, e5m6, e3m2, e2m3, e2m1 or int8");
}

static void test_e8m0_when_an_operand_then_refused(void **state) {
    (void)state;
    refuse("e8m0", "e8m0 is for scale_format only; write it there: mxfp8 { scale_format = e8m0 "
                   "}");
    refuse("e8m0 { block = {1, 32} }", "e8m0 is for scale_format only; write it there: mxfp8 { "
                                       "scale_format = e8m0 }");
}

static void test_given_scale_when_there_are_blocks_then_refused(void **state) {
    (void)state;
    refuse(
        "fp8_block { scale = delayed {} }",
        "block: a delayed scale is one for the whole tensor; add block = \"tensor\", or take "
        "scale = current {}");
    refuse("mxfp8 { scale = static(1) }",
           "block: a static scale is one for the whole tensor; add block = \"tensor\", or take "
           "scale = current {}");
    refuse("mxfp8 { scale = static(1), block = 'tensor' }",
           "scale_format: a static scale is stored as fp32; take scale_format = fp32 or "
           "\"pow2\", or scale = current {}");
    refuse("e4m3 { scale = delayed {}, scale_format = e8m0 }",
           "scale_format: a delayed scale is stored as fp32; take scale_format = fp32 or "
           "\"pow2\", or scale = current {}");
}

static void test_static_when_its_value_is_wrong_then_refused(void **state) {
    (void)state;
    refuse("e4m3 { scale = 'static' }", "scale: static says no value; write static(1)");
    refuse("e4m3 { scale = static(0) }", "scale.value: out of range: 0; give a number above 0");
    refuse("e4m3 { scale = static(-1) }",
           "scale.value: out of range: -1; give a number above 0");
    refuse("e4m3 { scale = static(1e39) }",
           "scale.value: out of range: 1e+39; give a number above 0 and at most "
           "3.4028234663852886e+38");
    refuse("e4m3 { scale = static(1 / 0) }",
           "scale.value: must be finite, not inf; give a number above 0");
    refuse("e4m3 { scale = static(1e-40) }", "scale: what is divided by so small a scale is "
                                             "past float32; take a scale above 1e-38");
    refuse("e4m3 { scale = static }",
           "scale: cannot be a word without its { }; write static(1024)");
}

static void test_delayed_when_a_field_is_out_of_range_then_refused(void **state) {
    (void)state;
    refuse(
        "e4m3 { scale = delayed { history = 0 } }",
        "scale.history: out of range: 0; give a whole number of 1 or more and at most 65536");
    refuse("e4m3 { scale = delayed { history = 65537 } }",
           "scale.history: out of range: 65537; give a whole number of 1 or more and at most "
           "65536");
    refuse("e4m3 { scale = delayed { margin = 65 } }",
           "scale.margin: out of range: 65; give a whole number of -64 or more and at most 64");
    refuse("e4m3 { scale = delayed { algo = 'average' } }",
           "scale.algo: no value 'average'; it can be max or most_recent");
    refuse("e4m3 { scale = delayed { reduce_amax = 1 } }",
           "scale.reduce_amax: cannot be 1; give true or false");
    refuse("e4m3 { scale = delayed { headroom = 0 } }",
           "scale.headroom: out of range: 0; give a number of 1.52587890625e-05 or more and at "
           "most 65536");
    refuse("e4m3 { scale = delayed { seed = 1 } }",
           "scale: no field 'seed'; delayed has history, algo, margin, headroom or "
           "reduce_amax");
    refuse("e4m3 { scale = current { history = 1 } }",
           "scale: no field 'history'; current has none");
    refuse("e4m3 { scale = hadamard {} }",
           "scale: cannot be hadamard; give one of current, delayed or static");
}

static void test_rule_when_the_scale_cannot_follow_it_then_refused(void **state) {
    (void)state;
    refuse("e4m3 { scale_rule = 'up' }",
           "scale_rule: scales in fp32 are kept as they come; leave it out, or take "
           "scale_format = \"pow2\" or e8m0");
    refuse(
        "fp8_block { scale_format = 'pow2', scale_rule = 'floor' }",
        "scale_rule: scales in \"pow2\" are rounded up; leave it out, or take scale_format = "
        "e8m0 for other rules");
    refuse("mxfp8 { scale_rule = 'nearest' }",
           "scale_rule: scales in e8m0 are powers of two, which it does not give; take \"up\", "
           "\"floor\", \"ceil\" or \"even\"");
    refuse("mxfp4 { scale_rule = 'four_over_six' }",
           "scale_rule: scales in e8m0 are powers of two, which it does not give; take \"up\", "
           "\"floor\", \"ceil\" or \"even\"");
    refuse("nvfp4 { scale_rule = 'even' }",
           "scale_rule: scales in e4m3 are rounded to nearest; take \"nearest\" or "
           "four_over_six, or scale_format = e8m0");
    refuse("nvfp4 { scale_rule = four_over_six { bound = 300 } }",
           "scale_rule.bound: no value 300; it can be 256 or 448");
    refuse(
        "nvfp4 { scale_rule = four_over_six }",
        "scale_rule: cannot be a word without its { }; write four_over_six { error = \"mae\" "
        "}");
}

static void test_levels_when_they_do_not_fit_then_refused(void **state) {
    (void)state;
    refuse("mxfp8 { outer = 'tensor' }",
           "outer: only scales in e4m3 have a second level; take outer = \"none\", or "
           "scale_format = e4m3");
    refuse("e4m3 { outer = 'row' }",
           "outer: only scales in e4m3 have a second level; take outer = \"none\", or "
           "scale_format = e4m3");
    refuse("nvfp4 { block = 'tensor' }",
           "block: one e4m3 scale is too coarse for a whole tensor; take block = {1, 16}, or "
           "scale_format = fp32");
    refuse("nvfp4 { block = {16, 16}, outer = 'row' }",
           "outer: a scale a row cannot lie over blocks of several rows; take outer = "
           "\"tensor\", or block = {1, 16}");
}

static void test_choosing_when_the_rest_does_not_fit_then_refused(void **state) {
    (void)state;
    refuse("mxfp8 { scale_format = e4m3, outer = 'tensor', scale_rule = 'four_over_six' }",
           "scale_rule: four_over_six chooses between two ends of e2m1; take nvfp4, or leave "
           "the rule out");
    refuse("nvfp4 { outer = 'none', scale_rule = 'four_over_six' }",
           "outer: four_over_six chooses under an outer scale; take outer = \"tensor\" or "
           "\"row\"");
    refuse("nvfp4 { rounding = 'stochastic', scale_rule = 'four_over_six' }",
           "rounding: four_over_six compares elements rounded to nearest; leave rounding out, "
           "or the rule");
    refuse("nvfp4 { hadamard = hadamard {}, scale_rule = 'four_over_six' }",
           "hadamard: four_over_six takes values that are not rotated; leave hadamard out, or "
           "the rule");
    refuse("nvfp4 { headroom = 0.75, scale_rule = 'four_over_six' }",
           "headroom: four_over_six chooses its headroom itself; leave headroom out, or the "
           "rule");
}

static void test_hadamard_when_signs_are_not_random_then_no_seed(void **state) {
    (void)state;
    refuse("nvfp4 { hadamard = hadamard { seed = 3 } }",
           "hadamard.seed: only random signs have it; add signs = \"random\", or leave it out");
    refuse("nvfp4 { hadamard = hadamard { redraw = 'step' } }",
           "hadamard.redraw: only random signs have it; add signs = \"random\", or leave it "
           "out");
    refuse("nvfp4 { hadamard = hadamard { signs = 'none', scope = 'layer' } }",
           "hadamard.scope: only random signs have it; add signs = \"random\", or leave it "
           "out");
    refuse("nvfp4 { hadamard = hadamard { signs = 'random', seed = -2 } }",
           "hadamard.seed: out of range: -2; give a whole number of -1 or more");
    refuse("nvfp4 { hadamard = hadamard { signs = 'random', seed = 2 ^ 63 } }",
           "hadamard.seed: out of range: 9.22337203685e+18; give a whole number of -1 or more "
           "and at most 9007199254740992");
    refuse("nvfp4 { hadamard = 16 }",
           "hadamard: cannot be 16; give hadamard { size = 16 } or \"none\"");
}

static void test_headroom_when_out_of_range_then_refused(void **state) {
    (void)state;
    refuse("e4m3 { headroom = 0.01 }",
           "headroom: out of range: 0.01; give a number of 0.0625 or more and at most 16");
    refuse("e4m3 { headroom = 17 }",
           "headroom: out of range: 17; give a number of 0.0625 or more and at most 16");
}

/* What no recipe can write, a host's struct might hold. */
static void test_validate_when_a_struct_is_odd_then_refused(void **state) {
    (void)state;
    mpt_quantizer q;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_true(mpt_quantizer_by_name("nvfp4", &q));
    q.scale.kind = MPT_SCALING_NONE;
    assert_int_equal(mpt_quantizer_validate(ctx, &q, "use", MPT_NOWHERE), MPT_INVALID);
    assert_message(ctx, "use.scale: so few bits need one; take scale = current {}, or "
                        "static(1)");
    q.name = NULL;
    q.format = MPT_DTYPE_E8M0;
    assert_int_equal(mpt_quantizer_validate(ctx, &q, "use", MPT_NOWHERE), MPT_UNSUPPORTED);
    assert_message(ctx, "use: no kernel quantizes to e8m0; take e4m3, mxfp8 or nvfp4");
    mpt_ctx_destroy(ctx);
}

/* ---- in a recipe ---- */

static void test_host_when_a_text_is_refused_then_the_field_path_is_told(void **state) {
    (void)state;
    const mpt_set output[] = {{"output", "tf32"}};
    fixture_expect(
        RULE(.selector = "linear", .use = "mxfp8 scale_rule=nearest"),
        "r.lua:5: precision.rules[1].use.scale_rule: scales in e8m0 are powers of two, which "
        "it does not give; take \"up\", \"floor\", \"ceil\" or \"even\"");
    fixture_expect(
        RULE(.selector = "linear", .use = "mxfp8 scale_rule=up scale_rule.error=mse"),
        "r.lua:5: precision.rules[1].use.scale_rule: has no fields of its own; set it as a "
        "whole");
    fixture_expect(
        RULE(.selector = "linear", .use = "e4m3 scale.history=16"),
        "r.lua:5: precision.rules[1].use.scale: no field 'history'; current has none");
    fixture_expect(RULE(.selector = "linear", .words = output, .n_words = 1),
                   "r.lua:5: precision.rules[1].use.output: no format 'tf32' here; take fp32, "
                   "bf16 or fp16");
    fixture_expect(
        RULE(.selector = "norm", .use = "tf32"),
        "r.lua:5: precision.rules[1].use: norm layers cannot compute in tf32; use fp32, bf16 "
        "or fp16 for them");
    fixture_expect(RULE(.selector = "linear", .use = "e8m0"),
                   "r.lua:5: precision.rules[1].use: no format 'e8m0'; did you mean 'e4m3'?");
}

static void test_cascade_when_a_rule_spoils_another_then_the_layer_is_named(void **state) {
    (void)state;
    fixture f;
    const mpt_set words[] = {{"activation", "scale=delayed"}};
    fixture_open(&f);
    fixture_rule(&f, 4, .selector = "linear", .use = "mxfp8");
    fixture_rule(&f, 5, .selector = "*.o_proj", .words = words, .n_words = 1);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    assert_int_equal(fixture_try_resolve(&f, 0), MPT_INVALID);
    assert_message(
        f.ctx, "r.lua:5: layers.0.attn.o_proj.fprop.x.block: a delayed scale is one for the "
               "whole tensor; add block = \"tensor\", or take scale = current {}");
    fixture_close(&f);
}

static void test_cascade_when_scale_format_changes_then_the_rule_follows(void **state) {
    (void)state;
    fixture f;
    const mpt_set words[] = {{"weight", "scale_format=pow2 block=128x128"}};
    fixture_open(&f);
    fixture_rule(&f, 4, .selector = "linear", .use = "fp8_block");
    fixture_rule(&f, 5, .selector = "linear", .words = words, .n_words = 1);
    fixture_resolve(&f, 0);
    const mpt_policy *policy = FIXTURE_POLICY(&f, "layers.1.mlp.up_proj");
    assert_int_equal(policy->slot[MPT_SLOT_FPROP_W].scale_rule.kind, MPT_RULE_UP);
    assert_int_equal(policy->slot[MPT_SLOT_FPROP_W].block_rows, 128);
    assert_int_equal(policy->slot[MPT_SLOT_FPROP_X].scale_rule.kind, MPT_RULE_NEAREST);
    fixture_close(&f);
}

static void test_rotation_when_seeds_differ_then_refused(void **state) {
    (void)state;
    const mpt_set words[] = {
        {"wgrad.x", "nvfp4 hadamard.size=16 hadamard.signs=random hadamard.seed=1"},
        {"wgrad.dy", "nvfp4 hadamard.size=16 hadamard.signs=random hadamard.seed=2"}};
    fixture_expect(
        RULE(.selector = "linear", .words = words, .n_words = 2),
        "r.lua:5: layers.0.attn.qkv.wgrad.hadamard: the two operands are not rotated alike; "
        "set it on both: wgrad = { hadamard = hadamard{...} }");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_wide_when_any_field_is_given_then_refused),
    cmocka_unit_test(test_format_when_the_name_says_another_then_refused),
    cmocka_unit_test(test_e8m0_when_an_operand_then_refused),
    cmocka_unit_test(test_given_scale_when_there_are_blocks_then_refused),
    cmocka_unit_test(test_static_when_its_value_is_wrong_then_refused),
    cmocka_unit_test(test_delayed_when_a_field_is_out_of_range_then_refused),
    cmocka_unit_test(test_rule_when_the_scale_cannot_follow_it_then_refused),
    cmocka_unit_test(test_levels_when_they_do_not_fit_then_refused),
    cmocka_unit_test(test_choosing_when_the_rest_does_not_fit_then_refused),
    cmocka_unit_test(test_hadamard_when_signs_are_not_random_then_no_seed),
    cmocka_unit_test(test_headroom_when_out_of_range_then_refused),
    cmocka_unit_test(test_validate_when_a_struct_is_odd_then_refused),
    cmocka_unit_test(test_host_when_a_text_is_refused_then_the_field_path_is_told),
    cmocka_unit_test(test_cascade_when_a_rule_spoils_another_then_the_layer_is_named),
    cmocka_unit_test(test_cascade_when_scale_format_changes_then_the_rule_follows),
    cmocka_unit_test(test_rotation_when_seeds_differ_then_refused),
};
MPT_TEST_MAIN(cases)
