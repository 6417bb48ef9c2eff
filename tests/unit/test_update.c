/* graph/update.c: which nodes the optimizer's tail has, in which order, with which attributes.
 */
#include "mpt_test.h"

#include "small_net.h"

static const small_net net = {
    .width = 16, .hidden = 32, .vocab = 48, .n_blocks = 1, .n_readers = 1};

static mpt_train adamw(void) {
    mpt_train train = {.clip = 0.5};
    train.optimizer = (mpt_optimizer){
        .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .momentum = 0.9};
    return train;
}

static mpt_graph *graph_with(mpt_ctx *ctx, const mpt_train *train) {
    mpt_graph *graph = small_graph(ctx, &net, 2, 8, true);
    assert_mpt_ok(ctx, mpt_graph_append_update(graph, train));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "update"));
    return graph;
}

static void done(mpt_graph *graph) {
    mpt_ctx *ctx = graph->ctx;
    mpt_graph_destroy(graph);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* The k-th node of an op; NULL past the last. */
static const mpt_node *nth(const mpt_graph *graph, mpt_op op, int k) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op && k-- == 0)
            return &graph->nodes[i];
    return NULL;
}

static int count(const mpt_graph *graph, mpt_op op) {
    int n = 0;
    while (nth(graph, op, n))
        n++;
    return n;
}

static void test_update_when_adamw_then_one_node_of_each_kind_a_parameter(void **state) {
    (void)state;
    mpt_train train = adamw();
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    assert_int_equal(graph->n_params, 7);
    assert_int_equal(count(graph, MPT_OP_zero), 7);
    assert_int_equal(count(graph, MPT_OP_grad_norm), 7);
    assert_int_equal(count(graph, MPT_OP_clip_factor), 1);
    assert_int_equal(count(graph, MPT_OP_adamw), 7);
    assert_int_equal(count(graph, MPT_OP_sgd), 0);
    for (int p = 0; p < 7; p++) {
        const mpt_node *zero = nth(graph, MPT_OP_zero, p), *step = nth(graph, MPT_OP_adamw, p);
        const mpt_param *param = &graph->params[p];
        assert_int_equal(zero->pass, MPT_PASS_PREPARE);
        assert_int_equal(zero->out[0], param->grad);
        assert_int_equal(step->pass, MPT_PASS_UPDATE);
        assert_int_equal(step->out[0], param->value);
        assert_int_equal(step->in[1], param->grad);
        assert_int_equal(step->in[2], param->moment[0]);
        assert_int_equal(step->in[3], param->moment[1]);
        assert_true(step->attrs.beta2 == 0.999f);
        assert_int_equal(graph->values[param->moment[1]].kind, MPT_VALUE_MOMENT);
        assert_int_equal(graph->values[param->moment[1]].param, p);
    }
    const mpt_value *m = &graph->values[graph->params[0].moment[0]];
    assert_string_equal(m->name, "adam_m.embeddings.weight");
    done(graph);
}

static void
test_update_when_clip_is_set_then_its_node_has_it_and_gives_the_status(void **state) {
    (void)state;
    mpt_train train = adamw();
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    const mpt_node *clip = nth(graph, MPT_OP_clip_factor, 0);
    assert_true(clip->attrs.clip == 0.5f);
    assert_int_equal(clip->in[0], graph->norm);
    assert_int_equal(clip->in[1], nth(graph, MPT_OP_unscale, 0)->out[0]);
    assert_int_equal(clip->in[2], graph->finite);
    assert_int_equal(graph->values[graph->norm].kind, MPT_VALUE_STATUS);
    assert_int_equal(graph->values[graph->finite].dtype, MPT_DTYPE_I32);
    const mpt_node *norm = nth(graph, MPT_OP_global_norm, 0);
    assert_int_equal(norm->out[0], graph->norm);
    assert_int_equal(nth(graph, MPT_OP_finite_check, 0)->out[0], graph->finite);
    assert_int_equal(nth(graph, MPT_OP_finite_check, 0)->in[0], norm->in[0]);
    assert_int_equal(graph->values[norm->in[0]].dims[0], graph->n_params);
    for (int p = 0; p < graph->n_params; p++)
        assert_int_equal(nth(graph, MPT_OP_adamw, p)->in[4], clip->out[0]);
    done(graph);
}

/* The order of a step, and each part once however many micro-batches went before: contract 11.
 * P01's plan with one unscale a window is this list. */
