/* precision.state: masters, gradients, what ranks send, and moments in 16 bits. When they are
 * rounded is said in runtime/adr/0007; ref's GEMMs are taken where sums must be exact. */
#include "mpt_test.h"

#include <math.h>

#include "kernels/cpu/optim.h"
#include "kernels/optim.h"
#include "kernels/quantize.h"
#include "kernels/ref/optim.h"
#include "models.h"
#include "train_rig.h"

/* ---- runs ---- */

/* Policies as they are: BF16. */
static void choose_nothing(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    (void)ud;
    (void)graph;
    (void)phase;
    (void)policies;
}

static mpt_status draw_tied(mpt_graph *graph) {
    return draw_gpt2(graph, 1);
}

static rig_options options_with(mpt_state_formats state) {
    rig_options o = rig_defaults();
    o.choose = choose_nothing;
    o.state = state;
    o.ref = true;
    return o;
}

static int64_t n_of(const rig *r, int param) {
    const mpt_graph *graph = r->phases[0]->graph;
    return mpt_value_elements(&graph->values[graph->params[param].value]);
}

static int n_params(const rig *r) {
    return r->phases[0]->graph->n_params;
}

static float rounded(mpt_dtype dtype, float x) {
    mpt_ref_round_to(dtype, &x, 1);
    return x;
}

/* Whether the format holds every number of a list of buffers, one a parameter. */
static bool all_exact(const rig *r, float *const *list, mpt_dtype dtype) {
    for (int p = 0; p < n_params(r); p++)
        for (int64_t i = 0; i < n_of(r, p); i++)
            if (rounded(dtype, list[p][i]) != list[p][i])
                return false;
    return true;
}

/* Asserts that `got` holds what `from` does, rounded. */
static void assert_rounded(const rig *r, float *const *got, float *const *from,
                           mpt_dtype dtype) {
    for (int p = 0; p < n_params(r); p++)
        for (int64_t i = 0; i < n_of(r, p); i++)
            if (got[p][i] != rounded(dtype, from[p][i]))
                fail_msg("%s[%d] is %.9g, not %.9g rounded",
                         r->phases[0]->graph->params[p].name, (int)i, (double)got[p][i],
                         (double)from[p][i]);
}

/* ---- masters ---- */

static void test_master_when_16_bits_then_weights_are_exact_from_the_start(void **s) {
    (void)s;
    const mpt_dtype formats[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP16};
    for (size_t f = 0; f < MPT_COUNT(formats); f++) {
        rig r, plain;
        rig_options o = options_with((mpt_state_formats){.master.format = formats[f]});
        rig_options o32 = options_with((mpt_state_formats){0});
        rig_init(&r, &o);
        rig_init(&plain, &o32);
        assert_rounded(&r, r.trainer->state->master, plain.trainer->state->master, formats[f]);
        assert_false(all_exact(&plain, plain.trainer->state->master, formats[f]));
        for (int i = 0; i < 3; i++)
            rig_step(&r);
        assert_true(all_exact(&r, r.trainer->state->master, formats[f]));
        rig_deinit(&r);
        rig_deinit(&plain);
    }
}

static void vector(mpt_tensor *t, float *data, int64_t n, mpt_dtype dtype) {
    *t = (mpt_tensor){.data = data, .dtype = dtype, .rank = 1, .dims = {n}};
}

typedef struct adam_call {
    mpt_node node;
    mpt_tensor in[5], out[1];
    mpt_run_env env;
    float factor;
} adam_call;

