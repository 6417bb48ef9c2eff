/* add, mul, scale, gelu, silu, relu2, softplus and swiglu, one element at a time, with the
 * gradients of the last five.
 *
 * gelu: x Phi(x), by tanh(sqrt(2/pi) (x + 0.044715 x^3)) or, with attrs.exact, by erf. */
#include "kernels/ref/real.h"

static const double elementwise_sqrt_2_over_pi = 0.79788456080286535588;
static const double elementwise_sqrt_half = 0.70710678118654752440;
static const double elementwise_cubic = 0.044715;

void MPT_REF(add)(const mpt_kernel_args *args) {
    const mpt_real *a = args->in[0].data, *b = args->in[1].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void MPT_REF(mul)(const mpt_kernel_args *args) {
    const mpt_real *a = args->in[0].data, *b = args->in[1].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static mpt_real gelu_of(mpt_real x, bool exact) {
    if (exact)
        return x * (mpt_real)0.5 * (1 + erf(x * (mpt_real)elementwise_sqrt_half));
    mpt_real u =
        (mpt_real)elementwise_sqrt_2_over_pi * (x + (mpt_real)elementwise_cubic * x * x * x);
    return x * (mpt_real)0.5 * (1 + tanh(u));
}

static mpt_real gelu_slope(mpt_real x, bool exact) {
    if (exact) {
        mpt_real phi = (mpt_real)(elementwise_sqrt_2_over_pi / 2) * exp(-x * x / 2);
        return (mpt_real)0.5 * (1 + erf(x * (mpt_real)elementwise_sqrt_half)) + x * phi;
    }
    mpt_real c = (mpt_real)elementwise_sqrt_2_over_pi, k = (mpt_real)elementwise_cubic;
    mpt_real th = tanh(c * (x + k * x * x * x));
    return (mpt_real)0.5 * (1 + th) +
           (mpt_real)0.5 * x * (1 - th * th) * c * (1 + 3 * k * x * x);
}

void MPT_REF(gelu)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = gelu_of(x[i], args->node->attrs.exact);
}

void MPT_REF(gelu_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *dy = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * gelu_slope(x[i], args->node->attrs.exact);
}

void MPT_REF(silu)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * MPT_REF(sigmoid)(x[i]);
}

void MPT_REF(silu_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *dy = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * MPT_REF(silu_slope)(x[i]);
}

/* Written so that NaN passes: a comparison with NaN is false. */
static mpt_real relu_of(mpt_real x) {
    return x <= 0 ? 0 : x;
}

void MPT_REF(relu2)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = relu_of(x[i]) * relu_of(x[i]);
}

void MPT_REF(relu2_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *dy = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = 2 * relu_of(x[i]) * dy[i];
}

/* log(1 + e^x) without overflow; NaN passes. */
void MPT_REF(softplus)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = relu_of(x[i]) + log1p(exp(x[i] < 0 ? x[i] : -x[i]));
}

void MPT_REF(softplus_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *dy = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * MPT_REF(sigmoid)(x[i]);
}

void MPT_REF(swiglu)(const mpt_kernel_args *args) {
    const mpt_real *gate = args->in[0].data, *up = args->in[1].data;
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] * MPT_REF(sigmoid)(gate[i]) * up[i];
}

void MPT_REF(swiglu_grad)(const mpt_kernel_args *args) {
    const mpt_real *gate = args->in[0].data, *up = args->in[1].data, *dy = args->in[2].data;
    mpt_real *dgate = args->out[0].data, *dup = args->out[1].data;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++) {
        dgate[i] = dy[i] * up[i] * MPT_REF(silu_slope)(gate[i]);
        dup[i] = dy[i] * gate[i] * MPT_REF(sigmoid)(gate[i]);
    }
}

void MPT_REF(scale)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data;
    mpt_real *y = args->out[0].data, factor = (mpt_real)args->node->attrs.scale;
    int64_t n = mpt_tensor_elements(&args->out[0]);
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}
