/* plan/explain*.c: every field of a layer with the line that decided it; defaults; hosts. The
 * names of layers: test_explain_names.c. */
#include "inspect_fixture.h"

#include "allowance.h"
#include "mpt/model.h"
#include "recipe/schema_rows.h"

/* ---- helpers ---- */

/* The object of one field: phase, GEMM, operand, field. */
static const json_t *field_of(const json_t *layer, int phase, const char *gemm,
                              const char *operand, const char *field) {
    const json_t *at = json_array_get(json_object_get(layer, "phases"), (size_t)phase);
    at = json_object_get(json_object_get(json_object_get(at, gemm), operand), field);
    assert_non_null(at);
    return at;
}

static void assert_field(const json_t *field, const char *value, const char *at,
                         const char *rule, const char *how) {
    const char *names[] = {"value", "at", "rule", "how"};
    const char *wanted[] = {value, at, rule, how};
    for (int i = 0; i < 4; i++) {
        const char *got = json_string_value(json_object_get(field, names[i]));
        if (!got != !wanted[i] || (got && strcmp(got, wanted[i]) != 0))
            fail_msg("%s: %s, not %s", names[i], got ? got : "null",
                     wanted[i] ? wanted[i] : "null");
    }
}

/* The explanation as JSON of one layer of a recipe. The caller frees *out_root. */
static const json_t *layer_json(compiled *c, const char *name, json_t **out_root) {
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    mpt_str text;
    options.json = true;
    explain(c, name, &options, &text);
    *out_root = parse_json(&text);
    mpt_str_deinit(&text);
    return json_array_get(json_object_get(*out_root, "layers"), 0);
}

/* ---- golden texts ---- */

static void check_golden(const char *layer, const char *golden) {
    compiled c;
    mpt_str text;
    open_file(&c, "recipes/nvfp4_12b.lua");
    explain(&c, layer, NULL, &text);
    assert_golden(&text, golden);
    mpt_str_deinit(&text);
    close_it(&c);
}

static void test_text_when_late_block_of_12b_then_golden(void **state) {
    (void)state;
    check_golden("layers.54.mixer.in_proj", "explain_12b_late.txt");
}

static void test_text_when_four_bit_block_of_12b_then_golden(void **state) {
    (void)state;
    check_golden("layers.20.mixer.out_proj", "explain_12b_four_bit.txt");
}

static void test_text_when_a_kind_is_named_then_equal_layers_stand_together(void **state) {
    (void)state;
    check_golden("{*.o_proj,norm_f,layers.0.norm}", "explain_12b_groups.txt");
}

/* ---- places ---- */

static const char four_bit[] = "local four_bit = gemm {\n"
                               "  weight = nvfp4 {\n"
                               "    block = {16, 16} },\n"
                               "  activation = nvfp4,\n"
                               "  gradient = nvfp4 { rounding = \"stochastic\" },\n"
                               "  wgrad = {\n"
                               "    hadamard = hadamard { size = 16 } },\n"
                               "  output = fp32,\n"
                               "}\n";

