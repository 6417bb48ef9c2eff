/* What the forward and the backward pass of the chunked scan share: views of a group of heads,
 * a thread's room, and the numbers of one head in one chunk.
 *
 * Everything that a matrix product reads is first copied from rows that lie a token apart to
 * rows one behind the other: a token's stride is often a multiple of 4 KiB, whose rows share a
 * few sets of the cache. */
#ifndef MPT_KERNELS_CPU_SSM_CHUNK_H
#define MPT_KERNELS_CPU_SSM_CHUNK_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

/* One sequence and group; pointers stand at its first token, states at its first chunk. */
typedef struct mpt_ssm_group {
    mpt_ssm_shape s;
    const float *x, *b, *c, *dt, *a_log, *d, *dt_bias, *states_in, *dy;
    float *y, *states_out, *dx, *db, *dc, *ddt;
    int64_t heads, x_stride, b_stride, states_stride;
} mpt_ssm_group;

mpt_ssm_group mpt_ssm_group_of(const mpt_kernel_args *args, int64_t sequence, int64_t group);

/* A thread's room; `most` tokens is the longest chunk. Rows of the squares are `most` apart. */
typedef struct mpt_ssm_room {
    float *b, *c;               /* [most][state] of the chunk */
    float *cb;                  /* [most][most]: C_i . B_j, which the heads of a group share */
    float *weights;             /* [most][most] of one head */
    float *x, *y;               /* [most][head_dim] of one head */
    float *scaled;              /* the same, rows times a factor */
    float *delta;               /* a number a token, as all that follow: the step, */
    float *sum, *sum_low;       /* the sum of delta A up to the token, in two parts */
    float *from_start, *to_end; /* exp of it from the chunk's entry, and on to its end */
    /* Backward only. */
    float *dy;       /* [most][head_dim] */
    float *by_state; /* [most][state] */
    float *mixed;    /* [most][most]: sum over the heads of what dB and dC share */
    float *db, *dc;  /* [most][state] */
    float *lambda;   /* [heads][head_dim][state]: gradients of the state after */
    float *ddelta;   /* a number a token */
    double *dsum;    /* gradients of the sums */
} mpt_ssm_room;

/* Floats of a thread's room, and the room that starts at `base`. */
int64_t mpt_ssm_room_floats(const mpt_ssm_shape *s, bool backward);
mpt_ssm_room mpt_ssm_room_at(const mpt_ssm_shape *s, bool backward, float *base);

static inline int64_t mpt_ssm_most(const mpt_ssm_shape *s) {
    return mpt_cpu_smaller(s->chunk, s->sequence);
}

/* Tokens first ... first + n - 1. */
typedef struct mpt_ssm_chunk {
    int64_t index, first, n;
    bool last;
} mpt_ssm_chunk;

static inline mpt_ssm_chunk mpt_ssm_chunk_at(const mpt_ssm_shape *s, int64_t index) {
    mpt_ssm_chunk k = {.index = index, .first = index * s->chunk};
    k.n = mpt_cpu_smaller(s->chunk, s->sequence - k.first);
    k.last = index + 1 == s->n_chunks;
    return k;
}

/* Fills b, c and cb for a chunk. */
void mpt_ssm_open_chunk(const mpt_ssm_group *g, const mpt_ssm_chunk *k,
                        const mpt_ssm_room *room);

/* Fills delta, the sums, from_start and to_end for one head of the group. */
void mpt_ssm_rates(const mpt_ssm_group *g, const mpt_ssm_chunk *k, int64_t head,
                   const mpt_ssm_room *room);

/* to[i] = from[i * stride], n rows of `cols` numbers. */
void mpt_ssm_pack(const float *from, int64_t stride, int64_t n, int64_t cols, float *to);

/* to[i] = (f1[i] * f2[i]) from[i] for n rows of `cols` numbers; f2 may be NULL. */
void mpt_ssm_scale_rows(const float *from, const float *f1, const float *f2, int64_t n,
                        int64_t cols, float *to);

/* What is left at token i of what the state took up at token j, which is not later: e^(c_i -
 * c_j).
 */
MPT_ALWAYS_INLINE float mpt_ssm_decay(const mpt_ssm_room *room, int64_t i, int64_t j) {
    return mpt_expf((room->sum[i] - room->sum[j]) + (room->sum_low[i] - room->sum_low[j]));
}

#endif
