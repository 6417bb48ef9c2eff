/* attention, backward: probabilities are rebuilt from the log-sum-exp, tile by tile, twice.
 *
 * One kernel owns 64 keys and goes over the queries after them, of all heads of the group, for
 * dk and dv; one owns 64 queries and goes over the keys before them, for dq. So every sum has
 * one owner and one order, and nothing is added by atomics; the price is seven products where
 * five would do. Keys own rows in the first, so that its tiles of P and dS are born as the
 * operands that their products want. Issue-bound on tensor cores, as the forward pass. */
#include "kernels/cuda/attention.h"

/* ---- numbers of each query ---- */

/* delta = sum of do o; a warp a query and head. */
static __global__ void attention_delta_kernel(attention_job job) {
    int64_t n = job.batch * job.sequence * job.heads;
    int64_t row = (int64_t)blockIdx.x * TILE_WARPS + tile_warp();
    if (row >= n)
        return;
    float sum = 0.0f;
    for (int64_t c = tile_lane(); c < job.dim; c += 32)
        sum += gpu_get(job.dout, row * job.dim + c) * gpu_get(job.o, row * job.dim + c);
    sum = gpu_warp_sum(sum);
    if (tile_lane() == 0)
        job.delta[row] = sum;
}

/* The largest score of each query, where exponentials over it are rounded. */
template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS)
    attention_most_kernel(attention_job job) {
    enum { N = attention_tile<PLANES>::BACKWARD / 8 };
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    attention_item item = attention_item_of(job.batch, job.heads, true);
    tile_operand q = {attention_head(job, job.q, job.heads, item.b, item.h),
                      item.tile * TILE_ROWS, shared};
    tile_operand k = {
        attention_head(job, job.k, job.kv_heads, item.b, item.h / (job.heads / job.kv_heads)),
        0, shared + tile_layout<WIDTH, PLANES>::size(TILE_ROWS)};
    float most[2] = {-INFINITY, -INFINITY};
    tile_stage<WIDTH, PLANES, TILE_ROWS>(q.from, q.row, 0, q.tile);
    attention_all_largest<WIDTH, PLANES, N>(job, q, k, most);
    for (int r = 0; r < 2; r++) {
        int64_t t = q.row + tile_warp() * 16 + tile_cell_row(2 * r);
        if (tile_lane() % 4 == 0 && t < job.sequence)
            job.most[(item.b * job.sequence + t) * job.heads + item.h] = most[r];
    }
}

/* What a query's probabilities are made with. Past the end of the sequence all is zero: there
 * q and do are, and nothing comes of them. */
struct attention_query {
    float lse, delta, most;
};

static __device__ __forceinline__ attention_query attention_query_of(const attention_job &job,
                                                                     const attention_item &item,
                                                                     int64_t t) {
    if (t >= job.sequence)
        return {0.0f, 0.0f, 0.0f};
    int64_t at = (item.b * job.sequence + t) * job.heads + item.h;
    return {gpu_get(job.lse, at), job.delta[at],
            job.softmax == MPT_DTYPE_FP32 ? 0.0f : job.most[at]};
}

/* Turns the products q k and do v of one pair into what v's and k's gradients take: p is made
 * of the exponential that the forward pass multiplied, ds goes straight through its rounding.
 */
static __device__ __forceinline__ void attention_pair(const attention_job &job,
                                                      const attention_query &query, bool seen,
                                                      float &s, float &dp) {
    float score = seen ? job.scale * s : -INFINITY;
    float p = expf(score - query.lse);
    dp = job.scale * p * (dp - query.delta);
    s = job.softmax == MPT_DTYPE_FP32 ? p
                                      : attention_round(job.softmax, expf(score - query.most)) *
                                            expf(query.most - query.lse);
}

/* Where the tiles of a block lie: two of its own rows, two of the rows it goes over. */
template <int WIDTH, int PLANES> struct attention_tiles {
    enum { OTHERS = attention_tile<PLANES>::BACKWARD };
    uint16_t *own[2], *other[2];

    __device__ __forceinline__ explicit attention_tiles(uint16_t *shared) {
        for (int i = 0; i < 2; i++) {
            own[i] = shared + i * tile_layout<WIDTH, PLANES>::size(TILE_ROWS);
            other[i] = shared + 2 * tile_layout<WIDTH, PLANES>::size(TILE_ROWS) +
                       i * tile_layout<WIDTH, PLANES>::size(OTHERS);
        }
    }
};

