/* cast and quantize: the nodes that change a number's format. precision.c appends them.
 *
 * cast rounds to attrs.row.format. quantize makes up to two copies of a matrix: the row copy
 * (attrs.row, where has_row) has its blocks and rotation along the columns, the column copy
 * (attrs.col, where has_col) along the rows; both keep the layout of x. Each has an FP32 factor
 * that its reader multiplies by: one number, or with outer = "row" one for each row of the
 * quantized orientation. A rotation by n spreads the last group over n places, so its side is
 * padded to a multiple of n: that is the only padding, and since a GEMM rotates both operands
 * or neither, both come out with the same number. dtype of the data is the format of the
 * elements; the memory is float32 as everywhere.
 *
 * A copy whose scaling is delayed reads the scale of the steps before and raises the first
 * entry of its amax history: optional inputs, without which its scaling is current. */
#include "graph/op.h"

/* A weight's copy lives for the step, an activation's for the micro-batch. */
static mpt_value_kind copy_kind(const mpt_node *node) {
    return node->pass == MPT_PASS_PREPARE ? MPT_VALUE_WORKING : MPT_VALUE_ACTIVATION;
}

static mpt_status cast_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect(graph, node, 0, "x"));
    mpt_value like = *mpt_op_in(graph, node, 0);
    like.dtype = node->attrs.row.format;
    like.kind = copy_kind(node);
    like.name = mpt_dtype_name(like.dtype);
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    double flops = node->op == MPT_OP_cast ? 1 : 4;
    return (mpt_cost){flops * mpt_op_in_elements(graph, node, 0), mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_cast = {cast_infer, NULL, cost};

static int64_t padded(int64_t extent, const mpt_quantizer *q) {
    int64_t n = q->hadamard.size;
    return n > 1 ? (extent + n - 1) / n * n : extent;
}

/* The scale and the history of one side: both there or both absent. */
static mpt_status expect_state(const mpt_graph *graph, const mpt_node *node, bool column) {
    const mpt_quantizer *q = column ? &node->attrs.col : &node->attrs.row;
    int at = column ? 3 : 1;
    if (node->in[at] < 0 && node->in[at + 1] < 0)
        return MPT_OK;
    MPT_TRY(mpt_op_expect1(graph, node, at, column ? "column scale" : "row scale", 1));
    return mpt_op_expect1(graph, node, at + 1,
                          column ? "column amax history" : "row amax history",
                          q->scale.history);
}

/* Data and factor of one side. */
static mpt_status make_copy(mpt_graph *graph, mpt_node *node, bool column) {
    const mpt_quantizer *q = column ? &node->attrs.col : &node->attrs.row;
    int64_t rows = mpt_op_in(graph, node, 0)->dims[0];
    int64_t cols = mpt_op_in(graph, node, 0)->dims[1];
    mpt_value data = {
        .name = column ? "col" : "row",
        .kind = copy_kind(node),
        .dtype = q->format,
        .rank = 2,
        .dims = {column ? padded(rows, q) : rows, column ? cols : padded(cols, q)}};
    mpt_value factor = {.name = column ? "col_factor" : "row_factor",
                        .kind = data.kind,
                        .rank = 1,
                        .dims = {1}};
    if (q->outer == MPT_OUTER_ROW)
        factor.dims[0] = column ? cols : rows;
    MPT_TRY(expect_state(graph, node, column));
    MPT_TRY(mpt_op_output(graph, node, column ? 2 : 0, &data));
    return mpt_op_output(graph, node, column ? 3 : 1, &factor);
}

static mpt_status quantize_infer(mpt_graph *graph, mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    if (!a->has_row && !a->has_col)
        return MPT_OP_FAIL(graph, node, "neither a row copy nor a column copy is wanted");
    if (a->has_row)
        MPT_TRY(make_copy(graph, node, false));
    return a->has_col ? make_copy(graph, node, true) : MPT_OK;
}

const mpt_op_def mpt_op_quantize = {quantize_infer, NULL, cost};
