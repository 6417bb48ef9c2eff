/* What the forward and the backward pass of attention share: shapes, and views of heads. */
#ifndef MPT_KERNELS_CUDA_ATTENTION_H
#define MPT_KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/tile.h"

struct attention_job {
    int64_t batch, sequence, heads, kv_heads, dim;
    float scale;
    mpt_dtype softmax; /* FP32: probabilities are not rounded */
    gpu_tensor q, k, v, o, lse, dout;
    gpu_tensor dq, dk, dv;
    float *delta, *most; /* backward: numbers of each query and head */
};

static inline attention_job attention_job_of(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    attention_job job = {};
    job.batch = a->batch, job.sequence = a->sequence;
    job.heads = a->heads, job.kv_heads = a->kv_heads, job.dim = a->head_dim;
    job.scale = a->scale;
    job.softmax = a->softmax;
    job.q = gpu_in(args, 0), job.k = gpu_in(args, 1), job.v = gpu_in(args, 2);
    return job;
}

static __device__ TILE_APART float attention_round(mpt_dtype dtype, float x) {
    return mpt_round(dtype, x);
}

/* Keys (or queries, backward) that a block's rows are multiplied by at a time. */
template <int PLANES> struct attention_tile {
    enum { FORWARD = PLANES == 1 ? 64 : 32, BACKWARD = 32 };
};

/* Launch::run<WIDTH, PLANES>(args). Rows go by slabs of WIDTH, so any width is right: where
 * numbers are cut in three, the wide one would take nvcc longer than it saves. */
template <typename Launch>
static void attention_dispatch(const mpt_kernel_args *args, int64_t dim, bool bf16) {
    if (!bf16)
        Launch::template run<64, TILE_ORDERS>(args);
    else if (dim <= 64)
        Launch::template run<64, 1>(args);
    else
        Launch::template run<128, 1>(args);
}

/* A head of one sequence; `heads` is how many the tensor has. */
static __device__ __forceinline__ tile_source attention_head(const attention_job &job,
                                                             const gpu_tensor &t, int64_t heads,
                                                             int64_t b, int64_t h) {
    int64_t stride = heads * job.dim;
    return tile_source_of(t, b * job.sequence * stride + h * job.dim, stride, job.sequence,
                          job.dim);
}

/* What a block of the grid does: sequence, head, and which tile of rows. */
struct attention_item {
    int64_t b, h, tile;
};

/* Heads go fastest, and `late_first` gives the tiles with most keys first. */
static __device__ __forceinline__ attention_item attention_item_of(int64_t batch, int64_t heads,
                                                                   bool late_first) {
    int64_t n = batch * heads, tile = blockIdx.x / n, n_tiles = gridDim.x / n;
    int64_t at = blockIdx.x % n;
    return {at / heads, at % heads, late_first ? n_tiles - 1 - tile : tile};
}

static inline unsigned attention_row_tiles(const attention_job *job) {
    return (unsigned)((job->sequence + TILE_ROWS - 1) / TILE_ROWS);
}

/* Largest over the four lanes that share a row of cells. */
static __device__ __forceinline__ float attention_row_most(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* Products to scores; -inf where key `key` + column is after query `query` + row. */
template <int N>
static __device__ __forceinline__ void attention_mask(float (&s)[N][4], float scale,
                                                      int64_t query, int64_t key) {
    GPU_UNROLL
    for (int i = 0; i < N * 4; i++) {
        bool seen = key + 8 * (i / 4) + tile_cell_col(i % 4) <= query + tile_cell_row(i % 4);
        s[i / 4][i % 4] = seen ? scale * s[i / 4][i % 4] : -INFINITY;
    }
}

/* The largest of each of a lane's two rows, of these scores and of `most`. */
template <int N>
static __device__ __forceinline__ void attention_largest(const float (&s)[N][4],
                                                         float (&most)[2]) {
    float own[2] = {-INFINITY, -INFINITY};
    GPU_UNROLL
    for (int i = 0; i < N * 4; i++)
        own[i % 4 / 2] = fmaxf(own[i % 4 / 2], s[i / 4][i % 4]);
    GPU_UNROLL
    for (int r = 0; r < 2; r++)
        most[r] = fmaxf(most[r], attention_row_most(own[r]));
}

/* The largest score of each row of a block's queries over all its keys, by a pass of its own:
 * what is rounded must not depend on how keys are cut into tiles. q's tile is staged. */
template <int WIDTH, int PLANES, int N>
static __device__ __forceinline__ void attention_all_largest(const attention_job &job,
                                                             const tile_operand &q,
                                                             tile_operand k, float (&most)[2]) {
    int64_t end = q.row + TILE_ROWS < job.sequence ? q.row + TILE_ROWS : job.sequence;
    float s[N][4];
    for (k.row = 0; k.row < end; k.row += 8 * N) {
        __syncthreads();
        tile_dot<WIDTH, PLANES, PLANES, N>(s, q, k, 0);
        attention_mask<N>(s, job.scale, q.row + tile_warp() * 16, k.row);
        attention_largest<N>(s, most);
    }
    __syncthreads();
}

#endif
