/* The graph: values and the nodes that make them, from the model's forward lines to the
 * optimizer's last step.
 *
 * Stage 1 draws the forward part (graph/nn.h), stage 4 appends gradients (autodiff.c) and the
 * optimizer's tail (update.c), stage 5 rewrites operands to the recipe's formats (precision.c).
 * Nodes stay in a valid order of execution throughout: appending is the only way in, and the
 * rewrite makes a new list. All memory is the graph's arena.
 *
 * Shapes: activations are [tokens, features], tokens = batch * sequence of one micro-batch;
 * weights are [out_features, in_features]; vectors are rank 1; scalars are rank 1 of size 1.
 * Storage: the host backends hold every floating value as float32 whose numbers are exact in
 * the value's dtype (contract 12 of the numerics); dtype says which numbers, not which bytes.
 */
#ifndef MPT_GRAPH_GRAPH_H
#define MPT_GRAPH_GRAPH_H

#include "graph/name_index.h"
#include "recipe/recipe.h"

enum { MPT_MAX_IN = 10, MPT_MAX_OUT = 8, MPT_MAX_RANK = 4, MPT_MAX_PARTS = 8 };

/* ---- ops ---- */

/* One row an op in ops.def: MPT_OP(name, n_in, n_out, flags, "summary"). n_in and n_out are the
 * most it takes; absent optional inputs are -1. */
typedef enum mpt_op {
#define MPT_OP(name, n_in, n_out, flags, summary) MPT_OP_##name,
#include "graph/ops.def"
#undef MPT_OP
    MPT_OP_COUNT
} mpt_op;

enum {
    MPT_OP_GRAD = 1 << 0,   /* appended by autodiff, never by a model */
    MPT_OP_CAST = 1 << 1,   /* cast or quantize: appended by the precision rewrite */
    MPT_OP_UPDATE = 1 << 2, /* the optimizer's tail */
    MPT_OP_MATMUL = 1 << 3  /* a GEMM of a linear layer */
};

/* When a node runs. PREPARE: once an optimizer step, before the micro-batches (weights to their
 * working formats, gradients to zero). FORWARD and BACKWARD: once a micro-batch. UPDATE: once
 * an optimizer step, after them. */
typedef enum mpt_pass {
    MPT_PASS_PREPARE,
    MPT_PASS_FORWARD,
    MPT_PASS_BACKWARD,
    MPT_PASS_UPDATE,
    MPT_PASS_COUNT
} mpt_pass;

const char *mpt_pass_name(mpt_pass pass);

/* ---- values ---- */

typedef int32_t mpt_value_id; /* -1: none */

typedef enum mpt_value_kind {
    MPT_VALUE_ACTIVATION, /* transient: made and last used within one micro-batch */
    MPT_VALUE_INPUT,      /* tokens, targets, positions: the trainer fills them */
    MPT_VALUE_PARAM,      /* master weights */
    MPT_VALUE_GRAD,       /* gradient of a parameter: nodes ADD to it, PREPARE zeroes it */
    MPT_VALUE_MOMENT,     /* optimizer state */
    MPT_VALUE_SCALE,      /* delayed scaling: a scale, or the amaxes of the steps before */
    MPT_VALUE_WORKING,    /* a weight in its working format: made in PREPARE, lives a step */
    MPT_VALUE_STATUS      /* what the trainer reads: loss, norms, finite flags; kept to the end
                             of the step. Several grad_norm nodes fill the rows of one value */
} mpt_value_kind;

typedef struct mpt_value {
    const char *name;
    mpt_value_kind kind;
    mpt_dtype dtype;
    int rank;
    int64_t dims[MPT_MAX_RANK];
    int32_t producer; /* node, or -1: inputs and state (parameters, gradients, moments) */
    int32_t param;    /* index of the parameter it belongs to, or -1 */
    bool needs_grad;  /* something trainable may lie behind it: false behind inputs only */
    /* Of a master or a moment that takes more than a plain cast to its format (a scale,
     * stochastic rounding): how a quantize_state node brings it there; else NULL. Where there
     * is a scale, dtype is FP32: what is stored is decoded, and need not be exact in the format
     * itself. So it is for moments, which nothing else reads. Arena. */
    const mpt_quantizer *kept;
} mpt_value;

int64_t mpt_value_elements(const mpt_value *value);

/* Whether values of a kind outlive the step: they have no producer, since nodes write them in
 * place, and the trainer binds their memory. */
