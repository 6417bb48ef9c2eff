/* ssm_scan by chunks: within a chunk the recurrence is a matrix product, between chunks a state
 * is carried on (Dao and Gu, arXiv 2405.21060).
 *
 * With c_i the sum of delta A over the chunk's tokens up to i, of a head:
 *   W_ij  = (C_i . B_j) exp(c_i - c_j) delta_j for j <= i, else 0
 *   y_i   = sum_j W_ij x_j + exp(c_i) S_in C_i + D x_i
 *   S_out = exp(c_last) S_in + sum_j exp(c_last - c_j) delta_j x_j (x) B_j
 * No exponent is above 0, as c falls. Chunks are the node's, so that the states carried on are
 * those that the node keeps, and each kernel of the gradient takes them from either of the
 * scan. A NaN spreads over its chunk. */
#include <omp.h>

#include "kernels/cpu/ssm_chunk.h"

mpt_ssm_group mpt_ssm_group_of(const mpt_kernel_args *args, int64_t sequence, int64_t group) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    mpt_ssm_group g = {.s = s,
                       .heads = s.heads / s.groups,
                       .x_stride = s.heads * s.head_dim,
                       .b_stride = s.groups * s.state,
                       .states_stride = s.heads * s.head_dim * s.state};
    int64_t token = sequence * s.sequence, head = group * g.heads;
    int64_t at_x = token * g.x_stride + head * s.head_dim;
    int64_t at_b = token * g.b_stride + group * s.state, at_dt = token * s.heads + head;
    int64_t at = sequence * s.n_chunks * g.states_stride + head * s.head_dim * s.state;
    g.x = (const float *)args->in[0].data + at_x;
    g.b = (const float *)args->in[1].data + at_b;
    g.c = (const float *)args->in[2].data + at_b;
    g.dt = (const float *)args->in[3].data + at_dt;
    g.a_log = (const float *)args->in[4].data + head;
    g.d = (const float *)args->in[5].data + head;
    g.dt_bias = (const float *)args->in[6].data + head;
    if (args->node->op == MPT_OP_ssm_scan) {
        g.y = (float *)args->out[0].data + at_x;
        g.states_out = (float *)args->out[1].data + at;
        return g;
    }
    g.states_in = (const float *)args->in[7].data + at;
    g.dy = (const float *)args->in[8].data + at_x;
    g.dx = (float *)args->out[0].data + at_x;
    g.db = (float *)args->out[1].data + at_b;
    g.dc = (float *)args->out[2].data + at_b;
    g.ddt = (float *)args->out[3].data + at_dt;
    return g;
}

/* The next n floats of a room; base NULL only counts. */
static float *take(float *base, int64_t *at, int64_t n) {
    int64_t here = *at;
    *at += mpt_cpu_round_up(n);
    return base ? base + here : NULL;
}

static int64_t lay_out(const mpt_ssm_shape *s, bool backward, float *base, mpt_ssm_room *room) {
    int64_t q = mpt_ssm_most(s), at = 0, by_state = q * s->state, by_dim = q * s->head_dim;
    float **const by_token[] = {&room->delta,      &room->sum,    &room->sum_low,
                                &room->from_start, &room->to_end, &room->ddelta};
    for (int i = 0; i < (backward ? 6 : 5); i++)
        *by_token[i] = take(base, &at, q);
    room->b = take(base, &at, by_state);
    room->c = take(base, &at, by_state);
    room->cb = take(base, &at, q * q);
    room->weights = take(base, &at, q * q);
    room->x = take(base, &at, by_dim);
    room->y = take(base, &at, by_dim);
    room->scaled = take(base, &at, by_dim);
    if (!backward)
        return at;
    room->dsum = (double *)(void *)take(base, &at, 2 * q);
    room->dy = take(base, &at, by_dim);
    room->by_state = take(base, &at, by_state);
    room->mixed = take(base, &at, q * q);
    room->db = take(base, &at, by_state);
    room->dc = take(base, &at, by_state);
    room->lambda = take(base, &at, s->heads / s->groups * s->head_dim * s->state);
    return at;
}

int64_t mpt_ssm_room_floats(const mpt_ssm_shape *s, bool backward) {
    mpt_ssm_room none;
    return lay_out(s, backward, NULL, &none);
}

mpt_ssm_room mpt_ssm_room_at(const mpt_ssm_shape *s, bool backward, float *base) {
    mpt_ssm_room room = {0};
    lay_out(s, backward, base, &room);
    return room;
}

void mpt_ssm_pack(const float *from, int64_t stride, int64_t n, int64_t cols, float *to) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * cols, from + i * stride, mpt_cpu_floats(cols));
}

