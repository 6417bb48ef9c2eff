/* States that take more than a cast: stochastic rounding, scales, blocks (quantize_state).
 *
 * What a step leaves behind is the quantizer's bytes of what it computed, on every backend and
 * for any number of threads; what is rounded by chance keeps updates that rounding to nearest
 * loses (P73); and FP16 loses what the paper of 2017 says (arXiv 1710.03740). */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/optim.h"
#include "kernels/numerics.h"
#include "kernels/optim.h"
#include "kernels/quantize.h"
#include "kernels/ref/optim.h"
#include "train_rig.h"

/* ---- kernels ---- */

static mpt_quantizer format(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

static mpt_quantizer by_chance(const char *name) {
    mpt_quantizer q = format(name);
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    return q;
}

static mpt_quantizer scaled(const char *name, int block_rows, int block_cols) {
    mpt_quantizer q = format(name);
    q.scale.kind = MPT_SCALING_CURRENT;
    q.block_rows = block_rows;
    q.block_cols = block_cols;
    q.headroom = 1;
    return q;
}

typedef void (*kernel_fn)(const mpt_kernel_args *);

static void keep(kernel_fn kernel, const mpt_quantizer *q, float *x, int64_t rows, int64_t cols,
                 uint32_t step) {
    float factor = 1;
    mpt_run_env env = {.seed = 1234, .step = step, .n_threads = 2};
    mpt_node node = {.op = MPT_OP_quantize_state, .n_in = 2, .n_out = 1};
    node.attrs.row = *q;
    node.attrs.row_operand = 77;
    mpt_tensor in[2] = {{.data = x, .rank = rows > 1 ? 2 : 1, .dims = {rows, cols}},
                        {.data = &factor, .rank = 1, .dims = {1}}};
    if (rows == 1)
        in[0].dims[0] = cols;
    kernel(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
}

/* Weights under decay alone: lr 3e-4, decay 0.01. */
static void decay_once(kernel_fn kernel, const mpt_quantizer *master, float *w, int64_t n,
                       uint32_t step) {
    static float zeros[3][4096];
    float factor = 1;
    mpt_run_env env = {.seed = 7, .step = step, .lr = 3e-4f, .n_threads = 2};
    env.bias_correction1 = env.bias_correction2 = 1;
    mpt_node node = {.op = MPT_OP_adamw, .n_in = 5, .n_out = 1};
    node.attrs.beta1 = 0.9f;
    node.attrs.beta2 = 0.95f;
    node.attrs.eps = 1e-8f;
    node.attrs.weight_decay = 0.01f;
    node.attrs.kept_later = master->rounding == MPT_ROUNDING_STOCHASTIC;
    mpt_tensor in[5];
    float *const data[5] = {w, zeros[0], zeros[1], zeros[2], &factor};
    for (int i = 0; i < 5; i++)
        in[i] = (mpt_tensor){.data = data[i], .rank = 1, .dims = {i < 4 ? n : 1}};
    in[0].dtype = master->format;
    kernel(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
}

static double mean_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static void test_p73_when_rounded_by_chance_then_decay_is_kept_on_average(void **s) {
    (void)s;
    enum { N = 4096 };
    static float w[N];
    mpt_quantizer nearest = format("bf16"), chance = by_chance("bf16");
    for (int64_t i = 0; i < N; i++)
        w[i] = 1;
    for (uint32_t step = 0; step < 1000; step++)
        decay_once(mpt_cpu_adamw, &nearest, w, N, step);
    assert_true(w[0] == 1 && mean_of(w, N) == 1);
    for (uint32_t step = 0; step < 1000; step++) {
        decay_once(mpt_cpu_adamw, &chance, w, N, step);
        keep(mpt_cpu_quantize_state, &chance, w, 1, N, step);
    }
    assert_true(fabs(mean_of(w, N) - 0.9970) < 0.0003);
    for (int64_t i = 0; i < N; i++)
        assert_true(mpt_round(MPT_DTYPE_BF16, w[i]) == w[i]);
}

/* ---- bytes ---- */

static void fill(float *x, int64_t n, uint32_t salt) {
    uint32_t h = salt * 2654435761u + 12345;
    for (int64_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        double u = (double)(h >> 8) / 0x1p24, sign = h & 64 ? 1 : -1;
        x[i] = (float)(sign * pow(10, -6 * u));
    }
}

typedef struct kept_row {
    const char *name;
    mpt_quantizer q;
} kept_row;

static int all_formats(kept_row rows[16]) {
    const kept_row all[] = {
        {"bf16 stochastic", by_chance("bf16")}, {"fp16 stochastic", by_chance("fp16")},
        {"fp16 scaled", scaled("fp16", 0, 0)},  {"e4m3", scaled("e4m3", 0, 0)},
        {"e4m3 row", scaled("e4m3", 1, 0)},     {"e4m3 1x128", scaled("e4m3", 1, 128)},
        {"e5m2 1x32", scaled("e5m2", 1, 32)},   {"e4m3 128x128", scaled("e4m3", 128, 128)}};
    memcpy(rows, all, sizeof all);
    int n = (int)MPT_COUNT(all);
    rows[n] = rows[3];
    rows[n].name = "e4m3 stochastic";
    rows[n].q.rounding = MPT_ROUNDING_STOCHASTIC;
    rows[n + 1] = rows[2];
    rows[n + 1].name = "fp16 scaled stochastic";
    rows[n + 1].q.rounding = MPT_ROUNDING_STOCHASTIC;
    return n + 2;
}

/* What the definition's quantizer says that codes and scales stand for, out of place. */
static void defined(const mpt_quantizer *q, const float *x, float *y, int64_t rows,
                    int64_t cols, uint32_t step) {
    mpt_quantize_job job = {.q = q, .x = x, .rows = rows, .cols = cols, .stands_for = y};
    job.key = (mpt_random_key){.seed = 1234, .operand = 77, .step = step};
    mpt_ref_quantize_operand(&job);
}

static void check_shape(const kept_row *row, int64_t rows, int64_t cols) {
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *x = malloc(bytes), *y = malloc(bytes), *ref = malloc(bytes), *cpu = malloc(bytes);
    fill(x, rows * cols, 3);
    for (uint32_t step = 0; step < 2; step++) {
        memcpy(ref, x, bytes);
        memcpy(cpu, x, bytes);
        defined(&row->q, x, y, rows, cols, step);
        keep(mpt_ref_quantize_state, &row->q, ref, rows, cols, step);
        keep(mpt_cpu_quantize_state, &row->q, cpu, rows, cols, step);
        if (memcmp(y, ref, bytes) != 0 || memcmp(y, cpu, bytes) != 0)
            fail_msg("%s of %d x %d: other bytes in place", row->name, (int)rows, (int)cols);
        memcpy(x, y, bytes); /* the next step starts from what was kept */
    }
    free(x);
    free(y);
    free(ref);
    free(cpu);
}

static void test_keep_when_any_format_then_the_quantizers_bytes_on_every_backend(void **s) {
    (void)s;
    static const int64_t shapes[][2] = {{1, 1}, {1, 300}, {5, 37}, {130, 257}, {384, 512}};
    kept_row rows[16];
    int n = all_formats(rows);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < MPT_COUNT(shapes); k++)
            check_shape(&rows[i], shapes[k][0], shapes[k][1]);
}

static void test_keep_when_zeros_or_nan_then_zeros_stay_and_nan_shows(void **s) {
    (void)s;
    kept_row rows[16];
    int n = all_formats(rows);
    for (int i = 0; i < n; i++) {
        float x[64] = {0};
        keep(mpt_cpu_quantize_state, &rows[i].q, x, 1, 64, 0);
        for (int k = 0; k < 64; k++)
            assert_true(x[k] == 0);
        x[3] = NAN;
        keep(mpt_cpu_quantize_state, &rows[i].q, x, 1, 64, 0);
        assert_true(isnan(x[3]));
    }
}

/* A first moment over eight decades, as the formats see it: the largest is exact. */
static void
test_keep_when_scaled_then_the_largest_is_exact_and_fp16_holds_more_decades(void **s) {
    (void)s;
    float m[256], v[256];
    mpt_quantizer e4m3 = scaled("e4m3", 0, 0), fp16 = scaled("fp16", 0, 0);
    for (int i = 0; i < 256; i++)
        m[i] = v[i] = ldexpf(1, -i / 8);
    keep(mpt_cpu_quantize_state, &e4m3, m, 1, 256, 0);
    keep(mpt_cpu_quantize_state, &fp16, v, 1, 256, 0);
    int zeros_m = 0, zeros_v = 0;
    for (int i = 0; i < 256; i++) {
        zeros_m += m[i] == 0;
        zeros_v += v[i] == 0;
    }
    assert_true(fabs((double)m[0] - 1) < 1e-6 && fabs((double)v[0] - 1) < 1e-6);
    assert_int_equal(zeros_v, 0);
    assert_true(zeros_m >= 8 * 12 && zeros_m <= 8 * 14); /* under 2^-18 of the largest */
}

/* ---- runs ---- */

static void choose_nothing(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    (void)ud, (void)graph, (void)phase, (void)policies;
}

static rig_options options_with(mpt_state_formats state) {
    rig_options o = rig_defaults();
    o.choose = choose_nothing;
    o.state = state;
    o.micro_batch = 2;
    return o;
}

static mpt_state_formats kept_formats(void) {
    return (mpt_state_formats){.master = by_chance("bf16"),
                               .adam_m = scaled("e4m3", 1, 128),
                               .adam_v = scaled("fp16", 0, 0)};
}

static uint64_t state_after(const rig_options *o, int steps) {
    rig r;
    rig_init(&r, o);
    for (int i = 0; i < steps; i++)
        (void)rig_step(&r);
    uint64_t hash = rig_state_hash(&r);
    rig_deinit(&r);
    return hash;
}

static void test_run_when_kept_then_threads_change_nothing_and_the_seed_does(void **s) {
    (void)s;
    rig_options o = options_with(kept_formats());
    uint64_t one = state_after(&o, 4);
    o.n_threads = 3;
    assert_true(state_after(&o, 4) == one);
    o.seed = 2;
    assert_true(state_after(&o, 4) != one);
}

/* The states are exact after every step, from the first weights on. */
static void test_run_when_kept_then_every_state_is_in_its_format(void **s) {
    (void)s;
    rig r;
    rig_options o = options_with(kept_formats());
    rig_init(&r, &o);
    for (int i = 0; i < 3; i++) {
        const mpt_graph *graph = r.phases[0]->graph;
        for (int p = 0; p < graph->n_params; p++) {
            const mpt_value *value = &graph->values[graph->params[p].value];
            int64_t n = mpt_value_elements(value);
            const float *w = r.trainer->state->master[p];
            assert_non_null(value->kept);
            for (int64_t k = 0; k < n; k++)
                assert_true(mpt_round(MPT_DTYPE_BF16, w[k]) == w[k]);
        }
        (void)rig_step(&r);
    }
    rig_deinit(&r);
}

static void test_step_when_skipped_then_states_that_chance_rounds_stay(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:layers.0.up.weight=inf@2"};
    rig r;
    rig_options o = options_with(kept_formats());
    rig_compile(&r, mpt_test_ctx(), &o);
    r.inject = faults;
    r.n_inject = 1;
    assert_mpt_ok(r.ctx, rig_create_trainer(&r));
    (void)rig_step(&r);
    (void)rig_step(&r);
    uint64_t before = rig_state_hash(&r);
    assert_true(rig_step(&r).skipped);
    assert_true(rig_state_hash(&r) == before);
    (void)rig_step(&r);
    assert_true(rig_state_hash(&r) != before);
    rig_deinit(&r);
}

/* The streams of contract 9: each state of each parameter has its own, by name. */
static void test_nodes_when_kept_then_one_a_state_behind_its_step_with_its_stream(void **s) {
    (void)s;
    rig r;
    rig_options o = options_with((mpt_state_formats){
        .master = by_chance("bf16"), .adam_m = by_chance("bf16"), .adam_v = by_chance("fp16")});
    rig_init(&r, &o);
    const mpt_graph *graph = r.phases[0]->graph;
    static const char *const names[] = {"master", "adam_m", "adam_v"};
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != MPT_OP_adamw)
            continue;
        assert_true(graph->nodes[i].attrs.kept_later);
        const mpt_param *param = &graph->params[graph->values[graph->nodes[i].in[0]].param];
        for (int k = 0; k < 3; k++, n++) {
            const mpt_node *node = &graph->nodes[i + 1 + k];
            char key[256];
            int length = snprintf(key, sizeof key, "%s/%s", param->name, names[k]);
            assert_int_equal(node->op, MPT_OP_quantize_state);
            assert_int_equal(node->in[1], graph->nodes[i].in[4]);
            assert_int_equal(node->attrs.row_operand,
                             mpt_hash(key, (size_t)length) & 0x7fffffffu);
        }
    }
    assert_int_equal(n, 3 * graph->n_params);
    rig_deinit(&r);
}

