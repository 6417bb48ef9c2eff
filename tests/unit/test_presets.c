/* Presets: the Lua file and the calls of hosts say the same, derive changes them, and whatever
 * is no precision is refused with the way to write one. And tf32, as a base. */
#include "lua_test.h"

#include "pipeline.h"
#include "recipe/presets.h"

#define TRAIN "train = { steps = 9, batch = 2, sequence = 32, lr = constant { peak = 1e-3 } }"
#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { w = 32 } }, graph = function(nn, size)\n"   \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  for i = 0, 1 do nn.block(i, function()\n"                                               \
    "    local h = nn.linear { 'up', nn.rmsnorm { 'norm', x }, out = 64 }\n"                   \
    "    x = nn.add(x, nn.linear { 'down', nn.relu2(h), out = size.w }) end) end\n"            \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

static mpt_recipe *load(mpt_ctx *ctx, const char *before, const char *precision) {
    char text[4096];
    snprintf(text, sizeof text,
             MODEL "%s\nreturn recipe { model = m 's', name = 'r', " TRAIN ",\n%s }", before,
             precision);
    return mpt_lua_load(ctx, text);
}

static void canonical(const mpt_recipe *recipe, mpt_str *out) {
    mpt_str_init(out, recipe->ctx);
    mpt_recipe_canonical(recipe, out);
    assert_false(out->failed);
}

/* ---- the two sources ---- */

static void test_presets_when_listed_then_lua_and_c_have_the_same(void **state) {
    (void)state;
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    mpt_ctx *ctx = mpt_test_ctx();
    char before[1024] = "local want = {";
    for (int i = 0; i < n; i++)
        snprintf(before + strlen(before), sizeof before - strlen(before), " %s = true,",
                 presets[i].name);
    snprintf(before + strlen(before), sizeof before - strlen(before),
             " }\nfor name in pairs(presets) do assert(want[name], name) want[name] = nil end "
             "assert(next(want) == nil)");
    mpt_lua_finish(ctx, load(ctx, before, ""));
    assert_int_equal(n, 10);
    for (int i = 0; i < n; i++)
        assert_true(strlen(presets[i].doc) > 20 && strchr(presets[i].doc, '.'));
}

/* One text, so one hash: from Lua, from a host's call, and from --set over another precision.
 */
static void test_preset_when_said_in_three_ways_then_one_recipe(void **state) {
    (void)state;
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    for (int i = 0; i < n; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        char field[64];
        mpt_str lua, set;
        snprintf(field, sizeof field, "precision = presets.%s", presets[i].name);
        mpt_recipe *a = load(ctx, "", field);
        mpt_recipe *b = load(ctx, "",
                             "precision = { base = fp16, state = { residual = fp32 },\n"
                             "rules = { rule { 'linear', use = int8 } } }");
        assert_mpt_ok(ctx, mpt_recipe_set(b, "precision", presets[i].name));
        canonical(a, &lua);
        canonical(b, &set);
        assert_string_equal(lua.data, set.data);
        mpt_str_deinit(&lua);
        mpt_str_deinit(&set);
        mpt_recipe_destroy(b);
        mpt_lua_finish(ctx, a);
    }
}

static void test_preset_when_compiled_then_its_rule_has_a_line(void **state) {
    (void)state;
    int n;
    const mpt_preset *presets = mpt_preset_all(&n);
    for (int i = 0; i < n; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_program *program = NULL;
        char field[64];
        snprintf(field, sizeof field, "precision = presets.%s", presets[i].name);
        mpt_recipe *recipe = load(ctx, "", field);
        assert_int_equal(recipe->n_rules, presets[i].use || presets[i].words ? 1 : 0);
        for (int r = 0; r < recipe->n_rules; r++) {
            assert_string_equal(recipe->rules[r].where.file, "lua/presets.lua");
            assert_in_range(recipe->rules[r].where.line, 10, 200);
        }
        assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, recipe);
    }
}

/* ---- what methods.md says of each ---- */

static void policy_of(const char *field, const char *path, mpt_policy *out) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_program *program = NULL;
    mpt_recipe *recipe = load(ctx, "", field);
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    const mpt_phase_program *phase = program->phases[0];
    bool found = false;
    for (int i = 0; i < phase->graph->n_layers; i++)
        if (strcmp(phase->graph->layers[i].path, path) == 0) {
            *out = phase->policies[i];
            found = true;
        }
    assert_true(found);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, recipe);
}

