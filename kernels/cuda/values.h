/* Reading and writing of tensors inside kernels.
 *
 * A gpu_tensor is what a launch passes of an mpt_tensor. gpu_get gives the number that an
 * element stands for; gpu_put rounds to the tensor's format, once, as the executor does for
 * host kernels, so that no kernel rounds its outputs itself. Packed copies are not read with
 * these: quantize.cu writes them, the products read them. */
#ifndef MPT_KERNELS_CUDA_VALUES_H
#define MPT_KERNELS_CUDA_VALUES_H

#include "kernels/cuda/gpu.h"

struct gpu_tensor {
    void *data; /* NULL: absent */
    mpt_dtype dtype;
    mpt_storage storage;
    int64_t n; /* elements */
};

static inline gpu_tensor gpu_tensor_of(const mpt_tensor *t) {
    int64_t n = t->data ? 1 : 0;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return {t->data, t->dtype, t->storage, n};
}

/* Input or output i of a node; absent where it has none there. */
static inline gpu_tensor gpu_in(const mpt_kernel_args *args, int i) {
    return i < args->node->n_in ? gpu_tensor_of(&args->in[i]) : gpu_tensor{};
}

static inline gpu_tensor gpu_out(const mpt_kernel_args *args, int i) {
    return i < args->node->n_out ? gpu_tensor_of(&args->out[i]) : gpu_tensor{};
}

static inline int64_t gpu_cols(const mpt_tensor *t) {
    return t->dims[t->rank - 1];
}

static inline int64_t gpu_rows(const mpt_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static __device__ __forceinline__ float gpu_get(const gpu_tensor &t, int64_t i) {
    if (t.storage == MPT_STORAGE_HOST)
        return ((const float *)t.data)[i];
    uint32_t code = ((const uint16_t *)t.data)[i];
    return t.storage == MPT_STORAGE_BF16 ? mpt_bits_float(code << 16)
                                         : mpt_decode(MPT_DTYPE_FP16, code);
}

static __device__ __forceinline__ void gpu_put(const gpu_tensor &t, int64_t i, float x) {
    if (t.storage == MPT_STORAGE_BF16)
        ((uint16_t *)t.data)[i] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, x);
    else if (t.storage == MPT_STORAGE_FP16)
        ((uint16_t *)t.data)[i] = (uint16_t)mpt_encode(MPT_DTYPE_FP16, x);
    else
        ((float *)t.data)[i] =
            t.dtype != MPT_DTYPE_FP32 && mpt_is_wide(t.dtype) ? mpt_round(t.dtype, x) : x;
}

/* ---- launches ---- */

enum { GPU_THREADS = 256 };

/* Blocks for n elements, one a thread; loops in the kernel take what is left over. */
static inline unsigned gpu_blocks(int64_t n) {
    int64_t blocks = (n + GPU_THREADS - 1) / GPU_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks);
}

/* Loops over the elements 0 ... n - 1 that are this thread's. */
#define GPU_EACH(i, n)                                                                         \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                  \
         i += (int64_t)gridDim.x * blockDim.x)

#endif