static void test_sgd_when_masters_are_kept_by_chance_then_a_node_does_it(void **s) {
    (void)s;
    rig r;
    rig_options o = options_with((mpt_state_formats){.master = by_chance("bf16")});
    o.optimizer = MPT_OPTIMIZER_SGD;
    rig_init(&r, &o);
    uint64_t before = rig_state_hash(&r);
    (void)rig_step(&r);
    assert_true(rig_state_hash(&r) != before);
    int n = 0;
    for (int i = 0; i < r.phases[0]->graph->n_nodes; i++)
        n += r.phases[0]->graph->nodes[i].op == MPT_OP_quantize_state;
    assert_int_equal(n, r.phases[0]->graph->n_params);
    rig_deinit(&r);
}

/* ---- what FP16 loses (arXiv 1710.03740) ---- */

/* Of n weights in [1, 2), how many an update of so large a share leaves as they are. */
static int n_lost(mpt_dtype master, float share) {
    enum { N = 1000 };
    static float w[N], before[N], g[N];
    float factor = 1;
    int lost = 0;
    mpt_run_env env = {.lr = 1, .n_threads = 1};
    mpt_node node = {.op = MPT_OP_sgd, .n_in = 4, .n_out = 1};
    for (int i = 0; i < N; i++) {
        w[i] = before[i] = mpt_round(MPT_DTYPE_FP16, 1 + (float)i / N);
        g[i] = -w[i] * share;
    }
    mpt_tensor in[4] = {{.data = w, .dtype = master, .rank = 1, .dims = {N}},
                        {.data = g, .rank = 1, .dims = {N}},
                        {.data = NULL},
                        {.data = &factor, .rank = 1, .dims = {1}}};
    mpt_cpu_sgd(&(mpt_kernel_args){&node, in, in, NULL, &env, NULL});
    for (int i = 0; i < N; i++)
        lost += w[i] == before[i];
    return lost;
}

