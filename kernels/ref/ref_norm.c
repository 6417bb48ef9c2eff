/* rmsnorm and layernorm over the last dimension, forward and backward.
 *
 * rmsnorm: r = 1/sqrt(mean(x^2) + eps), y = w x r. With g = dy w and c = (sum g x) r^2 / n:
 * dx = r (g - x c), dw += dy x r. layernorm: the same of x - mean(x), plus a bias; dx also
 * loses the mean of g. */
#include "kernels/ref/real.h"

void MPT_REF(rmsnorm)(const mpt_kernel_args *args) {
    const mpt_real *w = args->in[1].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *x = (const mpt_real *)args->in[0].data + t * n;
        mpt_real *y = (mpt_real *)args->out[0].data + t * n;
        mpt_real sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[i] * x[i];
        mpt_real r = 1 / sqrt(sum / (mpt_real)n + (mpt_real)args->node->attrs.eps);
        for (int64_t i = 0; i < n; i++)
            y[i] = w[i] * (x[i] * r);
    }
}

void MPT_REF(rmsnorm_grad)(const mpt_kernel_args *args) {
    const mpt_real *w = args->in[1].data;
    mpt_real *dw = mpt_arg_out(args, 1);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *x = (const mpt_real *)args->in[0].data + t * n;
        const mpt_real *dy = (const mpt_real *)args->in[2].data + t * n;
        mpt_real *dx = (mpt_real *)args->out[0].data + t * n;
        mpt_real sum = 0, dot = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += x[i] * x[i];
            dot += dy[i] * w[i] * x[i];
        }
        mpt_real r = 1 / sqrt(sum / (mpt_real)n + (mpt_real)args->node->attrs.eps);
        mpt_real c = dot * r * r / (mpt_real)n;
        for (int64_t i = 0; i < n; i++) {
            dx[i] = r * (dy[i] * w[i] - x[i] * c);
            dw[i] += dy[i] * (x[i] * r);
        }
    }
}

/* Mean, and 1/sqrt(variance + eps), of one row. */
static void layernorm_moments(const mpt_real *x, int64_t n, mpt_real eps, mpt_real *mean,
                              mpt_real *r) {
    mpt_real sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (mpt_real)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *r = 1 / sqrt(squares / (mpt_real)n + eps);
}

void MPT_REF(layernorm)(const mpt_kernel_args *args) {
    const mpt_real *w = args->in[1].data, *bias = mpt_arg_in(args, 2);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *x = (const mpt_real *)args->in[0].data + t * n;
        mpt_real *y = (mpt_real *)args->out[0].data + t * n;
        mpt_real mean, r;
        layernorm_moments(x, n, (mpt_real)args->node->attrs.eps, &mean, &r);
        for (int64_t i = 0; i < n; i++)
            y[i] = w[i] * ((x[i] - mean) * r) + (bias ? bias[i] : 0);
    }
}

void MPT_REF(layernorm_grad)(const mpt_kernel_args *args) {
    const mpt_real *w = args->in[1].data;
    mpt_real *dw = mpt_arg_out(args, 1), *db = mpt_arg_out(args, 2);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        const mpt_real *x = (const mpt_real *)args->in[0].data + t * n;
        const mpt_real *dy = (const mpt_real *)args->in[2].data + t * n;
        mpt_real *dx = (mpt_real *)args->out[0].data + t * n;
        mpt_real mean, r, sum = 0, dot = 0;
        layernorm_moments(x, n, (mpt_real)args->node->attrs.eps, &mean, &r);
        for (int64_t i = 0; i < n; i++) {
            sum += dy[i] * w[i];
            dot += dy[i] * w[i] * ((x[i] - mean) * r);
        }
        sum /= (mpt_real)n;
        dot /= (mpt_real)n;
        for (int64_t i = 0; i < n; i++) {
            mpt_real unit = (x[i] - mean) * r;
            dx[i] = r * (dy[i] * w[i] - sum - unit * dot);
            dw[i] += dy[i] * unit;
            if (db)
                db[i] += dy[i];
        }
    }
}
