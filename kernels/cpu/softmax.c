/* softmax and its gradient, a row at a time; formulas as in kernels/ref/ref_softmax.c. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

MPT_CLONES static void softmax_row(const float *x, float *y, int64_t n) {
    float most = mpt_largest(x, n, -INFINITY), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        y[i] = mpt_expf(x[i] - most);
        sum += y[i];
    }
    float scale = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] *= scale;
}

MPT_CLONES static void softmax_grad_row(const float *y, const float *dy, float *dx, int64_t n) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++)
        dot += dy[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

void mpt_cpu_softmax(const mpt_kernel_args *args) {
    const float *x = args->in[0].data;
    float *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_rows; t++)
        softmax_row(x + t * n, y + t * n, n);
}

void mpt_cpu_softmax_grad(const mpt_kernel_args *args) {
    const float *y = args->in[0].data, *dy = args->in[1].data;
    float *dx = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_rows; t++)
        softmax_grad_row(y + t * n, dy + t * n, dx + t * n, n);
}
