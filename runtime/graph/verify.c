/* Invariants of a graph, checked between the stages: a failure is a fault of ours, not the
 * user's.
 *
 * Links (each value knows its first writer, each writer its value), order (written before it is
 * read, by pass and position), shapes (each op's inference, run again as a check), operands
 * (each is recorded and counted by one node, also where others make the same copy again), and
 * nothing dangling (each parameter is used and, once prune.c has run, each activation read). */
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

typedef struct verifier {
    const mpt_graph *graph;
    const char *after;
    bool *read;     /* one a value */
    bool *zeroed;   /* one a value: gradients that PREPARE sets to zero */
    bool *recorded; /* one an operand */
} verifier;

#define FAULT(v, node, ...) fault((v), (node), __FILE__, __LINE__, __VA_ARGS__)

/* "after grad: node 17 (linear): " and what is broken; node -1 is the graph. */
static mpt_status fault(const verifier *v, int node, const char *c_file, int c_line,
                        const char *fmt, ...) MPT_PRINTF(5, 6);

static mpt_status fault(const verifier *v, int node, const char *c_file, int c_line,
                        const char *fmt, ...) {
    char text[MPT_ERROR_TEXT / 2], at[64] = "";
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (node >= 0)
        snprintf(at, sizeof at, "node %d (%s): ", node,
                 mpt_op_get(v->graph->nodes[node].op)->name);
    return mpt_fail(v->graph->ctx, MPT_INTERNAL, MPT_NOWHERE, c_file, c_line, "after %s: %s%s",
                    v->after, at, text);
}

/* Whether a value that node `index` reads is there by then. */
static mpt_status check_read(const verifier *v, int index, mpt_value_id id) {
    const mpt_graph *graph = v->graph;
    if (id >= graph->n_values)
        return FAULT(v, index, "reads value %d of %d", id, graph->n_values);
    const mpt_value *value = &graph->values[id];
    v->read[id] = true;
    if (mpt_value_is_state(value->kind) || value->kind == MPT_VALUE_INPUT)
        return MPT_OK;
    if (value->producer < 0 || value->producer >= graph->n_nodes)
        return FAULT(v, index, "reads %s, which nothing makes", value->name);
    mpt_pass made = graph->nodes[value->producer].pass, needed = graph->nodes[index].pass;
    if (made > needed || (made == needed && value->producer >= index))
        return FAULT(v, index, "reads %s before node %d makes it", value->name,
                     value->producer);
    return MPT_OK;
}

static mpt_status check_write(const verifier *v, int index, mpt_value_id id) {
    const mpt_graph *graph = v->graph;
    if (id >= graph->n_values)
        return FAULT(v, index, "writes value %d of %d", id, graph->n_values);
    const mpt_value *value = &graph->values[id];
    if (value->kind == MPT_VALUE_INPUT)
        return FAULT(v, index, "writes the input %s", value->name);
    if (mpt_value_is_state(value->kind) || value->kind == MPT_VALUE_STATUS)
        return MPT_OK; /* these may have several writers */
    if (value->producer != index)
        return FAULT(v, index, "writes %s, which node %d makes", value->name, value->producer);
    return MPT_OK;
}

/* One copy of a quantize node: the first that makes an operand records it, and no other. */
static mpt_status check_operand(const verifier *v, int index, bool column) {
    const mpt_attrs *a = &v->graph->nodes[index].attrs;
    int32_t operand = column ? a->col_index : a->row_index;
    bool again = column ? a->col_again : a->row_again;
    if (!(column ? a->has_col : a->has_row))
        return MPT_OK;
    if (operand < 0 || operand >= v->graph->n_operands)
        return FAULT(v, index, "operand %d of %d", operand, v->graph->n_operands);
    if (v->recorded[operand] != again)
        return FAULT(v, index, "the operand %s is %s", v->graph->operands[operand].name,
                     again ? "made again before it is recorded" : "recorded twice");
    v->recorded[operand] = true;
    return MPT_OK;
}

/* Operands are stage 5's: a graph that was not rewritten has none. */
static mpt_status check_operands(const verifier *v, int index) {
    if (v->graph->nodes[index].op != MPT_OP_quantize || v->graph->n_operands == 0)
        return MPT_OK;
    MPT_TRY(check_operand(v, index, false));
    return check_operand(v, index, true);
}

