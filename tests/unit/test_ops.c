/* graph/op*.c: the op table, each op's shapes, and each refusal word for word.
 *
 * The cases are rows of infer_cases.h. An op of ops.def without a row there, or without a
 * kernel in ref, is named. */
#include "mpt_test.h"

#include "infer_cases.h"
#include "kernels/kernel.h"

/* ---- running a case ---- */

static mpt_value_id make(mpt_graph *graph, const char *name, mpt_value_kind kind,
                         const shape *s) {
    return mpt_graph_value(graph, name, kind, s->dtype, s->rank, s->dims);
}

/* Appends the case's node; gives its status and index. */
static mpt_status append(mpt_graph *graph, const op_case *c, int *out_index) {
    mpt_node node = mpt_node_make(c->op, MPT_PASS_BACKWARD, -1);
    node.where = (mpt_where){"m.lua", 7};
    node.attrs = c->attrs;
    for (int i = 0; i < MPT_MAX_IN; i++)
        if (c->in[i].rank)
            node.in[i] = make(graph, input_names[i], MPT_VALUE_ACTIVATION, &c->in[i]);
    for (int i = 0; i < MPT_MAX_OUT; i++)
        if (c->given[i].rank)
            node.out[i] = make(graph, "given", MPT_VALUE_GRAD, &c->given[i]);
    return mpt_graph_append(graph, &node, out_index);
}

static void check_outputs(const mpt_graph *graph, const op_case *c, int index) {
    const mpt_node *node = &graph->nodes[index];
    for (int i = 0; i < MPT_MAX_OUT; i++) {
        const shape *want = &c->out[i];
        mpt_value_id id = i < node->n_out ? node->out[i] : -1;
        if ((want->rank > 0) != (id >= 0))
            fail_msg("%s: output %d is %s", mpt_op_get(c->op)->name, i,
                     id >= 0 ? "there" : "absent");
        for (int d = 0; d < want->rank; d++)
            if (graph->values[id].rank != want->rank ||
                graph->values[id].dims[d] != want->dims[d])
                fail_msg("%s: output %d, dimension %d is %lld, expected %lld",
                         mpt_op_get(c->op)->name, i, d, (long long)graph->values[id].dims[d],
                         (long long)want->dims[d]);
    }
}

