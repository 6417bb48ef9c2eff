/* graph/precision_copies.c with all fields of a quantizer: who can share a copy, what a copy
 * made from another one needs beside it, and what delayed scaling and row factors add to the
 * graph. */
#include "mpt_test.h"

#include <stdlib.h>

#include "recipe/schema.h"
#include "small_net.h"

enum { MANY_LAYERS = 16 };

/* Two layers, `up` and `gate`, read one norm. */
static const small_net net = {
    .width = 32, .hidden = 64, .vocab = 48, .n_blocks = 1, .n_readers = 2};

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
    mpt_policy policies[MANY_LAYERS];
} fixture;

static int layer(const fixture *f, const char *path) {
    for (int i = 0; i < f->graph->n_layers; i++)
        if (strcmp(f->graph->layers[i].path, path) == 0)
            return i;
    fail_msg("no layer %s", path);
    return -1;
}

static mpt_quantizer *slots(fixture *f, const char *path) {
    return f->policies[layer(f, path)].slot;
}

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

/* All slots of `up` and `gate`; everything else is BF16. */
static void fill(fixture *f, mpt_quantizer q) {
    f->graph = small_graph(f->ctx, &net, 2, 16, true);
    assert_true(f->graph->n_layers <= MANY_LAYERS);
    for (int i = 0; i < f->graph->n_layers; i++) {
        bool reader = i == layer(f, "layers.0.up") || i == layer(f, "layers.0.gate");
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            f->policies[i].slot[s] = reader ? q : named("bf16");
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            f->policies[i].output[g] = MPT_DTYPE_BF16;
        f->policies[i].compute = MPT_DTYPE_BF16;
    }
}

static void setup(fixture *f, mpt_quantizer q) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    fill(f, q);
}

static void rewrite(fixture *f) {
    mpt_precision_options options = {
        .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f->policies};
    assert_mpt_ok(f->ctx, mpt_graph_apply_precision(f->graph, &options));
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* The GEMM of a layer. */
static const mpt_node *gemm(const fixture *f, mpt_op op, const char *path) {
    for (int i = 0; i < f->graph->n_nodes; i++)
        if (f->graph->nodes[i].op == op && f->graph->nodes[i].layer == layer(f, path))
            return &f->graph->nodes[i];
    fail_msg("no node");
    return NULL;
}

static const mpt_node *maker(const fixture *f, mpt_value_id v) {
    return &f->graph->nodes[f->graph->values[v].producer];
}

static int count(const fixture *f, mpt_op op, mpt_pass pass) {
    int n = 0;
    for (int i = 0; i < f->graph->n_nodes; i++)
        n += f->graph->nodes[i].op == op && f->graph->nodes[i].pass == pass;
    return n;
}

/* ---- sharing ---- */

/* Rounding that is no draw depends on the value alone. */
static void test_copies_when_rounding_is_toward_zero_then_all_readers_share(void **state) {
    (void)state;
    fixture f;
    mpt_quantizer q = named("e4m3");
    q.rounding = MPT_ROUNDING_TOWARD_ZERO;
    setup(&f, q);
    rewrite(&f);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_FORWARD), 1);
    assert_int_equal(gemm(&f, MPT_OP_linear, "layers.0.up")->in[0],
                     gemm(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]);
    teardown(&f);
}

/* Any field that changes bytes keeps copies apart. */
static void test_copies_when_one_field_differs_then_each_layer_has_its_own(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        fixture f;
        setup(&f, named("nvfp4"));
        mpt_quantizer *x = &slots(&f, "layers.0.gate")[MPT_SLOT_FPROP_X];
        if (i == 0)
            x->headroom = 0.75;
        if (i == 1)
            x->scale_rule = (mpt_scale_rule){MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MAE, 256};
        if (i == 2)
            x->nonfinite = MPT_NONFINITE_SATURATE;
        if (i == 3)
            x->outer = MPT_OUTER_ROW;
        if (i == 4)
            x->rounding = MPT_ROUNDING_HALF_AWAY;
        rewrite(&f);
        assert_int_not_equal(gemm(&f, MPT_OP_linear, "layers.0.up")->in[0],
                             gemm(&f, MPT_OP_linear, "layers.0.gate")->in[0]);
        assert_int_equal(gemm(&f, MPT_OP_linear_wgrad, "layers.0.up")->in[1],
                         gemm(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]);
        teardown(&f);
    }
}

