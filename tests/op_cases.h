/* Every forward op with shapes, and the nodes of its gradient: one row an op.
 *
 * Used by the gradient test (odd shapes, finite differences) and the conformance test (more
 * shapes, cpu against ref). A new forward op takes one row here. */
#ifndef MPT_TESTS_OP_CASES_H
#define MPT_TESTS_OP_CASES_H

#include "op_case.h"

typedef struct op_sizes {
    int64_t batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk;
} op_sizes;

/* A node of the gradient. in: "d0 i1 -" is the gradient of output 0, input 1 of the forward op,
 * nothing; "o0" is output 0. out: "0 2": gradients of the forward op's inputs 0 and 2. Those
 * of inputs in `sums` are added to. An op of MPT_OP_COUNT hands d0 on as it is. */
typedef struct op_gradient {
    mpt_op op;
    const char *in, *out, *sums;
} op_gradient;

typedef struct op_row {
    mpt_op op;
    void (*set)(op_case *c, const op_sizes *s);
    op_gradient gradients[4];
    int n_free_out; /* outputs beyond these carry no gradient (log-sum-exp, states) */
} op_row;

static inline void set_embedding(op_case *c, const op_sizes *s) {
    op_in(c, OP_IDS, s->batch * s->sequence, 0, 0, (double)s->out);
    op_in(c, OP_REAL, s->out, s->in, -1, 1);
    op_out(c, OP_REAL, s->batch * s->sequence, s->in);
}

static inline void set_linear(op_case *c, const op_sizes *s) {
    c->attrs.alpha = 0.75f;
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -1, 1);
    op_in(c, OP_REAL, s->out, s->in, -1, 1);
    op_in(c, OP_REAL, s->out, 0, -1, 1);
    op_in(c, OP_CONSTANT, 1, 0, 0.5, 2);
    op_in(c, OP_CONSTANT, 1, 0, 0.5, 2);
    op_out(c, OP_REAL, s->batch * s->sequence, s->out);
}

static inline void set_binary(op_case *c, const op_sizes *s) {
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -2, 2);
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -2, 2);
    op_out(c, OP_REAL, s->batch * s->sequence, s->in);
}

static inline void set_unary(op_case *c, const op_sizes *s) {
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -5, 5);
    op_out(c, OP_REAL, s->batch * s->sequence, s->in);
}

static inline void set_unary_exact(op_case *c, const op_sizes *s) {
    set_unary(c, s);
    c->attrs.exact = true;
}

static inline void set_softmax(op_case *c, const op_sizes *s) {
    set_unary(c, s);
    c->in[0].lo = -3, c->in[0].hi = 3;
}

static inline void set_scale(op_case *c, const op_sizes *s) {
    set_unary(c, s);
    c->attrs.scale = -0.625f;
}

static inline void set_dropout(op_case *c, const op_sizes *s) {
    set_unary(c, s);
    c->attrs.p = 0.375f;
    c->attrs.scope = 0xdecade;
    c->env.seed = UINT64_C(0x123456789abcdef0);
    c->env.step = 7;
    c->env.micro_batch = 3;
}

static inline void set_rope(op_case *c, const op_sizes *s) {
    c->attrs.heads = (int32_t)s->heads;
    c->attrs.head_dim = (int32_t)(s->dim + s->dim % 2);
    c->attrs.rope = (mpt_rope){.theta = 10000.0f, .dims = c->attrs.head_dim};
    op_in(c, OP_REAL, s->batch * s->sequence, s->heads * c->attrs.head_dim, -2, 2);
    op_out(c, OP_REAL, s->batch * s->sequence, s->heads * c->attrs.head_dim);
}

/* Some numbers of a head do not turn, and slow pairs turn more slowly. */
static inline void set_rope_llama3(op_case *c, const op_sizes *s) {
    c->attrs.heads = (int32_t)s->heads;
    c->attrs.head_dim = (int32_t)(s->dim + 5);
    c->attrs.rope = (mpt_rope){.theta = 50.0f,
                               .dims = (int32_t)(s->dim + s->dim % 2 + 2),
                               .scaling = MPT_ROPE_LLAMA3,
                               .factor = 8,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4,
                               .original_positions = 32};
    op_in(c, OP_REAL, s->batch * s->sequence, s->heads * c->attrs.head_dim, -2, 2);
    op_out(c, OP_REAL, s->batch * s->sequence, s->heads * c->attrs.head_dim);
}

