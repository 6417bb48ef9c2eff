/* plan/diff*.c: what differs between two compiled recipes, as golden texts and as JSON. */
#include "inspect_fixture.h"

#include "allowance.h"
#include "runtime/pipeline.h"

static void diff(const compiled *a, const compiled *b, bool json, mpt_str *out) {
    mpt_diff_options options = MPT_DIFF_OPTIONS_INIT;
    options.json = json;
    mpt_str_init(out, a->ctx);
    assert_mpt_ok(a->ctx, mpt_program_diff(a->program, b->program, &options, keep, out));
}

static int count_lines(const mpt_str *text) {
    int n = 0;
    for (size_t i = 0; i < text->len; i++)
        n += text->data[i] == '\n';
    return n;
}

static void check_files(const char *a, const char *b, const char *golden) {
    compiled one, other;
    mpt_str text;
    open_file(&one, a);
    open_file(&other, b);
    diff(&one, &other, false, &text);
    assert_golden(&text, golden);
    assert_in_range(count_lines(&text), 3, 39);
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}

static void test_text_when_12b_and_8b_then_golden_and_short(void **state) {
    (void)state;
    check_files("recipes/nvfp4_12b.lua", "recipes/nvfp4_8b.lua", "diff_12b_8b.txt");
}

static void test_text_when_formats_differ_then_layers_by_groups(void **state) {
    (void)state;
    check_files("recipes/gpt2_nvfp4.lua", "recipes/gpt2_mxfp8.lua", "diff_gpt2.txt");
}

