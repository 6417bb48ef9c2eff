/* split and concat: columns into parts and back; each is the other's gradient.
 *
 * Attributes: sizes[n_sizes], the widths of the parts. concat fills them in from its inputs. */
#include "graph/op.h"

static mpt_status split_infer(mpt_graph *graph, mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    int64_t rows = mpt_op_in(graph, node, 0)->dims[0],
            width = mpt_op_in(graph, node, 0)->dims[1];
    int64_t sum = 0;
    if (a->n_sizes < 1 || a->n_sizes > MPT_MAX_PARTS)
        return MPT_OP_FAIL(graph, node, "%d parts, expected 1 to %d", a->n_sizes,
                           MPT_MAX_PARTS);
    for (int i = 0; i < a->n_sizes; i++) {
        if (a->sizes[i] < 1 || a->sizes[i] > width)
            return MPT_OP_FAIL(graph, node, "part %d has %lld of %lld columns", i + 1,
                               (long long)a->sizes[i], (long long)width);
        sum += a->sizes[i];
    }
    if (sum != width)
        return MPT_OP_FAIL(graph, node, "the parts have %lld columns, but input 'x' has %lld",
                           (long long)sum, (long long)width);
    node->n_out = (int8_t)a->n_sizes;
    for (int i = 0; i < a->n_sizes; i++) {
        char suffix[2] = {(char)('0' + i), 0};
        mpt_value part = {.name = suffix, .rank = 2, .dims = {rows, a->sizes[i]}};
        MPT_TRY(mpt_op_output(graph, node, i, &part));
    }
    return MPT_OK;
}

static mpt_status split_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                 mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_concat);
    for (int i = 0; i < n.n_out; i++) {
        if (dy[i] < 0)
            return MPT_OP_FAIL(graph, &n, "part %d of %d does not reach the loss", i + 1,
                               n.n_out);
        grad.in[i] = dy[i];
    }
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_status concat_infer(mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "1", MPT_ANY, MPT_ANY));
    int64_t rows = mpt_op_in(graph, node, 0)->dims[0], width = 0;
    int n = 0;
    for (; n < MPT_MAX_IN && node->in[n] >= 0; n++) {
        if (n == MPT_MAX_PARTS)
            return MPT_OP_FAIL(graph, node, "more than %d parts", MPT_MAX_PARTS);
        char name[2] = {(char)('1' + n), 0};
        MPT_TRY(mpt_op_expect2(graph, node, n, name, rows, MPT_ANY));
        a->sizes[n] = mpt_op_in(graph, node, n)->dims[1];
        width += a->sizes[n];
    }
    a->n_sizes = n;
    node->n_in = (int8_t)n;
    return mpt_op_output(graph, node, 0, &(mpt_value){.rank = 2, .dims = {rows, width}});
}

static mpt_status concat_backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                                  mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    static const int to[MPT_MAX_PARTS] = {0, 1, 2, 3, 4, 5, 6, 7};
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_split);
    grad.in[0] = dy[0];
    for (int i = 0; i < n.n_in; i++)
        MPT_TRY(mpt_op_name_grad(graph, &n, i, &grad.out[i]));
    return mpt_op_append_grad(graph, &n, &grad, n.n_in, to, dx);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){0, mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_split = {split_infer, split_backward, cost};
const mpt_op_def mpt_op_concat = {concat_infer, concat_backward, cost};
