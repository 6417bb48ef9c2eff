/* dropout: a share p of the numbers to zero, the others times 1 / (1 - p).
 *
 * Which ones is a function of (seed, step, micro-batch, the layer's path, element): see
 * mpt_random_words. So the gradient is the same op on dy, with the same attributes, and a
 * second computation has the bits of the first. An evaluation drops nothing. Attributes: p;
 * scope, which inference makes from the layer's path. */
#include "graph/op.h"

#include <string.h>

enum { FLOPS_DROPOUT = 30 }; /* ten rounds of the generator make four words */

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    MPT_TRY(mpt_op_expect(graph, node, 0, "x"));
    if (!(a->p >= 0 && a->p < 1))
        return MPT_OP_FAIL(graph, node, "p is %g, expected at least 0 and less than 1",
                           (double)a->p);
    if (node->layer >= 0) {
        const char *path = graph->layers[node->layer].path;
        a->scope = (uint32_t)mpt_hash(path, strlen(path));
    }
    mpt_value like = graph->values[node->in[0]];
    like.name = NULL;
    like.kind = MPT_VALUE_ACTIVATION;
    like.dtype = MPT_DTYPE_FP32;
    return mpt_op_output(graph, node, 0, &like);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_dropout);
    grad.in[0] = dy[0];
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    return (mpt_cost){FLOPS_DROPOUT * mpt_op_in_elements(graph, node, 0),
                      mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_dropout = {infer, backward, cost};
