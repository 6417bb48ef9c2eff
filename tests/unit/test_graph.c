/* graph/graph.c, verify.c and print.c: values, nodes, invariants and their text. */
#include "models.h"

#include "graph/op.h"

static mpt_graph *new_graph(mpt_ctx *ctx) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 3, 32, &graph));
    return graph;
}

static mpt_value_id matrix(mpt_graph *graph, const char *name, int64_t rows, int64_t cols) {
    const int64_t dims[] = {rows, cols};
    return mpt_graph_value(graph, name, MPT_VALUE_ACTIVATION, MPT_DTYPE_FP32, 2, dims);
}

/* ---- graph.c ---- */

static void test_create_when_a_size_is_not_positive_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    assert_int_equal(mpt_graph_create(ctx, 0, 8, 4, &graph), MPT_INVALID);
    assert_null(graph);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "batch 0, sequence 8 and vocabulary 4 must all be at least 1");
    const int64_t many = 1 << 24;
    assert_int_equal(mpt_graph_create(ctx, many, many, 4, &graph), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "batch 16777216 times sequence 16777216 is more tokens than"));
    assert_int_equal(mpt_graph_create(ctx, INT64_MAX, 8, 4, &graph), MPT_INVALID);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_value_when_shape_is_unsound_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40};
    const int64_t empty[] = {4, 0};
    mpt_value_kind kind = MPT_VALUE_ACTIVATION;
    assert_int_equal(mpt_graph_value(graph, "v", kind, MPT_DTYPE_FP32, 0, huge), -1);
    assert_int_equal(mpt_graph_value(graph, "v", kind, MPT_DTYPE_FP32, 2, empty), -1);
    assert_int_equal(mpt_graph_value(graph, "v", kind, MPT_DTYPE_FP32, 2, huge), -1);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "v: a value needs 1 to 4 dimensions, each at least 1, and at most 2^46 "
                        "elements");
    assert_int_equal(graph->n_values, 0);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_append_when_an_input_is_unknown_then_refused(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_node node = mpt_node_make(MPT_OP_gelu, MPT_PASS_FORWARD, -1);
    node.in[0] = 3;
    assert_int_equal(mpt_graph_append(graph, &node, NULL), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, "gelu: input 1 is no value of this graph");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_append_when_only_inputs_lie_behind_then_no_gradient_is_needed(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    const int64_t dims[] = {6, 4};
    mpt_value_id x = mpt_graph_value(graph, "x", MPT_VALUE_INPUT, MPT_DTYPE_FP32, 2, dims);
    mpt_value_id leaf = matrix(graph, "leaf", 6, 4);
    int first = -1, second = -1;
    mpt_node node = mpt_node_make(MPT_OP_gelu, MPT_PASS_FORWARD, -1);
    node.in[0] = x;
    assert_mpt_ok(ctx, mpt_graph_append(graph, &node, &first));
    assert_false(graph->values[graph->nodes[first].out[0]].needs_grad);
    node = mpt_node_make(MPT_OP_add, MPT_PASS_FORWARD, -1);
    node.in[0] = graph->nodes[first].out[0];
    node.in[1] = leaf;
    assert_mpt_ok(ctx, mpt_graph_append(graph, &node, &second));
    assert_true(graph->values[graph->nodes[second].out[0]].needs_grad);
    assert_int_equal(graph->values[graph->nodes[second].out[0]].producer, second);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* ---- verify.c ---- */

/* A model of one block after autodiff, for a test to damage. */
static mpt_graph *whole_graph(mpt_ctx *ctx) {
    mpt_graph *graph = new_graph(ctx);
    assert_mpt_ok(ctx, draw_mlp(graph, 1));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    return graph;
}

static int find_node(const mpt_graph *graph, mpt_op op) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op)
            return i;
    fail_msg("no node of this op");
    return -1;
}

static void expect_fault(mpt_ctx *ctx, mpt_graph *graph, const char *text) {
    assert_int_equal(mpt_graph_verify(graph, "grad"), MPT_INTERNAL);
    assert_string_equal(mpt_ctx_error(ctx)->message, text);
    mpt_graph_destroy(graph);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_verify_when_nodes_are_out_of_order_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    mpt_node first = graph->nodes[0];
    graph->nodes[0] = graph->nodes[1];
    graph->nodes[1] = first;
    graph->values[first.out[0]].producer = 1;
    expect_fault(ctx, graph,
                 "after grad: node 0 (rmsnorm): reads embed before node 1 makes it");
}

static void test_verify_when_a_shape_is_changed_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    int node = find_node(graph, MPT_OP_relu2);
    graph->values[graph->nodes[node].out[0]].dims[1] = 17;
    expect_fault(ctx, graph,
                 "after grad: node 3 (relu2): relu2: output 1 (layers.0.relu2) is [6, 17], "
                 "expected [6, 16]");
}

