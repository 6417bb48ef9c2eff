/* graph/recompute.c and the plan behind it: which nodes run again and where, what they are
 * copies of, and that less memory is needed. */
#include "allowance.h"
#include "recompute_case.h"

/* ---- the nodes ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
} fixture;

/* A graph as it is before the pass. */
static void setup_in(mpt_ctx *ctx, fixture *f, draw_fn model, const char *variant) {
    rig_options o = options_for(model, variant);
    mpt_train train = rig_train(&o);
    f->ctx = ctx;
    assert_mpt_ok(f->ctx, mpt_graph_create(f->ctx, 2, 16, RIG_VOCAB, &f->graph));
    assert_mpt_ok(f->ctx, model(f->graph));
    assert_mpt_ok(f->ctx, mpt_graph_autodiff(f->graph));
    assert_mpt_ok(f->ctx, mpt_graph_append_update(f->graph, &train));
    rig_make_precise(f->ctx, &o, 0, f->graph);
    assert_mpt_ok(f->ctx, mpt_graph_prune(f->graph));
}

static void setup(fixture *f, draw_fn model, const char *variant) {
    setup_in(mpt_test_ctx(), f, model, variant);
}

static void recompute(fixture *f, int every) {
    assert_mpt_ok(f->ctx, mpt_graph_recompute(f->graph, every));
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* Values that FORWARD makes inside blocks and BACKWARD reads. */
static int count_kept(const fixture *f) {
    const mpt_graph *graph = f->graph;
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        int32_t maker = graph->values[v].producer;
        bool kept = false;
        if (maker < 0 || graph->nodes[maker].pass != MPT_PASS_FORWARD ||
            mpt_graph_block(graph, &graph->nodes[maker]) < 0)
            continue;
        for (int i = 0; i < graph->n_nodes; i++)
            for (int k = 0; k < graph->nodes[i].n_in; k++)
                kept = kept || (graph->nodes[i].in[k] == v &&
                                graph->nodes[i].pass == MPT_PASS_BACKWARD);
        n += kept;
    }
    return n;
}

static int count_again(const fixture *f) {
    int n = 0;
    for (int i = 0; i < f->graph->n_nodes; i++)
        n += f->graph->nodes[i].recomputed;
    return n;
}

/* Each block's output goes to the next block and, from the last, to the head. */
static void test_segments_when_every_n_then_one_value_is_kept_a_segment(void **s) {
    (void)s;
    static const struct {
        int every, kept;
    } rows[] = {{1, 5}, {2, 3}, {3, 2}, {4, 2}, {5, 1}, {64, 1}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        setup(&f, draw_five, "bf16");
        assert_true(count_kept(&f) > 3 * BLOCKS);
        recompute(&f, rows[i].every);
        assert_int_equal(count_kept(&f), rows[i].kept);
        teardown(&f);
    }
}

/* The last segment of five blocks by twos is one block; its twins read what block 3 put out.
 * In segments of two, the sum between its blocks is made again. */
static void test_segments_when_the_last_is_short_then_it_starts_where_it_should(void **s) {
    (void)s;
    fixture f;
    setup(&f, draw_five, "bf16");
    recompute(&f, 2);
    int sums[BLOCKS] = {0}, norms[BLOCKS] = {0};
    for (int i = 0; i < f.graph->n_nodes; i++) {
        const mpt_node *node = &f.graph->nodes[i];
        if (!node->recomputed)
            continue;
        sums[node->block] += node->op == MPT_OP_add;
        norms[node->block] += node->op == MPT_OP_rmsnorm;
        const mpt_value *in = &f.graph->values[node->in[0]];
        if (node->op == MPT_OP_rmsnorm && node->block == 4)
            assert_int_equal(f.graph->nodes[in->producer].block, 3);
    }
    static const int expected[BLOCKS] = {1, 0, 1, 0, 0};
    for (int b = 0; b < BLOCKS; b++) {
        assert_int_equal(sums[b], expected[b]);
        assert_int_equal(norms[b], 1);
    }
    teardown(&f);
}

static void test_recompute_when_none_or_no_blocks_then_nothing_changes(void **s) {
    (void)s;
    for (int blocks = 0; blocks < 2; blocks++) {
        fixture f;
        setup(&f, blocks ? draw_five : draw_no_blocks, "bf16");
        int n = f.graph->n_nodes;
        recompute(&f, blocks ? 0 : 1);
        assert_int_equal(f.graph->n_nodes, n);
        assert_int_equal(count_again(&f), 0);
        teardown(&f);
    }
}