/* x holds weights, gradient, m and v, n of each. */
static void adam_run(void (*kernel)(const mpt_kernel_args *), float *x, int64_t n,
                     const mpt_dtype *formats, float lr, int n_threads) {
    adam_call c = {.env = {.lr = lr,
                           .bias_correction1 = 0.1f,
                           .bias_correction2 = 0.05f,
                           .n_threads = n_threads},
                   .factor = 1};
    c.node.n_in = 5;
    c.node.n_out = 1;
    c.node.attrs = (mpt_attrs){.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
    c.node.attrs.weight_decay = 0.01f;
    vector(&c.in[0], x, n, formats[0]);
    vector(&c.in[1], x + n, n, MPT_DTYPE_FP32);
    vector(&c.in[2], x + 2 * n, n, formats[1]);
    vector(&c.in[3], x + 3 * n, n, formats[2]);
    vector(&c.in[4], &c.factor, 1, MPT_DTYPE_FP32);
    c.out[0] = c.in[0];
    kernel(&(mpt_kernel_args){&c.node, c.in, c.out, NULL, &c.env, NULL});
}

/* Decay alone, 1000 steps: 3e-6 of a weight is far under half an ulp in BF16. */
static void test_p73_when_master_is_bf16_then_decay_is_lost(void **s) {
    (void)s;
    const mpt_dtype narrow[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP32, MPT_DTYPE_FP32};
    const mpt_dtype wide[] = {MPT_DTYPE_FP32, MPT_DTYPE_FP32, MPT_DTYPE_FP32};
    void (*const kernels[])(const mpt_kernel_args *) = {mpt_ref_adamw, mpt_cpu_adamw};
    for (size_t k = 0; k < MPT_COUNT(kernels); k++) {
        float x[4] = {1, 0, 0, 0}, y[4] = {1, 0, 0, 0};
        for (int i = 0; i < 1000; i++) {
            adam_run(kernels[k], x, 1, narrow, 3e-4f, 1);
            adam_run(kernels[k], y, 1, wide, 3e-4f, 1);
        }
        assert_true(x[0] == 1.0f);
        assert_true(fabs((double)y[0] - 0.997) < 1e-4);
    }
}

/* ---- moments ---- */

static void test_moments_when_bf16_then_the_step_uses_them_before_they_are_rounded(void **s) {
    (void)s;
    rig r, plain;
    rig_options o = options_with(
        (mpt_state_formats){.adam_m.format = MPT_DTYPE_BF16, .adam_v.format = MPT_DTYPE_BF16});
    rig_options o32 = options_with((mpt_state_formats){0});
    rig_init(&r, &o);
    rig_init(&plain, &o32);
    rig_step(&r);
    rig_step(&plain);
    assert_rounded(&r, r.trainer->state->master, plain.trainer->state->master, MPT_DTYPE_FP32);
    for (int m = 0; m < 2; m++)
        assert_rounded(&r, r.trainer->state->moment[m], plain.trainer->state->moment[m],
                       MPT_DTYPE_BF16);
    rig_step(&r);
    rig_step(&plain);
    assert_true(rig_state_hash(&r) != rig_state_hash(&plain));
    assert_true(all_exact(&r, r.trainer->state->moment[0], MPT_DTYPE_BF16));
    assert_false(all_exact(&r, r.trainer->state->master, MPT_DTYPE_BF16));
    rig_deinit(&r);
    rig_deinit(&plain);
}

static void test_moments_when_sgd_then_momentum_stays_fp32(void **s) {
    (void)s;
    rig r;
    rig_options o = options_with(
        (mpt_state_formats){.adam_m.format = MPT_DTYPE_BF16, .adam_v.format = MPT_DTYPE_BF16});
    o.optimizer = MPT_OPTIMIZER_SGD;
    rig_init(&r, &o);
    rig_step(&r);
    assert_false(all_exact(&r, r.trainer->state->moment[0], MPT_DTYPE_BF16));
    rig_deinit(&r);
}

enum { N = 140 * 1000 };

/* Every mixture of formats: the same bits from ref and from cpu with any number of threads. */
static void test_adamw_when_backend_or_threads_differ_then_bits_are_equal(void **s) {
    (void)s;
    static const mpt_dtype wide[] = {MPT_DTYPE_FP32, MPT_DTYPE_BF16, MPT_DTYPE_FP16};
    float *x = malloc(3 * 4 * N * sizeof *x);
    for (int mix = 0; mix < 27; mix++) {
        const mpt_dtype formats[] = {wide[mix % 3], wide[mix / 3 % 3], wide[mix / 9]};
        uint32_t h = 12345;
        for (int64_t i = 0; i < 4 * N; i++) {
            h = h * 1664525u + 1013904223u;
            float y = (float)(h >> 8) / 0x1p24f - (i < 2 * N ? 0.5f : 0.0f);
            mpt_dtype dtype = i < N ? formats[0] : i < 2 * N ? wide[0] : formats[i / N - 1];
            x[i] = x[i + 4 * N] = x[i + 8 * N] = rounded(dtype, y);
        }
        adam_run(mpt_ref_adamw, x, N, formats, 1e-2f, 1);
        adam_run(mpt_cpu_adamw, x + 4 * N, N, formats, 1e-2f, 1);
        adam_run(mpt_cpu_adamw, x + 8 * N, N, formats, 1e-2f, 3);
        assert_memory_equal(x, x + 4 * N, 4 * N * sizeof *x);
        assert_memory_equal(x, x + 8 * N, 4 * N * sizeof *x);
    }
    free(x);
}

/* ---- gradients ---- */

enum { MICRO = 64, ROW = 17 };

/* The same sequence in each of n rows. */
static void repeat_tokens(int32_t *tokens, int n) {
    for (int row = 0; row < n; row++)
        for (int i = 0; i < ROW; i++)
            tokens[row * ROW + i] = (i * 7 + i * i) % RIG_VOCAB;
}

/* One step of n micro-batches that all have the same gradient. */
static void step_of(rig *r, mpt_state_formats state, int n) {
    static int32_t tokens[MICRO * ROW];
    mpt_step_result result;
    rig_options o = options_with(state);
    o.micro_batch = 1;
    o.batch = n;
    rig_init(r, &o);
    repeat_tokens(tokens, n);
    assert_mpt_ok(r->ctx, mpt_trainer_step(r->trainer, tokens, &result));
}

static int find_param(const rig *r, const char *name) {
    const mpt_graph *graph = r->phases[0]->graph;
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return p;
    fail_msg("no parameter %s", name);
    return -1;
}

/* A loss over n times as many targets has gradients of 1/n: exact, n being a power of two. */
static void test_gradient_when_bf16_then_rounded_after_each_micro_batch(void **s) {
    (void)s;
    static const char *const names[] = {"layers.0.up.weight", "layers.0.down.weight",
                                        "layers.0.down.bias", "lm_head.weight"};
    rig one, many, plain;
    step_of(&one, (mpt_state_formats){0}, 1);
    step_of(&many, (mpt_state_formats){.gradient = MPT_DTYPE_BF16}, MICRO);
    step_of(&plain, (mpt_state_formats){0}, MICRO);
    int n_other = 0;
    for (size_t k = 0; k < MPT_COUNT(names); k++) {
        int p = find_param(&one, names[k]);
        for (int64_t i = 0; i < n_of(&one, p); i++) {
            float part = one.trainer->state->grad[p][i] / MICRO, sum = 0;
            for (int m = 0; m < MICRO; m++)
                sum = rounded(MPT_DTYPE_BF16, sum + part);
            assert_true(many.trainer->state->grad[p][i] == sum);
            n_other += plain.trainer->state->grad[p][i] != sum;
        }
    }
    assert_true(n_other > 0);
    assert_true(all_exact(&many, many.trainer->state->grad, MPT_DTYPE_BF16));
    rig_deinit(&one);
    rig_deinit(&many);
    rig_deinit(&plain);
}

/* A column of ones: the gradient of a bias is 1 at each micro-batch. */
static float sum_of_ones(mpt_dtype dtype, int n) {
    float dy = 1, db = 0;
    mpt_node node = {.op = MPT_OP_bias_grad, .n_in = 1, .n_out = 1};
    mpt_tensor in = {.data = &dy, .rank = 2, .dims = {1, 1}}, out;
    mpt_run_env env = {.n_threads = 1};
    const mpt_kernel *kernel = mpt_kernels_ref;
    while (kernel->op != MPT_OP_bias_grad)
        kernel++;
    vector(&out, &db, 1, dtype);
    for (int i = 0; i < n; i++) {
        kernel->run(&(mpt_kernel_args){&node, &in, &out, NULL, &env, NULL});
        mpt_round_to(dtype, &db, 1); /* the executor's part */
    }
    return db;
}

static void test_p22_when_gradients_of_one_are_summed_then_bf16_stops_at_256(void **s) {
    (void)s;
    assert_true(sum_of_ones(MPT_DTYPE_FP32, 512) == 512);
    assert_true(sum_of_ones(MPT_DTYPE_BF16, 512) == 256);
    assert_true(sum_of_ones(MPT_DTYPE_FP16, 512) == 512);
}

/* The table's gradient has two writers, the lookup and the head: both are in the sum. */
static void test_gradient_when_tied_then_both_writers_add_to_one_rounded_sum(void **s) {
    (void)s;
    rig r, plain;
    rig_options o = options_with((mpt_state_formats){.gradient = MPT_DTYPE_BF16});
    rig_options o32 = options_with((mpt_state_formats){0});
    o.micro_batch = o32.micro_batch = 2;
    o.draw = o32.draw = draw_tied;
    rig_init(&r, &o);
    rig_init(&plain, &o32);
    rig_step(&r);
    rig_step(&plain);
    int p = find_param(&r, "wte.weight"), n_writers = 0;
    const mpt_graph *graph = r.phases[0]->graph;
    for (int i = 0; i < graph->n_nodes; i++)
        n_writers += graph->nodes[i].pass == MPT_PASS_BACKWARD &&
                     graph->nodes[i].out[0] == graph->params[p].grad;
    assert_int_equal(n_writers, 2);
    double most = 0, error = 0;
    for (int64_t i = 0; i < n_of(&r, p); i++) {
        double want = (double)plain.trainer->state->grad[p][i];
        most = fmax(most, fabs(want));
        error = fmax(error, fabs((double)r.trainer->state->grad[p][i] - want));
    }
    assert_true(most > 0 && error > 0 && error < most / 64);
    assert_true(all_exact(&r, r.trainer->state->grad, MPT_DTYPE_BF16));
    rig_deinit(&r);
    rig_deinit(&plain);
}

static void test_reduce_when_bf16_then_the_sum_is_rounded_once_before_its_norm(void **s) {
    (void)s;
    rig r, plain;
    step_of(&r, (mpt_state_formats){.reduce = MPT_DTYPE_BF16}, MICRO);
    step_of(&plain, (mpt_state_formats){0}, MICRO);
    assert_rounded(&r, r.trainer->state->grad, plain.trainer->state->grad, MPT_DTYPE_BF16);
    const mpt_graph *graph = r.phases[0]->graph;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op != MPT_OP_grad_norm)
            continue;
        n++;
        int k = 0;
        while (graph->nodes[k].op != MPT_OP_grad_reduce ||
               graph->nodes[k].out[0] != node->in[0])
            k++;
        assert_true(k < i);
        assert_int_equal(graph->nodes[k].attrs.reduce, MPT_DTYPE_BF16);
    }
    assert_int_equal(n, graph->n_params);
    float *norm = mpt_executor_tensor(r.trainer->executors[0], graph->norm)->data;
    double sum = 0;
    for (int p = 0; p < n_params(&r); p++)
        for (int64_t i = 0; i < n_of(&r, p); i++)
            sum += pow((double)r.trainer->state->grad[p][i], 2);
    assert_true(fabs((double)*norm / sqrt(sum) - 1) < 1e-6);
    rig_deinit(&r);
    rig_deinit(&plain);
}

