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

/* ---- conversions ---- */

/* BF16 by its bits: what mpt_encode(MPT_DTYPE_BF16, x) gives, in a handful of instructions. */
static __device__ __forceinline__ uint32_t gpu_encode_bf16(float x) {
    uint32_t u = mpt_float_bits(x);
    return (u & MPT_ABS_BITS) > MPT_INF_BITS ? 0x7FFFu : (u + 0x7FFFu + (u >> 16 & 1u)) >> 16;
}

/* FP16 by the processor's conversions, which round and saturate alike; a NaN that is decoded
 * may differ from mpt_decode's in its bits. */
static __device__ __forceinline__ uint32_t gpu_encode_fp16(float x) {
#if defined(__CUDA_ARCH__)
    unsigned short code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
#else
    return mpt_encode(MPT_DTYPE_FP16, x);
#endif
}

static __device__ __forceinline__ float gpu_decode_fp16(uint32_t code) {
#if defined(__CUDA_ARCH__)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)code));
    return x;
#else
    return mpt_decode(MPT_DTYPE_FP16, code);
#endif
}

/* What mpt_round gives of a wide format other than FP32. */
static __device__ __forceinline__ float gpu_round_wide(mpt_dtype dtype, float x) {
    uint32_t u = mpt_float_bits(x);
    if ((u & MPT_ABS_BITS) > MPT_INF_BITS)
        return mpt_bits_float(MPT_NAN_BITS);
    if (dtype == MPT_DTYPE_FP16)
        return gpu_decode_fp16(gpu_encode_fp16(x));
    uint32_t lost = dtype == MPT_DTYPE_BF16 ? 16 : 13;
    return mpt_bits_float((u + ((1u << (lost - 1)) - 1) + (u >> lost & 1u)) >> lost << lost);
}

/* ---- one element ---- */

static __device__ __forceinline__ float gpu_get(const gpu_tensor &t, int64_t i) {
    if (t.storage == MPT_STORAGE_HOST)
        return ((const float *)t.data)[i];
    uint32_t code = ((const uint16_t *)t.data)[i];
    return t.storage == MPT_STORAGE_BF16 ? mpt_bits_float(code << 16) : gpu_decode_fp16(code);
}

static __device__ __forceinline__ void gpu_put(const gpu_tensor &t, int64_t i, float x) {
    if (t.storage == MPT_STORAGE_HOST)
        ((float *)t.data)[i] =
            t.dtype != MPT_DTYPE_FP32 && mpt_is_wide(t.dtype) ? gpu_round_wide(t.dtype, x) : x;
    else
        ((uint16_t *)t.data)[i] =
            (uint16_t)(t.storage == MPT_STORAGE_BF16 ? gpu_encode_bf16(x) : gpu_encode_fp16(x));
}

/* ---- vectors: 4 or 8 elements of one thread ---- */

template <int N> struct gpu_floats { float v[N]; };

/* Whether the N elements from i on are all there and begin where accesses of 16 bytes (of 8:
 * four codes) may. */
template <int N>
static __device__ __forceinline__ bool gpu_whole(const gpu_tensor &t, int64_t i, int64_t end) {
    int bytes = t.storage == MPT_STORAGE_HOST ? 4 : 2, most = bytes * N < 16 ? bytes * N : 16;
    return i + N <= end && ((uintptr_t)t.data + (uintptr_t)(i * bytes)) % (uintptr_t)most == 0;
}

/* Two codes a word, or the bits of floats: memory's side of a vector. */
template <int WORDS>
static __device__ __forceinline__ void gpu_load_words(const void *from, uint32_t *words) {
    if constexpr (WORDS == 2) {
        uint2 x = *(const uint2 *)from;
        words[0] = x.x, words[1] = x.y;
    } else {
        GPU_UNROLL
        for (int k = 0; k < WORDS; k += 4) {
            uint4 x = ((const uint4 *)from)[k / 4];
            words[k] = x.x, words[k + 1] = x.y, words[k + 2] = x.z, words[k + 3] = x.w;
        }
    }
}

template <int WORDS>
static __device__ __forceinline__ void gpu_store_words(void *to, const uint32_t *words) {
    if constexpr (WORDS == 2)
        *(uint2 *)to = make_uint2(words[0], words[1]);
    else {
        GPU_UNROLL
        for (int k = 0; k < WORDS; k += 4)
            ((uint4 *)to)[k / 4] =
                make_uint4(words[k], words[k + 1], words[k + 2], words[k + 3]);
    }
}

template <int N>
static __device__ __forceinline__ gpu_floats<N> gpu_get_floats(const float *p, int64_t n,
                                                               bool whole) {
    uint32_t words[N];
    if (whole)
        gpu_load_words<N>(p, words);
    else {
        GPU_UNROLL
        for (int k = 0; k < N; k++)
            words[k] = k < n ? mpt_float_bits(p[k]) : 0;
    }
    gpu_floats<N> f;
    GPU_UNROLL
    for (int k = 0; k < N; k++)
        f.v[k] = mpt_bits_float(words[k]);
    return f;
}

