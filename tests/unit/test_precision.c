/* graph/precision.c: which casts and quantize nodes a policy makes, and who reads them. */
#include "mpt_test.h"

#include "recipe/schema.h"
#include "small_net.h"

enum { MANY_LAYERS = 32 };

static const small_net one_block = {
    .width = 32, .hidden = 64, .vocab = 48, .n_blocks = 1, .n_readers = 1};
static const small_net shared_block = {
    .width = 32, .hidden = 64, .vocab = 48, .n_blocks = 1, .n_readers = 2};

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
    mpt_policy policies[MANY_LAYERS];
    mpt_precision_options options;
} fixture;

/* A graph after stage 4, with every layer in BF16. */
static void setup(fixture *f, const small_net *net) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    f->graph = small_graph(f->ctx, net, 2, 16, true);
    assert_true(f->graph->n_layers <= MANY_LAYERS);
    for (int i = 0; i < f->graph->n_layers; i++) {
        mpt_policy *policy = &f->policies[i];
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            policy->slot[s] = named("bf16");
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            policy->output[g] = MPT_DTYPE_BF16;
        policy->compute = MPT_DTYPE_BF16;
        if (f->graph->layers[i].kind == MPT_LAYER_HEAD)
            policy->output[MPT_GEMM_FPROP] = MPT_DTYPE_FP32;
    }
    f->options = (mpt_precision_options){
        .base = MPT_DTYPE_BF16, .residual = MPT_DTYPE_BF16, .policies = f->policies};
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static int layer(const fixture *f, const char *path) {
    for (int i = 0; i < f->graph->n_layers; i++)
        if (strcmp(f->graph->layers[i].path, path) == 0)
            return i;
    fail_msg("no layer %s", path);
    return -1;
}

static mpt_policy *policy(fixture *f, const char *path) {
    return &f->policies[layer(f, path)];
}

static void all_slots(mpt_policy *p, mpt_quantizer q) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        p->slot[s] = q;
}

/* The NVFP4 recipe of the design: square weights, stochastic gradients, rotated wgrad. */
static void nvfp4(mpt_policy *p) {
    all_slots(p, named("nvfp4"));
    p->slot[MPT_SLOT_FPROP_W].block_rows = p->slot[MPT_SLOT_DGRAD_W].block_rows = 16;
    p->slot[MPT_SLOT_DGRAD_DY].rounding = p->slot[MPT_SLOT_WGRAD_DY].rounding =
        MPT_ROUNDING_STOCHASTIC;
    p->slot[MPT_SLOT_WGRAD_DY].hadamard.size = p->slot[MPT_SLOT_WGRAD_X].hadamard.size = 16;
}

static void rewrite(fixture *f) {
    assert_mpt_ok(f->ctx, mpt_graph_apply_precision(f->graph, &f->options));
}

static int count(const fixture *f, mpt_op op, mpt_pass pass) {
    int n = 0;
    for (int i = 0; i < f->graph->n_nodes; i++)
        n += f->graph->nodes[i].op == op && f->graph->nodes[i].pass == pass;
    return n;
}

/* The only node of an op in a layer. */
static const mpt_node *find(const fixture *f, mpt_op op, const char *path) {
    const mpt_node *found = NULL;
    for (int i = 0; i < f->graph->n_nodes; i++) {
        const mpt_node *node = &f->graph->nodes[i];
        if (node->op != op || node->layer != layer(f, path))
            continue;
        assert_null(found);
        found = node;
    }
    assert_non_null(found);
    return found;
}

static const mpt_node *producer(const fixture *f, mpt_value_id v) {
    int32_t index = f->graph->values[v].producer;
    return index < 0 ? NULL : &f->graph->nodes[index];
}

static mpt_dtype dtype(const fixture *f, mpt_value_id v) {
    return f->graph->values[v].dtype;
}

/* ---- plain formats ---- */

