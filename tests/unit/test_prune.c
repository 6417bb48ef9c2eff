/* graph/prune.c: what nobody reads is taken away, alone or in chains; what outlives the step
 * stays. */
#include "allowance.h"
#include "models.h"
#include "recipe/schema.h"

enum { MANY_LAYERS = 16 };

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
    mpt_policy policies[MANY_LAYERS];
} fixture;

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

/* One block, and in it, where asked for, what leads nowhere: two sums and a layer on a weight
 * that another has. */
static void draw_block(test_draw *d, bool extra) {
    mpt_value_id ids = -1;
    draw_note(d, mpt_nn_tokens(&d->nn, &ids));
    mpt_value_id x = draw_embedding(d, "embed", ids, 0, 16);
    draw_note(d, mpt_nn_block_begin(&d->nn, "layers", 0));
    mpt_value_id h = draw1(d, MPT_OP_rmsnorm, "norm", x);
    mpt_value_id up = draw_linear(d, "up", h, 16, false);
    if (extra) {
        mpt_nn_args idle = {
            .name = "idle", .n_in = 1, .in = {up}, .tied = "layers.0.up.weight"};
        mpt_value_id sum = draw_add(d, draw(d, MPT_OP_linear, idle), up);
        draw1(d, MPT_OP_silu, NULL, sum);
    }
    x = draw_add(d, x, up);
    draw_note(d, mpt_nn_block_end(&d->nn));
    x = draw(d, MPT_OP_linear,
             (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .head = true});
    draw1(d, MPT_OP_cross_entropy, NULL, x);
}

static mpt_status try_draw(fixture *f, bool extra, mpt_quantizer q) {
    static const mpt_train train = {.optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    MPT_TRY(mpt_graph_create(f->ctx, 2, 16, 32, &f->graph));
    test_draw d = draw_begin(f->graph);
    draw_block(&d, extra);
    MPT_TRY(d.status);
    assert_true(f->graph->n_layers <= MANY_LAYERS);
    for (int i = 0; i < f->graph->n_layers; i++) {
        mpt_policy *p = &f->policies[i];
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            p->slot[s] = f->graph->layers[i].kind == MPT_LAYER_LINEAR ? q : named("bf16");
        p->output[0] = p->output[1] = p->output[2] = p->compute = MPT_DTYPE_BF16;
    }
    mpt_precision_options options = {
        .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f->policies};
    MPT_TRY(mpt_graph_autodiff(f->graph));
    MPT_TRY(mpt_graph_append_update(f->graph, &train));
    return mpt_graph_apply_precision(f->graph, &options);
}

static void setup(fixture *f, bool extra, mpt_quantizer q) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    assert_mpt_ok(f->ctx, try_draw(f, extra, q));
}

static void prune(fixture *f) {
    assert_mpt_ok(f->ctx, mpt_graph_prune(f->graph));
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static mpt_quantizer delayed(void) {
    mpt_quantizer q = named("e4m3");
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 4};
    return q;
}

static int count(const fixture *f, mpt_op op) {
    int n = 0;
    for (int i = 0; i < f->graph->n_nodes; i++)
        n += f->graph->nodes[i].op == op;
    return n;
}

/* The one quantize node of a tensor's copies. */
static mpt_node *quantize_of(fixture *f, const char *tensor) {
    for (int i = 0; i < f->graph->n_nodes; i++)
        if (f->graph->nodes[i].op == MPT_OP_quantize &&
            strcmp(f->graph->values[f->graph->nodes[i].in[0]].name, tensor) == 0)
            return &f->graph->nodes[i];
    fail_msg("nothing quantizes %s", tensor);
    return NULL;
}

/* The text of a graph without its first line, which counts. */
static char *text_of(const fixture *f, mpt_str *out) {
    mpt_str_init(out, f->ctx);
    mpt_graph_print(f->graph, out);
    assert_false(out->failed);
    return strchr(out->data, '\n');
}

static void test_prune_when_all_is_read_then_nothing_changes(void **state) {
    (void)state;
    fixture f;
    mpt_str before, after;
    setup(&f, false, delayed());
    (void)text_of(&f, &before);
    prune(&f);
    assert_int_equal(f.graph->n_pruned, 0);
    assert_string_equal(strchr(before.data, '\n'), text_of(&f, &after));
    mpt_str_deinit(&before);
    mpt_str_deinit(&after);
    teardown(&f);
}

/* The copy that only the idle layer reads goes with it, and so does the update of its scale. */
static void test_prune_when_a_chain_leads_nowhere_then_all_of_it_goes(void **state) {
    (void)state;
    fixture f, plain;
    setup(&plain, false, delayed());
    setup(&f, true, delayed());
    int n = f.graph->n_nodes;
    prune(&f);
    assert_int_equal(f.graph->n_pruned, n - f.graph->n_nodes);
    for (int op = 0; op < MPT_OP_COUNT; op++)
        assert_int_equal(count(&f, (mpt_op)op), count(&plain, (mpt_op)op));
    teardown(&f);
    teardown(&plain);
}

static void test_prune_when_printed_then_the_count_is_there(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    setup(&f, true, named("nvfp4"));
    prune(&f);
    assert_int_equal(f.graph->n_pruned, 4); /* layer, its copy of x, sum, activation */
    (void)text_of(&f, &text);
    assert_non_null(strstr(text.data, " nodes, 4 pruned\n"));
    mpt_str_deinit(&text);
    teardown(&f);
}

