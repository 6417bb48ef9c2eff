/* Four elements of a tensor at once, as one access of 16 or 8 bytes.
 *
 * For kernels that stream whole tensors. A launch asks gpu_fours() of each tensor, whose memory
 * it knows, and takes elements one by one where one of them does not begin at 16 bytes. */
#ifndef MPT_KERNELS_CUDA_FOURS_H
#define MPT_KERNELS_CUDA_FOURS_H

#include "kernels/cuda/values.h"

enum { GPU_FOUR = 4 };

struct gpu_four {
    float x[GPU_FOUR];
};

/* Whether elements 4 i ... 4 i + 3 of t may be accessed at once. */
static inline bool gpu_fours(const gpu_tensor &t) {
    return (uintptr_t)t.data % 16 == 0;
}

static __device__ __forceinline__ float gpu_number(mpt_storage storage, uint32_t code) {
    return storage == MPT_STORAGE_BF16 ? mpt_bits_float(code << 16)
                                       : mpt_decode(MPT_DTYPE_FP16, code);
}

/* Elements i ... i + 3; i is a multiple of 4. */
static __device__ __forceinline__ gpu_four gpu_get4(const gpu_tensor &t, int64_t i) {
    gpu_four r;
    if (t.storage == MPT_STORAGE_HOST) {
        float4 v = *(const float4 *)((const float *)t.data + i);
        r.x[0] = v.x;
        r.x[1] = v.y;
        r.x[2] = v.z;
        r.x[3] = v.w;
        return r;
    }
    uint2 v = *(const uint2 *)((const uint16_t *)t.data + i);
    r.x[0] = gpu_number(t.storage, v.x & 0xFFFFu);
    r.x[1] = gpu_number(t.storage, v.x >> 16);
    r.x[2] = gpu_number(t.storage, v.y & 0xFFFFu);
    r.x[3] = gpu_number(t.storage, v.y >> 16);
    return r;
}

/* Rounds as gpu_put does. */
static __device__ __forceinline__ void gpu_put4(const gpu_tensor &t, int64_t i,
                                                const gpu_four &r) {
    if (t.storage == MPT_STORAGE_HOST) {
        bool rounds = t.dtype != MPT_DTYPE_FP32 && mpt_is_wide(t.dtype);
        float4 v;
        v.x = rounds ? mpt_round(t.dtype, r.x[0]) : r.x[0];
        v.y = rounds ? mpt_round(t.dtype, r.x[1]) : r.x[1];
        v.z = rounds ? mpt_round(t.dtype, r.x[2]) : r.x[2];
        v.w = rounds ? mpt_round(t.dtype, r.x[3]) : r.x[3];
        *(float4 *)((float *)t.data + i) = v;
        return;
    }
    mpt_dtype dtype = t.storage == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP16;
    uint2 v;
    v.x = mpt_encode(dtype, r.x[0]) | mpt_encode(dtype, r.x[1]) << 16;
    v.y = mpt_encode(dtype, r.x[2]) | mpt_encode(dtype, r.x[3]) << 16;
    *(uint2 *)((uint16_t *)t.data + i) = v;
}

/* Enough blocks to fill the GPU, no more than n elements need: what a thread prepares once then
 * serves many elements. Results never depend on the count. */
static inline unsigned gpu_resident_blocks(const mpt_gpu *gpu, int64_t n) {
    unsigned most = 8u * (unsigned)(gpu->n_multiprocessors > 0 ? gpu->n_multiprocessors : 1);
    unsigned needed = gpu_blocks((n + GPU_FOUR - 1) / GPU_FOUR);
    return needed < most ? needed : most;
}

#endif
