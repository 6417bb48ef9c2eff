/* The operations other than linear layers: the autocast table, and what a recipe changes in it.
 *
 * Every op computes in FP32 inside; the table says in which format it reads its activations and
 * in which it leaves its result. `precision.ops` overrides rows by the words below; a rule that
 * names a layer outranks them. Parameters (norm weights, the taps of a convolution) are read as
 * their masters are, and the gradient of a value has the value's format.
 *
 * Read by resolve.c (layers), graph/precision_dtypes.c and graph/precision_ops.c (nodes without
 * a layer, casts). A new op takes one row here; tests/unit/test_ops.c names a missing one. */
#ifndef MPT_RECIPE_OPS_H
#define MPT_RECIPE_OPS_H

#include "base/base.h"

/* X(ENUM, "word", formats it takes, "default", "what it says") in the order of the reference.
 * WIDE is fp32, bf16 and fp16; NARROW e4m3 and e5m2 too. */
#define MPT_OPS_WORD_LIST(X)                                                                   \
    X(SOFTMAX, "softmax", NARROW, "fp32",                                                      \
      "Probabilities as attention's second product reads them: exp(score - largest of its "    \
      "row) is rounded to this, its sum is not.")                                              \
    X(NORM, "norm", NARROW, "precision.base",                                                  \
      "What norms put out; e4m3 and e5m2 are plain saturating casts.")                         \
    X(RMSNORM, "rmsnorm", NARROW, "norm", "One kind of norm alone.")                           \
    X(LAYERNORM, "layernorm", NARROW, "norm", "One kind of norm alone.")                       \
    X(GATED_RMSNORM, "gated_rmsnorm", NARROW, "norm", "One kind of norm alone.")               \
    X(ATTENTION, "attention", WIDE, "precision.base",                                          \
      "What attention reads (q, k, v and gradients) and puts out.")                            \
    X(CONV, "conv", WIDE, "precision.base",                                                    \
      "What convolutions read (activations and gradients) and put out.")                       \
    X(CONV1D, "conv1d", WIDE, "conv", "The depthwise one alone.")                              \
    X(SCAN, "scan", WIDE, "precision.base", "What state-space scans put out.")                 \
    X(SSM_SCAN, "ssm_scan", WIDE, "scan", "That of Mamba-2 alone.")                            \
    X(CROSS_ENTROPY, "cross_entropy", WIDE, "fp32",                                            \
      "Logits as the loss and its gradient read them; the loss itself is fp32.")               \
    X(EMBEDDING, "embedding", WIDE, "precision.state.residual", "What tables give.")           \
    X(GELU, "gelu", WIDE, "the widest input", "What it puts out.")                             \
    X(SILU, "silu", WIDE, "the widest input", "What it puts out.")                             \
    X(RELU2, "relu2", WIDE, "the widest input", "What it puts out.")                           \
    X(SOFTPLUS, "softplus", WIDE, "the widest input", "What it puts out.")                     \
    X(SWIGLU, "swiglu", WIDE, "the widest input", "What it puts out.")                         \
    X(ROPE, "rope", WIDE, "the widest input", "What it puts out.")                             \
    X(ADD, "add", WIDE, "the widest input",                                                    \
      "Sums other than the stream between blocks, which state.residual decides.")              \
    X(MUL, "mul", WIDE, "the widest input", "Products of two activations.")

typedef enum mpt_ops_word {
#define MPT_OPS_ENUM(id, name, formats, by_default, doc) MPT_OPS_##id,
    MPT_OPS_WORD_LIST(MPT_OPS_ENUM)
#undef MPT_OPS_ENUM
        MPT_OPS_COUNT
} mpt_ops_word;

const char *mpt_ops_word_name(mpt_ops_word word);

/* The three classes of autocast, by what an op does where nothing is said of it. */
typedef enum mpt_ops_class {
    MPT_OPS_CLASS_LOW,  /* reads and puts out precision.base */
    MPT_OPS_CLASS_FP32, /* reads what there is, which is exact in FP32, and rounds its result */
    MPT_OPS_CLASS_WIDEST /* puts out its widest input */
} mpt_ops_class;

const char *mpt_ops_class_name(mpt_ops_class which);

/* One forward op that a model can use. COUNT as a word: nothing can be said of it here. */
typedef struct mpt_ops_row {
    const char *op; /* its name in graph/ops.def */
    mpt_ops_class kind;
    mpt_ops_word own, group; /* its word, and that of its kind: the own one wins */
    bool reads;              /* the format counts for what it reads ... */
    bool writes;             /* ... and for what it puts out */
} mpt_ops_row;

/* The row of an op, by its name; NULL where there is none. */
const mpt_ops_row *mpt_ops_find(const char *op);
/* All rows, in the order of graph/ops.def. */
const mpt_ops_row *mpt_ops_rows(int *out_n);

/* What a recipe says under one word. */
typedef struct mpt_ops_use {
    mpt_dtype format; /* MPT_DTYPE_COUNT: nothing */
    mpt_where where;
    bool decides; /* after compiling: some node took its format from here */
} mpt_ops_use;

/* The word that speaks of an op in `uses` (MPT_OPS_COUNT of them); COUNT where none does. */
mpt_ops_word mpt_ops_said(const mpt_ops_use *uses, const mpt_ops_row *row);

#endif
