/* rmsnorm, layernorm, gated_rmsnorm and their gradients: a row scaled to unit size.
 *
 * Attributes: eps (0 reads as 1e-5); gated_rmsnorm also groups (0 reads as 1), the slices of a
 * row that are normalised on their own. No statistics are kept for backward: they are one pass
 * over x, cheaper than the memory. */
#include "graph/op.h"

static const float DEFAULT_EPS = 1e-5f;

/* x [tokens, width], with its eps filled in and checked; gives the width. */
static mpt_status expect_x(const mpt_graph *graph, mpt_node *node, int64_t *out_width) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    if (node->attrs.eps == 0)
        node->attrs.eps = DEFAULT_EPS;
    if (!(node->attrs.eps > 0 && node->attrs.eps < 1))
        return MPT_OP_FAIL(graph, node, "eps is %g, expected a number between 0 and 1",
                           (double)node->attrs.eps);
    *out_width = mpt_op_in(graph, node, 0)->dims[1];
    return MPT_OK;
}

static mpt_status output_like_x(mpt_graph *graph, mpt_node *node) {
    const mpt_value *x = mpt_op_in(graph, node, 0);
    mpt_value like = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_cost norm_cost(const mpt_graph *graph, const mpt_node *node) {
    double flops = node->op == MPT_OP_gated_rmsnorm ? 15 : 5;
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

static mpt_cost norm_grad_cost(const mpt_graph *graph, const mpt_node *node) {
    double flops = node->op == MPT_OP_gated_rmsnorm_grad ? 30 : 11;
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

/* ---- rmsnorm: y = w x / sqrt(mean(x^2) + eps) ---- */

static mpt_status rmsnorm_infer(mpt_graph *graph, mpt_node *node) {
    int64_t width;
    MPT_TRY(expect_x(graph, node, &width));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "weight", width));
    return output_like_x(graph, node);
}

static mpt_status rmsnorm_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                   mpt_value_id *dx) {
    return mpt_op_backward_weighted(graph, index, MPT_OP_rmsnorm_grad, dy, dx);
}

static mpt_status rmsnorm_grad_infer(mpt_graph *graph, mpt_node *node) {
    int64_t width;
    MPT_TRY(expect_x(graph, node, &width));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "weight", width));
    MPT_TRY(mpt_op_expect_like(graph, node, 2, "dy", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_output_grad(graph, node, 0, 0));
    return mpt_op_output_sum(graph, node, 1, 1);
}

const mpt_op_def mpt_op_rmsnorm = {rmsnorm_infer, rmsnorm_backward, norm_cost};
const mpt_op_def mpt_op_rmsnorm_grad = {rmsnorm_grad_infer, NULL, norm_grad_cost};

/* ---- layernorm: y = w (x - mean) / sqrt(var + eps) + b ---- */

static mpt_status layernorm_infer(mpt_graph *graph, mpt_node *node) {
    int64_t width;
    MPT_TRY(expect_x(graph, node, &width));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "weight", width));
    if (node->in[2] >= 0)
        MPT_TRY(mpt_op_expect1(graph, node, 2, "bias", width));
    return output_like_x(graph, node);
}

static mpt_status layernorm_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                     mpt_value_id *dx) {
    return mpt_op_backward_weighted(graph, index, MPT_OP_layernorm_grad, dy, dx);
}

static mpt_status layernorm_grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(rmsnorm_grad_infer(graph, node));
    /* The bias has weight's shape; without one there is no third output. */
    return node->out[2] < 0 ? MPT_OK : mpt_op_output_sum(graph, node, 2, 1);
}

const mpt_op_def mpt_op_layernorm = {layernorm_infer, layernorm_backward, norm_cost};
const mpt_op_def mpt_op_layernorm_grad = {layernorm_grad_infer, NULL, norm_grad_cost};

/* ---- gated_rmsnorm: v = x silu(z), then rmsnorm of each group of v ---- */

/* Checks x, z, weight and groups, which forward and backward share. */
static mpt_status expect_gated(const mpt_graph *graph, mpt_node *node) {
    int64_t width;
    MPT_TRY(expect_x(graph, node, &width));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "z", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_expect1(graph, node, 2, "weight", width));
    if (node->attrs.groups == 0)
        node->attrs.groups = 1;
    if (node->attrs.groups < 0 || width % node->attrs.groups)
        return MPT_OP_FAIL(graph, node, "width %lld does not divide into %d groups",
                           (long long)width, node->attrs.groups);
    return MPT_OK;
}

static mpt_status gated_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_gated(graph, node));
    return output_like_x(graph, node);
}

static mpt_status gated_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                 mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_gated_rmsnorm_grad);
    for (int i = 0; i < 3; i++)
        grad.in[i] = n.in[i];
    grad.in[3] = dy[0];
    MPT_TRY(mpt_op_param_grad(graph, &n, 2, &grad.out[2]));
    return mpt_op_append_grad(graph, &n, &grad, 2, (const int[]){0, 1}, dx);
}

static mpt_status gated_grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(expect_gated(graph, node));
    MPT_TRY(mpt_op_expect_like(graph, node, 3, "dy", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_output_grad(graph, node, 0, 0));
    MPT_TRY(mpt_op_output_grad(graph, node, 1, 1));
    return mpt_op_output_sum(graph, node, 2, 2);
}

const mpt_op_def mpt_op_gated_rmsnorm = {gated_infer, gated_backward, norm_cost};
const mpt_op_def mpt_op_gated_rmsnorm_grad = {gated_grad_infer, NULL, norm_grad_cost};