static inline void set_rope_linear(op_case *c, const op_sizes *s) {
    set_rope(c, s);
    c->attrs.rope.scaling = MPT_ROPE_LINEAR;
    c->attrs.rope.factor = 4;
}

static inline void set_rmsnorm(op_case *c, const op_sizes *s) {
    c->attrs.eps = 1e-5f;
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -2, 2);
    op_in(c, OP_REAL, s->in, 0, 0.5, 1.5);
    op_out(c, OP_REAL, s->batch * s->sequence, s->in);
}

static inline void set_layernorm(op_case *c, const op_sizes *s) {
    set_rmsnorm(c, s);
    c->in[0].hi = 3;
    op_in(c, OP_REAL, s->in, 0, -1, 1);
}

static inline void set_gated_rmsnorm(op_case *c, const op_sizes *s) {
    int64_t width = s->groups * s->in;
    c->attrs.eps = 1e-5f;
    c->attrs.groups = (int32_t)s->groups;
    op_in(c, OP_REAL, s->batch * s->sequence, width, -2, 2);
    op_in(c, OP_REAL, s->batch * s->sequence, width, -3, 3);
    op_in(c, OP_REAL, width, 0, 0.5, 1.5);
    op_out(c, OP_REAL, s->batch * s->sequence, width);
}

static inline void set_attention(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence;
    c->attrs.heads = (int32_t)s->heads;
    c->attrs.kv_heads = (int32_t)s->kv_heads;
    c->attrs.head_dim = (int32_t)s->dim;
    c->attrs.scale = (float)(1 / sqrt((double)s->dim));
    op_in(c, OP_REAL, tokens, s->heads * s->dim, -2, 2);
    op_in(c, OP_REAL, tokens, s->kv_heads * s->dim, -2, 2);
    op_in(c, OP_REAL, tokens, s->kv_heads * s->dim, -2, 2);
    op_out(c, OP_REAL, tokens, s->heads * s->dim);
    op_out(c, OP_REAL, tokens, s->heads);
}

static inline void set_conv1d(op_case *c, const op_sizes *s) {
    c->attrs.kernel = (int32_t)s->taps;
    op_in(c, OP_REAL, s->batch * s->sequence, s->in, -2, 2);
    op_in(c, OP_REAL, s->in, s->taps, -1, 1);
    op_in(c, OP_REAL, s->in, 0, -1, 1);
    op_out(c, OP_REAL, s->batch * s->sequence, s->in);
}

static inline void set_ssm_scan(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence;
    c->attrs.heads = (int32_t)s->heads;
    c->attrs.head_dim = (int32_t)s->dim;
    c->attrs.groups = (int32_t)s->groups;
    c->attrs.state = (int32_t)s->state;
    c->attrs.sizes[0] = s->chunk;
    c->attrs.n_sizes = 1;
    op_in(c, OP_REAL, tokens, s->heads * s->dim, -1, 1);
    op_in(c, OP_REAL, tokens, s->groups * s->state, -1, 1);
    op_in(c, OP_REAL, tokens, s->groups * s->state, -1, 1);
    op_in(c, OP_REAL, tokens, s->heads, -3, 1);
    op_in(c, OP_REAL, s->heads, 0, -1, 1.5);
    op_in(c, OP_REAL, s->heads, 0, 0.5, 1.5);
    op_in(c, OP_REAL, s->heads, 0, -2, 1);
    op_out(c, OP_REAL, tokens, s->heads * s->dim);
    op_out(c, OP_REAL, s->batch * ((s->sequence + s->chunk - 1) / s->chunk),
           s->heads * s->dim * s->state);
}

static inline void set_split(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence, widths[3] = {s->in, 1, s->out};
    op_in(c, OP_REAL, tokens, s->in + 1 + s->out, -1, 1);
    c->attrs.n_sizes = 3;
    for (int i = 0; i < 3; i++) {
        c->attrs.sizes[i] = widths[i];
        op_out(c, OP_REAL, tokens, widths[i]);
    }
}

static inline void set_concat(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence, widths[3] = {s->in, 1, s->out};
    c->attrs.n_sizes = 3;
    for (int i = 0; i < 3; i++) {
        c->attrs.sizes[i] = widths[i];
        op_in(c, OP_REAL, tokens, widths[i], -1, 1);
    }
    op_out(c, OP_REAL, tokens, s->in + 1 + s->out);
}

/* ---- experts: five, of which some get no token ---- */

enum { OP_EXPERTS = 5, OP_TOP_K = 2, OP_ALIGN = 4 };

