/* graph/autodiff.c: the structure of the backward graph of three small models and the 12B. */
#include "models.h"

#include <stdlib.h>

static mpt_graph *new_graph(mpt_ctx *ctx, int64_t sequence) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, sequence, 32, &graph));
    return graph;
}

static int count_nodes(const mpt_graph *graph, mpt_op op, mpt_pass pass) {
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op && graph->nodes[i].pass == pass;
    return n;
}

/* How many nodes write a value. */
static int count_writers(const mpt_graph *graph, mpt_value_id id) {
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < graph->nodes[i].n_out; k++)
            n += graph->nodes[i].out[k] == id;
    return n;
}

static const mpt_param *find_param(const mpt_graph *graph, const char *name) {
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return &graph->params[p];
    fail_msg("no parameter '%s'", name);
    return NULL;
}

static mpt_status draw_model(mpt_graph *graph, int model) {
    return model == 0   ? draw_mlp(graph, 2)
           : model == 1 ? draw_gpt2(graph, 2)
                        : draw_nemotron(graph, &small_hybrid);
}

static void
test_autodiff_when_three_models_then_verified_and_each_parameter_has_a_gradient(void **state) {
    (void)state;
    for (int model = 0; model < 3; model++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_graph *graph = new_graph(ctx, 70);
        assert_mpt_ok(ctx, draw_model(graph, model));
        assert_mpt_ok(ctx, mpt_graph_verify(graph, "load"));
        assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
        assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
        for (int p = 0; p < graph->n_params; p++) {
            const mpt_value *grad = &graph->values[graph->params[p].grad];
            const mpt_value *value = &graph->values[graph->params[p].value];
            assert_int_equal(grad->kind, MPT_VALUE_GRAD);
            assert_int_equal(grad->dtype, MPT_DTYPE_FP32);
            assert_int_equal(grad->param, p);
            assert_int_equal(mpt_value_elements(grad), mpt_value_elements(value));
            assert_true(count_writers(graph, graph->params[p].grad) >= 1);
        }
        mpt_graph_destroy(graph);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

static void
test_autodiff_when_head_is_tied_then_both_readers_add_to_one_gradient(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 6);
    assert_mpt_ok(ctx, draw_gpt2(graph, 1));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_int_equal(count_writers(graph, find_param(graph, "wte.weight")->grad), 2);
    assert_int_equal(count_writers(graph, find_param(graph, "wpe.weight")->grad), 1);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* Each block reads the stream twice, so its gradient is one sum a block; q, k and v read one
 * value, so attention adds two more. */
static void
test_autodiff_when_a_value_has_several_readers_then_gradients_are_summed(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 6);
    assert_mpt_ok(ctx, draw_nemotron(graph, &small_hybrid));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_int_equal(count_nodes(graph, MPT_OP_add, MPT_PASS_FORWARD), 4);
    assert_int_equal(count_nodes(graph, MPT_OP_add, MPT_PASS_BACKWARD), 4 + 2);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_autodiff_when_run_twice_then_the_text_is_the_same(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str text[2];
    for (int run = 0; run < 2; run++) {
        mpt_graph *graph = new_graph(ctx, 6);
        mpt_str_init(&text[run], ctx);
        assert_mpt_ok(ctx, draw_nemotron(graph, &small_hybrid));
        assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
        mpt_graph_print(graph, &text[run]);
        mpt_graph_destroy(graph);
    }
    assert_string_equal(text[0].data, text[1].data);
    mpt_str_deinit(&text[0]);
    mpt_str_deinit(&text[1]);
    mpt_ctx_destroy(ctx);
}

/* A float input has no gradient, so the first layer makes its weight's only. */
static void test_autodiff_when_x_is_an_input_then_the_first_dx_is_left_out(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 3);
    test_draw d = draw_begin(graph);
    const int64_t dims[] = {6, 4};
    mpt_value_id x = mpt_graph_value(graph, "x", MPT_VALUE_INPUT, MPT_DTYPE_FP32, 2, dims);
    x = draw1(&d, MPT_OP_relu2, NULL, draw_linear(&d, "fc1", x, 8, true));
    draw1(&d, MPT_OP_cross_entropy, NULL, draw_linear(&d, "fc2", x, 32, true));
    assert_mpt_ok(ctx, d.status);
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    assert_int_equal(count_nodes(graph, MPT_OP_linear_dgrad, MPT_PASS_BACKWARD), 1);
    assert_int_equal(count_nodes(graph, MPT_OP_linear_wgrad, MPT_PASS_BACKWARD), 2);
    assert_int_equal(count_nodes(graph, MPT_OP_bias_grad, MPT_PASS_BACKWARD), 2);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_autodiff_when_the_model_has_no_loss_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 3);
    assert_int_equal(mpt_graph_autodiff(graph), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "the model has no loss; end its graph function with cross_entropy");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_autodiff_when_a_layer_does_not_reach_the_loss_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 3);
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 8);
    draw_linear(&d, "forgotten", x, 8, false);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw_linear(&d, "lm_head", x, 32, false));
    assert_mpt_ok(ctx, d.status);
    assert_int_equal(mpt_graph_autodiff(graph), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:2: forgotten.weight: no path leads from this parameter to "
                        "the loss; use the layer's output, or leave the layer out");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_autodiff_when_a_split_part_is_unused_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx, 3);
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1, part[MPT_MAX_OUT] = {-1, -1};
    int n = 0;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_nn_args cut = {.n_in = 1, .attrs = {.n_sizes = 2, .sizes = {4, 4}}};
    cut.in[0] = draw_embedding(&d, "embed", ids, 0, 8);
    draw_note(&d, mpt_nn_call(&d.nn, MPT_OP_split, &cut, part, &n));
    draw1(&d, MPT_OP_cross_entropy, NULL, draw_linear(&d, "lm_head", part[1], 32, false));
    assert_mpt_ok(ctx, d.status);
    assert_int_equal(mpt_graph_autodiff(graph), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "model.lua:1: split: part 1 of 2 does not reach the loss");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_autodiff_when_12b_then_its_size_is_that_of_the_release(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    int64_t parameters = 0;
    int linear = 0;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 1, 8192, 128, &graph));
    assert_mpt_ok(ctx, draw_nemotron(graph, &hybrid_12b));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    for (int p = 0; p < graph->n_params; p++)
        parameters += mpt_value_elements(&graph->values[graph->params[p].value]);
    for (int i = 0; i < graph->n_layers; i++)
        linear += graph->layers[i].kind == MPT_LAYER_LINEAR;
    assert_true(parameters == 12310001152);
    assert_int_equal(graph->n_blocks, 62);
    assert_int_equal(linear, 2 * 28 + 2 * 28 + 4 * 6);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* ---- the allocator refuses ---- */