static void test_infer_when_inputs_fit_then_outputs_have_their_shapes(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    for (size_t i = 0; i < MPT_COUNT(sound); i++) {
        mpt_graph *graph = NULL;
        int index = -1;
        assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
        assert_mpt_ok(ctx, append(graph, &sound[i], &index));
        check_outputs(graph, &sound[i], index);
        mpt_graph_destroy(graph);
    }
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_infer_when_inputs_do_not_fit_then_the_message_says_why(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    for (size_t i = 0; i < MPT_COUNT(refused); i++) {
        mpt_graph *graph = NULL;
        assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
        assert_int_equal(append(graph, &refused[i], NULL), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, refused[i].error);
        assert_int_equal(graph->n_nodes, 0);
        mpt_graph_destroy(graph);
    }
    mpt_ctx_destroy(ctx);
}

static void test_infer_when_defaults_are_left_out_then_they_are_filled_in(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    int at = -1;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
    op_case attention = {.op = MPT_OP_attention,
                         .in = {S2(TOKENS, 16), S2(TOKENS, 16), S2(TOKENS, 16)},
                         .attrs = {.heads = 4}};
    assert_mpt_ok(ctx, append(graph, &attention, &at));
    const mpt_attrs *a = &graph->nodes[at].attrs;
    assert_int_equal(a->kv_heads, 4);
    assert_int_equal(a->head_dim, 4);
    assert_true(a->scale == 0.5f);
    assert_int_equal(a->sequence, SEQUENCE);
    op_case scan = {.op = MPT_OP_ssm_scan, .in = {SCAN_INPUTS}, .attrs = SCAN};
    assert_mpt_ok(ctx, append(graph, &scan, &at));
    a = &graph->nodes[at].attrs;
    assert_int_equal(a->head_dim, 3);
    assert_int_equal(a->state, 5);
    assert_int_equal(a->sizes[0], 64);
    op_case linear = {.op = MPT_OP_linear, .in = {S2(TOKENS, 5), S2(7, 5)}};
    assert_mpt_ok(ctx, append(graph, &linear, &at));
    assert_true(graph->nodes[at].attrs.alpha == 1.0f);
    op_case norm = {.op = MPT_OP_rmsnorm, .in = {S2(TOKENS, 5), S1(5)}};
    assert_mpt_ok(ctx, append(graph, &norm, &at));
    assert_true(graph->nodes[at].attrs.eps == 1e-5f);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* Both wgrad operands are padded alike: to the rotation's size, whatever their blocks. */
static void
test_quantize_when_rotated_then_both_wgrad_operands_have_the_same_rows(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    int dy = -1, x = -1, w = -1;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
    op_case one = {
        MPT_OP_quantize,
        {S2(TOKENS, 7)},
        .attrs = {.has_col = true, .col = {.block_cols = 16, .hadamard = {.size = 16}}}};
    op_case other = {
        MPT_OP_quantize,
        {S2(TOKENS, 5)},
        .attrs = {.has_col = true, .col = {.block_cols = 128, .hadamard = {.size = 16}}}};
    assert_mpt_ok(ctx, append(graph, &one, &dy));
    assert_mpt_ok(ctx, append(graph, &other, &x));
    mpt_node node = mpt_node_make(MPT_OP_linear_wgrad, MPT_PASS_BACKWARD, -1);
    node.in[0] = graph->nodes[dy].out[2];
    node.in[1] = graph->nodes[x].out[2];
    node.in[3] = graph->nodes[dy].out[3];
    node.in[4] = graph->nodes[x].out[3];
    assert_mpt_ok(ctx, mpt_graph_append(graph, &node, &w));
    assert_int_equal(graph->values[graph->nodes[w].out[0]].dims[0], 7);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* ---- the table ---- */

static void test_table_when_read_then_every_row_is_whole_and_names_are_unique(void **state) {
    (void)state;
    for (int i = 0; i < MPT_OP_COUNT; i++) {
        const mpt_op_row *row = mpt_op_get((mpt_op)i);
        assert_non_null(row->def);
        assert_non_null(row->def->infer);
        assert_true(row->n_in >= (i != MPT_OP_unscale) && row->n_in <= MPT_MAX_IN);
        assert_true(row->n_out >= 1 && row->n_out <= MPT_MAX_OUT);
        assert_true(strlen(row->summary) > 0);
        assert_int_equal(mpt_op_by_name(row->name), i);
        bool forward = !(row->flags & (MPT_OP_GRAD | MPT_OP_CAST | MPT_OP_UPDATE));
        if (forward != (row->def->backward != NULL))
            fail_msg("%s: a forward op needs a backward rule, no other has one", row->name);
    }
    assert_int_equal(mpt_op_by_name("lineal"), MPT_OP_COUNT);
}

static void test_table_when_an_op_has_no_ref_kernel_then_it_is_named(void **state) {
    (void)state;
    for (int i = 0; i < MPT_OP_COUNT; i++) {
        bool found = false;
        for (const mpt_kernel *k = mpt_kernels_ref; k->run && !found; k++)
            found = k->op == (mpt_op)i;
        if (!found)
            fail_msg("%s has no kernel in kernels/ref", mpt_op_get((mpt_op)i)->name);
    }
}

static void test_table_when_an_op_has_no_case_here_then_it_is_named(void **state) {
    (void)state;
    for (int i = 0; i < MPT_OP_COUNT; i++) {
        bool found = false;
        for (size_t c = 0; c < MPT_COUNT(sound) && !found; c++)
            found = sound[c].op == (mpt_op)i;
        if (!found)
            fail_msg("%s has no row in infer_cases.h", mpt_op_get((mpt_op)i)->name);
    }
}

static void test_table_when_a_forward_op_has_no_autocast_row_then_it_is_named(void **state) {
    (void)state;
    int n_rows, n_forward = 0;
    (void)mpt_ops_rows(&n_rows);
    for (int i = 0; i < MPT_OP_COUNT; i++) {
        const mpt_op_row *row = mpt_op_get((mpt_op)i);
        if (row->flags & (MPT_OP_GRAD | MPT_OP_CAST | MPT_OP_UPDATE))
            continue;
        n_forward++;
        if (!mpt_ops_find(row->name))
            fail_msg("%s has no row in runtime/recipe/ops.c", row->name);
    }
    assert_int_equal(n_rows, n_forward);
}

/* ---- cost ---- */

static mpt_cost cost_of(mpt_graph *graph, const op_case *c) {
    int index = -1;
    assert_mpt_ok(graph->ctx, append(graph, c, &index));
    const mpt_op_def *def = mpt_op_get(c->op)->def;
    assert_non_null(def->cost);
    return def->cost(graph, &graph->nodes[index]);
}

static void test_cost_when_linear_then_two_flops_a_product_in_all_three_gemms(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
    const op_case gemms[] = {{.op = MPT_OP_linear, .in = {S2(TOKENS, 5), S2(7, 5)}},
                             {.op = MPT_OP_linear_dgrad, .in = {S2(TOKENS, 7), S2(7, 5)}},
                             {.op = MPT_OP_linear_wgrad, .in = {S2(TOKENS, 7), S2(TOKENS, 5)}}};
    for (size_t i = 0; i < MPT_COUNT(gemms); i++)
        assert_true(cost_of(graph, &gemms[i]).flops == 2.0 * TOKENS * 5 * 7);
    /* x, w and y once; the weight's gradient is read and written */
    assert_true(cost_of(graph, &gemms[0]).bytes == 4.0 * (TOKENS * 5 + 35 + TOKENS * 7));
    assert_true(cost_of(graph, &gemms[2]).bytes == 4.0 * (TOKENS * 5 + 70 + TOKENS * 7));
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_cost_when_attention_then_only_causal_pairs_count(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, BATCH, SEQUENCE, 32, &graph));
    const op_case attention = {.op = MPT_OP_attention,
                               .in = {S2(TOKENS, 12), S2(TOKENS, 6), S2(TOKENS, 6)},
                               .attrs = {.heads = 4, .kv_heads = 2}};
    assert_true(cost_of(graph, &attention).flops == 2.0 * 2 * BATCH * 21 * 4 * 3);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_infer_when_inputs_fit_then_outputs_have_their_shapes),
    cmocka_unit_test(test_infer_when_inputs_do_not_fit_then_the_message_says_why),
    cmocka_unit_test(test_infer_when_defaults_are_left_out_then_they_are_filled_in),
    cmocka_unit_test(test_quantize_when_rotated_then_both_wgrad_operands_have_the_same_rows),
    cmocka_unit_test(test_table_when_read_then_every_row_is_whole_and_names_are_unique),
    cmocka_unit_test(test_table_when_an_op_has_no_ref_kernel_then_it_is_named),
    cmocka_unit_test(test_table_when_an_op_has_no_case_here_then_it_is_named),
    cmocka_unit_test(test_table_when_a_forward_op_has_no_autocast_row_then_it_is_named),
    cmocka_unit_test(test_cost_when_linear_then_two_flops_a_product_in_all_three_gemms),
    cmocka_unit_test(test_cost_when_attention_then_only_causal_pairs_count),
};

MPT_TEST_MAIN(cases)
