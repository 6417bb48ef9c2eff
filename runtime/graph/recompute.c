/* Behind stage 5: activations of blocks are computed a second time instead of being kept.
 *
 * Blocks are taken `every` at a time. What a node outside such a segment reads of it, the
 * stream to the next one above all, is kept; every other activation that the segment's backward
 * pass needs is made again there. Its node gets a twin in BACKWARD, right before the first node
 * that needs it, with the same attributes: formats, quantizers, keys of stochastic streams and
 * signs, and the same delayed scale, since scales only move behind the optimizer. So the second
 * result has the bits of the first.
 *
 * A copy that only backward reads (x for wgrad) is made there alone: its forward node is dead
 * then, or one side of it, and prune.c takes it away. A copy made twice is counted and its amax
 * recorded at the first time (row_again, col_again). */
#include "graph/precision.h"

typedef struct recompute {
    mpt_graph *graph;
    mpt_arena arena;    /* of what follows: freed when the pass is done */
    int n_values;       /* of the graph before */
    int32_t *segment;   /* one a node: of forward and backward nodes inside blocks, else -1 */
    bool *kept;         /* one a value: read from outside its segment */
    bool *forward;      /* one a value: a forward node reads it */
    bool *needed;       /* one a value: backward needs it and it is not kept */
    int32_t *before;    /* one a node: the backward node before which its twin stands, or -1 */
    int32_t *first;     /* one a node: the twins that stand before it, a list ... */
    int32_t *next;      /* ... linked through this; both -1 at the end */
    mpt_value_id *twin; /* one a value: what stands for it in backward, or -1 */
    int n_twins;
} recompute;

/* ---- what is kept, what is needed ---- */

static int32_t segment_of(const mpt_graph *graph, const mpt_node *node, int every) {
    int block = mpt_graph_block(graph, node);
    bool timed = node->pass == MPT_PASS_FORWARD || node->pass == MPT_PASS_BACKWARD;
    return timed && block >= 0 ? block / every : -1;
}

/* Fills segment, kept and forward. */
static void find_readers(recompute *r, int every) {
    const mpt_graph *graph = r->graph;
    for (int i = 0; i < graph->n_nodes; i++)
        r->segment[i] = segment_of(graph, &graph->nodes[i], every);
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            mpt_value_id v = node->in[k];
            int32_t maker = v >= 0 ? graph->values[v].producer : -1;
            if (maker < 0)
                continue;
            r->forward[v] |= node->pass == MPT_PASS_FORWARD;
            r->kept[v] |= r->segment[maker] < 0 || r->segment[maker] != r->segment[i];
        }
    }
}

/* The forward node that makes a value which is not kept; -1 where backward reads it as it is.
 */
static int32_t maker_again(const recompute *r, mpt_value_id v) {
    const mpt_value *value = v >= 0 ? &r->graph->values[v] : NULL;
    if (!value || value->kind != MPT_VALUE_ACTIVATION || value->producer < 0 || r->kept[v])
        return -1;
    return r->graph->nodes[value->producer].pass == MPT_PASS_FORWARD ? value->producer : -1;
}

/* The inputs of a node that must be there before node `at`: their makers run again by then. */
static void need_inputs(recompute *r, int index, int32_t at) {
    const mpt_node *node = &r->graph->nodes[index];
    for (int k = 0; k < node->n_in; k++) {
        int32_t maker = maker_again(r, node->in[k]);
        if (maker < 0)
            continue;
        r->needed[node->in[k]] = true;
        if (r->before[maker] < 0 || at < r->before[maker])
            r->before[maker] = at;
    }
}

/* Which forward nodes run again, and where: before the first backward node that needs them or
 * something made from them. Twins of one place are listed in the order of their nodes. */
static void find_twins(recompute *r) {
    const mpt_graph *graph = r->graph;
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].pass == MPT_PASS_BACKWARD)
            need_inputs(r, i, i);
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        int32_t at = r->before[i];
        if (at < 0)
            continue;
        need_inputs(r, i, at); /* makers of inputs stand in front of i */
        r->next[i] = r->first[at];
        r->first[at] = i;
        r->n_twins++;
    }
}

/* ---- twins ---- */

/* Whether the forward node still has to make an output, for itself and not only for its twin.
 */
static bool is_made_first(const recompute *r, mpt_value_id v) {
    return v >= 0 && (r->forward[v] || r->kept[v]);
}

/* The two sides of a quantize node: a twin makes those that backward needs. */
static void choose_sides(const recompute *r, mpt_node *node) {
    mpt_attrs *a = &node->attrs;
    bool made[2], wanted[2];
    for (int side = 0; side < 2; side++) {
        const mpt_value_id *out = node->out + 2 * side;
        made[side] = is_made_first(r, out[0]) || is_made_first(r, out[1]);
        wanted[side] = (out[0] >= 0 && r->needed[out[0]]) || (out[1] >= 0 && r->needed[out[1]]);
    }
    if (a->has_col && a->col.source == MPT_SOURCE_DEQUANTIZED) { /* it needs the row copy */
        made[0] = made[0] || made[1];
        wanted[0] = wanted[0] || wanted[1];
    }
    a->row_again = a->has_row && made[0];
    a->col_again = a->has_col && made[1];
    for (int side = 0; side < 2; side++) {
        if (wanted[side])
            continue;
        *(side ? &a->has_col : &a->has_row) = false;
        node->in[1 + 2 * side] = node->in[2 + 2 * side] = -1;
        node->out[2 * side] = node->out[1 + 2 * side] = -1;
    }
    node->recomputed = !(a->has_row && !a->row_again) && !(a->has_col && !a->col_again);
}

