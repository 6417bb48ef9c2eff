/* ssm_scan by chunks: within a chunk the recurrence is a matrix product, between chunks a state
 * is carried on (Dao and Gu, arXiv 2405.21060):
 *   y_i   = sum_j W_ij x_j + exp(c_i) S_in C_i + D x_i
 *   S_out = exp(c_last) S_in + sum_j exp(c_last - c_j) delta_j x_j (x) B_j
 * Four kernels: rates, what each chunk adds to the state, the states, and the output, where a
 * block takes 64 tokens of one head and chunk. Products are on tensor cores; states, which are
 * float32, are read once and make all but the products memory-bound. Chunks are the node's, so
 * that the states are those of the other backends. A NaN spreads over its chunk. */
#include "kernels/cuda/ssm_states.h"

/* y = exp(c) S C, 32 rows of S at a time; C is staged where it is one slab. */
template <int WIDTH, int PLANES>
static __device__ __forceinline__ void ssm_from_state(const ssm_job &job, const ssm_place &k,
                                                      const tile_operand &c, uint16_t *tile,
                                                      float (&y)[WIDTH / 8][4]) {
    enum { N = SSM_OTHERS / 8 };
    tile_operand state = {ssm_state(job, k, job.states, k.chunk), 0, tile};
    int64_t row = c.row + tile_warp() * 16;
    float factors[2] = {expf(ssm_rate_of(job, k, row + tile_cell_row(0)).sum),
                        expf(ssm_rate_of(job, k, row + tile_cell_row(2)).sum)};
    float cells[N][4];
    GPU_UNROLL
    for (int i = 0; i < WIDTH / SSM_OTHERS; i++) {
        state.row = (int64_t)blockIdx.z * WIDTH + i * SSM_OTHERS;
        if (state.row >= job.s.head_dim)
            continue;
        __syncthreads();
        tile_dot<WIDTH, PLANES, TILE_ORDERS, N>(cells, c, state, 0);
        GPU_UNROLL
        for (int e = 0; e < N * 4; e++)
            y[i * N + e / 4][e % 4] = factors[e % 4 / 2] * cells[e / 4][e % 4];
    }
}

/* Products C_i . B_j to W_ij: rows from token i on, columns from token j on. */
template <int N>
static __device__ __forceinline__ void ssm_weights(float (&w)[N][4], const ssm_rate (&rows)[2],
                                                   const ssm_rate *cols, int64_t i, int64_t j) {
    GPU_UNROLL
    for (int e = 0; e < N * 4; e++) {
        int col = 8 * (e / 4) + tile_cell_col(e % 4);
        const ssm_rate &at = cols[col];
        bool seen = j + col <= i + tile_cell_row(e % 4);
        float weight = seen ? ssm_decay(rows[e % 4 / 2], at) * at.delta : 0.0f;
        w[e / 4][e % 4] = seen ? w[e / 4][e % 4] * weight : 0.0f;
    }
}

