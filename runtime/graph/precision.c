/* Stage 5: rewrites the whole graph to the recipe's policies.
 *
 * In: the graph after autodiff and the optimizer's tail, one policy a layer. Out: the same
 * nodes in the same order with every cast and quantize node between them, so that nothing about
 * precision is decided later. The formats of values are precision_dtypes.c, casts of
 * operations other than linear layers precision_ops.c, the choice of copies precision_copies.c;
 * this file writes the new list. Stage 6 (sched/select.c) is next.
 *
 * A copy stands right behind the node that makes its tensor, and runs in the same pass: an
 * activation's in FORWARD, a gradient's in BACKWARD. Copies of weights stand in front and run
 * in PREPARE, once an optimizer step. */
#include "graph/precision.h"

#include <stdio.h>
#include <string.h>

#include "recipe/use.h"

/* The list being written. Room for all of it is made before. */
typedef struct node_list {
    int n;
    mpt_node *nodes;
} node_list;

void mpt_precision_append(mpt_graph *graph, mpt_node *nodes, int *n, const mpt_node *node) {
    nodes[*n] = *node;
    for (int k = 0; k < node->n_out; k++) {
        mpt_value *value = node->out[k] >= 0 ? &graph->values[node->out[k]] : NULL;
        if (value && !mpt_value_is_state(value->kind))
            value->producer = *n;
    }
    (*n)++;
}

static void append(node_list *list, mpt_graph *graph, const mpt_node *node) {
    mpt_precision_append(graph, list->nodes, &list->n, node);
}

const char *mpt_precision_slots_text(mpt_arena *arena, const char **texts, uint32_t slots) {
    if (texts[slots])
        return texts[slots];
    const char *text = NULL;
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        const char *name = mpt_slot_name((mpt_slot)s);
        if (!(slots >> s & 1))
            continue;
        text = text ? mpt_arena_printf(arena, "%s + %s", text, name)
                    : mpt_arena_strdup(arena, name);
        if (!text)
            return NULL;
    }
    texts[slots] = text;
    return text;
}

/* The node of a copy, without its outputs. */
static mpt_node copy_node(const mpt_graph *graph, const mpt_copy *copy, mpt_pass pass) {
    mpt_node node =
        mpt_node_make(copy->is_cast ? MPT_OP_cast : MPT_OP_quantize, pass, copy->layer);
    const mpt_copy_side *row = &copy->side[MPT_SIDE_ROW], *col = &copy->side[MPT_SIDE_COLUMN];
    node.n_in = 1;
    node.n_out = copy->is_cast ? 1 : 4;
    node.where = copy->where;
    node.in[0] = copy->value;
    node.attrs.batch = graph->batch;
    node.attrs.sequence = graph->sequence;
    node.attrs.has_row = row->wanted && !copy->is_cast;
    node.attrs.has_col = col->wanted;
    node.attrs.row = row->q;
    node.attrs.col = col->q;
    node.attrs.row_operand = row->operand;
    node.attrs.col_operand = col->operand;
    node.attrs.row_scope = row->scope;
    node.attrs.col_scope = col->scope;
    return node;
}

/* Makes the two sides of a quantize node operands of the graph, with the state that delayed
 * scaling reads. */
static mpt_status add_operands(mpt_graph *graph, const mpt_copy *copy, mpt_node *node) {
    for (int side = MPT_SIDE_ROW; side <= MPT_SIDE_COLUMN; side++) {
        int32_t *index = side ? &node->attrs.col_index : &node->attrs.row_index;
        if (copy->is_cast || !copy->side[side].wanted)
            continue;
        MPT_TRY(mpt_precision_add_operand(graph, &copy->side[side], index));
        const mpt_graph_operand *operand = &graph->operands[*index];
        if (operand->scale < 0)
            continue;
        node->in[1 + 2 * side] = operand->scale;
        node->in[2 + 2 * side] = operand->history;
        node->n_in = (int8_t)(3 + 2 * side);
    }
    return MPT_OK;
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
    node.slot = mpt_precision_slots_text(&graph->arena, r->slot_texts, copy->slots);
    if (!node.slot)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(add_operands(graph, copy, &node));
    MPT_TRY(mpt_op_get(node.op)->def->infer(graph, &node));
    MPT_TRY(describe_outputs(graph, &node));
    memcpy(copy->out, node.out, sizeof copy->out);
    copy->node = list->n;
    append(list, graph, &node);
    return MPT_OK;
}