/* A value like `v` for the twin of its maker. */
static mpt_value_id twin_value(recompute *r, mpt_value_id v) {
    mpt_graph *graph = r->graph;
    const mpt_value old = graph->values[v]; /* appending may move the list */
    const char *name = mpt_arena_printf(&r->arena, "re.%s", old.name);
    if (!name)
        return -1;
    mpt_value_id id = mpt_graph_value(graph, name, old.kind, old.dtype, old.rank, old.dims);
    if (id < 0)
        return -1;
    graph->values[id].param = old.param;
    graph->values[id].needs_grad = old.needs_grad;
    if (!r->kept[v])
        r->twin[v] = id;
    return id;
}

/* Lets a node read twins where there are any. */
static void read_twins(const recompute *r, mpt_node *node) {
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && node->in[k] < r->n_values && r->twin[node->in[k]] >= 0)
            node->in[k] = r->twin[node->in[k]];
}

static mpt_status make_twin(recompute *r, int index, mpt_node *out) {
    mpt_node node = r->graph->nodes[index];
    node.pass = MPT_PASS_BACKWARD;
    node.recomputed = false;
    for (int k = 0; k < node.n_out; k++)
        node.recomputed |= is_made_first(r, node.out[k]);
    if (node.op == MPT_OP_quantize)
        choose_sides(r, &node);
    read_twins(r, &node);
    for (int k = 0; k < node.n_out; k++) {
        if (node.out[k] < 0)
            continue;
        if (mpt_value_is_state(r->graph->values[node.out[k]].kind)) {
            node.out[k] = -1; /* a load of experts is counted once */
            continue;
        }
        node.out[k] = twin_value(r, node.out[k]);
        if (node.out[k] < 0)
            return r->graph->ctx->error.code;
    }
    *out = node;
    return MPT_OK;
}

/* ---- the new list ---- */

static mpt_status rewrite(recompute *r) {
    mpt_graph *graph = r->graph;
    int n = 0, room = graph->n_nodes + r->n_twins;
    mpt_node *list = mpt_arena_alloc(&graph->arena, mpt_size_mul((size_t)room, sizeof *list));
    if (!list)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_nodes; i++) {
        mpt_node node = graph->nodes[i], twin;
        for (int32_t t = r->first[i]; t >= 0; t = r->next[t]) {
            MPT_TRY(make_twin(r, t, &twin));
            mpt_precision_append(graph, list, &n, &twin);
        }
        if (node.pass == MPT_PASS_BACKWARD)
            read_twins(r, &node);
        mpt_precision_append(graph, list, &n, &node);
    }
    graph->nodes = list;
    graph->n_nodes = n;
    graph->cap_nodes = room;
    return MPT_OK;
}

/* Casts and quantize nodes are labelled with the slots that they serve, which may be fewer now
 * that some are served by the twin. */
static mpt_status label_copies(recompute *r) {
    mpt_graph *graph = r->graph;
    const char *texts[MPT_SLOT_SETS] = {NULL};
    uint8_t *slots = mpt_arena_alloc(&r->arena, (size_t)graph->n_nodes + 1);
    if (!slots)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        for (int k = 0; mpt_precision_slot(node->op, 0) != MPT_SLOT_COUNT && k < 2; k++) {
            int32_t maker = graph->values[node->in[k]].producer;
            if (maker >= 0)
                slots[maker] |= (uint8_t)(1U << mpt_precision_slot(node->op, k));
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        mpt_node *node = &graph->nodes[i];
        if (!node->slot || !slots[i] || !(mpt_op_get(node->op)->flags & MPT_OP_CAST))
            continue;
        node->slot = mpt_precision_slots_text(&graph->arena, texts, slots[i]);
        if (!node->slot)
            return MPT_OUT_OF_MEMORY;
    }
    return MPT_OK;
}

/* ---- the pass ---- */

static int32_t *ids(mpt_arena *arena, size_t n) {
    int32_t *list = mpt_arena_alloc(arena, mpt_size_mul(n, sizeof *list));
    for (size_t i = 0; list && i < n; i++)
        list[i] = -1;
    return list;
}

static mpt_status run(recompute *r, int every) {
    size_t n_nodes = (size_t)r->graph->n_nodes, n_values = (size_t)r->n_values;
    r->segment = ids(&r->arena, n_nodes);
    r->before = ids(&r->arena, n_nodes);
    r->first = ids(&r->arena, n_nodes);
    r->next = ids(&r->arena, n_nodes);
    r->twin = ids(&r->arena, n_values);
    bool *flags = mpt_arena_alloc(&r->arena, mpt_size_mul(n_values, 3));
    if (!r->segment || !r->before || !r->first || !r->next || !r->twin || !flags)
        return MPT_OUT_OF_MEMORY;
    r->kept = flags;
    r->forward = flags + n_values;
    r->needed = flags + 2 * n_values;
    find_readers(r, every);
    find_twins(r);
    MPT_TRY(rewrite(r));
    return label_copies(r);
}

mpt_status mpt_graph_recompute(mpt_graph *graph, int every) {
    if (every < 1 || graph->n_blocks == 0)
        return MPT_OK;
    recompute r = {.graph = graph, .n_values = graph->n_values};
    mpt_arena_init(&r.arena, graph->ctx);
    mpt_status status = run(&r, every);
    mpt_arena_deinit(&r.arena);
    /* Forward copies that only backward had read are dead now. */
    return status == MPT_OK ? mpt_graph_prune(graph) : status;
}
