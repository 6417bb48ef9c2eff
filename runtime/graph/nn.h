/* The builder a model's graph function talks to: forward lines only, no precision anywhere.
 *
 * Lua's nn.* words and a host's C callback both end here. Layer and parameter names are given
 * relative to the current scope ("mixer.up_proj" inside block 3 becomes
 * "layers.3.mixer.up_proj"). Each call checks its inputs and fails with the model file's line.
 * Values are [tokens, features]. */
#ifndef MPT_GRAPH_NN_H
#define MPT_GRAPH_NN_H

#include "graph/graph.h"

/* Lent to the model's build function for the length of the call. */
typedef struct mpt_nn {
    mpt_graph *graph;
    mpt_where where;    /* of the call being made: the binding sets it before each */
    const char *prefix; /* "layers.3." or "" */
    int block;          /* -1 outside blocks */
    bool failed;        /* a call failed: later calls return the same status */
} mpt_nn;

/* Blocks are numbered from 0 and opened in order; `root` is "layers" or "h". */
mpt_status mpt_nn_block_begin(mpt_nn *nn, const char *root, int index);
mpt_status mpt_nn_block_end(mpt_nn *nn);

/* Inputs of the whole model. positions: 0 ... sequence-1 of each sequence. */
mpt_status mpt_nn_tokens(mpt_nn *nn, mpt_value_id *out);
mpt_status mpt_nn_positions(mpt_nn *nn, mpt_value_id *out);

/* What a mixture of experts is asked for beside attrs. */
typedef struct mpt_nn_experts {
    int64_t hidden;     /* width inside an expert */
    bool gated;         /* experts are silu(gate_proj x) * up_proj x, else relu2(up_proj x) */
    float balance;      /* how far the bias of the choice moves a step */
    mpt_init down_init; /* of down_proj */
    bool has_down_init;
} mpt_nn_experts;

/* Everything a layer call can carry; each op reads its own (graph/nn.c has the table). */
typedef struct mpt_nn_args {
    const char *name; /* layer path in the scope: "mixer.up_proj"; NULL for nameless ops */
    int n_in;
    mpt_value_id in[MPT_MAX_IN];
    int64_t out_features; /* linear; embedding: width. 0: of a head the vocabulary, of a tied
                             layer the rows of its weight */
    int64_t rows;         /* embedding: rows of the table; 0 means the vocabulary */
    bool bias;
    bool transposed; /* layout = "conv1d" */
    bool head;       /* linear: the output projection (kind "head") */
    bool router;     /* linear: the scores of experts (kind "router") */
    /* linear: attrs.experts weights one below the other, each for the rows between two of the
     * offsets; no offsets where attrs.experts is 0 */
    mpt_value_id offsets;
    mpt_nn_experts moe;
    const char *tied; /* linear, embedding, rmsnorm, layernorm: name of the parameter used as
                         weight, whole ("wte.weight") or in the open block ("up.weight") */
    mpt_init init;    /* of the weight */
    bool has_init;
    mpt_init bias_init;
    bool has_bias_init;
    int n_parts; /* fused linear: names of the parts */
    const char *parts[MPT_MAX_PARTS];
    mpt_attrs attrs; /* eps, heads, groups, state, kernel, sizes, exact ... */
} mpt_nn_args;

/* The data's vocabulary, for models that have none of their own; MPT_DATA where nothing states
 * it. */
mpt_status mpt_nn_vocab(mpt_nn *nn, int64_t *out);
#define MPT_NN_STATE_VOCAB                                                                     \
    "write data = tokens { path = ..., vocab = n }, or --set data.vocab=n beside --data; or "  \
    "give the model's size a vocabulary"

/* A mixture of experts: the router NAME.gate, the choice, the routed experts as the linear
 * layers NAME.experts.up_proj, NAME.experts.down_proj (and NAME.experts.gate_proj where they
 * are gated), and the weighted sum of what they give. One input, [tokens, features], and a
 * result like it. Reads bias, init, moe, and of attrs experts, top_k, groups, top_groups, scale
 * (0: 1), normalize, by_softmax, align (0: 32). graph/nn_moe.c. */
mpt_status mpt_nn_moe(mpt_nn *nn, const mpt_nn_args *args, mpt_value_id *out);

/* One forward op by name: "linear", "embedding", "rmsnorm", "layernorm", "gated_rmsnorm",
 * "attention", "rope", "conv1d", "ssm_scan", "gelu", "silu", "relu2", "softplus", "swiglu",
 * "softmax", "scale", "dropout", "add", "mul", "split", "concat", "cross_entropy" (in: logits;
 * ends the model). Makes layer, parameters (NAME.weight, NAME.bias; ssm_scan: NAME.A_log,
 * NAME.D, NAME.dt_bias) and node; `out` has room for MPT_MAX_OUT ids, of which *n_out are for
 * the model to use. ssm_scan takes in = {x, B, C, dt}; attrs heads, head_dim, groups, state. */
mpt_status mpt_nn_call(mpt_nn *nn, mpt_op op, const mpt_nn_args *args, mpt_value_id *out,
                       int *n_out);

#endif
