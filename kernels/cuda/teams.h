/* Threads that share a row: a warp, of which a block holds four, or a whole block.
 *
 * Sums go by a tree that only the number of threads decides, and end in every thread. */
#ifndef MPT_KERNELS_CUDA_TEAMS_H
#define MPT_KERNELS_CUDA_TEAMS_H

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/values.h"

enum { GPU_WARP_TEAMS = 4 };

/* ---- a row's vectors ---- */

typedef gpu_floats<GPU_VECTOR> gpu_vector;

static __host__ __device__ __forceinline__ int64_t gpu_vectors(int64_t n) {
    return (n + GPU_VECTOR - 1) / GPU_VECTOR;
}

/* Elements i ... i + 7, of which the first `left` are the row's; it may be more than 8. */
static __device__ __forceinline__ gpu_vector gpu_load(const gpu_tensor &t, int64_t i,
                                                      int64_t left) {
    return gpu_get_n<GPU_VECTOR>(t, i, i + left);
}

static __device__ __forceinline__ void gpu_store(const gpu_tensor &t, int64_t i, int64_t left,
                                                 const gpu_vector &x) {
    gpu_put_n<GPU_VECTOR>(t, i, i + left, x);
}

/* A part of a node's scratch as a tensor of float32. */
static __host__ __device__ __forceinline__ gpu_tensor gpu_scratch(void *data) {
    return {data, MPT_DTYPE_FP32, MPT_STORAGE_HOST, 0};
}

/* ---- teams ---- */

/* Sums of a and of b over a block of THREADS. */
template <int THREADS, typename T>
static __device__ __forceinline__ void gpu_block_sums(T *a, T *b) {
    __shared__ T parts[2][THREADS / GPU_WARP];
    T x = gpu_warp_sum(*a), y = gpu_warp_sum(*b);
    __syncthreads(); /* the last sum has been read */
    if (threadIdx.x % GPU_WARP == 0) {
        parts[0][threadIdx.x / GPU_WARP] = x;
        parts[1][threadIdx.x / GPU_WARP] = y;
    }
    __syncthreads();
    *a = *b = 0;
    GPU_UNROLL
    for (int w = 0; w < THREADS / GPU_WARP; w++) {
        *a += parts[0][w];
        *b += parts[1][w];
    }
}

template <int THREADS> struct gpu_team {
    static const int BLOCK = THREADS == GPU_WARP ? GPU_WARP * GPU_WARP_TEAMS : THREADS;

    static unsigned blocks(int64_t teams) {
        return (unsigned)((teams + BLOCK / THREADS - 1) / (BLOCK / THREADS));
    }

    static __device__ __forceinline__ int rank() { return (int)(threadIdx.x % THREADS); }

    static __device__ __forceinline__ int64_t index() {
        return (int64_t)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    }

    template <typename T> static __device__ __forceinline__ void sum(T *a, T *b) {
        if (THREADS == GPU_WARP) {
            *a = gpu_warp_sum(*a);
            *b = gpu_warp_sum(*b);
        } else {
            gpu_block_sums<THREADS>(a, b);
        }
    }
};

/* ---- a warp a row, for what is only moved ---- */

enum { GPU_ROW_WARPS = GPU_THREADS / GPU_WARP };

static inline unsigned gpu_row_blocks(int64_t n_rows) {
    return (unsigned)((n_rows + GPU_ROW_WARPS - 1) / GPU_ROW_WARPS);
}

static __device__ __forceinline__ int64_t gpu_row() {
    return (int64_t)blockIdx.x * GPU_ROW_WARPS + threadIdx.x / GPU_WARP;
}

/* Loops over the first elements of a row's vectors that are this lane's. */
#define GPU_ROW_EACH(i, n)                                                                     \
    for (int64_t i = (int64_t)(threadIdx.x % GPU_WARP) * GPU_VECTOR; i < (n);                  \
         i += (int64_t)GPU_WARP * GPU_VECTOR)

#endif