static void test_p01_update_when_listed_then_each_part_stands_once_and_in_order(void **state) {
    (void)state;
    static const mpt_op order[] = {MPT_OP_grad_reduce,  MPT_OP_unscale,     MPT_OP_grad_norm,
                                   MPT_OP_finite_check, MPT_OP_global_norm, MPT_OP_clip_factor,
                                   MPT_OP_adamw};
    mpt_train train = adamw();
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    size_t at = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].pass != MPT_PASS_UPDATE)
            continue;
        while (at < MPT_COUNT(order) && graph->nodes[i].op != order[at])
            at++;
        assert_true(at < MPT_COUNT(order));
    }
    assert_int_equal(at, MPT_COUNT(order) - 1);
    assert_int_equal(count(graph, MPT_OP_unscale), 1);
    assert_int_equal(count(graph, MPT_OP_finite_check), 1);
    assert_int_equal(count(graph, MPT_OP_global_norm), 1);
    assert_int_equal(count(graph, MPT_OP_clip_factor), 1);
    for (int p = 0; p < graph->n_params; p++) {
        int reduced = 0, measured = 0, applied = 0;
        for (int i = 0; i < graph->n_nodes; i++) {
            const mpt_node *node = &graph->nodes[i];
            reduced += node->op == MPT_OP_grad_reduce && node->in[0] == graph->params[p].grad;
            measured += node->op == MPT_OP_grad_norm && node->in[0] == graph->params[p].grad;
            applied += node->op == MPT_OP_adamw && node->in[1] == graph->params[p].grad;
        }
        assert_true(reduced == 1 && measured == 1 && applied == 1);
    }
    done(graph);
}

static void test_update_when_decay_is_matrices_then_vectors_keep_their_size(void **state) {
    (void)state;
    mpt_train train = adamw();
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    int decayed = 0;
    for (int p = 0; p < graph->n_params; p++) {
        bool matrix = graph->values[graph->params[p].value].rank == 2;
        assert_true(nth(graph, MPT_OP_adamw, p)->attrs.weight_decay == (matrix ? 0.1f : 0.0f));
        decayed += matrix;
    }
    assert_int_equal(decayed, 4); /* table, up, down, head; not the two norms and the bias */
    done(graph);
}

static void test_update_when_decay_is_all_then_every_parameter_decays(void **state) {
    (void)state;
    mpt_train train = adamw();
    train.decay = MPT_DECAY_ALL;
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    for (int p = 0; p < graph->n_params; p++)
        assert_true(nth(graph, MPT_OP_adamw, p)->attrs.weight_decay == 0.1f);
    done(graph);
}

static void test_update_when_norms_are_taken_then_last_layer_comes_first(void **state) {
    (void)state;
    mpt_train train = adamw();
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    const char *first = graph->values[nth(graph, MPT_OP_grad_norm, 0)->in[0]].name;
    const char *last = graph->values[nth(graph, MPT_OP_grad_norm, 6)->in[0]].name;
    assert_non_null(strstr(first, "lm_head.weight"));
    assert_non_null(strstr(last, "embeddings.weight"));
    done(graph);
}

static void test_update_when_sgd_then_one_moment_and_none_without_momentum(void **state) {
    (void)state;
    mpt_train train = adamw();
    train.optimizer.kind = MPT_OPTIMIZER_SGD;
    mpt_graph *graph = graph_with(mpt_test_ctx(), &train);
    assert_int_equal(count(graph, MPT_OP_sgd), 7);
    assert_int_equal(count(graph, MPT_OP_adamw), 0);
    const mpt_value *moment = &graph->values[graph->params[1].moment[0]];
    assert_non_null(strstr(moment->name, "momentum."));
    assert_int_equal(graph->params[1].moment[1], -1);
    assert_true(nth(graph, MPT_OP_sgd, 1)->attrs.momentum == 0.9f);
    done(graph);
    train.optimizer.momentum = 0;
    graph = graph_with(mpt_test_ctx(), &train);
    assert_int_equal(graph->params[1].moment[0], -1);
    assert_int_equal(nth(graph, MPT_OP_sgd, 1)->in[2], -1);
    done(graph);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_update_when_adamw_then_one_node_of_each_kind_a_parameter),
    cmocka_unit_test(test_update_when_clip_is_set_then_its_node_has_it_and_gives_the_status),
    cmocka_unit_test(test_p01_update_when_listed_then_each_part_stands_once_and_in_order),
    cmocka_unit_test(test_update_when_decay_is_matrices_then_vectors_keep_their_size),
    cmocka_unit_test(test_update_when_decay_is_all_then_every_parameter_decays),
    cmocka_unit_test(test_update_when_norms_are_taken_then_last_layer_comes_first),
    cmocka_unit_test(test_update_when_sgd_then_one_moment_and_none_without_momentum),
};

MPT_TEST_MAIN(cases)