static void test_json_when_a_gemm_spans_lines_then_each_field_has_its_own(void **state) {
    (void)state;
    compiled c;
    json_t *root;
    open_text(&c, four_bit, "rules = {\n  rule { \"linear\", use = four_bit } }", "", NULL);
    const json_t *up = layer_json(&c, "layers.0.up_proj", &root);
    const char *rule = "precision.rules[1]";
    assert_field(field_of(up, 0, "fprop", "w", "block"), "16x16", "r.lua:3", rule, "said");
    assert_field(field_of(up, 0, "fprop", "w", "format"), "nvfp4 (e2m1)", "r.lua:2", rule,
                 "said");
    assert_field(field_of(up, 0, "dgrad", "w", "scale"), "current", "r.lua:2", rule,
                 "by format");
    assert_field(field_of(up, 0, "fprop", "x", "block"), "1x16", "r.lua:4", rule, "by format");
    assert_field(field_of(up, 0, "dgrad", "dy", "rounding"), "stochastic", "r.lua:5", rule,
                 "said");
    assert_field(field_of(up, 0, "dgrad", "dy", "hadamard"), "none", "r.lua:5", rule,
                 "by format");
    assert_field(field_of(up, 0, "wgrad", "dy", "hadamard"), "size=16 signs=fixed", "r.lua:7",
                 rule, "said");
    const json_t *phase = json_array_get(json_object_get(up, "phases"), 0);
    const json_t *fprop = json_object_get(phase, "fprop"),
                 *wgrad = json_object_get(phase, "wgrad");
    assert_field(json_object_get(fprop, "output"), "fp32", "r.lua:8", rule, "said");
    assert_field(json_object_get(wgrad, "output"), "fp32", NULL, NULL, "default");
    /* The rule itself is at another line than what it uses. */
    const json_t *first = json_array_get(json_object_get(phase, "rules"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "at")), "r.lua:11");
    json_decref(root);
    close_it(&c);
}

static void test_json_when_asked_then_all_fields_of_all_slots_have_an_origin(void **state) {
    (void)state;
    static const char *const slots[][2] = {{"fprop", "x"}, {"fprop", "w"},  {"dgrad", "dy"},
                                           {"dgrad", "w"}, {"wgrad", "dy"}, {"wgrad", "x"}};
    compiled c;
    json_t *root;
    open_file(&c, "recipes/nvfp4_12b.lua");
    const json_t *layer = layer_json(&c, "layers.54.mixer.in_proj", &root);
    assert_int_equal(json_array_size(json_object_get(layer, "phases")), 2);
    for (int p = 0; p < 2; p++)
        for (size_t s = 0; s < MPT_COUNT(slots); s++)
            for (int f = 0; f < mpt_record_quantizer.n_fields; f++) {
                const char *name = mpt_record_quantizer.fields[f].name;
                const json_t *field = field_of(layer, p, slots[s][0], slots[s][1], name);
                const char *at = json_string_value(json_object_get(field, "at"));
                assert_non_null(json_string_value(json_object_get(field, "value")));
                assert_non_null(at);
                assert_int_equal(strncmp(at, "recipes/nvfp4_12b.lua:", 22), 0);
            }
    json_decref(root);
    close_it(&c);
}

static void test_json_when_two_rules_merge_then_each_has_its_fields(void **state) {
    (void)state;
    compiled c;
    json_t *root;
    open_text(&c, "",
              "rules = {\n"
              "  rule { \"linear\", use = mxfp8 },\n"
              "  rule { \"*.up_proj\",\n"
              "    use = gemm { gradient = { scale_format = \"pow2\",\n"
              "      rounding = \"stochastic\" } } } }",
              "", NULL);
    const json_t *up = layer_json(&c, "layers.1.up_proj", &root);
    const char *first = "precision.rules[1]", *second = "precision.rules[2]";
    assert_field(field_of(up, 0, "dgrad", "dy", "format"), "mxfp8 (e4m3)", "r.lua:2", first,
                 "said");
    assert_field(field_of(up, 0, "dgrad", "dy", "rounding"), "stochastic", "r.lua:5", second,
                 "said");
    assert_field(field_of(up, 0, "dgrad", "dy", "scale_rule"), "up", "r.lua:4", second,
                 "by scale_format");
    assert_field(field_of(up, 0, "fprop", "x", "rounding"), "nearest", "r.lua:2", first,
                 "by format");
    json_decref(root);
    close_it(&c);
}

