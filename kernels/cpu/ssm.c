/* ssm_scan: the Mamba-2 recurrence with its state in the first-level cache.
 *
 * A head is cut into blocks of 16 rows of its state, kept as [state][16]: one token is then a
 * loop over the state's columns in which every vector is full and y needs no sum across lanes.
 * For small states, where going token by token is faster than the matrix products of
 * ssm_chunk.c. Chunks bound the memory of the backward pass: it rebuilds the states of one
 * chunk from the one kept at its entry, last chunk first. Formulas as in
 * kernels/ref/ref_ssm_scan.c.
 */
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { LANES = 16, HALF = 8 };

/* Half a row of a block: a vector of eight, kept in registers where the compiler's own vectors
 * would go through memory. Never passed by value, which is another ABI on each instruction set.
 */
typedef float half __attribute__((vector_size(32), aligned(4), may_alias));

/* One head of one sequence; pointers stand at its first token. */
typedef struct scan {
    mpt_ssm_shape s;
    const float *x, *b, *c, *dt, *dy;
    float *y, *dx, *db, *dc, *ddt;
    int64_t x_stride, b_stride;
    float a, d, dt_bias;
    const float *states_in;
    float *states_out;          /* of the sequence's first chunk */
    int64_t states_stride;      /* from chunk to chunk */
    float *delta, *alpha;       /* a number a token */
    float *ddelta;              /* backward */
    float *block;               /* the state, [state][LANES] */
    float *history;             /* backward: states of a chunk, the one before it first */
    float da_log, dd, ddt_bias; /* backward: sums over the sequence */
} scan;

static int64_t block_lanes(const scan *k, int64_t row) {
    return k->s.head_dim - row < LANES ? k->s.head_dim - row : LANES;
}

/* Up to LANES numbers, zeros behind. */
MPT_ALWAYS_INLINE void load_lanes(const float *from, int64_t n, float *to) {
    if (n == LANES) {
        memcpy(to, from, LANES * sizeof *to);
        return;
    }
    for (int64_t l = 0; l < LANES; l++)
        to[l] = l < n ? from[l] : 0.0f;
}

/* A kept state is [head_dim][state]; a block is its transpose. */
static void load_block(const scan *k, int64_t chunk, int64_t row, float *block) {
    const float *kept = k->states_in + chunk * k->states_stride;
    for (int64_t l = 0; l < LANES; l++)
        for (int64_t n = 0; n < k->s.state; n++)
            block[n * LANES + l] =
                l < block_lanes(k, row) ? kept[(row + l) * k->s.state + n] : 0.0f;
}

static void store_block(const scan *k, int64_t chunk, int64_t row, const float *block) {
    float *kept = k->states_out + chunk * k->states_stride;
    for (int64_t l = 0; l < block_lanes(k, row); l++)
        for (int64_t n = 0; n < k->s.state; n++)
            kept[(row + l) * k->s.state + n] = block[n * LANES + l];
}

/* delta = softplus(dt + bias) and alpha = exp(delta A) of all tokens. */
MPT_CLONES static void scan_rates(const scan *k) {
    const float *dt = k->dt;
    float *deltas = k->delta, *alphas = k->alpha, a = k->a, bias = k->dt_bias;
    int64_t stride = k->s.heads;
#pragma omp simd
    for (int64_t t = 0; t < k->s.sequence; t++) {
        float delta = mpt_softplusf(dt[t * stride] + bias);
        deltas[t] = delta;
        alphas[t] = mpt_expf(delta * a);
    }
}

/* next = alpha state + B (x) delta x of one token. */
MPT_ALWAYS_INLINE void token_state(const scan *k, int64_t t, const float *x, const float *state,
                                   float *next) {
    const float *b = k->b + t * k->b_stride;
    float alpha = k->alpha[t], delta = k->delta[t];
    half x0 = *(const half *)x * delta, x1 = *(const half *)(x + HALF) * delta;
    for (int64_t n = 0; n < k->s.state; n++) {
        const float *from = state + n * LANES;
        float *to = next + n * LANES;
        *(half *)to = alpha * *(const half *)from + b[n] * x0;
        *(half *)(to + HALF) = alpha * *(const half *)(from + HALF) + b[n] * x1;
    }
}

/* The same in place, and y = C next + D x. */
MPT_ALWAYS_INLINE void token_forward(const scan *k, int64_t t, const float *x, float *state,
                                     float *y) {
    const float *b = k->b + t * k->b_stride, *c = k->c + t * k->b_stride;
    float alpha = k->alpha[t], delta = k->delta[t];
    half x0 = *(const half *)x, x1 = *(const half *)(x + HALF);
    half y0 = x0 * k->d, y1 = x1 * k->d;
    x0 *= delta;
    x1 *= delta;
    for (int64_t n = 0; n < k->s.state; n++) {
        float *s = state + n * LANES;
        half s0 = alpha * *(half *)s + b[n] * x0;
        half s1 = alpha * *(half *)(s + HALF) + b[n] * x1;
        *(half *)s = s0;
        *(half *)(s + HALF) = s1;
        y0 += s0 * c[n];
        y1 += s1 * c[n];
    }
    *(half *)y = y0;
    *(half *)(y + HALF) = y1;
}

