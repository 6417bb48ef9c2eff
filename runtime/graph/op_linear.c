/* linear: y = x w^T + b, and its two backward products and bias sum.
 *
 * The three GEMMs are nodes of their own, because a recipe names them: fprop is `linear`, dgrad
 * and wgrad are what backward appends. Attributes: alpha, the constant factor on the product (0
 * reads as 1); sum, how its products are summed up. After the precision rewrite the operands
 * may be quantized data, whose factors are inputs 3 and 4: one number, or one for each row
 * (first operand) or column (second) of the product. Only wgrad's operands may then have more
 * rows than there are tokens (padding of a rotation), and both have the same number.
 *
 * With offsets (input 5, [experts + 1]) w holds the weights of so many experts, one below the
 * other, and rows offsets[e] ... offsets[e + 1] of the other operands are those of expert e.
 * Attributes of such a node: experts, top_k, batch, sequence, which say its work. Factors of
 * the columns of y = x w^T are then one for each row of w. */
#include "graph/op.h"

/* Rows and columns of a matrix input; any where it is no matrix, for the check to refuse. */
static void matrix(const mpt_graph *graph, const mpt_node *node, int i, int64_t out[2]) {
    const mpt_value *v = mpt_op_in(graph, node, i);
    bool is_matrix = v && v->rank == 2;
    out[0] = is_matrix ? v->dims[0] : MPT_ANY;
    out[1] = is_matrix ? v->dims[1] : MPT_ANY;
}

/* Weights that w holds one below the other: 1 without offsets. Refuses rows that they do not
 * divide. */
static mpt_status find_experts(const mpt_graph *graph, const mpt_node *node, int64_t rows,
                               int64_t *out) {
    *out = 1;
    if (node->in[5] < 0)
        return MPT_OK;
    MPT_TRY(mpt_op_expect_ids(graph, node, 5, "offsets", MPT_ANY));
    *out = mpt_op_in(graph, node, 5)->dims[0] - 1;
    if (*out < 1 || rows % *out != 0)
        return MPT_OP_FAIL(graph, node, "%lld rows of weights for %lld experts",
                           (long long)rows, (long long)*out);
    return MPT_OK;
}

/* The factors of both operands; the product has `rows` rows and `cols` columns. */
static mpt_status expect_factors(const mpt_graph *graph, mpt_node *node,
                                 const char *const names[2], int64_t rows, int64_t cols) {
    if (node->attrs.alpha == 0)
        node->attrs.alpha = 1;
    node->n_in = node->in[5] < 0 ? 5 : 6;
    MPT_TRY(mpt_op_expect_factor(graph, node, 3, names[0], rows));
    return mpt_op_expect_factor(graph, node, 4, names[1], cols);
}

/* A multiplication and an addition for each pair of a row and a column along their shared side:
 * of a [n, k] times b, whose side that is not shared is its columns except in y = x w^T.
 * Experts have the rows that were chosen, without the padding between them. */
static double product_flops(const mpt_graph *graph, const mpt_node *node) {
    int64_t a[2], b[2], experts = 1;
    const mpt_attrs *at = &node->attrs;
    matrix(graph, node, 0, a);
    matrix(graph, node, 1, b);
    double rows = (double)a[0];
    if (node->in[5] >= 0 && at->top_k > 0) {
        experts = graph->values[node->in[5]].dims[0] - 1;
        rows = (double)at->batch * (double)at->sequence * at->top_k;
    }
    double free_side = (double)(node->op == MPT_OP_linear ? b[0] / experts : b[1]);
    return 2 * rows * (double)a[1] * free_side;
}

static mpt_cost product_cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){product_flops(graph, node), mpt_op_bytes(graph, node)};
}

/* ---- linear ---- */

static mpt_status linear_infer(mpt_graph *graph, mpt_node *node) {
    int64_t x[2], w[2], experts;
    matrix(graph, node, 0, x);
    matrix(graph, node, 1, w);
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "w", MPT_ANY, x[1]));
    MPT_TRY(find_experts(graph, node, w[0], &experts));
    if (node->in[2] >= 0 && node->in[5] >= 0)
        return MPT_OP_FAIL(graph, node, "experts have no bias");
    if (node->in[2] >= 0)
        MPT_TRY(mpt_op_expect1(graph, node, 2, "bias", w[0]));
    static const char *const factors[] = {"x factor", "w factor"};
    MPT_TRY(expect_factors(graph, node, factors, x[0], w[0]));
    mpt_value y = {.rank = 2, .dims = {x[0], w[0] / experts}};
    return mpt_op_output(graph, node, 0, &y);
}

