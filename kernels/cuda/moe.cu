/* moe_dispatch, moe_combine and their gradients, a warp a row; moe_balance.
 *
 * All of them gather: a row of the output has one writer, which adds a token's experts in their
 * order. Bound by memory. */
#include "kernels/cuda/teams.h"

struct moe_rows {
    gpu_tensor x, y, weights, dy, dweights;
    const int32_t *rows, *tokens; /* of choices; of rows */
    int64_t n_rows, n, top_k;     /* of the output */
};

/* ---- dispatch ---- */

static __global__ void moe_dispatch_kernel(moe_rows k) {
    int64_t r = gpu_row();
    if (r >= k.n_rows)
        return;
    int32_t choice = k.tokens[r];
    int64_t from = choice < 0 ? 0 : choice / k.top_k * k.n;
    GPU_ROW_EACH(i, k.n) {
        gpu_vector x = {};
        if (choice >= 0)
            x = gpu_load(k.x, from + i, k.n - i);
        gpu_store(k.y, r * k.n + i, k.n - i, x);
    }
}

extern "C" void mpt_cuda_moe_dispatch(const mpt_kernel_args *args) {
    moe_rows k = {};
    k.x = gpu_in(args, 0);
    k.tokens = (const int32_t *)args->in[1].data;
    k.y = gpu_out(args, 0);
    k.n_rows = gpu_rows(&args->out[0]);
    k.n = gpu_cols(&args->out[0]);
    k.top_k = args->node->attrs.top_k;
    GPU_LAUNCH(moe_dispatch_kernel, gpu_row_blocks(k.n_rows), GPU_THREADS, 0, args->gpu, k);
}

/* ---- combine, and the gradient of dispatch, which has no weights ---- */

template <bool WEIGHTED> static __global__ void moe_gather_kernel(moe_rows k) {
    int64_t t = gpu_row();
    if (t >= k.n_rows)
        return;
    GPU_ROW_EACH(i, k.n) {
        gpu_vector sum = {};
        for (int64_t j = t * k.top_k; j < (t + 1) * k.top_k; j++) {
            gpu_vector x = gpu_load(k.x, k.rows[j] * k.n + i, k.n - i);
            float weight = WEIGHTED ? gpu_get(k.weights, j) : 1.0f;
            GPU_UNROLL
            for (int v = 0; v < GPU_VECTOR; v++)
                sum.v[v] += WEIGHTED ? weight * x.v[v] : x.v[v];
        }
        gpu_store(k.y, t * k.n + i, k.n - i, sum);
    }
}

extern "C" void mpt_cuda_moe_dispatch_grad(const mpt_kernel_args *args) {
    moe_rows k = {};
    k.x = gpu_in(args, 0);
    k.rows = (const int32_t *)args->in[1].data;
    k.y = gpu_out(args, 0);
    k.n_rows = gpu_rows(&args->out[0]);
    k.n = gpu_cols(&args->out[0]);
    k.top_k = args->node->attrs.top_k;
    GPU_LAUNCH(moe_gather_kernel<false>, gpu_row_blocks(k.n_rows), GPU_THREADS, 0, args->gpu,
               k);
}

extern "C" void mpt_cuda_moe_combine(const mpt_kernel_args *args) {
    moe_rows k = {};
    k.x = gpu_in(args, 0);
    k.weights = gpu_in(args, 1);
    k.rows = (const int32_t *)args->in[2].data;
    k.y = gpu_out(args, 0);
    k.n_rows = gpu_rows(&args->out[0]);
    k.n = gpu_cols(&args->out[0]);
    k.top_k = args->node->attrs.top_k;
    GPU_LAUNCH(moe_gather_kernel<true>, gpu_row_blocks(k.n_rows), GPU_THREADS, 0, args->gpu, k);
}

/* ---- the gradient of combine ---- */

/* A row's gradient and the dot product that is its weight's share one reading of dy. Every
 * choice has a row, so every weight gets one. */
static __global__ void moe_combine_grad_kernel(moe_rows k) {
    int64_t r = gpu_row();
    if (r >= k.n_rows)
        return;
    int32_t choice = k.tokens[r];
    int64_t from = choice < 0 ? 0 : choice / k.top_k * k.n;
    float weight = choice < 0 ? 0 : gpu_get(k.weights, choice), dot = 0;
    GPU_ROW_EACH(i, k.n) {
        gpu_vector dx = {};
        if (choice >= 0) {
            gpu_vector dy = gpu_load(k.dy, from + i, k.n - i);
            gpu_vector x = gpu_load(k.x, r * k.n + i, k.n - i);
            GPU_UNROLL
            for (int v = 0; v < GPU_VECTOR; v++) {
                dx.v[v] = weight * dy.v[v];
                dot += dy.v[v] * x.v[v];
            }
        }
        gpu_store(k.y, r * k.n + i, k.n - i, dx);
    }
    dot = gpu_warp_sum(dot);
    if (choice >= 0 && gpu_lane() == 0)
        gpu_put(k.dweights, choice, dot);
}

extern "C" void mpt_cuda_moe_combine_grad(const mpt_kernel_args *args) {
    moe_rows k = {};
    k.x = gpu_in(args, 0);
    k.weights = gpu_in(args, 1);
    k.tokens = (const int32_t *)args->in[3].data;
    k.dy = gpu_in(args, 4);
    k.y = gpu_out(args, 0);
    k.dweights = gpu_out(args, 1);
    k.n_rows = gpu_rows(&args->in[0]);
    k.n = gpu_cols(&args->in[0]);
    k.top_k = args->node->attrs.top_k;
    GPU_LAUNCH(moe_combine_grad_kernel, gpu_row_blocks(k.n_rows), GPU_THREADS, 0, args->gpu, k);
}

/* ---- balance ---- */

/* Counts are whole, so sums and the comparison are exact. */
static __global__ void moe_balance_kernel(gpu_tensor load, gpu_tensor factor, gpu_tensor bias,
                                          float rate) {
    double all = 0;
    for (int64_t e = threadIdx.x; e < load.n; e += GPU_THREADS)
        all += (double)gpu_get(load, e);
    all = gpu_block_sum(all);
    if (isnan(gpu_get(factor, 0)))
        return;
    for (int64_t e = threadIdx.x; e < load.n; e += GPU_THREADS) {
        double own = (double)gpu_get(load, e) * (double)load.n;
        gpu_put(bias, e, gpu_get(bias, e) + (own < all ? rate : own > all ? -rate : 0.0f));
    }
}

extern "C" void mpt_cuda_moe_balance(const mpt_kernel_args *args) {
    GPU_LAUNCH(moe_balance_kernel, 1, GPU_THREADS, 0, args->gpu, gpu_in(args, 1),
               gpu_in(args, 2), gpu_out(args, 0), args->node->attrs.rate);
}
