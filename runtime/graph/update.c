/* Stage 4, last part: the optimizer's tail as nodes, in the order of contract 11.
 *
 * PREPARE zeroes each gradient. UPDATE measures the gradients in the order in which the
 * backward pass finishes them, so that "the first bad gradient" is the one nearest to where a
 * fault arose; joins the norms to one factor; applies it parameter by parameter. The bias of a
 * choice of experts has a load for a gradient: it is measured nowhere, and moves by a rule of
 * its own. Kernels: kernels/ref/ref_optim.c. */
#include "graph/graph.h"

/* Biases, norms, A_log, D and dt_bias are vectors and keep their size; matrices, tables and the
 * convolution's weight decay. */
static float decay_of(const mpt_graph *graph, const mpt_param *param, const mpt_train *train) {
    bool decays = train->decay == MPT_DECAY_ALL || graph->values[param->value].rank >= 2;
    return decays ? (float)train->optimizer.weight_decay : 0.0f;
}

static mpt_status append_zero(mpt_graph *graph, const mpt_param *param) {
    mpt_node node = mpt_node_make(MPT_OP_zero, MPT_PASS_PREPARE, param->layer);
    node.n_in = node.n_out = 1;
    node.in[0] = node.out[0] = param->grad;
    return mpt_graph_append(graph, &node, NULL);
}

static mpt_status append_norm(mpt_graph *graph, mpt_value_id grad, int32_t row,
                              mpt_value_id norms) {
    const mpt_param *param = &graph->params[graph->values[grad].param];
    mpt_node node = mpt_node_make(MPT_OP_grad_norm, MPT_PASS_UPDATE, param->layer);
    node.n_in = node.n_out = 1;
    node.in[0] = grad;
    node.out[0] = norms;
    node.attrs.row_index = row;
    return mpt_graph_append(graph, &node, NULL);
}

/* Parameters whose gradients are measured. */
static int n_measured(const mpt_graph *graph) {
    int n = 0;
    for (int p = 0; p < graph->n_params; p++)
        n += !graph->params[p].balanced;
    return n;
}

/* Fills order[] with the gradients as backward finishes them: scanning from the end, the first
 * sight of a gradient is its last writer. */
static void finishing_order(const mpt_graph *graph, bool *seen, mpt_value_id *order) {
    int at = n_measured(graph);
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const mpt_node *node = &graph->nodes[i];
        for (int k = node->pass == MPT_PASS_BACKWARD ? node->n_out - 1 : -1; k >= 0; k--) {
            mpt_value_id id = node->out[k];
            if (id < 0 || graph->values[id].kind != MPT_VALUE_GRAD)
                continue;
            int32_t param = graph->values[id].param;
            if (!seen[param] && !graph->params[param].balanced)
                order[--at] = id;
            seen[param] = true;
        }
    }
    for (int p = graph->n_params - 1; p >= 0; p--) /* parameters that the loss does not reach */
        if (!seen[p] && !graph->params[p].balanced)
            order[--at] = graph->params[p].grad;
}

static mpt_status append_norms(mpt_graph *graph, mpt_value_id norms) {
    size_t n = (size_t)graph->n_params;
    bool *seen = mpt_arena_alloc(&graph->arena, n * sizeof *seen);
    mpt_value_id *order = mpt_arena_alloc(&graph->arena, n * sizeof *order);
    if (!seen || !order)
        return MPT_OUT_OF_MEMORY;
    finishing_order(graph, seen, order);
    for (int i = 0; i < n_measured(graph); i++)
        MPT_TRY(append_norm(graph, order[i], i, norms));
    return MPT_OK;
}

/* A status value of one element, or of `rows` pairs. */
static mpt_value_id status_value(mpt_graph *graph, const char *name, mpt_dtype dtype,
                                 int64_t rows) {
    int64_t dims[2] = {rows ? rows : 1, 2};
    return mpt_graph_value(graph, name, MPT_VALUE_STATUS, dtype, rows ? 2 : 1, dims);
}

static mpt_status append_clip(mpt_graph *graph, const mpt_train *train, mpt_value_id norms,
                              mpt_value_id *factor) {
    *factor = status_value(graph, "grad_factor", MPT_DTYPE_FP32, 0);
    graph->norm = status_value(graph, "grad_norm", MPT_DTYPE_FP32, 0);
    graph->finite = status_value(graph, "first_bad_gradient", MPT_DTYPE_I32, 0);
    if (*factor < 0 || graph->norm < 0 || graph->finite < 0)
        return MPT_OUT_OF_MEMORY;
    mpt_node node = mpt_node_make(MPT_OP_clip_factor, MPT_PASS_UPDATE, -1);
    node.n_in = 1;
    node.n_out = 3;
    node.in[0] = norms;
    node.out[0] = *factor;
    node.out[1] = graph->norm;
    node.out[2] = graph->finite;
    node.attrs.clip = (float)train->clip;
    return mpt_graph_append(graph, &node, NULL);
}