MPT_CLONES static void scan_block(const scan *k, int64_t row) {
    int64_t lanes = block_lanes(k, row);
    float x[LANES], y[LANES];
    memset(k->block, 0, mpt_cpu_floats(k->s.state * LANES));
    for (int64_t t = 0; t < k->s.sequence; t++) {
        if (t % k->s.chunk == 0)
            store_block(k, t / k->s.chunk, row, k->block);
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        token_forward(k, t, x, k->block, y);
        memcpy(k->y + t * k->x_stride + row, y, mpt_cpu_floats(lanes));
    }
}

/* A head's views; index counts heads within the sequence. */
static scan scan_of(const mpt_kernel_args *args, int64_t sequence, int64_t index) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    scan k = {.s = s, .x_stride = s.heads * s.head_dim, .b_stride = s.groups * s.state};
    int64_t token = sequence * s.sequence, group = index / (s.heads / s.groups);
    k.x = (const float *)args->in[0].data + token * k.x_stride + index * s.head_dim;
    k.b = (const float *)args->in[1].data + token * k.b_stride + group * s.state;
    k.c = (const float *)args->in[2].data + token * k.b_stride + group * s.state;
    k.dt = (const float *)args->in[3].data + token * s.heads + index;
    k.a = -expf(((const float *)args->in[4].data)[index]);
    k.d = ((const float *)args->in[5].data)[index];
    k.dt_bias = ((const float *)args->in[6].data)[index];
    k.states_stride = s.heads * s.head_dim * s.state;
    int64_t at = sequence * s.n_chunks * k.states_stride + index * s.head_dim * s.state;
    if (args->node->op == MPT_OP_ssm_scan) {
        k.y = (float *)args->out[0].data + token * k.x_stride + index * s.head_dim;
        k.states_out = (float *)args->out[1].data + at;
        return k;
    }
    k.states_in = (const float *)args->in[7].data + at;
    k.dy = (const float *)args->in[8].data + token * k.x_stride + index * s.head_dim;
    k.dx = (float *)args->out[0].data + token * k.x_stride + index * s.head_dim;
    k.db = (float *)args->out[1].data + token * k.b_stride + group * s.state;
    k.dc = (float *)args->out[2].data + token * k.b_stride + group * s.state;
    k.ddt = (float *)args->out[3].data + token * s.heads + index;
    return k;
}

/* Floats a thread needs: rates a token, the state block, and backward a chunk of states. */
static int64_t room_floats(const mpt_ssm_shape *s, bool backward) {
    int64_t block = s->state * LANES, tokens = mpt_cpu_round_up(s->sequence);
    return backward ? 3 * tokens + block * (s->chunk + 2) : 2 * tokens + block;
}

static void scan_room(scan *k, float *room) {
    int64_t tokens = mpt_cpu_round_up(k->s.sequence);
    k->delta = room;
    k->alpha = room + tokens;
    k->ddelta = room + 2 * tokens;
    k->block = k->y ? room + 2 * tokens : room + 3 * tokens;
    k->history = k->block + k->s.state * LANES;
}

size_t mpt_cpu_ssm_scan_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    return mpt_cpu_floats(n_threads * room_floats(&s, false));
}

void mpt_cpu_ssm_scan(const mpt_kernel_args *args) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    float *room = args->scratch;
    int64_t size = room_floats(&s, false);
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < s.batch * s.heads; item++) {
        scan k = scan_of(args, item / s.heads, item % s.heads);
        scan_room(&k, room + omp_get_thread_num() * size);
        scan_rates(&k);
        for (int64_t row = 0; row < s.head_dim; row += LANES)
            scan_block(&k, row);
    }
}

/* Sum of eight in a fixed tree. */
MPT_ALWAYS_INLINE float half_sum(const half *v) {
    half a = *v + __builtin_shufflevector(*v, *v, 4, 5, 6, 7, 0, 1, 2, 3);
    a += __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
    return a[0] + a[1];
}

/* One token backwards; block is the gradient of the state after it, then of the one before.
 * Gives dx and the token's shares of the sums. */