bool mpt_value_is_state(mpt_value_kind kind);

/* ---- parameters ---- */

typedef enum mpt_init_kind {
    MPT_INIT_ZERO,
    MPT_INIT_ONE,
    MPT_INIT_NORMAL,  /* N(0, a) */
    MPT_INIT_UNIFORM, /* U(-a, a) */
    MPT_INIT_A_LOG,   /* log U(1, 16): Mamba-2 */
    MPT_INIT_DT_BIAS  /* softplus inverse of exp U(log a, log b), floored at 1e-4: Mamba-2 */
} mpt_init_kind;

typedef struct mpt_init {
    mpt_init_kind kind;
    float a, b;
} mpt_init;

typedef struct mpt_param {
    const char *name; /* "layers.3.mixer.up_proj.weight": the key of its initial bits too */
    mpt_init init;
    bool transposed; /* stored [in, out] in Hugging Face checkpoints (GPT-2's Conv1D) */
    /* Not 0: weights of so many experts, one below the other, in a matrix of the same number of
     * rows each. Rows of expert e are the checkpoint's tensor PATH.experts.e.REST.weight, where
     * the parameter is PATH.experts.REST.weight: nothing more is needed to map them. */
    int32_t n_experts;
    /* The bias of a choice of experts: no gradient leads to it. Its gradient value holds the
     * tokens that each expert got in the step, and moe_balance moves it by `rate`. */
    bool balanced;
    float rate;
    int32_t layer;
    mpt_value_id value;     /* the master weights */
    mpt_value_id grad;      /* after autodiff; -1 before */
    mpt_value_id moment[2]; /* after update.c; -1 where the optimizer has none */
} mpt_param;

/* ---- nodes ---- */

/* How the products of a GEMM are summed up: runtime/adr/0007-sums-of-a-product.md. */
typedef struct mpt_gemm_sum {
    mpt_dtype accumulate; /* of the running sum */
    int32_t promote;      /* products after which it moves to an FP32 total; 0: never */
} mpt_gemm_sum;

/* The angles of rope: a token at position t turns its pair i by t * theta^(-2 i / dims), where
 * the scaling does not say otherwise (kernels/rope.h). */
typedef enum mpt_rope_scaling {
    MPT_ROPE_DEFAULT,
    MPT_ROPE_LINEAR, /* all angles over `factor` */
    MPT_ROPE_LLAMA3  /* slow ones over `factor`, fast ones as they are, smooth between */
} mpt_rope_scaling;

typedef struct mpt_rope {
    float theta;  /* 0 reads as 10000 */
    int32_t dims; /* of a head, the first of them, that turn; 0: all */
    mpt_rope_scaling scaling;
    float factor;
    float low_freq_factor, high_freq_factor; /* llama3: turns within the original length ... */
    int32_t original_positions;              /* ... that are slow, and fast */
} mpt_rope;

/* Attributes of all ops in one flat struct: few enough that a union would only hide them. Which
 * op reads which is said at the head of its op_*.c. */
typedef struct mpt_attrs {
    int64_t batch, sequence; /* tokens = batch * sequence */
    float eps;               /* norms, adamw */
    float scale;             /* attention: of the products; scale: the factor */
    int32_t heads, kv_heads, head_dim;
    int32_t groups, state, kernel; /* ssm_scan, gated_rmsnorm, conv1d; groups: moe_route */
    /* moe_route and what follows it; linear and its gradients where they have offsets */
    int32_t experts, top_k, top_groups, align;
    bool by_softmax, normalize; /* moe_route: scores are probabilities; weights sum to 1 */
    int32_t n_sizes;
    int64_t sizes[MPT_MAX_PARTS]; /* split: widths of the parts */
    bool exact;                   /* gelu: erf instead of tanh */
    mpt_rope rope;
    float p;           /* dropout: the share that is dropped */
    uint32_t scope;    /* dropout: hash of its layer's path, which keys its bits */
    mpt_dtype softmax; /* attention: of the probabilities in its second product */
    /* linear, linear_dgrad, linear_wgrad: constant factor on the product (tensor scales), and
     * how it is summed up */
    float alpha;
    mpt_gemm_sum sum;
    /* quantize: outputs are {row data, row factor, col data, col factor}; -1 where not wanted
     */
    bool has_row, has_col;             /* record_amax: one of them, as the copy to come */
    mpt_quantizer row, col;            /* scale_update: row */
    uint32_t row_operand, col_operand; /* ids of the stochastic stream: contract 9 */
    uint32_t row_scope, col_scope;     /* of random signs: 0 where layers share them */
    int32_t row_index, col_index;      /* quantize: the copy's place in mpt_graph.operands;
                                          grad_norm: row_index is the row of the shared
                                          [parameters, 2] norms that it fills */
    bool row_again, col_again; /* quantize: a node before this one has made the same copy, so
                                  it is not counted and its amax not recorded once more */
    /* adamw, sgd */
    float beta1, beta2, weight_decay, momentum;
    float clip;       /* clip_factor: 0 is none */
    float rate;       /* moe_balance */
    mpt_dtype reduce; /* grad_reduce: what a rank sends */
    bool kept_later;  /* adamw, sgd: a quantize_state node behind rounds the weights */
} mpt_attrs;