static void test_preset_when_fp32_then_nothing_is_lower(void **state) {
    (void)state;
    static const char *const paths[] = {"layers.0.up", "layers.1.norm", "head", "e"};
    mpt_policy policy;
    for (size_t i = 0; i < MPT_COUNT(paths); i++) {
        policy_of("precision = presets.fp32", paths[i], &policy);
        assert_int_equal(policy.compute, MPT_DTYPE_FP32);
        assert_int_equal(policy.output[MPT_GEMM_DGRAD], i == 0 || i == 2 ? MPT_DTYPE_FP32 : 0);
    }
}

static void test_preset_when_fp8_then_gradients_are_wider(void **state) {
    (void)state;
    static const char *const fields[] = {"precision = presets.fp8_delayed",
                                         "precision = presets.fp8_current"};
    mpt_policy policy;
    for (int i = 0; i < 2; i++) {
        policy_of(fields[i], "layers.0.up", &policy);
        for (int s = 0; s < MPT_SLOT_COUNT; s++) {
            bool gradient = s == MPT_SLOT_DGRAD_DY || s == MPT_SLOT_WGRAD_DY;
            const mpt_quantizer *q = &policy.slot[s];
            assert_int_equal(q->format, gradient ? MPT_DTYPE_E5M2 : MPT_DTYPE_E4M3);
            assert_int_equal(q->scale.kind, i ? MPT_SCALING_CURRENT : MPT_SCALING_DELAYED);
            assert_int_equal(q->scale.history, i ? 0 : 1024);
            assert_true(q->block_rows == 0 && q->block_cols == 0);
        }
    }
}

static void test_preset_when_nvfp4_then_as_published(void **state) {
    (void)state;
    mpt_policy policy;
    policy_of("precision = presets.nvfp4", "layers.1.down", &policy);
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const mpt_quantizer *q = &policy.slot[s];
        bool weight = s == MPT_SLOT_FPROP_W || s == MPT_SLOT_DGRAD_W;
        bool gradient = s == MPT_SLOT_DGRAD_DY || s == MPT_SLOT_WGRAD_DY;
        assert_string_equal(q->name, "nvfp4");
        assert_int_equal(q->block_rows, weight ? 16 : 1);
        assert_int_equal(q->block_cols, 16);
        assert_int_equal(q->rounding,
                         gradient ? MPT_ROUNDING_STOCHASTIC : MPT_ROUNDING_NEAREST);
        assert_int_equal(q->hadamard.size, s >= MPT_SLOT_WGRAD_DY ? 16 : 0);
    }
}

/* ---- tf32 ---- */

static void test_tf32_when_it_is_the_base_then_only_products_are_in_it(void **state) {
    (void)state;
    mpt_policy policy;
    policy_of("precision = { base = tf32 }", "layers.0.up", &policy);
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        assert_int_equal(policy.slot[s].format, MPT_DTYPE_TF32);
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        assert_int_equal(policy.output[g], MPT_DTYPE_FP32);
    policy_of("precision = { base = tf32 }", "layers.0.norm", &policy);
    assert_int_equal(policy.compute, MPT_DTYPE_FP32);
}

static void test_tf32_when_trained_then_near_fp32_and_as_a_rule_says_it(void **state) {
    (void)state;
    static const char *const fields[] = {"precision = presets.fp32", "precision = presets.tf32",
                                         ("precision = { base = fp32, rules = { rule { "
                                          "{'linear', 'head'}, use = tf32 } } }")};
    double loss[MPT_COUNT(fields)];
    char hash[MPT_COUNT(fields)][17];
    for (size_t i = 0; i < MPT_COUNT(fields); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_program *program = NULL;
        mpt_trainer *trainer = NULL;
        mpt_step_result result = {0};
        mpt_recipe *recipe = load(ctx, "", fields[i]);
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, "train.lr.peak", "0.01"));
        assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
        snprintf(hash[i], sizeof hash[i], "%s", program->phases[0]->schedule_hash);
        assert_mpt_ok(ctx, mpt_trainer_create(program, NULL, &trainer));
        for (int step = 0; step < 8; step++)
            assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &result));
        loss[i] = result.loss;
        mpt_trainer_destroy(trainer);
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, recipe);
    }
    assert_true(loss[0] != loss[1] && loss[1] - loss[0] < 5e-3 && loss[0] - loss[1] < 5e-3);
    assert_true(loss[1] == loss[2]);
    assert_string_equal(hash[1], hash[2]);
    assert_string_not_equal(hash[0], hash[1]);
}

