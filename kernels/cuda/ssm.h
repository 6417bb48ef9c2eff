/* What the forward and the backward pass of the scan share: views, rates and scratch. Names are
 * those of kernels/cpu/ssm_chunk.c: c_i is the sum of delta A over the chunk's tokens up to i,
 * and W_ij is (C_i . B_j) exp(c_i - c_j) delta_j for j <= i, else 0. The sums c are made in
 * double and kept in two floats, as differences of long sums would else be off by more than the
 * terms between. */
#ifndef MPT_KERNELS_CUDA_SSM_H
#define MPT_KERNELS_CUDA_SSM_H

#include "kernels/cuda/tile.h"
extern "C" {
#include "kernels/tensor.h"
}

enum { SSM_OTHERS = 16 }; /* tokens, or rows of a state, that a block's rows are met by */

/* Scratch: numbers of each token and head, [tokens][heads]; states; sums of each chunk. */
struct ssm_room {
    double *dsum;             /* backward: gradients of c */
    float *delta, *sum, *low; /* the step, and c in two parts */
    float *ddelta, *share;    /* backward: of delta, in all and from the state that leaves */
    float *skip;              /* backward: x . dy */
    float *kept;              /* backward: a number a chunk and head, of the state itself */
    float *totals;            /* backward: [3][batch * chunks][heads]: A_log, D, dt_bias */
    float *lambda;            /* backward: gradients of the states that leave, as states lie */
};

struct ssm_job {
    mpt_ssm_shape s;
    gpu_tensor x, b, c, dt, a_log, d, dt_bias, states, dy;
    gpu_tensor y, dx, db, dc, ddt, da_log, dd, ddt_bias;
    ssm_room room;
};

/* Lays scratch out from `base`; gives its bytes. NULL only counts. */
static inline size_t ssm_room_of(const mpt_ssm_shape *s, bool backward, void *base,
                                 ssm_room *room) {
    size_t tokens = (size_t)(s->batch * s->sequence * s->heads), at = 0;
    size_t chunks = (size_t)(s->batch * s->n_chunks * s->heads);
    size_t states = chunks * (size_t)(s->head_dim * s->state);
    struct {
        float **to;
        size_t n;
    } parts[] = {{&room->delta, tokens},  {&room->sum, tokens},        {&room->low, tokens},
                 {&room->ddelta, tokens}, {&room->share, tokens},      {&room->skip, tokens},
                 {&room->kept, chunks},   {&room->totals, 3 * chunks}, {&room->lambda, states}};
    room->dsum = (double *)base;
    at = backward ? tokens * sizeof(double) : 0;
    for (int i = 0; i < (backward ? 9 : 3); i++) {
        *parts[i].to = base ? (float *)((char *)base + at) : NULL;
        at += (parts[i].n * sizeof(float) + 63) / 64 * 64;
    }
    return at;
}

static inline ssm_job ssm_job_of(const mpt_kernel_args *args, bool backward) {
    ssm_job job = {};
    job.s = mpt_ssm_shape_of(&args->node->attrs);
    job.x = gpu_in(args, 0), job.b = gpu_in(args, 1), job.c = gpu_in(args, 2);
    job.dt = gpu_in(args, 3), job.a_log = gpu_in(args, 4), job.d = gpu_in(args, 5);
    job.dt_bias = gpu_in(args, 6);
    ssm_room_of(&job.s, backward, args->scratch, &job.room);
    return job;
}

/* ---- places ---- */

/* One chunk of one head (or, in kernels by group, of a group's head at a time). */
struct ssm_place {
    int64_t b, chunk, h, first, n; /* first: token of the tensor; n tokens */
};

static __device__ __forceinline__ ssm_place ssm_place_of(const ssm_job &job, int64_t at,
                                                         int64_t heads) {
    ssm_place k;
    k.h = at % heads;
    k.chunk = at / heads % job.s.n_chunks;
    k.b = at / heads / job.s.n_chunks;
    int64_t left = job.s.sequence - k.chunk * job.s.chunk;
    k.first = k.b * job.s.sequence + k.chunk * job.s.chunk;
    k.n = left < job.s.chunk ? left : job.s.chunk;
    return k;
}

/* x, y and dy of a head; B and C of its group; a state, or a gradient of one. */
static __device__ __forceinline__ tile_source ssm_x(const ssm_job &job, const ssm_place &k,
                                                    const gpu_tensor &t) {
    int64_t stride = job.s.heads * job.s.head_dim;
    return tile_source_of(t, k.first * stride + k.h * job.s.head_dim, stride, k.n,
                          job.s.head_dim);
}

static __device__ __forceinline__ tile_source ssm_b(const ssm_job &job, const ssm_place &k,
                                                    const gpu_tensor &t) {
    int64_t group = k.h / (job.s.heads / job.s.groups), stride = job.s.groups * job.s.state;
    return tile_source_of(t, k.first * stride + group * job.s.state, stride, k.n, job.s.state);
}

static __device__ __forceinline__ int64_t ssm_state_at(const ssm_job &job, const ssm_place &k,
                                                       int64_t chunk) {
    return ((k.b * job.s.n_chunks + chunk) * job.s.heads + k.h) * job.s.head_dim * job.s.state;
}

static __device__ __forceinline__ tile_source ssm_state(const ssm_job &job, const ssm_place &k,
                                                        const gpu_tensor &t, int64_t chunk) {
    return tile_source_of(t, ssm_state_at(job, k, chunk), job.s.state, job.s.head_dim,
                          job.s.state);
}

static __host__ __device__ __forceinline__ gpu_tensor ssm_lambda(const ssm_job &job) {
    return {job.room.lambda, MPT_DTYPE_FP32, MPT_STORAGE_HOST,
            job.s.batch * job.s.n_chunks * job.s.heads * job.s.head_dim * job.s.state};
}

/* Of token i of the chunk in the arrays by token and head. */
static __device__ __forceinline__ int64_t ssm_at(const ssm_job &job, const ssm_place &k,
                                                 int64_t i) {
    return (k.first + i) * job.s.heads + k.h;
}

/* ---- rates ---- */

struct ssm_rate {
    float sum, low, delta;
};

/* Past the chunk's end: the last token's, whose decay does no harm to zeros. */
static __device__ __forceinline__ ssm_rate ssm_rate_of(const ssm_job &job, const ssm_place &k,
                                                       int64_t i) {
    int64_t at = ssm_at(job, k, i < k.n ? i : k.n - 1);
    return {job.room.sum[at], job.room.low[at], job.room.delta[at]};
}

/* What is left at `later` of what the state took up at `earlier`. */
static __device__ __forceinline__ float ssm_decay(const ssm_rate &later,
                                                  const ssm_rate &earlier) {
    return expf((later.sum - earlier.sum) + (later.low - earlier.low));
}

/* Launch::run<WIDTH, PLANES>(args), of one width: published models have states of 128, and what
 * narrower ones leave of a tile costs them little. */
template <typename Launch> static void ssm_dispatch(const mpt_kernel_args *args, bool bf16) {
    if (bf16)
        Launch::template run<128, 1>(args);
    else
        Launch::template run<128, TILE_ORDERS>(args);
}

#endif
