/* The cascade laid open: which rule, and which line, decided each field of one layer.
 *
 * Policies hold what was decided; who decided it is asked for seldom, so nothing keeps it: the
 * cascade of a phase is matched again, and run again for the layers that are asked about
 * (resolve_why.c, over the same code). plan/explain.c prints it. */
#ifndef MPT_RECIPE_EXPLAIN_H
#define MPT_RECIPE_EXPLAIN_H

#include "recipe/select.h"

/* The rules of one phase and the layers each speaks of. */
typedef struct mpt_cascade {
    mpt_recipe *recipe;
    const mpt_cascade_rule *rules;
    int n_rules;
    mpt_layer_list model;
    mpt_quantizer base; /* where no rule speaks */
    bool *matches;      /* rule * model.n + layer */
} mpt_cascade;

/* Lists and matches the rules of a phase; what it holds lies in `arena`. Errors are those of
 * mpt_recipe_resolve about rules. `where` functions are called again. */
mpt_status mpt_cascade_make(mpt_recipe *recipe, int phase, const mpt_layer_list *model,
                            mpt_arena *arena, mpt_cascade *out);

static inline bool mpt_cascade_matches(const mpt_cascade *cascade, int rule, int layer) {
    return cascade->matches[(size_t)rule * (size_t)cascade->model.n + (size_t)layer];
}

/* How a value came to be. */
typedef enum mpt_decision {
    MPT_DECIDED_DEFAULT, /* no rule speaks of it: precision.base, or the language's default */
    MPT_DECIDED_SAID,    /* a rule says it */
    MPT_DECIDED_FORMAT,  /* a rule says a format, and it is what that format means */
    MPT_DECIDED_FOLLOWS, /* it goes with scale_format, which a rule says */
    MPT_DECIDED_OPS,     /* precision.ops says it */
    MPT_DECIDED_PAD      /* pad turned the operand to BF16: a dimension is no multiple */
} mpt_decision;

typedef struct mpt_origin {
    mpt_decision how;
    int rule; /* index into the cascade; -1: none */
    mpt_where
        where; /* of the field, or of the format or field it comes with; file NULL: none */
    mpt_ops_word word; /* of OPS */
} mpt_origin;

typedef struct mpt_explanation {
    bool has_gemms; /* else only `compute` holds */
    mpt_quantizer slot[MPT_SLOT_COUNT];
    mpt_origin field[MPT_SLOT_COUNT][MPT_SLOT_FIELDS]; /* by row of the quantizer's record */
    mpt_dtype output[MPT_GEMM_COUNT];
    mpt_origin output_why[MPT_GEMM_COUNT];
    mpt_dtype accumulate[MPT_GEMM_COUNT];
    int32_t promote[MPT_GEMM_COUNT]; /* 0: never */
    mpt_origin accumulate_why[MPT_GEMM_COUNT], promote_why[MPT_GEMM_COUNT];
    mpt_dtype compute;
    mpt_origin compute_why;
    bool has_softmax; /* attention */
    mpt_dtype softmax;
    mpt_origin softmax_why;
} mpt_explanation;

/* Runs the cascade for one layer. */
void mpt_cascade_explain(const mpt_cascade *cascade, int layer, mpt_explanation *out);

#endif
