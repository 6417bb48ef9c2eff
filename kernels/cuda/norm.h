/* What the forward and backward kernels of norms share: slices of rows and what a thread keeps
 * of them.
 *
 * Formulas as in kernels/ref/ref_norm.c and ref_gated_rmsnorm.c; rmsnorm and layernorm have one
 * slice a row. A team of threads has a slice, in registers where it fits, so everything is read
 * once; longer ones are read again, from the cache. Launch bounds ask for one block, or ptxas
 * spills a register or two to reach a rounder number of them. */
#ifndef MPT_KERNELS_CUDA_NORM_H
#define MPT_KERNELS_CUDA_NORM_H

#include "kernels/cuda/teams.h"

enum norm_kind { NORM_RMS, NORM_LAYER, NORM_GATED };

struct norm_job {
    gpu_tensor x, z, w, bias, dy; /* z: the gate */
    gpu_tensor y, dx, dz;
    float *dw, *db; /* partial sums: n_pieces rows of `stride`; db NULL: not wanted */
    int64_t n_rows, n_groups, n, n_pieces, stride;
    float eps;
};

/* What is kept is addressed by constants alone; the other loops are not to be unrolled, which
 * would take registers. */
#if defined(__CUDA_ARCH__)
#define NORM_UNROLL _Pragma("unroll (VECTORS ? VECTORS : 1)")
#else
#define NORM_UNROLL
#endif

/* The vectors of a slice that are this thread's: j-th, and from where on it is. */
#define NORM_EACH(j, c)                                                                        \
    NORM_UNROLL                                                                                \
    for (int64_t j = 0, c = gpu_team<THREADS>::rank() * GPU_VECTOR;                            \
         VECTORS ? j < VECTORS : c < k.n; j++, c += (int64_t)THREADS * GPU_VECTOR)

/* Slices that are kept are whole vectors at aligned addresses, as the host sees to: no code is
 * made for others. */
template <int VECTORS>
static __device__ __forceinline__ gpu_vector norm_load(const gpu_tensor &t, int64_t at,
                                                       int64_t left) {
    if (!VECTORS)
        return gpu_load(t, at, left);
    if (left <= 0)
        return gpu_vector{};
    if (t.storage == MPT_STORAGE_HOST)
        return gpu_get_floats<GPU_VECTOR>((const float *)t.data + at, GPU_VECTOR, true);
    return gpu_get_codes<GPU_VECTOR>((const uint16_t *)t.data + at, GPU_VECTOR, true,
                                     t.storage == MPT_STORAGE_FP16);
}

template <int VECTORS>
static __device__ __forceinline__ void norm_store(const gpu_tensor &t, int64_t at, int64_t left,
                                                  const gpu_vector &x) {
    if (!VECTORS || (t.storage == MPT_STORAGE_HOST && t.dtype != MPT_DTYPE_FP32))
        gpu_store(t, at, left, x);
    else if (left > 0 && t.storage == MPT_STORAGE_HOST)
        gpu_put_floats<GPU_VECTOR>((float *)t.data + at, GPU_VECTOR, true, x);
    else if (left > 0)
        gpu_put_codes<GPU_VECTOR>((uint16_t *)t.data + at, GPU_VECTOR, true,
                                  t.storage == MPT_STORAGE_FP16, x);
}

/* What this thread has of one slice of one tensor; of no VECTORS, nothing is kept. */
template <int VECTORS, bool KEPT = (VECTORS > 0)> struct norm_slice {
    gpu_vector kept[KEPT ? VECTORS : 1];

    __device__ __forceinline__ gpu_vector first(const gpu_tensor &t, int64_t j, int64_t at,
                                                int64_t left) {
        gpu_vector x = norm_load<VECTORS>(t, at, left);
        if (KEPT)
            kept[j] = x;
        return x;
    }

    __device__ __forceinline__ gpu_vector again(const gpu_tensor &t, int64_t j, int64_t at,
                                                int64_t left) const {
        return KEPT ? kept[j] : norm_load<VECTORS>(t, at, left);
    }
};

static __device__ __forceinline__ float sigmoid(float z) {
    return 1.0f / (1.0f + expf(-z));
}

/* x silu(z), as it is normalised. */
static __device__ __forceinline__ void norm_gate(gpu_vector *x, const gpu_vector &z) {
    GPU_UNROLL
    for (int i = 0; i < GPU_VECTOR; i++)
        x->v[i] = x->v[i] * (z.v[i] * sigmoid(z.v[i]));
}

/* The mean of a slice, which is kept in `x`. */
template <int THREADS, int VECTORS, bool KEPT>
static __device__ __forceinline__ float norm_mean(const norm_job &k, int64_t at,
                                                  norm_slice<VECTORS, KEPT> *x) {
    float sum = 0, none = 0;
    NORM_EACH(j, c) {
        gpu_vector v = x->first(k.x, j, at + c, k.n - c);
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++)
            sum += v.v[i];
    }
    gpu_team<THREADS>::sum(&sum, &none);
    return sum / (float)k.n;
}

/* ---- launches ---- */

enum { NORM_WARP = 1024, NORM_LONG = 8192 };

/* Whether slices can be kept; what a node lacks has the address 0. */
static bool norm_is_whole(const norm_job &k) {
    const gpu_tensor *all[] = {&k.x, &k.z, &k.w, &k.bias, &k.dy, &k.y, &k.dx, &k.dz};
    uintptr_t bits = 0;
    for (const gpu_tensor *t : all)
        bits |= (uintptr_t)t->data;
    return k.n % GPU_VECTOR == 0 && k.n <= NORM_LONG && bits % 16 == 0;
}

/* KERNEL::launch<KIND, threads, vectors a thread>, by the length of slices. Three shapes, since
 * nvcc takes its time over the six kernels of each: up to 4096 the large block keeps one vector
 * of two. */
template <class KERNEL, norm_kind KIND>
static void norm_run(const mpt_gpu *gpu, const norm_job &k) {
    if (!norm_is_whole(k))
        KERNEL::template launch<KIND, 256, 0>(gpu, k);
    else if (k.n <= NORM_WARP)
        KERNEL::template launch<KIND, 32, 4>(gpu, k);
    else
        KERNEL::template launch<KIND, 512, 2>(gpu, k);
}

static norm_job norm_of(const mpt_kernel_args *args) {
    norm_job k = {};
    k.x = gpu_in(args, 0);
    k.n_rows = gpu_rows(&args->in[0]);
    k.n_groups =
        args->node->op == MPT_OP_gated_rmsnorm || args->node->op == MPT_OP_gated_rmsnorm_grad
            ? args->node->attrs.groups
            : 1;
    k.n = gpu_cols(&args->in[0]) / k.n_groups;
    k.eps = args->node->attrs.eps;
    return k;
}

#endif
