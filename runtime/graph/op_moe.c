/* moe_route, moe_dispatch, moe_combine: which experts a token goes to, its rows by expert, and
 * the weighted sum of what they give; moe_balance, the bias that evens their load.
 *
 * Attributes: experts, top_k, align; moe_route also groups, top_groups, by_softmax, normalize,
 * scale; moe_balance rate. Rows of experts lie in one buffer, sorted by expert, each expert's
 * from a multiple of align on; rows beside them are padding, zero. The buffer has room for any
 * choice, so shapes are static and no token is dropped: runtime/adr/0013-experts.md.
 *
 * What says where rows are is i32: experts [T k] of the choices of each token in turn; rows of
 * tokens [T k], the row of each choice; tokens of rows [R], the choice that a row holds, -1 in
 * padding; offsets [E + 1], the first row of each expert and the end of the last. The load, one
 * count an expert, is the gradient value of the choice's bias: a forward node adds to it. */
#include "graph/op.h"

enum { MOST_ROWS = INT32_MAX };

/* ---- moe_route ---- */

/* Rows that the choices of T tokens fill at most: each expert that has any may leave all but
 * one row of a group of `align` empty. */
static int64_t most_rows(int64_t tokens, const mpt_attrs *a) {
    int64_t choices = tokens * a->top_k;
    int64_t used = a->experts < choices ? a->experts : choices;
    return (choices + used * (a->align - 1)) / a->align * a->align;
}

static mpt_status check_groups(const mpt_graph *graph, const mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    if (a->groups < 1 || a->experts % a->groups != 0)
        return MPT_OP_FAIL(graph, node, "%d experts do not divide into %d groups", a->experts,
                           a->groups);
    if (a->top_groups < 1 || a->top_groups > a->groups)
        return MPT_OP_FAIL(graph, node, "top_groups is %d, expected 1 to %d", a->top_groups,
                           a->groups);
    int32_t eligible = a->experts / a->groups * a->top_groups;
    if (a->top_k < 1 || a->top_k > eligible)
        return MPT_OP_FAIL(graph, node, "top_k is %d, but a token can choose among %d experts",
                           a->top_k, eligible);
    return MPT_OK;
}

/* Fills in what was left out. */
static mpt_status check_route(const mpt_graph *graph, mpt_node *node, int64_t tokens) {
    mpt_attrs *a = &node->attrs;
    a->groups = a->groups ? a->groups : 1;
    a->top_groups = a->top_groups ? a->top_groups : a->groups;
    a->align = a->align ? a->align : 32;
    a->scale = a->scale != 0 ? a->scale : 1;
    if (a->align < 1 || a->align > 4096)
        return MPT_OP_FAIL(graph, node, "align is %d, expected 1 to 4096", a->align);
    MPT_TRY(check_groups(graph, node));
    if (tokens > MOST_ROWS / a->top_k || most_rows(tokens, a) > MOST_ROWS)
        return MPT_OP_FAIL(graph, node, "%lld tokens, %d experts each, are too many rows",
                           (long long)tokens, a->top_k);
    return MPT_OK;
}

static mpt_status route_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "logits", MPT_ANY, MPT_ANY));
    const mpt_value *logits = mpt_op_in(graph, node, 0);
    int64_t tokens = logits->dims[0], experts = logits->dims[1];
    if (experts > INT16_MAX)
        return MPT_OP_FAIL(graph, node, "%lld experts are too many", (long long)experts);
    node->attrs.experts = (int32_t)experts;
    if (node->in[1] >= 0)
        MPT_TRY(mpt_op_expect1(graph, node, 1, "bias", experts));
    MPT_TRY(check_route(graph, node, tokens));
    int64_t k = node->attrs.top_k, rows = most_rows(tokens, &node->attrs);
    const mpt_value out[] = {
        {.name = "weights", .rank = 2, .dims = {tokens, k}},
        {.name = "experts", .dtype = MPT_DTYPE_I32, .rank = 1, .dims = {tokens * k}},
        {.name = "rows", .dtype = MPT_DTYPE_I32, .rank = 1, .dims = {tokens * k}},
        {.name = "tokens", .dtype = MPT_DTYPE_I32, .rank = 1, .dims = {rows}},
        {.name = "offsets", .dtype = MPT_DTYPE_I32, .rank = 1, .dims = {experts + 1}},
        {.name = "load", .kind = MPT_VALUE_GRAD, .rank = 1, .dims = {experts}}};
    int n = (int)MPT_COUNT(out) - (node->out[5] < 0); /* the load is given or absent */
    for (int i = 0; i < n; i++)
        MPT_TRY(mpt_op_output(graph, node, i, &out[i]));
    return MPT_OK;
}

/* The bias is no part of the weights, so that no gradient leads to it. What stands in for its
 * gradient is the load, which only a graph that trains has. */
static mpt_status route_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                 mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (n.in[1] >= 0) {
        mpt_value_id load;
        MPT_TRY(mpt_op_param_grad(graph, &n, 1, &load));
        graph->nodes[index].out[5] = load;
    }
    if (dy[0] < 0 || !mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_moe_route_grad);
    grad.in[0] = n.in[0];
    grad.in[1] = n.out[1];
    grad.in[2] = dy[0];
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status route_grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "logits", MPT_ANY, MPT_ANY));
    int64_t tokens = mpt_op_in(graph, node, 0)->dims[0], k = node->attrs.top_k;
    MPT_TRY(mpt_op_expect_ids(graph, node, 1, "experts", tokens * k));
    MPT_TRY(mpt_op_expect2(graph, node, 2, "dweights", tokens, k));
    return mpt_op_output_grad(graph, node, 0, 0);
}

