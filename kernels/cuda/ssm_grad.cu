/* The backward pass of the scan by chunks. Names as in ssm.h; L is the gradient of the state
 * that leaves a chunk, dW_ij = dy_i . x_j for j <= i: dx_j = sum_i W_ij dy_i + D dy_j +
 * exp(c_last - c_j) delta_j L B_j dC_i = sum_j dW_ij exp(c_i - c_j) delta_j B_j + exp(c_i)
 * S_in^T dy_i dB_j = sum_i dW_ij exp(c_i - c_j) delta_j C_i + exp(c_last - c_j) delta_j L^T x_j
 * dx has a block for each chunk and head, which makes the gradients of delta and c on the way;
 * dB and dC (ssm_grad_group.cu) one for each 64 tokens of a group, which goes over its heads.
 * So every sum has one owner and one order. A pair of tokens is in the gradients of c twice,
 * with either sign, and has to vanish from the sum over all tokens after both: those are summed
 * up in double, of the same floats. */
#include "kernels/cuda/ssm_grad.h"
#include "kernels/cuda/ssm_states.h"

enum { SSM_DX_OTHERS = 32 }; /* as SSM_OTHERS, of the kernel for dx */

/* A number of a lane's two rows, given or added to the token's by one of the four lanes that
 * share the rows. */
static __device__ __forceinline__ void ssm_note(const ssm_job &job, const ssm_place &k,
                                                int64_t row, float *to, float (&x)[2],
                                                bool add) {
    GPU_UNROLL
    for (int r = 0; r < 2; r++) {
        int64_t i = row + tile_cell_row(2 * r);
        x[r] = tile_row_sum(x[r]);
        if (tile_lane() % 4 == 0 && i < k.n)
            to[ssm_at(job, k, i)] = x[r] + (add ? to[ssm_at(job, k, i)] : 0.0f);
    }
}

/* The block's work: one chunk and head, slab by slab of head_dim; tiles of 64 tokens j. */
template <int WIDTH, int PLANES> struct ssm_dx {
    enum { N = SSM_DX_OTHERS / 8, B = 0, C, X, DY, SOURCES };
    const ssm_job &job;
    const ssm_place &k;
    const tile_source *of; /* B, C, X, DY: in shared memory, as k, since registers are short */
    int slab;              /* first column */
    uint16_t *own[2], *wide, *other; /* wide has room for three planes */
    ssm_rate *rates;
    double *rows;

    /* L B_j, times what reaches the end: dx's share, and x_j . L B_j, which goes to delta. */
    __device__ __forceinline__ void from_end(const tile_operand &b, int64_t row,
                                             float (&dx)[WIDTH / 8][4]);
    /* dy_i . S_in C_i exp(c_i), which goes to c. */
    __device__ __forceinline__ void from_start(int64_t first);
    /* Pairs with tokens i from `first` on. */
    __device__ __forceinline__ void within(const tile_operand &b, const tile_operand &x,
                                           float (&dx)[WIDTH / 8][4]);
    __device__ __forceinline__ void pairs(float (&cb)[N][4], float (&dw)[N][4],
                                          const ssm_rate (&own_rates)[2], int64_t i, int64_t j);
    __device__ __forceinline__ void finish(int64_t row, float (&dx)[WIDTH / 8][4]);
};

template <int WIDTH, int PLANES>
__device__ __forceinline__ void
ssm_dx<WIDTH, PLANES>::from_end(const tile_operand &b, int64_t row, float (&dx)[WIDTH / 8][4]) {
    tile_operand lambda = {ssm_state(job, k, ssm_lambda(job), k.chunk), 0, wide};
    ssm_rate last = ssm_rate_of(job, k, k.n - 1);
    float share[2] = {0.0f, 0.0f}, to_end[2], delta[2], cells[N][4];
    for (int r = 0; r < 2; r++) {
        ssm_rate at = ssm_rate_of(job, k, row + tile_cell_row(2 * r));
        to_end[r] = ssm_decay(last, at), delta[r] = at.delta;
    }
    GPU_UNROLL
    for (int i = 0; i < WIDTH / SSM_DX_OTHERS; i++) {
        lambda.row = slab + i * SSM_DX_OTHERS;
        if (lambda.row >= job.s.head_dim)
            continue;
        __syncthreads();
        tile_dot<WIDTH, PLANES, TILE_ORDERS, N>(cells, b, lambda, 0);
        GPU_UNROLL
        for (int e = 0; e < N * 4; e++) {
            int r = e % 4 / 2;
            float reached = to_end[r] * cells[e / 4][e % 4];
            share[r] += reached * tile_get(of[X], row + tile_cell_row(e % 4),
                                           lambda.row + 8 * (e / 4) + tile_cell_col(e % 4));
            dx[i * N + e / 4][e % 4] = delta[r] * reached;
        }
    }
    ssm_note(job, k, row, job.room.share, share, slab > 0);
}