static void test_rewrite_when_all_fp32_then_no_node_is_added(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    f.options.base = f.options.residual = MPT_DTYPE_FP32;
    for (int i = 0; i < f.graph->n_layers; i++) {
        all_slots(&f.policies[i], named("fp32"));
        f.policies[i].compute = MPT_DTYPE_FP32;
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            f.policies[i].output[g] = MPT_DTYPE_FP32;
    }
    int before = f.graph->n_nodes;
    rewrite(&f);
    assert_int_equal(f.graph->n_nodes, before);
    for (int v = 0; v < f.graph->n_values; v++)
        assert_true(dtype(&f, v) == MPT_DTYPE_FP32 || dtype(&f, v) == MPT_DTYPE_I32);
    teardown(&f);
}

static void test_rewrite_when_bf16_then_only_weights_and_logits_are_cast(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    rewrite(&f);
    /* up, down and head weights once a step; the gradient of FP32 logits once a micro-batch. */
    assert_int_equal(count(&f, MPT_OP_cast, MPT_PASS_PREPARE), 3);
    assert_int_equal(count(&f, MPT_OP_cast, MPT_PASS_FORWARD), 0);
    assert_int_equal(count(&f, MPT_OP_cast, MPT_PASS_BACKWARD), 1);
    for (mpt_pass pass = 0; pass < MPT_PASS_COUNT; pass++)
        assert_int_equal(count(&f, MPT_OP_quantize, pass), 0);
    const mpt_node *up = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *dgrad = find(&f, MPT_OP_linear_dgrad, "layers.0.up");
    assert_int_equal(up->in[1], dgrad->in[1]);
    assert_int_equal(f.graph->values[up->in[1]].kind, MPT_VALUE_WORKING);
    assert_string_equal(producer(&f, up->in[1])->slot, "fprop.w + dgrad.w");
    teardown(&f);
}

static void test_rewrite_when_bf16_then_dtypes_follow_the_rules(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    rewrite(&f);
    const mpt_node *head = find(&f, MPT_OP_linear, "lm_head");
    const mpt_node *down = find(&f, MPT_OP_linear, "layers.0.down");
    assert_int_equal(dtype(&f, find(&f, MPT_OP_embedding, "embeddings")->out[0]),
                     MPT_DTYPE_BF16);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_rmsnorm, "layers.0.norm")->out[0]),
                     MPT_DTYPE_BF16);
    assert_int_equal(dtype(&f, head->out[0]), MPT_DTYPE_FP32);
    assert_int_equal(dtype(&f, f.graph->loss), MPT_DTYPE_FP32);
    assert_int_equal(dtype(&f, down->in[2]), MPT_DTYPE_FP32); /* the bias as it is */
    assert_int_equal(dtype(&f, find(&f, MPT_OP_linear_dgrad, "lm_head")->out[0]),
                     MPT_DTYPE_BF16);
    for (int p = 0; p < f.graph->n_params; p++) {
        assert_int_equal(dtype(&f, f.graph->params[p].value), MPT_DTYPE_FP32);
        assert_int_equal(dtype(&f, f.graph->params[p].grad), MPT_DTYPE_FP32);
    }
    teardown(&f);
}

static void test_rewrite_when_residual_is_fp32_then_stream_and_its_gradient_are(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    f.options.residual = MPT_DTYPE_FP32;
    rewrite(&f);
    const mpt_node *norm_f = find(&f, MPT_OP_rmsnorm, "norm_f");
    assert_int_equal(dtype(&f, norm_f->in[0]), MPT_DTYPE_FP32);
    assert_int_equal(dtype(&f, norm_f->out[0]), MPT_DTYPE_BF16);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_rmsnorm_grad, "norm_f")->out[0]),
                     MPT_DTYPE_FP32);
    /* dy of `down` is the stream's gradient: cast once for dgrad and wgrad. */
    const mpt_node *dgrad = find(&f, MPT_OP_linear_dgrad, "layers.0.down");
    const mpt_node *wgrad = find(&f, MPT_OP_linear_wgrad, "layers.0.down");
    assert_int_equal(dgrad->in[0], wgrad->in[0]);
    assert_int_equal(producer(&f, dgrad->in[0])->op, MPT_OP_cast);
    assert_string_equal(producer(&f, dgrad->in[0])->slot, "dgrad.dy + wgrad.dy");
    teardown(&f);
}