/* Two recipes of the small model by their precisions; what more they say. */
static void check_text(const char *a, const char *more_a, const char *b, const char *more_b,
                       const char *const *parts, const char *lacks) {
    compiled one, other;
    mpt_str text;
    open_text(&one, "", a, more_a, NULL);
    open_text(&other, "", b, more_b, NULL);
    diff(&one, &other, false, &text);
    for (; *parts; parts++)
        if (!has_cells(&text, *parts))
            assert_holds(&text, *parts);
    if (lacks)
        assert_lacks(&text, lacks);
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_text_when_the_same_then_identical(void **state) {
    (void)state;
    const char *rules = "rules = { rule { \"linear\", use = nvfp4 } }";
    check_text(rules, "", rules, "description = \"other words\",",
               PARTS("\nidentical\n  they say the same and compile to the same"), "training");
}

static void test_text_when_evaluations_differ_then_training_says_it(void **state) {
    (void)state;
    const char *rules = "rules = { rule { \"linear\", use = nvfp4 } }";
    compiled one, other;
    mpt_str text;
    const mpt_set set = {"train.eval.use", "bf16"};
    open_text(&one, "", rules, "", NULL);
    open_text(&other, "", rules, "", &set);
    diff(&one, &other, false, &text);
    assert_holds(&text, "train.eval.use");
    assert_lacks(&text, "identical");
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}

static void test_text_when_lengths_differ_then_digits_and_no_powers(void **state) {
    (void)state;
    const mpt_set set = {"train.steps", "2000"};
    compiled one, other;
    mpt_str text;
    open_text(&one, "", "", "", NULL);
    open_text(&other, "", "", "", &set);
    diff(&one, &other, false, &text);
    assert_holds(&text, "2,000");
    assert_lacks(&text, "e+0");
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}

static void test_text_when_only_words_differ_then_that_is_said(void **state) {
    (void)state;
    check_text("rules = { rule { \"linear\", use = nvfp4 } }", "",
               "rules = { rule { \"linear\", use = e4m3 }, rule { \"linear\", use = nvfp4 } }",
               "", PARTS("\nno difference in effect\n  they are written differently"),
               "identical");
}

static void test_text_when_one_slot_differs_then_one_row(void **state) {
    (void)state;
    check_text("rules = { rule { \"linear\", use = nvfp4 } }", "",
               "rules = { rule { \"linear\", use = nvfp4 }, rule { \"layers.1.*\", "
               "use = gemm { gradient = { rounding = \"stochastic\" } } } }",
               "",
               PARTS("precision of layers\n  linear in block 1 (2 layers)\n",
                     "dgrad.dy, wgrad.dy|nvfp4 1x16|nvfp4 1x16 stochastic"),
               "fprop");
}

static void test_text_when_phases_differ_then_pairs_over_the_run(void **state) {
    (void)state;
    check_text("rules = { rule { \"linear\", use = nvfp4 } }",
               "phases = { phase { \"a\" }, phase { \"b\", from = 0.5, rules = {"
               "rule { \"linear\", use = bf16 } } } },",
               "rules = { rule { \"linear\", use = nvfp4 } }", "",
               PARTS("phases|a, b from 0.5|main",
                     "precision of layers while a is in b and b in main\n"
                     "  linear (all 4 layers)\n",
                     "all six operands|bf16|nvfp4 1x16"),
               "while a is in a");
}

static void test_text_when_other_layers_compute_otherwise_then_compute(void **state) {
    (void)state;
    check_text("rules = { rule { \"norm\", use = fp32 } }", "", "", "",
               PARTS("norm (all 3 layers)\n", "compute|fp32|bf16"), "operands");
}

/* A small gpt2 with this said of its size, against one without; and what the difference says.
 */
static void check_size(const char *size, const char *part) {
    compiled side[2];
    mpt_str text;
    for (int s = 0; s < 2; s++) {
        char recipe[1024];
        snprintf(recipe, sizeof recipe,
                 "return recipe { version = 1, name = 'small', precision = {},\n"
                 "  model = (require 'models.gpt2') { n_layer = 2, n_embd = 32, n_head = 2,\n"
                 "    n_positions = 16, vocab_size = 128, %s },\n"
                 "  train = { steps = 10, batch = 2, sequence = 16,\n"
                 "    lr = constant { peak = 1e-3 } } }\n",
                 s ? size : "");
        side[s] = (compiled){.ctx = mpt_test_ctx()};
        assert_mpt_ok(side[s].ctx,
                      mpt_recipe_load_string(side[s].ctx, "r.lua", recipe, strlen(recipe), NULL,
                                             &side[s].recipe));
        compile_it(&side[s], MPT_MODEL_FULL);
    }
    diff(&side[0], &side[1], false, &text);
    assert_holds(&text, part);
    assert_lacks(&text, "no difference in effect");
    assert_string_not_equal(side[0].program->recipe_hash, side[1].program->recipe_hash);
    mpt_str_deinit(&text);
    close_it(&side[1]);
    close_it(&side[0]);
}

static void test_text_when_a_size_says_another_number_then_model_and_field(void **state) {
    (void)state;
    check_size("resid_pdrop = 0.1", "operations dropout");
    check_size("resid_pdrop = 0.1", "model.resid_pdrop");
    check_size("layer_norm_epsilon = 1e-3", "eps of h.0.ln_1");
    check_size("layer_norm_epsilon = 1e-3", "1e-05");
    check_size("activation_function = 'gelu'", "exact of ");
    check_size("initializer_range = 0.1", "initial weights differ: wte.weight and ");
    check_size("initializer_range = 0.1", "model.initializer_range");
}

static void test_json_when_models_differ_then_kinds_and_all_parse(void **state) {
    (void)state;
    compiled one, other;
    mpt_str text;
    open_file(&one, "recipes/nvfp4_12b.lua");
    open_file(&other, "recipes/nvfp4_8b.lua");
    diff(&one, &other, true, &text);
    json_t *json = parse_json(&text);
    assert_true(json_is_false(json_object_get(json, "identical")));
    assert_true(json_is_false(json_object_get(json, "same_layers")));
    json_t *phases = json_object_get(json, "phases");
    assert_int_equal(json_array_size(phases), 2);
    json_t *kinds = json_object_get(json_array_get(phases, 0), "kinds");
    assert_int_equal(json_array_size(kinds), 4);
    json_t *four_bit = json_array_get(kinds, 1);
    assert_string_equal(json_string_value(json_object_get(four_bit, "precision")), "nvfp4");
    assert_int_equal(json_array_size(json_object_get(four_bit, "layers")), 104);
    json_decref(json);
    mpt_str_deinit(&text);
    diff(&one, &one, true, &text);
    json = parse_json(&text);
    assert_true(json_is_true(json_object_get(json, "identical")));
    json_decref(json);
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}

static void test_text_when_proxies_are_compared_then_their_training(void **state) {
    (void)state;
    static const char name[] = "recipes/nvfp4_12b.lua";
    static const mpt_set set = {"train.proxy.batch", "16"};
    compiled one, other;
    mpt_str text;
    open_file_as(&one, name, NULL, MPT_MODEL_PROXY);
    open_file_as(&other, name, &set, MPT_MODEL_PROXY);
    diff(&one, &other, false, &text);
    assert_cells(&text, "train.proxy.batch|8|16");
    assert_lacks(&text, "train.tokens");
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
    open_file(&one, name);
    open_file_as(&other, name, &set, MPT_MODEL_FULL);
    diff(&one, &other, false, &text);
    assert_holds(&text, "and 2 of the proxy's: see --model proxy\n");
    mpt_str_deinit(&text);
    close_it(&other);
    close_it(&one);
}

static void test_write_when_refused_then_io(void **state) {
    (void)state;
    compiled c;
    open_text(&c, "", "", "", NULL);
    assert_int_equal(mpt_program_diff(c.program, c.program, NULL, refuse, NULL), MPT_IO);
    close_it(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_text_when_12b_and_8b_then_golden_and_short),
    cmocka_unit_test(test_text_when_formats_differ_then_layers_by_groups),
    cmocka_unit_test(test_text_when_the_same_then_identical),
    cmocka_unit_test(test_text_when_evaluations_differ_then_training_says_it),
    cmocka_unit_test(test_text_when_lengths_differ_then_digits_and_no_powers),
    cmocka_unit_test(test_text_when_only_words_differ_then_that_is_said),
    cmocka_unit_test(test_text_when_one_slot_differs_then_one_row),
    cmocka_unit_test(test_text_when_phases_differ_then_pairs_over_the_run),
    cmocka_unit_test(test_text_when_other_layers_compute_otherwise_then_compute),
    cmocka_unit_test(test_text_when_a_size_says_another_number_then_model_and_field),
    cmocka_unit_test(test_json_when_models_differ_then_kinds_and_all_parse),
    cmocka_unit_test(test_text_when_proxies_are_compared_then_their_training),
    cmocka_unit_test(test_write_when_refused_then_io),
};
MPT_TEST_MAIN(cases)