/* Clones stay in their file: one that others call is a symbol which the library exports. */
MPT_CLONES static void scale_rows(const float *from, const float *f1, const float *f2,
                                  int64_t n, int64_t cols, float *to) {
    for (int64_t i = 0; i < n; i++) {
        float factor = f2 ? f1[i] * f2[i] : f1[i];
        const float *x = from + i * cols;
        float *y = to + i * cols;
#pragma omp simd
        for (int64_t p = 0; p < cols; p++)
            y[p] = factor * x[p];
    }
}

void mpt_ssm_scale_rows(const float *from, const float *f1, const float *f2, int64_t n,
                        int64_t cols, float *to) {
    scale_rows(from, f1, f2, n, cols, to);
}

void mpt_ssm_open_chunk(const mpt_ssm_group *g, const mpt_ssm_chunk *k,
                        const mpt_ssm_room *room) {
    int64_t n_state = g->s.state;
    mpt_ssm_pack(g->b + k->first * g->b_stride, g->b_stride, k->n, n_state, room->b);
    mpt_ssm_pack(g->c + k->first * g->b_stride, g->b_stride, k->n, n_state, room->c);
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_b = true,
                               .m = k->n,
                               .n = k->n,
                               .k = n_state,
                               .alpha = 1.0f,
                               .a = room->c,
                               .lda = n_state,
                               .b = room->b,
                               .ldb = n_state,
                               .c = room->cb,
                               .ldc = mpt_ssm_most(&g->s)});
}

/* The sums are made in double and kept in two parts, the second of which is what the first
 * misses: the differences of long sums would else be off by more than the terms between. */
MPT_CLONES static void fill_rates(const mpt_ssm_group *g, const mpt_ssm_chunk *k, int64_t head,
                                  const mpt_ssm_room *room) {
    const float *dt = g->dt + k->first * g->s.heads + head;
    float a = -expf(g->a_log[head]), bias = g->dt_bias[head], *delta = room->delta;
    float *high = room->sum, *low = room->sum_low;
    int64_t stride = g->s.heads, end = k->n - 1;
    double sum = 0;
#pragma omp simd
    for (int64_t i = 0; i < k->n; i++)
        delta[i] = mpt_softplusf(dt[i * stride] + bias);
    for (int64_t i = 0; i < k->n; i++) {
        sum += (double)(delta[i] * a);
        high[i] = (float)sum;
        low[i] = (float)(sum - (double)high[i]);
    }
    for (int64_t i = 0; i < k->n; i++) {
        room->from_start[i] = mpt_expf(high[i]);
        room->to_end[i] = mpt_expf((high[end] - high[i]) + (low[end] - low[i]));
    }
}

void mpt_ssm_rates(const mpt_ssm_group *g, const mpt_ssm_chunk *k, int64_t head,
                   const mpt_ssm_room *room) {
    fill_rates(g, k, head, room);
}

/* W of one head. */
MPT_CLONES static void fill_weights(const mpt_ssm_chunk *k, const mpt_ssm_room *room,
                                    int64_t most) {
    const float *delta = room->delta;
    for (int64_t i = 0; i < k->n; i++) {
        const float *cb = room->cb + i * most;
        float *w = room->weights + i * most;
#pragma omp simd
        for (int64_t j = 0; j <= i; j++)
            w[j] = cb[j] * mpt_ssm_decay(room, i, j) * delta[j];
        for (int64_t j = i + 1; j < k->n; j++)
            w[j] = 0.0f;
    }
}

/* y = exp(c) y + D x; y is not read in the first chunk, which no state enters. */
MPT_CLONES static void add_skip(const mpt_ssm_group *g, const mpt_ssm_chunk *k, int64_t head,
                                const mpt_ssm_room *room) {
    float d = g->d[head];
    for (int64_t i = 0; i < k->n; i++) {
        float *y = room->y + i * g->s.head_dim, factor = room->from_start[i];
        const float *x = room->x + i * g->s.head_dim;
        if (k->index == 0) {
#pragma omp simd
            for (int64_t p = 0; p < g->s.head_dim; p++)
                y[p] = d * x[p];
        } else {
#pragma omp simd
            for (int64_t p = 0; p < g->s.head_dim; p++)
                y[p] = factor * y[p] + d * x[p];
        }
    }
}

static void head_output(const mpt_ssm_group *g, const mpt_ssm_chunk *k, int64_t head,
                        const mpt_ssm_room *room, const float *state) {
    int64_t dim = g->s.head_dim, most = mpt_ssm_most(&g->s);
    mpt_sgemm product = {.m = k->n, .n = dim, .alpha = 1.0f, .c = room->y, .ldc = dim};
    if (k->index > 0) {
        mpt_sgemm carried = product;
        carried.transpose_b = true;
        carried.k = carried.lda = carried.ldb = g->s.state;
        carried.a = room->c;
        carried.b = state;
        mpt_cpu_sgemm(&carried);
    }
    add_skip(g, k, head, room);
    fill_weights(k, room, most);
    product.k = k->n;
    product.a = room->weights;
    product.lda = most;
    product.b = room->x;
    product.ldb = dim;
    product.beta = 1.0f;
    mpt_cpu_sgemm(&product);
}

