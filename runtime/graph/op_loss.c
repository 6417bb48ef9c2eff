/* cross_entropy: mean over targets of the negative log-probability, and its gradient.
 *
 * Reads no attribute. It ends the forward graph, so its backward starts the other half: the
 * seed (loss scale over the step's targets) comes from the run's environment, and dy is not
 * read. */
#include "graph/op.h"

static mpt_status expect_inputs(const mpt_graph *graph, const mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "logits", MPT_ANY, MPT_ANY));
    return mpt_op_expect_ids(graph, node, 1, "targets", mpt_op_in(graph, node, 0)->dims[0]);
}

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    mpt_value loss = {.name = "loss", .kind = MPT_VALUE_STATUS, .rank = 1, .dims = {1}};
    return mpt_op_output(graph, node, 0, &loss);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    (void)dy;
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_cross_entropy_grad);
    grad.in[0] = n.in[0];
    grad.in[1] = n.in[1];
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    return mpt_op_output_grad(graph, node, 0, 0);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){11 * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_cross_entropy = {infer, backward, cost};
const mpt_op_def mpt_op_cross_entropy_grad = {grad_infer, NULL, cost};
