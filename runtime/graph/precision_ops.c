/* Stage 5, second part: the casts around operations other than linear layers.
 *
 * Three kinds, each told by the node's slot. "output": a norm puts out 8 bits; all its readers
 * read the cast. "input": an operation of class low, or a loss, reads another format than it is
 * given. "saved": what a backward node reads of the forward pass is kept in
 * precision.state.activation. Backward goes straight through all of them: the gradient of what
 * was cast is that of the cast. A value has one cast to each format, whoever asks.
 *
 * A cast of an activation stands right behind what makes it. Next: precision_copies.c, the
 * operands of GEMMs, which keep copies of their own. */
#include "graph/precision.h"

#include "recipe/schema.h"

/* A cast to come; it makes value n_old + its index. */
typedef struct op_cast {
    mpt_node node;
    int32_t first; /* the first cast of its own result, or -1 */
    int32_t next;  /* the next cast of the same value, or -1 */
} op_cast;

typedef struct op_casts {
    mpt_rewrite *r;
    int n_old; /* values before any cast */
    int32_t *first;
    int n, cap;
    op_cast *list;
} op_casts;

static int32_t *first_of(op_casts *c, mpt_value_id v) {
    return v < c->n_old ? &c->first[v] : &c->list[v - c->n_old].first;
}

static mpt_pass pass_of(const op_casts *c, mpt_value_id v) {
    const mpt_graph *graph = c->r->graph;
    return v < c->n_old ? graph->nodes[graph->values[v].producer].pass
                        : c->list[v - c->n_old].node.pass;
}

/* Appends a cast and makes its value. */
static mpt_status add_cast(op_casts *c, mpt_node node, mpt_value_id *out) {
    mpt_graph *graph = c->r->graph;
    mpt_value source = graph->values[node.in[0]];
    op_cast *grown = mpt_arena_grow(&c->r->arena, c->list, sizeof *grown, c->n, &c->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    c->list = grown;
    MPT_TRY(mpt_op_get(node.op)->def->infer(graph, &node));
    mpt_value *value = &graph->values[node.out[0]];
    value->name = mpt_arena_printf(&graph->arena, "%s:%s", source.name,
                                   mpt_dtype_name(node.attrs.row.format));
    if (!value->name)
        return MPT_OUT_OF_MEMORY;
    c->list[c->n] = (op_cast){node, -1, -1};
    int32_t *link = first_of(c, node.in[0]);
    while (*link >= 0)
        link = &c->list[*link].next;
    *link = c->n++;
    *out = node.out[0];
    return MPT_OK;
}

/* The cast of a value to a format; made where there is none. `asking` gives layer and place. */
static mpt_status cast_to(op_casts *c, mpt_value_id *io, mpt_dtype format, const char *slot,
                          const mpt_node *asking) {
    for (int32_t i = *first_of(c, *io); i >= 0; i = c->list[i].next) {
        if (c->list[i].node.attrs.row.format != format)
            continue;
        *io = c->list[i].node.out[0];
        return MPT_OK;
    }
    mpt_node node = mpt_node_make(MPT_OP_cast, pass_of(c, *io), asking->layer);
    node.n_in = node.n_out = 1;
    node.in[0] = *io;
    node.slot = slot;
    node.where = asking->where;
    node.block = asking->block;
    node.attrs.batch = c->r->graph->batch;
    node.attrs.sequence = c->r->graph->sequence;
    (void)mpt_quantizer_by_name(mpt_dtype_name(format), &node.attrs.row);
    node.attrs.row.format = format;
    return add_cast(c, node, io);
}

/* ---- who reads what ---- */

/* What an op keeps for its own backward pass, which is no activation: logarithms of sums,
 * states, and what chose experts with how much weight stay as they are. */
static bool is_statistic(mpt_op op, int input) {
    return (op == MPT_OP_attention_grad && input == 4) ||
           (op == MPT_OP_ssm_scan_grad && input == 7) || op == MPT_OP_moe_route_grad ||
           (op == MPT_OP_moe_combine_grad && input == 1);
}

/* The format in which a node reads activations; FP32 where it takes what there is. */
static mpt_dtype read_format(const mpt_rewrite *r, const mpt_node *node) {
    const mpt_ops_row *row = mpt_precision_row(node->op);
    if (!row || !row->reads)
        return MPT_DTYPE_FP32;
    if (row->kind == MPT_OPS_CLASS_LOW)
        return mpt_precision_compute(r, node);
    mpt_dtype said = mpt_precision_said(r, row);
    return said != MPT_DTYPE_COUNT ? said : MPT_DTYPE_FP32;
}

/* Whether a node reads what was kept of the forward pass. Linear's products keep operands of
 * their own; between the loss and its gradient nothing is kept. */
static bool reads_saved(const mpt_node *node) {
    return node->pass == MPT_PASS_BACKWARD && node->op != MPT_OP_cross_entropy_grad &&
           mpt_precision_slot(node->op, 0) == MPT_SLOT_COUNT;
}

/* Places of casts: the line that decided the layer's format, else the model's. */
static mpt_where place_of(const mpt_rewrite *r, const mpt_node *node) {
    const mpt_policy *policy = node->layer >= 0 ? &r->options->policies[node->layer] : NULL;
    if (policy && policy->by_ops)
        return policy->ops_where;
    if (policy && policy->n_decided > 0)
        return policy->decided_by[policy->n_decided - 1];
    mpt_ops_word word = mpt_ops_said(r->options->ops, mpt_precision_row(node->op));
    return word != MPT_OPS_COUNT ? r->options->ops[word].where : MPT_NOWHERE;
}

static mpt_status read_input(op_casts *c, const mpt_node *node, int i, mpt_value_id *io) {
    const mpt_rewrite *r = c->r;
    const mpt_graph *graph = r->graph;
    if (graph->values[*io].dtype == MPT_DTYPE_I32)
        return MPT_OK;
    mpt_dtype narrow = r->narrow[*io], reads = read_format(r, node);
    mpt_dtype kept = r->options->activation;
    mpt_node asking = {.layer = node->layer, .block = node->block, .where = place_of(r, node)};
    if (narrow != MPT_DTYPE_FP32) {
        const mpt_node *producer = &graph->nodes[graph->values[*io].producer];
        mpt_node norm = {
            .layer = producer->layer, .block = producer->block, .where = place_of(r, producer)};
        MPT_TRY(cast_to(c, io, narrow, "output", &norm));
    }
    if (is_statistic(node->op, i))
        return MPT_OK;
    if (!mpt_precision_holds(reads, graph->values[*io].dtype))
        MPT_TRY(cast_to(c, io, reads, "input", &asking));
    if (!reads_saved(node) || pass_of(c, *io) != MPT_PASS_FORWARD ||
        mpt_precision_holds(kept, graph->values[*io].dtype))
        return MPT_OK;
    if (r->options->out_activation)
        *r->options->out_activation = true;
    asking.where = r->options->activation_where;
    return cast_to(c, io, kept, "saved", &asking);
}

static mpt_status read_inputs(op_casts *c, mpt_node *node) {
    const mpt_rewrite *r = c->r;
    if (node->pass != MPT_PASS_FORWARD && node->pass != MPT_PASS_BACKWARD)
        return MPT_OK;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && r->graph->values[node->in[i]].kind == MPT_VALUE_ACTIVATION)
            MPT_TRY(read_input(c, node, i, &node->in[i]));
    if (node->layer >= 0 && (node->op == MPT_OP_attention || node->op == MPT_OP_attention_grad))
        node->attrs.softmax = r->options->policies[node->layer].softmax;
    return MPT_OK;
}

