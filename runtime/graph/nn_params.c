/* The parameters of a layer: which an op has, their shapes, and what they start from.
 *
 * Called by nn.c between a layer's making and its node's. Names are those of Hugging Face
 * checkpoints: LAYER.weight, LAYER.bias, and the three vectors of Mamba-2. */
#include "graph/nn_params.h"

#include "graph/op.h"

#include <math.h>
#include <string.h>

/* What weights start from where a model does not say: the N(0, 0.02) of GPT-2 and Nemotron. */
static const mpt_init DEFAULT_WEIGHT = {MPT_INIT_NORMAL, 0.02f, 0};
static const mpt_init ZERO = {MPT_INIT_ZERO, 0, 0};
static const mpt_init ONE = {MPT_INIT_ONE, 0, 0};

static const mpt_param *find_param(const mpt_graph *graph, const char *name) {
    int i = mpt_name_index_find(&graph->param_names, name);
    return i < 0 ? NULL : &graph->params[i];
}

/* Makes parameter LAYER.suffix and puts its value at input i of the node. */
static mpt_status add_param(mpt_graph *graph, mpt_node *node, int i, const char *suffix,
                            const mpt_init *init, const mpt_value *shape) {
    const char *name =
        mpt_arena_printf(&graph->arena, "%s.%s", graph->layers[node->layer].path, suffix);
    mpt_param *params = mpt_arena_grow(&graph->arena, graph->params, sizeof *params,
                                       graph->n_params, &graph->cap_params);
    if (!name || !params)
        return MPT_OUT_OF_MEMORY;
    graph->params = params;
    if (find_param(graph, name))
        return MPT_OP_FAIL(graph, node, "the model has a parameter '%s' already", name);
    mpt_value_id value =
        mpt_graph_value(graph, name, MPT_VALUE_PARAM, MPT_DTYPE_FP32, shape->rank, shape->dims);
    if (value < 0)
        return graph->ctx->error.code;
    MPT_TRY(mpt_name_index_add(&graph->param_names, &graph->arena, name, graph->n_params));
    graph->values[value].param = graph->n_params;
    params[graph->n_params++] = (mpt_param){.name = name,
                                            .init = *init,
                                            .layer = node->layer,
                                            .value = value,
                                            .grad = -1,
                                            .moment = {-1, -1}};
    node->in[i] = value;
    return MPT_OK;
}

static const mpt_init *init_or(const mpt_nn_args *args, const mpt_init *by_default) {
    return args->has_init ? &args->init : by_default;
}

static const mpt_init *bias_init_or(const mpt_nn_args *args, const mpt_init *by_default) {
    return args->has_bias_init ? &args->bias_init : by_default;
}

/* ---- parameters by family ---- */

/* Points a layer at another layer's weight, as a head at the embedding's table. All uses add to
 * its one gradient. What it starts from and how it is stored, its owner has said. */
static mpt_status tie(const mpt_nn *nn, mpt_node *node, const mpt_nn_args *args) {
    mpt_graph *graph = nn->graph;
    const char *name = args->tied;
    const mpt_param *param = find_param(graph, name);
    if (!param && nn->block >= 0) {
        const char *whole = mpt_arena_printf(&graph->arena, "%s%s", nn->prefix, name);
        if (!whole)
            return MPT_OUT_OF_MEMORY;
        param = find_param(graph, whole);
    }
    if (args->has_init || args->transposed)
        return MPT_OP_FAIL(graph, node,
                           "tied to '%s': %s belongs to the layer that has the parameter", name,
                           args->has_init ? "init" : "layout");
    if (param) {
        node->in[1] = param->value;
        return MPT_OK;
    }
    size_t bytes = sizeof(char *) * (size_t)(graph->n_params + 1);
    const char **names = mpt_arena_alloc(&graph->arena, bytes);
    if (!names)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_params; i++)
        names[i] = graph->params[i].name;
    const char *near = mpt_nearest(name, names, graph->n_params);
    mpt_status status = MPT_OP_FAIL(graph, node, "tied: no parameter '%s'", name);
    if (near)
        mpt_hint(graph->ctx, "did you mean '%s'?", near);
    return status;
}

/* The vocabulary, for a model that has none of its own. What the largest id needs is no answer:
 * other data would make another model. */
static mpt_status take_vocab(mpt_graph *graph, const mpt_node *node, int64_t *out) {
    *out = graph->vocab;
    if (!graph->vocab_unstated)
        return MPT_OK;
    mpt_status status = MPT_OP_FAIL(
        graph, node, "takes its rows from the data's vocabulary, which nothing states");
    mpt_hint(graph->ctx, MPT_NN_STATE_VOCAB);
    return status;
}