static mpt_value_id moment(mpt_graph *graph, int index, const char *prefix) {
    const mpt_param *param = &graph->params[index];
    mpt_value weight = graph->values[param->value];
    char *name = mpt_arena_printf(&graph->arena, "%s.%s", prefix, param->name);
    if (!name)
        return -1;
    mpt_value_id id = mpt_graph_value(graph, name, MPT_VALUE_MOMENT, MPT_DTYPE_FP32,
                                      weight.rank, weight.dims);
    if (id >= 0)
        graph->values[id].param = index;
    return id;
}

static mpt_status append_adamw(mpt_graph *graph, int index, const mpt_train *train,
                               mpt_value_id factor) {
    mpt_param *param = &graph->params[index];
    param->moment[0] = moment(graph, index, "adam_m");
    param->moment[1] = moment(graph, index, "adam_v");
    if (param->moment[0] < 0 || param->moment[1] < 0)
        return MPT_OUT_OF_MEMORY;
    mpt_node node = mpt_node_make(MPT_OP_adamw, MPT_PASS_UPDATE, param->layer);
    const mpt_value_id in[] = {param->value, param->grad, param->moment[0], param->moment[1],
                               factor};
    node.n_in = (int8_t)MPT_COUNT(in);
    for (int i = 0; i < node.n_in; i++)
        node.in[i] = in[i];
    node.n_out = 1;
    node.out[0] = param->value;
    node.attrs.beta1 = (float)train->optimizer.beta1;
    node.attrs.beta2 = (float)train->optimizer.beta2;
    node.attrs.eps = (float)train->optimizer.eps;
    node.attrs.weight_decay = decay_of(graph, param, train);
    return mpt_graph_append(graph, &node, NULL);
}

static mpt_status append_sgd(mpt_graph *graph, int index, const mpt_train *train,
                             mpt_value_id factor) {
    mpt_param *param = &graph->params[index];
    param->moment[0] = param->moment[1] = -1;
    if (train->optimizer.momentum != 0) {
        param->moment[0] = moment(graph, index, "momentum");
        if (param->moment[0] < 0)
            return MPT_OUT_OF_MEMORY;
    }
    mpt_node node = mpt_node_make(MPT_OP_sgd, MPT_PASS_UPDATE, param->layer);
    node.n_in = 4;
    node.in[0] = param->value;
    node.in[1] = param->grad;
    node.in[2] = param->moment[0];
    node.in[3] = factor;
    node.n_out = 1;
    node.out[0] = param->value;
    node.attrs.momentum = (float)train->optimizer.momentum;
    node.attrs.weight_decay = decay_of(graph, param, train);
    return mpt_graph_append(graph, &node, NULL);
}

static mpt_status append_balance(mpt_graph *graph, int index, mpt_value_id factor) {
    mpt_param *param = &graph->params[index];
    param->moment[0] = param->moment[1] = -1;
    mpt_node node = mpt_node_make(MPT_OP_moe_balance, MPT_PASS_UPDATE, param->layer);
    node.n_in = 3;
    node.in[0] = param->value;
    node.in[1] = param->grad;
    node.in[2] = factor;
    node.n_out = 1;
    node.out[0] = param->value;
    node.attrs.rate = param->rate;
    return mpt_graph_append(graph, &node, NULL);
}

static mpt_status append_step(mpt_graph *graph, int index, const mpt_train *train,
                              mpt_value_id factor) {
    if (graph->params[index].balanced)
        return append_balance(graph, index, factor);
    return train->optimizer.kind == MPT_OPTIMIZER_ADAMW
               ? append_adamw(graph, index, train, factor)
               : append_sgd(graph, index, train, factor);
}

mpt_status mpt_graph_append_update(mpt_graph *graph, const mpt_train *train) {
    mpt_value_id factor;
    int rows = n_measured(graph);
    mpt_value_id norms = status_value(graph, "grad_norms", MPT_DTYPE_FP32, rows ? rows : 1);
    if (norms < 0)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_params; i++)
        MPT_TRY(append_zero(graph, &graph->params[i]));
    MPT_TRY(append_norms(graph, norms));
    MPT_TRY(append_clip(graph, train, norms, &factor));
    for (int i = 0; i < graph->n_params; i++)
        MPT_TRY(append_step(graph, i, train, factor));
    return MPT_OK;
}