static mpt_status linear_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                  mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (mpt_op_wants(graph, &n, 0)) {
        mpt_node dgrad = mpt_op_grad_node(&n, MPT_OP_linear_dgrad);
        dgrad.in[0] = dy[0];
        dgrad.in[1] = n.in[1];
        dgrad.in[5] = n.in[5];
        MPT_TRY(mpt_op_append_grad(graph, &n, &dgrad, 1, (const int[]){0}, dx));
    }
    mpt_node wgrad = mpt_op_grad_node(&n, MPT_OP_linear_wgrad);
    wgrad.in[0] = dy[0];
    wgrad.in[1] = n.in[0];
    wgrad.in[5] = n.in[5];
    MPT_TRY(mpt_op_param_grad(graph, &n, 1, &wgrad.out[0]));
    MPT_TRY(mpt_graph_append(graph, &wgrad, NULL));
    if (n.in[2] < 0)
        return MPT_OK;
    mpt_node bias = mpt_op_grad_node(&n, MPT_OP_bias_grad);
    bias.in[0] = dy[0];
    MPT_TRY(mpt_op_param_grad(graph, &n, 2, &bias.out[0]));
    return mpt_graph_append(graph, &bias, NULL);
}

const mpt_op_def mpt_op_linear = {linear_infer, linear_backward, product_cost};

/* ---- dx = dy w ---- */

static mpt_status dgrad_infer(mpt_graph *graph, mpt_node *node) {
    int64_t dy[2], w[2], experts;
    matrix(graph, node, 0, dy);
    matrix(graph, node, 1, w);
    MPT_TRY(mpt_op_expect2(graph, node, 0, "dy", MPT_ANY, MPT_ANY));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "w", MPT_ANY, MPT_ANY));
    MPT_TRY(find_experts(graph, node, w[0], &experts));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "w", experts * dy[1], MPT_ANY));
    static const char *const factors[] = {"dy factor", "w factor"};
    MPT_TRY(expect_factors(graph, node, factors, dy[0], w[1]));
    return mpt_op_output(graph, node, 0,
                         &(mpt_value){.name = "dx", .rank = 2, .dims = {dy[0], w[1]}});
}

const mpt_op_def mpt_op_linear_dgrad = {dgrad_infer, NULL, product_cost};

/* ---- dw += dy^T x ---- */

static mpt_status wgrad_infer(mpt_graph *graph, mpt_node *node) {
    int64_t dy[2], x[2], experts;
    matrix(graph, node, 0, dy);
    matrix(graph, node, 1, x);
    MPT_TRY(mpt_op_expect2(graph, node, 0, "dy", MPT_ANY, MPT_ANY));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "x", dy[0], MPT_ANY));
    static const char *const factors[] = {"dy factor", "x factor"};
    MPT_TRY(expect_factors(graph, node, factors, dy[1], x[1]));
    MPT_TRY(find_experts(graph, node, 0, &experts));
    mpt_value dw = {
        .name = "dw", .kind = MPT_VALUE_GRAD, .rank = 2, .dims = {experts * dy[1], x[1]}};
    return mpt_op_output(graph, node, 0, &dw);
}

const mpt_op_def mpt_op_linear_wgrad = {wgrad_infer, NULL, product_cost};

/* ---- db += sum over tokens of dy ---- */

static mpt_status bias_infer(mpt_graph *graph, mpt_node *node) {
    int64_t dy[2];
    matrix(graph, node, 0, dy);
    MPT_TRY(mpt_op_expect2(graph, node, 0, "dy", MPT_ANY, MPT_ANY));
    mpt_value db = {.name = "db", .kind = MPT_VALUE_GRAD, .rank = 1, .dims = {dy[1]}};
    return mpt_op_output(graph, node, 0, &db);
}

static mpt_cost bias_cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_bias_grad = {bias_infer, NULL, bias_cost};
