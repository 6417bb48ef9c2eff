/* Stage 4, last part: the optimizer's tail as nodes, in the order of contract 11.
 *
 * PREPARE zeroes each gradient. UPDATE reduces the gradients over ranks; takes the loss scale
 * out; measures them in the order in which the backward pass finishes them, so that "the first
 * bad gradient" is the one nearest to where a fault arose; checks that all are finite; joins
 * the norms; clips; applies the one factor parameter by parameter. Unscale, check, norm and
 * clip stand there once, however many micro-batches were summed up. The bias of a choice of
 * experts has a load for a gradient: it is measured nowhere, and moves by a rule of its own.
 * Kernels: kernels/ref/ref_optim.c. */
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

static mpt_status append_reduce(mpt_graph *graph, mpt_value_id grad) {
    const mpt_param *param = &graph->params[graph->values[grad].param];
    mpt_node node = mpt_node_make(MPT_OP_grad_reduce, MPT_PASS_UPDATE, param->layer);
    node.n_in = node.n_out = 1;
    node.in[0] = node.out[0] = grad;
    return mpt_graph_append(graph, &node, NULL);
}

/* What the numbers of a step are called in the code below: one of each. */
typedef struct step_values {
    mpt_value_id norms, unscale, factor;
} step_values;

static mpt_status append_norm(mpt_graph *graph, mpt_value_id grad, int32_t row,
                              const step_values *values) {
    const mpt_param *param = &graph->params[graph->values[grad].param];
    mpt_node node = mpt_node_make(MPT_OP_grad_norm, MPT_PASS_UPDATE, param->layer);
    node.n_in = 2;
    node.n_out = 1;
    node.in[0] = grad;
    node.in[1] = values->unscale;
    node.out[0] = values->norms;
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

/* A node that makes one number of the step out of n_in others. */
static mpt_status append_number(mpt_graph *graph, mpt_op op, const mpt_value_id *in, int n_in,
                                mpt_value_id out) {
    mpt_node node = mpt_node_make(op, MPT_PASS_UPDATE, -1);
    node.n_in = (int8_t)n_in;
    node.n_out = 1;
    for (int i = 0; i < n_in; i++)
        node.in[i] = in[i];
    node.out[0] = out;
    return mpt_graph_append(graph, &node, NULL);
}

/* Reduce, unscale and measure. Loads of experts are added up over ranks too. */
static mpt_status append_norms(mpt_graph *graph, const step_values *values) {
    size_t n = (size_t)graph->n_params;
    bool *seen = mpt_arena_alloc(&graph->arena, n * sizeof *seen);
    mpt_value_id *order = mpt_arena_alloc(&graph->arena, n * sizeof *order);
    if (!seen || !order)
        return MPT_OUT_OF_MEMORY;
    finishing_order(graph, seen, order);
    for (int i = 0; i < n_measured(graph); i++)
        MPT_TRY(append_reduce(graph, order[i]));
    for (int p = 0; p < graph->n_params; p++)
        if (graph->params[p].balanced)
            MPT_TRY(append_reduce(graph, graph->params[p].grad));
    MPT_TRY(append_number(graph, MPT_OP_unscale, NULL, 0, values->unscale));
    for (int i = 0; i < n_measured(graph); i++)
        MPT_TRY(append_norm(graph, order[i], i, values));
    return MPT_OK;
}

/* A status value of one element, or of `rows` pairs. */
static mpt_value_id status_value(mpt_graph *graph, const char *name, mpt_dtype dtype,
                                 int64_t rows) {
    int64_t dims[2] = {rows ? rows : 1, 2};
    return mpt_graph_value(graph, name, MPT_VALUE_STATUS, dtype, rows ? 2 : 1, dims);
}

static mpt_status make_values(mpt_graph *graph, step_values *values) {
    int rows = n_measured(graph);
    values->norms = status_value(graph, "grad_norms", MPT_DTYPE_FP32, rows ? rows : 1);
    values->unscale = status_value(graph, "unscale", MPT_DTYPE_FP32, 0);
    values->factor = status_value(graph, "grad_factor", MPT_DTYPE_FP32, 0);
    graph->norm = status_value(graph, "grad_norm", MPT_DTYPE_FP32, 0);
    graph->finite = status_value(graph, "first_bad_gradient", MPT_DTYPE_I32, 0);
    bool made = values->norms >= 0 && values->unscale >= 0 && values->factor >= 0 &&
                graph->norm >= 0 && graph->finite >= 0;
    return made ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* Check, norm, clip. */
static mpt_status append_clip(mpt_graph *graph, const mpt_train *train,
                              const step_values *values) {
    const mpt_value_id in[] = {graph->norm, values->unscale, graph->finite};
    MPT_TRY(append_number(graph, MPT_OP_finite_check, &values->norms, 1, graph->finite));
    MPT_TRY(append_number(graph, MPT_OP_global_norm, &values->norms, 1, graph->norm));
    MPT_TRY(append_number(graph, MPT_OP_clip_factor, in, (int)MPT_COUNT(in), values->factor));
    graph->nodes[graph->n_nodes - 1].attrs.clip = (float)train->clip;
    return MPT_OK;
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
    step_values values;
    MPT_TRY(make_values(graph, &values));
    for (int i = 0; i < graph->n_params; i++)
        MPT_TRY(append_zero(graph, &graph->params[i]));
    MPT_TRY(append_norms(graph, &values));
    MPT_TRY(append_clip(graph, train, &values));
    for (int i = 0; i < graph->n_params; i++)
        MPT_TRY(append_step(graph, i, train, values.factor));
    return MPT_OK;
}