static void
test_fp16_when_it_is_the_master_then_updates_under_2_to_minus_11_are_lost(void **s) {
    (void)s;
    assert_int_equal(n_lost(MPT_DTYPE_FP16, 0x1p-10f), 0);
    assert_in_range(n_lost(MPT_DTYPE_FP16, 0x1.8p-12f), 300, 999); /* half way there */
    assert_int_equal(n_lost(MPT_DTYPE_FP16, 0x1p-12f), 1000);
    assert_int_equal(n_lost(MPT_DTYPE_FP32, 0x1p-12f), 0);
    assert_int_equal(n_lost(MPT_DTYPE_FP32, 0x1p-20f), 0);
}

static mpt_quantize_counts cast_gradients(float scale) {
    enum { N = 4096 };
    static float g[N], y[N];
    mpt_quantizer q = format("fp16");
    mpt_quantize_counts counts = {0};
    for (int i = 0; i < N; i++)
        g[i] = ldexpf(1 + (float)i / N, -26 - i % 4) * scale; /* 2^-29 to 2^-25 */
    mpt_quantize_job job = {
        .q = &q, .x = g, .rows = 1, .cols = N, .stands_for = y, .counts = &counts};
    mpt_quantize_operand(&job);
    return counts;
}

static void
test_fp16_when_gradients_are_under_2_to_minus_25_then_a_loss_scale_saves_them(void **s) {
    (void)s;
    mpt_quantize_counts without = cast_gradients(1), with = cast_gradients(1024);
    assert_true(without.elements == 4096 && without.underflow > 4000);
    assert_int_equal(with.underflow, 0);
    assert_int_equal(with.overflow, 0);
    assert_true(mpt_quantize_sqnr(&with) > 50);
}

