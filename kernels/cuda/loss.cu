/* cross_entropy and its gradient: a block a token, or a warp where there are few words.
 *
 * Formulas and the meaning of targets as in kernels/ref/ref_cross_entropy.c. Logits are read
 * once for the largest and the sum of exponentials above it, which a thread keeps side by side;
 * backward they are read a second time, mostly from the L2 cache. Bound by memory forward, by
 * the exponentials backward. */
#include "kernels/cuda/teams.h"

enum { LOSS_FEW = 1024, LOSS_BLOCK = 512 };

struct loss_job {
    gpu_tensor logits, dlogits;
    const int32_t *targets;
    float *each; /* the loss of each token; 0 where it has no target */
    const mpt_run_env *env;
    int64_t n_rows, n;
};

/* The largest number so far, and the sum of exp(x - base) of all. */
struct loss_sum {
    float most, sum;
};

/* What is subtracted: nothing where all are -inf, so that they add nothing, and NaN stays. */
static __device__ __forceinline__ float loss_base(float most) {
    return most == -INFINITY ? 0 : most;
}

static __device__ __forceinline__ loss_sum loss_join(loss_sum a, loss_sum b) {
    float most = b.most > a.most ? b.most : a.most, base = loss_base(most);
    return {most,
            a.sum * expf(loss_base(a.most) - base) + b.sum * expf(loss_base(b.most) - base)};
}

struct loss_joined {
    template <class T> static __device__ __forceinline__ T of(T a, T b) {
        return loss_join(a, b);
    }
    template <class T> static __device__ __forceinline__ T none() { return {-INFINITY, 0}; }
};

static __device__ __forceinline__ loss_sum gpu_exchange(loss_sum v, int with) {
    return {__shfl_xor_sync(0xFFFFFFFFu, v.most, with),
            __shfl_xor_sync(0xFFFFFFFFu, v.sum, with)};
}

/* Of this thread's words, then of all: the same bits in every thread. */
template <int THREADS>
static __device__ __forceinline__ loss_sum loss_parts(const gpu_tensor &logits, int64_t at,
                                                      int64_t n) {
    loss_sum own = {-INFINITY, 0};
    for (int64_t i = gpu_team<THREADS>::rank() * GPU_VECTOR; i < n; i += THREADS * GPU_VECTOR) {
        gpu_vector x = gpu_load(logits, at + i, n - i);
        float most = own.most;
        GPU_UNROLL
        for (int k = 0; k < GPU_VECTOR; k++)
            most = i + k < n && x.v[k] > most ? x.v[k] : most;
        float base = loss_base(most);
        if (most > own.most)
            own.sum *= expf(loss_base(own.most) - base);
        own.most = most;
        GPU_UNROLL
        for (int k = 0; k < GPU_VECTOR; k++)
            own.sum += i + k < n ? expf(x.v[k] - base) : 0;
    }
    return THREADS == GPU_WARP ? gpu_warp_reduce<loss_joined>(own)
                               : gpu_block_reduce<loss_joined>(own);
}

template <int THREADS>
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK) loss_kernel(loss_job k) {
    int64_t t = gpu_team<THREADS>::index();
    if (t >= k.n_rows)
        return;
    int32_t target = k.targets[t];
    float loss = 0;
    if (target >= 0) {
        loss_sum all = loss_parts<THREADS>(k.logits, t * k.n, k.n);
        float hit =
            target < k.n ? gpu_get(k.logits, t * k.n + target) : mpt_bits_float(MPT_NAN_BITS);
        loss = all.most + logf(all.sum) - hit;
    }
    if (gpu_team<THREADS>::rank() == 0)
        k.each[t] = loss;
}

/* One block: the losses of all tokens are a few reads. */
static __global__ void loss_mean_kernel(loss_job k, gpu_tensor loss) {
    double total = 0, n_targets = 0;
    for (int64_t t = threadIdx.x; t < k.n_rows; t += LOSS_BLOCK) {
        total += (double)k.each[t];
        n_targets += k.targets[t] >= 0 ? 1 : 0;
    }
    total = gpu_block_sum(total);
    n_targets = gpu_block_sum(n_targets);
    if (threadIdx.x == 0)
        gpu_put(loss, 0, n_targets > 0 ? (float)(total / n_targets) : 0.0f);
}

template <int THREADS>
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK)
    loss_grad_kernel(loss_job k) {
    int64_t t = gpu_team<THREADS>::index();
    if (t >= k.n_rows)
        return;
    int32_t target = k.targets[t];
    float seed = k.env->loss_seed, base = 0, sum = 1;
    if (target >= 0) {
        loss_sum all = loss_parts<THREADS>(k.logits, t * k.n, k.n);
        base = all.most;
        sum = all.sum;
    }
    float scale = seed / sum;
    for (int64_t i = gpu_team<THREADS>::rank() * GPU_VECTOR; i < k.n;
         i += THREADS * GPU_VECTOR) {
        gpu_vector d = {};
        if (target >= 0)
            d = gpu_load(k.logits, t * k.n + i, k.n - i);
        GPU_UNROLL
        for (int j = 0; j < GPU_VECTOR && target >= 0; j++) {
            float e = expf(d.v[j] - base);
            d.v[j] = i + j == target ? (e / sum - 1) * seed : e * scale;
        }
        gpu_store(k.dlogits, t * k.n + i, k.n - i, d);
    }
}

static loss_job loss_of(const mpt_kernel_args *args) {
    loss_job k = {};
    k.logits = gpu_in(args, 0);
    k.targets = (const int32_t *)args->in[1].data;
    k.env = args->gpu->env;
    k.n_rows = gpu_rows(&args->in[0]);
    k.n = gpu_cols(&args->in[0]);
    return k;
}

extern "C" size_t mpt_cuda_cross_entropy_scratch(const mpt_graph *graph, const mpt_node *node,
                                                 int n_threads) {
    (void)n_threads;
    const mpt_value *targets = &graph->values[node->in[1]];
    size_t n = 1;
    for (int i = 0; i < targets->rank; i++)
        n *= (size_t)targets->dims[i];
    return n * sizeof(float);
}

extern "C" void mpt_cuda_cross_entropy(const mpt_kernel_args *args) {
    loss_job k = loss_of(args);
    k.each = (float *)args->scratch;
    if (k.n <= LOSS_FEW)
        GPU_LAUNCH(loss_kernel<GPU_WARP>, gpu_team<GPU_WARP>::blocks(k.n_rows),
                   gpu_team<GPU_WARP>::BLOCK, 0, args->gpu, k);
    else
        GPU_LAUNCH(loss_kernel<LOSS_BLOCK>, gpu_team<LOSS_BLOCK>::blocks(k.n_rows), LOSS_BLOCK,
                   0, args->gpu, k);
    GPU_LAUNCH(loss_mean_kernel, 1, LOSS_BLOCK, 0, args->gpu, k, gpu_out(args, 0));
}

extern "C" void mpt_cuda_cross_entropy_grad(const mpt_kernel_args *args) {
    loss_job k = loss_of(args);
    k.dlogits = gpu_out(args, 0);
    if (k.n <= LOSS_FEW)
        GPU_LAUNCH(loss_grad_kernel<GPU_WARP>, gpu_team<GPU_WARP>::blocks(k.n_rows),
                   gpu_team<GPU_WARP>::BLOCK, 0, args->gpu, k);
    else
        GPU_LAUNCH(loss_grad_kernel<LOSS_BLOCK>, gpu_team<LOSS_BLOCK>::blocks(k.n_rows),
                   LOSS_BLOCK, 0, args->gpu, k);
}