static inline int64_t op_expert_rows(int64_t tokens) {
    return (tokens * OP_TOP_K + OP_EXPERTS * (OP_ALIGN - 1)) / OP_ALIGN * OP_ALIGN;
}

static inline void set_experts_attrs(op_case *c) {
    c->attrs.experts = OP_EXPERTS;
    c->attrs.top_k = OP_TOP_K;
    c->attrs.align = OP_ALIGN;
    c->attrs.groups = c->attrs.top_groups = 1;
    c->attrs.scale = 1.5f;
}

static inline void set_linear_experts(op_case *c, const op_sizes *s) {
    int64_t rows = op_expert_rows(s->batch * s->sequence);
    set_experts_attrs(c);
    c->attrs.alpha = 0.75f;
    op_in(c, OP_REAL, rows, s->in, -1, 1);
    op_in(c, OP_REAL, OP_EXPERTS * s->out, s->in, -1, 1);
    op_in(c, OP_ABSENT, 1, 0, 0, 0);
    op_in(c, OP_CONSTANT, 1, 0, 0.5, 2);
    op_in(c, OP_CONSTANT, 1, 0, 0.5, 2);
    op_in(c, OP_IDS, OP_EXPERTS + 1, 0, 0, 0);
    op_out(c, OP_REAL, rows, s->out);
}

static inline void set_moe_route(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence;
    set_experts_attrs(c);
    c->attrs.normalize = true;
    op_in(c, OP_REAL, tokens, OP_EXPERTS, -3, 3);
    op_in(c, OP_CONSTANT, OP_EXPERTS, 0, -0.1, 0.1);
    op_out(c, OP_REAL, tokens, OP_TOP_K);
    op_out(c, OP_IDS, tokens * OP_TOP_K, 0);
    op_out(c, OP_IDS, tokens * OP_TOP_K, 0);
    op_out(c, OP_IDS, op_expert_rows(tokens), 0);
    op_out(c, OP_IDS, OP_EXPERTS + 1, 0);
    op_out(c, OP_SUM, OP_EXPERTS, 0);
}

static inline void set_moe_route_softmax(op_case *c, const op_sizes *s) {
    set_moe_route(c, s);
    c->attrs.by_softmax = true;
}

static inline void set_moe_route_bare(op_case *c, const op_sizes *s) {
    set_moe_route_softmax(c, s);
    c->attrs.normalize = false;
}

/* Five groups of one expert, three of which a token may choose from. */
static inline void set_moe_route_groups(op_case *c, const op_sizes *s) {
    set_moe_route(c, s);
    c->attrs.groups = OP_EXPERTS;
    c->attrs.top_groups = 3;
}

static inline void set_moe_dispatch(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence;
    set_experts_attrs(c);
    op_in(c, OP_REAL, tokens, s->in, -2, 2);
    op_in(c, OP_IDS, op_expert_rows(tokens), 0, 0, 0);
    op_in(c, OP_IDS, tokens * OP_TOP_K, 0, 0, 0);
    op_out(c, OP_REAL, op_expert_rows(tokens), s->in);
}

static inline void set_moe_combine(op_case *c, const op_sizes *s) {
    int64_t tokens = s->batch * s->sequence;
    set_experts_attrs(c);
    op_in(c, OP_REAL, op_expert_rows(tokens), s->in, -2, 2);
    op_in(c, OP_REAL, tokens, OP_TOP_K, 0, 1);
    op_in(c, OP_IDS, tokens * OP_TOP_K, 0, 0, 0);
    op_in(c, OP_IDS, op_expert_rows(tokens), 0, 0, 0);
    op_out(c, OP_REAL, tokens, s->in);
}

/* Experts 3 and 4 have no rows, and one group of rows is nobody's. */
static inline void op_fill_offsets(op_case *c) {
    int64_t groups = c->in[0].dims[0] / OP_ALIGN - 1;
    for (int e = 0; e <= OP_EXPERTS; e++)
        c->in[5].data[e] = (double)(groups * (e < 3 ? e : 3) / 3 * OP_ALIGN);
}

/* Choice i of the tokens lies in row 5 i modulo the rows, which are a multiple of 4: so rows of
 * padding lie between those that hold one. */
