/* moe_dispatch, moe_combine and their gradients: rows to the experts and back.
 *
 * All of them gather, one output row at a time, so rows are divided among threads and each sum
 * is one thread's, over a token's experts in their order. The choice itself is ref's on every
 * backend: its time is none beside the products, and the same logits then choose the same. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* y = sum over j of weight[j] * (row rows[j] of x); NULL weights are ones. */
MPT_CLONES static void gather_row(const float *x, int64_t n, const int32_t *rows,
                                  const float *weights, int64_t k, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = 0;
    for (int64_t j = 0; j < k; j++) {
        const float *row = x + rows[j] * n;
        float weight = weights ? weights[j] : 1.0f;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] += weight * row[i];
    }
}

/* A row of a buffer by expert: a token's, times its weight; zero where it holds no choice. */
MPT_CLONES static void scatter_row(const float *x, int64_t n, float weight, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = weight * x[i];
}

MPT_CLONES static float dot(const float *a, const float *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void mpt_cpu_moe_dispatch(const mpt_kernel_args *args) {
    const float *x = args->in[0].data;
    const int32_t *tokens = args->in[1].data;
    float *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n_rows; r++) {
        if (tokens[r] < 0)
            memset(y + r * n, 0, mpt_cpu_floats(n));
        else
            memcpy(y + r * n, x + tokens[r] / k * n, mpt_cpu_floats(n));
    }
}

void mpt_cpu_moe_dispatch_grad(const mpt_kernel_args *args) {
    const float *dy = args->in[0].data;
    const int32_t *rows = args->in[1].data;
    float *dx = args->out[0].data;
    int64_t n_tokens = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_tokens; t++)
        gather_row(dy, n, rows + t * k, NULL, k, dx + t * n);
}

void mpt_cpu_moe_combine(const mpt_kernel_args *args) {
    const float *x = args->in[0].data, *weights = args->in[1].data;
    const int32_t *rows = args->in[2].data;
    float *y = args->out[0].data;
    int64_t n_tokens = mpt_tensor_rows(&args->out[0]), n = mpt_tensor_cols(&args->out[0]);
    int64_t k = args->node->attrs.top_k;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n_tokens; t++)
        gather_row(x, n, rows + t * k, weights + t * k, k, y + t * n);
}

void mpt_cpu_moe_combine_grad(const mpt_kernel_args *args) {
    const float *x = args->in[0].data, *weights = args->in[1].data, *dy = args->in[4].data;
    const int32_t *tokens = args->in[3].data;
    float *dx = args->out[0].data, *dweights = args->out[1].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    int64_t k = args->node->attrs.top_k;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n_rows; r++) {
        int32_t choice = tokens[r];
        if (choice < 0) {
            memset(dx + r * n, 0, mpt_cpu_floats(n));
            continue;
        }
        scatter_row(dy + choice / k * n, n, weights[choice], dx + r * n);
        dweights[choice] = dot(dy + choice / k * n, x + r * n, n);
    }
}
