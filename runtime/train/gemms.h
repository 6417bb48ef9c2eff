/* Which GEMMs of linear layers ran in training, by the formats of the operands they read.
 *
 * The executor counts each step of the schedule once its kernel has run, so the numbers say
 * what was computed and not what a recipe calls itself. A row is a product (fprop, dgrad,
 * wgrad) with one pair of operand formats, over all layers and phases. Evaluation is not
 * counted. */
#ifndef MPT_TRAIN_GEMMS_H
#define MPT_TRAIN_GEMMS_H

#include "runtime/pipeline.h"
#include "train/saved.h"

/* A product and what its two operands were when they were multiplied. */
typedef struct mpt_gemm_row {
    mpt_gemm gemm;
    const char *a, *b; /* "nvfp4", "bf16": as recipes call them; lent by the programs */
    bool quantized;    /* one of them is the work of a quantizer, and no plain cast */
} mpt_gemm_row;

typedef struct mpt_gemms {
    mpt_ctx *ctx;
    mpt_arena arena;
    int n, cap;
    mpt_gemm_row *rows;
    int64_t *runs;        /* one a row */
    mpt_run_tally *tally; /* one a phase; of_step has n_steps of its program */
} mpt_gemms;

/* Finds the rows of all phases, in the order of their schedules; none ran yet. */
mpt_status mpt_gemms_find(mpt_gemms *gemms, const mpt_program *program);
void mpt_gemms_free(mpt_gemms *gemms);

/* What the executor of a phase counts into. */
const mpt_run_tally *mpt_gemms_tally(const mpt_gemms *gemms, int phase);

/* Adds the counts to what a checkpoint holds, one number a row. */
mpt_status mpt_gemms_saved(mpt_gemms *gemms, mpt_saved *list);

#endif