/* n_in and n_out are those of the op's row, with -1 where an optional one is absent; only
 * concat (n_in) and split (n_out) have exactly as many as they have parts. Inference sets both.
 */
typedef struct mpt_node {
    mpt_op op;
    mpt_pass pass;
    bool recomputed; /* does in BACKWARD what a FORWARD node has done: graph/recompute.c */
    int32_t layer;   /* -1: none */
    int32_t block;   /* that the model drew it in, or its forward node; -1: outside, unknown */
    int8_t n_in, n_out;
    mpt_value_id in[MPT_MAX_IN];
    mpt_value_id out[MPT_MAX_OUT];
    mpt_attrs attrs;
    mpt_where where;  /* the recipe rule or model line that asked for it */
    const char *slot; /* quantize, cast: "fprop.x", "dgrad.dy + wgrad.dy" ...; else NULL */
} mpt_node;

/* One copy that a quantize node makes: what is counted alone, and where its scaling is delayed,
 * what has a scale and a history of its own. Stage 5 makes them. */
typedef struct mpt_graph_operand {
    const char *name; /* "layers.3.mixer.up_proj.fprop.x": the layer and slot that own it */
    mpt_quantizer q;
    mpt_value_id scale, history; /* -1 where scaling is not delayed */
    bool recorded; /* no copy is made here: its history is kept for the next phase */
} mpt_graph_operand;

typedef struct mpt_graph {
    mpt_ctx *ctx;
    mpt_arena arena;
    int64_t batch, sequence; /* of one micro-batch */
    int64_t vocab;           /* of the data, or where that states none what its ids need: */
    bool vocab_unstated;
    int n_values, cap_values;
    mpt_value *values;
    int n_nodes, cap_nodes;
    mpt_node *nodes;
    int n_params, cap_params;
    mpt_param *params;
    int n_layers, cap_layers;
    mpt_layer *layers;
    int n_operands, cap_operands;
    mpt_graph_operand *operands;
    mpt_name_index param_names, layer_names;
    int n_blocks;
    mpt_value_id tokens, targets, positions; /* -1 where the model does not ask for it */
    mpt_value_id loss; /* mean cross-entropy of the micro-batch, natural logarithm */
    mpt_value_id logits;
    mpt_value_id finite, norm; /* after update.c: first bad gradient or -1, global norm */
    int n_pruned;              /* nodes that prune.c has taken away */
    const char *root;  /* of its names in a checkpoint, "transformer."; NULL: none known */
    mpt_target target; /* what the kernels are chosen for; HOST before that is known */
    bool pruned;       /* from here on a node that nothing reads is a fault */
    bool own_tokens; /* the host gives all tokens: the model may know fewer words than the data
                      */
    bool checking;   /* set on verify's copy: inference checks outputs and makes none */
} mpt_graph;

mpt_status mpt_graph_create(mpt_ctx *ctx, int64_t batch, int64_t sequence, int64_t vocab,
                            mpt_graph **out);
void mpt_graph_destroy(mpt_graph *graph);

/* How many token ids the model takes, the rows of its smallest table of tokens, and how many
 * columns its logits have: both at least the vocabulary that it was drawn for. */
int64_t mpt_graph_n_ids(const mpt_graph *graph);
int64_t mpt_graph_n_logits(const mpt_graph *graph);

/* Appends a value; -1 when out of memory (error set). Name is copied. */
mpt_value_id mpt_graph_value(mpt_graph *graph, const char *name, mpt_value_kind kind,
                             mpt_dtype dtype, int rank, const int64_t *dims);

/* A node with no input and no output yet: what every append starts from. */
mpt_node mpt_node_make(mpt_op op, mpt_pass pass, int32_t layer);

