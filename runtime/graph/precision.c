/* Stage 5: rewrites the whole graph to the recipe's policies.
 *
 * In: the graph after autodiff and the optimizer's tail, one policy a layer. Out: the same
 * nodes in the same order with every cast and quantize node between them, so that nothing about
 * precision is decided later. The formats of values are precision_dtypes.c, the choice of
 * copies precision_copies.c; this file writes the new list. Stage 6 (sched/select.c) is next.
 *
 * A copy stands right behind the node that makes its tensor, and runs in the same pass: an
 * activation's in FORWARD, a gradient's in BACKWARD. Copies of weights stand in front and run
 * in PREPARE, once an optimizer step. */
#include "graph/precision.h"

#include <string.h>

/* The list being written. Room for all of it is made before. */
typedef struct node_list {
    int n;
    mpt_node *nodes;
} node_list;

/* State has no producer: many nodes write it in place. */
static bool is_state(mpt_value_kind kind) {
    return kind == MPT_VALUE_PARAM || kind == MPT_VALUE_GRAD || kind == MPT_VALUE_MOMENT;
}

static void append(node_list *list, mpt_graph *graph, const mpt_node *node) {
    list->nodes[list->n] = *node;
    for (int k = 0; k < node->n_out; k++) {
        mpt_value *value = node->out[k] >= 0 ? &graph->values[node->out[k]] : NULL;
        if (value && !is_state(value->kind))
            value->producer = list->n;
    }
    list->n++;
}

/* "fprop.x + wgrad.x", made once for each set of slots. */
static const char *slot_text(mpt_rewrite *r, uint32_t slots) {
    if (r->slot_texts[slots])
        return r->slot_texts[slots];
    const char *text = NULL;
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const char *name = mpt_slot_name((mpt_slot)s);
        if (!(slots >> s & 1))
            continue;
        text = text ? mpt_arena_printf(&r->graph->arena, "%s + %s", text, name)
                    : mpt_arena_strdup(&r->graph->arena, name);
        if (!text)
            return NULL;
    }
    r->slot_texts[slots] = text;
    return text;
}

/* The node of a copy, without its outputs. */
static mpt_node copy_node(const mpt_graph *graph, const mpt_copy *copy, mpt_pass pass) {
    mpt_node node =
        mpt_node_make(copy->is_cast ? MPT_OP_cast : MPT_OP_quantize, pass, copy->layer);
    node.n_in = 1;
    node.n_out = copy->is_cast ? 1 : 4;
    node.where = copy->where;
    node.in[0] = copy->value;
    node.attrs.batch = graph->batch;
    node.attrs.sequence = graph->sequence;
    node.attrs.has_row = copy->has_row;
    node.attrs.has_col = copy->has_col;
    node.attrs.row = copy->row;
    node.attrs.col = copy->col;
    node.attrs.row_operand = copy->row_operand;
    node.attrs.col_operand = copy->col_operand;
    return node;
}

/* Names the outputs of a copy after its tensor. */
static mpt_status describe_outputs(mpt_graph *graph, const mpt_node *node) {
    static const char *const suffix[] = {"", ".factor", ".t", ".t.factor"};
    mpt_value source = graph->values[node->in[0]];
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        mpt_value *value = &graph->values[node->out[k]];
        const char *format = k % 2 == 0 ? mpt_dtype_name(value->dtype)
                                        : mpt_dtype_name(graph->values[node->out[k - 1]].dtype);
        value->name =
            mpt_arena_printf(&graph->arena, "%s:%s%s", source.name, format, suffix[k]);
        if (!value->name)
            return MPT_OUT_OF_MEMORY;
        value->param = source.param;
    }
    return MPT_OK;
}

