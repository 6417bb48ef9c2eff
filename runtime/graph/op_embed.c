/* embedding: rows of a table picked by number, and the gradient that adds into those rows.
 *
 * Reads no attribute. Ids are tokens or positions; that they are below the table's rows is the
 * trainer's promise, checked where tokens enter. */
#include "graph/op.h"

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect_ids(graph, node, 0, "ids", MPT_ANY));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "table", MPT_ANY, MPT_ANY));
    mpt_value x = {
        .rank = 2,
        .dims = {mpt_op_in(graph, node, 0)->dims[0], mpt_op_in(graph, node, 1)->dims[1]}};
    return mpt_op_output(graph, node, 0, &x);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    (void)dx; /* ids have no gradient, the table's is summed in place */
    const mpt_node n = graph->nodes[index];
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_embedding_grad);
    grad.in[0] = n.in[0];
    grad.in[1] = dy[0];
    MPT_TRY(mpt_op_param_grad(graph, &n, 1, &grad.out[0]));
    return mpt_graph_append(graph, &grad, NULL);
}

/* The rows of the table are not to be read off the inputs: the output must be there. */
static mpt_status grad_infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect_ids(graph, node, 0, "ids", MPT_ANY));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "dy", mpt_op_in(graph, node, 0)->dims[0], MPT_ANY));
    if (node->out[0] < 0)
        return MPT_OP_FAIL(graph, node, "the gradient of the table must be given as output");
    const mpt_value *table = &graph->values[node->out[0]];
    mpt_value like = {.rank = 2, .dims = {table->dims[0], mpt_op_in(graph, node, 1)->dims[1]}};
    return mpt_op_output(graph, node, 0, &like);
}

/* No arithmetic forward; only the rows that are read count, not the table. */
static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    bool grad = node->op == MPT_OP_embedding_grad;
    const mpt_value *rows = &graph->values[grad ? node->in[1] : node->out[0]];
    double n = (double)mpt_value_elements(rows);
    return (mpt_cost){grad ? n : 0, n * mpt_dtype_bits(rows->dtype) / 8 * (grad ? 3 : 2)};
}

const mpt_op_def mpt_op_embedding = {infer, backward, cost};
const mpt_op_def mpt_op_embedding_grad = {grad_infer, NULL, cost};
