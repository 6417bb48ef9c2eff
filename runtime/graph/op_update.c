/* zero, grad_reduce, unscale, grad_norm, finite_check, global_norm, clip_factor, adamw, sgd,
 * quantize_state: the optimizer's step, as nodes.
 *
 * graph/update.c appends them. They write state in place: what a node writes is also given as
 * its output. Attributes: grad_reduce reads reduce; grad_norm row_index; clip_factor clip (0:
 * none); adamw beta1, beta2, eps, weight_decay; sgd momentum and weight_decay; both
 * kept_later; quantize_state row and row_operand. Loss scale, step size and bias corrections
 * come from the run's environment, because they change from step to step. */
#include "graph/op.h"

static mpt_cost cost_of(const mpt_graph *graph, const mpt_node *node, double flops) {
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

/* ---- zero ---- */

static mpt_status zero_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "gradient"));
    return mpt_op_output_in_place(graph, node);
}

static mpt_cost zero_cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){0, mpt_op_in_elements(graph, node, 0) * sizeof(float)};
}

const mpt_op_def mpt_op_zero = {zero_infer, NULL, zero_cost};

/* ---- what ranks send ---- */

/* Of one rank: a gradient that is sent as it is takes no time. */
static mpt_cost grad_reduce_cost(const mpt_graph *graph, const mpt_node *node) {
    bool rounds = node->attrs.reduce != MPT_DTYPE_FP32;
    return (mpt_cost){0, rounds ? mpt_op_bytes(graph, node) : 0};
}

const mpt_op_def mpt_op_grad_reduce = {zero_infer, NULL, grad_reduce_cost};

/* ---- norms ---- */

/* The norms are one value [parameters, 2] that all grad_norm nodes share. */
static mpt_status grad_norm_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "gradient"));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "unscale", 1));
    if (node->out[0] < 0)
        return MPT_OP_FAIL(graph, node, "the norms must be given as output");
    const mpt_value *norms = &graph->values[node->out[0]];
    if (node->attrs.row_index < 0 || node->attrs.row_index >= norms->dims[0])
        return MPT_OP_FAIL(graph, node, "row %d of the norms, which have %lld",
                           node->attrs.row_index, (long long)norms->dims[0]);
    mpt_value like = {.rank = 2, .dims = {norms->dims[0], 2}};
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_cost grad_norm_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, 2);
}

/* ---- the numbers of the whole step ---- */

/* Output 0 is one number that the trainer may read. */
static mpt_status one_number(mpt_graph *graph, mpt_node *node, mpt_dtype dtype) {
    mpt_value one = {.kind = MPT_VALUE_STATUS, .dtype = dtype, .rank = 1, .dims = {1}};
    return mpt_op_output(graph, node, 0, &one);
}

static mpt_status unscale_infer(mpt_graph *graph, mpt_node *node) {
    return one_number(graph, node, MPT_DTYPE_FP32);
}

static mpt_status finite_check_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "norms", MPT_ANY, 2));
    return one_number(graph, node, MPT_DTYPE_I32);
}

static mpt_status global_norm_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "norms", MPT_ANY, 2));
    return one_number(graph, node, MPT_DTYPE_FP32);
}

static mpt_status clip_factor_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect1(graph, node, 0, "norm", 1));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "unscale", 1));
    MPT_TRY(mpt_op_expect_ids(graph, node, 2, "first bad row", 1));
    return one_number(graph, node, MPT_DTYPE_FP32);
}

const mpt_op_def mpt_op_unscale = {unscale_infer, NULL, NULL};
const mpt_op_def mpt_op_grad_norm = {grad_norm_infer, NULL, grad_norm_cost};
const mpt_op_def mpt_op_finite_check = {finite_check_infer, NULL, NULL};
const mpt_op_def mpt_op_global_norm = {global_norm_infer, NULL, NULL};
const mpt_op_def mpt_op_clip_factor = {clip_factor_infer, NULL, NULL};

/* ---- optimizers ---- */

static mpt_status adamw_infer(mpt_graph *graph, mpt_node *node) {
    static const char *const names[] = {"weights", "gradient", "m", "v"};
    MPT_TRY(mpt_op_expect(graph, node, 0, names[0]));
    for (int i = 1; i < 4; i++)
        MPT_TRY(mpt_op_expect_like(graph, node, i, names[i], mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_expect1(graph, node, 4, "factor", 1));
    return mpt_op_output_in_place(graph, node);
}

static mpt_status sgd_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "weights"));
    const mpt_value *weights = mpt_op_in(graph, node, 0);
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "gradient", weights));
    if (node->in[2] >= 0)
        MPT_TRY(mpt_op_expect_like(graph, node, 2, "momentum", weights));
    MPT_TRY(mpt_op_expect1(graph, node, 3, "factor", 1));
    return mpt_op_output_in_place(graph, node);
}

static mpt_status quantize_state_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "state"));
    MPT_TRY(mpt_op_expect1(graph, node, 1, "factor", 1));
    return mpt_op_output_in_place(graph, node);
}

static mpt_cost quantize_state_cost(const mpt_graph *graph, const mpt_node *node) {
    return cost_of(graph, node, 2);
}

const mpt_op_def mpt_op_quantize_state = {quantize_state_infer, NULL, quantize_state_cost};

/* The moments are written too, though they are listed as inputs only. */
static mpt_cost optimizer_cost(const mpt_graph *graph, const mpt_node *node) {
    bool adamw = node->op == MPT_OP_adamw;
    mpt_cost cost = cost_of(graph, node, adamw ? 14 : 5);
    for (int i = 2; i < (adamw ? 4 : 3); i++)
        if (node->in[i] >= 0)
            cost.bytes += mpt_op_in_elements(graph, node, i) *
                          mpt_dtype_bits(graph->values[node->in[i]].dtype) / 8;
    return cost;
}

const mpt_op_def mpt_op_adamw = {adamw_infer, NULL, optimizer_cost};
const mpt_op_def mpt_op_sgd = {sgd_infer, NULL, optimizer_cost};