static mpt_status linear_params(const mpt_nn *nn, mpt_node *node, const mpt_nn_args *args) {
    mpt_graph *graph = nn->graph;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    int64_t in = mpt_op_in(graph, node, 0)->dims[1], out = args->out_features;
    if (args->tied) {
        MPT_TRY(tie(nn, node, args));
        if (out == 0)
            out = mpt_op_in(graph, node, 1)->dims[0];
    } else if (out == 0 && args->head) {
        MPT_TRY(take_vocab(graph, node, &out));
    }
    if (out < 1)
        return MPT_OP_FAIL(graph, node, "out is %lld, expected at least 1", (long long)out);
    mpt_layer *layer = &graph->layers[node->layer];
    layer->in_features = in;
    layer->out_features = out;
    layer->n_experts = args->attrs.experts;
    layer->top_k = args->attrs.top_k;
    layer->align = args->attrs.align;
    if (args->tied)
        MPT_TRY(mpt_op_expect2(graph, node, 1, "w", out, in));
    else {
        int64_t experts = args->attrs.experts > 0 ? args->attrs.experts : 1;
        if (out > INT32_MAX)
            return MPT_OP_FAIL(graph, node, "out is %lld, which is too wide", (long long)out);
        MPT_TRY(add_param(graph, node, 1, "weight", init_or(args, &DEFAULT_WEIGHT),
                          &(mpt_value){.rank = 2, .dims = {experts * out, in}}));
        graph->params[graph->n_params - 1].transposed = args->transposed;
        graph->params[graph->n_params - 1].n_experts = args->attrs.experts;
    }
    if (!args->bias)
        return MPT_OK;
    return add_param(graph, node, 2, "bias", bias_init_or(args, &ZERO),
                     &(mpt_value){.rank = 1, .dims = {out}});
}

/* A table must have a row for every id that can come. */
static mpt_status embedding_params(const mpt_nn *nn, mpt_node *node, const mpt_nn_args *args) {
    mpt_graph *graph = nn->graph;
    int64_t rows = args->rows, width = args->out_features;
    MPT_TRY(mpt_op_expect_ids(graph, node, 0, "ids", MPT_ANY));
    if (args->tied) {
        MPT_TRY(tie(nn, node, args));
        MPT_TRY(mpt_op_expect2(graph, node, 1, "table", rows ? rows : MPT_ANY,
                               width ? width : MPT_ANY));
        rows = mpt_op_in(graph, node, 1)->dims[0];
        width = mpt_op_in(graph, node, 1)->dims[1];
    } else if (!rows) {
        MPT_TRY(take_vocab(graph, node, &rows));
    }
    if (width < 1)
        return MPT_OP_FAIL(graph, node, "out is %lld, expected at least 1", (long long)width);
    if (node->in[0] == graph->positions && rows < graph->sequence)
        return MPT_OP_FAIL(graph, node, "%lld rows, but sequences have %lld positions",
                           (long long)rows, (long long)graph->sequence);
    if (node->in[0] == graph->tokens && rows < graph->vocab && !graph->own_tokens)
        return MPT_OP_FAIL(graph, node, "%lld rows, but the data's vocabulary has %lld tokens",
                           (long long)rows, (long long)graph->vocab);
    graph->layers[node->layer].out_features = width;
    if (args->tied)
        return MPT_OK;
    return add_param(graph, node, 1, "weight", init_or(args, &DEFAULT_WEIGHT),
                     &(mpt_value){.rank = 2, .dims = {rows, width}});
}

static mpt_status norm_params(const mpt_nn *nn, mpt_node *node, const mpt_nn_args *args) {
    mpt_graph *graph = nn->graph;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    mpt_value shape = {.rank = 1, .dims = {mpt_op_in(graph, node, 0)->dims[1]}};
    int weight = node->op == MPT_OP_gated_rmsnorm ? 2 : 1;
    if (args->tied && weight == 1) {
        MPT_TRY(tie(nn, node, args));
        MPT_TRY(mpt_op_expect1(graph, node, 1, "weight", shape.dims[0]));
    } else {
        MPT_TRY(add_param(graph, node, weight, "weight", init_or(args, &ONE), &shape));
    }
    if (node->op != MPT_OP_layernorm || !args->bias)
        return MPT_OK;
    return add_param(graph, node, 2, "bias", bias_init_or(args, &ZERO), &shape);
}

