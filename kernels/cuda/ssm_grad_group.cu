/* dB and dC of the scan: what the heads of a group share (formulas in ssm_grad.cu).
 *
 * Both are one kernel with the roles turned: the rows that a block owns are tokens i with dy,
 * or tokens j with x. The factors of B_j and C_i are summed over the heads, in registers,
 * before they are multiplied. */
#include "kernels/cuda/ssm_grad.h"

template <int WIDTH, int PLANES> struct ssm_group {
    enum { N = SSM_OTHERS / 8 };
    ssm_job job;
    ssm_place k; /* h: the group, then a head */
    bool to_c;
    int64_t first, head, heads; /* own token; first head, and how many */
    uint16_t *own, *other, *wide;
    ssm_rate *rates;

    __device__ ssm_place place(int64_t i) const {
        ssm_place at = k;
        at.h = head + i;
        return at;
    }
    __device__ int64_t row() const { return first + tile_warp() * 16; }
    /* The factors between own tokens and those from `at` on, summed over the heads. */
    __device__ __forceinline__ void mix(int64_t at, float (&mixed)[N][4]);
    __device__ __forceinline__ void add_head(const ssm_place &h, int64_t at,
                                             const float (&dw)[N][4], float (&mixed)[N][4]);
    /* What goes by the states: the one that enters to C, the gradient of the other to B. */
    __device__ __forceinline__ void add_states(int64_t col, float (&sum)[WIDTH / 8][4]);
};

template <int WIDTH, int PLANES>
__device__ __forceinline__ void
ssm_group<WIDTH, PLANES>::add_head(const ssm_place &h, int64_t at, const float (&dw)[N][4],
                                   float (&mixed)[N][4]) {
    ssm_rate own_rates[2] = {ssm_rate_of(job, h, row() + tile_cell_row(0)),
                             ssm_rate_of(job, h, row() + tile_cell_row(2))};
    GPU_UNROLL
    for (int e = 0; e < N * 4; e++) {
        int col = 8 * (e / 4) + tile_cell_col(e % 4);
        int64_t mine = row() + tile_cell_row(e % 4), theirs = at + col;
        ssm_rate own_rate = own_rates[e % 4 / 2], other_rate = rates[col];
        bool seen = to_c ? theirs <= mine : mine <= theirs && theirs < k.n;
        float factor = to_c ? ssm_decay(own_rate, other_rate) * other_rate.delta
                            : ssm_decay(other_rate, own_rate) * own_rate.delta;
        mixed[e / 4][e % 4] += seen ? dw[e / 4][e % 4] * factor : 0.0f;
    }
}

template <int WIDTH, int PLANES>
__device__ __forceinline__ void ssm_group<WIDTH, PLANES>::mix(int64_t at,
                                                              float (&mixed)[N][4]) {
    GPU_UNROLL
    for (int e = 0; e < N * 4; e++)
        mixed[e / 4][e % 4] = 0.0f;
    for (int64_t i = 0; i < heads; i++) {
        ssm_place h = place(i);
        tile_operand mine = {ssm_x(job, h, to_c ? job.dy : job.x), first, own};
        tile_operand theirs = {ssm_x(job, h, to_c ? job.x : job.dy), at, other};
        float dw[N][4];
        __syncthreads();
        if (threadIdx.x < SSM_OTHERS)
            rates[threadIdx.x] = ssm_rate_of(job, h, at + threadIdx.x);
        tile_stage<WIDTH, PLANES, TILE_ROWS>(mine.from, first, 0, own);
        tile_dot<WIDTH, PLANES, PLANES, N>(dw, mine, theirs, 0);
        add_head(h, at, dw, mixed);
    }
}

