/* Stage 4: the backward pass, appended to the forward graph.
 *
 * Walks the forward nodes from the loss to the start and asks each op's row for the nodes of
 * its gradient. A value read several times has its gradients added in the order in which they
 * come, last reader first: one fixed order, so that runs repeat bit for bit. Parameters have
 * one gradient value each, to which every reader's node adds. Next: update.c appends the
 * optimizer, precision.c rewrites all of it. */
#include "graph/op.h"

/* Adds gradient `d` of input i of a node to what has come for that value so far. */
static mpt_status accumulate(mpt_graph *graph, mpt_value_id *grad, const mpt_node *reader,
                             int i, mpt_value_id d) {
    mpt_value_id value = reader->in[i];
    if (grad[value] < 0) {
        grad[value] = d;
        return MPT_OK;
    }
    int32_t producer = graph->values[value].producer;
    mpt_node add = mpt_node_make(MPT_OP_add, MPT_PASS_BACKWARD, -1);
    if (producer >= 0)
        add.where = graph->nodes[producer].where;
    add.in[0] = grad[value];
    add.in[1] = d;
    MPT_TRY(mpt_op_name_grad(graph, reader, i, &add.out[0]));
    MPT_TRY(mpt_graph_append(graph, &add, NULL));
    grad[value] = add.out[0];
    return MPT_OK;
}

/* Appends the gradient of one forward node, where anything flows back into it. */
static mpt_status differentiate(mpt_graph *graph, int index, mpt_value_id *grad) {
    const mpt_node n = graph->nodes[index];
    mpt_value_id dy[MPT_MAX_OUT], dx[MPT_MAX_IN];
    bool reached = n.out[0] == graph->loss;
    for (int i = 0; i < MPT_MAX_OUT; i++) {
        dy[i] = i < n.n_out && n.out[i] >= 0 ? grad[n.out[i]] : -1;
        reached |= dy[i] >= 0;
    }
    if (!reached)
        return MPT_OK;
    for (int i = 0; i < MPT_MAX_IN; i++)
        dx[i] = -1;
    const mpt_op_row *row = mpt_op_get(n.op);
    if (!row->def->backward)
        return MPT_OP_FAIL(graph, &n, "has no gradient");
    MPT_TRY(row->def->backward(graph, index, dy, dx));
    for (int i = 0; i < n.n_in; i++)
        if (dx[i] >= 0)
            MPT_TRY(accumulate(graph, grad, &n, i, dx[i]));
    return MPT_OK;
}

/* Every parameter gets its gradient value, in the order of the parameters. */
static mpt_status make_param_grads(mpt_graph *graph) {
    for (int p = 0; p < graph->n_params; p++) {
        mpt_node reader = mpt_node_make(MPT_OP_zero, MPT_PASS_PREPARE, graph->params[p].layer);
        mpt_value_id id;
        reader.in[0] = graph->params[p].value;
        MPT_TRY(mpt_op_param_grad(graph, &reader, 0, &id));
    }
    return MPT_OK;
}

/* A parameter that the loss does not depend on would train on noise: it is a slip in the model.
 */
static mpt_status check_all_reached(const mpt_graph *graph, bool *written) {
    for (int i = 0; i < graph->n_nodes; i++) { /* a choice of experts writes its load forward */
        const mpt_node *n = &graph->nodes[i];
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0 && graph->values[n->out[k]].param >= 0)
                written[graph->values[n->out[k]].param] = true;
    }
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_param *param = &graph->params[p];
        if (written[p])
            continue;
        mpt_where where = param->layer >= 0 ? graph->layers[param->layer].where : MPT_NOWHERE;
        (void)MPT_FAIL(graph->ctx, MPT_INVALID, where,
                       "%s: no path leads from this parameter to the loss", param->name);
        mpt_hint(graph->ctx, "use the layer's output, or leave the layer out");
        return MPT_INVALID;
    }
    return MPT_OK;
}

mpt_status mpt_graph_autodiff(mpt_graph *graph) {
    if (graph->loss < 0) {
        (void)MPT_FAIL(graph->ctx, MPT_INVALID, MPT_NOWHERE, "the model has no loss");
        mpt_hint(graph->ctx, "end its graph function with cross_entropy");
        return MPT_INVALID;
    }
    int n_forward = graph->n_nodes;
    size_t n_values = (size_t)graph->n_values, n_params = (size_t)graph->n_params;
    mpt_value_id *grad = mpt_alloc(graph->ctx, mpt_size_mul(n_values, sizeof *grad));
    bool *written = mpt_alloc(graph->ctx, n_params + 1);
    mpt_status status = MPT_OK;
    if (!grad || !written)
        status = mpt_fail_memory(graph->ctx, n_values * sizeof *grad);
    for (size_t i = 0; status == MPT_OK && i < n_values; i++)
        grad[i] = -1;
    if (status == MPT_OK)
        status = make_param_grads(graph);
    for (int i = n_forward - 1; status == MPT_OK && i >= 0; i--)
        if (graph->nodes[i].pass == MPT_PASS_FORWARD)
            status = differentiate(graph, i, grad);
    if (status == MPT_OK)
        status = check_all_reached(graph, written);
    mpt_free(graph->ctx, written);
    mpt_free(graph->ctx, grad);
    return status;
}
