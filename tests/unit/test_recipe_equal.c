/* A recipe filled by a host's calls against the .lua file that says the same: one IR, one text,
 * one hash. Uses no header but the public one and the recipe's own. */
#include "recipe_fixture.h"

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

/* Freezes both, compares text and hash, destroys both. */
static void assert_equal_recipes(mpt_ctx *ctx, mpt_recipe *a, mpt_recipe *b) {
    mpt_str text_a, text_b;
    char hash_a[17], hash_b[17];
    mpt_str_init(&text_a, ctx);
    mpt_str_init(&text_b, ctx);
    assert_mpt_ok(ctx, mpt_recipe_freeze(a));
    assert_mpt_ok(ctx, mpt_recipe_freeze(b));
    mpt_recipe_canonical(a, &text_a);
    mpt_recipe_canonical(b, &text_b);
    assert_string_equal(text_a.data, text_b.data);
    assert_mpt_ok(ctx, mpt_recipe_hash(a, hash_a));
    assert_mpt_ok(ctx, mpt_recipe_hash(b, hash_b));
    assert_string_equal(hash_a, hash_b);
    mpt_str_deinit(&text_a);
    mpt_str_deinit(&text_b);
    mpt_recipe_destroy(a);
    mpt_recipe_destroy(b);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
}

static const mpt_set four_bit[] = {{"weight", "nvfp4 block=16x16"},
                                   {"activation", "nvfp4"},
                                   {"gradient", "nvfp4 rounding=stochastic"},
                                   {"wgrad", "hadamard.size=16 hadamard.signs=fixed"}};

static mpt_recipe *host_recipe(mpt_ctx *ctx, const char *model, const char *size,
                               const mpt_set *sets, size_t n_sets) {
    mpt_recipe *recipe;
    assert_mpt_ok(ctx, mpt_recipe_create(ctx, "host", &recipe));
    assert_mpt_ok(ctx, mpt_recipe_set_model(recipe, model, size, fixture_build, NULL));
    for (size_t i = 0; i < n_sets; i++)
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, sets[i].path, sets[i].value));
    assert_mpt_ok(ctx, mpt_recipe_add_rule(recipe, MPT_RULE(.selector = "linear",
                                                            .words = four_bit, .n_words = 4)));
    return recipe;
}

static void test_recipe_when_said_in_c_then_equal_to_the_small_lua_file(void **state) {
    (void)state;
    static const mpt_set sets[] = {{"train.steps", "300"},      {"train.batch", "16"},
                                   {"train.micro_batch", "16"}, {"train.sequence", "128"},
                                   {"train.lr", "cosine"},      {"train.lr.peak", "2e-3"},
                                   {"train.lr.final", "2e-4"},  {"train.lr.warmup", "30"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "gpt2_nvfp4.lua", NULL, 0);
    mpt_recipe *host = host_recipe(ctx, "gpt2", "base", sets, MPT_COUNT(sets));
    assert_mpt_ok(ctx, mpt_recipe_add_rule(host, MPT_RULE(.selector = "linear",
                                                          .blocks = "last 1", .use = "bf16")));
    assert_equal_recipes(ctx, lua, host);
    mpt_ctx_destroy(ctx);
}

static void test_recipe_when_said_in_c_then_equal_to_the_12b_lua_file(void **state) {
    (void)state;
    static const mpt_set sets[] = {
        {"train.tokens", "10e12"},       {"train.batch", "736"},
        {"train.sequence", "8192"},      {"train.lr", "wsd"},
        {"train.lr.peak", "4.5e-4"},     {"train.lr.final", "4.5e-6"},
        {"train.lr.warmup", "8e9"},      {"train.lr.decay", "0.2"},
        {"train.proxy.steps", "200"},    {"train.proxy.batch", "8"},
        {"train.proxy.sequence", "128"}, {"train.proxy.lr", "wsd"},
        {"train.proxy.lr.peak", "3e-3"}, {"train.proxy.lr.final", "3e-5"},
        {"train.proxy.lr.warmup", "20"}};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = load(ctx, "nvfp4_12b.lua", NULL, 0);
    mpt_recipe *host = host_recipe(ctx, "nemotron_h", "12b", sets, MPT_COUNT(sets));
    host->proxy = (mpt_model_ref){true, "nemotron_h", "12b_proxy", MPT_NOWHERE};
    assert_mpt_ok(ctx, mpt_recipe_add_rule(host, MPT_RULE(.selector = "linear",
                                                          .blocks = "first 2", .use = "bf16")));
    assert_mpt_ok(ctx, mpt_recipe_add_rule(host, MPT_RULE(.selector = "linear",
                                                          .blocks = "last 8", .use = "bf16")));
    assert_mpt_ok(ctx, mpt_recipe_add_phase(host, "four_bit", NULL));
    assert_mpt_ok(ctx, mpt_recipe_add_phase(host, "settle", "0.82"));
    assert_mpt_ok(ctx,
                  mpt_recipe_add_rule(host, MPT_RULE(.phase = "settle", .selector = "linear",
                                                     .gemms = "fprop", .use = "bf16")));
    assert_equal_recipes(ctx, lua, host);
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
    cmocka_unit_test(test_recipe_when_said_in_c_then_equal_to_the_small_lua_file),
    cmocka_unit_test(test_recipe_when_said_in_c_then_equal_to_the_12b_lua_file),
    cmocka_unit_test(test_load_when_sets_are_given_then_they_win_for_both_models),
};
MPT_TEST_MAIN(cases)