/* Takes a GEMM's reading of an operand away, so that its copy is idle. */
static void unread(fixture *f, mpt_op op, int operand) {
    for (int i = 0; i < f->graph->n_nodes; i++) {
        mpt_node *node = &f->graph->nodes[i];
        if (node->op != op || node->layer < 0 ||
            strcmp(f->graph->layers[node->layer].path, "layers.0.up") != 0)
            continue;
        node->in[operand] = f->graph->nodes[f->graph->values[node->in[operand]].producer].in[0];
        node->in[3 + operand] = -1;
        return;
    }
    fail_msg("no such GEMM");
}

static void test_prune_when_one_copy_is_unread_then_the_other_stays(void **state) {
    (void)state;
    for (int column = 0; column < 2; column++) {
        fixture f;
        mpt_quantizer q = delayed();
        q.rounding = MPT_ROUNDING_STOCHASTIC; /* so that x has two copies */
        setup(&f, false, q);
        int n = f.graph->n_nodes, updates = count(&f, MPT_OP_scale_update);
        unread(&f, column ? MPT_OP_linear_wgrad : MPT_OP_linear, column ? 1 : 0);
        prune(&f);
        const mpt_node *x = quantize_of(&f, "layers.0.norm");
        assert_int_equal(x->attrs.has_row, column);
        assert_int_equal(x->attrs.has_col, !column);
        assert_int_equal(x->out[0] >= 0, column);
        assert_int_equal(x->out[2] >= 0, !column);
        assert_int_equal(x->n_in, column ? 3 : 5);
        assert_int_equal(x->in[1] >= 0, column);
        assert_int_equal(count(&f, MPT_OP_scale_update), updates - 1);
        assert_int_equal(f.graph->n_pruned, 1);
        assert_int_equal(f.graph->n_nodes, n - 1);
        teardown(&f);
    }
}

/* The column copy is made from it. */
static void test_prune_when_the_row_copy_feeds_the_column_then_it_stays(void **state) {
    (void)state;
    fixture f;
    mpt_quantizer q = named("nvfp4");
    q.source = MPT_SOURCE_DEQUANTIZED;
    setup(&f, false, q);
    unread(&f, MPT_OP_linear, 0);
    prune(&f);
    assert_true(quantize_of(&f, "layers.0.norm")->attrs.has_row);
    assert_int_equal(f.graph->n_pruned, 0);
    teardown(&f);
}

/* ---- the verifier behind it ---- */

static void expect_fault(fixture *f, const char *text) {
    assert_int_equal(mpt_graph_verify(f->graph, "prune"), MPT_INTERNAL);
    assert_non_null(strstr(mpt_ctx_error(f->ctx)->message, text));
    teardown(f);
}

static void test_verify_when_an_operand_is_recorded_twice_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f, false, delayed());
    quantize_of(&f, "layers.0.norm")->attrs.row_index =
        quantize_of(&f, "layers.0.up.weight")->attrs.row_index;
    expect_fault(&f, "(quantize): the operand layers.0.up.fprop.w is recorded twice");
}

static void test_verify_when_made_again_before_it_is_recorded_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f, false, delayed());
    quantize_of(&f, "layers.0.norm")->attrs.row_again = true;
    expect_fault(&f, "(quantize): the operand layers.0.up.fprop.x is made again before it is "
                     "recorded");
}

static void test_verify_when_a_recomputed_node_stands_in_forward_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f, false, delayed());
    quantize_of(&f, "layers.0.norm")->recomputed = true;
    expect_fault(&f, "(quantize): is recomputed in pass forward");
}

static void test_verify_when_a_recomputed_node_writes_state_then_named(void **state) {
    (void)state;
    fixture f;
    setup(&f, false, delayed());
    for (int i = 0; i < f.graph->n_nodes; i++)
        if (f.graph->nodes[i].op == MPT_OP_linear_wgrad)
            f.graph->nodes[i].recomputed = true;
    expect_fault(&f, "(linear_wgrad): is recomputed and writes d.");
}

static void test_prune_when_memory_is_refused_then_refused_and_nothing_leaks(void **state) {
    (void)state;
    fixture f;
    allowance a;
    memset(&f, 0, sizeof f);
    f.ctx = allowance_context(&a, -1);
    assert_mpt_ok(f.ctx, try_draw(&f, true, delayed()));
    int n = f.graph->n_nodes;
    a.left = 0;
    assert_int_equal(mpt_graph_prune(f.graph), MPT_OUT_OF_MEMORY);
    assert_int_equal(f.graph->n_nodes, n);
    a.left = -1;
    teardown(&f);
    assert_int_equal(a.live, 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_prune_when_all_is_read_then_nothing_changes),
    cmocka_unit_test(test_prune_when_a_chain_leads_nowhere_then_all_of_it_goes),
    cmocka_unit_test(test_prune_when_printed_then_the_count_is_there),
    cmocka_unit_test(test_prune_when_one_copy_is_unread_then_the_other_stays),
    cmocka_unit_test(test_prune_when_the_row_copy_feeds_the_column_then_it_stays),
    cmocka_unit_test(test_verify_when_an_operand_is_recorded_twice_then_named),
    cmocka_unit_test(test_verify_when_made_again_before_it_is_recorded_then_named),
    cmocka_unit_test(test_verify_when_a_recomputed_node_stands_in_forward_then_named),
    cmocka_unit_test(test_verify_when_a_recomputed_node_writes_state_then_named),
    cmocka_unit_test(test_prune_when_memory_is_refused_then_refused_and_nothing_leaks),
};

MPT_TEST_MAIN(cases)
