/* graph/autodiff.c over whole models: the appended nodes, run in double precision by the
 * reference kernels, against differences of the loss.
 *
 * test_gradients.c holds each op's kernel; this holds how autodiff wires them: tied weights,
 * fused projections, residual sums, groups and sequences. */
#include "ref64.h"
#include "models.h"

#include <math.h>
#include <stdlib.h>

/* A graph with memory for each of its values. */
typedef struct machine {
    mpt_ctx *ctx;
    mpt_graph *graph;
    mpt_tensor *tensors; /* one a value */
    uint64_t random;
} machine;

/* In (-1, 1), the same on every machine (xorshift64*). */
static double next_random(machine *m) {
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return (double)((m->random * 0x2545f4914f6cdd1du) >> 11) / 4503599627370496.0 - 1;
}

/* Weights large enough for every path to matter, norms near one, ids of the vocabulary. */
static void fill(machine *m, mpt_value_id id) {
    const mpt_value *v = &m->graph->values[id];
    int64_t n = mpt_value_elements(v);
    double *data = m->tensors[id].data;
    int32_t *ids = m->tensors[id].data;
    bool near_one =
        v->kind == MPT_VALUE_PARAM && m->graph->params[v->param].init.kind == MPT_INIT_ONE;
    for (int64_t i = 0; i < n; i++) {
        if (id == m->graph->positions)
            ids[i] = (int32_t)(i % m->graph->sequence);
        else if (v->kind == MPT_VALUE_INPUT)
            ids[i] = (int32_t)(fabs(next_random(m)) * (double)m->graph->vocab);
        else if (v->kind == MPT_VALUE_PARAM)
            data[i] = (near_one ? 1 : 0) + 0.4 * next_random(m);
    }
}

static void machine_open(machine *m, mpt_graph *graph) {
    m->graph = graph;
    m->random = 88172645463325252u;
    m->tensors = mpt_alloc(m->ctx, sizeof(mpt_tensor) * (size_t)graph->n_values);
    assert_non_null(m->tensors);
    for (int i = 0; i < graph->n_values; i++) {
        const mpt_value *v = &graph->values[i];
        mpt_tensor *t = &m->tensors[i];
        *t = (mpt_tensor){.dtype = v->dtype, .rank = v->rank};
        memcpy(t->dims, v->dims, sizeof t->dims);
        t->data = mpt_alloc(m->ctx, sizeof(double) * (size_t)mpt_value_elements(v));
        assert_non_null(t->data);
        fill(m, i);
    }
}

static void machine_close(machine *m) {
    for (int i = 0; i < m->graph->n_values; i++)
        mpt_free(m->ctx, m->tensors[i].data);
    mpt_free(m->ctx, m->tensors);
    mpt_graph_destroy(m->graph);
    assert_int_equal(mpt_ctx_memory(m->ctx).live_bytes, 0);
    mpt_ctx_destroy(m->ctx);
}

static void run_node(machine *m, const mpt_node *node) {
    mpt_tensor in[MPT_MAX_IN] = {0}, out[MPT_MAX_OUT] = {0};
    const mpt_kernel *kernel = ref64_kernels;
    mpt_run_env env = {.n_threads = 1};
    env.loss_seed = 1.0f / (float)(m->graph->batch * m->graph->sequence);
    while (kernel->run && kernel->op != node->op)
        kernel++;
    assert_non_null(kernel->run);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            in[i] = m->tensors[node->in[i]];
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            out[i] = m->tensors[node->out[i]];
    size_t bytes = kernel->scratch ? kernel->scratch(m->graph, node, 1) : 0;
    void *scratch = mpt_alloc(m->ctx, bytes + 1);
    assert_non_null(scratch);
    kernel->run(&(mpt_kernel_args){node, in, out, scratch, &env, NULL});
    mpt_free(m->ctx, scratch);
}

static double run(machine *m, mpt_pass pass) {
    for (int i = 0; i < m->graph->n_nodes; i++)
        if (m->graph->nodes[i].pass == pass)
            run_node(m, &m->graph->nodes[i]);
    return *(double *)m->tensors[m->graph->loss].data;
}

/* The loss with one number of a parameter moved. */
static double loss_at(machine *m, double *number, double x) {
    double kept = *number;
    *number = x;
    double loss = run(m, MPT_PASS_FORWARD);
    *number = kept;
    return loss;
}