/* What runs a second time may change nothing that outlives it. */
static mpt_status check_recomputed(const verifier *v, int index) {
    const mpt_node *node = &v->graph->nodes[index];
    if (node->recomputed && node->pass != MPT_PASS_BACKWARD)
        return FAULT(v, index, "is recomputed in pass %s", mpt_pass_name(node->pass));
    for (int k = 0; node->recomputed && k < node->n_out; k++)
        if (node->out[k] >= 0 && v->graph->values[node->out[k]].kind != MPT_VALUE_ACTIVATION)
            return FAULT(v, index, "is recomputed and writes %s",
                         v->graph->values[node->out[k]].name);
    return MPT_OK;
}

/* Runs inference again, on a copy that may make nothing. */
static mpt_status check_shapes(const verifier *v, int index) {
    mpt_graph copy = *v->graph;
    mpt_node node = copy.nodes[index];
    copy.checking = true;
    if (mpt_op_get(node.op)->def->infer(&copy, &node) == MPT_OK)
        return MPT_OK;
    return FAULT(v, index, "%s", v->graph->ctx->error.text);
}

static mpt_status check_node(const verifier *v, int index) {
    const mpt_node *node = &v->graph->nodes[index];
    const mpt_op_row *row = mpt_op_get(node->op);
    if (node->n_in > row->n_in || node->n_out > row->n_out)
        return FAULT(v, index, "%d inputs and %d outputs, the op has %d and %d", node->n_in,
                     node->n_out, row->n_in, row->n_out);
    if (node->layer >= v->graph->n_layers)
        return FAULT(v, index, "layer %d of %d", node->layer, v->graph->n_layers);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            MPT_TRY(check_read(v, index, node->in[i]));
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            MPT_TRY(check_write(v, index, node->out[i]));
    if (node->op == MPT_OP_zero && node->pass == MPT_PASS_PREPARE)
        v->zeroed[node->out[0]] = true;
    MPT_TRY(check_operands(v, index));
    MPT_TRY(check_recomputed(v, index));
    return check_shapes(v, index);
}

/* A node must make something that is read, or that outlives the step. */
static mpt_status check_used(const verifier *v, int index) {
    const mpt_node *node = &v->graph->nodes[index];
    for (int i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0)
            continue;
        const mpt_value *value = &v->graph->values[node->out[i]];
        if (v->read[node->out[i]] || mpt_value_is_state(value->kind) ||
            value->kind == MPT_VALUE_STATUS)
            return MPT_OK;
    }
    return FAULT(v, index, "nothing reads what it makes");
}

static mpt_status check_params(const verifier *v) {
    for (int p = 0; p < v->graph->n_params; p++) {
        const mpt_param *param = &v->graph->params[p];
        if (!v->read[param->value])
            return FAULT(v, -1, "nothing reads the parameter %s", param->name);
        if (v->graph->values[param->value].param != p)
            return FAULT(v, -1, "the value of %s belongs to parameter %d", param->name,
                         v->graph->values[param->value].param);
        /* Once the optimizer is there, a gradient that is only added to must start from zero.
         */
        if (v->graph->norm >= 0 && !v->zeroed[param->grad])
            return FAULT(v, -1, "nothing zeroes the gradient of %s", param->name);
    }
    return MPT_OK;
}

mpt_status mpt_graph_verify(const mpt_graph *graph, const char *after) {
    size_t n = (size_t)graph->n_values + 1;
    size_t bytes = 2 * n + (size_t)graph->n_operands;
    bool *flags = mpt_alloc(graph->ctx, bytes);
    if (!flags)
        return mpt_fail_memory(graph->ctx, bytes);
    verifier v = {graph, after, flags, flags + n, flags + 2 * n};
    mpt_status status = MPT_OK;
    for (int i = 0; status == MPT_OK && i < graph->n_nodes; i++)
        status = check_node(&v, i);
    for (int i = 0; status == MPT_OK && graph->pruned && i < graph->n_nodes; i++)
        status = check_used(&v, i);
    if (status == MPT_OK)
        status = check_params(&v);
    mpt_free(graph->ctx, flags);
    return status;
}
