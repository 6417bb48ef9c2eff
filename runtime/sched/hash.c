/* The schedule hash: two recipes that round the same numbers in the same places have the same.
 *
 * It covers the graph after stage 5: ops and their order, formats, shapes, scaling, rounding,
 * rotation, the keys of stochastic streams. It does not cover kernels, device, threads,
 * learning rates or data. Names go in, not enum numbers, so that a hash outlives a reordered
 * enum. */
#include "sched/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Text of one node in a fixed buffer, so that hashing needs no memory and cannot fail. */
typedef struct text {
    char data[4096];
    size_t len;
} text;

MPT_PRINTF(2, 3) static void add(text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->data + t->len, sizeof t->data - t->len, fmt, args);
    va_end(args);
    if (n > 0)
        t->len += (size_t)n;
    if (t->len > sizeof t->data - 1)
        t->len = sizeof t->data - 1;
}

static void add_quantizer(text *t, const char *side, const mpt_quantizer *q, uint32_t operand) {
    char whole[MPT_QUANTIZER_TEXT];
    mpt_quantizer_text(q, whole);
    add(t, " %s %s", side, whole);
    if (q->rounding == MPT_ROUNDING_STOCHASTIC)
        add(t, " %" PRIu32, operand);
}

/* Members that hold a side's quantizer, where this op reads them. */
static void add_quantizers(text *t, const mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    bool copies = node->op == MPT_OP_quantize || node->op == MPT_OP_record_amax;
    if ((copies && a->has_row) || node->op == MPT_OP_scale_update ||
        node->op == MPT_OP_quantize_state)
        add_quantizer(t, "row", &a->row, a->row_operand);
    if (copies && a->has_col)
        add_quantizer(t, "column", &a->col, a->col_operand);
}

/* Each is a name and a value: nine digits are enough for any float. */
static void add_numbers(text *t, const mpt_attrs *a) {
    add(t, " batch %" PRId64 " sequence %" PRId64 " eps %.9g scale %.9g alpha %.9g", a->batch,
        a->sequence, (double)a->eps, (double)a->scale, (double)a->alpha);
    add(t, " heads %" PRId32 " kv_heads %" PRId32 " head_dim %" PRId32 " groups %" PRId32,
        a->heads, a->kv_heads, a->head_dim, a->groups);
    add(t, " state %" PRId32 " kernel %" PRId32 " exact %d p %.9g rate %.9g", a->state,
        a->kernel, a->exact, (double)a->p, (double)a->rate);
    add(t, " experts %" PRId32 " top_k %" PRId32 " top_groups %" PRId32 " align %" PRId32,
        a->experts, a->top_k, a->top_groups, a->align);
    add(t, " by_softmax %d normalize %d", a->by_softmax, a->normalize);
    for (int i = 0; i < a->n_sizes && i < MPT_MAX_PARTS; i++)
        add(t, " sizes[%d] %" PRId64, i, a->sizes[i]);
    add(t, " accumulate %s promote %" PRId32 " softmax %s", mpt_dtype_name(a->sum.accumulate),
        a->sum.promote, mpt_dtype_name(a->softmax));
    add(t, " rope.theta %.9g rope.dims %" PRId32 " rope.scaling %d rope.factor %.9g",
        (double)a->rope.theta, a->rope.dims, (int)a->rope.scaling, (double)a->rope.factor);
    add(t, " rope.low_freq_factor %.9g rope.high_freq_factor %.9g",
        (double)a->rope.low_freq_factor, (double)a->rope.high_freq_factor);
    add(t, " rope.original_positions %" PRId32, a->rope.original_positions);
}

/* What besides operands decides an op's numbers. The optimizer's settings are the recipe
 * hash's; the rate of a choice of experts is the model's. */
static void add_attrs(text *t, const mpt_node *node) {
    if (node->op == MPT_OP_grad_reduce)
        add(t, " reduce %s", mpt_dtype_name(node->attrs.reduce));
    if (node->op == MPT_OP_moe_balance)
        add(t, " rate %.9g", (double)node->attrs.rate);
    if (node->pass != MPT_PASS_UPDATE)
        add_numbers(t, &node->attrs);
    add_quantizers(t, node);
}

void mpt_node_attrs_text(const mpt_node *node, char *out, size_t size) {
    text t = {.len = 0};
    t.data[0] = 0;
    add_attrs(&t, node);
    snprintf(out, size, "%s", t.data);
}

static void add_value(text *t, const mpt_graph *graph, mpt_value_id v) {
    if (v < 0) {
        add(t, " -");
        return;
    }
    const mpt_value *value = &graph->values[v];
    add(t, " %%%" PRId32 " %s", v, mpt_dtype_name(value->dtype));
    for (int i = 0; i < value->rank; i++)
        add(t, "%c%" PRId64, i ? 'x' : ' ', value->dims[i]);
}

static uint64_t hash_node(const mpt_graph *graph, const mpt_node *node) {
    text t;
    t.len = 0;
    add(&t, "%s %s %s", mpt_op_get(node->op)->name, mpt_pass_name(node->pass),
        node->layer >= 0 ? graph->layers[node->layer].path : "-");
    for (int i = 0; i < node->n_in; i++)
        add_value(&t, graph, node->in[i]);
    add(&t, " ->");
    for (int k = 0; k < node->n_out; k++)
        add_value(&t, graph, node->out[k]);
    add_attrs(&t, node);
    return mpt_hash(t.data, t.len);
}

void mpt_schedule_hash(const mpt_graph *graph, char out[17]) {
    uint64_t chain[2] = {0, 0};
    for (int i = 0; i < graph->n_nodes; i++) {
        chain[1] = hash_node(graph, &graph->nodes[i]);
        chain[0] = mpt_hash(chain, sizeof chain);
    }
    snprintf(out, 17, "%016" PRIx64, chain[0]);
}
