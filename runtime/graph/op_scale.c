/* scale_update: one step of delayed scaling, for one operand; record_amax: what a phase notes
 * of an operand that only the next one quantizes by its history.
 *
 * Stage 5 appends a node for each operand whose quantizer (attrs.row) is delayed, behind the
 * optimizer: it takes the largest magnitude of the window that the step's amax ends, makes the
 * next step's scale from it, and moves the window on. A skipped step does so too. Both inputs
 * are state that is written in place; the scale is also given as the output, as weights are.
 *
 * record_amax raises the first entry of a history to the amax of x, as the quantize node of the
 * copy to come (attrs.row where has_row, else attrs.col) would: of the rotated values where it
 * rotates. A column copy that is to be made from the dequantized row copy is seen as x is. */
#include "graph/op.h"

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    const mpt_scale_source *source = &node->attrs.row.scale;
    MPT_TRY(mpt_op_expect1(graph, node, 0, "scale", 1));
    if (source->kind != MPT_SCALING_DELAYED || source->history < 1)
        return MPT_OP_FAIL(graph, node, "the quantizer's scaling is not delayed");
    MPT_TRY(mpt_op_expect1(graph, node, 1, "amax history", source->history));
    return mpt_op_output_in_place(graph, node);
}

/* A comparison an entry; the window is read and written. */
static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    double n = mpt_op_in_elements(graph, node, 1);
    return (mpt_cost){n, 2 * sizeof(float) * (n + 1)};
}

const mpt_op_def mpt_op_scale_update = {infer, NULL, cost};

/* ---- record_amax ---- */

static mpt_status record_infer(mpt_graph *graph, mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    const mpt_scale_source *source = a->has_col ? &a->col.scale : &a->row.scale;
    if (a->has_row == a->has_col)
        return MPT_OP_FAIL(graph, node, "it is of one copy: the row copy or the column copy");
    if (source->kind != MPT_SCALING_DELAYED || source->history < 1)
        return MPT_OP_FAIL(graph, node, "the quantizer's scaling is not delayed");
    MPT_TRY(mpt_op_expect1(graph, node, 0, "amax history", source->history));
    MPT_TRY(mpt_op_expect2(graph, node, 1, "x", MPT_ANY, MPT_ANY));
    return mpt_op_output_in_place(graph, node);
}

/* A comparison an element; x is read once. */
static mpt_cost record_cost(const mpt_graph *graph, const mpt_node *node) {
    double n = mpt_op_in_elements(graph, node, 1);
    return (mpt_cost){n, mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_record_amax = {record_infer, NULL, record_cost};
