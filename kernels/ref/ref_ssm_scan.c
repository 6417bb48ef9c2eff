/* ssm_scan: the Mamba-2 recurrence, one head and one token at a time.
 *
 * delta = softplus(dt + dt_bias), A = -exp(A_log), alpha = exp(delta A);
 * S_t = alpha S_{t-1} + delta x_t (x) B_t, y_t = S_t C_t + D x_t, with S [head_dim, state].
 * Heads share B and C in groups. The second output keeps the state that enters each chunk, so
 * that the backward pass rebuilds the states of one chunk at a time in its scratch. */
#include "kernels/ref/real.h"

typedef struct scan_head {
    mpt_ssm_shape s;
    const mpt_real *x, *b, *c, *dt, *a_log, *d, *dt_bias;
    int64_t sequence, h;
} scan_head;

/* Offsets of this head's slices of token t. */
static int64_t scan_at_x(const scan_head *k, int64_t t) {
    return ((k->sequence * k->s.sequence + t) * k->s.heads + k->h) * k->s.head_dim;
}

static int64_t scan_at_b(const scan_head *k, int64_t t) {
    int64_t group = k->h / (k->s.heads / k->s.groups);
    return ((k->sequence * k->s.sequence + t) * k->s.groups + group) * k->s.state;
}

static int64_t scan_at_dt(const scan_head *k, int64_t t) {
    return (k->sequence * k->s.sequence + t) * k->s.heads + k->h;
}

static int64_t scan_at_state(const scan_head *k, int64_t chunk) {
    return ((k->sequence * k->s.n_chunks + chunk) * k->s.heads + k->h) * k->s.head_dim *
           k->s.state;
}

static scan_head scan_head_of(const mpt_kernel_args *args) {
    return (scan_head){.s = mpt_ssm_shape_of(&args->node->attrs),
                       .x = args->in[0].data,
                       .b = args->in[1].data,
                       .c = args->in[2].data,
                       .dt = args->in[3].data,
                       .a_log = args->in[4].data,
                       .d = args->in[5].data,
                       .dt_bias = args->in[6].data};
}