MPT_ALWAYS_INLINE void token_backward(scan *k, int64_t t, const float *x, const float *dy,
                                      const float *before, float *dx) {
    const float *b = k->b + t * k->b_stride, *c = k->c + t * k->b_stride;
    const float *after = before + k->s.state * LANES;
    float *db = k->db + t * k->b_stride, *dc = k->dc + t * k->b_stride;
    float alpha = k->alpha[t], delta = k->delta[t];
    half x0 = *(const half *)x, x1 = *(const half *)(x + HALF);
    half dy0 = *(const half *)dy, dy1 = *(const half *)(dy + HALF);
    half sum0 = {0}, sum1 = {0}, dalpha = {0};
    for (int64_t n = 0; n < k->s.state; n++) {
        float *lambda = k->block + n * LANES;
        const float *s = before + n * LANES, *next = after + n * LANES;
        half l0 = *(half *)lambda + dy0 * c[n], l1 = *(half *)(lambda + HALF) + dy1 * c[n];
        half to_b = l0 * x0 + l1 * x1;
        half to_c = *(const half *)next * dy0 + *(const half *)(next + HALF) * dy1;
        sum0 += l0 * b[n];
        sum1 += l1 * b[n];
        dalpha += l0 * *(const half *)s + l1 * *(const half *)(s + HALF);
        *(half *)lambda = l0 * alpha;
        *(half *)(lambda + HALF) = l1 * alpha;
        db[n] += delta * half_sum(&to_b);
        dc[n] += half_sum(&to_c);
    }
    *(half *)dx = k->d * dy0 + delta * sum0;
    *(half *)(dx + HALF) = k->d * dy1 + delta * sum1;
    half direct = x0 * sum0 + x1 * sum1, skip = x0 * dy0 + x1 * dy1;
    float decay = half_sum(&dalpha) * alpha * k->a;
    k->ddelta[t] += half_sum(&direct) + decay;
    k->da_log += decay * delta;
    k->dd += half_sum(&skip);
}

/* Tokens first ... end of one chunk and one block of rows. */
MPT_CLONES static void scan_block_grad(scan *k, int64_t row, int64_t first, int64_t end) {
    int64_t lanes = block_lanes(k, row), size = k->s.state * LANES;
    float x[LANES], dx[LANES], dy[LANES];
    load_block(k, first / k->s.chunk, row, k->history);
    for (int64_t t = first; t < end; t++) {
        float *state = k->history + (t - first) * size;
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        token_state(k, t, x, state, state + size);
    }
    for (int64_t t = end - 1; t >= first; t--) {
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        load_lanes(k->dy + t * k->x_stride + row, lanes, dy);
        token_backward(k, t, x, dy, k->history + (t - first) * size, dx);
        memcpy(k->dx + t * k->x_stride + row, dx, mpt_cpu_floats(lanes));
    }
}

/* All of one head; sums is where its three parameter gradients of this sequence go. */
static void scan_head_grad(scan *k, float *sums) {
    scan_rates(k);
    memset(k->ddelta, 0, mpt_cpu_floats(k->s.sequence));
    for (int64_t row = 0; row < k->s.head_dim; row += LANES) {
        memset(k->block, 0, mpt_cpu_floats(k->s.state * LANES));
        for (int64_t chunk = k->s.n_chunks - 1; chunk >= 0; chunk--) {
            int64_t first = chunk * k->s.chunk, end = first + k->s.chunk;
            scan_block_grad(k, row, first, end < k->s.sequence ? end : k->s.sequence);
        }
    }
    for (int64_t t = 0; t < k->s.sequence; t++) {
        float raw = k->dt[t * k->s.heads] + k->dt_bias;
        float draw = k->ddelta[t] * mpt_sigmoidf(raw);
        k->ddt[t * k->s.heads] = draw;
        k->ddt_bias += draw;
    }
    sums[0] = k->da_log;
    sums[1] = k->dd;
    sums[2] = k->ddt_bias;
}

size_t mpt_cpu_ssm_scan_grad_scratch(const mpt_graph *graph, const mpt_node *node,
                                     int n_threads) {
    (void)graph;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    return mpt_cpu_floats(n_threads * room_floats(&s, true) + 3 * s.batch * s.heads);
}

/* A sequence and group is one piece: its heads add to the same dB and dC. */
void mpt_cpu_ssm_scan_grad(const mpt_kernel_args *args) {
    mpt_ssm_shape s = mpt_ssm_shape_of(&args->node->attrs);
    int64_t size = room_floats(&s, true), group_heads = s.heads / s.groups;
    float *room = args->scratch, *sums = room + args->env->n_threads * size;
    memset(args->out[1].data, 0, mpt_cpu_floats(mpt_tensor_elements(&args->out[1])));
    memset(args->out[2].data, 0, mpt_cpu_floats(mpt_tensor_elements(&args->out[2])));
#pragma omp parallel for schedule(static)
    for (int64_t item = 0; item < s.batch * s.groups; item++) {
        for (int64_t i = 0; i < group_heads; i++) {
            int64_t sequence = item / s.groups, h = item % s.groups * group_heads + i;
            scan k = scan_of(args, sequence, h);
            scan_room(&k, room + omp_get_thread_num() * size);
            scan_head_grad(&k, sums + 3 * (sequence * s.heads + h));
        }
    }
    for (int64_t i = 0; i < s.batch * s.heads; i++)
        for (int p = 0; p < 3; p++)
            ((float *)args->out[4 + p].data)[i % s.heads] += sums[3 * i + p];
}
