/* Behind stage 5: nodes whose results nobody reads are taken away.
 *
 * A node stays if it writes what outlives the step (state, what the trainer reads), or makes a
 * value that a node which stays reads. A quantize node may lose one of its two copies alone;
 * the scale of a copy that nothing makes any more is not brought up to date either. Values
 * without a maker stay in the list, because ids are what everything is bound by; they take no
 * memory. */
#include "graph/graph.h"

/* Whether a node has an effect beyond the values that others read. A scale_update has one only
 * where somebody reads its scale or writes its history: judged apart, at the end. */
static bool is_root(const mpt_graph *graph, const mpt_node *node) {
    for (int k = 0; node->op != MPT_OP_scale_update && k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        mpt_value_kind kind = graph->values[node->out[k]].kind;
        if (mpt_value_is_state(kind) || kind == MPT_VALUE_STATUS)
            return true;
    }
    return false;
}

static bool any_wanted(const bool *wanted, const mpt_value_id *ids, int n) {
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0 && wanted[ids[i]])
            return true;
    return false;
}

/* Takes one copy from a quantize node, with the state that it reads. */
static void drop_side(mpt_node *node, bool column) {
    int in = column ? 3 : 1, out = column ? 2 : 0;
    node->in[in] = node->in[in + 1] = -1;
    node->out[out] = node->out[out + 1] = -1;
    if (column)
        node->attrs.has_col = false;
    else
        node->attrs.has_row = false;
    while (node->n_in > 1 && node->in[node->n_in - 1] < 0)
        node->n_in--;
}

/* Takes the copies that nothing reads from a quantize node of which one is read. A column copy
 * made from the row copy needs that one. */
static void drop_sides(mpt_node *node, const bool *wanted) {
    bool row = any_wanted(wanted, node->out, 2), col = any_wanted(wanted, node->out + 2, 2);
    bool feeds = col && node->attrs.col.source == MPT_SOURCE_DEQUANTIZED;
    if (node->attrs.has_row && !row && !feeds)
        drop_side(node, false);
    if (node->attrs.has_col && !col)
        drop_side(node, true);
}

/* Marks the nodes that stay, last first: nodes stand in an order in which they can run, so all
 * readers of a value have been seen before its maker. */
static void mark(mpt_graph *graph, bool *wanted, bool *stays) {
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        mpt_node *node = &graph->nodes[i];
        stays[i] = is_root(graph, node) || any_wanted(wanted, node->out, node->n_out);
        if (!stays[i])
            continue;
        if (node->op == MPT_OP_quantize)
            drop_sides(node, wanted);
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0)
                wanted[node->in[k]] = true;
    }
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == MPT_OP_scale_update)
            stays[i] = any_wanted(wanted, graph->nodes[i].in, 2);
}

/* Closes the gaps, and tells values who makes them now. */
static void sweep(mpt_graph *graph, const bool *stays) {
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node node = graph->nodes[i];
        for (int k = 0; k < node.n_out; k++) {
            mpt_value *value = node.out[k] >= 0 ? &graph->values[node.out[k]] : NULL;
            if (value && value->producer == i)
                value->producer = stays[i] ? n : -1;
        }
        if (stays[i])
            graph->nodes[n++] = node;
    }
    graph->n_pruned += graph->n_nodes - n;
    graph->n_nodes = n;
    graph->pruned = true;
}

mpt_status mpt_graph_prune(mpt_graph *graph) {
    size_t n_values = (size_t)graph->n_values, n_nodes = (size_t)graph->n_nodes;
    bool *wanted = mpt_alloc(graph->ctx, n_values + n_nodes + 1);
    if (!wanted)
        return mpt_fail_memory(graph->ctx, n_values + n_nodes + 1);
    bool *stays = wanted + n_values;
    mark(graph, wanted, stays);
    sweep(graph, stays);
    mpt_free(graph->ctx, wanted);
    return mpt_graph_verify(graph, "prune");
}