template <int WIDTH, int PLANES>
__device__ __forceinline__ void ssm_dx<WIDTH, PLANES>::from_start(int64_t first) {
    tile_operand c = {of[C], first, own[0]};
    tile_operand state = {ssm_state(job, k, job.states, k.chunk), 0, wide};
    int64_t row = first + tile_warp() * 16;
    float sum[2] = {0.0f, 0.0f}, cells[N][4];
    __syncthreads();
    tile_stage<WIDTH, PLANES, TILE_ROWS>(of[C], first, 0, own[0]);
    for (int i = 0; i < WIDTH / SSM_DX_OTHERS; i++) {
        state.row = slab + i * SSM_DX_OTHERS;
        if (state.row >= job.s.head_dim)
            continue;
        __syncthreads();
        tile_dot<WIDTH, PLANES, TILE_ORDERS, N>(cells, c, state, 0);
        GPU_UNROLL
        for (int e = 0; e < N * 4; e++)
            sum[e % 4 / 2] +=
                cells[e / 4][e % 4] * tile_get(of[DY], row + tile_cell_row(e % 4),
                                               state.row + 8 * (e / 4) + tile_cell_col(e % 4));
    }
    GPU_UNROLL
    for (int r = 0; r < 2; r++) {
        int64_t i = row + tile_cell_row(2 * r);
        float share = tile_row_sum(sum[r]) * expf(ssm_rate_of(job, k, i).sum);
        if (tile_lane() % 4 == 0 && i < k.n)
            job.room.dsum[ssm_at(job, k, i)] += (double)share;
    }
}

/* cb holds B_j . C_i and becomes W_ij; dw holds x_j . dy_i. What is in pairs goes to delta_j,
 * and up to tokens i and down from tokens j to c, a token's pair with itself left out. */
template <int WIDTH, int PLANES>
__device__ __forceinline__ void
ssm_dx<WIDTH, PLANES>::pairs(float (&cb)[N][4], float (&dw)[N][4],
                             const ssm_rate (&own_rates)[2], int64_t i, int64_t j) {
    float ddelta[2] = {0.0f, 0.0f};
    double down[2] = {0.0, 0.0};
    GPU_UNROLL
    for (int e = 0; e < N * 4; e++) {
        int r = e % 4 / 2, col = 8 * (e / 4) + tile_cell_col(e % 4);
        int64_t later = i + col, earlier = j + tile_cell_row(e % 4);
        bool seen = earlier <= later && later < k.n;
        float decay = seen ? ssm_decay(rates[col], own_rates[r]) : 0.0f;
        float pair = seen ? dw[e / 4][e % 4] * decay * cb[e / 4][e % 4] : 0.0f;
        cb[e / 4][e % 4] = seen ? cb[e / 4][e % 4] * decay * own_rates[r].delta : 0.0f;
        ddelta[r] += pair;
        dw[e / 4][e % 4] = earlier < later ? pair * own_rates[r].delta : 0.0f;
        down[r] += (double)dw[e / 4][e % 4];
    }
    if (slab > 0)
        return;
    ssm_note(job, k, j, job.room.ddelta, ddelta, true);
    GPU_UNROLL
    for (int r = 0; r < 2; r++) {
        int64_t at = j + tile_cell_row(2 * r);
        down[r] = tile_row_sum(down[r]);
        if (tile_lane() % 4 == 0 && at < k.n)
            job.room.dsum[ssm_at(job, k, at)] -= down[r];
    }
    GPU_UNROLL
    for (int c = 0; c < 2 * N; c++) {
        double up = (double)dw[c / 2][c % 2] + (double)dw[c / 2][c % 2 + 2];
        for (int step = 4; step < 32; step *= 2)
            up += __shfl_xor_sync(0xffffffffu, up, step);
        if (tile_lane() < 4)
            rows[tile_warp() * SSM_DX_OTHERS + c / 2 * 8 + tile_lane() * 2 + c % 2] = up;
    }
    __syncthreads();
    if (threadIdx.x < SSM_DX_OTHERS && i + threadIdx.x < k.n) {
        double sum = 0.0;
        for (int warp = 0; warp < TILE_WARPS; warp++)
            sum += rows[warp * SSM_DX_OTHERS + threadIdx.x];
        job.room.dsum[ssm_at(job, k, i + threadIdx.x)] += sum;
    }
}

