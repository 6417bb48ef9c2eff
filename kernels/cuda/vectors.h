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

/* A 16-bit code's number, and a number's code. The instructions give the same bits as the
 * portable casts, canonical NaN included, in one step instead of some forty. */
static __device__ __forceinline__ float gpu_value_of(mpt_storage storage, uint32_t code) {
    if (storage == MPT_STORAGE_BF16)
        return mpt_bits_float(code << 16);
#if defined(__CUDA_ARCH__)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)code));
    return x;
#else
    return mpt_decode(MPT_DTYPE_FP16, code);
#endif
}

static __device__ __forceinline__ uint32_t gpu_code_of(mpt_storage storage, float x) {
#if defined(__CUDA_ARCH__)
    uint16_t code;
    if (storage == MPT_STORAGE_BF16)
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(x));
    else
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
#else
    return mpt_encode(storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16, x);
#endif
}

static __device__ __forceinline__ void gpu_unpack(mpt_storage storage, uint32_t word,
                                                  float *to) {
    to[0] = gpu_value_of(storage, word & 0xFFFFu);
    to[1] = gpu_value_of(storage, word >> 16);
}

static __device__ __forceinline__ uint32_t gpu_pack(mpt_storage storage, const float *from) {
    return gpu_code_of(storage, from[0]) | gpu_code_of(storage, from[1]) << 16;
}

/* One by one. */
static __device__ __forceinline__ gpu_vector gpu_load_parts(const gpu_tensor &t, int64_t i,
                                                            int64_t left) {
    gpu_vector x;
    const float *floats = (const float *)t.data + i;
    const uint16_t *codes = (const uint16_t *)t.data + i;
    bool host = t.storage == MPT_STORAGE_HOST;
    GPU_UNROLL
    for (int k = 0; k < GPU_VECTOR; k++)
        x.v[k] = k >= left ? 0.0f : host ? floats[k] : gpu_value_of(t.storage, codes[k]);
    return x;
}

/* All eight, at an aligned address. */
static __device__ __forceinline__ gpu_vector gpu_load_whole(const gpu_tensor &t, int64_t i) {
    gpu_vector x;
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

/* Elements i ... i + 7, of which the first `left` are the row's; it may be more than 8. */
static __device__ __forceinline__ gpu_vector gpu_load(const gpu_tensor &t, int64_t i,
                                                      int64_t left) {
    return left >= GPU_VECTOR && gpu_is_aligned(t, i) ? gpu_load_whole(t, i)
                                                      : gpu_load_parts(t, i, left);
}

/* Rounds what lies in floats, but is of a shorter format. */
static __device__ __forceinline__ float gpu_rounded(mpt_dtype dtype, float x) {
    if (dtype == MPT_DTYPE_BF16)
        return gpu_value_of(MPT_STORAGE_BF16, gpu_code_of(MPT_STORAGE_BF16, x));
    if (dtype == MPT_DTYPE_FP16)
        return gpu_value_of(MPT_STORAGE_FP16, gpu_code_of(MPT_STORAGE_FP16, x));
    return dtype == MPT_DTYPE_TF32 ? mpt_round(MPT_DTYPE_TF32, x) : x;
}

static __device__ __forceinline__ void gpu_store_parts(const gpu_tensor &t, int64_t i,
                                                       int64_t left, const gpu_vector &x) {
    float *floats = (float *)t.data + i;
    uint16_t *codes = (uint16_t *)t.data + i;
    bool host = t.storage == MPT_STORAGE_HOST;
    GPU_UNROLL
    for (int k = 0; k < GPU_VECTOR; k++)
        if (k < left && host)
            floats[k] = gpu_rounded(t.dtype, x.v[k]);
        else if (k < left)
            codes[k] = (uint16_t)gpu_code_of(t.storage, x.v[k]);
}

static __device__ __forceinline__ void gpu_store_whole(const gpu_tensor &t, int64_t i,
                                                       gpu_vector x) {
    if (t.storage != MPT_STORAGE_HOST) {
        *(uint4 *)((uint16_t *)t.data +
                   i) = {gpu_pack(t.storage, &x.v[0]), gpu_pack(t.storage, &x.v[2]),
                         gpu_pack(t.storage, &x.v[4]), gpu_pack(t.storage, &x.v[6])};
        return;
    }
    if (t.dtype != MPT_DTYPE_FP32) {
        GPU_UNROLL
        for (int k = 0; k < GPU_VECTOR; k++)
            x.v[k] = gpu_rounded(t.dtype, x.v[k]);
    }
    float4 *to = (float4 *)((float *)t.data + i);
    to[0] = *(const float4 *)&x.v[0];
    to[1] = *(const float4 *)&x.v[4];
}

static __device__ __forceinline__ void gpu_store(const gpu_tensor &t, int64_t i, int64_t left,
                                                 const gpu_vector &x) {
    if (left >= GPU_VECTOR && gpu_is_aligned(t, i))
        gpu_store_whole(t, i, x);
    else
        gpu_store_parts(t, i, left, x);
}

/* A part of a node's scratch as a tensor of floats. */
static __host__ __device__ __forceinline__ gpu_tensor gpu_floats(void *data, int64_t n) {
    return {data, MPT_DTYPE_FP32, MPT_STORAGE_HOST, n};
}

#endif
