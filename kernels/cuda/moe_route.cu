/* moe_route: the experts of each token, and the rows of each expert; and moe_route_grad.
 *
 * What is chosen is said in kernels/ref/ref_moe.c, and this chooses the same: scores are
 * rounded once from double (kernels/moe.h), and numbers are compared as keys that are ordered
 * as the choice orders them, so that the order of comparing does not matter. A warp takes a
 * token; its keys lie in scratch, which the caches hold. Then choices are sorted by expert
 * (order.h), and each row looks up which of them it holds. Bound by latency: a few launches of
 * microseconds. */
#include "kernels/cuda/order.h"
#include "kernels/cuda/teams.h"
#include "kernels/moe.h"

struct moe_job {
    gpu_tensor logits, bias, weights, load;
    int32_t *experts, *rows, *tokens, *offsets;
    const int32_t *order; /* choices by expert */
    int32_t *first;       /* where in `order` each expert's begin, and the end */
    uint32_t *keys;       /* of each token: the experts' and then the groups' */
    int64_t n_tokens, n, n_groups, top_k, top_groups, align, n_rows;
    float scale;
    bool by_softmax, normalize;
};

/* ---- keys: larger is chosen before; 0 is out ---- */

static __device__ __forceinline__ uint32_t moe_key(float x) {
    uint32_t bits = mpt_float_bits(x + 0.0f); /* one zero */
    if ((bits & MPT_ABS_BITS) > MPT_INF_BITS)
        return UINT32_MAX;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float moe_number(uint32_t key) {
    if (key == UINT32_MAX)
        return mpt_bits_float(MPT_NAN_BITS);
    return mpt_bits_float(key >> 31 ? key & MPT_ABS_BITS : ~key);
}

/* A key, and the complement of whose it is below it: of equal keys the first is the largest. */
struct moe_best {
    unsigned long long code;
};

struct moe_larger {
    static __device__ __forceinline__ moe_best of(moe_best a, moe_best b) {
        return b.code > a.code ? b : a;
    }
};

static __device__ __forceinline__ moe_best gpu_exchange(moe_best v, int with) {
    return {__shfl_xor_sync(0xFFFFFFFFu, v.code, with)};
}

static __device__ __forceinline__ moe_best moe_best_of(uint32_t key, int64_t i) {
    return {(unsigned long long)key << 32 | (uint32_t) ~(uint32_t)i};
}

/* The first of the best of n keys; it is out from now on. */
static __device__ __forceinline__ int64_t moe_take(uint32_t *keys, int64_t n) {
    moe_best best = {0};
    for (int64_t i = gpu_lane(); i < n; i += GPU_WARP)
        best = moe_larger::of(best, moe_best_of(keys[i], i));
    best = gpu_warp_reduce<moe_larger>(best);
    int64_t at = (int64_t)(uint32_t) ~(uint32_t)best.code;
    if (at % GPU_WARP == gpu_lane())
        keys[at] = 0;
    return at;
}

/* ---- scores ---- */

/* What a softmax needs of one token; every lane has it. */
struct moe_token {
    int64_t at; /* of its first logit */
    double most, sum;
};

static __device__ __forceinline__ moe_token moe_token_of(const gpu_tensor &logits, int64_t t,
                                                         int64_t n, bool by_softmax) {
    moe_token token = {t * n, 0, 1};
    if (!by_softmax)
        return token;
    moe_best most = {0};
    for (int64_t e = gpu_lane(); e < n; e += GPU_WARP)
        most = moe_larger::of(most, moe_best_of(moe_key(gpu_get(logits, token.at + e)), e));
    token.most = (double)moe_number((uint32_t)(gpu_warp_reduce<moe_larger>(most).code >> 32));
    token.sum = 0;
    for (int64_t e = gpu_lane(); e < n; e += GPU_WARP)
        token.sum += exp((double)gpu_get(logits, token.at + e) - token.most);
    token.sum = gpu_warp_sum(token.sum);
    return token;
}

static __device__ __forceinline__ float
moe_score(const gpu_tensor &logits, const moe_token &token, int64_t e, bool by_softmax) {
    double logit = (double)gpu_get(logits, token.at + e);
    return (float)(by_softmax ? mpt_moe_softmax(logit, token.most, token.sum)
                              : mpt_moe_sigmoid(logit));
}

/* ---- the choice ---- */

/* The sum of the two best of a group; of the one where it has no more. */
static __device__ __forceinline__ float moe_group_score(const uint32_t *keys, int64_t n) {
    uint32_t first = keys[0], second = 0;
    for (int64_t i = 1; i < n; i++) {
        uint32_t key = keys[i];
        second = key > first ? first : key > second ? key : second;
        first = key > first ? key : first;
    }
    return moe_number(first) + (n > 1 ? moe_number(second) : 0);
}

/* Leaves the experts of the best groups. */
static __device__ __forceinline__ void moe_limit_groups(const moe_job &k, uint32_t *keys) {
    uint32_t *groups = keys + k.n;
    int64_t size = k.n / k.n_groups;
    __syncwarp();
    for (int64_t g = gpu_lane(); g < k.n_groups; g += GPU_WARP)
        groups[g] = moe_key(moe_group_score(keys + g * size, size));
    for (int64_t i = 0; i < k.top_groups; i++)
        moe_take(groups, k.n_groups);
    __syncwarp();
    for (int64_t e = gpu_lane(); e < k.n; e += GPU_WARP)
        if (groups[e / size])
            keys[e] = 0;
}

/* The bare score of a choice, or NaN where it was chosen for one. */
static __device__ __forceinline__ float moe_weight(const moe_job &k, const moe_token &token,
                                                   int64_t e) {
    float score = moe_score(k.logits, token, e, k.by_softmax);
    float choice = score + (k.bias.data ? gpu_get(k.bias, e) : 0.0f);
    return isnan(choice) ? choice : score;
}

static __global__ void moe_choose_kernel(moe_job k) {
    int64_t t = gpu_row();
    if (t >= k.n_tokens)
        return;
    uint32_t *keys = k.keys + t * (k.n + k.n_groups);
    moe_token token = moe_token_of(k.logits, t, k.n, k.by_softmax);
    for (int64_t e = gpu_lane(); e < k.n; e += GPU_WARP)
        keys[e] = moe_key(moe_score(k.logits, token, e, k.by_softmax) +
                          (k.bias.data ? gpu_get(k.bias, e) : 0.0f));
    if (k.top_groups < k.n_groups)
        moe_limit_groups(k, keys);
    float sum = 1e-20f;
    for (int64_t j = 0; j < k.top_k; j++) {
        int64_t e = moe_take(keys, k.n);
        sum += moe_weight(k, token, e);
        if (gpu_lane() == 0)
            k.experts[t * k.top_k + j] = (int32_t)e;
    }
    __syncwarp();
    for (int64_t j = t * k.top_k + gpu_lane(); j < (t + 1) * k.top_k; j += GPU_WARP)
        gpu_put(k.weights, j,
                moe_weight(k, token, k.experts[j]) * (k.normalize ? k.scale / sum : k.scale));
}

/* ---- rows ---- */

/* The first of n sorted numbers at(i) that is not below x. Rows, choices and experts are
 * counted in 32 bits: infer refuses more. */
template <class At>
static __device__ __forceinline__ int32_t moe_lower_bound(int32_t n, int32_t x, At at) {
    int32_t first = 0;
    while (n > 0) {
        int32_t half = n / 2;
        bool below = at(first + half) < x;
        first = below ? first + half + 1 : first;
        n = below ? n - half - 1 : half;
    }
    return first;
}

/* Sums of all earlier threads of the block. */
static __device__ __forceinline__ int32_t moe_sum_before(int32_t own) {
    __shared__ int32_t sums[GPU_ORDER_THREADS];
    sums[threadIdx.x] = own;
    for (unsigned back = 1; back < GPU_ORDER_THREADS; back *= 2) {
        __syncthreads();
        int32_t more = threadIdx.x >= back ? sums[threadIdx.x - back] : 0;
        __syncthreads();
        sums[threadIdx.x] += more;
    }
    return sums[threadIdx.x] - own;
}

static __device__ __forceinline__ int32_t moe_aligned(const int32_t *first, int32_t e,
                                                      int32_t align) {
    return (first[e + 1] - first[e] + align - 1) / align * align;
}

/* One block: where the choices and the rows of each expert begin. */
static __global__ void __launch_bounds__(GPU_ORDER_THREADS, 1) moe_offsets_kernel(moe_job k) {
    int32_t n = (int32_t)k.n, align = (int32_t)k.align, *first = k.first;
    int32_t choices = (int32_t)(k.n_tokens * k.top_k);
    for (int32_t e = (int32_t)threadIdx.x; e <= n; e += GPU_ORDER_THREADS)
        first[e] =
            moe_lower_bound(choices, e, [&](int32_t i) { return k.experts[k.order[i]]; });
    __syncthreads();
    for (int32_t e = (int32_t)threadIdx.x; k.load.data && e < n; e += GPU_ORDER_THREADS)
        gpu_put(k.load, e, gpu_get(k.load, e) + (float)(first[e + 1] - first[e]));
    int32_t each = (n + GPU_ORDER_THREADS - 1) / GPU_ORDER_THREADS, own = 0;
    int32_t begin = (int32_t)threadIdx.x * each, end = begin + each < n ? begin + each : n;
    for (int32_t e = begin; e < end; e++)
        own += moe_aligned(first, e, align);
    int32_t at = moe_sum_before(own);
    if (threadIdx.x == 0)
        k.offsets[0] = 0;
    for (int32_t e = begin; e < end; e++) {
        at += moe_aligned(first, e, align);
        k.offsets[e + 1] = at;
    }
}

/* Each row finds its expert, and which of the expert's choices it holds. */
static __global__ void moe_place_kernel(moe_job k) {
    int32_t n = (int32_t)k.n;
    GPU_EACH(i, k.n_rows) {
        int32_t r = (int32_t)i;
        int32_t e = moe_lower_bound(n, r + 1, [&](int32_t j) { return k.offsets[j + 1]; });
        int32_t place = e < n ? k.first[e] + r - k.offsets[e] : 0;
        int32_t choice = e < n && place < k.first[e + 1] ? k.order[place] : -1;
        k.tokens[r] = choice;
        if (choice >= 0)
            k.rows[choice] = r;
    }
}

/* ---- launches ---- */

static size_t moe_keys(int64_t n_tokens, const mpt_attrs *a) {
    return (size_t)(n_tokens * (a->experts + a->groups));
}

extern "C" size_t mpt_cuda_moe_route_scratch(const mpt_graph *graph, const mpt_node *node,
                                             int n_threads) {
    (void)n_threads;
    int64_t n_tokens = graph->values[node->in[0]].dims[0];
    return moe_keys(n_tokens, &node->attrs) * sizeof(uint32_t) +
           ((size_t)node->attrs.experts + 1) * sizeof(int32_t) +
           gpu_order_bytes(n_tokens * node->attrs.top_k);
}

static moe_job moe_job_of(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    moe_job k = {};
    k.logits = gpu_in(args, 0);
    k.n_tokens = gpu_rows(&args->in[0]);
    k.n = a->experts;
    k.n_groups = a->groups;
    k.top_k = a->top_k;
    k.top_groups = a->top_groups;
    k.align = a->align;
    k.scale = a->scale;
    k.by_softmax = a->by_softmax;
    k.normalize = a->normalize;
    return k;
}

extern "C" void mpt_cuda_moe_route(const mpt_kernel_args *args) {
    moe_job k = moe_job_of(args);
    k.bias = gpu_in(args, 1);
    k.weights = gpu_out(args, 0);
    k.experts = (int32_t *)args->out[1].data;
    k.rows = (int32_t *)args->out[2].data;
    k.tokens = (int32_t *)args->out[3].data;
    k.n_rows = gpu_out(args, 3).n;
    k.offsets = (int32_t *)args->out[4].data;
    if (!args->env->evaluating)
        k.load = gpu_out(args, 5);
    k.keys = (uint32_t *)args->scratch;
    k.first = (int32_t *)(k.keys + moe_keys(k.n_tokens, &args->node->attrs));
    GPU_LAUNCH(moe_choose_kernel, gpu_row_blocks(k.n_tokens), GPU_THREADS, 0, args->gpu, k);
    k.order = gpu_order(args->gpu, k.experts, k.n_tokens * k.top_k, k.n, k.first + k.n + 1);
    GPU_LAUNCH(moe_offsets_kernel, 1, GPU_ORDER_THREADS, 0, args->gpu, k);
    GPU_LAUNCH(moe_place_kernel, gpu_blocks(k.n_rows), GPU_THREADS, 0, args->gpu, k);
}

/* ---- the gradient of the weights ---- */

struct moe_grad_job {
    moe_job of;
    gpu_tensor dweights, dlogits;
};

/* Logits that were not chosen first, as if all were such; then the chosen. */
static __global__ void moe_route_grad_kernel(moe_grad_job g) {
    const moe_job &k = g.of;
    int64_t t = gpu_row(), begin = t * k.top_k, end = begin + k.top_k;
    if (t >= k.n_tokens)
        return;
    moe_token token = moe_token_of(k.logits, t, k.n, k.by_softmax);
    float sum = 0, dot = 0, mean = 0;
    for (int64_t j = begin + gpu_lane(); j < end; j += GPU_WARP) {
        float score = moe_score(k.logits, token, k.experts[j], k.by_softmax);
        sum += score;
        dot += gpu_get(g.dweights, j) * score;
    }
    sum = gpu_warp_sum(sum) + 1e-20f;
    dot = gpu_warp_sum(dot);
    float shift = k.normalize ? dot / sum : 0, factor = k.normalize ? k.scale / sum : k.scale;
    for (int64_t j = begin + gpu_lane(); j < end; j += GPU_WARP)
        mean += factor * (gpu_get(g.dweights, j) - shift) *
                moe_score(k.logits, token, k.experts[j], k.by_softmax);
    mean = k.by_softmax ? gpu_warp_sum(mean) : 0;
    for (int64_t e = gpu_lane(); e < k.n; e += GPU_WARP) {
        float score = moe_score(k.logits, token, e, k.by_softmax);
        gpu_put(g.dlogits, token.at + e, k.by_softmax ? score * -mean : 0 * score);
    }
    __syncwarp();
    for (int64_t j = begin + gpu_lane(); j < end; j += GPU_WARP) {
        float score = moe_score(k.logits, token, k.experts[j], k.by_softmax);
        float d = factor * (gpu_get(g.dweights, j) - shift);
        gpu_put(g.dlogits, token.at + k.experts[j],
                k.by_softmax ? score * (d - mean) : d * score * (1 - score));
    }
}

extern "C" void mpt_cuda_moe_route_grad(const mpt_kernel_args *args) {
    moe_grad_job g = {};
    g.of = moe_job_of(args);
    g.of.experts = (int32_t *)args->in[1].data;
    g.dweights = gpu_in(args, 2);
    g.dlogits = gpu_out(args, 0);
    GPU_LAUNCH(moe_route_grad_kernel, gpu_row_blocks(g.of.n_tokens), GPU_THREADS, 0, args->gpu,
               g);
}