/* Each twin stands in BACKWARD, right where its segment is being worked on: behind all of the
 * segments after it, before all of those in front. */
static void test_twins_when_placed_then_blocks_go_backwards(void **s) {
    (void)s;
    fixture f;
    setup(&f, draw_hybrid, "nvfp4 sr rht");
    recompute(&f, 1);
    int block = BLOCKS;
    for (int i = 0; i < f.graph->n_nodes; i++) {
        const mpt_node *node = &f.graph->nodes[i];
        if (node->pass != MPT_PASS_BACKWARD || mpt_graph_block(f.graph, node) < 0)
            continue;
        assert_true(mpt_graph_block(f.graph, node) <= block);
        block = mpt_graph_block(f.graph, node);
    }
    assert_int_equal(block, 0);
    teardown(&f);
}

/* The forward node that does the same: the op in the layer, or in the block where it has none.
 */
static const mpt_node *forward_of(const fixture *f, const mpt_node *twin) {
    for (int i = 0; i < f->graph->n_nodes; i++) {
        const mpt_node *node = &f->graph->nodes[i];
        const mpt_attrs *a = &node->attrs, *b = &twin->attrs;
        bool same = node->pass == MPT_PASS_FORWARD && node->op == twin->op &&
                    node->layer == twin->layer && node->block == twin->block;
        if (same && (node->op != MPT_OP_quantize ||
                     (a->row_index == b->row_index && a->col_index == b->col_index)))
            return node;
    }
    return NULL;
}

static void assert_side_equal(const mpt_attrs *a, const mpt_attrs *b, bool column) {
    assert_true(mpt_quantizer_equal(column ? &a->col : &a->row, column ? &b->col : &b->row));
    assert_int_equal(column ? a->col_operand : a->row_operand,
                     column ? b->col_operand : b->row_operand);
    assert_int_equal(column ? a->col_scope : a->row_scope,
                     column ? b->col_scope : b->row_scope);
    assert_int_equal(column ? a->col_index : a->row_index,
                     column ? b->col_index : b->row_index);
}

/* Format, scale, rounding, rotation and keys are those of the first time. */
static void test_twins_when_p47_quantized_then_as_the_first_time(void **s) {
    (void)s;
    for (size_t v = 0; v < MPT_COUNT(variants); v++) {
        fixture f;
        int n = 0;
        setup(&f, draw_hybrid, variants[v]);
        recompute(&f, 2);
        for (int i = 0; i < f.graph->n_nodes; i++) {
            const mpt_node *twin = &f.graph->nodes[i];
            if (!twin->recomputed)
                continue;
            const mpt_node *first = forward_of(&f, twin);
            assert_non_null(first);
            assert_side_equal(&first->attrs, &twin->attrs, false);
            assert_side_equal(&first->attrs, &twin->attrs, true);
            assert_true(first->attrs.alpha == twin->attrs.alpha);
            for (int k = 0; k < twin->n_out; k++)
                if (twin->out[k] >= 0 && first->out[k] >= 0)
                    assert_int_equal(f.graph->values[twin->out[k]].dtype,
                                     f.graph->values[first->out[k]].dtype);
            n++;
        }
        assert_true(n > BLOCKS);
        teardown(&f);
    }
}

/* Whether a node copies a gradient: what backward makes for the first time. */
static bool copies_gradient(const fixture *f, const mpt_node *node) {
    const mpt_node *maker = &f->graph->nodes[f->graph->values[node->in[0]].producer];
    return maker->pass == MPT_PASS_BACKWARD && !maker->recomputed;
}

/* down_proj does not run again, because nothing in backward needs its output: of its x, only
 * the copy for wgrad is needed. What only wgrad reads is made in BACKWARD and nowhere else;
 * what fprop reads is made twice only where wgrad reads the same. */
