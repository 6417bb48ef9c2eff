/* gated_rmsnorm: v = x silu(z), then RMSNorm of v in attrs.groups equal slices of the features.
 *
 * The gate comes before the norm (Mamba-2 with norm_before_gate = false). With q = dy w,
 * k = (sum q v) r^2 / n over a slice: dv = r (q - v k), dw += dy v r, dx = dv silu(z),
 * dz = dv x silu'(z). */
#include "kernels/ref/real.h"

void MPT_REF(gated_rmsnorm)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *z = args->in[1].data, *w = args->in[2].data;
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), width = mpt_tensor_cols(&args->in[0]);
    int64_t n_groups = args->node->attrs.groups, n = width / n_groups;
    for (int64_t slice = 0; slice < n_rows * n_groups; slice++) {
        int64_t at = slice * n, feature = slice % n_groups * n;
        mpt_real sum = 0;
        for (int64_t i = 0; i < n; i++) {
            mpt_real v = x[at + i] * (z[at + i] * MPT_REF(sigmoid)(z[at + i]));
            y[at + i] = v;
            sum += v * v;
        }
        mpt_real r = 1 / sqrt(sum / (mpt_real)n + (mpt_real)args->node->attrs.eps);
        for (int64_t i = 0; i < n; i++)
            y[at + i] = w[feature + i] * (y[at + i] * r);
    }
}

void MPT_REF(gated_rmsnorm_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *z = args->in[1].data, *w = args->in[2].data;
    const mpt_real *dy = args->in[3].data;
    mpt_real *dx = args->out[0].data, *dz = args->out[1].data, *dw = args->out[2].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), width = mpt_tensor_cols(&args->in[0]);
    int64_t n_groups = args->node->attrs.groups, n = width / n_groups;
    for (int64_t slice = 0; slice < n_rows * n_groups; slice++) {
        int64_t at = slice * n, feature = slice % n_groups * n;
        mpt_real sum = 0, dot = 0;
        for (int64_t i = 0; i < n; i++) {
            mpt_real v = x[at + i] * (z[at + i] * MPT_REF(sigmoid)(z[at + i]));
            sum += v * v;
            dot += dy[at + i] * w[feature + i] * v;
        }
        mpt_real r = 1 / sqrt(sum / (mpt_real)n + (mpt_real)args->node->attrs.eps);
        mpt_real k = dot * r * r / (mpt_real)n;
        for (int64_t i = 0; i < n; i++) {
            mpt_real gate = z[at + i] * MPT_REF(sigmoid)(z[at + i]);
            mpt_real v = x[at + i] * gate;
            mpt_real dv = r * (dy[at + i] * w[feature + i] - v * k);
            dw[feature + i] += dy[at + i] * (v * r);
            dx[at + i] = dv * gate;
            dz[at + i] = dv * x[at + i] * MPT_REF(silu_slope)(z[at + i]);
        }
    }
}
