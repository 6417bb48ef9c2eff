/* graph/autodiff.c: the structure of the backward graph of three small models. */
#include "models.h"

static mpt_graph *new_graph(mpt_ctx *ctx, int64_t sequence) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, sequence, 32, &graph));
    return graph;
}

static void
test_autodiff_when_three_models_then_verified_and_every_parameter_written(void **state) {
    (void)state;
    for (int model = 0; model < 3; model++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_graph *graph = new_graph(ctx, 70);
        assert_mpt_ok(ctx, model == 0   ? draw_mlp(graph, 2)
                           : model == 1 ? draw_gpt2(graph, 2)
                                        : draw_nemotron(graph, &small_hybrid));
        assert_mpt_ok(ctx, mpt_graph_verify(graph, "load"));
        assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
        assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
        for (int p = 0; p < graph->n_params; p++) {
            const mpt_value *grad = &graph->values[graph->params[p].grad];
            const mpt_value *value = &graph->values[graph->params[p].value];
            assert_int_equal(grad->kind, MPT_VALUE_GRAD);
            assert_int_equal(grad->param, p);
            assert_int_equal(mpt_value_elements(grad), mpt_value_elements(value));
        }
        mpt_graph_destroy(graph);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_autodiff_when_three_models_then_verified_and_every_parameter_written),
};

MPT_TEST_MAIN(cases)