static inline void op_fill_rows(op_case *c, int rows, int tokens) {
    int64_t n_rows = op_elements(&c->in[tokens]), n = op_elements(&c->in[rows]);
    for (int64_t r = 0; r < n_rows; r++)
        c->in[tokens].data[r] = -1;
    for (int64_t i = 0, r = 0; i < n; i++, r = (r + 5) % n_rows) {
        while (c->in[tokens].data[r] >= 0)
            r = (r + 1) % n_rows;
        c->in[rows].data[i] = (double)r;
        c->in[tokens].data[r] = (double)i;
    }
}

/* What says where rows are is no random number. */
static inline void op_fill_places(op_case *c) {
    if (c->op == MPT_OP_linear && c->n_in > 5)
        op_fill_offsets(c);
    if (c->op == MPT_OP_moe_route)
        c->in[1].data[3] = -10; /* nobody chooses expert 3 */
    if (c->op == MPT_OP_moe_dispatch)
        op_fill_rows(c, 2, 1);
    if (c->op == MPT_OP_moe_combine)
        op_fill_rows(c, 2, 3);
}

/* Targets reach from -1 (ignored) to the last word. */
static inline void set_cross_entropy(op_case *c, const op_sizes *s) {
    op_in(c, OP_REAL, s->batch * s->sequence, s->out, -3, 3);
    op_in(c, OP_IDS, s->batch * s->sequence, 0, -1, (double)s->out);
    op_out(c, OP_REAL, 1, 0);
}

static const op_row op_rows[] = {
    {MPT_OP_embedding, set_embedding, {{MPT_OP_embedding_grad, "i0 d0", "1", "1"}}, 1},
    {MPT_OP_linear,
     set_linear,
     {{MPT_OP_linear_dgrad, "d0 i1 - i3 i4", "0", ""},
      {MPT_OP_linear_wgrad, "d0 i0 - i3 i4", "1", "1"},
      {MPT_OP_bias_grad, "d0", "2", "2"}},
     1},
    {MPT_OP_linear,
     set_linear_experts,
     {{MPT_OP_linear_dgrad, "d0 i1 - i3 i4 i5", "0", ""},
      {MPT_OP_linear_wgrad, "d0 i0 - i3 i4 i5", "1", "1"}},
     1},
    {MPT_OP_add, set_binary, {{MPT_OP_COUNT, "d0", "0", ""}, {MPT_OP_COUNT, "d0", "1", ""}}, 1},
    {MPT_OP_mul,
     set_binary,
     {{MPT_OP_mul, "d0 i1", "0", ""}, {MPT_OP_mul, "d0 i0", "1", ""}},
     1},
    {MPT_OP_gelu, set_unary, {{MPT_OP_gelu_grad, "i0 d0", "0", ""}}, 1},
    {MPT_OP_gelu, set_unary_exact, {{MPT_OP_gelu_grad, "i0 d0", "0", ""}}, 1},
    {MPT_OP_silu, set_unary, {{MPT_OP_silu_grad, "i0 d0", "0", ""}}, 1},
    {MPT_OP_relu2, set_unary, {{MPT_OP_relu2_grad, "i0 d0", "0", ""}}, 1},
    {MPT_OP_softplus, set_unary, {{MPT_OP_softplus_grad, "i0 d0", "0", ""}}, 1},
    {MPT_OP_swiglu, set_binary, {{MPT_OP_swiglu_grad, "i0 i1 d0", "0 1", ""}}, 1},
    {MPT_OP_softmax, set_softmax, {{MPT_OP_softmax_grad, "o0 d0", "0", ""}}, 1},
    {MPT_OP_scale, set_scale, {{MPT_OP_scale, "d0", "0", ""}}, 1},
    {MPT_OP_dropout, set_dropout, {{MPT_OP_dropout, "d0", "0", ""}}, 1},
    {MPT_OP_rope, set_rope, {{MPT_OP_rope_grad, "d0", "0", ""}}, 1},
    {MPT_OP_rope, set_rope_llama3, {{MPT_OP_rope_grad, "d0", "0", ""}}, 1},
    {MPT_OP_rope, set_rope_linear, {{MPT_OP_rope_grad, "d0", "0", ""}}, 1},
    {MPT_OP_rmsnorm, set_rmsnorm, {{MPT_OP_rmsnorm_grad, "i0 i1 d0", "0 1", "1"}}, 1},
    {MPT_OP_layernorm, set_layernorm, {{MPT_OP_layernorm_grad, "i0 i1 d0", "0 1 2", "12"}}, 1},
    {MPT_OP_gated_rmsnorm,
     set_gated_rmsnorm,
     {{MPT_OP_gated_rmsnorm_grad, "i0 i1 i2 d0", "0 1 2", "2"}},
     1},
    {MPT_OP_attention,
     set_attention,
     {{MPT_OP_attention_grad, "i0 i1 i2 o0 o1 d0", "0 1 2", ""}},
     1},
    {MPT_OP_conv1d, set_conv1d, {{MPT_OP_conv1d_grad, "i0 i1 d0", "0 1 2", "12"}}, 1},
    {MPT_OP_ssm_scan,
     set_ssm_scan,
     {{MPT_OP_ssm_scan_grad, "i0 i1 i2 i3 i4 i5 i6 o1 d0", "0 1 2 3 4 5 6", "456"}},
     1},
    {MPT_OP_split, set_split, {{MPT_OP_concat, "d0 d1 d2", "0", ""}}, 3},
    {MPT_OP_concat, set_concat, {{MPT_OP_split, "d0", "0 1 2", ""}}, 1},
    {MPT_OP_moe_route, set_moe_route, {{MPT_OP_moe_route_grad, "i0 o1 d0", "0", ""}}, 1},
    {MPT_OP_moe_route,
     set_moe_route_softmax,
     {{MPT_OP_moe_route_grad, "i0 o1 d0", "0", ""}},
     1},
    {MPT_OP_moe_route, set_moe_route_bare, {{MPT_OP_moe_route_grad, "i0 o1 d0", "0", ""}}, 1},
    {MPT_OP_moe_route, set_moe_route_groups, {{MPT_OP_moe_route_grad, "i0 o1 d0", "0", ""}}, 1},
    {MPT_OP_moe_dispatch, set_moe_dispatch, {{MPT_OP_moe_dispatch_grad, "d0 i2", "0", ""}}, 1},
    {MPT_OP_moe_combine,
     set_moe_combine,
     {{MPT_OP_moe_combine_grad, "i0 i1 i2 i3 d0", "0 1", ""}},
     1},
    {MPT_OP_cross_entropy,
     set_cross_entropy,
     {{MPT_OP_cross_entropy_grad, "i0 i1", "0", ""}},
     1},
};

