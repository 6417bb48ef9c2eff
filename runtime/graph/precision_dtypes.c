/* Stage 5, first part: the number format of every value.
 *
 * A layer's policy says what the layer puts out; the stream between blocks has its own format;
 * everything else takes its widest input, where precision.ops says nothing of it; and the
 * gradient of a value has the value's format.
 * Parameters, their gradients and the optimizer's state have formats of their own. */
#include "graph/precision.h"

#include <string.h>

typedef struct format_bits {
    int exponent, mantissa;
} format_bits;

static const format_bits formats[] = {
#define ROW(id, name, bits, eb, mb, bias, max) {eb, mb},
    MPT_FORMAT_LIST(ROW)
#undef ROW
};

bool mpt_precision_holds(mpt_dtype wide, mpt_dtype narrow) {
    return formats[narrow].exponent <= formats[wide].exponent &&
           formats[narrow].mantissa <= formats[wide].mantissa;
}

/* The format that holds both: one of the two, or FP32 where neither holds the other (a BF16
 * and an FP16 operand). */
static mpt_dtype wider(mpt_dtype a, mpt_dtype b) {
    if (mpt_precision_holds(a, b))
        return a;
    return mpt_precision_holds(b, a) ? b : MPT_DTYPE_FP32;
}

/* Formats that values are computed in; the others are what a cast makes of them. */
static bool is_wide(mpt_dtype dtype) {
    return mpt_dtype_bits(dtype) >= 16;
}

/* The format in which readers see a value. */
static mpt_dtype seen(const mpt_rewrite *r, mpt_value_id v) {
    return r->narrow[v] != MPT_DTYPE_FP32 ? r->narrow[v] : r->graph->values[v].dtype;
}

static mpt_dtype widest_input(const mpt_rewrite *r, const mpt_node *node) {
    mpt_dtype widest = MPT_DTYPE_COUNT;
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0)
            continue;
        mpt_dtype dtype = seen(r, node->in[i]);
        if (formats[dtype].exponent > 0) /* token ids do not count */
            widest = widest == MPT_DTYPE_COUNT ? dtype : wider(widest, dtype);
    }
    if (widest == MPT_DTYPE_COUNT)
        return MPT_DTYPE_FP32;
    return is_wide(widest) ? widest : r->options->base;
}

/* ---- the autocast table ---- */

const mpt_ops_row *mpt_precision_row(mpt_op op) {
    char name[64];
    const mpt_op_row *row = mpt_op_get(op);
    size_t n = strlen(row->name), suffix = strlen("_grad");
    if (row->flags & MPT_OP_MATMUL)
        return NULL;
    if (!(row->flags & MPT_OP_GRAD) || n <= suffix || n >= sizeof name)
        return mpt_ops_find(row->name);
    memcpy(name, row->name, n - suffix);
    name[n - suffix] = 0;
    return mpt_ops_find(name);
}

mpt_dtype mpt_precision_said(const mpt_rewrite *r, const mpt_ops_row *row) {
    mpt_ops_word word = mpt_ops_said(r->options->ops, row);
    if (word == MPT_OPS_COUNT)
        return MPT_DTYPE_COUNT;
    r->options->ops[word].decides = true;
    return r->options->ops[word].format;
}

mpt_dtype mpt_precision_compute(const mpt_rewrite *r, const mpt_node *node) {
    return node->layer >= 0 ? r->options->policies[node->layer].compute : r->options->base;
}

/* The input whose gradient output k of a backward op is, or -1: then the output is a
 * parameter's gradient. */
static int gradient_of(mpt_op op, int k) {
    switch (op) {
    case MPT_OP_gelu_grad:
    case MPT_OP_silu_grad:
    case MPT_OP_relu2_grad:
    case MPT_OP_softplus_grad:
    case MPT_OP_softmax_grad: /* its input is y, which has the format of x */
    case MPT_OP_rmsnorm_grad:
    case MPT_OP_layernorm_grad:
    case MPT_OP_conv1d_grad:
    case MPT_OP_cross_entropy_grad:
        return k == 0 ? 0 : -1;
    case MPT_OP_moe_route_grad:
        return 0;
    case MPT_OP_swiglu_grad:
    case MPT_OP_gated_rmsnorm_grad:
    case MPT_OP_moe_combine_grad:
        return k < 2 ? k : -1;
    case MPT_OP_attention_grad:
        return k < 3 ? k : -1;
    case MPT_OP_ssm_scan_grad:
        return k < 4 ? k : -1;
    default:
        return -1;
    }
}

/* Whether a node goes on with the stream between blocks: the embeddings start it, and each sum
 * with it is the stream after the next block. */
static bool makes_stream(const mpt_node *node, const bool *stream) {
    if (node->pass != MPT_PASS_FORWARD)
        return false;
    if (node->op == MPT_OP_embedding)
        return true;
    return node->op == MPT_OP_add && (stream[node->in[0]] || stream[node->in[1]]);
}