/* y + D x to its place. */
template <int WIDTH>
static __device__ __forceinline__ void ssm_store(const ssm_job &job, const ssm_place &k,
                                                 int64_t row, const float (&y)[WIDTH / 8][4],
                                                 uint16_t *shared) {
    const float *rows = tile_park<WIDTH>(y, shared);
    tile_source x = ssm_x(job, k, job.x), to = ssm_x(job, k, job.y);
    int64_t slab = (int64_t)blockIdx.z * WIDTH;
    int n = tile_width_of(to.cols, slab, WIDTH);
    float d = gpu_get(job.d, k.h);
    for (int r = 0; r < 16 && row + r < k.n; r++)
        for (int c = tile_lane(); c < n; c += 32)
            gpu_put(to.t, to.first + (row + r) * to.stride + slab + c,
                    rows[r * (WIDTH + TILE_PAD) + c] + d * tile_get(x, row + r, slab + c));
}

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS) ssm_output_kernel(ssm_job job) {
    enum { N = SSM_OTHERS / 8 };
    __shared__ ssm_rate rates[SSM_OTHERS];
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    ssm_place k = ssm_place_of(job, blockIdx.x, job.s.heads);
    int64_t first = (int64_t)blockIdx.y * TILE_ROWS, slab = (int64_t)blockIdx.z * WIDTH;
    if (first >= k.n)
        return;
    uint16_t *x_tile = shared + tile_layout<WIDTH, PLANES>::size(TILE_ROWS);
    uint16_t *b_tile = x_tile + tile_layout<WIDTH, PLANES>::size(SSM_OTHERS);
    tile_operand c = {ssm_b(job, k, job.c), first, shared};
    tile_operand b = {ssm_b(job, k, job.b), 0, b_tile};
    tile_source x = ssm_x(job, k, job.x);
    int64_t row = first + tile_warp() * 16;
    ssm_rate rows[2] = {ssm_rate_of(job, k, row + tile_cell_row(0)),
                        ssm_rate_of(job, k, row + tile_cell_row(2))};
    float y[WIDTH / 8][4] = {}, w[N][4];
    tile_stage<WIDTH, PLANES, TILE_ROWS>(c.from, first, 0, c.tile);
    if (k.chunk > 0)
        ssm_from_state<WIDTH, PLANES>(job, k, c, b_tile, y);
    int64_t end = first + TILE_ROWS < k.n ? first + TILE_ROWS : k.n;
    for (; b.row < end; b.row += SSM_OTHERS) {
        __syncthreads();
        if (threadIdx.x < SSM_OTHERS)
            rates[threadIdx.x] = ssm_rate_of(job, k, b.row + threadIdx.x);
        tile_stage<WIDTH, PLANES, SSM_OTHERS>(x, b.row, slab, x_tile);
        tile_dot<WIDTH, PLANES, PLANES, N>(w, c, b, 0);
        ssm_weights<N>(w, rows, rates, row, b.row);
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(y, w, x_tile,
                                                     tile_width_of(x.cols, slab, WIDTH));
    }
    ssm_store<WIDTH>(job, k, row, y, shared);
}

struct ssm_launch {
    template <int WIDTH, int PLANES> static void run(const mpt_kernel_args *args) {
        ssm_job job = ssm_job_of(args, false);
        job.y = gpu_out(args, 0), job.states = gpu_out(args, 1);
        const mpt_ssm_shape *s = &job.s;
        int64_t most = s->chunk < s->sequence ? s->chunk : s->sequence;
        ssm_launch_states<WIDTH, PLANES>(args, job, job.states, false);
        auto output = ssm_output_kernel<WIDTH, PLANES>;
        size_t bytes = (size_t)(tile_layout<WIDTH, PLANES>::size(TILE_ROWS + SSM_OTHERS) +
                                tile_layout<WIDTH, TILE_ORDERS>::size(SSM_OTHERS)) *
                       sizeof(uint16_t);
        dim3 grid((unsigned)(s->batch * s->n_chunks * s->heads),
                  (unsigned)((most + TILE_ROWS - 1) / TILE_ROWS),
                  (unsigned)tile_slabs<WIDTH>(s->head_dim));
        if (!tile_allow_shared(args->gpu, output, bytes))
            return;
        GPU_LAUNCH(output, grid, TILE_THREADS, bytes, args->gpu, job);
    }
};

extern "C" size_t mpt_cuda_ssm_scan_scratch(const mpt_graph *graph, const mpt_node *node,
                                            int n_threads) {
    (void)graph, (void)n_threads;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    ssm_room none = {};
    return ssm_room_of(&s, false, NULL, &none);
}

extern "C" void mpt_cuda_ssm_scan(const mpt_kernel_args *args) {
    ssm_job job = ssm_job_of(args, false);
    bool bf16 = true;
    for (int i = 0; i < 3; i++)
        bf16 = bf16 && args->in[i].storage == MPT_STORAGE_BF16;
    GPU_LAUNCH(ssm_rates_kernel, gpu_blocks(job.s.batch * job.s.n_chunks * job.s.heads),
               GPU_THREADS, 0, args->gpu, job);
    ssm_dispatch<ssm_launch>(args, bf16);
}