static void test_tf32_when_nothing_is_multiplied_then_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "precision = { state = { residual = tf32 } }",
        "r.lua:5: precision.state.residual: no format 'tf32' here; take fp32, bf16 or fp16");
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_program *program = NULL;
    mpt_recipe *recipe =
        load(ctx, "", "precision = { rules = { rule { 'norm', use = tf32 } } }");
    assert_int_equal(mpt_compile(recipe, NULL, &program), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:9: precision.rules[1].use: norm layers cannot compute in tf32; "
                        "use fp32, bf16 or fp16 for them");
    mpt_lua_finish(ctx, recipe);
}

/* ---- derive ---- */

static void test_derive_when_of_a_preset_then_it_merges(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load(ctx,
                         "local mine = derive(presets.nvfp4, { base = fp16,\n"
                         "  loss_scale = static(8),\n"
                         "  rules = { rule { 'linear', blocks = last(1), use = bf16 } } })",
                         "precision = derive(mine, { loss_scale = static(16) })");
    assert_int_equal(r->n_rules, 2);
    assert_string_equal(r->rules[0].where.file, "lua/presets.lua");
    assert_string_equal(r->rules[1].where.file, "r.lua");
    assert_int_equal(r->rules[1].where.line, 9);
    assert_int_equal(r->base, MPT_DTYPE_FP16);
    mpt_recipe *want = load(ctx, "", "precision = presets.nvfp4");
    assert_mpt_ok(ctx, mpt_recipe_set(want, "precision.base", "fp16"));
    assert_mpt_ok(ctx, mpt_recipe_set(want, "precision.loss_scale", "16"));
    assert_mpt_ok(ctx, mpt_recipe_add_rule(want, MPT_RULE(.selector = "linear",
                                                          .blocks = "last 1", .use = "bf16")));
    mpt_str a, b;
    canonical(r, &a);
    canonical(want, &b);
    assert_string_equal(a.data, b.data);
    mpt_str_deinit(&a);
    mpt_str_deinit(&b);
    mpt_recipe_destroy(want);
    mpt_lua_finish(ctx, r);
}

/* A method is a value, so it takes the place of the old one; a plain table changes it. */
static void test_derive_when_given_another_method_then_the_old_one_goes(void **state) {
    (void)state;
    static const char base[] = "local base = recipe { model = m 's', name = 'b', " TRAIN ",\n"
                               "  precision = { base = fp16, loss_scale = static(8),\n"
                               "    rules = { rule { 'linear', use = e4m3 } } } }\n";
    char text[4096];
    mpt_ctx *ctx = mpt_test_ctx();
    snprintf(text, sizeof text, MODEL "%sreturn derive(base, { precision = presets.mxfp8 })",
             base);
    mpt_recipe *r = mpt_lua_load(ctx, text);
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->base, MPT_DTYPE_COUNT);
    mpt_recipe_destroy(r);
    snprintf(text, sizeof text,
             MODEL "%slocal next_one = derive(base, { precision = presets.mxfp8 })\n"
                   "return derive(next_one, { precision = { base = fp32 } })",
             base);
    r = mpt_lua_load(ctx, text);
    assert_int_equal(r->n_rules, 1);
    assert_int_equal(r->base, MPT_DTYPE_FP32);
    mpt_lua_finish(ctx, r);
}

/* ---- what is no preset ---- */

static void test_preset_when_unknown_then_the_nearest_is_named(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        "precision = presets.nvpf4",
        "r.lua:5: unknown name 'presets.nvpf4'; did you mean 'presets.nvfp4'?");
    mpt_lua_refuse("presets.mine = 1",
                   "r.lua:1: cannot set 'presets.mine': libraries are read-only; write `local "
                   "mine = ...`");
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load(ctx, "", "precision = { rules = { rule { 'linear', use = e4m3 } } }");
    assert_int_equal(mpt_recipe_set(r, "precision", "nvpf4"), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "precision: no preset 'nvpf4'; did you mean 'nvfp4'?"));
    assert_int_equal(mpt_recipe_set(r, "precision", "posit"), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "precision: no preset 'posit'; for instance 'nvfp4'"));
    assert_int_equal(r->n_rules, 1); /* a refused preset changes nothing */
    mpt_lua_finish(ctx, r);
}