static void
test_rewrite_when_residual_is_narrower_than_outputs_then_sums_keep_it(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    policy(&f, "layers.0.down")->output[MPT_GEMM_FPROP] = MPT_DTYPE_FP32;
    rewrite(&f);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_linear, "layers.0.down")->out[0]),
                     MPT_DTYPE_FP32);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_rmsnorm, "norm_f")->in[0]), MPT_DTYPE_BF16);
    teardown(&f);
}

static void test_rewrite_when_dgrad_output_is_fp32_then_dx_is(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    policy(&f, "layers.0.up")->output[MPT_GEMM_DGRAD] = MPT_DTYPE_FP32;
    rewrite(&f);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_linear_dgrad, "layers.0.up")->out[0]),
                     MPT_DTYPE_FP32);
    teardown(&f);
}

static void
test_rewrite_when_a_rule_names_the_embedding_then_it_outranks_residual(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    policy(&f, "embeddings")->compute = MPT_DTYPE_FP32;
    policy(&f, "embeddings")->n_decided = 1;
    rewrite(&f);
    assert_int_equal(dtype(&f, find(&f, MPT_OP_embedding, "embeddings")->out[0]),
                     MPT_DTYPE_FP32);
    teardown(&f);
}

static void test_rewrite_when_fp16_meets_bf16_then_the_sum_is_fp32(void **state) {
    (void)state;
    fixture f;
    setup(&f, &shared_block);
    policy(&f, "layers.0.up")->output[MPT_GEMM_FPROP] = MPT_DTYPE_FP16;
    rewrite(&f);
    mpt_value_id up = find(&f, MPT_OP_linear, "layers.0.up")->out[0];
    for (int i = 0; i < f.graph->n_nodes; i++)
        if (f.graph->nodes[i].op == MPT_OP_add && f.graph->nodes[i].in[0] == up)
            assert_int_equal(dtype(&f, f.graph->nodes[i].out[0]), MPT_DTYPE_FP32);
    /* The gradient of an FP16 value feeds BF16 slots: neither holds the other. */
    assert_int_equal(producer(&f, find(&f, MPT_OP_linear_dgrad, "layers.0.up")->in[0])->op,
                     MPT_OP_cast);
    teardown(&f);
}

/* ---- quantized formats ---- */

static void test_rewrite_when_fp8_per_tensor_then_one_copy_serves_both_gemms(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    all_slots(policy(&f, "layers.0.up"), named("e4m3"));
    policy(&f, "layers.0.up")->slot[MPT_SLOT_DGRAD_DY] = named("e5m2");
    policy(&f, "layers.0.up")->slot[MPT_SLOT_WGRAD_DY] = named("e5m2");
    rewrite(&f);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_PREPARE), 1);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_FORWARD), 1);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_BACKWARD), 1);
    const mpt_node *fprop = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *wgrad = find(&f, MPT_OP_linear_wgrad, "layers.0.up");
    const mpt_node *x = producer(&f, fprop->in[0]);
    assert_true(x->attrs.has_row && !x->attrs.has_col);
    assert_string_equal(x->slot, "fprop.x + wgrad.x");
    assert_int_equal(fprop->in[0], wgrad->in[1]);
    assert_int_equal(fprop->in[3], wgrad->in[4]);
    assert_int_equal(fprop->in[3], x->out[1]);
    assert_int_equal(dtype(&f, fprop->in[0]), MPT_DTYPE_E4M3);
    assert_int_equal(dtype(&f, wgrad->in[0]), MPT_DTYPE_E5M2);
    assert_true(fprop->attrs.alpha == 1.0f);
    teardown(&f);
}