template <int WIDTH, int PLANES>
__device__ __forceinline__ void ssm_dx<WIDTH, PLANES>::within(const tile_operand &b,
                                                              const tile_operand &x,
                                                              float (&dx)[WIDTH / 8][4]) {
    int64_t row = b.row + tile_warp() * 16;
    ssm_rate own_rates[2] = {ssm_rate_of(job, k, row + tile_cell_row(0)),
                             ssm_rate_of(job, k, row + tile_cell_row(2))};
    tile_operand c = {of[C], b.row, wide}, dy = {of[DY], b.row, other};
    float cb[N][4], dw[N][4];
    for (; c.row < k.n; c.row += SSM_DX_OTHERS) {
        dy.row = c.row;
        __syncthreads();
        if (threadIdx.x < SSM_DX_OTHERS)
            rates[threadIdx.x] = ssm_rate_of(job, k, c.row + threadIdx.x);
        tile_dot<WIDTH, PLANES, PLANES, N>(cb, b, c, 0);
        tile_dot<WIDTH, PLANES, PLANES, N>(dw, x, dy, (int)(slab / WIDTH));
        pairs(cb, dw, own_rates, c.row, row);
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(
            dx, cb, dy.tile, tile_width_of(job.s.head_dim, slab, WIDTH));
    }
}

/* dx + D dy to its place, and x . dy, which goes to D; row by row, lanes along them. */
template <int WIDTH, int PLANES>
__device__ __forceinline__ void ssm_dx<WIDTH, PLANES>::finish(int64_t row,
                                                              float (&dx)[WIDTH / 8][4]) {
    const float *parked = tile_park<WIDTH>(dx, own[0]);
    tile_source to = ssm_x(job, k, job.dx);
    int n = tile_width_of(to.cols, slab, WIDTH);
    float d = gpu_get(job.d, k.h);
    for (int r = 0; r < 16 && row + r < k.n; r++) {
        float skip = 0.0f;
        for (int c = tile_lane(); c < n; c += 32) {
            float g = tile_get(of[DY], row + r, slab + c);
            gpu_put(to.t, to.first + (row + r) * to.stride + slab + c,
                    parked[r * (WIDTH + TILE_PAD) + c] + d * g);
            skip += g * tile_get(of[X], row + r, slab + c);
        }
        skip = gpu_warp_sum(skip);
        if (tile_lane() == 0)
            job.room.skip[ssm_at(job, k, row + r)] =
                skip + (slab > 0 ? job.room.skip[ssm_at(job, k, row + r)] : 0.0f);
    }
}

/* The product of the state that enters with the gradient of the one that leaves. */
static __device__ void ssm_keep(const ssm_job &job, const ssm_place &k) {
    __shared__ float sums[TILE_WARPS];
    gpu_tensor lambda = ssm_lambda(job);
    int64_t at = ssm_state_at(job, k, k.chunk);
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < job.s.head_dim * job.s.state; i += TILE_THREADS)
        sum += gpu_get(job.states, at + i) * gpu_get(lambda, at + i);
    sum = gpu_warp_sum(sum);
    if (tile_lane() == 0)
        sums[tile_warp()] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        job.room.kept[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS) ssm_dx_kernel(ssm_job job) {
    typedef ssm_dx<WIDTH, PLANES> work;
    __shared__ ssm_rate rates[SSM_DX_OTHERS];
    __shared__ double rows[TILE_WARPS * SSM_DX_OTHERS];
    __shared__ ssm_place k;
    __shared__ tile_source of[work::SOURCES];
    GPU_DYNAMIC_SHARED(uint16_t, shared);
    enum { OWN = tile_layout<WIDTH, PLANES>::size(TILE_ROWS) };
    uint16_t *wide = shared + 2 * OWN;
    if (threadIdx.x == 0) {
        k = ssm_place_of(job, blockIdx.x, job.s.heads);
        of[work::B] = ssm_b(job, k, job.b), of[work::C] = ssm_b(job, k, job.c);
        of[work::X] = ssm_x(job, k, job.x), of[work::DY] = ssm_x(job, k, job.dy);
    }
    __syncthreads();
    work w = {job,
              k,
              of,
              0,
              {shared, shared + OWN},
              wide,
              wide + ssm_wide<WIDTH, SSM_DX_OTHERS>(),
              rates,
              rows};
    for (int64_t i = threadIdx.x; i < k.n; i += TILE_THREADS) {
        int64_t at = ssm_at(job, k, i);
        job.room.ddelta[at] = job.room.share[at] = 0.0f;
        job.room.dsum[at] = 0.0;
    }
    for (; w.slab < job.s.head_dim; w.slab += WIDTH)
        for (int64_t first = 0; first < k.n; first += TILE_ROWS) {
            tile_operand b = {of[work::B], first, w.own[0]};
            tile_operand x = {of[work::X], first, w.own[1]};
            float dx[WIDTH / 8][4] = {};
            __syncthreads();
            tile_stage<WIDTH, PLANES, TILE_ROWS>(b.from, first, 0, b.tile);
            tile_stage<WIDTH, PLANES, TILE_ROWS>(x.from, first, 0, x.tile);
            if (k.chunk + 1 < job.s.n_chunks)
                w.from_end(b, first + tile_warp() * 16, dx);
            w.within(b, x, dx);
            w.finish(first + tile_warp() * 16, dx);
            __syncthreads();
            if (k.chunk > 0)
                w.from_start(first);
        }
    ssm_keep(job, k);
}

