/* Mixtures of experts in whole graphs: what nn.moe draws and refuses, that training with them
 * repeats bit for bit over threads and recomputation, in every kind of format, and that the
 * bias of the choice moves with applied steps and with nothing else. */
#include "allowance.h"
#include "recompute_case.h"

#include <math.h>

#include "train/weights.h"

/* ---- models ---- */

typedef struct mixture {
    int64_t width, hidden;
    int32_t experts, top_k, align;
    float balance;
    bool gated, softmax;
} mixture;

static mpt_nn_args moe_args(const mixture *m, mpt_value_id x) {
    mpt_nn_args a = {.name = "mlp", .n_in = 1, .in = {x}, .bias = true};
    a.attrs = (mpt_attrs){.experts = m->experts,
                          .top_k = m->top_k,
                          .align = m->align,
                          .scale = 1.5f,
                          .normalize = true,
                          .by_softmax = m->softmax};
    a.moe = (mpt_nn_experts){.hidden = m->hidden, .gated = m->gated, .balance = m->balance};
    return a;
}

static mpt_status draw_mixture(mpt_graph *graph, const mixture *m, int blocks) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, m->width);
    for (int i = 0; d.status == MPT_OK && i < blocks; i++) {
        mpt_value_id y = -1;
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_nn_args args = moe_args(m, draw1(&d, MPT_OP_rmsnorm, "norm", x));
        draw_note(&d, mpt_nn_moe(&d.nn, &args, &y));
        x = draw_add(&d, x, y);
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    x = draw(&d, MPT_OP_linear,
             (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .head = true});
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

static const mixture gated = {.width = 32,
                              .hidden = 32,
                              .experts = 5,
                              .top_k = 2,
                              .align = 32,
                              .gated = true,
                              .balance = 0.001f};
static const mixture plain = {.width = 32,
                              .hidden = 48,
                              .experts = 4,
                              .top_k = 1,
                              .align = 16,
                              .softmax = true,
                              .balance = 0.05f};
static const mixture wide = {
    .width = 128, .hidden = 128, .experts = 3, .top_k = 2, .align = 128, .balance = 0.001f};

static mpt_status draw_gated(mpt_graph *graph) {
    return draw_mixture(graph, &gated, 2);
}

static mpt_status draw_plain(mpt_graph *graph) {
    return draw_mixture(graph, &plain, 1);
}

static mpt_status draw_wide(mpt_graph *graph) {
    return draw_mixture(graph, &wide, 1);
}

/* ---- what is drawn ---- */

static mpt_graph *whole_graph(mpt_ctx *ctx) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 16, 32, &graph));
    assert_mpt_ok(ctx, draw_gated(graph));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    return graph;
}

static const mpt_param *param_of(const mpt_graph *graph, const char *name) {
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return &graph->params[p];
    fail_msg("no parameter %s", name);
    return NULL;
}

static void test_moe_when_drawn_then_layers_and_parameters_have_their_names(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    const mpt_layer *gate = &graph->layers[rig_layer(graph, "layers.1.mlp.gate")];
    const mpt_layer *down = &graph->layers[rig_layer(graph, "layers.1.mlp.experts.down_proj")];
    assert_int_equal(gate->kind, MPT_LAYER_ROUTER);
    assert_int_equal(gate->n_experts, 0);
    assert_int_equal(down->kind, MPT_LAYER_LINEAR);
    assert_int_equal(down->n_experts, 5);
    assert_int_equal(down->out_features, 32);
    const mpt_param *up = param_of(graph, "layers.0.mlp.experts.up_proj.weight");
    assert_int_equal(up->n_experts, 5);
    assert_int_equal(graph->values[up->value].dims[0], 5 * 32);
    const mpt_param *bias = param_of(graph, "layers.0.mlp.gate.e_score_correction_bias");
    assert_true(bias->balanced && bias->rate == 0.001f);
    mpt_graph_destroy(graph);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_update_when_a_bias_is_balanced_then_it_is_measured_nowhere(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    mpt_train train = {.clip = 1, .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    int norms = 0, balances = 0, steps = 0;
    assert_mpt_ok(ctx, mpt_graph_append_update(graph, &train));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "update"));
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        norms += node->op == MPT_OP_grad_norm;
        steps += node->op == MPT_OP_adamw;
        balances += node->op == MPT_OP_moe_balance;
        if (node->op == MPT_OP_grad_norm || node->op == MPT_OP_adamw)
            assert_false(graph->params[graph->values[node->in[0]].param].balanced);
    }
    assert_int_equal(balances, 2);
    assert_int_equal(norms, graph->n_params - 2);
    assert_int_equal(steps, graph->n_params - 2);
    assert_int_equal(param_of(graph, "layers.0.mlp.gate.e_score_correction_bias")->moment[0],
                     -1);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* A checkpoint has each expert's weight as a tensor: the rows of that expert, and no others. */
