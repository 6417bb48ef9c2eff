/* Faults of recipes that other tools let pass in the field, by the id of their case, each with
 * the rest of its kind: selectors that match nothing, counts of blocks, signs of a rotation,
 * knobs without an effect, keys that nobody reads. */
#include "lua_test.h"

#include <math.h>

#include "kernels/numerics.h"
#include "pipeline.h"
#include "writers.h"

/* A model of any depth whose head is called lm_head. */
#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { n = 2 } }, graph = function(nn, size)\n"    \
    "  local x = nn.embedding { 'wte', nn.tokens(), out = 16 }\n"                              \
    "  for i = 0, size.n - 1 do nn.block(i, function()\n"                                      \
    "    local h = nn.linear { 'mlp.up_proj', nn.rmsnorm { 'norm', x }, out = 32 }\n"          \
    "    x = nn.add(x, nn.linear { 'mlp.down_proj', nn.relu2(h), out = 16 }) end) end\n"       \
    "  nn.cross_entropy(nn.linear { 'lm_head', x, out = nn.vocab(), head = true }) end }\n"

enum { FIELDS_LINE = 8 };

typedef struct made {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} made;

static mpt_status compile(made *r, int blocks, const char *fields) {
    char text[4096];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    *r = (made){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text,
             MODEL "return recipe { name = 'r', model = m { n = %d },\n%s,\n"
                   "  data = synthetic { vocab = 32 },\n"
                   "  train = { steps = 10, batch = 1, sequence = 32,\n"
                   "            lr = constant { peak = 1e-3, warmup = 1 } } }",
             blocks, fields);
    r->recipe = mpt_lua_load(r->ctx, text);
    return mpt_compile(r->recipe, &options, &r->program);
}

static void compiled(made *r, int blocks, const char *fields) {
    mpt_status status = compile(r, blocks, fields);
    assert_mpt_ok(r->ctx, status);
}

static void finish(made *r) {
    mpt_program_destroy(r->program);
    mpt_lua_finish(r->ctx, r->recipe);
}

static void refused(int blocks, const char *fields, const char *message) {
    made r;
    assert_int_equal(compile(&r, blocks, fields), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(r.ctx)->message, message);
    finish(&r);
}

/* The program has the warning of a name, with this text and line. */
static void warned(const made *r, const char *name, const char *text, int line) {
    mpt_warning_view w;
    for (int i = 0; mpt_program_warning(r->program, i, &w); i++) {
        if (strcmp(w.name, name) != 0)
            continue;
        assert_string_equal(w.text, text);
        assert_int_equal(w.line, line);
        return;
    }
    fail_msg("no warning %s", name);
}

#define RULES(list) "precision = { rules = { " list " } }"

/* ---- P54: a name that matches nothing ---- */