static void test_copies_when_only_backward_reads_them_then_made_once_and_late(void **s) {
    (void)s;
    static const struct {
        const char *variant;
        bool row_first, col_first, row_late, col_late, row_again;
    } rows[] = {{"nvfp4 sr rht", true, false, false, true, false},
                {"e4m3 delayed, one copy", true, false, true, false, true},
                {"from the row copy", true, false, true, true, true},
                {"wide fprop", false, false, false, true, false}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        setup(&f, draw_five, rows[i].variant);
        recompute(&f, 1);
        bool first[2] = {false, false}, late[2] = {false, false};
        for (int n = 0; n < f.graph->n_nodes; n++) {
            const mpt_node *node = &f.graph->nodes[n];
            const char *path = node->layer >= 0 ? f.graph->layers[node->layer].path : "";
            if (node->op != MPT_OP_quantize || strcmp(path, "layers.1.down_proj") != 0 ||
                node->pass == MPT_PASS_PREPARE || copies_gradient(&f, node))
                continue;
            bool *seen = node->pass == MPT_PASS_FORWARD ? first : late;
            seen[0] = seen[0] || node->attrs.has_row;
            seen[1] = seen[1] || node->attrs.has_col;
            if (node->pass == MPT_PASS_BACKWARD && node->attrs.has_row)
                assert_int_equal(node->attrs.row_again, rows[i].row_again);
            if (node->pass == MPT_PASS_BACKWARD && node->attrs.has_col)
                assert_false(node->attrs.col_again);
        }
        assert_int_equal(first[0], rows[i].row_first);
        assert_int_equal(first[1], rows[i].col_first);
        assert_int_equal(late[0], rows[i].row_late);
        assert_int_equal(late[1], rows[i].col_late);
        teardown(&f);
    }
}

/* up_proj runs again, for the derivative of what follows it. */
static void test_copies_when_split_in_two_then_labelled_by_what_they_serve(void **s) {
    (void)s;
    fixture f;
    setup(&f, draw_five, "nvfp4 sr rht");
    recompute(&f, 1);
    for (int n = 0; n < f.graph->n_nodes; n++) {
        const mpt_node *node = &f.graph->nodes[n];
        if (node->op != MPT_OP_quantize || node->pass == MPT_PASS_PREPARE)
            continue;
        bool is_down = strstr(f.graph->layers[node->layer].path, "down_proj") != NULL;
        const char *expected = copies_gradient(&f, node)        ? "dgrad.dy + wgrad.dy"
                               : node->pass == MPT_PASS_FORWARD ? "fprop.x"
                               : is_down                        ? "wgrad.x"
                                                                : "fprop.x + wgrad.x";
        assert_string_equal(node->slot, expected);
    }
    teardown(&f);
}

/* ---- memory ---- */

static size_t activation_bytes(draw_fn model, const char *variant, int every) {
    rig r;
    rig_options o = options_for(model, variant);
    o.recompute = every;
    rig_compile(&r, mpt_test_ctx(), &o);
    size_t bytes = r.phases[0]->bytes[MPT_MEMORY_ACTIVATIONS];
    assert_mpt_ok(r.ctx, mpt_schedule_verify(r.phases[0]));
    rig_deinit(&r);
    return bytes;
}

/* 24 blocks: one of width 8 is kept a block, of values of 8 to 16 columns. */
static void test_plan_when_recomputed_then_activations_shrink(void **s) {
    (void)s;
    for (size_t v = 0; v < MPT_COUNT(variants); v++) {
        size_t kept = activation_bytes(draw_deep, variants[v], 0);
        size_t block = activation_bytes(draw_deep, variants[v], 1);
        size_t two = activation_bytes(draw_deep, variants[v], 2);
        assert_true(3 * block < kept);
        assert_true(two < block); /* near the root of 24 fewer values are kept in all */
    }
}

static void test_recompute_when_any_allocation_fails_then_refused_and_nothing_leaks(void **s) {
    (void)s;
    mpt_status status = MPT_OUT_OF_MEMORY;
    for (long n = 0; status != MPT_OK; n++) {
        fixture f;
        allowance a;
        setup_in(allowance_context(&a, -1), &f, draw_five, "nvfp4 sr rht");
        a.left = n;
        status = mpt_graph_recompute(f.graph, 2);
        if (status != MPT_OK)
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
        teardown(&f);
        assert_int_equal(a.live, 0);
        assert_true(n < 1000);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_segments_when_every_n_then_one_value_is_kept_a_segment),
    cmocka_unit_test(test_segments_when_the_last_is_short_then_it_starts_where_it_should),
    cmocka_unit_test(test_recompute_when_none_or_no_blocks_then_nothing_changes),
    cmocka_unit_test(test_twins_when_placed_then_blocks_go_backwards),
    cmocka_unit_test(test_twins_when_p47_quantized_then_as_the_first_time),
    cmocka_unit_test(test_copies_when_only_backward_reads_them_then_made_once_and_late),
    cmocka_unit_test(test_copies_when_split_in_two_then_labelled_by_what_they_serve),
    cmocka_unit_test(test_plan_when_recomputed_then_activations_shrink),
    cmocka_unit_test(test_recompute_when_any_allocation_fails_then_refused_and_nothing_leaks),
};

MPT_TEST_MAIN(cases)
