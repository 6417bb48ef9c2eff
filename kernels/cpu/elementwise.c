/* add, mul, scale and the activations with their gradients, in pieces of a fixed number of
 * elements.
 *
 * gelu by tanh is written with the logistic function: (1 + tanh u) / 2 = sigmoid(2u), which
 * needs one exponential and loses no digits for negative u. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { PIECE = 8192 };

static const float sqrt_2_over_pi = 0.797884560802865f;
static const float sqrt_half = 0.707106781186548f;
static const float cubic = 0.044715f;

/* y = f(a, b) over n elements; b is unused by functions of one argument. */
typedef void (*span_fn)(const float *a, const float *b, float *y, int64_t n);

static void run_spans(const mpt_kernel_args *args, span_fn fn) {
    const float *a = args->in[0].data, *b = mpt_arg_in(args, 1);
    float *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]), n_pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (n_pieces > 2)
    for (int64_t p = 0; p < n_pieces; p++) {
        int64_t at = p * PIECE, count = n - at < PIECE ? n - at : PIECE;
        fn(a + at, b ? b + at : NULL, y + at, count);
    }
}

MPT_CLONES static void add_span(const float *a, const float *b, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

MPT_CLONES static void mul_span(const float *a, const float *b, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

MPT_CLONES static void gelu_span(const float *x, const float *unused, float *y, int64_t n) {
    (void)unused;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float u = sqrt_2_over_pi * (x[i] + cubic * x[i] * x[i] * x[i]);
        y[i] = x[i] * mpt_sigmoidf(2.0f * u);
    }
}

static void gelu_erf_span(const float *x, const float *unused, float *y, int64_t n) {
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * 0.5f * (1.0f + erff(x[i] * sqrt_half));
}

MPT_CLONES static void gelu_grad_span(const float *x, const float *dy, float *dx, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float square = x[i] * x[i];
        float s = mpt_sigmoidf(2.0f * sqrt_2_over_pi * (x[i] + cubic * square * x[i]));
        float slope = 2.0f * sqrt_2_over_pi * (1.0f + 3.0f * cubic * square);
        dx[i] = dy[i] * (s + x[i] * s * (1.0f - s) * slope);
    }
}

static void gelu_erf_grad_span(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float density = 0.5f * sqrt_2_over_pi * expf(-0.5f * x[i] * x[i]);
        dx[i] = dy[i] * (0.5f * (1.0f + erff(x[i] * sqrt_half)) + x[i] * density);
    }
}

MPT_CLONES static void silu_span(const float *x, const float *unused, float *y, int64_t n) {
    (void)unused;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * mpt_sigmoidf(x[i]);
}

MPT_CLONES static void silu_grad_span(const float *x, const float *dy, float *dx, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = mpt_sigmoidf(x[i]);
        dx[i] = dy[i] * (s * (1.0f + x[i] * (1.0f - s)));
    }
}

/* The comparisons are false for NaN, which therefore passes. */
MPT_CLONES static void relu2_span(const float *x, const float *unused, float *y, int64_t n) {
    (void)unused;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float r = x[i] <= 0.0f ? 0.0f : x[i];
        y[i] = r * r;
    }
}

MPT_CLONES static void relu2_grad_span(const float *x, const float *dy, float *dx, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float r = x[i] <= 0.0f ? 0.0f : x[i];
        dx[i] = 2.0f * r * dy[i];
    }
}

void mpt_cpu_add(const mpt_kernel_args *args) {
    run_spans(args, add_span);
}

void mpt_cpu_mul(const mpt_kernel_args *args) {
    run_spans(args, mul_span);
}

void mpt_cpu_gelu(const mpt_kernel_args *args) {
    run_spans(args, args->node->attrs.exact ? gelu_erf_span : gelu_span);
}

void mpt_cpu_gelu_grad(const mpt_kernel_args *args) {
    run_spans(args, args->node->attrs.exact ? gelu_erf_grad_span : gelu_grad_span);
}

void mpt_cpu_silu(const mpt_kernel_args *args) {
    run_spans(args, silu_span);
}

void mpt_cpu_silu_grad(const mpt_kernel_args *args) {
    run_spans(args, silu_grad_span);
}

void mpt_cpu_relu2(const mpt_kernel_args *args) {
    run_spans(args, relu2_span);
}

void mpt_cpu_relu2_grad(const mpt_kernel_args *args) {
    run_spans(args, relu2_grad_span);
}

MPT_CLONES static void softplus_span(const float *x, const float *unused, float *y, int64_t n) {
    (void)unused;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mpt_softplusf(x[i]);
}

MPT_CLONES static void softplus_grad_span(const float *x, const float *dy, float *dx,
                                          int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * mpt_sigmoidf(x[i]);
}

MPT_CLONES static void swiglu_span(const float *gate, const float *up, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] * mpt_sigmoidf(gate[i]) * up[i];
}

/* Both gradients of a span: gate, up, dy in; dgate, dup out. */
MPT_CLONES static void swiglu_grad_span(const float *const in[3], float *const out[2],
                                        mpt_piece span) {
    const float *gate = in[0], *up = in[1], *dy = in[2];
    float *dgate = out[0], *dup = out[1];
#pragma omp simd
    for (int64_t i = span.first; i < span.end; i++) {
        float s = mpt_sigmoidf(gate[i]);
        dgate[i] = dy[i] * up[i] * (s * (1.0f + gate[i] * (1.0f - s)));
        dup[i] = dy[i] * (gate[i] * s);
    }
}

MPT_CLONES static void scale_span(const float *x, float factor, float *y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

void mpt_cpu_softplus(const mpt_kernel_args *args) {
    run_spans(args, softplus_span);
}

void mpt_cpu_softplus_grad(const mpt_kernel_args *args) {
    run_spans(args, softplus_grad_span);
}

void mpt_cpu_swiglu(const mpt_kernel_args *args) {
    run_spans(args, swiglu_span);
}

void mpt_cpu_swiglu_grad(const mpt_kernel_args *args) {
    const float *const in[3] = {args->in[0].data, args->in[1].data, args->in[2].data};
    float *const out[2] = {args->out[0].data, args->out[1].data};
    int64_t n = mpt_tensor_elements(&args->out[0]), n_pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (n_pieces > 2)
    for (int64_t p = 0; p < n_pieces; p++)
        swiglu_grad_span(in, out, (mpt_piece){p * PIECE, mpt_cpu_smaller((p + 1) * PIECE, n)});
}

void mpt_cpu_scale(const mpt_kernel_args *args) {
    const float *x = args->in[0].data;
    float *y = args->out[0].data, factor = args->node->attrs.scale;
    int64_t n = mpt_tensor_elements(&args->out[0]), n_pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (n_pieces > 2)
    for (int64_t p = 0; p < n_pieces; p++)
        scale_span(x + p * PIECE, factor, y + p * PIECE, mpt_cpu_smaller(PIECE, n - p * PIECE));
}