static mpt_dtype output_dtype(const mpt_rewrite *r, const mpt_node *node, int k, bool stream) {
    const mpt_graph *graph = r->graph;
    const mpt_ops_row *row = mpt_precision_row(node->op);
    const mpt_policy *policy = node->layer >= 0 ? &r->options->policies[node->layer] : NULL;
    mpt_dtype compute = mpt_precision_compute(r, node), said = MPT_DTYPE_COUNT;
    int of = gradient_of(node->op, k);
    if (of >= 0)
        return is_wide(seen(r, node->in[of])) ? graph->values[node->in[of]].dtype
                                              : r->options->base;
    switch (node->op) {
    case MPT_OP_embedding: /* a rule that names the table outranks the stream's format */
        return policy && (policy->n_decided > 0 || policy->by_ops) ? compute
                                                                   : r->options->residual;
    case MPT_OP_linear:
        return policy ? policy->output[MPT_GEMM_FPROP] : compute;
    case MPT_OP_linear_dgrad:
        return policy ? policy->output[MPT_GEMM_DGRAD] : compute;
    case MPT_OP_rmsnorm:
    case MPT_OP_layernorm:
    case MPT_OP_gated_rmsnorm:
    case MPT_OP_conv1d:
        return compute;
    case MPT_OP_attention: /* what is kept for backward beside the result stays FP32 */
    case MPT_OP_ssm_scan:
        return k == 0 ? compute : MPT_DTYPE_FP32;
    case MPT_OP_moe_combine: /* its weights are FP32, which the sum is not widened to */
        return compute;
    case MPT_OP_moe_route:
    case MPT_OP_cross_entropy:
        return MPT_DTYPE_FP32;
    default:
        if (stream)
            return r->options->residual;
        if (node->pass == MPT_PASS_FORWARD && row && row->writes)
            said = mpt_precision_said(r, row);
        return said != MPT_DTYPE_COUNT ? said : widest_input(r, node);
    }
}

/* A value of 8 bits is one that a cast makes of what the kernel put out. */
static void set_dtype(mpt_rewrite *r, mpt_value_id v, mpt_dtype dtype) {
    r->narrow[v] = is_wide(dtype) ? MPT_DTYPE_FP32 : dtype;
    r->graph->values[v].dtype = is_wide(dtype) ? dtype : MPT_DTYPE_FP32;
}

/* A state in its format: what a cast does is its dtype, what takes more is kept beside it. Only
 * weights that are rounded by chance have the dtype too: products read them as they are. */
static mpt_status set_state(mpt_graph *graph, mpt_value_id v, const mpt_quantizer *q) {
    mpt_value *value = &graph->values[v];
    bool cast = mpt_quantizer_is_cast(q), weights = value->kind == MPT_VALUE_PARAM;
    bool exact = q->scale.kind == MPT_SCALING_NONE;
    value->dtype = cast || (weights && exact) ? q->format : MPT_DTYPE_FP32;
    if (cast)
        return MPT_OK;
    mpt_quantizer *kept = mpt_arena_alloc(&graph->arena, sizeof *kept);
    if (!kept)
        return MPT_OUT_OF_MEMORY;
    *kept = *q;
    value->kept = kept;
    return MPT_OK;
}

/* Masters, gradients, moments. The momentum of SGD is no moment of Adam: it stays FP32. */
static mpt_status set_state_dtypes(mpt_rewrite *r) {
    mpt_graph *graph = r->graph;
    const mpt_state_formats *state = &r->options->state;
    for (int i = 0; i < graph->n_params; i++) {
        const mpt_param *param = &graph->params[i];
        if (param->balanced) /* moves by steps of a thousandth, and counts tokens */
            continue;
        MPT_TRY(set_state(graph, param->value, &state->master));
        if (param->grad >= 0)
            graph->values[param->grad].dtype = state->gradient;
        if (param->moment[0] < 0 || param->moment[1] < 0)
            continue;
        MPT_TRY(set_state(graph, param->moment[0], &state->adam_m));
        MPT_TRY(set_state(graph, param->moment[1], &state->adam_v));
    }
    return MPT_OK;
}

mpt_status mpt_precision_set_dtypes(mpt_rewrite *rewrite) {
    mpt_graph *graph = rewrite->graph;
    size_t n = (size_t)graph->n_values;
    bool *stream = mpt_arena_alloc(&rewrite->arena, n * sizeof *stream);
    rewrite->narrow = mpt_arena_alloc(&rewrite->arena, n * sizeof *rewrite->narrow);
    if (!stream || !rewrite->narrow)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(set_state_dtypes(rewrite));
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        bool is_stream = makes_stream(node, stream);
        if (node->pass != MPT_PASS_FORWARD && node->pass != MPT_PASS_BACKWARD)
            continue;
        for (int k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0 || graph->values[node->out[k]].kind != MPT_VALUE_ACTIVATION)
                continue;
            if (graph->values[node->out[k]].dtype == MPT_DTYPE_I32)
                continue; /* counts and places have no format to choose */
            stream[node->out[k]] = is_stream;
            set_dtype(rewrite, node->out[k], output_dtype(rewrite, node, k, is_stream));
        }
    }
    return MPT_OK;
}
