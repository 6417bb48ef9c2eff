/* cross_entropy: mean over targets of log-sum-exp(logits) - logits[target], natural logarithm.
 *
 * A target of -1 (any negative) is left out of the mean, which is 0 where none is left. A
 * target past the vocabulary cannot be refused here and gives NaN. The gradient is
 * (softmax - onehot) * env->loss_seed: the trainer puts loss scale and the count of all targets
 * of the step in the seed, so that micro-batches add up to the mean of the whole. */
#include "kernels/ref/real.h"

/* Largest logit and sum of exponentials above it. A NaN anywhere ends in the sum. */
static void softmax_parts(const mpt_real *x, int64_t n, mpt_real *most, mpt_real *sum) {
    *most = -INFINITY;
    *sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > *most)
            *most = x[i];
    for (int64_t i = 0; i < n; i++)
        *sum += exp(x[i] - *most);
}

void MPT_REF(cross_entropy)(const mpt_kernel_args *args) {
    const mpt_real *logits = args->in[0].data;
    const int32_t *targets = args->in[1].data;
    mpt_real *loss = args->out[0].data, total = 0;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    int64_t n_targets = 0;
    for (int64_t t = 0; t < n_rows; t++) {
        mpt_real most, sum;
        if (targets[t] < 0)
            continue;
        softmax_parts(logits + t * n, n, &most, &sum);
        mpt_real hit = targets[t] < n ? logits[t * n + targets[t]] : (mpt_real)NAN;
        total += most + log(sum) - hit;
        n_targets++;
    }
    loss[0] = n_targets > 0 ? total / (mpt_real)n_targets : 0;
}

void MPT_REF(cross_entropy_grad)(const mpt_kernel_args *args) {
    const mpt_real *logits = args->in[0].data;
    const int32_t *targets = args->in[1].data;
    mpt_real *dlogits = args->out[0].data, seed = (mpt_real)args->env->loss_seed;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t t = 0; t < n_rows; t++) {
        mpt_real most = 0, sum = 1;
        if (targets[t] >= 0)
            softmax_parts(logits + t * n, n, &most, &sum);
        for (int64_t i = 0; i < n; i++) {
            mpt_real p = exp(logits[t * n + i] - most) / sum;
            mpt_real onehot = i == targets[t] ? 1 : 0;
            dlogits[t * n + i] = targets[t] < 0 ? 0 : (p - onehot) * seed;
        }
    }
}
