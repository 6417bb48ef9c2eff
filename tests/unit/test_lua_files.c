/* lua/bind: shipped recipes, --set, and what `require` reaches. */
#include "lua_test.h"

#include <stdlib.h>

#include "graph/nn.h"

/* ---- files ---- */

static void test_recipes_when_shipped_then_each_loads_and_freezes(void **state) {
    (void)state;
    static const char *const names[] = {"nvfp4_12b", "gpt2_base", "gpt2_fp32", "gpt2_bf16",
                                        "gpt2_fp16", "gpt2_fp8",  "gpt2_nvfp4"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = NULL;
        char path[512];
        snprintf(path, sizeof path, "%s/recipes/%s.lua", MPT_SOURCE_DIR, names[i]);
        assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, NULL, &recipe));
        assert_string_equal(recipe->name, names[i]);
        assert_mpt_ok(ctx, mpt_recipe_freeze(recipe));
        mpt_lua_finish(ctx, recipe);
    }
}

/* The figures of the NVFP4 paper: first 2 and last 8 of 62 blocks stay in BF16. */
static void test_nvfp4_12b_when_resolved_then_104_of_124_layers_are_nvfp4(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_graph *graph = NULL;
    int n_nvfp4 = 0, n_linear = 0;
    assert_mpt_ok(
        ctx, mpt_recipe_load_file(ctx, MPT_SOURCE_DIR "/recipes/nvfp4_12b.lua", NULL, &recipe));
    assert_mpt_ok(ctx, mpt_recipe_freeze(recipe));
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 8192, 128, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_mpt_ok(ctx, recipe->source.build(recipe->source.ud, &nn, false));
    mpt_policy *policies = calloc((size_t)graph->n_layers, sizeof *policies);
    assert_non_null(policies);
    assert_int_equal(recipe->n_phases, 2);
    assert_mpt_ok(ctx, mpt_recipe_resolve(recipe, 0, graph->layers, graph->n_layers,
                                          graph->n_blocks, policies));
    for (int i = 0; i < graph->n_layers; i++) {
        const mpt_quantizer *slot = policies[i].slot;
        if (graph->layers[i].kind != MPT_LAYER_LINEAR)
            continue;
        n_linear++;
        if (slot[MPT_SLOT_FPROP_X].format != MPT_DTYPE_E2M1)
            continue;
        n_nvfp4++;
        assert_int_equal(slot[MPT_SLOT_DGRAD_W].block_rows, 16);
        assert_int_equal(slot[MPT_SLOT_WGRAD_X].hadamard.size, 16);
        assert_int_equal(slot[MPT_SLOT_WGRAD_DY].hadamard.size, 16);
        assert_int_equal(slot[MPT_SLOT_DGRAD_DY].rounding, MPT_ROUNDING_STOCHASTIC);
        assert_int_equal(slot[MPT_SLOT_DGRAD_DY].hadamard.size, 0);
    }
    assert_int_equal(n_linear, 124);
    assert_int_equal(n_nvfp4, 104);
    free(policies);
    mpt_graph_destroy(graph);
    mpt_lua_finish(ctx, recipe);
}

static void test_sets_when_given_then_they_come_last(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    mpt_set sets[] = {{"train.steps", "9"}, {"seed", "77"}};
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    options.sets = sets;
    options.n_sets = 2;
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, MPT_SOURCE_DIR "/recipes/nvfp4_12b.lua",
                                            &options, &recipe));
    assert_int_equal(mpt_recipe_train(recipe, true).steps, 9);
    assert_int_equal(mpt_recipe_train(recipe, false).steps, 9);
    assert_int_equal(recipe->train.seed, 77);
    mpt_recipe_destroy(recipe);
    sets[0].path = "train.stepz";
    assert_int_equal(
        mpt_recipe_load_file(ctx, MPT_SOURCE_DIR "/recipes/nvfp4_12b.lua", &options, &recipe),
        MPT_INVALID);
    assert_null(recipe);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "did you mean 'steps'?"));
    mpt_lua_finish(ctx, NULL);
}

static void test_file_when_absent_then_the_path_is_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    assert_int_not_equal(mpt_recipe_load_file(ctx, "no/such.lua", NULL, &recipe), MPT_OK);
    assert_null(recipe);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "no/such.lua"));
    mpt_lua_finish(ctx, NULL);
}

/* Loads tests/lua/NAME.lua, which must be refused with a text that ends so. */
static void refuse_file(const char *name, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    char path[512];
    snprintf(path, sizeof path, "%s/lua/%s.lua", MPT_TESTS_DIR, name);
    assert_int_equal(mpt_recipe_load_file(ctx, path, NULL, &recipe), MPT_INVALID);
    const char *text = mpt_ctx_error(ctx)->message;
    assert_true(strlen(text) >= strlen(message));
    assert_string_equal(text + strlen(text) - strlen(message), message);
    mpt_lua_finish(ctx, NULL);
}

static void test_require_when_the_module_is_beside_the_recipe_then_it_is_found(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    assert_mpt_ok(ctx,
                  mpt_recipe_load_file(ctx, MPT_TESTS_DIR "/lua/beside.lua", NULL, &recipe));
    assert_int_equal(recipe->train.steps, 11);
    assert_int_equal(recipe->train.batch, 22);
    mpt_lua_finish(ctx, recipe);
}

static void test_require_when_modules_fail_then_the_right_file_is_named(void **state) {
    (void)state;
    refuse_file("circle", "/lua/circle_two.lua:2: require: modules go round in a circle at "
                          "'circle_one'; move what both need to a third file");
    refuse_file("requires_nothing",
                "/lua/requires_nothing.lua:2: require: nothing is returned by "
                "'empty'; end the file with return");
    refuse_file(
        "requires_broken",
        "/lua/sub/broken.lua:3: precision.rules[1].use: no field 'roundng'; did you mean "
        "'rounding'?");
}

static void test_require_when_the_tree_is_elsewhere_then_models_come_from_there(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    static const char text[] = "return recipe { model = require 'models.gpt2' 'tiny' }";
    options.tree = "/no/such/tree";
    assert_int_equal(
        mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, &options, &recipe),
        MPT_INVALID);
    options.tree = MPT_SOURCE_DIR;
    assert_mpt_ok(
        ctx, mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, &options, &recipe));
    mpt_lua_finish(ctx, recipe);
}

static void test_model_file_when_wrong_then_its_own_line_is_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    static const char text[] = "return recipe { model = require 'models.gpt2' 'smal' }";
    assert_int_equal(mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:1: gpt2: no size 'smal'; it has 124m, 1558m, 355m, 774m, base, "
                        "tiny, or a table of its own");
    mpt_lua_finish(ctx, NULL);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_recipes_when_shipped_then_each_loads_and_freezes),
    cmocka_unit_test(test_nvfp4_12b_when_resolved_then_104_of_124_layers_are_nvfp4),
    cmocka_unit_test(test_sets_when_given_then_they_come_last),
    cmocka_unit_test(test_file_when_absent_then_the_path_is_named),
    cmocka_unit_test(test_require_when_the_module_is_beside_the_recipe_then_it_is_found),
    cmocka_unit_test(test_require_when_modules_fail_then_the_right_file_is_named),
    cmocka_unit_test(test_require_when_the_tree_is_elsewhere_then_models_come_from_there),
    cmocka_unit_test(test_model_file_when_wrong_then_its_own_line_is_named),
};
MPT_TEST_MAIN(cases)