static mpt_real scan_softplus(mpt_real x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static mpt_real scan_delta(const scan_head *k, int64_t t) {
    return scan_softplus(k->dt[scan_at_dt(k, t)] + k->dt_bias[k->h]);
}

/* next = alpha S + delta x (x) B; next may be S itself. */
static void scan_step(const scan_head *k, int64_t t, const mpt_real *state, mpt_real *next) {
    const mpt_real *x = k->x + scan_at_x(k, t), *b = k->b + scan_at_b(k, t);
    mpt_real delta = scan_delta(k, t), alpha = exp(delta * -exp(k->a_log[k->h]));
    for (int64_t p = 0; p < k->s.head_dim; p++)
        for (int64_t n = 0; n < k->s.state; n++)
            next[p * k->s.state + n] = alpha * state[p * k->s.state + n] + delta * x[p] * b[n];
}

static void scan_forward(const scan_head *k, mpt_real *state, mpt_real *y, mpt_real *states) {
    int64_t n_state = k->s.head_dim * k->s.state;
    for (int64_t i = 0; i < n_state; i++)
        state[i] = 0;
    for (int64_t t = 0; t < k->s.sequence; t++) {
        if (t % k->s.chunk == 0)
            for (int64_t i = 0; i < n_state; i++)
                states[scan_at_state(k, t / k->s.chunk) + i] = state[i];
        scan_step(k, t, state, state);
        const mpt_real *c = k->c + scan_at_b(k, t);
        for (int64_t p = 0; p < k->s.head_dim; p++) {
            mpt_real sum = 0;
            for (int64_t n = 0; n < k->s.state; n++)
                sum += state[p * k->s.state + n] * c[n];
            y[scan_at_x(k, t) + p] = sum + k->d[k->h] * k->x[scan_at_x(k, t) + p];
        }
    }
}

size_t MPT_REF(ssm_scan_scratch)(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph, (void)n_threads;
    return (size_t)node->attrs.head_dim * (size_t)node->attrs.state * sizeof(mpt_real);
}

void MPT_REF(ssm_scan)(const mpt_kernel_args *args) {
    scan_head k = scan_head_of(args);
    for (k.sequence = 0; k.sequence < k.s.batch; k.sequence++)
        for (k.h = 0; k.h < k.s.heads; k.h++)
            scan_forward(&k, args->scratch, args->out[0].data, args->out[1].data);
}

/* Room for the states of one chunk, the one before it included, and for their gradient. */
size_t MPT_REF(ssm_scan_grad_scratch)(const mpt_graph *graph, const mpt_node *node,
                                      int n_threads) {
    (void)graph, (void)n_threads;
    mpt_ssm_shape s = mpt_ssm_shape_of(&node->attrs);
    return (size_t)(s.chunk + 2) * (size_t)(s.head_dim * s.state) * sizeof(mpt_real);
}

/* One token, last to first: lambda is the gradient of S_t on entry and of S_{t-1} on exit. */
static void scan_backward(const scan_head *k, const mpt_kernel_args *args, int64_t t,
                          const mpt_real *before, const mpt_real *after, mpt_real *lambda) {
    int64_t n_state = k->s.state, ax = scan_at_x(k, t), ab = scan_at_b(k, t);
    const mpt_real *x = k->x + ax, *b = k->b + ab, *c = k->c + ab;
    const mpt_real *dy = (const mpt_real *)args->in[8].data + ax;
    mpt_real *dx = (mpt_real *)args->out[0].data + ax, *db = (mpt_real *)args->out[1].data + ab;
    mpt_real *dc = (mpt_real *)args->out[2].data + ab, *ddt = args->out[3].data;
    mpt_real *da_log = args->out[4].data, *dd = args->out[5].data, *dbias = args->out[6].data;
    mpt_real raw = k->dt[scan_at_dt(k, t)] + k->dt_bias[k->h];
    mpt_real delta = scan_softplus(raw), a = -exp(k->a_log[k->h]), alpha = exp(delta * a);
    mpt_real dalpha = 0, ddelta = 0;
    for (int64_t p = 0; p < k->s.head_dim; p++) {
        mpt_real sum = 0;
        for (int64_t n = 0; n < n_state; n++) {
            mpt_real *l = &lambda[p * n_state + n];
            *l += dy[p] * c[n];
            dc[n] += after[p * n_state + n] * dy[p];
            sum += *l * b[n];
            db[n] += delta * *l * x[p];
            dalpha += *l * before[p * n_state + n];
            *l *= alpha;
        }
        dx[p] = k->d[k->h] * dy[p] + delta * sum;
        ddelta += x[p] * sum;
        dd[k->h] += dy[p] * x[p];
    }
    ddelta += dalpha * alpha * a;
    da_log[k->h] += dalpha * alpha * delta * a;
    mpt_real draw = ddelta * MPT_REF(sigmoid)(raw);
    ddt[scan_at_dt(k, t)] = draw;
    dbias[k->h] += draw;
}

/* Rebuilds the states of one chunk from the kept one, then walks it backwards. */
static void scan_backward_chunk(const scan_head *k, const mpt_kernel_args *args, int64_t chunk,
                                mpt_real *lambda) {
    int64_t n_state = k->s.head_dim * k->s.state, first = chunk * k->s.chunk;
    int64_t end = first + k->s.chunk < k->s.sequence ? first + k->s.chunk : k->s.sequence;
    mpt_real *local = lambda + n_state;
    const mpt_real *kept = (const mpt_real *)args->in[7].data + scan_at_state(k, chunk);
    for (int64_t i = 0; i < n_state; i++)
        local[i] = kept[i];
    for (int64_t t = first; t < end; t++) {
        mpt_real *state = local + (t - first) * n_state;
        scan_step(k, t, state, state + n_state);
    }
    for (int64_t t = end - 1; t >= first; t--) {
        const mpt_real *before = local + (t - first) * n_state;
        scan_backward(k, args, t, before, before + n_state, lambda);
    }
}

void MPT_REF(ssm_scan_grad)(const mpt_kernel_args *args) {
    scan_head k = scan_head_of(args);
    mpt_real *lambda = args->scratch;
    for (int i = 1; i <= 2; i++) {
        mpt_real *out = args->out[i].data;
        int64_t n = mpt_tensor_elements(&args->out[i]);
        for (int64_t at = 0; at < n; at++)
            out[at] = 0;
    }
    for (k.sequence = 0; k.sequence < k.s.batch; k.sequence++) {
        for (k.h = 0; k.h < k.s.heads; k.h++) {
            for (int64_t i = 0; i < k.s.head_dim * k.s.state; i++)
                lambda[i] = 0;
            for (int64_t chunk = k.s.n_chunks - 1; chunk >= 0; chunk--)
                scan_backward_chunk(&k, args, chunk, lambda);
        }
    }
}