/* ---- the new list ---- */

static void append_casts(op_casts *c, mpt_node *nodes, int *n, mpt_value_id v) {
    for (int32_t i = *first_of(c, v); i >= 0; i = c->list[i].next) {
        mpt_precision_append(c->r->graph, nodes, n, &c->list[i].node);
        append_casts(c, nodes, n, c->list[i].node.out[0]);
    }
}

static mpt_status write_list(op_casts *c) {
    mpt_graph *graph = c->r->graph;
    int room = graph->n_nodes + c->n, n = 0;
    mpt_node *nodes = mpt_arena_alloc(&graph->arena, (size_t)room * sizeof *nodes);
    if (!nodes)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        mpt_precision_append(graph, nodes, &n, node);
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                append_casts(c, nodes, &n, node->out[k]);
    }
    graph->nodes = nodes;
    graph->n_nodes = n;
    graph->cap_nodes = room;
    return MPT_OK;
}

mpt_status mpt_precision_cast_ops(mpt_rewrite *rewrite) {
    mpt_graph *graph = rewrite->graph;
    op_casts c = {.r = rewrite, .n_old = graph->n_values};
    c.first = mpt_arena_alloc(&rewrite->arena, (size_t)c.n_old * sizeof *c.first);
    if (!c.first)
        return MPT_OUT_OF_MEMORY;
    for (int v = 0; v < c.n_old; v++)
        c.first[v] = -1;
    for (int i = 0; i < graph->n_nodes; i++)
        MPT_TRY(read_inputs(&c, &graph->nodes[i]));
    return c.n > 0 ? write_list(&c) : MPT_OK;
}