static void test_precision_when_it_is_something_else_then_the_way_is_shown(void **state) {
    (void)state;
    mpt_lua_refuse_fields("precision = bf16",
                          "r.lua:5: precision: cannot be a number format; write precision = "
                          "presets.bf16");
    mpt_lua_refuse_fields(
        "precision = 'nvfp4'",
        "r.lua:5: precision: cannot be a text; write precision = presets.nvfp4");
    mpt_lua_refuse_fields("precision = e4m3",
                          "r.lua:5: precision: cannot be a number format; write precision = { "
                          "rules = { rule { \"linear\", use = e4m3 } } }");
    mpt_lua_refuse_fields("precision = 'best'",
                          "r.lua:5: precision: cannot be a text; give a table, or a preset: "
                          "precision = presets.nvfp4");
    mpt_lua_refuse_fields("precision = rule { 'linear', use = bf16 }",
                          "r.lua:5: precision: cannot be rule; give a table, or a preset: "
                          "precision = presets.nvfp4");
    mpt_lua_refuse_fields("precision = presets",
                          "r.lua:4: recipe: a library stands where a value should; name one of "
                          "its fields");
    mpt_lua_refuse_fields("train = string",
                          "r.lua:4: recipe: a library stands where a value should; name one of "
                          "its fields");
    mpt_lua_refuse_fields(
        "train = presets.nvfp4",
        "r.lua:5: train: cannot be precision; give a table of train, such as { steps = ... }");
    mpt_lua_refuse_fields("precision = precision { bas = bf16 }",
                          "r.lua:5: precision: no field 'bas'; did you mean 'base'?");
}

static void test_format_when_in_quotes_then_the_quotes_are_named(void **state) {
    (void)state;
    mpt_lua_refuse_fields("precision = { rules = { rule { 'linear', use = 'bf16' } } }",
                          "r.lua:5: precision.rules[1].use: cannot be a text; formats are "
                          "values: write bf16 without quotes");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = gemm { weight = 'nvfp4' } } } }",
        "r.lua:5: precision.rules[1].use.weight: cannot be a text; formats are values: write "
        "nvfp4 without quotes");
    mpt_lua_refuse_fields(
        "precision = { rules = { rule { 'linear', use = mxfp8 { format = 'nvfp4' } } } }",
        "r.lua:5: precision.rules[1].use.format: no format 'nvfp4' here; take e4m3, e5m2, "
        "e5m6, e3m2, e2m3, e2m1 or int8");
}

static void test_presets_when_the_tree_has_no_file_then_it_is_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    mpt_recipe *recipe = NULL;
    static const char text[] = "\nlocal p = presets.nvfp4";
    options.tree = "/no/tree";
    assert_int_equal(
        mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), &options, &recipe),
        MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:2: presets: there is no file /no/tree/lua/presets.lua; it is "
                        "installed beside models/ and recipes/");
    mpt_lua_finish(ctx, recipe);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_presets_when_listed_then_lua_and_c_have_the_same),
    cmocka_unit_test(test_preset_when_said_in_three_ways_then_one_recipe),
    cmocka_unit_test(test_preset_when_compiled_then_its_rule_has_a_line),
    cmocka_unit_test(test_preset_when_fp32_then_nothing_is_lower),
    cmocka_unit_test(test_preset_when_fp8_then_gradients_are_wider),
    cmocka_unit_test(test_preset_when_nvfp4_then_as_published),
    cmocka_unit_test(test_tf32_when_it_is_the_base_then_only_products_are_in_it),
    cmocka_unit_test(test_tf32_when_trained_then_near_fp32_and_as_a_rule_says_it),
    cmocka_unit_test(test_tf32_when_nothing_is_multiplied_then_refused),
    cmocka_unit_test(test_derive_when_of_a_preset_then_it_merges),
    cmocka_unit_test(test_derive_when_given_another_method_then_the_old_one_goes),
    cmocka_unit_test(test_preset_when_unknown_then_the_nearest_is_named),
    cmocka_unit_test(test_precision_when_it_is_something_else_then_the_way_is_shown),
    cmocka_unit_test(test_format_when_in_quotes_then_the_quotes_are_named),
    cmocka_unit_test(test_presets_when_the_tree_has_no_file_then_it_is_named),
};
MPT_TEST_MAIN(cases)