/* pad decides before anything is quantized, so it keeps nothing apart. */
static void test_copies_when_only_pad_differs_then_they_are_shared(void **state) {
    (void)state;
    fixture f;
    setup(&f, named("nvfp4"));
    slots(&f, "layers.0.gate")[MPT_SLOT_FPROP_X].pad = MPT_PAD_ERROR;
    rewrite(&f);
    assert_int_equal(gemm(&f, MPT_OP_linear, "layers.0.up")->in[0],
                     gemm(&f, MPT_OP_linear, "layers.0.gate")->in[0]);
    teardown(&f);
}

static void rotate_wgrad(fixture *f, mpt_hadamard hadamard) {
    static const char *const paths[] = {"layers.0.up", "layers.0.gate"};
    for (int i = 0; i < 2; i++)
        slots(f, paths[i])[MPT_SLOT_WGRAD_X].hadamard =
            slots(f, paths[i])[MPT_SLOT_WGRAD_DY].hadamard = hadamard;
}

static void test_copies_when_layers_draw_signs_of_their_own_then_not_shared(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        fixture f;
        setup(&f, named("nvfp4"));
        rotate_wgrad(&f, (mpt_hadamard){.size = 16,
                                        .signs = MPT_SIGNS_RANDOM,
                                        .scope = own ? MPT_SCOPE_LAYER : MPT_SCOPE_SHARED,
                                        .seed = 7});
        rewrite(&f);
        const mpt_node *up = gemm(&f, MPT_OP_linear_wgrad, "layers.0.up");
        const mpt_node *gate = gemm(&f, MPT_OP_linear_wgrad, "layers.0.gate");
        assert_true((up->in[1] == gate->in[1]) == (own == 0));
        /* Both operands of a product have the signs of its layer. */
        assert_int_equal(maker(&f, up->in[0])->attrs.col_scope,
                         maker(&f, up->in[1])->attrs.col_scope);
        uint32_t key = (uint32_t)mpt_hash("layers.0.up", strlen("layers.0.up"));
        assert_int_equal(maker(&f, up->in[1])->attrs.col_scope, own ? key : 0);
        assert_int_equal(maker(&f, up->in[1])->attrs.row_scope, 0);
        teardown(&f);
    }
}

/* ---- a column copy that is made from the row copy ---- */

static mpt_quantizer dequantized(const char *name) {
    mpt_quantizer q = named(name);
    q.source = MPT_SOURCE_DEQUANTIZED;
    return q;
}

static void test_copies_when_made_from_the_row_copy_then_one_node_makes_both(void **state) {
    (void)state;
    fixture f;
    setup(&f, dequantized("nvfp4"));
    rewrite(&f);
    const mpt_node *x = maker(&f, gemm(&f, MPT_OP_linear, "layers.0.up")->in[0]);
    assert_ptr_equal(x, maker(&f, gemm(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]));
    assert_int_equal(x->attrs.col.source, MPT_SOURCE_DEQUANTIZED);
    assert_int_equal(x->attrs.row.source, MPT_SOURCE_ORIGINAL);
    teardown(&f);
}

/* `gate` wants the same column copy, but from another row copy. */
static void test_copies_when_row_copies_differ_then_their_columns_are_not_shared(void **state) {
    (void)state;
    fixture f;
    setup(&f, dequantized("nvfp4"));
    slots(&f, "layers.0.gate")[MPT_SLOT_FPROP_X] = named("e4m3");
    rewrite(&f);
    const mpt_node *up = maker(&f, gemm(&f, MPT_OP_linear_wgrad, "layers.0.up")->in[1]);
    const mpt_node *gate = maker(&f, gemm(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]);
    assert_ptr_not_equal(up, gate);
    assert_int_equal(up->attrs.row.format, MPT_DTYPE_E2M1);
    assert_int_equal(gate->attrs.row.format, MPT_DTYPE_E4M3);
    teardown(&f);
}