static mpt_status emit_copy(mpt_rewrite *r, node_list *list, mpt_copy *copy, mpt_pass pass) {
    mpt_graph *graph = r->graph;
    mpt_node node = copy_node(graph, copy, pass);
    node.slot = slot_text(r, copy->slots);
    if (!node.slot)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_op_get(node.op)->def->infer(graph, &node));
    MPT_TRY(describe_outputs(graph, &node));
    memcpy(copy->out, node.out, sizeof copy->out);
    append(list, graph, &node);
    return MPT_OK;
}

static mpt_status emit_copies_of(mpt_rewrite *r, node_list *list, mpt_value_id value,
                                 mpt_pass pass) {
    for (int32_t c = r->first_copy[value]; c >= 0; c = r->copies[c].next)
        MPT_TRY(emit_copy(r, list, &r->copies[c], pass));
    return MPT_OK;
}

/* The constant part of a tensor scale: NVFP4 decodes by amax / (6 * 448), and the factor that
 * the quantize node puts out is the amax. */
static double constant_scale(const mpt_quantizer *q) {
    bool nvfp4 = q->format == MPT_DTYPE_E2M1 && q->outer == MPT_OUTER_TENSOR;
    return nvfp4 ? 1.0 / 2688.0 : 1.0;
}

/* Lets a GEMM read the copies it was found to need. */
static void read_copies(const mpt_rewrite *r, const mpt_read reads[2], mpt_node *node) {
    double alpha = 1.0;
    for (int operand = 0; operand < 2; operand++) {
        if (reads[operand].copy < 0)
            continue;
        const mpt_copy *copy = &r->copies[reads[operand].copy];
        bool column = reads[operand].column && !copy->is_cast;
        node->in[operand] = copy->out[column ? 2 : 0];
        if (copy->is_cast)
            continue;
        mpt_value_id factor = copy->out[column ? 3 : 1];
        alpha *= constant_scale(column ? &copy->col : &copy->row);
        if (factor < 0)
            continue;
        for (int i = node->n_in; i < 5; i++)
            node->in[i] = -1;
        node->n_in = 5;
        node->in[3 + operand] = factor;
    }
    node->attrs.alpha = (float)alpha;
}

static mpt_status rewrite_nodes(mpt_rewrite *r, node_list *list) {
    mpt_graph *graph = r->graph;
    int n_values = graph->n_values; /* of the old graph: the copies add more */
    for (mpt_value_id v = 0; v < n_values; v++)
        if (graph->values[v].kind == MPT_VALUE_PARAM)
            MPT_TRY(emit_copies_of(r, list, v, MPT_PASS_PREPARE));
    for (int i = 0; i < graph->n_nodes; i++) {
        mpt_node node = graph->nodes[i];
        if (mpt_precision_slot(node.op, 0) != MPT_SLOT_COUNT)
            read_copies(r, r->reads[i], &node);
        append(list, graph, &node);
        for (int k = 0; k < node.n_out; k++)
            if (node.out[k] >= 0 && graph->values[node.out[k]].kind == MPT_VALUE_ACTIVATION)
                MPT_TRY(emit_copies_of(r, list, node.out[k], node.pass));
    }
    return MPT_OK;
}

static mpt_status run_rewrite(mpt_rewrite *r) {
    mpt_graph *graph = r->graph;
    MPT_TRY(mpt_precision_set_dtypes(r));
    MPT_TRY(mpt_precision_find_copies(r));
    int room = graph->n_nodes + r->n_copies;
    node_list list = {0, mpt_arena_alloc(&graph->arena, (size_t)room * sizeof(mpt_node))};
    if (!list.nodes)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(rewrite_nodes(r, &list));
    graph->nodes = list.nodes;
    graph->n_nodes = list.n;
    graph->cap_nodes = room;
    return mpt_graph_verify(graph, "precise");
}

mpt_status mpt_graph_apply_precision(mpt_graph *graph, const mpt_precision_options *options) {
    mpt_rewrite rewrite = {.graph = graph, .options = options};
    mpt_arena_init(&rewrite.arena, graph->ctx);
    mpt_status status = run_rewrite(&rewrite);
    mpt_arena_deinit(&rewrite.arena);
    return status;
}