/* ---- the whole ---- */

static uint64_t state_after(const rig_options *o, char hash[17]) {
    rig r;
    rig_init(&r, o);
    for (int i = 0; i < 3; i++)
        rig_step(&r);
    uint64_t state = rig_state_hash(&r);
    mpt_schedule_hash(r.phases[0]->graph, hash);
    rig_deinit(&r);
    return state;
}

static void test_state_when_any_word_changes_then_run_and_schedule_hash_do(void **s) {
    (void)s;
    const mpt_state_formats rows[] = {{.gradient = MPT_DTYPE_FP32},
                                      {.master.format = MPT_DTYPE_BF16},
                                      {.master.format = MPT_DTYPE_FP16},
                                      {.gradient = MPT_DTYPE_BF16},
                                      {.gradient = MPT_DTYPE_FP16},
                                      {.reduce = MPT_DTYPE_BF16},
                                      {.reduce = MPT_DTYPE_FP16},
                                      {.adam_m.format = MPT_DTYPE_BF16},
                                      {.adam_m.format = MPT_DTYPE_FP16},
                                      {.adam_v.format = MPT_DTYPE_BF16},
                                      {.adam_v.format = MPT_DTYPE_FP16},
                                      {{.format = MPT_DTYPE_BF16},
                                       MPT_DTYPE_BF16,
                                       MPT_DTYPE_BF16,
                                       {.format = MPT_DTYPE_BF16},
                                       {.format = MPT_DTYPE_BF16}}};
    uint64_t states[MPT_COUNT(rows)];
    char hashes[MPT_COUNT(rows)][17], other[17];
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        rig_options o = options_with(rows[i]);
        o.ref = false;
        o.micro_batch = 2;
        states[i] = state_after(&o, hashes[i]);
        o.n_threads = 3;
        assert_true(state_after(&o, other) == states[i]);
        assert_string_equal(other, hashes[i]);
        for (size_t k = 0; k < i; k++) {
            assert_true(states[i] != states[k]);
            assert_string_not_equal(hashes[i], hashes[k]);
        }
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_master_when_16_bits_then_weights_are_exact_from_the_start),
    cmocka_unit_test(test_p73_when_master_is_bf16_then_decay_is_lost),
    cmocka_unit_test(test_moments_when_bf16_then_the_step_uses_them_before_they_are_rounded),
    cmocka_unit_test(test_moments_when_sgd_then_momentum_stays_fp32),
    cmocka_unit_test(test_adamw_when_backend_or_threads_differ_then_bits_are_equal),
    cmocka_unit_test(test_gradient_when_bf16_then_rounded_after_each_micro_batch),
    cmocka_unit_test(test_p22_when_gradients_of_one_are_summed_then_bf16_stops_at_256),
    cmocka_unit_test(test_gradient_when_tied_then_both_writers_add_to_one_rounded_sum),
    cmocka_unit_test(test_reduce_when_bf16_then_the_sum_is_rounded_once_before_its_norm),
    cmocka_unit_test(test_state_when_any_word_changes_then_run_and_schedule_hash_do),
};

MPT_TEST_MAIN(cases)
