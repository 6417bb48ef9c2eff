/* Inside the cascade: one layer on its way through it, for resolve.c, which makes policies of
 * it, and resolve_why.c, which tells who decided what. */
#ifndef MPT_RECIPE_RESOLVE_H
#define MPT_RECIPE_RESOLVE_H

#include "recipe/explain.h"

/* One layer on its way through the cascade. A decider is an index into the cascade, -1 where
 * the default still stands. */
typedef struct mpt_layer_state {
    const mpt_layer *layer;
    mpt_slot_use slot[MPT_SLOT_COUNT];
    /* Of each field; that of the format is the last whole format. */
    int decider[MPT_SLOT_COUNT][MPT_SLOT_FIELDS];
    int format_decider[MPT_SLOT_COUNT];
    mpt_dtype output[MPT_GEMM_COUNT];
    int output_decider[MPT_GEMM_COUNT];
    mpt_dtype accumulate[MPT_GEMM_COUNT];
    int accumulate_decider[MPT_GEMM_COUNT];
    int32_t promote[MPT_GEMM_COUNT];
    int promote_decider[MPT_GEMM_COUNT];
    mpt_dtype compute;
    int compute_decider;
    mpt_ops_word compute_word; /* of precision.ops, where no rule speaks; COUNT: none does */
} mpt_layer_state;

/* Takes layer i through all rules that speak of it, in order. */
void mpt_cascade_run(const mpt_cascade *cascade, int i, mpt_layer_state *state);

#endif
