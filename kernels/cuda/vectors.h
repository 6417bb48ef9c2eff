/* Eight neighbouring elements at a time: 16-byte accesses where the address allows it, single
 * ones elsewhere.
 *
 * Which thread holds which elements never depends on the kind of access, so neither do sums.
 * Elements beyond a row's end read as 0 and are not written. */
#ifndef MPT_KERNELS_CUDA_VECTORS_H
#define MPT_KERNELS_CUDA_VECTORS_H

#include "kernels/cuda/values.h"

/* nvcc's host pass and g++ know no such pragma. */
#if defined(__CUDA_ARCH__)
#define GPU_UNROLL _Pragma("unroll")
#else
#define GPU_UNROLL
#endif

enum { GPU_VECTOR = 8 };

struct alignas(16) gpu_vector {
    float v[GPU_VECTOR];
};

static __host__ __device__ __forceinline__ int64_t gpu_vectors(int64_t n) {
    return (n + GPU_VECTOR - 1) / GPU_VECTOR;
}

/* Whether 16 bytes can be moved at element i. */
static __device__ __forceinline__ bool gpu_is_aligned(const gpu_tensor &t, int64_t i) {
    uintptr_t size = t.storage == MPT_STORAGE_HOST ? 4 : 2;
    return (((uintptr_t)t.data + (uintptr_t)i * size) & 15) == 0;
}

static __device__ __forceinline__ void gpu_unpack(mpt_storage storage, uint32_t word,
                                                  float *to) {
    bool bf16 = storage == MPT_STORAGE_BF16;
    to[0] = bf16 ? mpt_bits_float(word << 16) : mpt_decode(MPT_DTYPE_FP16, word & 0xFFFFu);
    to[1] = bf16 ? mpt_bits_float(word & 0xFFFF0000u) : mpt_decode(MPT_DTYPE_FP16, word >> 16);
}

static __device__ __forceinline__ uint32_t gpu_pack(mpt_storage storage, const float *from) {
    mpt_dtype dtype = storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16;
    return mpt_encode(dtype, from[0]) | mpt_encode(dtype, from[1]) << 16;
}

/* Elements i ... i + 7, of which the first `left` are the row's; it may be more than 8. */
static __device__ __forceinline__ gpu_vector gpu_load(const gpu_tensor &t, int64_t i,
                                                      int64_t left) {
    gpu_vector x;
    if (left >= GPU_VECTOR && gpu_is_aligned(t, i)) {
        if (t.storage == MPT_STORAGE_HOST) {
            const float4 *from = (const float4 *)((const float *)t.data + i);
            *(float4 *)&x.v[0] = from[0];
            *(float4 *)&x.v[4] = from[1];
        } else {
            uint4 from = *(const uint4 *)((const uint16_t *)t.data + i);
            gpu_unpack(t.storage, from.x, &x.v[0]);
            gpu_unpack(t.storage, from.y, &x.v[2]);
            gpu_unpack(t.storage, from.z, &x.v[4]);
            gpu_unpack(t.storage, from.w, &x.v[6]);
        }
        return x;
    }
    GPU_UNROLL
    for (int k = 0; k < GPU_VECTOR; k++)
        x.v[k] = k < left ? gpu_get(t, i + k) : 0;
    return x;
}

static __device__ __forceinline__ void gpu_store(const gpu_tensor &t, int64_t i, int64_t left,
                                                 const gpu_vector &x) {
    bool whole = left >= GPU_VECTOR && gpu_is_aligned(t, i);
    if (whole && t.storage == MPT_STORAGE_HOST && t.dtype == MPT_DTYPE_FP32) {
        float4 *to = (float4 *)((float *)t.data + i);
        to[0] = *(const float4 *)&x.v[0];
        to[1] = *(const float4 *)&x.v[4];
    } else if (whole && t.storage != MPT_STORAGE_HOST) {
        *(uint4 *)((uint16_t *)t.data +
                   i) = {gpu_pack(t.storage, &x.v[0]), gpu_pack(t.storage, &x.v[2]),
                         gpu_pack(t.storage, &x.v[4]), gpu_pack(t.storage, &x.v[6])};
    } else {
        GPU_UNROLL
        for (int k = 0; k < GPU_VECTOR; k++)
            if (k < left)
                gpu_put(t, i + k, x.v[k]);
    }
}

/* A part of a node's scratch as a tensor of floats. */
static __host__ __device__ __forceinline__ gpu_tensor gpu_floats(void *data, int64_t n) {
    return {data, MPT_DTYPE_FP32, MPT_STORAGE_HOST, n};
}

#endif
