/* cross_entropy: one token a row; the mean is taken at the end, in the order of the tokens.
 *
 * Formulas and the meaning of targets as in kernels/ref/ref_cross_entropy.c. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* Largest logit, and the sum of exponentials above it. A NaN ends in the sum. */
MPT_ALWAYS_INLINE float softmax_sum(const float *x, int64_t n, float *most) {
    float m = mpt_largest(x, n, -INFINITY), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += mpt_expf(x[i] - m);
    *most = m;
    return sum;
}

MPT_CLONES static float token_loss(const float *x, int64_t n, int32_t target) {
    float most, sum = softmax_sum(x, n, &most);
    return most + logf(sum) - (target < n ? x[target] : NAN);
}

MPT_CLONES static void token_grad(const float *x, int64_t n, int32_t target, float seed,
                                  float *dx) {
    if (target < 0) {
        memset(dx, 0, mpt_cpu_floats(n));
        return;
    }
    float most, sum = softmax_sum(x, n, &most);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = mpt_expf(x[i] - most) / sum * seed;
    if (target < n)
        dx[target] = (mpt_expf(x[target] - most) / sum - 1.0f) * seed;
}

size_t mpt_cpu_cross_entropy_scratch(const mpt_graph *graph, const mpt_node *node,
                                     int n_threads) {
    (void)n_threads;
    const mpt_value *targets = &graph->values[node->in[1]];
    int64_t n = 1;
    for (int i = 0; i < targets->rank; i++)
        n *= targets->dims[i];
    return mpt_cpu_floats(n);
}

void mpt_cpu_cross_entropy(const mpt_kernel_args *args) {
    const float *logits = args->in[0].data;
    const int32_t *targets = args->in[1].data;
    float *each = args->scratch, *loss = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_rows; t++)
        each[t] = targets[t] < 0 ? 0.0f : token_loss(logits + t * n, n, targets[t]);
    double total = 0;
    int64_t n_targets = 0;
    for (int64_t t = 0; t < n_rows; t++) {
        total += (double)each[t];
        n_targets += targets[t] >= 0;
    }
    loss[0] = n_targets > 0 ? (float)(total / (double)n_targets) : 0.0f;
}

void mpt_cpu_cross_entropy_grad(const mpt_kernel_args *args) {
    const float *logits = args->in[0].data;
    const int32_t *targets = args->in[1].data;
    float *dlogits = args->out[0].data, seed = args->env->loss_seed;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_rows; t++)
        token_grad(logits + t * n, n, targets[t], seed, dlogits + t * n);
}