/* Appends a node and runs its shape inference, which makes the outputs. `node` is copied;
 * inputs, attrs, layer, pass and where are set by the caller, outputs by inference (an output
 * already >= 0 is kept: parameter gradients). Gives the stored node's index. */
mpt_status mpt_graph_append(mpt_graph *graph, const mpt_node *node, int *out_index);

/* ---- the op table ---- */

typedef struct mpt_cost {
    double flops;
    double bytes; /* read and written by a perfect implementation, in the values' dtypes */
} mpt_cost;

/* What an op is. infer checks the inputs and makes the outputs. backward appends the nodes that
 * turn dy[] (one a forward output, -1 where nothing flows) into dx[] (one a forward input; it
 * leaves -1 where the input needs none) and computes nothing; for parameter inputs it makes the
 * gradient node write into the parameter's grad value. cost may be NULL: free. */
typedef struct mpt_op_def {
    mpt_status (*infer)(mpt_graph *graph, mpt_node *node);
    mpt_status (*backward)(mpt_graph *graph, int node, const mpt_value_id *dy,
                           mpt_value_id *dx);
    mpt_cost (*cost)(const mpt_graph *graph, const mpt_node *node);
} mpt_op_def;

typedef struct mpt_op_row {
    const char *name;
    const char *summary;
    int n_in, n_out;
    unsigned flags;
    const mpt_op_def *def;
} mpt_op_row;

const mpt_op_row *mpt_op_get(mpt_op op);
mpt_op mpt_op_by_name(const char *name); /* MPT_OP_COUNT: none */

/* ---- the passes ---- */

/* Stage 4: appends the backward pass of `loss`, and gradient values for all parameters. */
mpt_status mpt_graph_autodiff(mpt_graph *graph);

/* Stage 4, last part: zeroing of gradients (PREPARE), finite check, norm, clip and optimizer.
 */
mpt_status mpt_graph_append_update(mpt_graph *graph, const mpt_train *train);

/* Before stage 5: obeys each quantizer's pad where a dimension of the micro-batch or the model
 * is no multiple of its block: the policy's slot becomes BF16, or the recipe is refused. */
mpt_status mpt_graph_settle_pads(const mpt_graph *graph, mpt_policy *policies);

/* Stage 5: rewrites the graph to the policies (one a layer): dtypes of values, casts, one
 * quantize node a tensor. Base is the compute format where no layer speaks; residual the format
 * of the stream between blocks; state the formats of weights, gradients and moments. Gives the
 * new node list in place. */
typedef struct mpt_precision_options {
    mpt_dtype base, residual;
    const mpt_policy *policies;
    mpt_dtype activation;       /* kept for backward; FP32 holds all, so nothing is cast */
    mpt_where activation_where; /* the line that says so */
    mpt_ops_use *ops;           /* MPT_OPS_COUNT, or NULL; those that decide are marked */
    bool *out_activation;       /* NULL, or set where something is kept in another format */
    mpt_state_formats state;
    const mpt_policy *next; /* of the next phase, whose histories are recorded; NULL: none */
    bool evaluating;        /* a forward graph that is only evaluated: no history moves on */
} mpt_precision_options;
mpt_status mpt_graph_apply_precision(mpt_graph *graph, const mpt_precision_options *options);

/* Behind stage 5: takes away each node, and each copy of a quantize node, that nothing reads
 * and that writes nothing which outlives the step. */
mpt_status mpt_graph_prune(mpt_graph *graph);

/* Behind stage 5 and prune: activations made inside blocks are not kept for the backward pass.
 * Before it the nodes that make them run again, from what goes into `every` blocks at a time:
 * the same nodes with the same quantizers and keys, so that all numbers stay bit for bit. */
mpt_status mpt_graph_recompute(mpt_graph *graph, int every);

/* The block that a node belongs to: its own, else its layer's; -1 outside blocks. */
int mpt_graph_block(const mpt_graph *graph, const mpt_node *node);

/* Invariants between the stages: order, shapes, dtypes, operands that are recorded once, and
 * once the graph is pruned no node that nothing reads. `after` names the stage in the message;
 * a failure is MPT_INTERNAL. */
mpt_status mpt_graph_verify(const mpt_graph *graph, const char *after);

/* The text dump that --dump=STAGE shows and golden tests compare. */
void mpt_graph_print(const mpt_graph *graph, mpt_str *out);

#endif