template <int WIDTH, int PLANES>
__device__ __forceinline__ void
ssm_group<WIDTH, PLANES>::add_states(int64_t col, float (&sum)[WIDTH / 8][4]) {
    for (int64_t i = 0; i < heads; i++) {
        ssm_place h = place(i);
        tile_source mine = ssm_x(job, h, to_c ? job.dy : job.x);
        tile_source state = ssm_state(job, h, to_c ? job.states : ssm_lambda(job), k.chunk);
        float factors[2], cells[N][4];
        for (int r = 0; r < 2; r++) {
            ssm_rate at = ssm_rate_of(job, h, row() + tile_cell_row(2 * r));
            factors[r] =
                to_c ? expf(at.sum) : ssm_decay(ssm_rate_of(job, h, k.n - 1), at) * at.delta;
        }
        for (int64_t p = 0; p < job.s.head_dim; p += SSM_OTHERS) {
            __syncthreads();
            tile_stage<WIDTH, TILE_ORDERS, SSM_OTHERS>(state, p, col, wide);
            __syncthreads();
            GPU_UNROLL
            for (int e = 0; e < N * 4; e++)
                cells[e / 4][e % 4] =
                    factors[e % 4 / 2] * tile_get(mine, row() + tile_cell_row(e % 4),
                                                  p + 8 * (e / 4) + tile_cell_col(e % 4));
            tile_cols<WIDTH, TILE_ORDERS, TILE_ORDERS, N / 2>(
                sum, cells, wide, tile_width_of(job.s.state, col, WIDTH));
        }
    }
}

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS)
    ssm_group_kernel(ssm_job job, bool to_c) {
    enum { N = SSM_OTHERS / 8 };
    __shared__ ssm_rate rates[SSM_OTHERS];
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    ssm_place k = ssm_place_of(job, blockIdx.x, job.s.groups);
    int64_t heads = job.s.heads / job.s.groups, first = (int64_t)blockIdx.y * TILE_ROWS;
    int64_t col = (int64_t)blockIdx.z * WIDTH;
    if (first >= k.n)
        return;
    uint16_t *other = shared + tile_layout<WIDTH, PLANES>::size(TILE_ROWS);
    ssm_group<WIDTH, PLANES> w = {
        job,  k, to_c, first, k.h * heads, heads, shared, other, other + ssm_wide<WIDTH>(),
        rates};
    ssm_place h = w.place(0);
    tile_source tail = ssm_b(job, h, to_c ? job.b : job.c);
    float sum[WIDTH / 8][4] = {}, mixed[N][4];
    int64_t end = to_c && first + TILE_ROWS < k.n ? first + TILE_ROWS : k.n;
    for (int64_t at = to_c ? 0 : first; at < end; at += SSM_OTHERS) {
        w.mix(at, mixed);
        __syncthreads();
        tile_stage<WIDTH, PLANES, SSM_OTHERS>(tail, at, col, w.wide);
        __syncthreads();
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(sum, mixed, w.wide,
                                                     tile_width_of(job.s.state, col, WIDTH));
    }
    if (to_c ? k.chunk > 0 : k.chunk + 1 < job.s.n_chunks)
        w.add_states(col, sum);
    tile_store<WIDTH>(ssm_b(job, h, to_c ? job.dc : job.db), w.row(), col, sum, shared);
}

struct ssm_group_launch {
    template <int WIDTH, int PLANES> static void run(const mpt_kernel_args *args) {
        ssm_job job = ssm_grad_job_of(args);
        const mpt_ssm_shape *s = &job.s;
        int64_t most = s->chunk < s->sequence ? s->chunk : s->sequence;
        auto kernel = ssm_group_kernel<WIDTH, PLANES>;
        size_t bytes =
            (size_t)(tile_layout<WIDTH, PLANES>::size(TILE_ROWS) + 2 * ssm_wide<WIDTH>()) *
            sizeof(uint16_t);
        dim3 grid((unsigned)(s->batch * s->n_chunks * s->groups),
                  (unsigned)((most + TILE_ROWS - 1) / TILE_ROWS),
                  (unsigned)tile_slabs<WIDTH>(s->state));
        if (!tile_allow_shared(args->gpu, kernel, bytes))
            return;
        GPU_LAUNCH(kernel, grid, TILE_THREADS, bytes, args->gpu, job, true);
        GPU_LAUNCH(kernel, grid, TILE_THREADS, bytes, args->gpu, job, false);
    }
};

void ssm_launch_groups(const mpt_kernel_args *args) {
    ssm_dispatch<ssm_group_launch>(args, ssm_grad_bf16(args));
}
