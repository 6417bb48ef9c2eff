/* The graph's own storage: values, nodes, and the one way in for both.
 *
 * Models come here through nn.c, gradients through autodiff.c, the optimizer through update.c.
 * What an op may take and what it makes is said by its row (op_*.c); this file only keeps the
 * lists and the links between them. */
#include "graph/graph.h"

#include "graph/op.h"

/* Enough for any real tensor, and small enough that products of two never wrap. */
static const int64_t LARGEST = (int64_t)1 << 46;

const char *mpt_pass_name(mpt_pass pass) {
    static const char *const names[] = {"prepare", "forward", "backward", "update"};
    return (unsigned)pass < MPT_PASS_COUNT ? names[pass] : "?";
}

/* ---- life ---- */

mpt_status mpt_graph_create(mpt_ctx *ctx, int64_t batch, int64_t sequence, int64_t vocab,
                            mpt_graph **out) {
    *out = NULL;
    if (batch >= 1 && sequence >= 1 && batch > LARGEST / sequence) {
        mpt_status status =
            MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                     "batch %lld times sequence %lld is more tokens than a tensor can hold",
                     (long long)batch, (long long)sequence);
        mpt_hint(ctx, "lower train.batch, train.micro_batch or train.sequence");
        return status;
    }
    if (batch < 1 || sequence < 1 || vocab < 1)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "batch %lld, sequence %lld and vocabulary %lld must all be at least 1",
                        (long long)batch, (long long)sequence, (long long)vocab);
    mpt_graph *graph = mpt_alloc(ctx, sizeof *graph);
    if (!graph)
        return mpt_fail_memory(ctx, sizeof *graph);
    *graph = (mpt_graph){.ctx = ctx, .batch = batch, .sequence = sequence, .vocab = vocab};
    mpt_arena_init(&graph->arena, ctx);
    graph->tokens = graph->targets = graph->positions = -1;
    graph->loss = graph->logits = graph->finite = graph->norm = -1;
    *out = graph;
    return MPT_OK;
}

void mpt_graph_destroy(mpt_graph *graph) {
    if (!graph)
        return;
    mpt_ctx *ctx = graph->ctx;
    mpt_arena_deinit(&graph->arena);
    mpt_free(ctx, graph);
}

int64_t mpt_graph_n_ids(const mpt_graph *graph) {
    int64_t least = -1;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op != MPT_OP_embedding || node->in[0] != graph->tokens)
            continue;
        int64_t rows = graph->values[node->in[1]].dims[0];
        least = least < 0 || rows < least ? rows : least;
    }
    return least < 0 ? graph->vocab : least;
}

int64_t mpt_graph_n_logits(const mpt_graph *graph) {
    return graph->logits < 0 ? graph->vocab : graph->values[graph->logits].dims[1];
}

/* ---- values ---- */

int64_t mpt_value_elements(const mpt_value *value) {
    int64_t n = 1;
    for (int i = 0; i < value->rank; i++)
        n *= value->dims[i];
    return n;
}

/* Whether a shape has 1 to MPT_MAX_RANK dimensions, none empty, and a size that fits memory. */
static bool shape_is_sound(int rank, const int64_t *dims) {
    int64_t n = 1;
    if (rank < 1 || rank > MPT_MAX_RANK)
        return false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > LARGEST / n)
            return false;
        n *= dims[i];
    }
    return true;
}

mpt_value_id mpt_graph_value(mpt_graph *graph, const char *name, mpt_value_kind kind,
                             mpt_dtype dtype, int rank, const int64_t *dims) {
    if (!shape_is_sound(rank, dims)) {
        (void)MPT_FAIL(
            graph->ctx, MPT_INVALID, MPT_NOWHERE,
            "%s: a value needs 1 to %d dimensions, each at least 1, and at most 2^46 "
            "elements",
            name, MPT_MAX_RANK);
        return -1;
    }
    mpt_value *values = mpt_arena_grow(&graph->arena, graph->values, sizeof *values,
                                       graph->n_values, &graph->cap_values);
    if (!values)
        return -1;
    graph->values = values;
    const char *copy = mpt_arena_strdup(&graph->arena, name);
    if (!copy)
        return -1;
    mpt_value *v = &values[graph->n_values];
    *v = (mpt_value){.name = copy, .kind = kind, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        v->dims[i] = dims[i];
    v->producer = v->param = -1;
    v->needs_grad = kind != MPT_VALUE_INPUT;
    return graph->n_values++;
}

bool mpt_value_is_state(mpt_value_kind kind) {
    return kind == MPT_VALUE_PARAM || kind == MPT_VALUE_GRAD || kind == MPT_VALUE_MOMENT ||
           kind == MPT_VALUE_SCALE;
}

/* ---- nodes ---- */

mpt_node mpt_node_make(mpt_op op, mpt_pass pass, int32_t layer) {
    mpt_node node = {.op = op, .pass = pass, .layer = layer, .block = -1};
    for (int i = 0; i < MPT_MAX_IN; i++)
        node.in[i] = -1;
    for (int i = 0; i < MPT_MAX_OUT; i++)
        node.out[i] = -1;
    return node;
}

int mpt_graph_block(const mpt_graph *graph, const mpt_node *node) {
    if (node->block >= 0 || node->layer < 0)
        return node->block;
    return graph->layers[node->layer].block;
}

/* Tells the outputs who makes them, and whether gradients must pass through. */
static void link_outputs(mpt_graph *graph, const mpt_node *node, int index) {
    bool needs = false;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            needs |= graph->values[node->in[i]].needs_grad;
    for (int i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0)
            continue;
        mpt_value *v = &graph->values[node->out[i]];
        if (mpt_value_is_state(v->kind))
            continue;
        v->producer = index;
        v->needs_grad = needs;
    }
}

mpt_status mpt_graph_append(mpt_graph *graph, const mpt_node *node, int *out_index) {
    const mpt_op_row *row = mpt_op_get(node->op);
    mpt_node *nodes = mpt_arena_grow(&graph->arena, graph->nodes, sizeof *nodes, graph->n_nodes,
                                     &graph->cap_nodes);
    if (!nodes)
        return MPT_OUT_OF_MEMORY;
    graph->nodes = nodes;
    mpt_node copy = *node;
    copy.n_in = (int8_t)row->n_in;
    copy.n_out = (int8_t)row->n_out;
    for (int i = 0; i < row->n_in; i++)
        if (copy.in[i] >= graph->n_values)
            return MPT_OP_FAIL(graph, node, "input %d is no value of this graph", i + 1);
    MPT_TRY(row->def->infer(graph, &copy));
    int index = graph->n_nodes++;
    nodes[index] = copy;
    link_outputs(graph, &copy, index);
    if (out_index)
        *out_index = index;
    return MPT_OK;
}
