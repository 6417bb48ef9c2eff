/* add, mul, scale, gelu, silu, relu2, softplus, swiglu and their gradients: number by number.
 *
 * add's gradient is dy itself, so it appends nothing; mul's is two more mul nodes, scale's one
 * more scale. Attributes: gelu and gelu_grad read exact (erf instead of tanh), scale reads
 * scale, its factor. */
#include "graph/op.h"

#include <math.h>

/* Operations an element, counting exp, log, tanh and erf as 8: enough to rank the ops of a
 * plan.
 */
enum {
    FLOPS_PLAIN = 1,
    FLOPS_RELU2 = 2,
    FLOPS_SIGMOID = 10,
    FLOPS_SWIGLU = 11,
    FLOPS_GELU = 14,
    FLOPS_SOFTPLUS = 18
};

static mpt_cost cost_of(const mpt_graph *graph, const mpt_node *node, double flops) {
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

static mpt_value shape_of(const mpt_graph *graph, const mpt_node *node) {
    mpt_value like = graph->values[node->in[0]];
    like.name = NULL;
    like.kind = MPT_VALUE_ACTIVATION;
    like.dtype = MPT_DTYPE_FP32;
    return like;
}

/* ---- two inputs ---- */

static mpt_status binary_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "a"));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "b", mpt_op_in(graph, node, 0)));
    mpt_value like = shape_of(graph, node);
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_status add_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                               mpt_value_id *dx) {
    const mpt_node *n = &graph->nodes[index];
    for (int i = 0; i < 2; i++)
        if (mpt_op_wants(graph, n, i))
            dx[i] = dy[0];
    return MPT_OK;
}

static mpt_status mul_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                               mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    for (int i = 0; i < 2; i++) {
        if (!mpt_op_wants(graph, &n, i))
            continue;
        mpt_node grad = mpt_op_grad_node(&n, MPT_OP_mul);
        grad.in[0] = dy[0];
        grad.in[1] = n.in[1 - i];
        MPT_TRY(mpt_op_name_grad(graph, &n, i, &grad.out[0]));
        MPT_TRY(mpt_op_append_grad(graph, &n, &grad, 1, &i, dx));
    }
    return MPT_OK;
}

static mpt_cost plain_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_PLAIN);
}

const mpt_op_def mpt_op_add = {binary_infer, add_backward, plain_cost};
const mpt_op_def mpt_op_mul = {binary_infer, mul_backward, plain_cost};

/* ---- one input ---- */

static mpt_status unary_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "x"));
    mpt_value like = shape_of(graph, node);
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "x"));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "dy", mpt_op_in(graph, node, 0)));
    return mpt_op_output_grad(graph, node, 0, 0);
}

/* The activations keep x: it is what their derivative is a function of. */
static mpt_status unary_backward(mpt_graph *graph, int index, mpt_op op, mpt_value_id dy,
                                 mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, op);
    grad.in[0] = n.in[0];
    grad.in[1] = dy;
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status gelu_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                mpt_value_id *dx) {
    return unary_backward(graph, index, MPT_OP_gelu_grad, dy[0], dx);
}

static mpt_status silu_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                mpt_value_id *dx) {
    return unary_backward(graph, index, MPT_OP_silu_grad, dy[0], dx);
}

static mpt_status relu2_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                 mpt_value_id *dx) {
    return unary_backward(graph, index, MPT_OP_relu2_grad, dy[0], dx);
}

static mpt_cost gelu_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_GELU);
}

static mpt_cost silu_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_SIGMOID);
}

static mpt_cost relu2_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_RELU2);
}

const mpt_op_def mpt_op_gelu = {unary_infer, gelu_backward, gelu_cost};
const mpt_op_def mpt_op_silu = {unary_infer, silu_backward, silu_cost};
const mpt_op_def mpt_op_relu2 = {unary_infer, relu2_backward, relu2_cost};
const mpt_op_def mpt_op_gelu_grad = {grad_infer, NULL, gelu_cost};
const mpt_op_def mpt_op_silu_grad = {grad_infer, NULL, silu_cost};
const mpt_op_def mpt_op_relu2_grad = {grad_infer, NULL, relu2_cost};

static mpt_status softplus_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                    mpt_value_id *dx) {
    return unary_backward(graph, index, MPT_OP_softplus_grad, dy[0], dx);
}

static mpt_cost softplus_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_SOFTPLUS);
}

const mpt_op_def mpt_op_softplus = {unary_infer, softplus_backward, softplus_cost};
const mpt_op_def mpt_op_softplus_grad = {grad_infer, NULL, silu_cost};

/* ---- scale ---- */

static mpt_status scale_infer(mpt_graph *graph, mpt_node *node) {
    double factor = (double)node->attrs.scale;
    if (!isfinite(factor) || factor == 0)
        return MPT_OP_FAIL(graph, node, "factor is %g, expected a number other than 0", factor);
    return unary_infer(graph, node);
}

static mpt_status scale_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                 mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_scale);
    grad.in[0] = dy[0];
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

const mpt_op_def mpt_op_scale = {scale_infer, scale_backward, plain_cost};

/* ---- swiglu ---- */

static mpt_status swiglu_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "gate"));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "up", mpt_op_in(graph, node, 0)));
    mpt_value like = shape_of(graph, node);
    return mpt_op_output(graph, node, 0, &like);
}

/* Both inputs are kept: each is what the other's gradient is a function of. */
static mpt_status swiglu_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                  mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0) && !mpt_op_wants(graph, &n, 1))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_swiglu_grad);
    grad.in[0] = n.in[0];
    grad.in[1] = n.in[1];
    grad.in[2] = dy[0];
    return mpt_op_append_grad(graph, &n, &grad, 2, (const int[]){0, 1}, dx);
}

static mpt_status swiglu_grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "gate"));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "up", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_expect_like(graph, node, 2, "dy", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_output_grad(graph, node, 0, 0));
    return mpt_op_output_grad(graph, node, 1, 1);
}

static mpt_cost swiglu_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, FLOPS_SWIGLU);
}

const mpt_op_def mpt_op_swiglu = {swiglu_infer, swiglu_backward, swiglu_cost};
const mpt_op_def mpt_op_swiglu_grad = {swiglu_grad_infer, NULL, swiglu_cost};