static void test_rewrite_when_nvfp4_then_one_node_carries_both_copies(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    rewrite(&f);
    const mpt_node *fprop = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *dgrad = find(&f, MPT_OP_linear_dgrad, "layers.0.up");
    const mpt_node *wgrad = find(&f, MPT_OP_linear_wgrad, "layers.0.up");
    const mpt_node *x = producer(&f, fprop->in[0]), *dy = producer(&f, dgrad->in[0]);
    assert_ptr_equal(x, producer(&f, wgrad->in[1]));
    assert_ptr_equal(dy, producer(&f, wgrad->in[0]));
    assert_int_equal(x->pass, MPT_PASS_FORWARD);
    assert_int_equal(dy->pass, MPT_PASS_BACKWARD);
    assert_int_equal(wgrad->in[1], x->out[2]);
    assert_int_equal(wgrad->in[4], x->out[3]);
    assert_int_equal(wgrad->in[0], dy->out[2]);
    assert_int_equal(wgrad->in[3], dy->out[3]);
    assert_int_equal(dgrad->in[3], dy->out[1]);
    assert_int_equal(x->attrs.col.hadamard.size, 16);
    assert_int_equal(x->attrs.row.hadamard.size, 0);
    assert_int_equal(dy->attrs.row.rounding, MPT_ROUNDING_STOCHASTIC);
    assert_string_equal(dy->slot, "dgrad.dy + wgrad.dy");
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_FORWARD), 1);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_BACKWARD), 1);
    teardown(&f);
}

static void test_rewrite_when_weight_blocks_are_square_then_no_column_copy(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    rewrite(&f);
    const mpt_node *fprop = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *dgrad = find(&f, MPT_OP_linear_dgrad, "layers.0.up");
    const mpt_node *w = producer(&f, fprop->in[1]);
    assert_int_equal(w->pass, MPT_PASS_PREPARE);
    assert_false(w->attrs.has_col);
    assert_int_equal(fprop->in[1], dgrad->in[1]);
    assert_int_equal(fprop->in[4], dgrad->in[4]);
    assert_int_equal(f.graph->values[fprop->in[4]].kind, MPT_VALUE_WORKING);
    teardown(&f);
}

static void test_rewrite_when_weight_blocks_are_rows_then_two_copies(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    all_slots(policy(&f, "layers.0.up"), named("nvfp4"));
    rewrite(&f);
    const mpt_node *w = producer(&f, find(&f, MPT_OP_linear, "layers.0.up")->in[1]);
    assert_true(w->attrs.has_row && w->attrs.has_col);
    assert_int_equal(find(&f, MPT_OP_linear_dgrad, "layers.0.up")->in[1], w->out[2]);
    teardown(&f);
}

static void test_rewrite_when_square_blocks_are_stochastic_then_two_copies(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    policy(&f, "layers.0.up")->slot[MPT_SLOT_FPROP_W].rounding = MPT_ROUNDING_STOCHASTIC;
    policy(&f, "layers.0.up")->slot[MPT_SLOT_DGRAD_W].rounding = MPT_ROUNDING_STOCHASTIC;
    rewrite(&f);
    const mpt_node *w = producer(&f, find(&f, MPT_OP_linear, "layers.0.up")->in[1]);
    assert_true(w->attrs.has_row && w->attrs.has_col);
    teardown(&f);
}

static void test_rewrite_when_nvfp4_then_alpha_takes_the_constants(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    policy(&f, "layers.0.down")->slot[MPT_SLOT_FPROP_X] = named("nvfp4");
    policy(&f, "layers.0.down")->slot[MPT_SLOT_FPROP_W] = named("e4m3");
    rewrite(&f);
    float both = (float)(1.0 / 2688.0 * (1.0 / 2688.0)), one = (float)(1.0 / 2688.0);
    const mpt_node *down = find(&f, MPT_OP_linear, "layers.0.down");
    assert_true(find(&f, MPT_OP_linear, "layers.0.up")->attrs.alpha == both);
    assert_true(find(&f, MPT_OP_linear_dgrad, "layers.0.up")->attrs.alpha == both);
    assert_true(find(&f, MPT_OP_linear_wgrad, "layers.0.up")->attrs.alpha == both);
    assert_true(down->attrs.alpha == one);
    assert_true(down->in[3] >= 0 && down->in[4] >= 0);
    assert_true(find(&f, MPT_OP_linear_dgrad, "layers.0.down")->attrs.alpha == 1.0f);
    assert_int_equal(find(&f, MPT_OP_linear_dgrad, "layers.0.down")->in[3], -1);
    teardown(&f);
}