/* One number of a parameter, by differences of fourth order. The step is short, so that it does
 * not cross a bend of relu2. */
static void check_number(machine *m, const mpt_param *param, int64_t i) {
    const double step = 2e-5;
    double *x = (double *)m->tensors[param->value].data + i, at = *x;
    double near = loss_at(m, x, at + step) - loss_at(m, x, at - step);
    double far = loss_at(m, x, at + 2 * step) - loss_at(m, x, at - 2 * step);
    double expected = (8 * near - far) / (12 * step);
    double found = ((const double *)m->tensors[param->grad].data)[i];
    /* loss_seed is a float: its rounding is all that the two may differ by */
    if (!(fabs(expected - found) <= 1e-7 * (1e-2 + fabs(expected))))
        fail_msg("%s[%d]: graph %.12g, differences %.12g", param->name, (int)i, found,
                 expected);
}

/* Some numbers of each parameter, and the one whose gradient is largest: a table's row may be
 * that of a word which does not occur. */
static void check_param(machine *m, const mpt_param *param) {
    const double *grad = m->tensors[param->grad].data;
    int64_t n = mpt_value_elements(&m->graph->values[param->value]), largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(grad[i]) > fabs(grad[largest]))
            largest = i;
    assert_true(fabs(grad[largest]) > 0);
    check_number(m, param, largest);
    for (int64_t i = 0; i < n; i += n < 8 ? 1 : n / 8)
        check_number(m, param, i);
}

typedef mpt_status (*draw_fn)(mpt_graph *graph);

static void check_model(draw_fn draw_model) {
    machine m = {.ctx = mpt_test_ctx()};
    mpt_graph *graph = NULL;
    assert_mpt_ok(m.ctx, mpt_graph_create(m.ctx, 2, 5, 32, &graph));
    assert_mpt_ok(m.ctx, draw_model(graph));
    assert_mpt_ok(m.ctx, mpt_graph_autodiff(graph));
    machine_open(&m, graph);
    assert_true(run(&m, MPT_PASS_FORWARD) > 1);
    run(&m, MPT_PASS_BACKWARD);
    for (int p = 0; p < graph->n_params; p++)
        if (!graph->params[p].balanced) /* it has no gradient: it chooses experts */
            check_param(&m, &graph->params[p]);
    machine_close(&m);
}

static mpt_status mlp(mpt_graph *graph) {
    return draw_mlp(graph, 2);
}

static mpt_status gpt2(mpt_graph *graph) {
    return draw_gpt2(graph, 2);
}

static mpt_status nemotron(mpt_graph *graph) {
    return draw_nemotron(graph, &small_hybrid);
}

/* What no model has: mul, concat, an input used twice by one op, a value with four readers. */
static mpt_status knot(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 6);
    mpt_value_id square = draw(&d, MPT_OP_mul, (mpt_nn_args){.n_in = 2, .in = {x, x}});
    mpt_value_id twice = draw_add(&d, square, square);
    mpt_value_id gate = draw(&d, MPT_OP_mul, (mpt_nn_args){.n_in = 2, .in = {x, twice}});
    x = draw(&d, MPT_OP_concat, (mpt_nn_args){.n_in = 4, .in = {x, gate, x, twice}});
    x = draw(&d, MPT_OP_gelu, (mpt_nn_args){.n_in = 1, .in = {x}, .attrs = {.exact = true}});
    x = draw_linear(&d, "lm_head", draw1(&d, MPT_OP_layernorm, "norm", x), 32, true);
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

/* A Llama in miniature: grouped queries behind rope, swiglu, dropout on both branches. */
static mpt_value_id llama_attention(test_draw *d, mpt_value_id x) {
    mpt_nn_args turn = {.n_in = 1, .attrs = {.head_dim = 4, .rope = {.theta = 50}}};
    mpt_nn_args attn = {.name = "self_attn", .n_in = 3, .attrs = {.heads = 4, .kv_heads = 2}};
    turn.in[0] = draw_linear(d, "self_attn.q_proj", x, 16, true);
    attn.in[0] = draw(d, MPT_OP_rope, turn);
    turn.in[0] = draw_linear(d, "self_attn.k_proj", x, 8, true);
    turn.attrs.rope.dims = 2;
    attn.in[1] = draw(d, MPT_OP_rope, turn);
    attn.in[2] = draw_linear(d, "self_attn.v_proj", x, 8, true);
    x = draw_linear(d, "self_attn.o_proj", draw(d, MPT_OP_attention, attn), 8, false);
    return draw(d, MPT_OP_dropout,
                (mpt_nn_args){.name = "drop_1", .n_in = 1, .in = {x}, .attrs.p = 0.3f});
}