/* ---- from the gradients of c and delta to those of dt and A ---- */

/* One thread a chunk and head, last token first. */
static __global__ void ssm_drates_kernel(ssm_job job) {
    int64_t n = job.s.batch * job.s.n_chunks * job.s.heads;
    GPU_EACH(at, n) {
        ssm_place k = ssm_place_of(job, at, job.s.heads);
        float a = -expf(gpu_get(job.a_log, k.h)), bias = gpu_get(job.dt_bias, k.h);
        float totals[3] = {0.0f, 0.0f, 0.0f};
        double after = (double)(expf(ssm_rate_of(job, k, k.n - 1).sum) * job.room.kept[at]);
        for (int64_t i = 0; i < k.n; i++)
            after +=
                (double)(job.room.delta[ssm_at(job, k, i)] * job.room.share[ssm_at(job, k, i)]);
        for (int64_t i = k.n - 1; i >= 0; i--) {
            int64_t to = ssm_at(job, k, i);
            float delta = job.room.delta[to], share = job.room.share[to];
            after += job.room.dsum[to] - (double)(delta * share);
            float decay = (float)after * a;
            float raw = gpu_get(job.dt, to) + bias;
            float draw = (job.room.ddelta[to] + share + decay) / (1.0f + expf(-raw));
            gpu_put(job.ddt, to, draw);
            totals[0] += decay * delta;
            totals[1] += job.room.skip[to];
            totals[2] += draw;
        }
        for (int p = 0; p < 3; p++)
            job.room.totals[p * n + at] = totals[p];
    }
}

/* Adds the chunks' sums to the parameters' gradients; a warp a head and parameter. */
static __global__ void ssm_totals_kernel(ssm_job job) {
    int64_t n = job.s.batch * job.s.n_chunks, h = blockIdx.x;
    int p = (int)blockIdx.y;
    const float *from = job.room.totals + p * n * job.s.heads + h;
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += 32)
        sum += from[i * job.s.heads];
    sum = gpu_warp_sum(sum);
    gpu_tensor to = p == 0 ? job.da_log : p == 1 ? job.dd : job.ddt_bias;
    if (threadIdx.x == 0)
        gpu_put(to, h, gpu_get(to, h) + sum);
}

/* ---- launches ---- */

struct ssm_grad_launch {
    template <int WIDTH, int PLANES> static void run(const mpt_kernel_args *args) {
        ssm_job job = ssm_grad_job_of(args);
        const mpt_ssm_shape *s = &job.s;
        auto dx = ssm_dx_kernel<WIDTH, PLANES>;
        size_t bytes =
            (size_t)(tile_layout<WIDTH, PLANES>::size(2 * TILE_ROWS + SSM_DX_OTHERS) +
                     ssm_wide<WIDTH, SSM_DX_OTHERS>()) *
            sizeof(uint16_t);
        if (!tile_allow_shared(args->gpu, dx, bytes))
            return;
        ssm_launch_states<WIDTH, PLANES>(args, job, ssm_lambda(job), true);
        GPU_LAUNCH(dx, (unsigned)(s->batch * s->n_chunks * s->heads), TILE_THREADS, bytes,
                   args->gpu, job);
    }
};

extern "C" size_t mpt_cuda_ssm_scan_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                                 int n_threads) {
    (void)graph, (void)n_threads;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    ssm_room none = {};
    return ssm_room_of(&s, true, NULL, &none);
}

extern "C" void mpt_cuda_ssm_scan_grad(const mpt_kernel_args *args) {
    ssm_job job = ssm_grad_job_of(args);
    unsigned each = gpu_blocks(job.s.batch * job.s.n_chunks * job.s.heads);
    GPU_LAUNCH(ssm_rates_kernel, each, GPU_THREADS, 0, args->gpu, job);
    ssm_dispatch<ssm_grad_launch>(args, ssm_grad_bf16(args));
    ssm_launch_groups(args);
    GPU_LAUNCH(ssm_drates_kernel, each, GPU_THREADS, 0, args->gpu, job);
    GPU_LAUNCH(ssm_totals_kernel, dim3((unsigned)job.s.heads, 3), 32, 0, args->gpu, job);
}
