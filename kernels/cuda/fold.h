/* Sums over rows, by two stages: partial sums of fixed pieces of the rows lie in scratch, and a
 * second kernel adds them up.
 *
 * How many pieces there are follows from the node alone, so the bits are the same on every GPU.
 */
#ifndef MPT_KERNELS_CUDA_FOLD_H
#define MPT_KERNELS_CUDA_FOLD_H

#include "kernels/cuda/teams.h"

enum { GPU_FOLD_COLUMNS = 8, GPU_FOLD_PARTS = GPU_THREADS / GPU_FOLD_COLUMNS };

/* Rows of a piece p of `pieces`, as even as can be. */
static __device__ __forceinline__ int64_t gpu_piece(int64_t n_rows, int64_t pieces, int64_t p) {
    return n_rows / pieces * p + (n_rows % pieces < p ? n_rows % pieces : p);
}

/* out += the sum of rows of partial sums, `stride` apart. Bound by memory. */
static __global__ void fold_kernel(const float *partial, int64_t pieces, int64_t stride,
                                   gpu_tensor out) {
    __shared__ float parts[GPU_FOLD_PARTS][GPU_FOLD_COLUMNS + 1];
    unsigned column = threadIdx.x % GPU_FOLD_COLUMNS, part = threadIdx.x / GPU_FOLD_COLUMNS;
    int64_t i = (int64_t)blockIdx.x * GPU_FOLD_COLUMNS + column;
    float sum = 0;
    for (int64_t p = part; i < out.n && p < pieces; p += GPU_FOLD_PARTS)
        sum += partial[p * stride + i];
    parts[part][column] = sum;
    __syncthreads();
    if (part > 0 || i >= out.n)
        return;
    for (int k = 1; k < GPU_FOLD_PARTS; k++)
        sum += parts[k][column];
    gpu_put(out, i, gpu_get(out, i) + sum);
}

static inline void gpu_fold(mpt_gpu *gpu, const float *partial, int64_t pieces, int64_t stride,
                            gpu_tensor out) {
    unsigned blocks = (unsigned)((out.n + GPU_FOLD_COLUMNS - 1) / GPU_FOLD_COLUMNS);
    GPU_LAUNCH(fold_kernel, blocks, GPU_THREADS, 0, gpu, partial, pieces, stride, out);
}

#endif