static void
test_text_when_a_format_is_refined_twice_then_each_field_has_its_line(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    open_text(&c, "local w = nvfp4 { block = {16, 16} }\nlocal s = w {\n  pad = \"bf16\" }\n",
              "rules = { rule { \"linear\", use = gemm { weight = s } } }", "", NULL);
    explain(&c, "layers.0.up_proj", NULL, &text);
    assert_cells(&text, "block|16x16|r.lua:1|precision.rules[1]");
    assert_cells(&text, "pad|bf16|r.lua:3|precision.rules[1]");
    mpt_str_deinit(&text);
    close_it(&c);
}

/* ---- defaults ---- */

static void test_text_when_no_rule_speaks_then_the_base_and_its_place(void **state) {
    (void)state;
    static const mpt_set set = {"precision.base", "fp16"};
    compiled c;
    mpt_str text;
    open_text(&c, "", "", "", NULL);
    explain(&c, "layers.0.up_proj", NULL, &text);
    assert_holds(&text, "no rule speaks of it");
    assert_cells(&text, "format|bf16|default|precision.base");
    assert_cells(&text, "wgrad.output|fp32|default|the format of gradients");
    mpt_str_deinit(&text);
    explain(&c, "lm_head", NULL, &text);
    assert_cells(&text, "fprop.output|fp32|default|logits, read by the loss");
    mpt_str_deinit(&text);
    close_it(&c);
    open_text(&c, "", "\n  base = fp32 ", "", NULL);
    explain(&c, "norm", NULL, &text);
    assert_cells(&text, "compute|fp32|r.lua:2|precision.base");
    mpt_str_deinit(&text);
    close_it(&c);
    open_text(&c, "", "\n  base = fp32 ", "", &set);
    explain(&c, "norm", NULL, &text);
    assert_cells(&text, "compute|fp16|--set|precision.base");
    mpt_str_deinit(&text);
    close_it(&c);
}

static void test_text_when_precision_ops_speak_then_their_lines(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    open_text(&c, "",
              "\n  ops = { norm = fp16,\n    softmax = bf16 },\n"
              "  state = { residual = fp32 },\n"
              "  rules = { rule { \"layers.1.norm\", use = fp32 } }",
              "", NULL);
    explain(&c, "norm", NULL, &text);
    assert_cells(&text, "compute|fp16|r.lua:2|precision.ops.norm");
    assert_cells(&text, "compute|fp32|r.lua:5|precision.rules[1]");
    mpt_str_deinit(&text);
    explain(&c, "embed_tokens", NULL, &text);
    assert_cells(&text, "compute|fp32|r.lua:4|precision.state.residual");
    mpt_str_deinit(&text);
    close_it(&c);
    open_file(&c, "recipes/gpt2_fp8.lua");
    explain(&c, "h.0.attn", NULL, &text);
    assert_cells(&text, "compute|bf16|default|precision.base");
    assert_cells(&text, "softmax|fp32|default|autocast table");
    mpt_str_deinit(&text);
    close_it(&c);
}

static void test_text_when_sums_are_said_then_the_rule(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    open_text(&c, "",
              "rules = {\n  rule { \"linear\", use = gemm { wgrad = { accumulate = bf16, "
              "promote = 128 } } } }",
              "", NULL);
    explain(&c, "layers.0.up_proj", NULL, &text);
    assert_cells(&text, "wgrad.accumulate|bf16|r.lua:2|precision.rules[1]");
    assert_cells(&text, "wgrad.promote|128|r.lua:2|precision.rules[1]");
    assert_cells(&text, "fprop.accumulate|fp32|default|fp32 unless said");
    mpt_str_deinit(&text);
    close_it(&c);
}

static void test_text_when_pad_falls_back_then_that_is_why(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    open_text(&c, "",
              "rules = { rule { \"linear\",\n"
              "  use = gemm { weight = mxfp8 { block = {1, 128},\n    pad = \"bf16\" } } } }",
              "", NULL);
    explain(&c, "layers.0.up_proj", NULL, &text);
    assert_cells(&text, "format|bf16|r.lua:3|pad of precision.rules[1]: the blocks do not fit");
    mpt_str_deinit(&text);
    close_it(&c);
}

