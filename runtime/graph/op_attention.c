/* attention: causal scaled dot product with grouped queries, and its gradient.
 *
 * Attributes: heads, kv_heads (0 reads as heads), head_dim (0: from q), scale (0 reads as
 * 1/sqrt(head_dim)), batch and sequence (0: the graph's). Query head h reads key and value head
 * h / (heads / kv_heads). The second output, the logarithm of each row's sum of exponentials
 * (of the scaled products), is what lets backward rebuild the probabilities without keeping
 * them. */
#include "graph/op.h"

#include <math.h>

/* Fills the attributes in and checks q, k and v against them. */
static mpt_status expect_heads(const mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "q", MPT_ANY, MPT_ANY));
    const mpt_value *q = mpt_op_in(graph, node, 0);
    if (a->kv_heads == 0)
        a->kv_heads = a->heads;
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return MPT_OP_FAIL(graph, node, "%d heads cannot share %d key heads evenly", a->heads,
                           a->kv_heads);
    if (q->dims[1] % a->heads)
        return MPT_OP_FAIL(graph, node,
                           "input 'q' (%s) has %lld columns, no multiple of %d "
                           "heads",
                           q->name, (long long)q->dims[1], a->heads);
    if (a->head_dim == 0)
        a->head_dim = (int32_t)(q->dims[1] / a->heads);
    if (a->scale == 0)
        a->scale = 1.0f / sqrtf((float)a->head_dim);
    int64_t width = (int64_t)a->heads * a->head_dim;
    int64_t kv_width = (int64_t)a->kv_heads * a->head_dim;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "q", MPT_ANY, width));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "k", q->dims[0], kv_width));
    MPT_TRY(mpt_op_expect2(graph, node, 2, "v", q->dims[0], kv_width));
    return mpt_op_expect_sequences(graph, node, q->dims[0]);
}

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_heads(graph, node));
    const mpt_attrs *a = &node->attrs;
    int64_t tokens = mpt_op_in(graph, node, 0)->dims[0];
    mpt_value o = {.rank = 2, .dims = {tokens, (int64_t)a->heads * a->head_dim}};
    mpt_value lse = {.name = "lse", .rank = 2, .dims = {tokens, a->heads}};
    MPT_TRY(mpt_op_output(graph, node, 0, &o));
    return mpt_op_output(graph, node, 1, &lse);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_attention_grad);
    for (int i = 0; i < 3; i++)
        grad.in[i] = n.in[i];
    grad.in[3] = n.out[0];
    grad.in[4] = n.out[1];
    grad.in[5] = dy[0];
    return mpt_op_append_grad(graph, &n, &grad, 3, (const int[]){0, 1, 2}, dx);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_heads(graph, node));
    const mpt_value *q = mpt_op_in(graph, node, 0);
    MPT_TRY(mpt_op_expect_like(graph, node, 3, "o", q));
    MPT_TRY(mpt_op_expect2(graph, node, 4, "lse", q->dims[0], node->attrs.heads));
    MPT_TRY(mpt_op_expect_like(graph, node, 5, "do", q));
    for (int i = 0; i < 3; i++)
        MPT_TRY(mpt_op_output_grad(graph, node, i, i));
    return MPT_OK;
}

/* Two products forward, five backward (one rebuilds the probabilities), each over the pairs
 * that causality leaves. */
static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    double pairs = (double)a->batch * (double)a->sequence * ((double)a->sequence + 1) / 2;
    double product = 2 * pairs * a->heads * a->head_dim;
    return (mpt_cost){product * (node->op == MPT_OP_attention ? 2 : 5),
                      mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_attention = {infer, backward, cost};
const mpt_op_def mpt_op_attention_grad = {grad_infer, NULL, cost};
