/* The text of a graph: what --dump shows after a stage, and what golden tests compare.
 *
 * One line a parameter, then one line a node in the order of execution:
 *   %12 layers.0.up [128, 256] fp32 = linear %9 %3 -    forward layers.0.up  mlp.lua:12
 * Values are numbered, because names may repeat (each gradient is named after what it is the
 * gradient of). Attributes are printed where they are not zero. */
#include "graph/graph.h"

#include <string.h>

static void print_shape(const mpt_value *v, mpt_str *out) {
    for (int i = 0; i < v->rank; i++)
        mpt_str_printf(out, "%s%lld", i ? ", " : "[", (long long)v->dims[i]);
    mpt_str_printf(out, "] %s", mpt_dtype_name(v->dtype));
}

static void print_value(const mpt_graph *graph, mpt_value_id id, mpt_str *out) {
    mpt_str_printf(out, "%%%d %s ", id, graph->values[id].name);
    print_shape(&graph->values[id], out);
}

/* ---- parameters ---- */

static void print_init(const mpt_init *init, mpt_str *out) {
    static const char *const names[] = {"zero", "one", "normal", "uniform", "a_log", "dt_bias"};
    mpt_str_printf(out, "%s", names[init->kind]);
    if (init->kind == MPT_INIT_NORMAL || init->kind == MPT_INIT_UNIFORM)
        mpt_str_printf(out, "(%g)", (double)init->a);
    if (init->kind == MPT_INIT_DT_BIAS)
        mpt_str_printf(out, "(%g, %g)", (double)init->a, (double)init->b);
}

static void print_param(const mpt_graph *graph, const mpt_param *param, mpt_str *out) {
    mpt_str_printf(out, "param ");
    print_value(graph, param->value, out);
    mpt_str_printf(out, " = ");
    print_init(&param->init, out);
    mpt_str_printf(out, "%s\n", param->transposed ? " transposed" : "");
}

static void print_inputs(const mpt_graph *graph, mpt_str *out) {
    for (int i = 0; i < graph->n_values; i++) {
        if (graph->values[i].kind != MPT_VALUE_INPUT)
            continue;
        mpt_str_printf(out, "input ");
        print_value(graph, i, out);
        mpt_str_printf(out, "\n");
    }
}

/* ---- nodes ---- */

static void print_number(mpt_str *out, const char *name, double x) {
    if (x != 0)
        mpt_str_printf(out, " %s=%g", name, x);
}

static void print_quantizer(mpt_str *out, const char *name, const mpt_quantizer *q) {
    char brief[MPT_QUANTIZER_TEXT];
    mpt_quantizer_brief(q, brief);
    mpt_str_printf(out, " %s=[%s]", name, brief);
}

