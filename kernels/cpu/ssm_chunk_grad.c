/* The backward pass of the scan by chunks, last chunk first.
 *
 * Names as in ssm_chunk.c; L is the gradient of the state that leaves a chunk, 0 for the last:
 *   dW_ij = dy_i . x_j for j <= i
 *   dx_j  = sum_i W_ij dy_i + D dy_j + exp(c_last - c_j) delta_j L B_j
 *   dC_i  = sum_j dW_ij exp(c_i - c_j) delta_j B_j + exp(c_i) S_in^T dy_i
 *   dB_j  = sum_i dW_ij exp(c_i - c_j) delta_j C_i + exp(c_last - c_j) delta_j L^T x_j
 * The factors of B_j and C_i are summed over the heads of a group before they are multiplied.
 * What delta does is in two parts, as a factor and through c; gradients of c go to all tokens
 * up to theirs. One sequence and group is a piece of work: its heads add to one dB and dC. */
#include <omp.h>

#include "kernels/cpu/ssm_chunk.h"

/* One head in one chunk. */
typedef struct head_chunk {
    const mpt_ssm_group *g;
    const mpt_ssm_chunk *k;
    const mpt_ssm_room *room;
    int64_t head, dim, n_state, most;
    const float *state; /* that enters the chunk */
    float *lambda;      /* gradient of the one that leaves it, then of the one that enters */
    float *sums;        /* of A_log, D and dt_bias, added to */
} head_chunk;

/* Sum of a[i] b[i]. */
MPT_ALWAYS_INLINE float dot(const float *a, const float *b, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* dW becomes W; what it is multiplied by for dB and dC is added to `mixed`. A pair of tokens is
 * in dsum twice, with either sign, and has to vanish from the sum over all tokens after both:
 * it does in double. A token's pair with itself is left out. */
MPT_CLONES static void pair_gradients(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    const float *delta = room->delta;
    float *ddelta = room->ddelta;
    double *dsum = room->dsum;
    for (int64_t i = 0; i < h->k->n; i++) {
        const float *cb = room->cb + i * h->most;
        float *w = room->weights + i * h->most, *mixed = room->mixed + i * h->most;
        double row = 0;
#pragma omp simd reduction(+ : row)
        for (int64_t j = 0; j < i; j++) {
            float decay = mpt_ssm_decay(room, i, j), grad = w[j] * decay, pair = grad * cb[j];
            mixed[j] += grad * delta[j];
            ddelta[j] += pair;
            dsum[j] -= (double)(pair * delta[j]);
            row += (double)(pair * delta[j]);
            w[j] = cb[j] * decay * delta[j];
        }
        mixed[i] += w[i] * delta[i];
        ddelta[i] = w[i] * cb[i];
        dsum[i] = row;
        w[i] = cb[i] * delta[i];
        for (int64_t j = i + 1; j < h->k->n; j++)
            w[j] = 0.0f;
    }
}

static void within_chunk(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    mpt_sgemm product = {.transpose_b = true,
                         .m = h->k->n,
                         .n = h->k->n,
                         .k = h->dim,
                         .alpha = 1.0f,
                         .a = room->dy,
                         .lda = h->dim,
                         .b = room->x,
                         .ldb = h->dim,
                         .c = room->weights,
                         .ldc = h->most};
    mpt_cpu_sgemm(&product);
    pair_gradients(h);
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_a = true,
                               .m = h->k->n,
                               .n = h->dim,
                               .k = h->k->n,
                               .alpha = 1.0f,
                               .a = room->weights,
                               .lda = h->most,
                               .b = room->dy,
                               .ldb = h->dim,
                               .c = room->y,
                               .ldc = h->dim});
}

/* y += D dy, and the gradient of D. */
MPT_CLONES static void skip_gradients(const head_chunk *h) {
    float d = h->g->d[h->head], *dx = h->room->y;
    const float *dy = h->room->dy;
#pragma omp simd
    for (int64_t i = 0; i < h->k->n * h->dim; i++)
        dx[i] += d * dy[i];
    for (int64_t i = 0; i < h->k->n; i++)
        h->sums[1] += dot(h->room->x + i * h->dim, dy + i * h->dim, h->dim);
}