/* The copies of a value, and what is recorded of it for the next phase. */
static mpt_status emit_copies_of(mpt_rewrite *r, node_list *list, mpt_value_id value,
                                 mpt_pass pass) {
    for (int32_t c = r->first_copy[value]; c >= 0; c = r->copies[c].next)
        MPT_TRY(emit_copy(r, list, &r->copies[c], pass));
    for (int i = 0; i < r->n_recordings; i++) {
        mpt_node node;
        if (r->recordings[i].value != value)
            continue;
        MPT_TRY(mpt_precision_record(r->graph, &r->recordings[i], pass, &node));
        append(list, r->graph, &node);
    }
    return MPT_OK;
}

/* Lets a GEMM read the copies it was found to need. The factor of an outer scale is its amax;
 * what it is divided by is the same at every step, and goes into alpha: NVFP4 decodes by
 * amax / (448 * 6). Products of two divisors are exact in double. */
static void read_copies(const mpt_rewrite *r, const mpt_read reads[2], mpt_node *node) {
    double divisor = 1.0;
    for (int operand = 0; operand < 2; operand++) {
        if (reads[operand].copy < 0)
            continue;
        const mpt_copy *copy = &r->copies[reads[operand].copy];
        bool column = reads[operand].column && !copy->is_cast;
        node->in[operand] = copy->out[column ? 2 : 0];
        if (copy->is_cast)
            continue;
        mpt_value_id factor = copy->out[column ? 3 : 1];
        divisor *= (double)mpt_quantizer_divisor(&copy->side[column].q);
        if (factor < 0)
            continue;
        for (int i = node->n_in; i < 5; i++)
            node->in[i] = -1;
        node->n_in = node->n_in < 5 ? 5 : node->n_in;
        node->in[3 + operand] = factor;
    }
    node->attrs.alpha = (float)(1.0 / divisor);
}

/* How the product is summed up is the layer's to say. */
static void set_sum(const mpt_rewrite *r, mpt_node *node) {
    mpt_gemm gemm = mpt_slot_gemm(mpt_precision_slot(node->op, 0));
    if (node->layer < 0)
        return;
    const mpt_policy *policy = &r->options->policies[node->layer];
    node->attrs.sum = (mpt_gemm_sum){policy->accumulate[gemm], policy->promote[gemm]};
}

/* What the ranks send of a gradient. The load of an expert is a count, and is sent as it is. */
static void set_reduce(const mpt_rewrite *r, mpt_node *node) {
    if (!r->graph->params[r->graph->values[node->in[0]].param].balanced)
        node->attrs.reduce = r->options->state.reduce;
}

/* The stream of a state that is rounded by chance: contract 9, with "PARAM/master" for the
 * operand. */
static uint32_t state_id(const mpt_param *param, int which) {
    static const char *const names[] = {"master", "adam_m", "adam_v"};
    char key[512];
    int n = snprintf(key, sizeof key, "%s/%s", param->name, names[which]);
    size_t length = n < (int)sizeof key ? (size_t)n : sizeof key - 1;
    return (uint32_t)(mpt_hash(key, length) & 0x7fffffffu);
}

/* Behind a step of the optimizer: what brings its weights and moments to formats that a cast
 * does not reach. */