static void test_rewrite_when_only_wgrad_is_quantized_then_only_column_copies(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    policy(&f, "layers.0.up")->slot[MPT_SLOT_WGRAD_X] = named("nvfp4");
    policy(&f, "layers.0.up")->slot[MPT_SLOT_WGRAD_DY] = named("nvfp4");
    rewrite(&f);
    const mpt_node *fprop = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *wgrad = find(&f, MPT_OP_linear_wgrad, "layers.0.up");
    const mpt_node *x = producer(&f, wgrad->in[1]);
    assert_int_equal(x->op, MPT_OP_quantize);
    assert_int_equal(x->pass, MPT_PASS_FORWARD); /* packs what waits for backward */
    assert_true(!x->attrs.has_row && x->attrs.has_col);
    assert_int_equal(x->out[0], -1);
    assert_int_equal(fprop->in[0], x->in[0]);
    assert_int_equal(fprop->in[3], -1);
    teardown(&f);
}

/* ---- sharing ---- */

static void
test_rewrite_when_two_layers_read_one_tensor_then_it_is_quantized_once(void **state) {
    (void)state;
    fixture f;
    setup(&f, &shared_block);
    nvfp4(policy(&f, "layers.0.up"));
    nvfp4(policy(&f, "layers.0.gate"));
    rewrite(&f);
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_FORWARD), 1);
    assert_int_equal(find(&f, MPT_OP_linear, "layers.0.up")->in[0],
                     find(&f, MPT_OP_linear, "layers.0.gate")->in[0]);
    assert_int_equal(find(&f, MPT_OP_linear_wgrad, "layers.0.up")->in[1],
                     find(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]);
    teardown(&f);
}

static void test_rewrite_when_two_layers_differ_then_each_has_its_copy(void **state) {
    (void)state;
    fixture f;
    setup(&f, &shared_block);
    nvfp4(policy(&f, "layers.0.up"));
    all_slots(policy(&f, "layers.0.gate"), named("e4m3"));
    rewrite(&f);
    const mpt_node *up = find(&f, MPT_OP_linear, "layers.0.up");
    const mpt_node *gate = find(&f, MPT_OP_linear, "layers.0.gate");
    assert_int_equal(count(&f, MPT_OP_quantize, MPT_PASS_FORWARD), 2);
    assert_int_equal(producer(&f, up->in[0])->attrs.row.format, MPT_DTYPE_E2M1);
    assert_int_equal(producer(&f, gate->in[0])->attrs.row.format, MPT_DTYPE_E4M3);
    assert_int_equal(find(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1], gate->in[0]);
    teardown(&f);
}

static void test_rewrite_when_activation_is_stochastic_then_it_is_not_shared(void **state) {
    (void)state;
    fixture f;
    setup(&f, &shared_block);
    nvfp4(policy(&f, "layers.0.up"));
    nvfp4(policy(&f, "layers.0.gate"));
    policy(&f, "layers.0.up")->slot[MPT_SLOT_FPROP_X].rounding = MPT_ROUNDING_STOCHASTIC;
    policy(&f, "layers.0.gate")->slot[MPT_SLOT_FPROP_X].rounding = MPT_ROUNDING_STOCHASTIC;
    rewrite(&f);
    const mpt_node *up = producer(&f, find(&f, MPT_OP_linear, "layers.0.up")->in[0]);
    const mpt_node *gate = producer(&f, find(&f, MPT_OP_linear, "layers.0.gate")->in[0]);
    assert_ptr_not_equal(up, gate);
    assert_int_not_equal(up->attrs.row_operand, gate->attrs.row_operand);
    /* The column copies are rounded to nearest, and so shared all the same. */
    assert_int_equal(find(&f, MPT_OP_linear_wgrad, "layers.0.up")->in[1],
                     find(&f, MPT_OP_linear_wgrad, "layers.0.gate")->in[1]);
    teardown(&f);
}

static void test_rewrite_when_stochastic_then_operand_is_the_hash_of_its_place(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    rewrite(&f);
    static const char row[] = "layers.0.up/dgrad.dy", col[] = "layers.0.up/wgrad.dy";
    const mpt_node *dy = producer(&f, find(&f, MPT_OP_linear_dgrad, "layers.0.up")->in[0]);
    assert_int_equal(dy->attrs.row_operand, mpt_hash(row, sizeof row - 1) & 0x7fffffffu);
    assert_int_equal(dy->attrs.col_operand, mpt_hash(col, sizeof col - 1) & 0x7fffffffu);
    teardown(&f);
}

