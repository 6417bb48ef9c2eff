/* rope and its gradient: rotary positions, as Hugging Face pairs them.
 *
 * x is [tokens, heads * head_dim]. Of each head the first `dims` numbers turn: pair i is made
 * of numbers i and i + dims/2 (halves, not neighbours), and a token at position t of its
 * sequence turns it by an angle of kernels/rope.h. The rest of a head stays. A rotation's
 * gradient is the rotation back, so backward keeps nothing.
 *
 * Attributes: heads and head_dim (0: from the other and the width), rope, batch and sequence
 * (0: the graph's). */
#include "graph/op.h"

#include <math.h>

enum { FLOPS_ROPE = 3 }; /* three for each number: the angles are made once a token */

static const float DEFAULT_THETA = 10000.0f;

static mpt_status expect_heads(const mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    const mpt_value *x = mpt_op_in(graph, node, 0);
    int64_t width = x->dims[1];
    if (a->heads < 1 && a->head_dim < 1)
        return MPT_OP_FAIL(graph, node, "neither heads nor head_dim is given");
    if (a->head_dim == 0 && width % a->heads == 0)
        a->head_dim = (int32_t)(width / a->heads);
    if (a->heads == 0 && width % a->head_dim == 0)
        a->heads = (int32_t)(width / a->head_dim);
    if (a->heads == 0 || a->head_dim == 0)
        return MPT_OP_FAIL(graph, node, "input 'x' (%s) has %lld columns, no multiple of %s %d",
                           x->name, (long long)width, a->heads ? "heads" : "head_dim",
                           a->heads ? a->heads : a->head_dim);
    if (a->heads < 1 || a->head_dim < 1 || (int64_t)a->heads * a->head_dim != width)
        return MPT_OP_FAIL(graph, node,
                           "input 'x' (%s) has %lld columns, which are not %d heads of %d",
                           x->name, (long long)width, a->heads, a->head_dim);
    return MPT_OK;
}

static mpt_status expect_llama3(const mpt_graph *graph, const mpt_node *node) {
    const mpt_rope *r = &node->attrs.rope;
    if (!(r->low_freq_factor > 0 && isfinite(r->high_freq_factor) &&
          r->low_freq_factor < r->high_freq_factor))
        return MPT_OP_FAIL(graph, node,
                           "low_freq_factor is %g and high_freq_factor %g, expected two "
                           "numbers above 0, the high one larger",
                           (double)r->low_freq_factor, (double)r->high_freq_factor);
    if (r->original_positions < 1)
        return MPT_OP_FAIL(graph, node,
                           "original_max_position_embeddings is %d, expected at least 1",
                           r->original_positions);
    return MPT_OK;
}

static mpt_status expect_angles(const mpt_graph *graph, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    mpt_rope *r = &a->rope;
    if (r->theta == 0)
        r->theta = DEFAULT_THETA;
    if (r->dims == 0)
        r->dims = a->head_dim;
    if (!(r->theta > 0 && isfinite(r->theta)))
        return MPT_OP_FAIL(graph, node, "theta is %g, expected a number above 0",
                           (double)r->theta);
    if (r->dims < 2 || r->dims % 2 || r->dims > a->head_dim)
        return MPT_OP_FAIL(graph, node,
                           "%d numbers of a head turn in pairs, expected an even number from 2 "
                           "to head_dim, which is %d",
                           r->dims, a->head_dim);
    if (r->scaling == MPT_ROPE_DEFAULT)
        return MPT_OK;
    if (!(r->factor > 0 && isfinite(r->factor)))
        return MPT_OP_FAIL(graph, node, "factor is %g, expected a number above 0",
                           (double)r->factor);
    return r->scaling == MPT_ROPE_LLAMA3 ? expect_llama3(graph, node) : MPT_OK;
}

static mpt_status infer(mpt_graph *graph, mpt_node *node) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    MPT_TRY(expect_heads(graph, node));
    MPT_TRY(expect_angles(graph, node));
    const mpt_value *x = mpt_op_in(graph, node, 0);
    MPT_TRY(mpt_op_expect_sequences(graph, node, x->dims[0]));
    mpt_value y = {.rank = 2, .dims = {x->dims[0], x->dims[1]}};
    return mpt_op_output(graph, node, 0, &y);
}

static mpt_status backward(mpt_graph *graph, int index, const mpt_value_id *dy,
                           mpt_value_id *dx) {
    const mpt_node n = graph->nodes[index];
    if (!mpt_op_wants(graph, &n, 0))
        return MPT_OK;
    mpt_node grad = mpt_op_grad_node(&n, MPT_OP_rope_grad);
    grad.in[0] = dy[0];
    MPT_TRY(mpt_op_name_grad(graph, &n, 0, &grad.out[0]));
    return mpt_op_append_grad(graph, &n, &grad, 1, (const int[]){0}, dx);
}

static mpt_cost cost(const mpt_graph *graph, const mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    double turned = (double)a->batch * (double)a->sequence * a->heads * a->rope.dims;
    return (mpt_cost){FLOPS_ROPE * turned, mpt_op_bytes(graph, node)};
}

const mpt_op_def mpt_op_rope = {infer, backward, cost};
const mpt_op_def mpt_op_rope_grad = {infer, NULL, cost};
