/* Sums and maxima over a warp or a block, by trees that the number of lanes alone decides.
 *
 * Every thread of the block (blockDim.x a multiple of 32, at most 1024; one-dimensional) calls
 * a gpu_block_* function, and every thread gets the result: the same bits, because both sides
 * of each exchange add the same two numbers. Maxima pass over NaN, as fmaxf does; sums keep it,
 * so a kernel that has to show NaN does so by its sum. */
#ifndef MPT_KERNELS_CUDA_REDUCE_H
#define MPT_KERNELS_CUDA_REDUCE_H

#include "kernels/cuda/gpu.h"

enum { GPU_WARP = 32 };

/* A value and where it was found. */
struct gpu_best {
    float value;
    int32_t index;
};

static __device__ __forceinline__ unsigned gpu_lane() {
    return threadIdx.x % GPU_WARP;
}

static __device__ __forceinline__ unsigned gpu_warp_id() {
    return threadIdx.x / GPU_WARP;
}

/* ---- what is exchanged, and how two become one ---- */

static __device__ __forceinline__ float gpu_exchange(float v, int with) {
    return __shfl_xor_sync(0xFFFFFFFFu, v, with);
}

static __device__ __forceinline__ double gpu_exchange(double v, int with) {
    return __shfl_xor_sync(0xFFFFFFFFu, v, with);
}

static __device__ __forceinline__ gpu_best gpu_exchange(gpu_best v, int with) {
    return {__shfl_xor_sync(0xFFFFFFFFu, v.value, with),
            __shfl_xor_sync(0xFFFFFFFFu, v.index, with)};
}

struct gpu_add {
    template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
    template <class T> static __device__ __forceinline__ T none() { return 0; }
};

struct gpu_larger {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
    template <class T> static __device__ __forceinline__ T none() { return -INFINITY; }
};

/* The larger value; of equal ones that of the lower index. An index below 0 is nothing. */
struct gpu_better {
    static __device__ __forceinline__ gpu_best of(gpu_best a, gpu_best b) {
        bool first =
            b.index < 0 ||
            (a.index >= 0 && (a.value > b.value || (a.value == b.value && a.index < b.index)));
        return first ? a : b;
    }
    template <class T> static __device__ __forceinline__ T none() { return {-INFINITY, -1}; }
};

/* ---- trees ---- */

template <class Op, class T> static __device__ __forceinline__ T gpu_warp_reduce(T v) {
    for (int with = GPU_WARP / 2; with > 0; with /= 2)
        v = Op::of(v, gpu_exchange(v, with));
    return v;
}

/* Each warp by itself, then the warps' results, which all warps reduce alike. The first barrier
 * lets a call follow another at once. */
template <class Op, class T> static __device__ __forceinline__ T gpu_block_reduce(T v) {
    __shared__ T part[GPU_WARP];
    v = gpu_warp_reduce<Op>(v);
    if (blockDim.x <= GPU_WARP)
        return v;
    __syncthreads();
    if (gpu_lane() == 0)
        part[gpu_warp_id()] = v;
    __syncthreads();
    v = gpu_lane() < blockDim.x / GPU_WARP ? part[gpu_lane()] : Op::template none<T>();
    return gpu_warp_reduce<Op>(v);
}

static __device__ __forceinline__ float gpu_warp_sum(float v) {
    return gpu_warp_reduce<gpu_add>(v);
}

static __device__ __forceinline__ double gpu_warp_sum(double v) {
    return gpu_warp_reduce<gpu_add>(v);
}

static __device__ __forceinline__ float gpu_warp_max(float v) {
    return gpu_warp_reduce<gpu_larger>(v);
}

static __device__ __forceinline__ gpu_best gpu_warp_best(gpu_best v) {
    return gpu_warp_reduce<gpu_better>(v);
}

static __device__ __forceinline__ float gpu_block_sum(float v) {
    return gpu_block_reduce<gpu_add>(v);
}

static __device__ __forceinline__ double gpu_block_sum(double v) {
    return gpu_block_reduce<gpu_add>(v);
}

static __device__ __forceinline__ float gpu_block_max(float v) {
    return gpu_block_reduce<gpu_larger>(v);
}

static __device__ __forceinline__ gpu_best gpu_block_best(gpu_best v) {
    return gpu_block_reduce<gpu_better>(v);
}

#endif