static void test_weights_when_mapped_then_experts_are_tensors_of_their_own(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = whole_graph(ctx);
    mpt_weights_map map;
    int n = 0;
    assert_mpt_ok(ctx, mpt_weights_map_create(graph, MPT_WEIGHTS_HF, &map));
    for (int i = 0; i < map.n; i++) {
        const mpt_weight *w = &map.weights[i];
        n += strstr(w->name, ".experts.") != NULL;
        if (strcmp(w->name, "layers.1.mlp.experts.3.down_proj.weight") != 0)
            continue;
        assert_string_equal(graph->params[w->param].name,
                            "layers.1.mlp.experts.down_proj.weight");
        assert_int_equal(w->first, 3 * 32);
        assert_int_equal(w->rows, 32);
        assert_int_equal(w->dims[0], 32);
        n += 1000;
    }
    assert_int_equal(n, 1000 + 2 * 3 * 5);
    mpt_weights_map_destroy(&map);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void refused(mixture m, bool bias, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    mpt_value_id ids = -1, y = -1;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 16, 32, &graph));
    test_draw d = draw_begin(graph);
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_nn_args args = moe_args(&m, draw_embedding(&d, "embed", ids, 0, 32));
    args.bias = bias;
    assert_int_equal(mpt_nn_moe(&d.nn, &args, &y), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    assert_true(d.nn.failed);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void test_moe_when_asked_for_what_cannot_be_then_refused(void **state) {
    (void)state;
    mixture m = gated;
    m.experts = 0;
    refused(m, true, "model.lua:1: mlp: moe: experts is 0, expected at least 1");
    m = gated;
    m.top_k = 6;
    refused(m, true, "model.lua:1: mlp: moe: top_k is 6, expected 1 to 5");
    m = gated;
    m.hidden = 0;
    refused(m, true, "model.lua:1: mlp: moe: hidden is 0, expected at least 1");
    refused(gated, false,
            "model.lua:1: mlp.gate: moe_route: balance moves a bias, which there is none of: "
            "say bias = true");
    m = gated;
    m.align = 5000;
    refused(m, true, "model.lua:1: mlp.gate: moe_route: align is 5000, expected 1 to 4096");
}

static void test_moe_when_any_allocation_fails_then_nothing_is_left(void **state) {
    (void)state;
    allowance a;
    for (long left = 1;; left++) {
        mpt_graph *graph = NULL;
        mpt_ctx *ctx = allowance_context(&a, left);
        mpt_status status = mpt_graph_create(ctx, 2, 16, 32, &graph);
        if (status == MPT_OK)
            status = draw_gated(graph);
        if (status == MPT_OK)
            status = mpt_graph_autodiff(graph);
        mpt_graph_destroy(graph);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (status == MPT_OK)
            return;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
    }
}

/* ---- training ---- */

/* Experts as the variant says; routers and all else in FP32 or BF16. */
static void choose_experts(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    choose(ud, graph, phase, policies);
    for (int i = 0; i < graph->n_layers; i++) {
        mpt_policy *p = &policies[i];
        if (graph->layers[i].kind == MPT_LAYER_ROUTER) {
            fill_slots(p, named("fp32"), named("fp32"), named("fp32"));
            p->output[MPT_GEMM_FPROP] = p->compute = MPT_DTYPE_FP32;
        }
        if (graph->layers[i].kind != MPT_LAYER_LINEAR)
            continue;
        if (strcmp(ud, "mxfp8") == 0)
            fill_slots(p, named("mxfp8"), named("mxfp8"), named("mxfp8"));
        mpt_quantizer square = named("fp8_block");
        square.block_rows = square.block_cols = 128;
        if (strcmp(ud, "fp8_block") == 0)
            fill_slots(p, square, named("fp8_block"), named("fp8_block"));
    }
    assert_mpt_ok(graph->ctx, mpt_graph_settle_pads(graph, policies));
}

static rig_options options_of(draw_fn model, const char *variant) {
    rig_options o = options_for(model, variant);
    o.choose = choose_experts;
    return o;
}

typedef struct outcome {
    double loss;
    uint64_t hash;
} outcome;

static outcome train(const rig_options *o, int steps) {
    rig r;
    outcome out = {0};
    rig_init(&r, o);
    for (int i = 0; i < steps; i++)
        out.loss = rig_step(&r).loss;
    out.hash = rig_state_hash(&r);
    rig_deinit(&r);
    return out;
}

static void test_train_when_threads_or_recomputed_then_the_same_bits(void **state) {
    (void)state;
    static const char *const formats[] = {"bf16", "nvfp4 sr rht", "mxfp8", "e4m3 delayed"};
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        rig_options o = options_of(draw_gated, formats[i]);
        outcome one = train(&o, 3);
        o.n_threads = 2;
        outcome two = train(&o, 3);
        o.recompute = 1;
        outcome again = train(&o, 3);
        assert_true(isfinite(one.loss));
        assert_true(one.hash == two.hash && one.loss == two.loss);
        assert_true(one.hash == again.hash && one.loss == again.loss);
    }
}

