/* attention, forward: a block takes 64 queries of one head over the tiles of keys before them.
 *
 * Running maximum, sum and output of each query stay in registers; scores go from one product
 * into the next without leaving them. Both products are on tensor cores: issue-bound there for
 * long sequences, memory is read once a block. A head wider than 128 takes its output by slabs
 * of 128, each of which makes the scores again. Meaning as in kernels/ref/ref_attention.c. */
#include "kernels/cuda/attention.h"

/* A lane's two rows. */
struct attention_rows {
    float most[2], sum[2];
};

/* Scores to exponentials over the running maximum, from which older output is scaled down. A
 * row that has seen no number above -inf is taken over 0, so that it stays 0. */
template <int WIDTH, int N>
static __device__ __forceinline__ void
attention_exponentials(float (&s)[N][4], attention_rows &rows, float (&o)[WIDTH / 8][4]) {
    float most[2] = {rows.most[0], rows.most[1]}, sum[2] = {0.0f, 0.0f}, shrink[2], base[2];
    attention_largest<N>(s, most);
    GPU_UNROLL
    for (int r = 0; r < 2; r++) {
        base[r] = most[r] == -INFINITY ? 0.0f : most[r];
        shrink[r] = expf(rows.most[r] - base[r]);
        rows.most[r] = most[r];
    }
    GPU_UNROLL
    for (int i = 0; i < N * 4; i++) {
        float e = expf(s[i / 4][i % 4] - base[i % 4 / 2]);
        s[i / 4][i % 4] = e;
        sum[i % 4 / 2] += e;
    }
    GPU_UNROLL
    for (int r = 0; r < 2; r++)
        rows.sum[r] = rows.sum[r] * shrink[r] + tile_row_sum(sum[r]);
    GPU_UNROLL
    for (int i = 0; i < WIDTH / 2; i++)
        o[i / 4][i % 4] *= shrink[i % 4 / 2];
}

template <int WIDTH>
static __device__ __forceinline__ void
attention_store(const attention_job &job, const attention_item &item,
                const attention_rows &rows, float (&o)[WIDTH / 8][4], uint16_t *shared) {
    int64_t query = item.tile * TILE_ROWS + tile_warp() * 16;
    GPU_UNROLL
    for (int i = 0; i < WIDTH / 2; i++)
        o[i / 4][i % 4] /= rows.sum[i % 4 / 2];
    tile_store<WIDTH>(attention_head(job, job.o, job.heads, item.b, item.h), query,
                      (int64_t)blockIdx.y * WIDTH, o, shared);
    for (int r = 0; r < 2; r++) {
        int64_t t = query + tile_cell_row(2 * r);
        if (blockIdx.y == 0 && tile_lane() % 4 == 0 && t < job.sequence)
            gpu_put(job.lse, (item.b * job.sequence + t) * job.heads + item.h,
                    rows.most[r] + logf(rows.sum[r]));
    }
}

/* o += P v, with P rounded where it has a format. */
template <int WIDTH, int PLANES, int N>
static __device__ __forceinline__ void attention_output(const attention_job &job,
                                                        float (&s)[N][4], const uint16_t *v,
                                                        float (&o)[WIDTH / 8][4]) {
    int cols = tile_width_of(job.dim, (int64_t)blockIdx.y * WIDTH, WIDTH);
    if (job.softmax != MPT_DTYPE_FP32) {
        GPU_UNROLL
        for (int i = 0; i < N * 4; i++)
            s[i / 4][i % 4] = attention_round(job.softmax, s[i / 4][i % 4]);
    }
    if (job.softmax == MPT_DTYPE_BF16)
        tile_cols<WIDTH, 1, PLANES, N / 2>(o, s, v, cols);
    else
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(o, s, v, cols);
}

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS) attention_kernel(attention_job job) {
    enum { KEYS = attention_tile<PLANES>::FORWARD, N = KEYS / 8 };
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    attention_item item = attention_item_of(job.batch, job.heads, true);
    int64_t j = item.h / (job.heads / job.kv_heads), slab = (int64_t)blockIdx.y * WIDTH;
    uint16_t *k_tile = shared + tile_layout<WIDTH, PLANES>::size(TILE_ROWS);
    uint16_t *v_tile = k_tile + tile_layout<WIDTH, PLANES>::size(KEYS);
    tile_operand q = {attention_head(job, job.q, job.heads, item.b, item.h),
                      item.tile * TILE_ROWS, shared};
    tile_operand k = {attention_head(job, job.k, job.kv_heads, item.b, j), 0, k_tile};
    tile_source v = attention_head(job, job.v, job.kv_heads, item.b, j);
    attention_rows rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float o[WIDTH / 8][4] = {}, s[N][4];
    int64_t end = q.row + TILE_ROWS < job.sequence ? q.row + TILE_ROWS : job.sequence;

    tile_stage<WIDTH, PLANES, TILE_ROWS>(q.from, q.row, 0, q.tile);
    if (job.softmax != MPT_DTYPE_FP32)
        attention_all_largest<WIDTH, PLANES, N>(job, q, k, rows.most);
    for (k.row = 0; k.row < end; k.row += KEYS) {
        __syncthreads();
        tile_stage<WIDTH, PLANES, KEYS>(v, k.row, slab, v_tile);
        tile_dot<WIDTH, PLANES, PLANES, N>(s, q, k, 0);
        attention_mask<N>(s, job.scale, q.row + tile_warp() * 16, k.row);
        attention_exponentials<WIDTH, N>(s, rows, o);
        attention_output<WIDTH, PLANES, N>(job, s, v_tile, o);
    }
    attention_store<WIDTH>(job, item, rows, o, shared);
}

struct attention_launch {
    template <int WIDTH, int PLANES> static void run(const mpt_kernel_args *args) {
        attention_job job = attention_job_of(args);
        job.o = gpu_out(args, 0), job.lse = gpu_out(args, 1);
        auto kernel = attention_kernel<WIDTH, PLANES>;
        int rows = TILE_ROWS + 2 * attention_tile<PLANES>::FORWARD;
        size_t bytes = (size_t)tile_layout<WIDTH, PLANES>::size(rows) * sizeof(uint16_t);
        dim3 grid(attention_row_tiles(&job) * (unsigned)(job.batch * job.heads),
                  (unsigned)tile_slabs<WIDTH>(job.dim));
        if (!tile_allow_shared(args->gpu, kernel, bytes))
            return;
        GPU_LAUNCH(kernel, grid, TILE_THREADS, bytes, args->gpu, job);
    }
};

extern "C" void mpt_cuda_attention(const mpt_kernel_args *args) {
    bool bf16 = true;
    for (int i = 0; i < 3; i++)
        bf16 = bf16 && args->in[i].storage == MPT_STORAGE_BF16;
    attention_dispatch<attention_launch>(args, args->node->attrs.head_dim, bf16);
}
