/* A recipe filled by a host's calls against the .lua file that says the same: one IR, one text,
 * one hash, and one schedule. */
#include "recipe_fixture.h"

#include <math.h>

#include "mpt/model.h"
#include "pipeline.h"

static mpt_recipe *load(mpt_ctx *ctx, const char *file, const mpt_set *sets, int n_sets) {
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    mpt_recipe *recipe;
    char path[512];
    options.sets = sets;
    options.n_sets = n_sets;
    options.tree = MPT_SOURCE_DIR;
    snprintf(path, sizeof path, "%s/recipes/%s", MPT_SOURCE_DIR, file);
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, &options, &recipe));
    return recipe;
}

/* Compares text and hashes of the two, compiled for the full model; destroys both. */
static void assert_equal_recipes(mpt_ctx *ctx, mpt_recipe *a, mpt_recipe *b) {
    mpt_str text_a, text_b;
    mpt_program *programs[2] = {NULL, NULL};
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    mpt_str_init(&text_a, ctx);
    mpt_str_init(&text_b, ctx);
    assert_mpt_ok(ctx, mpt_recipe_freeze(a));
    assert_mpt_ok(ctx, mpt_recipe_freeze(b));
    mpt_recipe_canonical(a, &text_a);
    mpt_recipe_canonical(b, &text_b);
    assert_string_equal(text_a.data, text_b.data);
    mpt_str_deinit(&text_a);
    mpt_str_deinit(&text_b);
    assert_mpt_ok(ctx, mpt_compile(a, &options, &programs[0]));
    assert_mpt_ok(ctx, mpt_compile(b, &options, &programs[1]));
    assert_string_equal(programs[0]->recipe_hash, programs[1]->recipe_hash);
    assert_int_equal(programs[0]->n_phases, programs[1]->n_phases);
    for (int p = 0; p < programs[0]->n_phases; p++) {
        assert_string_equal(programs[0]->phases[p]->schedule_hash,
                            programs[1]->phases[p]->schedule_hash);
        assert_int_equal(programs[0]->phase_start[p], programs[1]->phase_start[p]);
    }
    mpt_program_destroy(programs[0]);
    mpt_program_destroy(programs[1]);
    mpt_recipe_destroy(b);
    mpt_recipe_destroy(a);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
}

/* ---- gpt2 "base" by C calls ---- */

enum { LAYERS = 4, WIDTH = 128, HEADS = 4, POSITIONS = 128 };

static mpt_model_value project(mpt_nn *nn, const char *name, mpt_model_value x, int out) {
    bool into_stream = strstr(name, "c_proj") != NULL;
    float std = into_stream ? 0.02f / sqrtf(2 * LAYERS) : 0.02f;
    return mpt_model_linear(
        nn, name, x, MPT_LINEAR(.out = out, .bias = true, .transposed = true, .init_std = std));
}

static mpt_model_value draw_block(mpt_nn *nn, mpt_model_value x) {
    static const int64_t widths[] = {WIDTH, WIDTH, WIDTH};
    mpt_model_value q_k_v[3];
    mpt_model_value h = mpt_model_layernorm(nn, "ln_1", x, 0, true);
    mpt_model_split(nn, project(nn, "attn.c_attn", h, 3 * WIDTH), widths, 3, q_k_v);
    h = mpt_model_attention(nn, "attn", q_k_v, HEADS, 0);
    x = mpt_model_add(nn, x, project(nn, "attn.c_proj", h, WIDTH));
    h = mpt_model_layernorm(nn, "ln_2", x, 0, true);
    h = mpt_model_activation(nn, "gelu", project(nn, "mlp.c_fc", h, 4 * WIDTH));
    return mpt_model_add(nn, x, project(nn, "mlp.c_proj", h, WIDTH));
}

static mpt_status draw_gpt2(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    mpt_model_value tokens =
        mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), mpt_model_vocabulary(nn), WIDTH);
    mpt_model_value x = mpt_model_add(
        nn, tokens, mpt_model_embedding(nn, "wpe", mpt_model_positions(nn), POSITIONS, WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        mpt_model_block(nn, "h", i);
        x = draw_block(nn, x);
        mpt_model_end_block(nn);
    }
    x = mpt_model_layernorm(nn, "ln_f", x, 0, true);
    return mpt_model_cross_entropy(
        nn, mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true, .tied = "wte.weight")));
}

static const mpt_set gpt2_fields[] = {{"train.steps", "1000"},    {"train.batch", "16"},
                                      {"train.sequence", "128"},  {"train.lr", "cosine"},
                                      {"train.lr.peak", "4e-3"},  {"train.lr.final", "4e-4"},
                                      {"train.lr.warmup", "0.1"}, {"train.seed", "1234"}};

