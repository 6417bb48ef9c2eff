/* What a rule can select: one layer of the model, and what the rules decided for it.
 *
 * The graph makes the layers (graph/nn.c), recipe/resolve.c fills the policies, and
 * graph/precision.c rewrites the graph with them. */
#ifndef MPT_RECIPE_LAYER_H
#define MPT_RECIPE_LAYER_H

#include "base/base.h"
#include "recipe/quantizer.h"

/* X(ENUM, "name in rules", "what it is") */
#define MPT_LAYER_KIND_LIST(X)                                                                 \
    X(LINEAR, "linear", "GEMM layers inside blocks")                                           \
    X(ATTENTION, "attention", "the two attention products and the softmax between them")       \
    X(NORM, "norm", "RMSNorm, LayerNorm, gated RMSNorm")                                       \
    X(EMBEDDING, "embedding", "token and position tables")                                     \
    X(HEAD, "head", "the output projection to the vocabulary")                                 \
    X(SCAN, "scan", "the Mamba-2 state-space scan")                                            \
    X(CONV, "conv", "the depthwise causal convolution")                                        \
    X(ROUTER, "router", "the choice of experts")                                               \
    X(OTHER, "other",                                                                          \
      "elementwise operations and losses: no rule speaks of them, they take the widest input")

typedef enum mpt_layer_kind {
#define MPT_LAYER_KIND_ENUM(id, name, doc) MPT_LAYER_##id,
    MPT_LAYER_KIND_LIST(MPT_LAYER_KIND_ENUM)
#undef MPT_LAYER_KIND_ENUM
        MPT_LAYER_KIND_COUNT
} mpt_layer_kind;

const char *mpt_layer_kind_name(mpt_layer_kind kind);

/* Whether layers of a kind are made of the three products: linear layers, the head, routers. */
static inline bool mpt_layer_has_gemms(mpt_layer_kind kind) {
    return kind == MPT_LAYER_LINEAR || kind == MPT_LAYER_HEAD || kind == MPT_LAYER_ROUTER;
}

typedef struct mpt_layer {
    const char *path; /* Hugging Face name without root: "layers.3.mixer.up_proj" */
    mpt_layer_kind kind;
    const char *op;                    /* its name: "layernorm"; NULL: that of the kind */
    int block;                         /* 0-based, -1 outside blocks */
    int64_t in_features, out_features; /* 0 where the kind has none */
    int n_parts; /* a fused layer names its parts: q_proj, k_proj, v_proj; else 0 */
    const char *const *parts;
    int64_t *part_rows; /* of each part's weight; all 0: unknown. NULL: no parts */
    /* Linear layers of experts: as many weights of out_features rows; a token goes to top_k of
     * them, and each expert's tokens fill a multiple of `align` rows. Else 0. */
    int32_t n_experts, top_k, align;
    mpt_where where; /* line of the model file */
} mpt_layer;

/* The three GEMMs of a linear layer and their six operand slots, in the order of recipes.md. */
typedef enum mpt_gemm {
    MPT_GEMM_FPROP,
    MPT_GEMM_DGRAD,
    MPT_GEMM_WGRAD,
    MPT_GEMM_COUNT
} mpt_gemm;
typedef enum mpt_slot {
    MPT_SLOT_FPROP_X,
    MPT_SLOT_FPROP_W,
    MPT_SLOT_DGRAD_DY,
    MPT_SLOT_DGRAD_W,
    MPT_SLOT_WGRAD_DY,
    MPT_SLOT_WGRAD_X,
    MPT_SLOT_COUNT
} mpt_slot;

const char *mpt_gemm_name(mpt_gemm gemm); /* "fprop" */
const char *mpt_slot_name(mpt_slot slot); /* "fprop.x" */

/* How the products of one dot product are summed up: runtime/adr/0007-sums-of-a-product.md. */
enum { MPT_SUM_GROUP = 16 }; /* products that are summed up before a sum is rounded */

enum { MPT_DECIDED_MAX = 16 };

/* Why pad = "bf16" made an operand BF16: so many tokens or features, no multiple of a block. */
typedef struct mpt_fallback {
    const char *from; /* the format that a rule asked for; NULL: it did not fall back */
    int64_t extent;
    int32_t block;
    const char *word; /* what the extent counts: "in features" */
} mpt_fallback;

/* The precision of one layer in one phase. */
typedef struct mpt_policy {
    mpt_quantizer slot[MPT_SLOT_COUNT];   /* kind LINEAR and HEAD */
    mpt_dtype output[MPT_GEMM_COUNT];     /* of y, dx; wgrad goes to the gradient's dtype */
    mpt_dtype accumulate[MPT_GEMM_COUNT]; /* how products are summed up: of the running sum */
    int32_t promote[MPT_GEMM_COUNT];      /* products after which it moves to FP32; 0: never */
    /* Every kind: the format of what the layer puts out. Attention and convolution also read
     * their activations in it. E4M3 and E5M2 (norms): FP32 is put out, and a cast follows. */
    mpt_dtype compute;
    mpt_dtype softmax;   /* attention: of the probabilities in its second product; else FP32 */
    bool by_ops;         /* compute comes from precision.ops, whose line is ops_where */
    mpt_where ops_where; /* (a rule that names the layer outranks it: then by_ops is false) */
    int n_decided;       /* places of the rules that decided something here */
    mpt_where decided_by[MPT_DECIDED_MAX];
    mpt_fallback fallback[MPT_SLOT_COUNT];
} mpt_policy;

#endif
