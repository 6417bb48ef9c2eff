/* cast and quantize: the nodes that change a number's format. precision.c appends them.
 *
 * cast rounds to attrs.row.format. quantize makes up to two copies of a matrix: the row copy
 * (attrs.row, where has_row) has its blocks and rotation along the columns, the column copy
 * (attrs.col, where has_col) along the rows; both keep the layout of x. Each has one FP32
 * factor that its reader multiplies by. A rotation by n spreads the last group over n places,
 * so its side is padded to a multiple of n: that is the only padding, and since a GEMM rotates
 * both operands or neither, both come out with the same number. dtype of the data is the
 * format of the elements; the memory is float32 as everywhere. */
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

static mpt_status quantize_infer(mpt_graph *graph, mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    int64_t rows = mpt_op_in(graph, node, 0)->dims[0],
            cols = mpt_op_in(graph, node, 0)->dims[1];
    mpt_value_kind kind = copy_kind(node);
    if (!a->has_row && !a->has_col)
        return MPT_OP_FAIL(graph, node, "neither a row copy nor a column copy is wanted");
    if (a->has_row) {
        mpt_value data = {.name = "row",
                          .kind = kind,
                          .dtype = a->row.format,
                          .rank = 2,
                          .dims = {rows, padded(cols, &a->row)}};
        mpt_value factor = {.name = "row_factor", .kind = kind, .rank = 1, .dims = {1}};
        MPT_TRY(mpt_op_output(graph, node, 0, &data));
        MPT_TRY(mpt_op_output(graph, node, 1, &factor));
    }
    if (a->has_col) {
        mpt_value data = {.name = "col",
                          .kind = kind,
                          .dtype = a->col.format,
                          .rank = 2,
                          .dims = {padded(rows, &a->col), cols}};
        mpt_value factor = {.name = "col_factor", .kind = kind, .rank = 1, .dims = {1}};
        MPT_TRY(mpt_op_output(graph, node, 2, &data));
        MPT_TRY(mpt_op_output(graph, node, 3, &factor));
    }
    return MPT_OK;
}

const mpt_op_def mpt_op_quantize = {quantize_infer, NULL, cost};