/* Weights and bias start as PyTorch's Conv1d does: uniform within 1/sqrt(kernel). */
static mpt_status conv_params(mpt_graph *graph, mpt_node *node, const mpt_nn_args *args) {
    int32_t kernel = node->attrs.kernel;
    MPT_TRY(mpt_op_expect2(graph, node, 0, "x", MPT_ANY, MPT_ANY));
    if (kernel < 1)
        return MPT_OP_FAIL(graph, node, "kernel is %d, expected at least 1", kernel);
    int64_t channels = mpt_op_in(graph, node, 0)->dims[1];
    float bound = 1.0f / sqrtf((float)kernel);
    mpt_init uniform = {MPT_INIT_UNIFORM, bound, 0};
    MPT_TRY(add_param(graph, node, 1, "weight", init_or(args, &uniform),
                      &(mpt_value){.rank = 3, .dims = {channels, 1, kernel}}));
    if (!args->bias)
        return MPT_OK;
    return add_param(graph, node, 2, "bias", bias_init_or(args, &uniform),
                     &(mpt_value){.rank = 1, .dims = {channels}});
}

/* The three vectors of Mamba-2 start as in its reference: A in (1, 16), D one, and step sizes
 * spread evenly on a log scale from 0.001 to 0.1. */
static mpt_status scan_params(mpt_graph *graph, mpt_node *node, const mpt_nn_args *args) {
    static const mpt_init a_log = {MPT_INIT_A_LOG, 0, 0};
    static const mpt_init dt_bias = {MPT_INIT_DT_BIAS, 0.001f, 0.1f};
    (void)args;
    if (node->attrs.heads < 1)
        return MPT_OP_FAIL(graph, node, "heads is %d, expected at least 1", node->attrs.heads);
    mpt_value shape = {.rank = 1, .dims = {node->attrs.heads}};
    MPT_TRY(add_param(graph, node, 4, "A_log", &a_log, &shape));
    MPT_TRY(add_param(graph, node, 5, "D", &ONE, &shape));
    return add_param(graph, node, 6, "dt_bias", &dt_bias, &shape);
}

/* The bias that the choice of experts is made with, and only the choice. */
static mpt_status route_params(mpt_graph *graph, mpt_node *node, const mpt_nn_args *args) {
    MPT_TRY(mpt_op_expect2(graph, node, 0, "logits", MPT_ANY, MPT_ANY));
    if (!args->bias && args->moe.balance > 0)
        return MPT_OP_FAIL(graph, node,
                           "balance moves a bias, which there is none of: say "
                           "bias = true");
    if (!args->bias)
        return MPT_OK;
    mpt_value shape = {.rank = 1, .dims = {mpt_op_in(graph, node, 0)->dims[1]}};
    MPT_TRY(add_param(graph, node, 1, "e_score_correction_bias", &ZERO, &shape));
    graph->params[graph->n_params - 1].balanced = true;
    graph->params[graph->n_params - 1].rate = args->moe.balance;
    return MPT_OK;
}

/* The last op: its targets come from the trainer. */
static mpt_status loss_inputs(mpt_nn *nn, mpt_node *node) {
    mpt_graph *graph = nn->graph;
    mpt_value_id targets = -1;
    if (nn->block >= 0)
        return MPT_OP_FAIL(graph, node, "block %d is still open", nn->block);
    MPT_TRY(mpt_op_expect2(graph, node, 0, "logits", MPT_ANY, MPT_ANY));
    const mpt_value *logits = mpt_op_in(graph, node, 0);
    if (logits->dims[1] < graph->vocab && !graph->own_tokens)
        return MPT_OP_FAIL(graph, node,
                           "logits (%s) of %lld columns, but the data's vocabulary has %lld "
                           "tokens",
                           logits->name, (long long)logits->dims[1], (long long)graph->vocab);
    MPT_TRY(mpt_nn_input(nn, "targets", &graph->targets, &targets));
    node->in[1] = targets;
    return MPT_OK;
}

mpt_status mpt_nn_add_params(mpt_nn *nn, mpt_node *node, const mpt_nn_args *args) {
    switch (node->op) {
    case MPT_OP_linear:
        return linear_params(nn, node, args);
    case MPT_OP_embedding:
        return embedding_params(nn, node, args);
    case MPT_OP_rmsnorm:
    case MPT_OP_layernorm:
    case MPT_OP_gated_rmsnorm:
        return norm_params(nn, node, args);
    case MPT_OP_conv1d:
        return conv_params(nn->graph, node, args);
    case MPT_OP_ssm_scan:
        return scan_params(nn->graph, node, args);
    case MPT_OP_moe_route:
        return route_params(nn->graph, node, args);
    case MPT_OP_cross_entropy:
        return loss_inputs(nn, node);
    default:
        return MPT_OK;
    }
}