/* The shares of L B_j, which stands in `scaled`, in dx, ddelta and dsum. */
MPT_CLONES static void leaving_gradients(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    double to_last = 0;
    for (int64_t j = 0; j < h->k->n; j++) {
        const float *from = room->scaled + j * h->dim;
        float *dx = room->y + j * h->dim, factor = room->to_end[j] * room->delta[j];
#pragma omp simd
        for (int64_t p = 0; p < h->dim; p++)
            dx[p] += factor * from[p];
        float share = room->to_end[j] * dot(room->x + j * h->dim, from, h->dim);
        room->ddelta[j] += share;
        room->dsum[j] -= (double)(room->delta[j] * share);
        to_last += (double)(room->delta[j] * share);
    }
    float kept = 0;
    for (int64_t p = 0; p < h->dim && h->k->index > 0; p++)
        kept += dot(h->lambda + p * h->n_state, h->state + p * h->n_state, h->n_state);
    room->dsum[h->k->n - 1] += to_last + (double)(room->from_start[h->k->n - 1] * kept);
}

/* From the state that leaves the chunk. */
static void from_end(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_b = true,
                               .m = h->k->n,
                               .n = h->dim,
                               .k = h->n_state,
                               .alpha = 1.0f,
                               .a = room->b,
                               .lda = h->n_state,
                               .b = h->lambda,
                               .ldb = h->n_state,
                               .c = room->scaled,
                               .ldc = h->dim});
    leaving_gradients(h);
    mpt_ssm_scale_rows(room->x, room->to_end, room->delta, h->k->n, h->dim, room->scaled);
    mpt_cpu_sgemm(&(mpt_sgemm){.m = h->k->n,
                               .n = h->n_state,
                               .k = h->dim,
                               .alpha = 1.0f,
                               .a = room->scaled,
                               .lda = h->dim,
                               .b = h->lambda,
                               .ldb = h->n_state,
                               .beta = 1.0f,
                               .c = room->db,
                               .ldc = h->n_state});
}

/* dC += what stands in by_state, and its share in dsum. */
MPT_CLONES static void entering_gradients(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    for (int64_t i = 0; i < h->k->n; i++) {
        const float *from = room->by_state + i * h->n_state;
        float *dc = room->dc + i * h->n_state;
#pragma omp simd
        for (int64_t n = 0; n < h->n_state; n++)
            dc[n] += from[n];
        room->dsum[i] += (double)dot(from, room->c + i * h->n_state, h->n_state);
    }
}

/* To the state that enters the chunk. */
static void from_start(const head_chunk *h) {
    const mpt_ssm_room *room = h->room;
    mpt_ssm_scale_rows(room->dy, room->from_start, NULL, h->k->n, h->dim, room->scaled);
    mpt_sgemm product = {.m = h->k->n,
                         .n = h->n_state,
                         .k = h->dim,
                         .alpha = 1.0f,
                         .a = room->scaled,
                         .lda = h->dim,
                         .b = h->state,
                         .ldb = h->n_state,
                         .c = room->by_state,
                         .ldc = h->n_state};
    mpt_cpu_sgemm(&product);
    entering_gradients(h);
    if (!h->k->last)
        mpt_ssm_scale_rows(h->lambda, &room->from_start[h->k->n - 1], NULL, 1,
                           h->dim * h->n_state, h->lambda);
    product.transpose_a = true;
    product.m = h->dim;
    product.k = h->k->n;
    product.b = room->c;
    product.beta = h->k->last ? 0.0f : 1.0f;
    product.c = h->lambda;
    mpt_cpu_sgemm(&product);
}

/* From the gradients of the sums to those of dt and of A. */
static void rate_gradients(const head_chunk *h) {
    const mpt_ssm_group *g = h->g;
    float a = -expf(g->a_log[h->head]), bias = g->dt_bias[h->head];
    double after = 0;
    for (int64_t i = h->k->n - 1; i >= 0; i--) {
        int64_t at = (h->k->first + i) * g->s.heads + h->head;
        after += h->room->dsum[i];
        float decay = (float)after * a;
        float draw = (h->room->ddelta[i] + decay) * mpt_sigmoidf(g->dt[at] + bias);
        g->ddt[at] = draw;
        h->sums[0] += decay * h->room->delta[i];
        h->sums[2] += draw;
    }
}