/* A function that counts its calls gives the compiled layer no explanation. */
static void test_text_when_a_function_changes_its_mind_then_refused(void **state) {
    (void)state;
    static const char *const uses[] = {"nvfp4", "gemm { output = fp32 }"};
    static const char rule[] = "rules = { rule { \"linear\", use = %s, where = function()"
                               " n = n + 1 return n <= 4 end } }";
    for (size_t i = 0; i < MPT_COUNT(uses); i++) {
        char text[256];
        compiled c;
        mpt_str out;
        snprintf(text, sizeof text, rule, uses[i]);
        open_text(&c, "local n = 0\n", text, "", NULL);
        mpt_str_init(&out, c.ctx);
        assert_int_equal(mpt_program_explain(c.program, "layers.0.up_proj", NULL, keep, &out),
                         MPT_INVALID);
        assert_string_equal(mpt_ctx_error(c.ctx)->message,
                            "layers.0.up_proj: a rule's where gave another answer than while "
                            "compiling; let it depend on the layer alone");
        mpt_str_deinit(&out);
        close_it(&c);
    }
}

/* One block of two linear layers. */
static mpt_status build(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    mpt_model_value x = mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), 0, 16);
    mpt_model_block(nn, "h", 0);
    x = mpt_model_linear(nn, "up", x, MPT_LINEAR(.out = 32));
    x = mpt_model_linear(nn, "down", x, MPT_LINEAR(.out = 16));
    mpt_model_end_block(nn);
    return mpt_model_cross_entropy(
        nn, mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true)));
}

static void test_text_when_a_host_made_the_rules_then_host(void **state) {
    (void)state;
    static const mpt_set fields[] = {{"train.steps", "2"},      {"train.batch", "2"},
                                     {"train.sequence", "16"},  {"train.lr", "wsd"},
                                     {"train.lr.peak", "1e-3"}, {"precision.base", "fp32"}};
    compiled c = {.ctx = mpt_test_ctx()};
    mpt_rule_desc rule = {.size = sizeof rule, .selector = "linear", .use = "e4m3"};
    mpt_str text;
    assert_mpt_ok(c.ctx, mpt_recipe_create(c.ctx, "small", &c.recipe));
    assert_mpt_ok(c.ctx, mpt_recipe_set_model(c.recipe, "tiny", "16", build, NULL));
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        assert_mpt_ok(c.ctx, mpt_recipe_set(c.recipe, fields[i].path, fields[i].value));
    assert_mpt_ok(c.ctx, mpt_recipe_add_rule(c.recipe, &rule));
    rule = (mpt_rule_desc){.size = sizeof rule,
                           .file = "embed.c",
                           .line = 7,
                           .selector = "*.down",
                           .use = "e5m2 headroom=0.5"};
    assert_mpt_ok(c.ctx, mpt_recipe_add_rule(c.recipe, &rule));
    compile_it(&c, MPT_MODEL_FULL);
    explain(&c, "h.0.up", NULL, &text);
    assert_cells(&text, "format|e4m3|host|precision.rules[1]");
    assert_cells(&text, "block|tensor|host|e4m3 of precision.rules[1]");
    assert_cells(&text, "fprop.output|fp32|host|precision.base");
    mpt_str_deinit(&text);
    explain(&c, "h.0.down", NULL, &text);
    assert_cells(&text, "headroom|0.5|embed.c:7|precision.rules[2]");
    mpt_str_deinit(&text);
    close_it(&c);
}

/* ---- terminals ---- */

