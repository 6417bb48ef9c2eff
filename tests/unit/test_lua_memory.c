/* lua/bind: every allocation of loading a recipe and of drawing its model fails once; nothing
 * is lost, and nothing but "out of memory" is said. */
#include "lua_test.h"

#include "allowance.h"
#include "graph/nn.h"
#include "lua/bind/expression.h"

static void test_load_when_allocations_fail_then_nothing_leaks(void **state) {
    (void)state;
    static const char text[] = MPT_LUA_MODEL
        "local q = nvfp4 { block = {16, 16} }\n"
        "local base = recipe { model = m 's', proxy = m { w = 2 }, data = synthetic {},\n"
        "  precision = { rules = { rule { 'linear', use = gemm { weight = q,\n"
        "    wgrad = { hadamard = hadamard { size = 16 } } }, blocks = only {1, 2} } },\n"
        "    loss_scale = dynamic { init = 8 } }, phases = { phase { 'a' }, phase { 'b',\n"
        "    from = 0.5, use = gemm { weight = q }, warm_histories = true,\n"
        "    rules = { rule { 'linear', use = bf16, where = function() return true end } } } "
        "},\n"
        "  train = { steps = 3, lr = wsd { peak = 1 }, optimizer = adamw {},\n"
        "    eval = { use = bf16 } } }\n"
        "local ok = pcall(function() return ('x'):rep(100) .. 'y' end)\n"
        "return derive(base, { name = 'swept', allow = { 'no-clip' } })";
    long n = 0;
    for (;; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        mpt_recipe *recipe = NULL;
        a.left = n;
        mpt_status status =
            mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe);
        if (status == MPT_OK)
            assert_string_equal(mpt_recipe_name(recipe), "swept");
        else
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
        mpt_recipe_destroy(recipe);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (status == MPT_OK)
            break;
    }
    assert_true(n > 200);
}

/* Drawing a model, and asking a predicate, must fail as cleanly as loading. */
static mpt_status draw_and_ask(mpt_ctx *ctx, mpt_recipe *recipe) {
    mpt_graph *graph = NULL;
    mpt_layer layer = {.path = "layers.0.up_proj", .block = 0};
    bool yes = false;
    MPT_TRY(mpt_graph_create(ctx, 1, 4, 8, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    mpt_status status = recipe->source.build(recipe->source.ud, &nn, false);
    if (status == MPT_OK)
        status = recipe->source.where(recipe->source.ud, 0, &layer, &yes);
    if (status == MPT_OK)
        assert_true(yes);
    mpt_graph_destroy(graph);
    return status;
}

static void test_model_when_allocations_fail_then_it_can_be_drawn_again(void **state) {
    (void)state;
    static const char text[] =
        "return recipe { model = require 'models.mlp' 'tiny', precision = { rules = {\n"
        "  rule { 'linear', use = bf16, where = function(l) return l.block == 0 end } } } }";
    allowance a;
    mpt_ctx *ctx = allowance_context(&a, -1);
    mpt_recipe *recipe;
    assert_mpt_ok(ctx,
                  mpt_recipe_load_string(ctx, "r.lua", text, sizeof text - 1, NULL, &recipe));
    long n = 0;
    for (;; n++) {
        a.left = n;
        mpt_status status = draw_and_ask(ctx, recipe);
        a.left = -1;
        if (status == MPT_OK)
            break;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
    }
    assert_true(n > 3);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
    assert_int_equal(a.live, 0);
}

static void test_expression_when_allocations_fail_then_nothing_leaks(void **state) {
    (void)state;
    allowance a;
    mpt_ctx *ctx = allowance_context(&a, -1);
    long n = 0;
    for (;; n++) {
        mpt_quantizer q;
        a.left = n;
        mpt_status status = mpt_quantizer_from_text(ctx, "nvfp4 { block = {16, 16} }", &q);
        a.left = -1;
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        if (status == MPT_OK)
            break;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
    }
    assert_true(n > 3);
    mpt_ctx_destroy(ctx);
    assert_int_equal(a.live, 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_load_when_allocations_fail_then_nothing_leaks),
    cmocka_unit_test(test_model_when_allocations_fail_then_it_can_be_drawn_again),
    cmocka_unit_test(test_expression_when_allocations_fail_then_nothing_leaks),
};
MPT_TEST_MAIN(cases)
