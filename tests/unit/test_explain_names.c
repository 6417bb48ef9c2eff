/* plan/layer_set.c and the phases of plan/explain.c: layers by path, glob, kind, part and
 * checkpoint name; slips; one phase. */
#include "inspect_fixture.h"

/* ---- names ---- */

static void expect_names(compiled *c, const char *layer, const char *heading) {
    mpt_str text;
    explain(c, layer, NULL, &text);
    if (strncmp(text.data, heading, strlen(heading)) != 0)
        fail_msg("%s gives %.*s", layer, (int)strcspn(text.data, "\n"), text.data);
    mpt_str_deinit(&text);
}

static void test_names_when_a_checkpoint_has_them_then_roots_and_tensors_go(void **state) {
    (void)state;
    compiled c;
    open_file(&c, "recipes/nvfp4_12b.lua");
    const char *heading = "layers.54.mixer.in_proj: linear in block 54 of 0..61, 5,120 in, ";
    expect_names(&c, "layers.54.mixer.in_proj", heading);
    expect_names(&c, "backbone.layers.54.mixer.in_proj", heading);
    expect_names(&c, "model.layers.54.mixer.in_proj.weight", heading);
    expect_names(&c, "transformer.layers.54.mixer.in_proj.weight", heading);
    expect_names(&c, "head", "lm_head: head, 5,120 in, 131,072 out\n");
    expect_names(&c, "conv", "conv (all 28 layers): the same in all\n");
    expect_names(&c, "linear", "linear in blocks 0..1 (4 layers): the same in all\n");
    expect_names(&c, "layers.7.mixer.k_proj",
                 "layers.7.mixer.qkv_proj: linear in block 7 of 0..61, 5,120 in, 7,168 out\n"
                 "k_proj is a part of it: q_proj, k_proj and v_proj are one product, with one "
                 "precision\n");
    close_it(&c);
}

static void expect_refused(compiled *c, const char *layer, const char *phase,
                           const char *message) {
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    mpt_str text;
    mpt_str_init(&text, c->ctx);
    options.phase = phase;
    assert_int_equal(mpt_program_explain(c->program, layer, &options, keep, &text),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(c->ctx)->message, message);
    assert_null(text.data);
}

static void test_names_when_wrong_then_the_nearest_are_named(void **state) {
    (void)state;
    compiled c;
    open_file(&c, "recipes/nvfp4_12b.lua");
    expect_refused(&c, "layers.54.mixer.inproj", NULL,
                   "the model has no layer 'layers.54.mixer.inproj'; did you mean "
                   "'layers.54.mixer.in_proj'?");
    expect_refused(&c, "layers.54.attention", NULL,
                   "the model has no layer 'layers.54.attention'; block 54 has "
                   "'layers.54.norm', 'layers.54.mixer.in_proj', 'layers.54.mixer.conv1d', "
                   "'layers.54.mixer', 'layers.54.mixer.norm', 'layers.54.mixer.out_proj'");
    expect_refused(&c, "lm_haed", NULL,
                   "the model has no layer 'lm_haed'; did you mean 'lm_head'?");
    expect_refused(&c, "lm_head", "setle",
                   "the recipe has no phase 'setle'; did you mean 'settle'?");
    expect_refused(&c, "lm_head", "x", "the recipe has no phase 'x'; its first is 'four_bit'");
    close_it(&c);
}

/* ---- phases ---- */

static void test_phases_when_one_is_named_then_it_alone_and_whole(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    open_file(&c, "recipes/nvfp4_12b.lua");
    options.phase = "settle";
    explain(&c, "layers.20.mixer.out_proj", &options, &text);
    assert_holds(&text, "phase settle, from step 1,360,023\n");
    assert_holds(&text, "phases[2].rules[1]");
    assert_holds(&text, "  fprop.x, fprop.w: bf16\n");
    assert_lacks(&text, "phase four_bit");
    mpt_str_deinit(&text);
    explain(&c, "lm_head", NULL, &text);
    assert_holds(&text, "phase settle, from step 1,360,023: the same\n");
    mpt_str_deinit(&text);
    close_it(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_names_when_a_checkpoint_has_them_then_roots_and_tensors_go),
    cmocka_unit_test(test_names_when_wrong_then_the_nearest_are_named),
    cmocka_unit_test(test_phases_when_one_is_named_then_it_alone_and_whole),
};
MPT_TEST_MAIN(cases)