static mpt_recipe *host_recipe(mpt_ctx *ctx, const mpt_set *sets, size_t n_sets) {
    mpt_recipe *recipe;
    assert_mpt_ok(ctx, mpt_recipe_create(ctx, "host", &recipe));
    for (size_t i = 0; i < n_sets; i++)
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, sets[i].path, sets[i].value));
    return recipe;
}

static mpt_recipe *host_gpt2(mpt_ctx *ctx) {
    mpt_recipe *recipe = host_recipe(ctx, gpt2_fields, MPT_COUNT(gpt2_fields));
    assert_mpt_ok(ctx, mpt_recipe_set_model(recipe, "gpt2", "base", draw_gpt2, NULL));
    return recipe;
}

#define ADD_RULE(recipe, ...)                                                                  \
    assert_mpt_ok((recipe)->ctx,                                                               \
                  mpt_recipe_add_rule((recipe), MPT_RULE(.selector = "linear", __VA_ARGS__)))

static const mpt_set four_bit[] = {{"weight", "nvfp4 block=16x16"},
                                   {"activation", "nvfp4"},
                                   {"gradient", "nvfp4 rounding=stochastic"},
                                   {"wgrad", "hadamard.size=16 hadamard.signs=fixed"}};

static void test_recipe_when_nvfp4_is_said_in_c_then_equal_to_the_lua_file(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "gpt2_nvfp4.lua", NULL, 0), *host = host_gpt2(ctx);
    ADD_RULE(host, .words = four_bit, .n_words = 4);
    ADD_RULE(host, .blocks = "last 1", .use = "bf16");
    assert_equal_recipes(ctx, lua, host);
    mpt_ctx_destroy(ctx);
}

