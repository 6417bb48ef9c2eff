/* ssm_scan: the selective state-space scan of Mamba-2, and its gradient.
 *
 * Per head h of group g = h / (heads / groups), with delta = softplus(dt + dt_bias) and
 * A = -exp(A_log):  S = exp(delta A) S + delta x B^T,  y = S C + D x  (Dao and Gu, arXiv
 * 2405.21060). Attributes: heads, head_dim (0: from x), groups (0 reads as 1), state (0: from
 * B), batch and sequence (0: the graph's), sizes[0]: tokens a chunk (0: 64). The second output
 * holds the state that enters each chunk, [batch * chunks, heads * head_dim * state]: from
 * there backward recomputes a chunk, so no state within chunks is kept. Any sequence length
 * will do; the last chunk may be short. */
#include "graph/op.h"

enum { DEFAULT_CHUNK = 64 };

enum { IN_X, IN_B, IN_C, IN_DT, IN_A_LOG, IN_D, IN_DT_BIAS, IN_STATES, IN_DY };

static mpt_status fill_attrs(const mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    const mpt_value *x = mpt_op_in(graph, node, IN_X), *b = mpt_op_in(graph, node, IN_B);
    if (a->groups == 0)
        a->groups = 1;
    if (a->heads < 1 || a->groups < 1 || a->heads % a->groups)
        return MPT_OP_FAIL(graph, node, "%d heads do not divide into %d groups", a->heads,
                           a->groups);
    if (a->head_dim == 0)
        a->head_dim = (int32_t)(x->dims[1] / a->heads);
    if (a->state == 0)
        a->state = (int32_t)(b->dims[1] / a->groups);
    if (a->n_sizes == 0) {
        a->n_sizes = 1;
        a->sizes[0] = DEFAULT_CHUNK;
    }
    if (a->sizes[0] < 1)
        return MPT_OP_FAIL(graph, node, "a chunk of %lld tokens, expected at least 1",
                           (long long)a->sizes[0]);
    return mpt_op_expect_sequences(graph, node, x->dims[0]);
}

/* The seven inputs that forward and backward share. */
static mpt_status expect_inputs(const mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, IN_X, "x", MPT_ANY, MPT_ANY));
    int64_t tokens = mpt_op_in(graph, node, IN_X)->dims[0];
    MPT_TRY(mpt_op_expect2(graph, node, IN_B, "B", tokens, MPT_ANY));
    MPT_TRY(fill_attrs(graph, node));
    const mpt_attrs *a = &node->attrs;
    int64_t bc = (int64_t)a->groups * a->state;
    MPT_TRY(mpt_op_expect2(graph, node, IN_X, "x", tokens, (int64_t)a->heads * a->head_dim));
    MPT_TRY(mpt_op_expect2(graph, node, IN_B, "B", tokens, bc));
    MPT_TRY(mpt_op_expect2(graph, node, IN_C, "C", tokens, bc));
    MPT_TRY(mpt_op_expect2(graph, node, IN_DT, "dt", tokens, a->heads));
    MPT_TRY(mpt_op_expect1(graph, node, IN_A_LOG, "A_log", a->heads));
    MPT_TRY(mpt_op_expect1(graph, node, IN_D, "D", a->heads));
    return mpt_op_expect1(graph, node, IN_DT_BIAS, "dt_bias", a->heads);
}

static mpt_value states_shape(const mpt_attrs *a) {
    int64_t chunks = (a->sequence + a->sizes[0] - 1) / a->sizes[0];
    return (mpt_value){.name = "states",
                       .rank = 2,
                       .dims = {a->batch * chunks, (int64_t)a->heads * a->head_dim * a->state}};
}

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    const mpt_value *x = mpt_op_in(graph, node, IN_X);
    mpt_value y = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
    mpt_value states = states_shape(&node->attrs);
    MPT_TRY(mpt_op_output(graph, node, 0, &y));
    return mpt_op_output(graph, node, 1, &states);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_ssm_scan_grad);
    for (int i = 0; i < IN_STATES; i++)
        grad.in[i] = n.in[i];
    grad.in[IN_STATES] = n.out[1];
    grad.in[IN_DY] = dy[0];
    for (int i = IN_A_LOG; i <= IN_DT_BIAS; i++)
        MPT_TRY(mpt_op_param_grad(graph, &n, i, &grad.out[i]));
    return mpt_op_append_grad(graph, &n, &grad, 4, (const int[]){IN_X, IN_B, IN_C, IN_DT}, dx);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    mpt_value states = states_shape(&node->attrs);
    MPT_TRY(mpt_op_expect_like(graph, node, IN_STATES, "states", &states));
    MPT_TRY(mpt_op_expect_like(graph, node, IN_DY, "dy", mpt_op_in(graph, node, IN_X)));
    for (int i = IN_X; i <= IN_DT; i++)
        MPT_TRY(mpt_op_output_grad(graph, node, i, i));
    for (int i = IN_A_LOG; i <= IN_DT_BIAS; i++)
        MPT_TRY(mpt_op_output_sum(graph, node, i, i));
    return MPT_OK;
}

/* The sequential form: decay, update and read of each state number, 6 operations; backward
 * rebuilds them and goes through them once more, about 16. */
static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    double numbers = mpt_op_in_elements(graph, node, IN_X) * node->attrs.state;
    return (mpt_cost){numbers * (node->op == MPT_OP_ssm_scan ? 6 : 16),
                      mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_ssm_scan = {infer, backward, cost};
const mpt_op_def mpt_op_ssm_scan_grad = {grad_infer, NULL, cost};