/* Casts are bit for bit the same; sums in another order move a loss in its last digits. */
static void test_train_when_quantized_then_ref_and_cpu_agree(void **state) {
    (void)state;
    static const struct {
        draw_fn model;
        const char *format;
    } rows[] = {{draw_gated, "nvfp4 sr rht"},
                {draw_plain, "nvfp4 sr rht"},
                {draw_gated, "mxfp8"},
                {draw_plain, "bf16"},
                {draw_wide, "fp8_block"}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        rig_options o = options_of(rows[i].model, rows[i].format);
        outcome cpu = train(&o, 2);
        o.ref = true;
        outcome ref = train(&o, 2);
        if (!(fabs(cpu.loss - ref.loss) < 5e-3))
            fail_msg("%s: cpu %g, ref %g", rows[i].format, cpu.loss, ref.loss);
    }
}

static void test_train_when_mixed_then_the_loss_falls(void **state) {
    (void)state;
    rig_options o = options_of(draw_gated, "nvfp4 sr rht");
    o.lr = 1e-2;
    double first = train(&o, 1).loss, last = train(&o, 25).loss;
    assert_true(last < first - 0.2);
}

/* ---- the bias ---- */

static const char bias_name[] = "layers.0.mlp.gate.e_score_correction_bias";

static const float *load_of(const rig *r) {
    const mpt_graph *graph = r->phases[0]->graph;
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, bias_name) == 0)
            return r->trainer->state->grad[p];
    return NULL;
}

static double sum_of(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* Both micro-batches count, once each, whether the choice is made again or not. */
static void test_load_when_a_step_ends_then_it_has_every_choice_once(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        rig_options o = options_of(draw_gated, "bf16");
        double loss;
        rig r;
        o.recompute = recompute;
        rig_init(&r, &o);
        (void)rig_step(&r);
        assert_true(sum_of(load_of(&r), 5) == 4.0 * 16 * 2);
        (void)rig_step(&r);
        assert_true(sum_of(load_of(&r), 5) == 4.0 * 16 * 2);
        int64_t n;
        float before[5];
        memcpy(before, rig_weights(&r, bias_name, &n), sizeof before);
        assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 4, &loss));
        assert_memory_equal(before, rig_weights(&r, bias_name, &n), sizeof before);
        rig_deinit(&r);
    }
}