static void print_attrs(const mpt_node *node, mpt_str *out) {
    const mpt_attrs *a = &node->attrs;
    const struct {
        const char *name;
        double x;
    } numbers[] = {{"eps", (double)a->eps},
                   {"scale", (double)a->scale},
                   {"heads", a->heads},
                   {"kv_heads", a->kv_heads},
                   {"head_dim", a->head_dim},
                   {"groups", a->groups},
                   {"state", a->state},
                   {"kernel", a->kernel},
                   {"exact", a->exact},
                   {"p", (double)a->p},
                   {"theta", (double)a->rope.theta},
                   {"dims", a->rope.dims},
                   {"factor", (double)a->rope.factor},
                   {"low_freq_factor", (double)a->rope.low_freq_factor},
                   {"high_freq_factor", (double)a->rope.high_freq_factor},
                   {"original_positions", a->rope.original_positions},
                   {"experts", a->experts},
                   {"top_k", a->top_k},
                   {"top_groups", a->top_groups},
                   {"align", a->align},
                   {"by_softmax", a->by_softmax},
                   {"normalize", a->normalize},
                   {"rate", (double)a->rate},
                   {"alpha", a->alpha == 1 ? 0 : (double)a->alpha},
                   {"beta1", (double)a->beta1},
                   {"beta2", (double)a->beta2},
                   {"weight_decay", (double)a->weight_decay},
                   {"momentum", (double)a->momentum},
                   {"clip", (double)a->clip}};
    for (size_t i = 0; i < MPT_COUNT(numbers); i++)
        print_number(out, numbers[i].name, numbers[i].x);
    for (int i = 0; i < a->n_sizes; i++)
        mpt_str_printf(out, "%s%lld", i ? "," : " sizes=", (long long)a->sizes[i]);
    if (node->op == MPT_OP_grad_reduce)
        mpt_str_printf(out, " reduce=%s", mpt_dtype_name(a->reduce));
    if (a->sum.accumulate != MPT_DTYPE_FP32)
        mpt_str_printf(out, " accumulate=%s", mpt_dtype_name(a->sum.accumulate));
    print_number(out, "promote", a->sum.promote);
    if ((node->op == MPT_OP_quantize && a->has_row) || node->op == MPT_OP_quantize_state)
        print_quantizer(out, "row", &a->row);
    if (node->op == MPT_OP_quantize && a->has_col)
        print_quantizer(out, "col", &a->col);
    if (a->softmax != MPT_DTYPE_FP32)
        mpt_str_printf(out, " softmax=%s", mpt_dtype_name(a->softmax));
}

/* The file's name without its folders: a dump must not depend on where the tree lies. */
static const char *base_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* AdamW's moments are read and written: their formats, where they are not FP32. */
static void print_moments(const mpt_graph *graph, const mpt_node *node, mpt_str *out) {
    static const char *const names[] = {"m", "v"};
    for (int i = 0; node->op == MPT_OP_adamw && i < 2; i++)
        if (graph->values[node->in[2 + i]].dtype != MPT_DTYPE_FP32)
            mpt_str_printf(out, " %s=%s", names[i],
                           mpt_dtype_name(graph->values[node->in[2 + i]].dtype));
}

static void print_node(const mpt_graph *graph, int index, mpt_str *out) {
    const mpt_node *node = &graph->nodes[index];
    int n_written = 0;
    mpt_str_printf(out, "%-8s ", mpt_pass_name(node->pass));
    for (int i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0)
            continue;
        mpt_str_printf(out, "%s", n_written++ ? ", " : "");
        print_value(graph, node->out[i], out);
    }
    mpt_str_printf(out, " = %s%s", node->recomputed ? "again " : "",
                   mpt_op_get(node->op)->name);
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] >= 0)
            mpt_str_printf(out, " %%%d", node->in[i]);
        else
            mpt_str_printf(out, " -");
    }
    print_attrs(node, out);
    print_moments(graph, node, out);
    if (node->slot)
        mpt_str_printf(out, " slot=%s", node->slot);
    if (node->layer >= 0)
        mpt_str_printf(out, "  @%s", graph->layers[node->layer].path);
    if (node->where.file)
        mpt_str_printf(out, "  %s:%d", base_name(node->where.file), node->where.line);
    mpt_str_printf(out, "\n");
}

void mpt_graph_print(const mpt_graph *graph, mpt_str *out) {
    mpt_str_printf(out,
                   "graph: batch %lld, sequence %lld, vocabulary %lld; %d blocks, %d layers, "
                   "%d parameters, %d nodes",
                   (long long)graph->batch, (long long)graph->sequence, (long long)graph->vocab,
                   graph->n_blocks, graph->n_layers, graph->n_params, graph->n_nodes);
    if (graph->pruned)
        mpt_str_printf(out, ", %d pruned", graph->n_pruned);
    mpt_str_printf(out, "\n");
    for (int i = 0; i < graph->n_params; i++)
        print_param(graph, &graph->params[i], out);
    print_inputs(graph, out);
    for (int i = 0; i < graph->n_nodes; i++)
        print_node(graph, i, out);
}