static mpt_value_id llama_mlp(test_draw *d, mpt_value_id x) {
    mpt_nn_args gated = {.n_in = 2, .in = {draw_linear(d, "mlp.gate_proj", x, 12, false)}};
    gated.in[1] = draw_linear(d, "mlp.up_proj", x, 12, false);
    x = draw_linear(d, "mlp.down_proj", draw(d, MPT_OP_swiglu, gated), 8, false);
    return draw(d, MPT_OP_dropout,
                (mpt_nn_args){.name = "drop_2", .n_in = 1, .in = {x}, .attrs.p = 0.3f});
}

static mpt_status llama(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed_tokens", ids, 0, 8);
    for (int i = 0; i < 2; i++) {
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        x = draw_add(&d, x, llama_attention(&d, draw1(&d, MPT_OP_rmsnorm, "norm_1", x)));
        x = draw_add(&d, x, llama_mlp(&d, draw1(&d, MPT_OP_rmsnorm, "norm_2", x)));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    x = draw(
        &d, MPT_OP_linear,
        (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .tied = "embed_tokens.weight"});
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

/* Weights of a row by softmax, over a positive number each: an attention by hand. */
static mpt_status mixture(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 6);
    mpt_value_id p = draw1(&d, MPT_OP_softmax, NULL, draw_linear(&d, "weigh", x, 6, true));
    mpt_value_id v = draw1(&d, MPT_OP_softplus, NULL, draw_linear(&d, "value", x, 6, true));
    x = draw(&d, MPT_OP_mul, (mpt_nn_args){.n_in = 2, .in = {p, v}});
    x = draw(&d, MPT_OP_scale, (mpt_nn_args){.n_in = 1, .in = {x}, .attrs.scale = -2.5f});
    x = draw_linear(&d, "lm_head", draw_add(&d, x, p), 32, true);
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

/* Two blocks of experts behind a router each: gated, and weighed by softmax over groups. */
static mpt_status experts(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 6);
    for (int i = 0; i < 2; i++) {
        mpt_value_id y = -1;
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_nn_args moe = {.name = "mlp", .n_in = 1, .in = {x}, .bias = i == 0};
        moe.attrs = (mpt_attrs){.experts = 6, .top_k = 2, .align = 4, .scale = 1.5f};
        moe.attrs.normalize = i == 0;
        moe.attrs.by_softmax = i == 1;
        moe.attrs.groups = i == 1 ? 3 : 1;
        moe.attrs.top_groups = i == 1 ? 2 : 1;
        moe.moe = (mpt_nn_experts){.hidden = 5, .gated = i == 0};
        draw_note(&d, mpt_nn_moe(&d.nn, &moe, &y));
        x = draw_add(&d, x, y);
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    x = draw_linear(&d, "lm_head", x, 32, true);
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

static void test_whole_gradient_when_mlp_then_as_differences(void **state) {
    (void)state;
    check_model(mlp);
}

static void test_whole_gradient_when_gpt2_then_as_differences(void **state) {
    (void)state;
    check_model(gpt2);
}

static void test_whole_gradient_when_nemotron_then_as_differences(void **state) {
    (void)state;
    check_model(nemotron);
}

static void test_whole_gradient_when_llama_with_dropout_then_as_differences(void **state) {
    (void)state;
    check_model(llama);
}

static void test_whole_gradient_when_a_mixture_then_as_differences(void **state) {
    (void)state;
    check_model(mixture);
}

static void test_whole_gradient_when_experts_then_as_differences(void **state) {
    (void)state;
    check_model(experts);
}

static void
test_whole_gradient_when_values_are_read_many_times_then_as_differences(void **state) {
    (void)state;
    check_model(knot);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_whole_gradient_when_mlp_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_gpt2_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_nemotron_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_llama_with_dropout_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_a_mixture_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_experts_then_as_differences),
    cmocka_unit_test(test_whole_gradient_when_values_are_read_many_times_then_as_differences),
};

MPT_TEST_MAIN(cases)