/* Where fprop reads BF16 there is no row copy to make it from. */
static void test_copies_when_there_is_no_row_copy_then_the_original_is_taken(void **state) {
    (void)state;
    fixture f;
    setup(&f, dequantized("nvfp4"));
    slots(&f, "layers.0.up")[MPT_SLOT_FPROP_X] = named("bf16");
    slots(&f, "layers.0.gate")[MPT_SLOT_FPROP_X] = named("bf16");
    rewrite(&f);
    const mpt_node *x = maker(&f, gemm(&f, MPT_OP_linear_wgrad, "layers.0.up")->in[1]);
    assert_false(x->attrs.has_row);
    assert_int_equal(x->attrs.col.source, MPT_SOURCE_ORIGINAL);
    teardown(&f);
}

/* ---- delayed scaling ---- */

static void test_rewrite_when_delayed_then_nodes_read_state_that_is_updated_last(void **state) {
    (void)state;
    fixture f;
    mpt_quantizer q = named("e4m3");
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 16};
    setup(&f, q);
    int n_before = f.graph->n_nodes;
    rewrite(&f);
    /* The weights of both layers, the norm that they share, the gradient that they share. */
    assert_int_equal(f.graph->n_operands, 4);
    assert_int_equal(count(&f, MPT_OP_scale_update, MPT_PASS_UPDATE), 4);
    assert_true(f.graph->n_nodes > n_before);
    for (int i = 0; i < 4; i++)
        assert_int_equal(f.graph->nodes[f.graph->n_nodes - 1 - i].op, MPT_OP_scale_update);
    const mpt_node *x = maker(&f, gemm(&f, MPT_OP_linear, "layers.0.up")->in[0]);
    const mpt_graph_operand *operand = &f.graph->operands[x->attrs.row_index];
    assert_int_equal(x->n_in, 3);
    assert_int_equal(x->in[1], operand->scale);
    assert_int_equal(x->in[2], operand->history);
    assert_string_equal(operand->name, "layers.0.up.fprop.x");
    assert_string_equal(f.graph->values[operand->scale].name, "scale.layers.0.up.fprop.x");
    assert_string_equal(f.graph->values[operand->history].name,
                        "amax_history.layers.0.up.fprop.x");
    assert_int_equal(f.graph->values[operand->history].dims[0], 16);
    teardown(&f);
}

/* ---- outer scales ---- */

static void test_rewrite_when_outer_is_row_then_factors_are_vectors(void **state) {
    (void)state;
    fixture f;
    mpt_quantizer q = named("nvfp4");
    q.outer = MPT_OUTER_ROW;
    setup(&f, q);
    rewrite(&f);
    const mpt_node *fprop = gemm(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *dgrad = gemm(&f, MPT_OP_linear_dgrad, "layers.0.up");
    const mpt_node *wgrad = gemm(&f, MPT_OP_linear_wgrad, "layers.0.up");
    const mpt_value *values = f.graph->values;
    assert_int_equal(values[fprop->in[3]].dims[0], 32); /* tokens */
    assert_int_equal(values[fprop->in[4]].dims[0], 64); /* out features */
    assert_int_equal(values[dgrad->in[3]].dims[0], 32);
    assert_int_equal(values[dgrad->in[4]].dims[0], 32); /* in features */
    assert_int_equal(values[wgrad->in[3]].dims[0], 64);
    assert_int_equal(values[wgrad->in[4]].dims[0], 32);
    teardown(&f);
}

static void test_rewrite_when_headroom_or_bound_then_alpha_follows_them(void **state) {
    (void)state;
    static const struct {
        mpt_scale_rule rule;
        double headroom;
        double divisor;
    } rows[] = {{{MPT_RULE_NEAREST, MPT_ERROR_MAE, 0}, 1, 448 * 6},
                {{MPT_RULE_NEAREST, MPT_ERROR_MAE, 0}, 0.75, 448 * 4.5},
                {{MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MAE, 256}, 1, 256 * 6},
                {{MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MSE, 448}, 1, 448 * 6}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        mpt_quantizer q = named("nvfp4");
        q.scale_rule = rows[i].rule;
        q.headroom = rows[i].headroom;
        setup(&f, q);
        rewrite(&f);
        float alpha = (float)(1.0 / (rows[i].divisor * rows[i].divisor));
        assert_true(gemm(&f, MPT_OP_linear, "layers.0.up")->attrs.alpha == alpha);
        assert_true(gemm(&f, MPT_OP_linear_wgrad, "layers.0.up")->attrs.alpha == alpha);
        teardown(&f);
    }
}

/* ---- memory ---- */

/* An allocator that refuses the n-th call. */
static void *failing_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    int *left = ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return *left >= 0 && (*left)-- == 0 ? NULL : realloc(ptr, new_size);
}