/* By its parts, and by the preset of that name. */
static void test_recipe_when_fp8_is_said_in_c_then_equal_to_the_lua_file(void **state) {
    (void)state;
    static const char before[] =
        "scale=delayed scale.history=1024 scale.algo=max scale.margin=0";
    char wide[128], narrow[128];
    snprintf(wide, sizeof wide, "e5m2 %s", before);
    snprintf(narrow, sizeof narrow, "e4m3 %s", before);
    const mpt_set words[] = {{"weight", narrow}, {"activation", narrow}, {"gradient", wide}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *host = host_gpt2(ctx);
    ADD_RULE(host, .words = words, .n_words = 3);
    assert_equal_recipes(ctx, load(ctx, "gpt2_fp8_delayed.lua", NULL, 0), host);
    host = host_gpt2(ctx);
    assert_mpt_ok(ctx, mpt_recipe_set(host, "precision", "fp8_delayed"));
    assert_equal_recipes(ctx, load(ctx, "gpt2_fp8_delayed.lua", NULL, 0), host);
    mpt_ctx_destroy(ctx);
}

/* The 12B model is drawn by the function of the Lua recipe, which outlives the other. */
static void test_recipe_when_12b_is_said_in_c_then_equal_to_the_lua_file(void **state) {
    (void)state;
    static const mpt_set sets[] = {
        {"train.tokens", "10e12"},       {"train.batch", "736"},
        {"train.sequence", "8192"},      {"train.lr", "wsd"},
        {"train.lr.peak", "4.5e-4"},     {"train.lr.final", "4.5e-6"},
        {"train.lr.warmup", "8e9"},      {"train.lr.decay", "0.2"},
        {"train.proxy.steps", "200"},    {"train.proxy.batch", "8"},
        {"train.proxy.sequence", "128"}, {"train.proxy.lr", "wsd"},
        {"train.proxy.lr.peak", "3e-3"}, {"train.proxy.lr.final", "3e-5"},
        {"train.proxy.lr.warmup", "20"}, {"train.proxy.lr.decay", "0.2"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "nvfp4_12b.lua", NULL, 0);
    mpt_recipe *host = host_recipe(ctx, sets, MPT_COUNT(sets));
    assert_mpt_ok(ctx, mpt_recipe_set_model(host, "nemotron_h", "12b", lua->source.build,
                                            lua->source.ud));
    assert_mpt_ok(ctx, mpt_recipe_set_proxy(host, "nemotron_h", "12b_proxy"));
    ADD_RULE(host, .words = four_bit, .n_words = 4);
    ADD_RULE(host, .blocks = "first 2", .use = "bf16");
    ADD_RULE(host, .blocks = "last 8", .use = "bf16");
    assert_mpt_ok(ctx, mpt_recipe_add_phase(host, "four_bit", NULL));
    assert_mpt_ok(ctx, mpt_recipe_add_phase(host, "settle", "0.82"));
    ADD_RULE(host, .phase = "settle", .gemms = "fprop", .use = "bf16");
    assert_equal_recipes(ctx, lua, host);
    mpt_ctx_destroy(ctx);
}

/* ---- words that need a call of their own ---- */

typedef struct seen {
    int n;
    char last[64];
} seen;

static bool wide_enough(void *ud, const mpt_layer_view *layer) {
    seen *s = ud;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s", layer->path);
    return strcmp(layer->kind, "linear") == 0 && layer->block >= 0 &&
           layer->out_features >= 3 * layer->in_features;
}

static void test_rule_when_a_host_has_a_function_then_it_is_asked(void **state) {
    (void)state;
    static const char lua_text[] =
        "return derive(require 'recipes.gpt2_base', { precision = { rules = {\n"
        "  rule { 'linear', use = mxfp8, where = function(l)\n"
        "    return l.out_features >= 3 * l.in_features end } } } })";
    seen asked = {0};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = NULL, *host = host_gpt2(ctx);
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    options.tree = MPT_SOURCE_DIR;
    assert_mpt_ok(
        ctx, mpt_recipe_load_string(ctx, "r.lua", lua_text, strlen(lua_text), &options, &lua));
    ADD_RULE(host, .use = "mxfp8", .where = wide_enough, .where_ud = &asked);
    assert_equal_recipes(ctx, lua, host);
    assert_int_equal(asked.n, 4 * LAYERS); /* once a layer */
    assert_string_equal(asked.last, "h.3.mlp.c_proj");
    mpt_ctx_destroy(ctx);
}

static void test_recipe_when_a_host_allows_a_warning_then_it_is_quiet(void **state) {
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *host = host_gpt2(ctx);
        mpt_program *program = NULL;
        mpt_warning_view warning;
        bool found = false;
        assert_mpt_ok(ctx, mpt_recipe_set(host, "precision", "nvfp4"));
        if (allowed)
            assert_mpt_ok(ctx, mpt_recipe_allow(host, "all-fp4"));
        assert_mpt_ok(ctx, mpt_compile(host, NULL, &program));
        for (int i = 0; mpt_program_warning(program, i, &warning); i++) {
            found = found || strcmp(warning.name, "all-fp4") == 0;
            assert_string_equal(warning.file, "presets.nvfp4");
        }
        assert_int_equal(found, !allowed);
        mpt_program_destroy(program);
        mpt_recipe_destroy(host);
        mpt_ctx_destroy(ctx);
    }
}

/* What a file says of its model and its functions cannot be mixed with a host's. */
static void test_recipe_when_from_a_file_then_a_host_keeps_off_its_model(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "gpt2_bf16.lua", NULL, 0);
    assert_int_equal(mpt_recipe_set_model(lua, "m", "s", draw_gpt2, NULL), MPT_INVALID);
    assert_int_equal(mpt_recipe_set_proxy(lua, "m", "s"), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "proxy: the recipe is from a file, which says it; fill one made by "
                           "mpt_recipe_create"));
    assert_int_equal(mpt_recipe_add_rule(lua, MPT_RULE(.selector = "linear", .use = "bf16",
                                                       .where = wide_enough)),
                     MPT_INVALID);
    assert_int_equal(lua->n_rules, 1);
    mpt_recipe_destroy(lua);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_load_when_sets_are_given_then_they_win_for_both_models(void **state) {
    (void)state;
    static const mpt_set sets[] = {{"train.steps", "20"}, {"train.clip", "0.5"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "nvfp4_12b.lua", sets, MPT_COUNT(sets));
    assert_mpt_ok(ctx, mpt_recipe_freeze(lua));
    mpt_train full = mpt_recipe_train(lua, false), proxy = mpt_recipe_train(lua, true);
    assert_int_equal(full.steps, 20);
    assert_int_equal(proxy.steps, 20);
    assert_true(full.tokens == 0 && full.clip == 0.5 && proxy.clip == 0.5);
    /* 20 steps of warmup and a fifth of decay no longer fit: the warmup keeps its tenth. */
    assert_int_equal(mpt_span_steps(&proxy.lr.warmup, &proxy), 2);
    mpt_recipe_destroy(lua);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_recipe_when_nvfp4_is_said_in_c_then_equal_to_the_lua_file),
    cmocka_unit_test(test_recipe_when_fp8_is_said_in_c_then_equal_to_the_lua_file),
    cmocka_unit_test(test_recipe_when_12b_is_said_in_c_then_equal_to_the_lua_file),
    cmocka_unit_test(test_rule_when_a_host_has_a_function_then_it_is_asked),
    cmocka_unit_test(test_recipe_when_a_host_allows_a_warning_then_it_is_quiet),
    cmocka_unit_test(test_recipe_when_from_a_file_then_a_host_keeps_off_its_model),
    cmocka_unit_test(test_load_when_sets_are_given_then_they_win_for_both_models),
};
MPT_TEST_MAIN(cases)
