/* ssm_scan: the Mamba-2 recurrence with its state in the first-level cache.
 *
 * A head is cut into blocks of 16 rows of its state, kept as [state][16]: one token is then a
 * loop over the state's columns in which every vector is full and y needs no sum across lanes.
 * Going token by token costs no more here than the chunked form's matrix products, which redo
 * the triangle inside a chunk. Chunks bound the memory of the backward pass: it rebuilds the
 * states of one chunk from the one kept at its entry, last chunk first. Formulas as in
 * kernels/ref/ref_ssm_scan.c. */
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { LANES = 16 };

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
static void scan_rates(const scan *k) {
    for (int64_t t = 0; t < k->s.sequence; t++) {
        float raw = k->dt[t * k->s.heads] + k->dt_bias;
        float delta = (raw > 0 ? raw : 0.0f) + log1pf(mpt_expf(-fabsf(raw)));
        k->delta[t] = delta;
        k->alpha[t] = mpt_expf(delta * k->a);
    }
}

/* One token: next = alpha state + B (x) dx, and y += C next. */
MPT_ALWAYS_INLINE void token_forward(int64_t n_state, const float *state, float *next,
                                     float alpha, const float *b, const float *c,
                                     const float *dx, float *y) {
    for (int64_t n = 0; n < n_state; n++) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            float s = alpha * state[n * LANES + l] + b[n] * dx[l];
            next[n * LANES + l] = s;
            y[l] += s * c[n];
        }
    }
}

MPT_CLONES static void scan_block(const scan *k, int64_t row) {
    int64_t lanes = block_lanes(k, row);
    float x[LANES], dx[LANES], y[LANES];
    memset(k->block, 0, mpt_cpu_floats(k->s.state * LANES));
    for (int64_t t = 0; t < k->s.sequence; t++) {
        if (t % k->s.chunk == 0)
            store_block(k, t / k->s.chunk, row, k->block);
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        for (int l = 0; l < LANES; l++) {
            dx[l] = k->delta[t] * x[l];
            y[l] = k->d * x[l];
        }
        token_forward(k->s.state, k->block, k->block, k->alpha[t], k->b + t * k->b_stride,
                      k->c + t * k->b_stride, dx, y);
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

/* One token backwards; block is the gradient of the state after it, then of the one before. */
MPT_ALWAYS_INLINE float token_backward(scan *k, int64_t t, const float *x, const float *dy,
                                       const float *before, const float *after, float *sum) {
    const float *b = k->b + t * k->b_stride, *c = k->c + t * k->b_stride;
    float *db = k->db + t * k->b_stride, *dc = k->dc + t * k->b_stride;
    float *lambda = k->block, alpha = k->alpha[t], dalpha[LANES] = {0}, total = 0;
    for (int64_t n = 0; n < k->s.state; n++) {
        float to_b = 0, to_c = 0;
#pragma omp simd reduction(+ : to_b, to_c)
        for (int l = 0; l < LANES; l++) {
            float v = lambda[n * LANES + l] + dy[l] * c[n];
            to_c += after[n * LANES + l] * dy[l];
            to_b += v * x[l];
            sum[l] += v * b[n];
            dalpha[l] += v * before[n * LANES + l];
            lambda[n * LANES + l] = v * alpha;
        }
        db[n] += k->delta[t] * to_b;
        dc[n] += to_c;
    }
    for (int l = 0; l < LANES; l++)
        total += dalpha[l];
    return total;
}

/* Tokens first ... end of one chunk and one block of rows. */
MPT_CLONES static void scan_block_grad(scan *k, int64_t row, int64_t first, int64_t end) {
    int64_t lanes = block_lanes(k, row), size = k->s.state * LANES;
    float x[LANES], dx[LANES], y[LANES], dy[LANES];
    load_block(k, first / k->s.chunk, row, k->history);
    for (int64_t t = first; t < end; t++) {
        float *state = k->history + (t - first) * size;
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        for (int l = 0; l < LANES; l++)
            dx[l] = k->delta[t] * x[l];
        memset(y, 0, sizeof y);
        token_forward(k->s.state, state, state + size, k->alpha[t], k->b + t * k->b_stride,
                      k->c + t * k->b_stride, dx, y);
    }
    for (int64_t t = end - 1; t >= first; t--) {
        const float *state = k->history + (t - first) * size;
        float sum[LANES] = {0}, direct = 0, skip = 0;
        load_lanes(k->x + t * k->x_stride + row, lanes, x);
        load_lanes(k->dy + t * k->x_stride + row, lanes, dy);
        float dalpha = token_backward(k, t, x, dy, state, state + size, sum);
        for (int l = 0; l < LANES; l++) {
            dx[l] = k->d * dy[l] + k->delta[t] * sum[l];
            direct += x[l] * sum[l];
            skip += dy[l] * x[l];
        }
        k->dd += skip;
        k->ddelta[t] += direct + dalpha * k->alpha[t] * k->a;
        k->da_log += dalpha * k->alpha[t] * k->delta[t] * k->a;
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
