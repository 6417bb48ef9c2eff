/* conv1d: depthwise causal convolution along each sequence, and its gradient.
 *
 * y[t][c] = b[c] + sum over k of w[c][k] x[t - kernel + 1 + k][c], zero before the start: the
 * last tap multiplies the current step. The weight is [channels, 1, kernel] as in checkpoints,
 * or [channels, kernel], which is the same memory. Attributes: kernel (0: from the weight),
 * batch and sequence (0: the graph's). */
#include "graph/op.h"

/* Checks x and weight, which forward and backward share. */
static mpt_status expect_inputs(const mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    MPT_TRY(mpt_op_expect(graph, node, 1, "weight"));
    const mpt_value *x = mpt_op_in(graph, node, 0), *w = mpt_op_in(graph, node, 1);
    int64_t taps = w->dims[w->rank - 1];
    mpt_value want = {.rank = 3, .dims = {x->dims[1], 1, taps}};
    if (w->rank == 2)
        want = (mpt_value){.rank = 2, .dims = {x->dims[1], taps}};
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "weight", &want));
    if (node->attrs.kernel == 0 && taps <= INT32_MAX)
        node->attrs.kernel = (int32_t)taps;
    if (node->attrs.kernel != taps)
        return MPT_OP_FAIL(graph, node, "kernel is %d, but the weight has %lld taps",
                           node->attrs.kernel, (long long)taps);
    return mpt_op_expect_sequences(graph, node, x->dims[0]);
}

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    const mpt_value *x = mpt_op_in(graph, node, 0);
    mpt_value y = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
    if (node->in[2] >= 0)
        MPT_TRY(mpt_op_expect1(graph, node, 2, "bias", x->dims[1]));
    return mpt_op_output(graph, node, 0, &y);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    return mpt_op_backward_weighted(graph, index, MPT_OP_conv1d_grad, dy, dx);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_inputs(graph, node));
    const mpt_value *x = mpt_op_in(graph, node, 0);
    int64_t channels = x->dims[1];
    MPT_TRY(mpt_op_expect_like(graph, node, 2, "dy", x));
    MPT_TRY(mpt_op_output_grad(graph, node, 0, 0));
    MPT_TRY(mpt_op_output_sum(graph, node, 1, 1));
    if (node->out[2] < 0)
        return MPT_OK;
    mpt_value db = {.kind = MPT_VALUE_GRAD, .rank = 1, .dims = {channels}};
    return mpt_op_output(graph, node, 2, &db);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    double flops = 2.0 * node->attrs.kernel * mpt_op_in_elements(graph, node, 0);
    return (mpt_cost){flops * (node->op == MPT_OP_conv1d ? 1 : 2), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_conv1d = {infer, backward, cost};
const mpt_op_def mpt_op_conv1d_grad = {grad_infer, NULL, cost};
