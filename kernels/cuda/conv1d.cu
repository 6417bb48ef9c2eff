/* conv1d: depthwise causal convolution, and its gradient.
 *
 * A thread takes one channel over a run of tokens, so a warp reads whole lines and the rows
 * that taps share are still in the first-level cache. Memory-bound: each tensor moves once. The
 * sums of taps and bias go over runs of fixed length first, then over the runs in order,
 * whatever the device is. */
#include "kernels/cuda/values.h"

enum { CONV_THREADS = 128, CONV_RUN = 64, CONV_SUM_RUN = 256, CONV_TAPS = 4 };

struct conv_job {
    gpu_tensor x, w, bias, y, dy, dx, dw, db;
    int64_t n, n_taps, sequence, n_tokens;
    float *partial; /* [runs][n_taps + 1][n], the bias last */
};

static conv_job conv_job_of(const mpt_kernel_args *args) {
    conv_job job = {};
    job.x = gpu_in(args, 0), job.w = gpu_in(args, 1);
    job.n = gpu_cols(&args->in[0]);
    job.n_taps = args->node->attrs.kernel;
    job.sequence = args->node->attrs.sequence;
    job.n_tokens = args->node->attrs.batch * job.sequence;
    return job;
}

static int64_t conv_runs(int64_t n_tokens, int64_t run) {
    return (n_tokens + run - 1) / run;
}

/* Channels along x; runs of tokens along y, which kernels walk as far as there are any. */
static dim3 conv_grid(int64_t n, int64_t n_runs) {
    return dim3((unsigned)((n + CONV_THREADS - 1) / CONV_THREADS),
                (unsigned)(n_runs < 65535 ? n_runs : 65535));
}

static __device__ __forceinline__ int64_t conv_channel() {
    return (int64_t)blockIdx.x * CONV_THREADS + threadIdx.x;
}

static __device__ __forceinline__ float conv_token(const conv_job &job, int64_t c,
                                                   int64_t token, float bias) {
    int64_t t = token % job.sequence;
    float sum = bias;
    for (int64_t k = 0; k < job.n_taps; k++) {
        int64_t back = job.n_taps - 1 - k;
        if (back <= t)
            sum +=
                gpu_get(job.w, c * job.n_taps + k) * gpu_get(job.x, (token - back) * job.n + c);
    }
    return sum;
}

static __global__ void __launch_bounds__(CONV_THREADS) conv1d_kernel(conv_job job) {
    int64_t c = conv_channel();
    if (c >= job.n)
        return;
    float bias = job.bias.data ? gpu_get(job.bias, c) : 0.0f;
    for (int64_t run = blockIdx.y; run * CONV_RUN < job.n_tokens; run += gridDim.y)
        for (int64_t i = 0; i < CONV_RUN && run * CONV_RUN + i < job.n_tokens; i++) {
            int64_t token = run * CONV_RUN + i;
            gpu_put(job.y, token * job.n + c, conv_token(job, c, token, bias));
        }
}

extern "C" void mpt_cuda_conv1d(const mpt_kernel_args *args) {
    conv_job job = conv_job_of(args);
    job.bias = gpu_in(args, 2), job.y = gpu_out(args, 0);
    GPU_LAUNCH(conv1d_kernel, conv_grid(job.n, conv_runs(job.n_tokens, CONV_RUN)), CONV_THREADS,
               0, args->gpu, job);
}

/* dx of a token gathers dy of the tokens after it. */
static __device__ __forceinline__ float conv_dx(const conv_job &job, int64_t c, int64_t token) {
    int64_t left = job.sequence - 1 - token % job.sequence;
    float sum = 0.0f;
    for (int64_t back = 0; back < job.n_taps && back <= left; back++)
        sum += gpu_get(job.w, (c + 1) * job.n_taps - 1 - back) *
               gpu_get(job.dy, (token + back) * job.n + c);
    return sum;
}