static void test_verify_when_an_output_is_taken_away_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    graph->nodes[find_node(graph, MPT_OP_relu2)].out[0] = -1;
    expect_fault(ctx, graph, "after grad: node 3 (relu2): relu2: output 1 is missing");
}

static void test_verify_when_a_value_has_two_makers_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    graph->nodes[5].out[0] = graph->nodes[0].out[0]; /* add writes embed's output */
    expect_fault(ctx, graph, "after grad: node 5 (add): writes embed, which node 0 makes");
}

static void test_verify_when_a_node_is_read_by_nothing_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    mpt_node node = mpt_node_make(MPT_OP_gelu, MPT_PASS_BACKWARD, -1);
    node.in[0] = graph->nodes[0].out[0];
    assert_mpt_ok(ctx, mpt_graph_append(graph, &node, NULL));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad")); /* prune.c would take it away */
    graph->pruned = true;
    expect_fault(ctx, graph, "after grad: node 19 (gelu): nothing reads what it makes");
}

static void test_verify_when_a_pass_reads_what_a_later_one_makes_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    int grad = find_node(graph, MPT_OP_relu2_grad);
    graph->nodes[grad].pass = MPT_PASS_UPDATE;
    expect_fault(ctx, graph,
                 "after grad: node 14 (linear_dgrad): reads d.layers.0.up_proj before node 13 "
                 "makes it");
}

static void test_verify_when_a_parameter_is_unread_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    graph->params[0].value = graph->params[0].grad;
    expect_fault(ctx, graph, "after grad: nothing reads the parameter embed.weight");
}

static void test_verify_when_a_gradient_is_not_zeroed_then_named(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    mpt_train train = {.optimizer = {.kind = MPT_OPTIMIZER_SGD}};
    assert_mpt_ok(ctx, mpt_graph_append_update(graph, &train));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    graph->nodes[find_node(graph, MPT_OP_zero)].pass = MPT_PASS_UPDATE;
    expect_fault(ctx, graph, "after grad: nothing zeroes the gradient of embed.weight");
}

/* ---- print.c ---- */

static void test_print_when_small_model_then_one_line_a_node(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_str text;
    assert_mpt_ok(ctx, draw_mlp(graph, 0));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    mpt_str_init(&text, ctx);
    mpt_graph_print(graph, &text);
    assert_string_equal(
        text.data,
        "graph: batch 2, sequence 3, vocabulary 32; 0 blocks, 2 layers, 2 parameters, 7 nodes\n"
        "param %1 embed.weight [32, 8] fp32 = normal(0.02)\n"
        "param %3 lm_head.weight [32, 8] fp32 = normal(0.02)\n"
        "input %0 tokens [6] i32\n"
        "input %5 targets [6] i32\n"
        "forward  %2 embed [6, 8] fp32 = embedding %0 %1  @embed  model.lua:1\n"
        "forward  %4 lm_head [6, 32] fp32 = linear %2 %3 - - -  @lm_head  model.lua:2\n"
        "forward  %6 cross_entropy.loss [1] fp32 = cross_entropy %4 %5  model.lua:3\n"
        "backward %9 d.lm_head [6, 32] fp32 = cross_entropy_grad %4 %5  model.lua:3\n"
        "backward %10 lm_head.dx [6, 8] fp32 = linear_dgrad %9 %3 - - -  @lm_head  "
        "model.lua:2\n"
        "backward %8 d.lm_head.weight [32, 8] fp32 = linear_wgrad %9 %2 - - -  @lm_head  "
        "model.lua:2\n"
        "backward %7 d.embed.weight [32, 8] fp32 = embedding_grad %0 %10  @embed  "
        "model.lua:1\n");
    mpt_str_deinit(&text);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_create_when_a_size_is_not_positive_then_refused),
    cmocka_unit_test(test_value_when_shape_is_unsound_then_refused),
    cmocka_unit_test(test_append_when_an_input_is_unknown_then_refused),
    cmocka_unit_test(test_append_when_only_inputs_lie_behind_then_no_gradient_is_needed),
    cmocka_unit_test(test_verify_when_nodes_are_out_of_order_then_named),
    cmocka_unit_test(test_verify_when_a_shape_is_changed_then_named),
    cmocka_unit_test(test_verify_when_an_output_is_taken_away_then_named),
    cmocka_unit_test(test_verify_when_a_value_has_two_makers_then_named),
    cmocka_unit_test(test_verify_when_a_node_is_read_by_nothing_then_named),
    cmocka_unit_test(test_verify_when_a_pass_reads_what_a_later_one_makes_then_named),
    cmocka_unit_test(test_verify_when_a_parameter_is_unread_then_named),
    cmocka_unit_test(test_verify_when_a_gradient_is_not_zeroed_then_named),
    cmocka_unit_test(test_print_when_small_model_then_one_line_a_node),
};

MPT_TEST_MAIN(cases)