static void
test_rewrite_when_any_allocation_fails_then_refused_and_nothing_leaks(void **state) {
    (void)state;
    mpt_status status = MPT_OUT_OF_MEMORY;
    for (int n = 0; status != MPT_OK; n++) {
        fixture f;
        int left = -1;
        mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
        options.alloc = failing_alloc;
        options.alloc_ud = &left;
        mpt_quantizer q = named("e4m3");
        q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 4};
        memset(&f, 0, sizeof f);
        assert_int_equal(mpt_ctx_create(&options, &f.ctx), MPT_OK);
        fill(&f, q);
        left = n;
        mpt_precision_options precision = {
            .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f.policies};
        status = mpt_graph_apply_precision(f.graph, &precision);
        left = -1;
        if (status != MPT_OK)
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
        teardown(&f);
        assert_true(n < 1000);
    }
}

/* ---- wide formats ---- */

/* TF32 holds BF16, so only the FP32 weights are rounded to it. */
static void test_rewrite_when_tf32_then_what_it_holds_is_read_as_it_is(void **state) {
    (void)state;
    fixture f;
    setup(&f, named("tf32"));
    rewrite(&f);
    const mpt_node *fprop = gemm(&f, MPT_OP_linear, "layers.0.up");
    assert_int_equal(f.graph->values[fprop->in[0]].dtype, MPT_DTYPE_BF16);
    assert_int_equal(f.graph->values[fprop->in[1]].dtype, MPT_DTYPE_TF32);
    assert_int_equal(maker(&f, fprop->in[1])->op, MPT_OP_cast);
    assert_int_equal(f.graph->n_operands, 0);
    teardown(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_copies_when_rounding_is_toward_zero_then_all_readers_share),
    cmocka_unit_test(test_copies_when_one_field_differs_then_each_layer_has_its_own),
    cmocka_unit_test(test_copies_when_only_pad_differs_then_they_are_shared),
    cmocka_unit_test(test_copies_when_layers_draw_signs_of_their_own_then_not_shared),
    cmocka_unit_test(test_copies_when_made_from_the_row_copy_then_one_node_makes_both),
    cmocka_unit_test(test_copies_when_row_copies_differ_then_their_columns_are_not_shared),
    cmocka_unit_test(test_copies_when_there_is_no_row_copy_then_the_original_is_taken),
    cmocka_unit_test(test_rewrite_when_delayed_then_nodes_read_state_that_is_updated_last),
    cmocka_unit_test(test_rewrite_when_outer_is_row_then_factors_are_vectors),
    cmocka_unit_test(test_rewrite_when_headroom_or_bound_then_alpha_follows_them),
    cmocka_unit_test(test_rewrite_when_any_allocation_fails_then_refused_and_nothing_leaks),
    cmocka_unit_test(test_rewrite_when_tf32_then_what_it_holds_is_read_as_it_is),
};

MPT_TEST_MAIN(cases)