static void test_color_when_asked_then_what_no_rule_says_is_dim(void **state) {
    (void)state;
    compiled c;
    mpt_str text;
    mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
    open_text(&c, "", "rules = { rule { \"linear\", use = nvfp4 } }", "", NULL);
    explain(&c, "layers.0.up_proj", NULL, &text);
    assert_lacks(&text, "\033");
    mpt_str_deinit(&text);
    options.color = true;
    explain(&c, "layers.0.up_proj", &options, &text);
    assert_holds(&text, "    \033[2mblock ");
    assert_holds(&text, "\n    format ");
    mpt_str_deinit(&text);
    close_it(&c);
}

/* ---- writing, memory ---- */

static void test_write_when_refused_then_io(void **state) {
    (void)state;
    compiled c;
    open_text(&c, "", "", "", NULL);
    assert_int_equal(mpt_program_explain(c.program, "*", NULL, refuse, NULL), MPT_IO);
    close_it(&c);
}

/* Each allocation of the call fails once; nothing is lost. */
static void test_memory_when_refused_then_out_of_memory_and_nothing_leaks(void **state) {
    (void)state;
    for (int json = 0; json < 2; json++) {
        static const char text[] =
            "return recipe { name = \"small\", model = (require \"models.mlp\") \"tiny\",\n"
            "precision = { rules = { rule { \"linear\", use = nvfp4 } } },\n"
            "train = { steps = 1, batch = 1, sequence = 16, lr = constant { peak = 1 } } }";
        allowance a;
        mpt_recipe *recipe;
        mpt_program *program;
        mpt_ctx *ctx = allowance_context(&a, -1);
        mpt_compile_options compile = MPT_COMPILE_OPTIONS_INIT;
        mpt_explain_options options = MPT_EXPLAIN_OPTIONS_INIT;
        options.json = json == 1;
        compile.n_threads = 1;
        assert_mpt_ok(ctx,
                      mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe));
        assert_mpt_ok(ctx, mpt_compile(recipe, &compile, &program));
        long live = a.live;
        mpt_status status = MPT_OUT_OF_MEMORY;
        for (long n = 0; status != MPT_OK && n < 5000; n++) {
            mpt_str out;
            a.left = -1;
            mpt_str_init(&out, ctx);
            assert_true(keep(&out, "x", 1)); /* room that the allowance does not count */
            a.left = n;
            status = mpt_program_explain(program, "*", &options, keep, &out);
            a.left = -1;
            mpt_str_deinit(&out);
            if (status != MPT_OK && status != MPT_IO)
                assert_int_equal(status, MPT_OUT_OF_MEMORY);
            assert_int_equal(a.live, live);
        }
        assert_int_equal(status, MPT_OK);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_text_when_late_block_of_12b_then_golden),
    cmocka_unit_test(test_text_when_four_bit_block_of_12b_then_golden),
    cmocka_unit_test(test_text_when_a_kind_is_named_then_equal_layers_stand_together),
    cmocka_unit_test(test_json_when_a_gemm_spans_lines_then_each_field_has_its_own),
    cmocka_unit_test(test_json_when_asked_then_all_fields_of_all_slots_have_an_origin),
    cmocka_unit_test(test_json_when_two_rules_merge_then_each_has_its_fields),
    cmocka_unit_test(test_text_when_a_format_is_refined_twice_then_each_field_has_its_line),
    cmocka_unit_test(test_text_when_no_rule_speaks_then_the_base_and_its_place),
    cmocka_unit_test(test_text_when_precision_ops_speak_then_their_lines),
    cmocka_unit_test(test_text_when_sums_are_said_then_the_rule),
    cmocka_unit_test(test_text_when_pad_falls_back_then_that_is_why),
    cmocka_unit_test(test_text_when_a_function_changes_its_mind_then_refused),
    cmocka_unit_test(test_text_when_a_host_made_the_rules_then_host),
    cmocka_unit_test(test_color_when_asked_then_what_no_rule_says_is_dim),
    cmocka_unit_test(test_write_when_refused_then_io),
    cmocka_unit_test(test_memory_when_refused_then_out_of_memory_and_nothing_leaks),
};
MPT_TEST_MAIN(cases)