static __global__ void __launch_bounds__(CONV_THREADS) conv1d_dx_kernel(conv_job job) {
    int64_t c = conv_channel();
    if (c >= job.n)
        return;
    for (int64_t run = blockIdx.y; run * CONV_RUN < job.n_tokens; run += gridDim.y)
        for (int64_t i = 0; i < CONV_RUN && run * CONV_RUN + i < job.n_tokens; i++) {
            int64_t token = run * CONV_RUN + i;
            gpu_put(job.dx, token * job.n + c, conv_dx(job, c, token));
        }
}

/* One run's sums for CONV_TAPS taps, and for the bias beside the first of them. */
static __global__ void __launch_bounds__(CONV_THREADS) conv1d_sums_kernel(conv_job job) {
    int64_t c = conv_channel(), first = (int64_t)blockIdx.z * CONV_TAPS;
    if (c >= job.n)
        return;
    for (int64_t run = blockIdx.y; run * CONV_SUM_RUN < job.n_tokens; run += gridDim.y) {
        float sums[CONV_TAPS] = {}, bias = 0.0f;
        for (int64_t i = 0; i < CONV_SUM_RUN && run * CONV_SUM_RUN + i < job.n_tokens; i++) {
            int64_t token = run * CONV_SUM_RUN + i, t = token % job.sequence;
            float dy = gpu_get(job.dy, token * job.n + c);
            bias += dy;
            for (int k = 0; k < CONV_TAPS; k++) {
                int64_t back = job.n_taps - 1 - first - k;
                if (back >= 0 && back <= t)
                    sums[k] += dy * gpu_get(job.x, (token - back) * job.n + c);
            }
        }
        float *to = job.partial + run * (job.n_taps + 1) * job.n + c;
        for (int k = 0; k < CONV_TAPS; k++)
            if (first + k < job.n_taps)
                to[(first + k) * job.n] = sums[k];
        if (first == 0)
            to[job.n_taps * job.n] = bias;
    }
}

static __global__ void __launch_bounds__(CONV_THREADS)
    conv1d_fold_kernel(conv_job job, int64_t n_runs) {
    int64_t c = conv_channel(), tap = blockIdx.z;
    if (c >= job.n || (tap == job.n_taps && !job.db.data))
        return;
    float sum = 0.0f;
    for (int64_t run = 0; run < n_runs; run++)
        sum += job.partial[(run * (job.n_taps + 1) + tap) * job.n + c];
    gpu_tensor to = tap == job.n_taps ? job.db : job.dw;
    int64_t at = tap == job.n_taps ? c : c * job.n_taps + tap;
    gpu_put(to, at, gpu_get(to, at) + sum);
}

extern "C" size_t mpt_cuda_conv1d_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                               int n_threads) {
    (void)n_threads;
    const mpt_value *x = &graph->values[node->in[0]];
    const mpt_attrs *a = &node->attrs;
    return (size_t)conv_runs(a->batch * a->sequence, CONV_SUM_RUN) * (size_t)(a->kernel + 1) *
           (size_t)x->dims[x->rank - 1] * sizeof(float);
}

extern "C" void mpt_cuda_conv1d_grad(const mpt_kernel_args *args) {
    conv_job job = conv_job_of(args);
    job.dy = gpu_in(args, 2);
    job.dx = gpu_out(args, 0), job.dw = gpu_out(args, 1), job.db = gpu_out(args, 2);
    job.partial = (float *)args->scratch;
    int64_t n_runs = conv_runs(job.n_tokens, CONV_SUM_RUN);
    dim3 sums = conv_grid(job.n, n_runs), fold = conv_grid(job.n, 1);
    sums.z = (unsigned)((job.n_taps + CONV_TAPS - 1) / CONV_TAPS);
    fold.z = (unsigned)job.n_taps + 1;
    GPU_LAUNCH(conv1d_dx_kernel, conv_grid(job.n, conv_runs(job.n_tokens, CONV_RUN)),
               CONV_THREADS, 0, args->gpu, job);
    GPU_LAUNCH(conv1d_sums_kernel, sums, CONV_THREADS, 0, args->gpu, job);
    GPU_LAUNCH(conv1d_fold_kernel, fold, CONV_THREADS, 0, args->gpu, job, n_runs);
}