template <int N>
static __device__ __forceinline__ gpu_floats<N> gpu_get_codes(const uint16_t *p, int64_t n,
                                                              bool whole, bool fp16) {
    uint32_t words[N / 2];
    if (whole)
        gpu_load_words<N / 2>(p, words);
    else {
        GPU_UNROLL
        for (int k = 0; k < N / 2; k++)
            words[k] = (2 * k < n ? p[2 * k] : 0u) | (2 * k + 1 < n ? p[2 * k + 1] : 0u) << 16;
    }
    gpu_floats<N> f;
    GPU_UNROLL
    for (int k = 0; k < N; k++) {
        uint32_t code = words[k / 2] >> 16 * (k % 2) & 0xFFFFu;
        f.v[k] = fp16 ? gpu_decode_fp16(code) : mpt_bits_float(code << 16);
    }
    return f;
}

template <int N>
static __device__ __forceinline__ void gpu_put_floats(float *p, int64_t n, bool whole,
                                                      const gpu_floats<N> &f) {
    uint32_t words[N];
    GPU_UNROLL
    for (int k = 0; k < N; k++)
        words[k] = mpt_float_bits(f.v[k]);
    if (whole)
        gpu_store_words<N>(p, words);
    else {
        GPU_UNROLL
        for (int k = 0; k < N; k++)
            if (k < n)
                p[k] = f.v[k];
    }
}

template <int N>
static __device__ __forceinline__ void gpu_put_codes(uint16_t *p, int64_t n, bool whole,
                                                     bool fp16, const gpu_floats<N> &f) {
    uint32_t codes[N], words[N / 2];
    GPU_UNROLL
    for (int k = 0; k < N; k++)
        codes[k] = fp16 ? gpu_encode_fp16(f.v[k]) : gpu_encode_bf16(f.v[k]);
    GPU_UNROLL
    for (int k = 0; k < N / 2; k++)
        words[k] = codes[2 * k] | codes[2 * k + 1] << 16;
    if (whole)
        gpu_store_words<N / 2>(p, words);
    else {
        GPU_UNROLL
        for (int k = 0; k < N; k++)
            if (k < n)
                p[k] = (uint16_t)codes[k];
    }
}

/* The elements i ... i + N - 1 that are below `end`; those beyond are 0. */
template <int N>
static __device__ __forceinline__ gpu_floats<N> gpu_get_n(const gpu_tensor &t, int64_t i,
                                                          int64_t end) {
    bool whole = gpu_whole<N>(t, i, end);
    if (t.storage == MPT_STORAGE_HOST)
        return gpu_get_floats<N>((const float *)t.data + i, end - i, whole);
    return gpu_get_codes<N>((const uint16_t *)t.data + i, end - i, whole,
                            t.storage == MPT_STORAGE_FP16);
}

/* Writes those below `end`, rounded as gpu_put does. */
template <int N>
static __device__ __forceinline__ void gpu_put_n(const gpu_tensor &t, int64_t i, int64_t end,
                                                 gpu_floats<N> f) {
    bool whole = gpu_whole<N>(t, i, end);
    if (t.storage != MPT_STORAGE_HOST) {
        gpu_put_codes<N>((uint16_t *)t.data + i, end - i, whole, t.storage == MPT_STORAGE_FP16,
                         f);
        return;
    }
    if (t.dtype != MPT_DTYPE_FP32 && mpt_is_wide(t.dtype)) {
        GPU_UNROLL
        for (int k = 0; k < N; k++)
            f.v[k] = gpu_round_wide(t.dtype, f.v[k]);
    }
    gpu_put_floats<N>((float *)t.data + i, end - i, whole, f);
}

/* ---- launches ---- */

enum { GPU_THREADS = 256 };

/* Blocks for n elements, one a thread; loops in the kernel take what is left over. */
static inline unsigned gpu_blocks(int64_t n) {
    int64_t blocks = (n + GPU_THREADS - 1) / GPU_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks);
}

/* Four elements a thread, for kernels that hold several tensors of them at once. */
enum { GPU_FOUR = 4 };
typedef gpu_floats<GPU_FOUR> gpu_four;

static __host__ __device__ __forceinline__ int64_t gpu_fours(int64_t n) {
    return (n + GPU_FOUR - 1) / GPU_FOUR;
}

/* Enough blocks to fill the GPU, no more than n elements need by fours: what a thread prepares
 * once then serves many elements. Results never depend on the count. */
static inline unsigned gpu_resident_blocks(const mpt_gpu *gpu, int64_t n) {
    unsigned most = 8u * (unsigned)(gpu->n_multiprocessors > 0 ? gpu->n_multiprocessors : 1);
    unsigned needed = gpu_blocks(gpu_fours(n));
    return needed < most ? needed : most;
}

enum { GPU_VECTOR = 8 };

/* Blocks for n elements, GPU_VECTOR a thread. */
static inline unsigned gpu_vector_blocks(int64_t n) {
    return gpu_blocks((n + GPU_VECTOR - 1) / GPU_VECTOR);
}

/* Loops over the vectors of the elements 0 ... n - 1 that are this thread's: i is their first.
 */
#define GPU_EACH_VECTOR(i, n)                                                                  \
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * GPU_VECTOR; i < (n);   \
         i += (int64_t)gridDim.x * blockDim.x * GPU_VECTOR)

/* Loops over the elements 0 ... n - 1 that are this thread's. */
#define GPU_EACH(i, n)                                                                         \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                  \
         i += (int64_t)gridDim.x * blockDim.x)

#endif