/* The state that enters the next chunk. */
static void head_state(const mpt_ssm_group *g, const mpt_ssm_chunk *k, const mpt_ssm_room *room,
                       const float *state, float *next) {
    int64_t dim = g->s.head_dim, n_state = g->s.state;
    if (k->index > 0)
        mpt_ssm_scale_rows(state, &room->from_start[k->n - 1], NULL, 1, dim * n_state, next);
    mpt_ssm_scale_rows(room->x, room->to_end, room->delta, k->n, dim, room->scaled);
    mpt_cpu_sgemm(&(mpt_sgemm){.transpose_a = true,
                               .m = dim,
                               .n = n_state,
                               .k = k->n,
                               .alpha = 1.0f,
                               .a = room->scaled,
                               .lda = dim,
                               .b = room->b,
                               .ldb = n_state,
                               .beta = k->index > 0 ? 1.0f : 0.0f,
                               .c = next,
                               .ldc = n_state});
}

static void scan_chunk(const mpt_ssm_group *g, const mpt_ssm_chunk *k, mpt_piece heads,
                       const mpt_ssm_room *room) {
    int64_t dim = g->s.head_dim, size = dim * g->s.state;
    mpt_ssm_open_chunk(g, k, room);
    for (int64_t h = heads.first; h < heads.end; h++) {
        float *state = g->states_out + k->index * g->states_stride + h * size;
        int64_t at = k->first * g->x_stride + h * dim;
        mpt_ssm_rates(g, k, h, room);
        mpt_ssm_pack(g->x + at, g->x_stride, k->n, dim, room->x);
        if (k->index == 0)
            memset(state, 0, mpt_cpu_floats(size));
        head_output(g, k, h, room, state);
        for (int64_t i = 0; i < k->n; i++)
            memcpy(g->y + at + i * g->x_stride, room->y + i * dim, mpt_cpu_floats(dim));
        if (!k->last)
            head_state(g, k, room, state, state + g->states_stride);
    }
}

/* Measured (runtime/adr/0005): from 64 x 64 on the backward pass gains, the forward pass does
 * not lose; a chunk's square costs more than it saves where chunks are long, and is too small a
 * product where they are short. */
enum { LEAST_STATE = 64 * 64, LEAST_CHUNK = 16, MOST_CHUNK = 128 };

bool mpt_cpu_ssm_scan_chunked_can(const mpt_graph *graph, const mpt_node *node,
                                  const char **why) {
    (void)graph;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    if (s.head_dim * s.state < LEAST_STATE)
        *why = "going token by token is faster, as a state has fewer than 4096 numbers";
    else if (s.chunk < LEAST_CHUNK || s.chunk > MOST_CHUNK)
        *why = "going token by token is faster, as chunks are not of 16 to 128 tokens";
    else
        return true;
    return false;
}

size_t mpt_cpu_ssm_scan_chunked_scratch(const mpt_graph *graph, const mpt_node *node,
                                        int n_threads) {
    (void)graph;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    return mpt_cpu_floats(n_threads * mpt_ssm_room_floats(&s, false));
}

/* Into how many pieces the heads of a group are cut: they share no output, only C_i . B_j,
 * which each piece makes for itself. */
static int64_t pieces_of(const mpt_ssm_shape *s) {
    int64_t groups = s->batch * s->groups;
    return mpt_cpu_smaller((MPT_CPU_PIECES + groups - 1) / groups, s->heads / s->groups);
}

void mpt_cpu_ssm_scan_chunked(const mpt_kernel_args *args) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    float *rooms = args->scratch;
    int64_t size = mpt_ssm_room_floats(&s, false), n_pieces = pieces_of(&s);
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < s.batch * s.groups * n_pieces; item++) {
        int64_t at = item / n_pieces;
        mpt_ssm_group g = mpt_ssm_group_of(args, at / s.groups, at % s.groups);
        mpt_ssm_room room = mpt_ssm_room_at(&s, false, rooms + omp_get_thread_num() * size);
        mpt_piece heads = mpt_cpu_piece(g.heads, n_pieces, item % n_pieces);
        for (int64_t i = 0; i < s.n_chunks; i++) {
            mpt_ssm_chunk k = mpt_ssm_chunk_at(&s, i);
            scan_chunk(&g, &k, heads, &room);
        }
    }
}
