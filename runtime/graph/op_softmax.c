/* softmax of each row, and its gradient: dx = y (dy - sum of dy y). Backward keeps y alone.
 *
 * Attention has a softmax of its own, which never leaves it. */
#include "graph/op.h"

enum { FLOPS_SOFTMAX = 11, FLOPS_SOFTMAX_GRAD = 4 };

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    const mpt_value *x = mpt_op_in(graph, node, 0);
    mpt_value y = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
    return mpt_op_output(graph, node, 0, &y);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_softmax_grad);
    grad.in[0] = n.out[0];
    grad.in[1] = dy[0];
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "y", MPT_ANY, MPT_ANY));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "dy", mpt_op_in(graph, node, 0)));
    return mpt_op_output_grad(graph, node, 0, 0);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    double flops = node->op == MPT_OP_softmax ? FLOPS_SOFTMAX : FLOPS_SOFTMAX_GRAD;
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_softmax = {infer, backward, cost};
const mpt_op_def mpt_op_softmax_grad = {grad_infer, NULL, cost};