static mpt_status emit_states(mpt_rewrite *r, node_list *list, mpt_node *step) {
    mpt_graph *graph = r->graph;
    const mpt_param *param = &graph->params[graph->values[step->in[0]].param];
    const mpt_value_id states[] = {param->value, param->moment[0], param->moment[1]};
    step->attrs.kept_later = graph->values[param->value].kept != NULL;
    append(list, graph, step);
    for (int i = 0; i < (int)MPT_COUNT(states); i++) {
        const mpt_quantizer *kept = states[i] < 0 ? NULL : graph->values[states[i]].kept;
        if (!kept)
            continue;
        mpt_node node = mpt_node_make(MPT_OP_quantize_state, MPT_PASS_UPDATE, step->layer);
        node.n_in = 2;
        node.n_out = 1;
        node.in[0] = states[i];
        node.in[1] = step->in[step->op == MPT_OP_adamw ? 4 : 3];
        node.attrs.row = *kept;
        node.attrs.row_operand = state_id(param, i);
        MPT_TRY(mpt_op_get(node.op)->def->infer(graph, &node));
        append(list, graph, &node);
    }
    return MPT_OK;
}

/* Behind the optimizer: one node for each side whose scaling is delayed, or will be. */
static mpt_status emit_scale_updates(mpt_rewrite *r, node_list *list) {
    mpt_graph *graph = r->graph;
    if (r->options->evaluating)
        return MPT_OK;
    for (int c = 0; c < r->n_copies; c++) {
        const mpt_copy *copy = &r->copies[c];
        for (int side = MPT_SIDE_ROW; side <= MPT_SIDE_COLUMN && !copy->is_cast; side++) {
            const mpt_copy_side *s = &copy->side[side];
            if (!s->wanted || s->q.scale.kind != MPT_SCALING_DELAYED)
                continue;
            const mpt_node *quantize = &list->nodes[copy->node];
            mpt_node node = mpt_node_make(MPT_OP_scale_update, MPT_PASS_UPDATE, s->layer);
            node.n_in = 2;
            node.n_out = 1;
            node.in[0] = quantize->in[1 + 2 * side];
            node.in[1] = quantize->in[2 + 2 * side];
            node.attrs.row = s->q;
            node.slot = mpt_slot_name(s->slot);
            node.where = copy->where;
            MPT_TRY(mpt_op_get(node.op)->def->infer(graph, &node));
            append(list, graph, &node);
        }
    }
    for (int i = 0; i < r->n_recordings; i++) {
        mpt_node node;
        MPT_TRY(mpt_precision_record_update(graph, &r->recordings[i], &node));
        append(list, graph, &node);
    }
    return MPT_OK;
}

static mpt_status rewrite_nodes(mpt_rewrite *r, node_list *list) {
    mpt_graph *graph = r->graph;
    int n_values = graph->n_values; /* of the old graph: the copies add more */
    for (mpt_value_id v = 0; v < n_values; v++)
        if (graph->values[v].kind == MPT_VALUE_PARAM)
            MPT_TRY(emit_copies_of(r, list, v, MPT_PASS_PREPARE));
    for (int i = 0; i < graph->n_nodes; i++) {
        mpt_node node = graph->nodes[i];
        if (mpt_precision_slot(node.op, 0) != MPT_SLOT_COUNT) {
            read_copies(r, r->reads[i], &node);
            set_sum(r, &node);
        }
        if (node.op == MPT_OP_grad_reduce)
            set_reduce(r, &node);
        if (node.op == MPT_OP_adamw || node.op == MPT_OP_sgd) {
            MPT_TRY(emit_states(r, list, &node));
            continue;
        }
        append(list, graph, &node);
        for (int k = 0; k < node.n_out; k++)
            if (node.out[k] >= 0 && graph->values[node.out[k]].kind == MPT_VALUE_ACTIVATION)
                MPT_TRY(emit_copies_of(r, list, node.out[k], node.pass));
    }
    return emit_scale_updates(r, list);
}

static mpt_status run_rewrite(mpt_rewrite *r) {
    mpt_graph *graph = r->graph;
    MPT_TRY(mpt_precision_set_dtypes(r));
    MPT_TRY(mpt_precision_cast_ops(r));
    MPT_TRY(mpt_precision_find_copies(r));
    if (r->options->next)
        MPT_TRY(mpt_precision_find_recordings(r));
    /* a copy's scale updates are two at most, a parameter's states three */
    int room = graph->n_nodes + 3 * r->n_copies + 3 * graph->n_params + 2 * r->n_recordings;
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