static void choose_fp16(const void *ud, const mpt_graph *graph, int phase,
                        mpt_policy *policies) {
    (void)ud, (void)phase;
    for (int i = 0; i < graph->n_layers; i++) {
        for (int k = 0; k < MPT_SLOT_COUNT; k++)
            policies[i].slot[k] = format("fp16");
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            policies[i].output[g] = MPT_DTYPE_FP16;
        policies[i].compute = MPT_DTYPE_FP16;
    }
}

/* A whole model whose gradients are that small: nothing is learned, and with 2^20 all of it. */
static double fall_of_loss(double loss_scale, double *out_norm) {
    rig r;
    rig_options o = rig_defaults();
    o.choose = choose_fp16;
    o.loss_scale = loss_scale;
    rig_init(&r, &o);
    double first = rig_step(&r).loss, last = first;
    for (int i = 0; i < 10; i++) {
        mpt_step_result result = rig_step(&r);
        last = result.loss;
        *out_norm = result.grad_norm;
    }
    rig_deinit(&r);
    return first - last;
}

static void
test_fp16_when_a_models_gradients_are_small_then_it_learns_with_a_scale_alone(void **s) {
    (void)s;
    double norm_small = 1, norm = 0;
    double lost = fall_of_loss(0x1p-24, &norm_small), learned = fall_of_loss(1, &norm);
    assert_true(norm_small == 0 && fabs(lost) < 0.2);
    assert_true(norm > 0.01 && learned > 0.3);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p73_when_rounded_by_chance_then_decay_is_kept_on_average),
    cmocka_unit_test(test_keep_when_any_format_then_the_quantizers_bytes_on_every_backend),
    cmocka_unit_test(test_keep_when_zeros_or_nan_then_zeros_stay_and_nan_shows),
    cmocka_unit_test(
        test_keep_when_scaled_then_the_largest_is_exact_and_fp16_holds_more_decades),
    cmocka_unit_test(test_run_when_kept_then_threads_change_nothing_and_the_seed_does),
    cmocka_unit_test(test_run_when_kept_then_every_state_is_in_its_format),
    cmocka_unit_test(test_step_when_skipped_then_states_that_chance_rounds_stay),
    cmocka_unit_test(test_nodes_when_kept_then_one_a_state_behind_its_step_with_its_stream),
    cmocka_unit_test(test_sgd_when_masters_are_kept_by_chance_then_a_node_does_it),
    cmocka_unit_test(test_fp16_when_it_is_the_master_then_updates_under_2_to_minus_11_are_lost),
    cmocka_unit_test(
        test_fp16_when_gradients_are_under_2_to_minus_25_then_a_loss_scale_saves_them),
    cmocka_unit_test(
        test_fp16_when_a_models_gradients_are_small_then_it_learns_with_a_scale_alone),
};

MPT_TEST_MAIN(cases)