static void test_rule_when_p54_it_matches_nothing_then_refused(void **state) {
    (void)state;
    static const struct {
        const char *fields, *message;
    } rows[] = {
        {RULES("rule { 'linear', use = nvfp4 }, rule { 'output', use = bf16 }"),
         "r.lua:8: precision.rules[2]: no layer matches 'output'; did you mean 'lm_head'?"},
        {RULES("rule { '*.output_layer', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches '*.output_layer'; did you mean "
         "'lm_head'?"},
        {RULES("rule { 'lm_haed', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches 'lm_haed'; did you mean 'lm_head'?"},
        {RULES("rule { '*.up_porj', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches '*.up_porj'; did you mean "
         "'*.up_proj'?"},
        {RULES("rule { 'layers.7.mlp.up_proj', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches 'layers.7.mlp.up_proj'; did you mean "
         "'layers.*.mlp.up_proj'?"},
        {RULES("rule { {'*.up_proj', 'wpe'}, use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches 'wpe'; did you mean 'wte'?"},
        {RULES("rule { 'lineer', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches 'lineer'; did you mean 'linear'?"},
        {RULES("rule { 'attention', use = fp32 }"),
         "r.lua:8: precision.rules[1]: the model has no 'attention' layer; it has linear, "
         "norm, embedding, head"},
        {"phases = { phase { 'a', rules = { rule { 'outputs', use = bf16 } } } }",
         "r.lua:8: phases[1].rules[1]: no layer matches 'outputs'; did you mean 'lm_head'?"},
        {RULES("rule { 'zzzzzzzz', use = bf16 }"),
         "r.lua:8: precision.rules[1]: no layer matches 'zzzzzzzz'; select a kind such as "
         "'linear', or a path such as 'wte'"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        refused(2, rows[i].fields, rows[i].message);
}

/* ---- P58: counts against the model ---- */

#define CARVED                                                                                 \
    RULES("rule { 'linear', use = nvfp4 },\n"                                                  \
          "rule { 'linear', blocks = first(2), use = bf16 },\n"                                \
          "rule { 'linear', blocks = last(8), use = bf16 }")

static void test_blocks_when_p58_they_do_not_fit_then_refused(void **state) {
    (void)state;
    refused(6, CARVED,
            "r.lua:10: precision.rules[3].blocks: 'last 8' exceeds the model, which has 6 "
            "blocks; blocks are counted from 0 to 5");
    refused(8, CARVED,
            "r.lua:10: precision.rules[2].blocks and precision.rules[3].blocks: the first 2 "
            "and the last 8 of 8 blocks overlap; make them smaller, or leave blocks out to "
            "speak of all");
}

static void test_blocks_when_p58_they_leave_none_then_a_warning_says_0(void **state) {
    (void)state;
    made r;
    compiled(&r, 10, CARVED);
    warned(&r, "nothing-quantized",
           "0 of 10 blocks are quantized: no linear layer keeps a narrow format", FIELDS_LINE);
    warned(&r, "rule-shadowed",
           "precision.rules[1] decides nothing: later rules overrule it on every layer, or its "
           "function refused them all",
           FIELDS_LINE);
    finish(&r);
}

static void test_blocks_when_p58_they_fit_then_the_rest_is_quantized(void **state) {
    (void)state;
    made r;
    mpt_warning_view w;
    compiled(&r, 40, CARVED);
    int quantized = 0;
    const mpt_phase_program *phase = r.program->phases[0];
    for (int i = 0; i < phase->graph->n_layers; i++) {
        const mpt_layer *layer = &phase->graph->layers[i];
        bool narrow = layer->kind == MPT_LAYER_LINEAR &&
                      phase->policies[i].slot[0].format == MPT_DTYPE_E2M1;
        assert_true(!narrow || (layer->block >= 2 && layer->block < 32));
        quantized += narrow;
    }
    assert_int_equal(quantized, 2 * 30); /* two layers a block */
    mpt_str json;
    mpt_str_init(&json, r.ctx);
    assert_mpt_ok(r.ctx, mpt_program_print(r.program, MPT_PRINT_JSON, NULL, keep, &json));
    assert_non_null(strstr(json.data, "\"nvfp4\": 60"));
    assert_non_null(strstr(json.data, "\"bf16\": 20"));
    for (int i = 0; mpt_program_warning(r.program, i, &w); i++)
        assert_true(strcmp(w.name, "nothing-quantized") != 0);
    mpt_str_deinit(&json);
    finish(&r);
}

/* A count of 0 keeps nothing, so it cannot be said. */
static void test_blocks_when_p58_the_count_is_none_then_refused(void **state) {
    (void)state;
    static const char *const zero[] = {"first(0)",           "last(0)", "every(0)",
                                       "last_fraction(0.0)", "only {}", "last(-1)"};
    for (size_t i = 0; i < MPT_COUNT(zero); i++) {
        char fields[1024];
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        snprintf(fields, sizeof fields,
                 MPT_LUA_MODEL "return recipe { model = m 's', precision = { rules = {\n"
                               "rule { 'linear', blocks = %s, use = bf16 } } } }",
                 zero[i]);
        assert_int_equal(
            mpt_recipe_load_string(ctx, "r.lua", fields, strlen(fields), NULL, &recipe),
            MPT_INVALID);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, "precision.rules[1].blocks: "));
        mpt_lua_finish(ctx, recipe);
    }
}

/* ---- P63: the signs of a rotation ---- */

#define ROTATED(fields)                                                                        \
    RULES("rule { 'linear', use = gemm { activation = nvfp4, gradient = nvfp4, weight = "      \
          "nvfp4,\n  wgrad = { hadamard = hadamard { size = 16, " fields " } } } }")

/* The plan, and the loss of the third step, by when the signs have moved the weights. */
static double rotated(const char *fields, mpt_str *plan, mpt_ctx **ctx) {
    made r;
    mpt_trainer *trainer = NULL;
    mpt_step_result result = {0};
    compiled(&r, 2, fields);
    *ctx = mpt_test_ctx();
    mpt_str_init(plan, *ctx);
    assert_mpt_ok(r.ctx, mpt_program_print(r.program, MPT_PRINT_SCHEDULE, NULL, keep, plan));
    assert_mpt_ok(r.ctx, mpt_trainer_create(r.program, NULL, &trainer));
    for (int i = 0; i < 3; i++)
        assert_mpt_ok(r.ctx, mpt_trainer_step(trainer, NULL, &result));
    mpt_trainer_destroy(trainer);
    finish(&r);
    return result.loss;
}

static void test_signs_when_p63_the_seed_differs_then_so_do_the_bits(void **state) {
    (void)state;
    static const char *const fields[] = {
        ROTATED("signs = 'random', seed = 7"), ROTATED("signs = 'random', seed = 7"),
        ROTATED("signs = 'random', seed = 8"), ROTATED("signs = 'fixed'")};
    mpt_str plan[MPT_COUNT(fields)];
    mpt_ctx *ctx[MPT_COUNT(fields)];
    double loss[MPT_COUNT(fields)];
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        loss[i] = rotated(fields[i], &plan[i], &ctx[i]);
    char printed[32];
    uint32_t signs[4];
    mpt_random_signs(8, 0, 0, signs);
    snprintf(printed, sizeof printed, "0x%04x", signs[0] & 0xFFFFu);
    assert_non_null(strstr(plan[2].data, printed));
    assert_null(strstr(plan[0].data, printed));
    assert_string_equal(plan[0].data, plan[1].data);
    assert_true(loss[0] == loss[1]);
    assert_true(loss[0] != loss[2] && fabs(loss[0] - loss[2]) < 0.05);
    assert_true(loss[3] != loss[2] && fabs(loss[3] - loss[2]) < 0.05);
    for (size_t i = 0; i < MPT_COUNT(fields); i++) {
        mpt_str_deinit(&plan[i]);
        mpt_ctx_destroy(ctx[i]);
    }
}

/* H H^T = I to one unit in the last place of 1, whatever the signs. */
static void test_rotation_when_p63_signs_are_drawn_then_orthonormal(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint32_t signs[4];
        float h[16][16];
        mpt_random_signs(seed, 0, 0, signs);
        for (int i = 0; i < 16; i++) {
            memset(h[i], 0, sizeof h[i]);
            h[i][i] = 1;
            mpt_hadamard_rotate(h[i], 16, signs);
        }
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 16; j++) {
                double dot = 0;
                for (int k = 0; k < 16; k++)
                    dot += (double)h[i][k] * (double)h[j][k];
                assert_true(fabs(dot - (i == j)) <= 0x1p-23);
            }
    }
}

/* ---- P88: knobs carried along ---- */

static void test_loss_scale_when_p88_nothing_is_fp16_then_it_is_named(void **state) {
    (void)state;
    static const char *const fields[] = {
        "precision = { base = bf16, loss_scale = static(1024) }",
        "precision = derive(presets.fp16, { base = bf16, loss_scale = static(1024) })",
        "precision = derive(presets.nvfp4, { loss_scale = static(1024) })",
        "precision = derive(presets.tf32, { loss_scale = static(1024) })"};
    for (size_t i = 0; i < MPT_COUNT(fields); i++) {
        made r;
        compiled(&r, 2, fields[i]);
        bool found = false;
        mpt_warning_view w;
        for (int k = 0; mpt_program_warning(r.program, k, &w); k++)
            if (strcmp(w.name, "loss-scale-unused") == 0) {
                found = true;
                assert_string_equal(w.file, "r.lua");
                assert_in_range(w.line, FIELDS_LINE - 1, FIELDS_LINE);
                assert_non_null(strstr(w.text, "1024, but nothing is in fp16"));
            }
        assert_true(found);
        finish(&r);
    }
}

/* ---- P89: keys that nobody reads ---- */

static void test_key_when_p89_unknown_then_refused(void **state) {
    (void)state;
    mpt_lua_refuse_fields(
        RULES("rule { 'linear', use = nvfp4 { roundng = 'sr' } }"),
        "r.lua:5: precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    mpt_lua_refuse_fields(
        RULES("rule { 'linear', use = nvfp4 { rounding = 'sr' } }"),
        "r.lua:5: precision.rules[1].use.rounding: no value 'sr'; it can be nearest, "
        "stochastic, toward_zero or half_away");
    mpt_lua_refuse_fields(
        RULES("rule { 'linear', use = e4m3 { scale = delayed { interval = 4 } } }"),
        "r.lua:5: precision.rules[1].use.scale: no field 'interval'; delayed has history, "
        "algo, margin, headroom or reduce_amax");
    static const char *const others[] = {
        "%s",
        "train = { %s }",
        "precision = { %s }",
        "precision = { state = { %s } }",
        RULES("rule { 'linear', use = bf16, %s }"),
        RULES("rule { 'linear', use = gemm { %s } }"),
        RULES("rule { 'linear', use = gemm { wgrad = { %s } } }"),
        "phases = { phase { 'a', %s } }",
        "train = { lr = wsd { %s } }",
        "train = { optimizer = adamw { %s } }",
        "train = { eval = { %s } }",
        "data = synthetic { %s }"};
    for (size_t i = 0; i < MPT_COUNT(others); i++) {
        char text[1024], fields[256];
        const char *at = strstr(others[i], "%s");
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        snprintf(fields, sizeof fields, "%.*sfp8_interval = 4%s", (int)(at - others[i]),
                 others[i], at + 2);
        snprintf(text, sizeof text, MPT_LUA_MODEL "return recipe { model = m 's',\n%s }",
                 fields);
        assert_int_equal(
            mpt_recipe_load_string(ctx, "r.lua", text, strlen(text), NULL, &recipe),
            MPT_INVALID);
        if (!strstr(mpt_ctx_error(ctx)->message, "no field 'fp8_interval'; ") ||
            mpt_ctx_error(ctx)->line != 5)
            fail_msg("%s: %s", fields, mpt_ctx_error(ctx)->message);
        mpt_lua_finish(ctx, recipe);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rule_when_p54_it_matches_nothing_then_refused),
    cmocka_unit_test(test_blocks_when_p58_they_do_not_fit_then_refused),
    cmocka_unit_test(test_blocks_when_p58_they_leave_none_then_a_warning_says_0),
    cmocka_unit_test(test_blocks_when_p58_they_fit_then_the_rest_is_quantized),
    cmocka_unit_test(test_blocks_when_p58_the_count_is_none_then_refused),
    cmocka_unit_test(test_signs_when_p63_the_seed_differs_then_so_do_the_bits),
    cmocka_unit_test(test_rotation_when_p63_signs_are_drawn_then_orthonormal),
    cmocka_unit_test(test_loss_scale_when_p88_nothing_is_fp16_then_it_is_named),
    cmocka_unit_test(test_key_when_p89_unknown_then_refused),
};
MPT_TEST_MAIN(cases)