typedef struct failing {
    int left; /* calls that still succeed */
} failing;

static void *failing_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    failing *f = ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return f->left-- > 0 ? realloc(ptr, new_size) : NULL;
}

/* One whole path: draw, differentiate, verify. `pad` bytes in front move the places at which
 * the graph's arena asks for its next chunk. */
static mpt_status draw_all(mpt_ctx *ctx, int model, size_t pad) {
    mpt_graph *graph = NULL;
    mpt_status status = mpt_graph_create(ctx, 2, 6, 32, &graph);
    if (status == MPT_OK && !mpt_arena_alloc(&graph->arena, pad))
        status = MPT_OUT_OF_MEMORY;
    if (status == MPT_OK)
        status = draw_model(graph, model);
    if (status == MPT_OK)
        status = mpt_graph_autodiff(graph);
    if (status == MPT_OK)
        status = mpt_graph_verify(graph, "grad");
    mpt_graph_destroy(graph);
    return status;
}

/* The same with an allocator that serves `budget` calls. */
static mpt_status draw_with_budget(int budget, int model, size_t pad) {
    failing f = {budget};
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    mpt_ctx *ctx = NULL;
    options.alloc = failing_alloc;
    options.alloc_ud = &f;
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    mpt_status status = draw_all(ctx, model, pad);
    if (status != MPT_OK) {
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        assert_int_equal(mpt_ctx_error(ctx)->code, MPT_OUT_OF_MEMORY);
    }
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
    return status;
}

static void
test_autodiff_when_any_allocation_fails_then_out_of_memory_and_no_leak(void **state) {
    (void)state;
    for (int model = 0; model < 3; model++) {
        for (size_t pad = 16; pad < 16 * 1024; pad += 7 * 16) {
            int budget = 1; /* the context itself */
            while (draw_with_budget(budget, model, pad) != MPT_OK)
                budget++;
            assert_true(budget > 3); /* it did fail on the way */
        }
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(
        test_autodiff_when_three_models_then_verified_and_each_parameter_has_a_gradient),
    cmocka_unit_test(test_autodiff_when_head_is_tied_then_both_readers_add_to_one_gradient),
    cmocka_unit_test(test_autodiff_when_a_value_has_several_readers_then_gradients_are_summed),
    cmocka_unit_test(test_autodiff_when_run_twice_then_the_text_is_the_same),
    cmocka_unit_test(test_autodiff_when_x_is_an_input_then_the_first_dx_is_left_out),
    cmocka_unit_test(test_autodiff_when_the_model_has_no_loss_then_refused),
    cmocka_unit_test(test_autodiff_when_a_layer_does_not_reach_the_loss_then_named),
    cmocka_unit_test(test_autodiff_when_a_split_part_is_unused_then_named),
    cmocka_unit_test(test_autodiff_when_12b_then_its_size_is_that_of_the_release),
    cmocka_unit_test(test_autodiff_when_any_allocation_fails_then_out_of_memory_and_no_leak),
};

MPT_TEST_MAIN(cases)