/* ---- dk and dv ---- */

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS) attention_dkv_kernel(attention_job job) {
    enum { QUERIES = attention_tile<PLANES>::BACKWARD, N = QUERIES / 8 };
    __shared__ attention_query queries[QUERIES];
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    attention_tiles<WIDTH, PLANES> tiles(shared);
    attention_item item = attention_item_of(job.batch, job.kv_heads, false);
    int64_t j = item.h, group = job.heads / job.kv_heads, first = item.tile * TILE_ROWS;
    int slab = (int)blockIdx.y, cols = tile_width_of(job.dim, (int64_t)slab * WIDTH, WIDTH);
    tile_operand k = {attention_head(job, job.k, job.kv_heads, item.b, j), first, tiles.own[0]};
    tile_operand v = {attention_head(job, job.v, job.kv_heads, item.b, j), first, tiles.own[1]};
    float dk[WIDTH / 8][4] = {}, dv[WIDTH / 8][4] = {}, s[N][4], dp[N][4];
    tile_stage<WIDTH, PLANES, TILE_ROWS>(k.from, first, 0, k.tile);
    tile_stage<WIDTH, PLANES, TILE_ROWS>(v.from, first, 0, v.tile);
    for (int64_t i = 0; i < group * job.sequence; i += job.sequence) {
        item.h = j * group + i / job.sequence;
        tile_operand q = {attention_head(job, job.q, job.heads, item.b, item.h), first,
                          tiles.other[0]};
        tile_operand dout = {attention_head(job, job.dout, job.heads, item.b, item.h), first,
                             tiles.other[1]};
        for (; q.row < job.sequence; q.row += QUERIES) {
            dout.row = q.row;
            __syncthreads();
            if (threadIdx.x < QUERIES)
                queries[threadIdx.x] = attention_query_of(job, item, q.row + threadIdx.x);
            tile_dot<WIDTH, PLANES, PLANES, N>(s, k, q, slab);
            tile_dot<WIDTH, PLANES, PLANES, N>(dp, v, dout, slab);
            GPU_UNROLL
            for (int e = 0; e < N * 4; e++) {
                int col = 8 * (e / 4) + tile_cell_col(e % 4);
                int64_t key = first + tile_warp() * 16 + tile_cell_row(e % 4);
                attention_pair(job, queries[col], key <= q.row + col, s[e / 4][e % 4],
                               dp[e / 4][e % 4]);
            }
            tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(dv, s, dout.tile, cols);
            tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(dk, dp, q.tile, cols);
        }
    }
    first += tile_warp() * 16;
    tile_store<WIDTH>(attention_head(job, job.dk, job.kv_heads, item.b, j), first,
                      (int64_t)slab * WIDTH, dk, shared);
    tile_store<WIDTH>(attention_head(job, job.dv, job.kv_heads, item.b, j), first,
                      (int64_t)slab * WIDTH, dv, shared);
}

/* ---- dq ---- */

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS) attention_dq_kernel(attention_job job) {
    enum { KEYS = attention_tile<PLANES>::BACKWARD, N = KEYS / 8 };
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    attention_tiles<WIDTH, PLANES> tiles(shared);
    attention_item item = attention_item_of(job.batch, job.heads, true);
    int64_t j = item.h / (job.heads / job.kv_heads), first = item.tile * TILE_ROWS;
    int slab = (int)blockIdx.y, cols = tile_width_of(job.dim, (int64_t)slab * WIDTH, WIDTH);
    tile_operand q = {attention_head(job, job.q, job.heads, item.b, item.h), first,
                      tiles.own[0]};
    tile_operand dout = {attention_head(job, job.dout, job.heads, item.b, item.h), first,
                         tiles.own[1]};
    tile_operand k = {attention_head(job, job.k, job.kv_heads, item.b, j), 0, tiles.other[0]};
    tile_operand v = {attention_head(job, job.v, job.kv_heads, item.b, j), 0, tiles.other[1]};
    int64_t row = first + tile_warp() * 16;
    attention_query queries[2] = {attention_query_of(job, item, row + tile_cell_row(0)),
                                  attention_query_of(job, item, row + tile_cell_row(2))};
    int64_t end = first + TILE_ROWS < job.sequence ? first + TILE_ROWS : job.sequence;
    float dq[WIDTH / 8][4] = {}, s[N][4], dp[N][4];
    tile_stage<WIDTH, PLANES, TILE_ROWS>(q.from, first, 0, q.tile);
    tile_stage<WIDTH, PLANES, TILE_ROWS>(dout.from, first, 0, dout.tile);
    for (; k.row < end; k.row += KEYS) {
        v.row = k.row;
        __syncthreads();
        tile_dot<WIDTH, PLANES, PLANES, N>(dp, dout, v, slab);
        tile_dot<WIDTH, PLANES, PLANES, N>(s, q, k, slab);
        GPU_UNROLL
        for (int e = 0; e < N * 4; e++) {
            int64_t key = k.row + 8 * (e / 4) + tile_cell_col(e % 4);
            attention_pair(job, queries[e % 4 / 2], key <= row + tile_cell_row(e % 4),
                           s[e / 4][e % 4], dp[e / 4][e % 4]);
        }
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(dq, dp, k.tile, cols);
    }
    tile_store<WIDTH>(attention_head(job, job.dq, job.heads, item.b, item.h), row,
                      (int64_t)slab * WIDTH, dq, shared);
}