static void head_gradients(const head_chunk *h) {
    const mpt_ssm_group *g = h->g;
    int64_t at = h->k->first * g->x_stride + h->head * h->dim;
    mpt_ssm_rates(g, h->k, h->head, h->room);
    mpt_ssm_pack(g->x + at, g->x_stride, h->k->n, h->dim, h->room->x);
    mpt_ssm_pack(g->dy + at, g->x_stride, h->k->n, h->dim, h->room->dy);
    within_chunk(h);
    skip_gradients(h);
    if (!h->k->last)
        from_end(h);
    if (h->k->index > 0)
        from_start(h);
    rate_gradients(h);
    for (int64_t i = 0; i < h->k->n; i++)
        memcpy(g->dx + at + i * g->x_stride, h->room->y + i * h->dim, mpt_cpu_floats(h->dim));
}

/* The products with `mixed`, and dB and dC to where they belong. */
static void close_chunk(const mpt_ssm_group *g, const mpt_ssm_chunk *k,
                        const mpt_ssm_room *room) {
    int64_t n_state = g->s.state;
    mpt_sgemm product = {.m = k->n,
                         .n = n_state,
                         .k = k->n,
                         .alpha = 1.0f,
                         .a = room->mixed,
                         .lda = mpt_ssm_most(&g->s),
                         .b = room->b,
                         .ldb = n_state,
                         .beta = 1.0f,
                         .c = room->dc,
                         .ldc = n_state};
    mpt_cpu_sgemm(&product);
    product.transpose_a = true;
    product.b = room->c;
    product.c = room->db;
    mpt_cpu_sgemm(&product);
    for (int64_t i = 0; i < k->n; i++) {
        int64_t at = (k->first + i) * g->b_stride;
        memcpy(g->db + at, room->db + i * n_state, mpt_cpu_floats(n_state));
        memcpy(g->dc + at, room->dc + i * n_state, mpt_cpu_floats(n_state));
    }
}

/* `sums` holds three numbers a head of the group. */
static void chunk_gradients(const mpt_ssm_group *g, const mpt_ssm_chunk *k,
                            const mpt_ssm_room *room, float *sums) {
    int64_t most = mpt_ssm_most(&g->s), size = g->s.head_dim * g->s.state;
    mpt_ssm_open_chunk(g, k, room);
    memset(room->mixed, 0, mpt_cpu_floats(most * most));
    memset(room->db, 0, mpt_cpu_floats(k->n * g->s.state));
    memset(room->dc, 0, mpt_cpu_floats(k->n * g->s.state));
    for (int64_t i = 0; i < g->heads; i++) {
        head_chunk h = {.g = g,
                        .k = k,
                        .room = room,
                        .head = i,
                        .dim = g->s.head_dim,
                        .n_state = g->s.state,
                        .most = most,
                        .state = g->states_in + k->index * g->states_stride + i * size,
                        .lambda = room->lambda + i * size,
                        .sums = sums + 3 * i};
        head_gradients(&h);
    }
    close_chunk(g, k, room);
}

size_t mpt_cpu_ssm_scan_grad_chunked_scratch(const mpt_graph *graph, const mpt_node *node,
                                             int n_threads) {
    (void)graph;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    return mpt_cpu_floats(n_threads * mpt_ssm_room_floats(&s, true) + 3 * s.batch * s.heads);
}

void mpt_cpu_ssm_scan_grad_chunked(const mpt_kernel_args *args) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    int64_t size = mpt_ssm_room_floats(&s, true), group_heads = s.heads / s.groups;
    float *rooms = args->scratch, *sums = rooms + args->env->n_threads * size;
    memset(sums, 0, mpt_cpu_floats(3 * s.batch * s.heads));
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < s.batch * s.groups; item++) {
        mpt_ssm_group g = mpt_ssm_group_of(args, item / s.groups, item % s.groups);
        mpt_ssm_room room = mpt_ssm_room_at(&s, true, rooms + omp_get_thread_num() * size);
        for (int64_t i = s.n_chunks - 1; i >= 0; i--) {
            mpt_ssm_chunk k = mpt_ssm_chunk_at(&s, i);
            chunk_gradients(&g, &k, &room, sums + 3 * item * group_heads);
        }
    }
    for (int64_t i = 0; i < s.batch * s.heads; i++)
        for (int p = 0; p < 3; p++)
            ((float *)args->out[4 + p].data)[i % s.heads] += sums[3 * i + p];
}
