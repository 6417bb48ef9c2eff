/* softmax: exp(x - largest) over its sum, row by row; dx = y (dy - sum of dy y). */
#include "kernels/ref/real.h"

void MPT_REF(softmax)(const mpt_kernel_args *args) {
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *x = (const mpt_real *)args->in[0].data + t * n;
        mpt_real *y = (mpt_real *)args->out[0].data + t * n;
        mpt_real most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            most = x[i] > most ? x[i] : most;
        for (int64_t i = 0; i < n; i++) {
            y[i] = exp(x[i] - most);
            sum += y[i];
        }
        for (int64_t i = 0; i < n; i++)
            y[i] /= sum;
    }
}

void MPT_REF(softmax_grad)(const mpt_kernel_args *args) {
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *y = (const mpt_real *)args->in[0].data + t * n;
        const mpt_real *dy = (const mpt_real *)args->in[1].data + t * n;
        mpt_real *dx = (mpt_real *)args->out[0].data + t * n, dot = 0;
        for (int64_t i = 0; i < n; i++)
            dot += dy[i] * y[i];
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - dot);
    }
}
