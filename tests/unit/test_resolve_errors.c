/* What the cascade refuses, word by word: recipe/select.c, resolve.c, quantizer.c. */
#include "recipe_fixture.h"

static void test_selector_when_it_matches_nothing_then_the_nearest_is_named(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "*.o_prj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: no layer matches '*.o_prj'; did you mean '*.o_proj'?");
    fixture_expect(
        RULE(.selector = "lineer", .use = "bf16"),
        "r.lua:5: precision.rules[1]: no layer matches 'lineer'; did you mean 'linear'?");
    fixture_expect(
        RULE(.selector = "layers.*.mlp.upproj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: no layer matches 'layers.*.mlp.upproj'; did you mean "
        "'layers.*.mlp.up_proj'?");
    fixture_expect(RULE(.selector = "other", .use = "bf16"),
                   "r.lua:5: precision.rules[1]: 'other': no rule speaks of layers of kind "
                   "other; they take the widest input; precision.ops sets the formats of "
                   "operations");
    fixture_expect(
        RULE(.selector = "xyzzy", .use = "bf16"),
        "r.lua:5: precision.rules[1]: no layer matches 'xyzzy'; select a kind such as "
        "'linear', or a "
        "path such as 'wte'");
}

static void test_selector_when_the_kind_is_absent_then_refused(void **state) {
    (void)state;
    fixture_expect(RULE(.selector = "scan", .use = "fp32"),
                   "r.lua:5: precision.rules[1]: the model has no 'scan' layer; it has linear, "
                   "attention, norm, "
                   "embedding, head");
}

static void test_selector_when_one_of_a_list_is_a_slip_then_refused(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "linear *.o_prj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: no layer matches '*.o_prj'; did you mean '*.o_proj'?");
}

static void test_selector_when_part_of_a_fused_layer_then_refused(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "*.q_proj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: '*.q_proj' names only a part of 'layers.0.attn.qkv', "
        "which "
        "computes q_proj, k_proj, v_proj in one product; name the whole: '*.qkv'");
}

static void
test_selector_when_part_of_one_fused_layer_then_the_hint_names_that_one(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "layers.1.attn.q_proj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: 'layers.1.attn.q_proj' names only a part of "
        "'layers.1.attn.qkv', which computes q_proj, k_proj, v_proj in one product; name the "
        "whole: 'layers.1.attn.qkv'");
    fixture_expect(
        RULE(.selector = "layers.1.attn.[qk]_proj", .use = "bf16"),
        "r.lua:5: precision.rules[1]: 'layers.1.attn.[qk]_proj' names only a part of "
        "'layers.1.attn.qkv', which computes q_proj, k_proj, v_proj in one product; name the "
        "whole: 'layers.1.attn.qkv'");
}

static void test_blocks_when_they_exceed_the_model_then_refused(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "linear", .blocks = "first 5", .use = "bf16"),
        "r.lua:5: precision.rules[1].blocks: 'first 5' exceeds the model, which has 4 "
        "blocks; blocks "
        "are counted from 0 to 3");
    fixture_expect(
        RULE(.selector = "linear", .blocks = "last 9", .use = "bf16"),
        "r.lua:5: precision.rules[1].blocks: 'last 9' exceeds the model, which has 4 "
        "blocks; blocks "
        "are counted from 0 to 3");
    fixture_expect(
        RULE(.selector = "linear", .blocks = "range 2 4", .use = "bf16"),
        "r.lua:5: precision.rules[1].blocks: 'range 2 4' exceeds the model, which has 4 "
        "blocks; blocks "
        "are counted from 0 to 3");
    fixture_expect(
        RULE(.selector = "linear", .blocks = "only 1 4", .use = "bf16"),
        "r.lua:5: precision.rules[1].blocks: 'only 1 4' exceeds the model, which has 4 "
        "blocks; blocks "
        "are counted from 0 to 3");
}

static void test_blocks_when_the_model_has_none_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 5, .selector = "linear", .blocks = "every 2", .use = "bf16");
    assert_int_equal(mpt_recipe_resolve(f.recipe, 0, f.layers, 1, 0, f.policies), MPT_INVALID);
    assert_message(
        f.ctx, "r.lua:5: precision.rules[1].blocks: 'every 2' exceeds the model, which has 0 "
               "blocks; leave blocks out, and select by kind or path");
    fixture_close(&f);
}

static void test_blocks_when_the_layer_lies_outside_then_refused(void **state) {
    (void)state;
    fixture_expect(
        RULE(.selector = "head", .blocks = "last 1", .use = "bf16"),
        "r.lua:5: precision.rules[1]: matches no layer in these blocks; 'head' lies in "
        "other blocks, "
        "or outside of all");
}

static void test_blocks_when_first_and_last_overlap_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 4, .selector = "linear", .blocks = "first 3", .use = "bf16");
    fixture_rule(&f, 5, .selector = "linear", .blocks = "last 2", .use = "bf16");
    assert_int_equal(fixture_try_resolve(&f, 0), MPT_INVALID);
    assert_message(
        f.ctx,
        "r.lua:5: precision.rules[1].blocks and precision.rules[2].blocks: the first 3 and the "
        "last 2 of 4 blocks overlap; make them smaller, or leave blocks out to "
        "speak of all");
    fixture_close(&f);
}

