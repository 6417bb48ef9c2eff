/* The dumps of stages 6 to 8: chosen kernels, steps, memory.
 *
 * The schedule is the recipe made explicit: every cast, scale, rounding and rotation stands on
 * a line with the recipe line that asked for it. Golden tests compare it, newcomers read it. */
#include "sched/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "kernels/quantize.h"

mpt_where mpt_schedule_where(const mpt_phase_program *program, const mpt_node *node) {
    unsigned flags = mpt_op_get(node->op)->flags;
    if (node->layer < 0 || !program->policies || flags & (MPT_OP_CAST | MPT_OP_UPDATE))
        return node->where;
    const mpt_policy *policy = &program->policies[node->layer];
    if (policy->by_ops)
        return policy->ops_where;
    return policy->n_decided > 0 ? policy->decided_by[policy->n_decided - 1] : node->where;
}

/* ---- small texts ---- */

enum { CELL = 512 };

/* A cell being put together; what does not fit is cut. */
typedef struct cell {
    char data[CELL];
    size_t len;
} cell;

MPT_PRINTF(2, 3) static void add(cell *c, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(c->data + c->len, CELL - c->len, fmt, args);
    va_end(args);
    c->len += n > 0 ? (size_t)n : 0;
    if (c->len > CELL - 1)
        c->len = CELL - 1;
}

static void add_quantizer(cell *c, const mpt_quantizer *q) {
    char brief[MPT_QUANTIZER_TEXT];
    mpt_quantizer_brief(q, brief);
    add(c, "%s", brief);
}

static const mpt_value *value_at(const mpt_graph *graph, mpt_value_id v) {
    return v >= 0 ? &graph->values[v] : NULL;
}

/* A GEMM is described by its two operands, since bias and factors come with them; a step of
 * the optimizer and a quantize node by the tensor they are about. */
static int n_operands(const mpt_node *node) {
    unsigned flags = mpt_op_get(node->op)->flags;
    bool one = flags & MPT_OP_UPDATE || node->op == MPT_OP_quantize;
    return flags & MPT_OP_MATMUL ? 2 : one ? 1 : node->n_in;
}

/* What a value's numbers are: the recipe's word for quantized data, else the format. */
static const char *format_name(const mpt_graph *graph, mpt_value_id v) {
    int32_t producer = graph->values[v].producer;
    const mpt_node *node = producer >= 0 ? &graph->nodes[producer] : NULL;
    if (!node || node->op != MPT_OP_quantize)
        return mpt_dtype_name(graph->values[v].dtype);
    const mpt_quantizer *q = node->out[0] == v ? &node->attrs.row : &node->attrs.col;
    return q->name ? q->name : mpt_dtype_name(q->format);
}

bool mpt_schedule_signs(const mpt_phase_program *program, const mpt_node *node, bool column,
                        char out[MPT_SIGNS_TEXT]) {
    const mpt_attrs *a = &node->attrs;
    const mpt_hadamard *h = column ? &a->col.hadamard : &a->row.hadamard;
    mpt_random_key key = {.seed = program->seed};
    uint32_t signs[4];
    int n = 2;
    if (h->size == 0 || h->signs != MPT_SIGNS_RANDOM || h->redraw != MPT_REDRAW_NEVER)
        return false;
    mpt_hadamard_signs(h, &key, column ? a->col_scope : a->row_scope, signs);
    memcpy(out, "0x", 3);
    for (int word = (h->size - 1) / 32; word >= 0; word--) {
        int bits = h->size - 32 * word;
        uint32_t mask = bits < 32 ? (1u << bits) - 1 : 0xFFFFFFFFu;
        n += snprintf(out + n, (size_t)(MPT_SIGNS_TEXT - n), "%0*" PRIx32,
                      bits < 32 ? (bits + 3) / 4 : 8, signs[word] & mask);
    }
    return true;
}

/* One copy of a quantize node, with its random signs. */
static void add_copy(cell *c, const mpt_phase_program *program, const mpt_node *node,
                     bool column) {
    char signs[MPT_SIGNS_TEXT];
    add_quantizer(c, column ? &node->attrs.col : &node->attrs.row);
    if (mpt_schedule_signs(program, node, column, signs))
        add(c, " %s", signs);
}