static void test_rewrite_when_a_rule_decided_then_the_node_has_its_place(void **state) {
    (void)state;
    fixture f;
    setup(&f, &one_block);
    nvfp4(policy(&f, "layers.0.up"));
    policy(&f, "layers.0.up")->n_decided = 2;
    policy(&f, "layers.0.up")->decided_by[0] = (mpt_where){"r.lua", 7};
    policy(&f, "layers.0.up")->decided_by[1] = (mpt_where){"r.lua", 9};
    rewrite(&f);
    const mpt_node *x = producer(&f, find(&f, MPT_OP_linear, "layers.0.up")->in[0]);
    assert_string_equal(x->where.file, "r.lua");
    assert_int_equal(x->where.line, 9);
    teardown(&f);
}

static void test_rewrite_when_done_then_copies_stand_behind_what_they_copy(void **state) {
    (void)state;
    fixture f;
    setup(&f, &shared_block);
    for (int i = 0; i < f.graph->n_layers; i++)
        nvfp4(&f.policies[i]);
    rewrite(&f);
    mpt_pass last = MPT_PASS_PREPARE;
    for (int i = 0; i < f.graph->n_nodes; i++) {
        const mpt_node *node = &f.graph->nodes[i];
        assert_true(node->pass >= last); /* this graph has no update, so passes follow */
        last = node->pass;
        if (node->op != MPT_OP_quantize || node->pass == MPT_PASS_PREPARE)
            continue;
        for (int j = f.graph->values[node->in[0]].producer + 1; j < i; j++)
            assert_int_equal(f.graph->nodes[j].in[0], node->in[0]);
    }
    teardown(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rewrite_when_all_fp32_then_no_node_is_added),
    cmocka_unit_test(test_rewrite_when_bf16_then_only_weights_and_logits_are_cast),
    cmocka_unit_test(test_rewrite_when_bf16_then_dtypes_follow_the_rules),
    cmocka_unit_test(test_rewrite_when_residual_is_fp32_then_stream_and_its_gradient_are),
    cmocka_unit_test(test_rewrite_when_residual_is_narrower_than_outputs_then_sums_keep_it),
    cmocka_unit_test(test_rewrite_when_dgrad_output_is_fp32_then_dx_is),
    cmocka_unit_test(test_rewrite_when_a_rule_names_the_embedding_then_it_outranks_residual),
    cmocka_unit_test(test_rewrite_when_fp16_meets_bf16_then_the_sum_is_fp32),
    cmocka_unit_test(test_rewrite_when_fp8_per_tensor_then_one_copy_serves_both_gemms),
    cmocka_unit_test(test_rewrite_when_nvfp4_then_one_node_carries_both_copies),
    cmocka_unit_test(test_rewrite_when_weight_blocks_are_square_then_no_column_copy),
    cmocka_unit_test(test_rewrite_when_weight_blocks_are_rows_then_two_copies),
    cmocka_unit_test(test_rewrite_when_square_blocks_are_stochastic_then_two_copies),
    cmocka_unit_test(test_rewrite_when_nvfp4_then_alpha_takes_the_constants),
    cmocka_unit_test(test_rewrite_when_only_wgrad_is_quantized_then_only_column_copies),
    cmocka_unit_test(test_rewrite_when_two_layers_read_one_tensor_then_it_is_quantized_once),
    cmocka_unit_test(test_rewrite_when_two_layers_differ_then_each_has_its_copy),
    cmocka_unit_test(test_rewrite_when_activation_is_stochastic_then_it_is_not_shared),
    cmocka_unit_test(test_rewrite_when_stochastic_then_operand_is_the_hash_of_its_place),
    cmocka_unit_test(test_rewrite_when_a_rule_decided_then_the_node_has_its_place),
    cmocka_unit_test(test_rewrite_when_done_then_copies_stand_behind_what_they_copy),
};

MPT_TEST_MAIN(cases)
