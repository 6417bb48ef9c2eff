/* The places of a list of small numbers, sorted by the number: equal ones keep their order.
 *
 * A radix sort of one block, eight bits a pass, so that one launch does it and no atomic
 * decides an order. Each warp has one piece of the list, of which it counts the digits; the
 * counts of all warps, summed up digit by digit, say where each has room. Its time is that of
 * a few reads of the list by one multiprocessor: microseconds for the tokens of a batch. */
#ifndef MPT_KERNELS_CUDA_ORDER_H
#define MPT_KERNELS_CUDA_ORDER_H

#include "kernels/cuda/reduce.h"

enum {
    GPU_ORDER_THREADS = 1024,
    GPU_ORDER_WARPS = GPU_ORDER_THREADS / GPU_WARP,
    GPU_ORDER_BITS = 8,
    GPU_ORDER_DIGITS = 1 << GPU_ORDER_BITS
};

struct gpu_order_job {
    const int32_t *keys;
    int64_t n, limit;
    int32_t *from, *to; /* places as they are so far, and after the pass */
};

/* Passes that bring all of 0 ... limit into order. */
static __host__ __device__ __forceinline__ int gpu_order_passes(int64_t limit) {
    int passes = 1;
    while (limit >> (passes * GPU_ORDER_BITS))
        passes++;
    return passes;
}

/* Goes through the warp's piece, 32 places at a time, counting digits up in `next`. The second
 * time `next` says where the first of each digit goes, and places are written. */
static __device__ __forceinline__ void gpu_order_pass(const gpu_order_job &k, int pass,
                                                      bool write, int *next) {
    int64_t piece = (k.n + GPU_ORDER_THREADS - 1) / GPU_ORDER_THREADS * GPU_WARP;
    int64_t first = piece * gpu_warp_id(), end = first + piece < k.n ? first + piece : k.n;
    for (int64_t base = first; base < end; base += GPU_WARP) {
        int64_t i = base + gpu_lane();
        int digit = -1, place = 0;
        if (i < end) {
            place = pass > 0 ? k.from[i] : (int)i;
            int64_t key = k.keys[place];
            key = key < 0 || key > k.limit ? k.limit : key;
            digit = (int)(key >> (pass * GPU_ORDER_BITS) & (GPU_ORDER_DIGITS - 1));
        }
        unsigned alike = __match_any_sync(0xFFFFFFFFu, digit),
                 before = alike & ((1u << gpu_lane()) - 1);
        if (write && digit >= 0)
            k.to[next[digit] + __popc(before)] = place;
        __syncwarp();
        if (digit >= 0 && before == 0)
            next[digit] += __popc(alike);
        __syncwarp();
    }
}

/* Counts of each warp and digit become first places: by digit, then by warp. */
static __device__ __forceinline__ void gpu_order_scan(int (*next)[GPU_ORDER_DIGITS],
                                                      int *totals) {
    unsigned digit = threadIdx.x;
    int own = 0;
    if (digit < GPU_ORDER_DIGITS) {
        for (int w = 0; w < GPU_ORDER_WARPS; w++)
            own += next[w][digit];
        totals[digit] = own;
    }
    for (unsigned back = 1; back < GPU_ORDER_DIGITS; back *= 2) {
        __syncthreads();
        int more = digit < GPU_ORDER_DIGITS && digit >= back ? totals[digit - back] : 0;
        __syncthreads();
        if (digit < GPU_ORDER_DIGITS)
            totals[digit] += more;
    }
    if (digit < GPU_ORDER_DIGITS) {
        int at = totals[digit] - own;
        for (int w = 0; w < GPU_ORDER_WARPS; w++) {
            int count = next[w][digit];
            next[w][digit] = at;
            at += count;
        }
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(GPU_ORDER_THREADS)
    gpu_order_kernel(gpu_order_job k, int passes) {
    __shared__ int next[GPU_ORDER_WARPS][GPU_ORDER_DIGITS], totals[GPU_ORDER_DIGITS];
    int *own = next[gpu_warp_id()];
    for (int pass = 0; pass < passes; pass++) {
        for (int d = (int)gpu_lane(); d < GPU_ORDER_DIGITS; d += GPU_WARP)
            own[d] = 0;
        __syncwarp();
        gpu_order_pass(k, pass, false, own);
        __syncthreads();
        gpu_order_scan(next, totals);
        gpu_order_pass(k, pass, true, own);
        __syncthreads();
        int32_t *swap = k.from;
        k.from = k.to;
        k.to = swap;
    }
}

/* Bytes of scratch for a list of n. */
static inline size_t gpu_order_bytes(int64_t n) {
    return 2 * (size_t)n * sizeof(int32_t);
}

/* Sorts n < 2^31 numbers; those below 0 or beyond limit - 1 count as `limit`, and so come last.
 * Gives the places, in scratch. */
static inline const int32_t *gpu_order(const mpt_gpu *gpu, const int32_t *keys, int64_t n,
                                       int64_t limit, void *scratch) {
    gpu_order_job k = {keys, n, limit, (int32_t *)scratch, (int32_t *)scratch + n};
    int passes = gpu_order_passes(limit);
    GPU_LAUNCH(gpu_order_kernel, 1, GPU_ORDER_THREADS, 0, gpu, k, passes);
    return passes % 2 ? k.to : k.from;
}

#endif