/* The forward case of a row, filled; the loss seed is the one of a mean over valid targets. */
static inline op_case op_forward(const op_row *row, const op_sizes *sizes, uint64_t seed) {
    op_case c = {.op = row->op};
    c.attrs.batch = sizes->batch;
    c.attrs.sequence = sizes->sequence;
    row->set(&c, sizes);
    op_fill(&c, seed);
    op_fill_places(&c);
    if (row->op == MPT_OP_cross_entropy) {
        int64_t n = 0;
        for (int64_t t = 0; t < op_elements(&c.in[1]); t++)
            n += c.in[1].data[t] >= 0;
        c.env.loss_seed = 1.0f / (float)n;
    }
    return c;
}

static inline op_tensor op_tensor_copy(const op_tensor *from) {
    op_tensor t = *from;
    t.data = op_calloc((size_t)op_elements(from), sizeof(double));
    memcpy(t.data, from->data, (size_t)op_elements(from) * sizeof(double));
    return t;
}

/* Gradients of the forward outputs, random. */
static inline void op_fill_dy(const op_row *row, const op_case *forward, op_tensor *dy) {
    for (int i = 0; i < row->n_free_out; i++) {
        dy[i] = forward->out[i];
        dy[i].lo = -1, dy[i].hi = 1;
        op_fill_tensor(&dy[i], 77 + (uint64_t)i);
    }
}

/* The case of one gradient node: inputs are copies of what the forward case holds. */
static inline op_case op_backward(const op_row *row, const op_gradient *g,
                                  const op_case *forward, const op_tensor *dy) {
    op_case c = {.op = g->op, .attrs = forward->attrs, .env = forward->env};
    (void)row;
    for (const char *at = g->in; *at; at++) {
        op_tensor t = {0};
        if (*at == ' ')
            continue;
        if (*at == 'i')
            t = op_tensor_copy(&forward->in[*++at - '0']);
        else if (*at == 'o')
            t = op_tensor_copy(&forward->out[*++at - '0']);
        else if (*at == 'd')
            t = op_tensor_copy(&dy[*++at - '0']);
        c.in[c.n_in++] = t;
    }
    for (const char *at = g->out; *at; at++) {
        if (*at == ' ')
            continue;
        op_tensor t = forward->in[*at - '0'];
        t.kind = strchr(g->sums, *at) ? OP_SUM : OP_REAL;
        op_fill_tensor(&t, 0);
        c.out[c.n_out++] = t;
    }
    return c;
}

#endif