static mpt_cost route_cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){8 * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_moe_route = {route_infer, route_backward, route_cost};
const mpt_op_def mpt_op_moe_route_grad = {route_grad_infer, NULL, route_cost};

/* ---- moe_dispatch ---- */

/* Tokens of a list of choices, of which each token has top_k. */
static mpt_status choices_of(const mpt_graph *graph, const mpt_node *node, int i,
                             int64_t *out_tokens) {
    MPT_TRY(mpt_op_expect_ids(graph, node, i, "rows of tokens", MPT_ANY));
    int64_t n = mpt_op_in(graph, node, i)->dims[0], k = node->attrs.top_k;
    if (k < 1 || n % k != 0)
        return MPT_OP_FAIL(graph, node, "%lld rows of tokens, and %lld for each token",
                           (long long)n, (long long)k);
    *out_tokens = n / k;
    return MPT_OK;
}

static mpt_status dispatch_infer(mpt_graph *graph, mpt_node *node) {
    int64_t tokens;
    MPT_TRY(mpt_op_expect_ids(graph, node, 1, "tokens of rows", MPT_ANY));
    MPT_TRY(choices_of(graph, node, 2, &tokens));
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", tokens, MPT_ANY));
    mpt_value rows = {
        .rank = 2,
        .dims = {mpt_op_in(graph, node, 1)->dims[0], mpt_op_in(graph, node, 0)->dims[1]}};
    return mpt_op_output(graph, node, 0, &rows);
}

static mpt_status dispatch_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                    mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_moe_dispatch_grad);
    grad.in[0] = dy[0];
    grad.in[1] = n.in[2];
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status dispatch_grad_infer(mpt_graph *graph, mpt_node *node) {
    int64_t tokens;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "drows", MPT_ANY, MPT_ANY));
    MPT_TRY(choices_of(graph, node, 1, &tokens));
    mpt_value dx = {
        .name = "dx", .rank = 2, .dims = {tokens, mpt_op_in(graph, node, 0)->dims[1]}};
    return mpt_op_output(graph, node, 0, &dx);
}

/* Elements of the rows that hold a choice: padding does not count. */
static double chosen(const mpt_graph *graph, const mpt_node *node, int rows, int choices) {
    const mpt_value *v = mpt_op_in(graph, node, rows);
    return mpt_op_in_elements(graph, node, choices) * (double)v->dims[1];
}

/* Only moved; the gradient adds the rows of a token up. */
static mpt_cost dispatch_cost(const mpt_graph *graph, const mpt_node *node) {
    bool grad = node->op == MPT_OP_moe_dispatch_grad;
    return (mpt_cost){grad ? chosen(graph, node, 0, 1) : 0, mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_moe_dispatch = {dispatch_infer, dispatch_backward, dispatch_cost};
const mpt_op_def mpt_op_moe_dispatch_grad = {dispatch_grad_infer, NULL, dispatch_cost};

/* ---- moe_combine ---- */

/* The four inputs that the gradient shares; gives the tokens. */
static mpt_status expect_combined(const mpt_graph *graph, const mpt_node *node,
                                  int64_t *out_tokens) {
    MPT_TRY(mpt_op_expect_ids(graph, node, 3, "tokens of rows", MPT_ANY));
    MPT_TRY(choices_of(graph, node, 2, out_tokens));
    MPT_TRY(
        mpt_op_expect2(graph, node, 0, "rows", mpt_op_in(graph, node, 3)->dims[0], MPT_ANY));
    return mpt_op_expect2(graph, node, 1, "weights", *out_tokens, node->attrs.top_k);
}

static mpt_status combine_infer(mpt_graph *graph, mpt_node *node) {
    int64_t tokens;
    MPT_TRY(expect_combined(graph, node, &tokens));
    mpt_value y = {.rank = 2, .dims = {tokens, mpt_op_in(graph, node, 0)->dims[1]}};
    return mpt_op_output(graph, node, 0, &y);
}

static mpt_status combine_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                   mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_moe_combine_grad);
    for (int i = 0; i < 4; i++)
        grad.in[i] = n.in[i];
    grad.in[4] = dy[0];
    return mpt_op_append_grad(graph, &n, &grad, 2, (const int[]){0, 1}, dx);
}

static mpt_status combine_grad_infer(mpt_graph *graph, mpt_node *node) {
    int64_t tokens;
    MPT_TRY(expect_combined(graph, node, &tokens));
    MPT_TRY(mpt_op_expect2(graph, node, 4, "dy", tokens, mpt_op_in(graph, node, 0)->dims[1]));
    MPT_TRY(mpt_op_output_grad(graph, node, 0, 0));
    return mpt_op_output_grad(graph, node, 1, 1);
}

static mpt_cost combine_cost(const mpt_graph *graph, const mpt_node *node) {
    double each = node->op == MPT_OP_moe_combine ? 2 : 3;
    return (mpt_cost){each * chosen(graph, node, 0, 2), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_moe_combine = {combine_infer, combine_backward, combine_cost};
const mpt_op_def mpt_op_moe_combine_grad = {combine_grad_infer, NULL, combine_cost};

/* ---- moe_balance ---- */

static mpt_status balance_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect1(graph, node, 0, "bias", MPT_ANY));
    MPT_TRY(mpt_op_expect_like(graph, node, 1, "load", mpt_op_in(graph, node, 0)));
    MPT_TRY(mpt_op_expect1(graph, node, 2, "factor", 1));
    return mpt_op_output_in_place(graph, node);
}

static mpt_cost balance_cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){3 * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_moe_balance = {balance_infer, NULL, balance_cost};
