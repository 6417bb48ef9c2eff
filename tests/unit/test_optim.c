/* The optimizer's tail: formulas against float64, skips, threads, loss scales. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/optim.h"
#include "kernels/optim.h"
#include "kernels/ref/optim.h"

/* More than two pieces and no multiple of the lanes. */
enum { N = 2 * MPT_PIECE + 1003, MAX_TENSORS = 6 };

/* One node's call of a kernel. */
typedef struct call {
    mpt_node node;
    mpt_tensor in[MAX_TENSORS], out[MAX_TENSORS];
    mpt_run_env env;
} call;

static mpt_tensor vector(void *data, int64_t n) {
    return (mpt_tensor){.data = data, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {n}};
}

static call new_call(void) {
    call c = {.env = {.grad_unscale = 1, .n_threads = 1, .lr = 1e-3f}};
    c.node.attrs = (mpt_attrs){.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
    return c;
}

static void run(call *c, void (*kernel)(const mpt_kernel_args *)) {
    static double scratch[64];
    mpt_kernel_args args = {&c->node, c->in, c->out, scratch, &c->env, NULL};
    c->node.n_in = c->node.n_out = MAX_TENSORS;
    kernel(&args);
}

/* Numbers of both signs over eight decades. */
static void fill(float *x, int64_t n, uint32_t salt) {
    uint32_t h = salt * 2654435761u + 12345;
    for (int64_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        double u = (double)(h >> 8) / 0x1p24, sign = h & 64 ? 1 : -1;
        x[i] = (float)(sign * pow(10, -8 * u));
    }
}

/* ---- AdamW ---- */

enum { FEW = 257, STEPS = 20 };

static void adamw_step(float *w, const float *g, float *m, float *v, float *factor, int64_t n,
                       int t, float weight_decay, void (*kernel)(const mpt_kernel_args *)) {
    call c = new_call();
    c.node.attrs.weight_decay = weight_decay;
    c.in[0] = c.out[0] = vector(w, n);
    c.in[1] = vector((void *)(uintptr_t)g, n);
    c.in[2] = vector(m, n);
    c.in[3] = vector(v, n);
    c.in[4] = vector(factor, 1);
    c.env.bias_correction1 = (float)(1 - pow((double)c.node.attrs.beta1, t));
    c.env.bias_correction2 = (float)(1 - pow((double)c.node.attrs.beta2, t));
    run(&c, kernel);
}

static void test_adamw_when_20_steps_then_float64_formula_agrees(void **s) {
    (void)s;
    float w[FEW], g[FEW], m[FEW] = {0}, v[FEW] = {0}, factor = 0.5f;
    double w64[FEW], m64[FEW] = {0}, v64[FEW] = {0};
    const double b1 = 0.9, b2 = 0.95, lr = 1e-3, wd = 0.1;
    fill(w, FEW, 1);
    for (int i = 0; i < FEW; i++)
        w64[i] = (double)w[i];
    for (int t = 1; t <= STEPS; t++) {
        fill(g, FEW, 100 + (uint32_t)t);
        adamw_step(w, g, m, v, &factor, FEW, t, 0.1f, mpt_ref_adamw);
        for (int i = 0; i < FEW; i++) {
            double x = (double)g[i] * 0.5;
            m64[i] = b1 * m64[i] + (1 - b1) * x;
            v64[i] = b2 * v64[i] + (1 - b2) * x * x;
            w64[i] -= lr * wd * w64[i];
            w64[i] -=
                lr * (m64[i] / (1 - pow(b1, t))) / (sqrt(v64[i] / (1 - pow(b2, t))) + 1e-8);
            assert_true(fabs((double)w[i] - w64[i]) < 2e-7 * (fabs(w64[i]) + 0.01) * t);
            assert_true(fabs((double)v[i] - v64[i]) <= 1e-5 * v64[i]);
        }
    }
}

static void test_adamw_when_gradient_is_zero_then_update_is_exactly_zero(void **s) {
    (void)s;
    float w[FEW], before[FEW], g[FEW] = {0}, m[FEW] = {0}, v[FEW] = {0}, factor = 1;
    fill(w, FEW, 1);
    memcpy(before, w, sizeof w);
    for (int t = 1; t <= 3; t++)
        adamw_step(w, g, m, v, &factor, FEW, t, 0, mpt_ref_adamw);
    assert_memory_equal(w, before, sizeof w);
}

static void test_adamw_when_gradient_is_zero_and_decay_is_on_then_only_decay(void **s) {
    (void)s;
    float w = 2, g = 0, m = 0, v = 0, factor = 1;
    adamw_step(&w, &g, &m, &v, &factor, 1, 1, 0.1f, mpt_ref_adamw);
    assert_true(fabs((double)w - 2 * (1 - 1e-4)) < 1e-7);
}

static void test_adamw_when_first_step_then_it_moves_by_lr(void **s) {
    (void)s;
    float w[2] = {1, 1}, g[2] = {1e-3f, -500}, m[2] = {0}, v[2] = {0}, factor = 1;
    adamw_step(w, g, m, v, &factor, 2, 1, 0, mpt_ref_adamw);
    assert_true(fabs((double)w[0] - (1 - 1e-3)) < 1e-6);
    assert_true(fabs((double)w[1] - (1 + 1e-3)) < 1e-6);
}

static void test_adamw_when_factor_is_nan_then_nothing_changes(void **s) {
    (void)s;
    float w = 1, g = INFINITY, m = 0.25f, v = 0.5f, factor = NAN;
    adamw_step(&w, &g, &m, &v, &factor, 1, 1, 0.1f, mpt_ref_adamw);
    adamw_step(&w, &g, &m, &v, &factor, 1, 1, 0.1f, mpt_cpu_adamw);
    assert_true(w == 1 && m == 0.25f && v == 0.5f);
}

static void test_adamw_when_a_gradient_is_nan_then_it_stays_visible(void **s) {
    (void)s;
    float w = 1, g = NAN, m = 0, v = 0, factor = 1;
    adamw_step(&w, &g, &m, &v, &factor, 1, 1, 0, mpt_ref_adamw);
    assert_true(isnan(w) && isnan(m) && isnan(v));
}

/* beta2 = 0.999 must not lose its digits: in bfloat16 it would be 0.9961 or 1. */
static void test_adamw_when_beta2_is_close_to_one_then_kept_in_float32(void **s) {
    (void)s;
    float w = 0, g = 1, m = 0, v = 0, factor = 1;
    call c = new_call();
    c.node.attrs.beta2 = 0.999f;
    c.in[0] = c.out[0] = vector(&w, 1);
    c.in[1] = vector(&g, 1);
    c.in[2] = vector(&m, 1);
    c.in[3] = vector(&v, 1);
    c.in[4] = vector(&factor, 1);
    c.env.bias_correction1 = 0.1f;
    c.env.bias_correction2 = (float)(1 - (double)0.999f);
    run(&c, mpt_ref_adamw);
    assert_true(fabs((double)v - 0.001) < 1e-6 * 0.1);
    assert_true(fabs((double)w + 1e-3) < 1e-8);
}

/* ---- norm, clip, skip ---- */

static void grad_norm(float *g, int64_t n, float unscale, int n_threads, float *rows,
                      int32_t index, void (*kernel)(const mpt_kernel_args *)) {
    call c = new_call();
    c.in[0] = vector(g, n);
    c.in[1] = vector(&unscale, 1);
    c.out[0] = vector(rows, 2);
    c.env.n_threads = n_threads;
    c.node.attrs.row_index = index;
    run(&c, kernel);
}

typedef struct clipped {
    float factor, norm;
    int32_t bad;
} clipped;

static clipped clip_factor(float *rows, int64_t n, float clip, float unscale) {
    call c = new_call();
    clipped r = {0, 0, 7};
    c.in[0] = (mpt_tensor){.data = rows, .rank = 2, .dims = {n, 2}};
    c.out[0] = vector(&r.bad, 1);
    run(&c, mpt_ref_finite_check);
    c.out[0] = vector(&r.norm, 1);
    run(&c, mpt_ref_global_norm);
    c.in[0] = vector(&r.norm, 1);
    c.in[1] = vector(&unscale, 1);
    c.in[2] = vector(&r.bad, 1);
    c.out[0] = vector(&r.factor, 1);
    c.node.attrs.clip = clip;
    run(&c, mpt_ref_clip_factor);
    return r;
}

static void test_grad_norm_when_long_then_float64_sum_agrees(void **s) {
    (void)s;
    float *g = malloc(N * sizeof *g), rows[4] = {0};
    double sum = 0;
    fill(g, N, 3);
    for (int i = 0; i < N; i++)
        sum += (double)g[i] * (double)g[i] / 16;
    grad_norm(g, N, 0.25f, 1, rows, 1, mpt_ref_grad_norm);
    assert_true(rows[0] == 0 && rows[1] == 0);
    assert_true(fabs((double)rows[2] / sqrt(sum) - 1) < 1e-7);
    assert_true(rows[3] == 1);
    free(g);
}

static void test_grad_norm_when_squares_would_overflow_float_then_finite(void **s) {
    (void)s;
    float g[9] = {3e30f, 0, 0, 0, 0, 0, 0, 0, 4e30f}, rows[2];
    grad_norm(g, 9, 1, 1, rows, 0, mpt_ref_grad_norm);
    assert_true(rows[1] == 1 && fabs((double)rows[0] / 5e30 - 1) < 1e-6);
}

static void test_grad_norm_when_one_element_is_bad_then_flagged(void **s) {
    (void)s;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    float *g = calloc(N, sizeof *g), rows[2];
    const int64_t at[] = {0, MPT_PIECE - 1, MPT_PIECE, N - 1};
    for (size_t b = 0; b < MPT_COUNT(bad); b++)
        for (size_t k = 0; k < MPT_COUNT(at); k++) {
            g[at[k]] = bad[b];
            grad_norm(g, N, 1, 1, rows, 0, mpt_ref_grad_norm);
            assert_true(rows[1] == 0 && !isfinite(rows[0]));
            grad_norm(g, N, 1, 2, rows, 0, mpt_cpu_grad_norm);
            assert_true(rows[1] == 0 && !isfinite(rows[0]));
            g[at[k]] = 0;
        }
    free(g);
}

static void test_clip_when_norm_is_larger_then_torch_formula(void **s) {
    (void)s;
    float rows[4] = {3, 1, 4, 1};
    clipped r = clip_factor(rows, 2, 1, 0.5f);
    assert_true(r.norm == 5 && r.bad == -1);
    assert_true(r.factor == (float)(0.5 * (1 / (5 + 1e-6))));
}

static void test_clip_when_norm_is_smaller_or_clip_is_off_then_only_unscale(void **s) {
    (void)s;
    float rows[4] = {0.3f, 1, 0.4f, 1};
    assert_true(clip_factor(rows, 2, 1, 0.125f).factor == 0.125f);
    rows[0] = 1e6f;
    assert_true(clip_factor(rows, 2, 0, 0.125f).factor == 0.125f);
}

static void test_clip_when_two_are_bad_then_first_is_named_and_factor_is_nan(void **s) {
    (void)s;
    float rows[8] = {1, 1, 2, 1, INFINITY, 0, NAN, 0};
    clipped r = clip_factor(rows, 4, 1, 1);
    assert_int_equal(r.bad, 2);
    assert_true(isnan(r.factor) && !isfinite(r.norm));
}

/* ---- threads, backends ---- */

static void test_tail_when_threads_or_backend_differ_then_bits_are_equal(void **s) {
    (void)s;
    float *x = malloc(8 * N * sizeof *x), rows[2][2], factor = 0.7f;
    float *w[2] = {x, x + N}, *m[2] = {x + 2 * N, x + 3 * N}, *v[2] = {x + 4 * N, x + 5 * N};
    float *g = x + 6 * N, *zeros = x + 7 * N;
    fill(g, N, 4);
    memset(zeros, 0, N * sizeof *zeros);
    for (int k = 0; k < 2; k++) {
        fill(w[k], N, 5);
        memset(m[k], 0, N * sizeof *x);
        memset(v[k], 0, N * sizeof *x);
        grad_norm(g, N, 1, 3, rows[k], 0, k ? mpt_cpu_grad_norm : mpt_ref_grad_norm);
        for (int t = 1; t <= 3; t++)
            adamw_step(w[k], g, m[k], v[k], &factor, N, t, 0.1f,
                       k ? mpt_cpu_adamw : mpt_ref_adamw);
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(w[0], w[1], N * sizeof *x);
    assert_memory_equal(m[0], m[1], N * sizeof *x);
    assert_memory_equal(v[0], v[1], N * sizeof *x);
    call c = new_call();
    c.env.n_threads = 3;
    c.out[0] = vector(g, N);
    run(&c, mpt_cpu_zero);
    assert_memory_equal(g, zeros, N * sizeof *g);
    free(x);
}

/* A static loss scale that is a power of two changes no bit of the weights. */
static void test_tail_when_loss_scale_is_a_power_of_two_then_same_bits(void **s) {
    (void)s;
    float w[3][FEW], g[FEW], m[FEW], v[FEW], rows[2];
    for (int k = 0; k < 3; k++) {
        const float scale = k == 0 ? 1.0f : k == 1 ? 1024.0f : 65536.0f;
        fill(w[k], FEW, 1);
        memset(m, 0, sizeof m);
        memset(v, 0, sizeof v);
        for (int t = 1; t <= STEPS; t++) {
            fill(g, FEW, (uint32_t)t);
            for (int i = 0; i < FEW; i++)
                g[i] *= scale;
            grad_norm(g, FEW, 1 / scale, 1, rows, 0, mpt_ref_grad_norm);
            clipped r = clip_factor(rows, 1, 0.1f, 1 / scale);
            adamw_step(w[k], g, m, v, &r.factor, FEW, t, 0.1f, mpt_ref_adamw);
        }
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(w[0], w[2], sizeof w[0]);
}

/* ---- SGD ---- */

static void sgd_step(float *w, float *g, float *velocity, float factor, int64_t n,
                     void (*kernel)(const mpt_kernel_args *)) {
    call c = new_call();
    c.env.lr = 0.1f;
    c.env.n_threads = 2;
    c.node.attrs.momentum = 0.9f;
    c.node.attrs.weight_decay = 0.01f;
    c.in[0] = c.out[0] = vector(w, n);
    c.in[1] = vector(g, n);
    c.in[2] = vector(velocity, n);
    c.in[3] = vector(&factor, 1);
    run(&c, kernel);
}

static void test_sgd_when_momentum_then_torch_formula(void **s) {
    (void)s;
    float w = 1, g = 4, velocity = 0;
    double w64 = 1, v64 = 0;
    for (int t = 0; t < 5; t++) {
        sgd_step(&w, &g, &velocity, 0.5f, 1, mpt_ref_sgd);
        v64 = 0.9 * v64 + (2 + 0.01 * w64);
        w64 -= 0.1 * v64;
        assert_true(fabs((double)w - w64) < 1e-6);
    }
}

static void test_sgd_when_plain_then_no_momentum_is_touched(void **s) {
    (void)s;
    float w = 1, g = 4;
    sgd_step(&w, &g, NULL, 0.5f, 1, mpt_ref_sgd);
    assert_true(fabs((double)w - (1 - 0.1 * 2.01)) < 1e-6);
}

static void test_sgd_when_factor_is_nan_then_nothing_changes(void **s) {
    (void)s;
    float w = 1, g = 4, velocity = 3;
    sgd_step(&w, &g, &velocity, NAN, 1, mpt_ref_sgd);
    sgd_step(&w, &g, &velocity, NAN, 1, mpt_cpu_sgd);
    assert_true(w == 1 && velocity == 3);
}

static void test_sgd_when_backend_differs_then_bits_are_equal(void **s) {
    (void)s;
    float *x = malloc(5 * N * sizeof *x);
    fill(x, N, 1);
    fill(x + N, N, 1);
    fill(x + 2 * N, N, 2);
    fill(x + 3 * N, N, 3);
    fill(x + 4 * N, N, 3);
    sgd_step(x, x + 2 * N, x + 3 * N, 0.3f, N, mpt_ref_sgd);
    sgd_step(x + N, x + 2 * N, x + 4 * N, 0.3f, N, mpt_cpu_sgd);
    assert_memory_equal(x, x + N, N * sizeof *x);
    assert_memory_equal(x + 3 * N, x + 4 * N, N * sizeof *x);
    free(x);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_adamw_when_20_steps_then_float64_formula_agrees),
    cmocka_unit_test(test_adamw_when_gradient_is_zero_then_update_is_exactly_zero),
    cmocka_unit_test(test_adamw_when_gradient_is_zero_and_decay_is_on_then_only_decay),
    cmocka_unit_test(test_adamw_when_first_step_then_it_moves_by_lr),
    cmocka_unit_test(test_adamw_when_factor_is_nan_then_nothing_changes),
    cmocka_unit_test(test_adamw_when_a_gradient_is_nan_then_it_stays_visible),
    cmocka_unit_test(test_adamw_when_beta2_is_close_to_one_then_kept_in_float32),
    cmocka_unit_test(test_grad_norm_when_long_then_float64_sum_agrees),
    cmocka_unit_test(test_grad_norm_when_squares_would_overflow_float_then_finite),
    cmocka_unit_test(test_grad_norm_when_one_element_is_bad_then_flagged),
    cmocka_unit_test(test_clip_when_norm_is_larger_then_torch_formula),
    cmocka_unit_test(test_clip_when_norm_is_smaller_or_clip_is_off_then_only_unscale),
    cmocka_unit_test(test_clip_when_two_are_bad_then_first_is_named_and_factor_is_nan),
    cmocka_unit_test(test_tail_when_threads_or_backend_differ_then_bits_are_equal),
    cmocka_unit_test(test_tail_when_loss_scale_is_a_power_of_two_then_same_bits),
    cmocka_unit_test(test_sgd_when_momentum_then_torch_formula),
    cmocka_unit_test(test_sgd_when_plain_then_no_momentum_is_touched),
    cmocka_unit_test(test_sgd_when_factor_is_nan_then_nothing_changes),
    cmocka_unit_test(test_sgd_when_backend_differs_then_bits_are_equal),
};

MPT_TEST_MAIN(cases)
