/* conv1d: depthwise causal convolution over time, y_t[c] = b[c] + sum_k w[c][k] x_{t-K+1+k}[c].
 *
 * Before the start of each sequence x is zero; w[c][K-1] multiplies the current step. */
#include "kernels/ref/real.h"

void MPT_REF(conv1d)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *w = args->in[1].data, *bias = mpt_arg_in(args, 2);
    mpt_real *y = args->out[0].data;
    int64_t n = mpt_tensor_cols(&args->in[0]), n_taps = args->node->attrs.kernel;
    int64_t sequence = args->node->attrs.sequence;
    int64_t n_tokens = args->node->attrs.batch * sequence;
    for (int64_t token = 0; token < n_tokens; token++) {
        int64_t t = token % sequence;
        for (int64_t c = 0; c < n; c++) {
            mpt_real sum = bias ? bias[c] : 0;
            for (int64_t k = 0; k < n_taps; k++) {
                int64_t back = n_taps - 1 - k;
                if (back <= t)
                    sum += w[c * n_taps + k] * x[(token - back) * n + c];
            }
            y[token * n + c] = sum;
        }
    }
}

void MPT_REF(conv1d_grad)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *w = args->in[1].data, *dy = args->in[2].data;
    mpt_real *dx = args->out[0].data, *dw = args->out[1].data, *db = mpt_arg_out(args, 2);
    int64_t n = mpt_tensor_cols(&args->in[0]), n_taps = args->node->attrs.kernel;
    int64_t sequence = args->node->attrs.sequence;
    int64_t n_tokens = args->node->attrs.batch * sequence;
    for (int64_t i = 0; i < n_tokens * n; i++)
        dx[i] = 0;
    for (int64_t token = 0; token < n_tokens; token++) {
        int64_t t = token % sequence;
        for (int64_t c = 0; c < n; c++) {
            mpt_real g = dy[token * n + c];
            for (int64_t k = 0; k < n_taps; k++) {
                int64_t back = n_taps - 1 - k;
                if (back > t)
                    continue;
                dw[c * n_taps + k] += g * x[(token - back) * n + c];
                dx[(token - back) * n + c] += g * w[c * n_taps + k];
            }
            if (db)
                db[c] += g;
        }
    }
}