/* One expert begins with all tokens: the bias takes them from it. */
static void test_balance_when_the_load_is_skewed_then_it_evens_out(void **state) {
    (void)state;
    rig_options o = options_of(draw_plain, "bf16");
    int64_t n;
    rig r;
    rig_init(&r, &o);
    rig_weights(&r, bias_name, &n)[2] = 1;
    (void)rig_step(&r);
    assert_true(load_of(&r)[2] == 64);
    assert_true(rig_weights(&r, bias_name, &n)[2] == 1 - 0.05f);
    assert_true(rig_weights(&r, bias_name, &n)[0] == 0.05f);
    for (int i = 0; i < 40; i++)
        (void)rig_step(&r);
    for (int e = 0; e < 4; e++)
        assert_true(load_of(&r)[e] < 48);
    rig_deinit(&r);
}

static void test_balance_when_the_step_is_skipped_then_the_bias_stays(void **state) {
    (void)state;
    rig_options o = options_of(draw_plain, "bf16");
    int64_t n;
    rig r;
    rig_init(&r, &o);
    float kept[4];
    memcpy(kept, rig_weights(&r, bias_name, &n), sizeof kept);
    rig_weights(&r, "lm_head.weight", &n)[0] = NAN;
    assert_true(rig_step(&r).skipped);
    assert_memory_equal(kept, rig_weights(&r, bias_name, &n), sizeof kept);
    rig_deinit(&r);
}

/* ---- blocks that reach from one expert into the next ---- */

static void pads_refused(draw_fn model, const char *variant, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    mpt_policy policies[RIG_LAYERS];
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 16, 32, &graph));
    assert_mpt_ok(ctx, model(graph));
    memset(policies, 0, sizeof policies);
    for (int i = 0; i < graph->n_layers; i++) {
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            policies[i].slot[s] = named("bf16");
        if (graph->layers[i].n_experts > 0)
            fill_policy(&policies[i], variant);
    }
    assert_int_equal(mpt_graph_settle_pads(graph, policies), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static mpt_status draw_narrow(mpt_graph *graph) {
    mixture m = plain;
    m.hidden = 40;
    return draw_mixture(graph, &m, 1);
}

static mpt_status draw_close(mpt_graph *graph) {
    mixture m = plain;
    m.align = 8;
    return draw_mixture(graph, &m, 1);
}

static void test_pad_when_blocks_reach_into_the_next_expert_then_refused(void **state) {
    (void)state;
    pads_refused(
        draw_narrow, "nvfp4 sr rht",
        "model.lua:2: layers.0.mlp.experts.up_proj.fprop.w.pad: 40 out features are no "
        "multiple of 16; take pad = \"bf16\", or out features that are a multiple of "
        "16");
    pads_refused(draw_close, "nvfp4 sr rht",
                 "model.lua:2: layers.0.mlp.experts.up_proj.wgrad.dy.pad: 8 rows of an expert "
                 "are no multiple of 16; take pad = \"bf16\", or align = 16 in the model's "
                 "nn.moe: blocks may not reach from one expert into the next");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_moe_when_drawn_then_layers_and_parameters_have_their_names),
    cmocka_unit_test(test_update_when_a_bias_is_balanced_then_it_is_measured_nowhere),
    cmocka_unit_test(test_weights_when_mapped_then_experts_are_tensors_of_their_own),
    cmocka_unit_test(test_moe_when_asked_for_what_cannot_be_then_refused),
    cmocka_unit_test(test_moe_when_any_allocation_fails_then_nothing_is_left),
    cmocka_unit_test(test_train_when_threads_or_recomputed_then_the_same_bits),
    cmocka_unit_test(test_train_when_quantized_then_ref_and_cpu_agree),
    cmocka_unit_test(test_train_when_mixed_then_the_loss_falls),
    cmocka_unit_test(test_load_when_a_step_ends_then_it_has_every_choice_once),
    cmocka_unit_test(test_balance_when_the_load_is_skewed_then_it_evens_out),
    cmocka_unit_test(test_balance_when_the_step_is_skipped_then_the_bias_stays),
    cmocka_unit_test(test_pad_when_blocks_reach_into_the_next_expert_then_refused),
};

MPT_TEST_MAIN(cases)
