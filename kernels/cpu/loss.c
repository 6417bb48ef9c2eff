/* cross_entropy: one token a row; the mean is taken at the end, in the order of the tokens.
 *
 * Formulas and the meaning of targets as in kernels/ref/ref_cross_entropy.c. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* The sum of exponentials above the largest logit. A NaN ends in it. */
MPT_CLONES static float token_loss(const float *x, int64_t n, int32_t target) {
    float most = mpt_largest(x, n, -INFINITY), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += mpt_expf(x[i] - most);
    return most + logf(sum) - (target < n ? x[target] : NAN);
}

/* dx holds the exponentials until their sum is known. */
MPT_CLONES static void token_grad(const float *x, int64_t n, int32_t target, float seed,
                                  float *dx) {
    if (target < 0) {
        memset(dx, 0, mpt_cpu_floats(n));
        return;
    }
    float most = mpt_largest(x, n, -INFINITY), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        dx[i] = mpt_expf(x[i] - most);
        sum += dx[i];
    }
    float hit = target < n ? (dx[target] / sum - 1.0f) * seed : 0.0f;
    float scale = seed / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] *= scale;
    if (target < n)
        dx[target] = hit;
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
