/* The optimizer's tail but its last node: zero, grad_reduce, unscale, grad_norm, finite_check,
 * global_norm, clip_factor. What each is for: kernels/ref/ref_optim.c.
 *
 * The passes over gradients are bound by memory. A sum of squares runs over chunks of a fixed
 * length, each by one block as a fixed tree of doubles, then over the chunks in the same way,
 * so it does not depend on the GPU; ref's order is another one, and the norms, rounded to
 * float32 once, differ by an ulp at most. What ranks would add up stays with the host: a device
 * runs one rank. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/values.h"
#include "kernels/optim_element.h"

/* Elements of one block's sum: 64 a thread, and enough blocks for matrices of a few MB. */
enum { CHUNK = 16 * 1024 };

/* ---- zero, grad_reduce ---- */

static __global__ void zero_kernel(gpu_tensor t) {
    GPU_EACH(i, gpu_fours(t.n))
    gpu_put_n<GPU_FOUR>(t, i * GPU_FOUR, t.n, gpu_four{});
}

extern "C" void mpt_cuda_zero(const mpt_kernel_args *args) {
    gpu_tensor t = gpu_out(args, 0);
    GPU_LAUNCH(zero_kernel, gpu_resident_blocks(args->gpu, t.n), GPU_THREADS, 0, args->gpu, t);
}

static __global__ void reduce_kernel(gpu_tensor t, mpt_dtype sent) {
    GPU_EACH(i, gpu_fours(t.n)) {
        gpu_four x = gpu_get_n<GPU_FOUR>(t, i * GPU_FOUR, t.n);
        for (int k = 0; k < GPU_FOUR; k++)
            x.v[k] = mpt_round(sent, x.v[k]);
        gpu_put_n<GPU_FOUR>(t, i * GPU_FOUR, t.n, x);
    }
}

/* A gradient that is sent as it is takes no launch. */
extern "C" void mpt_cuda_grad_reduce(const mpt_kernel_args *args) {
    gpu_tensor t = gpu_out(args, 0);
    mpt_dtype sent = args->node->attrs.reduce;
    if (sent != MPT_DTYPE_FP32 && sent != t.dtype)
        GPU_LAUNCH(reduce_kernel, gpu_resident_blocks(args->gpu, t.n), GPU_THREADS, 0,
                   args->gpu, t, sent);
}

/* ---- norms ---- */

/* This thread's part of the elements from...to; `from` is a multiple of 4. */
static __device__ double squares_of(const gpu_tensor &g, int64_t from, int64_t to,
                                    float unscale) {
    double sum = 0;
    for (int64_t i = from + GPU_FOUR * (int64_t)threadIdx.x; i < to;
         i += GPU_FOUR * GPU_THREADS) {
        gpu_four x = gpu_get_n<GPU_FOUR>(g, i, to);
        for (int k = 0; k < GPU_FOUR; k++)
            sum += i + k < to ? mpt_norm_term(x.v[k], unscale) : 0.0;
    }
    return sum;
}

/* One chunk a block. A tensor of one chunk is finished here, others by join_kernel. */
static __global__ void norm_kernel(gpu_tensor g, const float *unscale, double *part,
                                   float *row) {
    int64_t from = (int64_t)blockIdx.x * CHUNK;
    int64_t to = from + CHUNK < g.n ? from + CHUNK : g.n;
    double sum = gpu_block_sum(squares_of(g, from, to, *unscale));
    if (threadIdx.x != 0)
        return;
    if (gridDim.x == 1)
        mpt_norm_row(row, sum);
    else
        part[blockIdx.x] = sum;
}

static __global__ void join_kernel(const double *part, int64_t n, float *row) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += GPU_THREADS)
        sum += part[i];
    sum = gpu_block_sum(sum);
    if (threadIdx.x == 0)
        mpt_norm_row(row, sum);
}

static int64_t chunks_of(int64_t n) {
    return n > CHUNK ? (n + CHUNK - 1) / CHUNK : 1;
}

extern "C" size_t mpt_cuda_grad_norm_scratch(const mpt_graph *graph, const mpt_node *node,
                                             int) {
    return (size_t)chunks_of(mpt_value_elements(&graph->values[node->in[0]])) * sizeof(double);
}

extern "C" void mpt_cuda_grad_norm(const mpt_kernel_args *args) {
    gpu_tensor g = gpu_in(args, 0);
    double *part = (double *)args->scratch;
    float *row = (float *)args->out[0].data + 2 * args->node->attrs.row_index;
    int64_t chunks = chunks_of(g.n);
    GPU_LAUNCH(norm_kernel, (unsigned)chunks, GPU_THREADS, 0, args->gpu, g,
               (const float *)args->in[1].data, part, row);
    if (chunks > 1)
        GPU_LAUNCH(join_kernel, 1, GPU_THREADS, 0, args->gpu, (const double *)part, chunks,
                   row);
}

/* ---- the numbers of the whole step: one block each, over as many rows as parameters ---- */

static __global__ void unscale_kernel(float *out, const mpt_run_env *env) {
    *out = env->grad_unscale;
}

extern "C" void mpt_cuda_unscale(const mpt_kernel_args *args) {
    GPU_LAUNCH(unscale_kernel, 1, 1, 0, args->gpu, (float *)args->out[0].data, args->gpu->env);
}

/* The first bad row is the one that has most rows from it on; the largest count is the same in
 * any order. */
static __global__ void finite_kernel(const float *rows, int n, int32_t *out) {
    __shared__ unsigned left;
    if (threadIdx.x == 0)
        left = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += GPU_THREADS)
        if (rows[2 * i + 1] == 0.0f)
            atomicMax(&left, (unsigned)(n - i));
    __syncthreads();
    if (threadIdx.x == 0)
        *out = left > 0 ? n - (int32_t)left : -1;
}

extern "C" void mpt_cuda_finite_check(const mpt_kernel_args *args) {
    GPU_LAUNCH(finite_kernel, 1, GPU_THREADS, 0, args->gpu, (const float *)args->in[0].data,
               (int)args->in[0].dims[0], (int32_t *)args->out[0].data);
}

/* In ref's order: the block fetches rows, one thread adds them up. */
static __global__ void global_norm_kernel(const float *rows, int n, float *out) {
    __shared__ float norms[GPU_THREADS];
    double sum = 0;
    for (int from = 0; from < n; from += GPU_THREADS) {
        int i = from + (int)threadIdx.x;
        norms[threadIdx.x] = i < n ? rows[2 * i] : 0.0f;
        __syncthreads();
        for (int k = 0; threadIdx.x == 0 && k < GPU_THREADS && from + k < n; k++)
            sum += (double)norms[k] * (double)norms[k];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = (float)sqrt(sum);
}

extern "C" void mpt_cuda_global_norm(const mpt_kernel_args *args) {
    GPU_LAUNCH(global_norm_kernel, 1, GPU_THREADS, 0, args->gpu,
               (const float *)args->in[0].data, (int)args->in[0].dims[0],
               (float *)args->out[0].data);
}

static __global__ void factor_kernel(const float *norm, const float *unscale,
                                     const int32_t *bad, float clip, float *out) {
    *out = mpt_step_factor(clip, *norm, *unscale, *bad >= 0);
}

extern "C" void mpt_cuda_clip_factor(const mpt_kernel_args *args) {
    GPU_LAUNCH(factor_kernel, 1, 1, 0, args->gpu, (const float *)args->in[0].data,
               (const float *)args->in[1].data, (const int32_t *)args->in[2].data,
               args->node->attrs.clip, (float *)args->out[0].data);
}