/* ---- launches ---- */

extern "C" size_t mpt_cuda_attention_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                                  int n_threads) {
    (void)graph, (void)n_threads;
    const mpt_attrs *a = &node->attrs;
    size_t numbers = (size_t)a->batch * (size_t)a->sequence * (size_t)a->heads;
    return numbers * sizeof(float) * (a->softmax == MPT_DTYPE_FP32 ? 1 : 2);
}

static attention_job attention_grad_job(const mpt_kernel_args *args) {
    attention_job job = attention_job_of(args);
    job.o = gpu_in(args, 3), job.lse = gpu_in(args, 4), job.dout = gpu_in(args, 5);
    job.dq = gpu_out(args, 0), job.dk = gpu_out(args, 1), job.dv = gpu_out(args, 2);
    job.delta = (float *)args->scratch;
    job.most = job.delta + job.batch * job.sequence * job.heads;
    return job;
}

struct attention_grad_launch {
    template <int WIDTH, int PLANES> static void run(const mpt_kernel_args *args) {
        attention_job job = attention_grad_job(args);
        int rows = 2 * TILE_ROWS + 2 * attention_tile<PLANES>::BACKWARD;
        size_t bytes = (size_t)tile_layout<WIDTH, PLANES>::size(rows) * sizeof(uint16_t);
        unsigned tiles = attention_row_tiles(&job), batch = (unsigned)job.batch;
        unsigned slabs = (unsigned)tile_slabs<WIDTH>(job.dim);
        dim3 by_query(tiles * batch * (unsigned)job.heads, slabs);
        dim3 by_key(tiles * batch * (unsigned)job.kv_heads, slabs);
        auto most = attention_most_kernel<WIDTH, PLANES>;
        auto dkv = attention_dkv_kernel<WIDTH, PLANES>;
        auto dq = attention_dq_kernel<WIDTH, PLANES>;
        if (!tile_allow_shared(args->gpu, most, bytes) ||
            !tile_allow_shared(args->gpu, dkv, bytes) ||
            !tile_allow_shared(args->gpu, dq, bytes))
            return;
        if (job.softmax != MPT_DTYPE_FP32)
            GPU_LAUNCH(most, by_query.x, TILE_THREADS, bytes, args->gpu, job);
        GPU_LAUNCH(dkv, by_key, TILE_THREADS, bytes, args->gpu, job);
        GPU_LAUNCH(dq, by_query, TILE_THREADS, bytes, args->gpu, job);
    }
};

extern "C" void mpt_cuda_attention_grad(const mpt_kernel_args *args) {
    attention_job job = attention_grad_job(args);
    int64_t rows = job.batch * job.sequence * job.heads;
    bool bf16 = args->in[5].storage == MPT_STORAGE_BF16;
    for (int i = 0; i < 3; i++)
        bf16 = bf16 && args->in[i].storage == MPT_STORAGE_BF16;
    GPU_LAUNCH(attention_delta_kernel, (unsigned)((rows + TILE_WARPS - 1) / TILE_WARPS),
               TILE_THREADS, 0, args->gpu, job);
    attention_dispatch<attention_grad_launch>(args, job.dim, bf16);
}