static void test_blocks_when_overlaps_are_of_other_layers_then_allowed(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 4, .selector = "linear", .blocks = "first 3", .use = "e4m3");
    fixture_rule(&f, 5, .selector = "*.o_proj", .blocks = "last 2", .use = "e5m2");
    fixture_rule(&f, 6, .selector = "linear", .blocks = "last 1", .use = "bf16");
    fixture_resolve(&f, 0);
    assert_int_equal(FIXTURE_POLICY(&f, "layers.2.attn.o_proj")->slot[0].format,
                     MPT_DTYPE_E5M2);
    fixture_close(&f);
}

static void test_use_when_a_norm_should_quantize_then_refused(void **state) {
    (void)state;
    const mpt_set words[] = {{"weight", "bf16"}};
    fixture_expect(
        RULE(.selector = "norm", .use = "nvfp4"),
        "r.lua:5: precision.rules[1].use: norm layers cannot compute in nvfp4; use fp32, "
        "bf16 or fp16 "
        "for them");
    fixture_expect(
        RULE(.selector = "attention", .words = words, .n_words = 1),
        "r.lua:5: precision.rules[1].use: attention layers have no gemm whose operands "
        "could differ; "
        "use fp32, bf16 or fp16 for them");
    fixture_expect(
        RULE(.selector = "norm", .gemms = "fprop", .use = "fp32"),
        "r.lua:5: precision.rules[1].gemms: norm layers have no gemm whose operands could "
        "differ; use "
        "fp32, bf16 or fp16 for them");
}

static void test_hadamard_when_on_one_operand_then_refused(void **state) {
    (void)state;
    const mpt_set words[] = {{"weight", "nvfp4"},
                             {"activation", "nvfp4"},
                             {"gradient", "nvfp4"},
                             {"wgrad.x", "hadamard.size=16"}};
    fixture_expect(
        RULE(.selector = "linear", .words = words, .n_words = 4),
        "r.lua:5: layers.0.attn.qkv.wgrad.hadamard: the two operands are not rotated alike; "
        "set it on both: wgrad = { hadamard = hadamard{...} }");
}

static void test_hadamard_when_signs_differ_then_refused(void **state) {
    (void)state;
    const mpt_set words[] = {{"activation", "nvfp4 hadamard.signs=none"},
                             {"gradient", "nvfp4 hadamard.signs=fixed"},
                             {"fprop.x", "hadamard=none"},
                             {"dgrad.dy", "hadamard=none"}};
    fixture_expect(
        RULE(.selector = "linear", .words = words, .n_words = 4),
        "r.lua:5: layers.0.attn.qkv.wgrad.hadamard: the two operands are not rotated alike; "
        "set it on both: wgrad = { hadamard = hadamard{...} }");
}

static void test_hadamard_when_the_weight_is_square_then_refused(void **state) {
    (void)state;
    const mpt_set words[] = {{"weight", "nvfp4 block=16x16"},
                             {"activation", "nvfp4"},
                             {"gradient", "nvfp4"},
                             {"dgrad", "hadamard.size=16"}};
    fixture_expect(
        RULE(.selector = "linear", .words = words, .n_words = 4),
        "r.lua:5: layers.0.attn.qkv.dgrad.hadamard: the weight has square blocks of 16x16; "
        "rotate wgrad only, or give the weight blocks of {1, 16}");
}

static void test_quantizer_when_merged_fields_clash_then_the_layer_is_named(void **state) {
    (void)state;
    const mpt_set words[] = {{"gradient", "rounding=stochastic"}};
    fixture_expect(
        RULE(.selector = "linear", .words = words, .n_words = 1),
        "r.lua:5: layers.0.attn.qkv.dgrad.dy.rounding: bf16 has no rounding; bf16 holds "
        "values as they are; take e4m3, mxfp8 or nvfp4 to quantize");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_selector_when_it_matches_nothing_then_the_nearest_is_named),
    cmocka_unit_test(test_selector_when_the_kind_is_absent_then_refused),
    cmocka_unit_test(test_selector_when_one_of_a_list_is_a_slip_then_refused),
    cmocka_unit_test(test_selector_when_part_of_a_fused_layer_then_refused),
    cmocka_unit_test(test_selector_when_part_of_one_fused_layer_then_the_hint_names_that_one),
    cmocka_unit_test(test_blocks_when_they_exceed_the_model_then_refused),
    cmocka_unit_test(test_blocks_when_the_model_has_none_then_refused),
    cmocka_unit_test(test_blocks_when_the_layer_lies_outside_then_refused),
    cmocka_unit_test(test_blocks_when_first_and_last_overlap_then_refused),
    cmocka_unit_test(test_blocks_when_overlaps_are_of_other_layers_then_allowed),
    cmocka_unit_test(test_use_when_a_norm_should_quantize_then_refused),
    cmocka_unit_test(test_hadamard_when_on_one_operand_then_refused),
    cmocka_unit_test(test_hadamard_when_signs_differ_then_refused),
    cmocka_unit_test(test_hadamard_when_the_weight_is_square_then_refused),
    cmocka_unit_test(test_quantizer_when_merged_fields_clash_then_the_layer_is_named),
};
MPT_TEST_MAIN(cases)