/* AdamW's moments, where they are not kept in FP32. */
static void add_moments(cell *c, const mpt_graph *graph, const mpt_node *node) {
    if (node->op != MPT_OP_adamw)
        return;
    mpt_dtype m = graph->values[node->in[2]].dtype, v = graph->values[node->in[3]].dtype;
    if (graph->values[node->in[2]].kept || graph->values[node->in[3]].kept)
        return; /* the nodes behind say it */
    if (m != MPT_DTYPE_FP32 || v != MPT_DTYPE_FP32)
        add(c, ", m %s, v %s", mpt_dtype_name(m), mpt_dtype_name(v));
}

/* Formats of what goes in and what comes out:
 * "bf16 e4m3 -> bf16"; for a quantize node the quantizers of both copies. */
static void describe_formats(cell *c, const mpt_phase_program *program, const mpt_node *node) {
    const mpt_graph *graph = program->graph;
    const mpt_attrs *a = &node->attrs;
    for (int i = 0; i < n_operands(node); i++) {
        if (node->in[i] >= 0)
            add(c, "%s%s", c->len ? " " : "", format_name(graph, node->in[i]));
    }
    add(c, " ->");
    if (node->op == MPT_OP_quantize) {
        add(c, " ");
        if (a->has_row)
            add_copy(c, program, node, false);
        add(c, "%s", a->has_row && a->has_col ? " | " : "");
        if (a->has_col)
            add_copy(c, program, node, true);
        if (a->has_col)
            add(c, " transposed");
        return;
    }
    if (node->op == MPT_OP_grad_reduce) { /* in place: the buffer's format stays */
        add(c, " %s", mpt_dtype_name(a->reduce));
        return;
    }
    if (node->op == MPT_OP_quantize_state) {
        add(c, " ");
        add_quantizer(c, &a->row);
        return;
    }
    if (node->op == MPT_OP_clip_factor && a->clip <= 0) {
        add(c, " fp32, no clip");
        return;
    }
    if (node->op == MPT_OP_clip_factor) {
        add(c, " fp32, unscale * min(1, %g / (norm + 1e-6))", (double)a->clip);
        return;
    }
    for (int k = 0; k < node->n_out; k++)
        if (value_at(graph, node->out[k]))
            add(c, " %s", mpt_dtype_name(graph->values[node->out[k]].dtype));
    if (a->softmax != MPT_DTYPE_FP32)
        add(c, ", softmax %s", mpt_dtype_name(a->softmax));
    add_moments(c, graph, node);
    if (a->sum.accumulate != MPT_DTYPE_FP32)
        add(c, ", sums in %s", mpt_dtype_name(a->sum.accumulate));
    if (a->sum.promote)
        add(c, ", to fp32 each %" PRId32, a->sum.promote);
}

static void add_shape(cell *c, const mpt_value *value) {
    for (int i = 0; i < value->rank; i++)
        add(c, "%s%" PRId64, i ? "x" : "", value->dims[i]);
}

/* Shapes of what goes in and what comes out; factors of quantized tensors are left out. */
static void describe_shapes(cell *c, const mpt_graph *graph, const mpt_node *node) {
    for (int i = 0; i < n_operands(node); i++) {
        const mpt_value *in = value_at(graph, node->in[i]);
        if (!in)
            continue;
        add(c, "%s", c->len ? " " : "");
        add_shape(c, in);
    }
    add(c, " ->");
    for (int k = 0; k < node->n_out; k++) {
        const mpt_value *out = value_at(graph, node->out[k]);
        if (!out || (node->op == MPT_OP_quantize && k % 2 == 1))
            continue;
        add(c, " ");
        add_shape(c, out);
    }
}

/* The file without its folders: a dump must not depend on where the tree lies. */
static void describe_where(cell *c, const mpt_phase_program *program, const mpt_node *node) {
    mpt_where where = mpt_schedule_where(program, node);
    bool update = mpt_op_get(node->op)->flags & MPT_OP_UPDATE;
    const char *slash = where.file ? strrchr(where.file, '/') : NULL;
    const char *file = slash ? slash + 1 : where.file;
    if (file && where.line > 0)
        add(c, "%s:%d", file, where.line);
    else
        add(c, "%s", file ? file : update ? "-" : "default");
}

