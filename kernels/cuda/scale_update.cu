/* scale_update: the window of amaxes moves on, and the next step's scale comes out of it.
 *
 * One block of threads a window: the largest entry is found in any order, the entries move up
 * by one, and the formulas of numerics_scale.h make the scale. A device is one rank, so there
 * is no amax of others to join. Bound by latency. */
#include "kernels/cuda/values.h"

/* The largest of entries 1 ... n - 1, as bits; NaN is not seen. */
static __device__ uint32_t largest(const float *history, int n) {
    __shared__ uint32_t most[GPU_THREADS];
    uint32_t own = 0;
    for (int i = 1 + (int)threadIdx.x; i < n; i += GPU_THREADS) {
        uint32_t bits = mpt_float_bits(history[i]);
        own = bits <= MPT_INF_BITS && bits > own ? bits : own;
    }
    most[threadIdx.x] = own;
    for (unsigned half = GPU_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x])
            most[threadIdx.x] = most[threadIdx.x + half];
    }
    __syncthreads();
    return most[0];
}

/* Entries 2 ... n - 1 become 1 ... n - 2, `last` the last one, and the first begins anew. */
static __device__ void move_on(float *history, int n, float last) {
    for (int at = 1; at < n; at += GPU_THREADS) {
        int i = at + (int)threadIdx.x;
        float next = i + 1 < n ? history[i + 1] : last;
        __syncthreads();
        if (i < n)
            history[i] = next;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        history[0] = 0.0f;
}

static __global__ void scale_update_kernel(float *scale, float *history, int n, int most_recent,
                                           float max) {
    float last = history[0];
    float amax = mpt_bits_float(largest(history, n));
    if (last != 0.0f)
        move_on(history, n, last);
    if (threadIdx.x == 0)
        *scale = mpt_delayed_scale(*scale, last, amax, most_recent, max);
}

extern "C" void mpt_cuda_scale_update(const mpt_kernel_args *args) {
    const mpt_quantizer *q = &args->node->attrs.row;
    GPU_LAUNCH(scale_update_kernel, 1, GPU_THREADS, 0, args->gpu, (float *)args->in[0].data,
               (float *)args->in[1].data, (int)args->in[1].dims[0],
               q->scale.algo == MPT_AMAX_MOST_RECENT, mpt_quantizer_delayed_max(q));
}
