/* The kernels of the scan that both passes launch: rates, and what is carried over chunks. */
#ifndef MPT_KERNELS_CUDA_SSM_STATES_H
#define MPT_KERNELS_CUDA_SSM_STATES_H

#include "kernels/cuda/ssm.h"

static __device__ __forceinline__ float ssm_softplus(float x) {
    return x > 0.0f ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

/* delta, and its sums with A: one thread a chunk and head, heads side by side. */
static __global__ void ssm_rates_kernel(ssm_job job) {
    GPU_EACH(at, job.s.batch * job.s.n_chunks * job.s.heads) {
        ssm_place k = ssm_place_of(job, at, job.s.heads);
        float a = -expf(gpu_get(job.a_log, k.h)), bias = gpu_get(job.dt_bias, k.h);
        double sum = 0.0;
        for (int64_t i = 0; i < k.n; i++) {
            int64_t to = ssm_at(job, k, i);
            float delta = ssm_softplus(gpu_get(job.dt, to) + bias);
            sum += (double)(delta * a);
            float high = (float)sum;
            job.room.delta[to] = delta;
            job.room.sum[to] = high;
            job.room.low[to] = (float)(sum - (double)high);
        }
    }
}

/* sum over a chunk's tokens of f_j u_j (x) w_j. Forward u is x, w B and f = exp(c_last - c_j)
 * delta_j: what the chunk adds to the state that leaves it, put where the next chunk's is kept.
 * Backward u is dy, w C and f = exp(c_i): what it adds to the gradient of the state that enters
 * it, put to the chunk before. A block makes 64 rows of a slab of WIDTH columns. */
template <int WIDTH, int PLANES>
static __global__ void __launch_bounds__(TILE_THREADS)
    ssm_outer_kernel(ssm_job job, gpu_tensor to, bool backward) {
    enum { N = SSM_OTHERS / 8 };
    __shared__ float factors[SSM_OTHERS];
    GPU_DYNAMIC_SHARED(uint16_t, tile);
    ssm_place k = ssm_place_of(job, blockIdx.x, job.s.heads);
    int64_t next = k.chunk + (backward ? -1 : 1), col = (int64_t)blockIdx.z * WIDTH;
    if (next < 0 || next >= job.s.n_chunks)
        return;
    tile_source u = ssm_x(job, k, backward ? job.dy : job.x);
    tile_source w = ssm_b(job, k, backward ? job.c : job.b);
    int64_t row = (int64_t)blockIdx.y * TILE_ROWS + tile_warp() * 16;
    float sum[WIDTH / 8][4] = {}, cells[N][4];
    for (int64_t first = 0; first < k.n; first += SSM_OTHERS) {
        __syncthreads();
        if (threadIdx.x < SSM_OTHERS) {
            ssm_rate r = ssm_rate_of(job, k, first + threadIdx.x);
            factors[threadIdx.x] =
                backward ? expf(r.sum) : ssm_decay(ssm_rate_of(job, k, k.n - 1), r) * r.delta;
        }
        tile_stage<WIDTH, PLANES, SSM_OTHERS>(w, first, col, tile);
        __syncthreads();
        GPU_UNROLL
        for (int e = 0; e < N * 4; e++) {
            int token = 8 * (e / 4) + tile_cell_col(e % 4);
            cells[e / 4][e % 4] =
                factors[token] * tile_get(u, first + token, row + tile_cell_row(e % 4));
        }
        tile_cols<WIDTH, TILE_ORDERS, PLANES, N / 2>(sum, cells, tile,
                                                     tile_width_of(w.cols, col, WIDTH));
    }
    tile_store<WIDTH>(ssm_state(job, k, to, next), row, col, sum, tile);
}

/* From what each chunk adds to the states themselves, in place: one thread a number of a state,
 * over all chunks. A chunk's place holds what the chunk before it (backward: after it) adds. */
static __global__ void ssm_carry_kernel(ssm_job job, gpu_tensor to, bool backward) {
    int64_t size = job.s.head_dim * job.s.state;
    GPU_EACH(at, job.s.batch * job.s.heads * size) {
        ssm_place k = {at / size / job.s.heads, 0, at / size % job.s.heads, 0, 0};
        float state = 0.0f;
        for (int64_t i = 0; i < job.s.n_chunks; i++) {
            int64_t chunk = backward ? job.s.n_chunks - 1 - i : i;
            int64_t here = ssm_state_at(job, k, chunk) + at % size;
            int64_t last = (chunk + 1) * job.s.chunk;
            last = (last < job.s.sequence ? last : job.s.sequence) - 1;
            float decay = expf(job.room.sum[(k.b * job.s.sequence + last) * job.s.heads + k.h]);
            gpu_put(to, here, state);
            if (i + 1 < job.s.n_chunks) {
                int64_t step = job.s.heads * size;
                state = decay * state + gpu_get(to, backward ? here - step : here + step);
            }
        }
    }
}

/* The states that enter each chunk, or backward the gradients of those that leave. */
template <int WIDTH, int PLANES>
static void ssm_launch_states(const mpt_kernel_args *args, const ssm_job &job, gpu_tensor to,
                              bool backward) {
    const mpt_ssm_shape *s = &job.s;
    auto outer = ssm_outer_kernel<WIDTH, PLANES>;
    size_t bytes = (size_t)tile_room<WIDTH>() * sizeof(uint16_t);
    dim3 grid((unsigned)(s->batch * s->n_chunks * s->heads),
              (unsigned)((s->head_dim + TILE_ROWS - 1) / TILE_ROWS),
              (unsigned)tile_slabs<WIDTH>(s->state));
    if (!tile_allow_shared(args->gpu, outer, bytes))
        return;
    GPU_LAUNCH(outer, grid, TILE_THREADS, bytes, args->gpu, job, to, backward);
    GPU_LAUNCH(ssm_carry_kernel, gpu_blocks(s->batch * s->heads * s->head_dim * s->state),
               GPU_THREADS, 0, args->gpu, job, to, backward);
}

#endif