/* ---- the dumps ---- */

static const char *layer_name(const mpt_graph *graph, const mpt_node *node) {
    return node->layer >= 0 ? graph->layers[node->layer].path : "-";
}

void mpt_schedule_print(const mpt_phase_program *program, mpt_str *out) {
    const mpt_graph *graph = program->graph;
    mpt_table table;
    mpt_table_init(&table, program->ctx, ">step|pass|layer|op|formats|shapes|recipe");
    for (int s = 0; s < program->n_steps; s++) {
        const mpt_node *node = &graph->nodes[program->steps[s].node];
        cell formats = {.len = 0}, shapes = {.len = 0}, where = {.len = 0};
        describe_formats(&formats, program, node);
        describe_shapes(&shapes, graph, node);
        describe_where(&where, program, node);
        mpt_table_cell(&table, "%d", s);
        mpt_table_cell(&table, "%s", mpt_pass_name(node->pass));
        mpt_table_cell(&table, "%s", layer_name(graph, node));
        mpt_table_cell(&table, "%s%s%s%s", node->recomputed ? "again " : "",
                       mpt_op_get(node->op)->name, node->slot ? " " : "",
                       node->slot ? node->slot : "");
        mpt_table_cell(&table, "%s", formats.data);
        mpt_table_cell(&table, "%s", shapes.data);
        mpt_table_cell(&table, "%s", where.data);
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

/* The first refusal of a node: they stand in the order of nodes. */
static int first_refusal(const mpt_phase_program *program, int node) {
    int low = 0, high = program->n_refusals;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (program->refusals[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void mpt_schedule_print_selection(const mpt_phase_program *program, mpt_str *out) {
    const mpt_graph *graph = program->graph;
    mpt_table table;
    mpt_table_init(&table, program->ctx, ">step|layer|op|kernel|not taken");
    for (int s = 0; s < program->n_steps; s++) {
        int index = program->steps[s].node, r = first_refusal(program, index);
        const mpt_node *node = &graph->nodes[index];
        cell reasons = {.len = 0};
        for (; r < program->n_refusals && program->refusals[r].node == index; r++)
            add(&reasons, "%s%s: %s", reasons.len ? "; " : "", program->refusals[r].kernel,
                program->refusals[r].why);
        mpt_table_cell(&table, "%d", s);
        mpt_table_cell(&table, "%s", layer_name(graph, node));
        mpt_table_cell(&table, "%s", mpt_op_get(node->op)->name);
        mpt_table_cell(&table, "%s", program->steps[s].kernel->name);
        mpt_table_cell(&table, "%s", reasons.data);
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

static void print_classes(const mpt_phase_program *program, mpt_str *out) {
    mpt_table table;
    size_t total = 0;
    mpt_table_init(&table, program->ctx, "memory|>bytes");
    for (int c = 0; c < MPT_MEMORY_CLASS_COUNT; c++) {
        mpt_table_cell(&table, "%s", mpt_memory_class_name((mpt_memory_class)c));
        mpt_table_cell(&table, "%zu", program->bytes[c]);
        total = mpt_size_add(total, program->bytes[c]);
    }
    mpt_table_cell(&table, "total");
    mpt_table_cell(&table, "%zu", total);
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}

void mpt_schedule_print_memory(const mpt_phase_program *program, mpt_str *out) {
    const mpt_graph *graph = program->graph;
    mpt_table table;
    print_classes(program, out);
    mpt_str_printf(out, "\none block of %zu bytes, scratch at %zu\n\n", program->arena_bytes,
                   program->scratch_offset);
    mpt_table_init(&table, program->ctx, ">offset|>bytes|>from step|>to step|value");
    for (int v = 0; v < graph->n_values; v++) {
        const mpt_placement *place = &program->placement[v];
        if (place->state || place->last < 0)
            continue;
        mpt_table_cell(&table, "%zu", place->offset);
        mpt_table_cell(&table, "%zu", place->bytes);
        mpt_table_cell(&table, "%" PRId32, place->first);
        mpt_table_cell(&table, "%" PRId32, place->last);
        mpt_table_cell(&table, "%s", graph->values[v].name);
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
}
