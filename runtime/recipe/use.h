/* From the words of a gemm{...} to the six slots of a mpt_use.
 *
 * The words overlap (weight fills two slots, wgrad.hadamard two others), so their order must
 * not come from the order of a table's keys: they are collected here first, then composed from
 * the general to the special. Called by lua/bind and by the setters for hosts (host.c). */
#ifndef MPT_RECIPE_USE_H
#define MPT_RECIPE_USE_H

#include "recipe/schema.h"

/* The three tensors of a linear layer, each an operand of two GEMMs: their roles in it. */
typedef enum mpt_role {
    MPT_OPERAND_WEIGHT,
    MPT_OPERAND_ACTIVATION,
    MPT_OPERAND_GRADIENT,
    MPT_OPERAND_COUNT
} mpt_role;

const char *mpt_operand_name(mpt_role operand); /* "weight" */

/* What was said, each under its own word. An empty slot use (no format, set 0) says nothing. */
typedef struct mpt_gemm_words {
    mpt_slot_use operand[MPT_OPERAND_COUNT]; /* weight, activation, gradient: two slots each */
    mpt_slot_use gemm[MPT_GEMM_COUNT];       /* {hadamard = ...} of fprop, dgrad, wgrad: both
                                                operands of one GEMM */
    mpt_slot_use slot[MPT_SLOT_COUNT];       /* fprop.x and the like */
    bool has_output[MPT_GEMM_COUNT];
    mpt_dtype
        output[MPT_GEMM_COUNT]; /* `output` of the whole gemm is that of fprop and dgrad */
    mpt_where output_where[MPT_GEMM_COUNT];
    bool has_accumulate[MPT_GEMM_COUNT], has_promote[MPT_GEMM_COUNT];
    mpt_dtype accumulate[MPT_GEMM_COUNT]; /* of the whole gemm: of all three */
    int32_t promote[MPT_GEMM_COUNT];
} mpt_gemm_words;

/* A slot use that is a whole format or preset ("nvfp4"); false where no format has the name. */
bool mpt_slot_use_by_name(const char *name, mpt_slot_use *out);

/* Fields that follow others where they were not said themselves: scale_rule goes with
 * scale_format, and the outer scale goes where block scales are not e4m3. Whoever changes a
 * slot calls it afterwards; merging does. */
void mpt_slot_use_settle(mpt_slot_use *use);

/* Says that everything in it, format and fields, was written at one place. */
void mpt_slot_use_place(mpt_slot_use *use, mpt_where where);

/* The text of the quantizer where there is a format, else of the fields that were said. */
void mpt_slot_use_text(const mpt_slot_use *use, char out[MPT_QUANTIZER_TEXT]);

/* Lays `over` on `under`: a format replaces the slot whole, single fields merge one by one. */
void mpt_slot_use_merge(mpt_slot_use *under, const mpt_slot_use *over);

/* Reads "nvfp4 rounding=stochastic", as hosts and --set write a format with its fields. `path`
 * is that of what holds the use: "phases[2]", "train.eval". */
mpt_status mpt_use_parse(mpt_recipe *recipe, const char *path, const char *text,
                         mpt_where where, mpt_use *out);

/* A use that is one format: all six slots, GEMM-level fields back to their defaults. */
void mpt_use_from_format(const mpt_slot_use *format, mpt_use *out);

/* Composes: tensors into both their slots, then GEMM-wide fields, then single operands. */
void mpt_use_from_words(const mpt_gemm_words *words, mpt_use *out);

/* What `promote` takes besides the range of its row: whole groups of products, as they are
 * summed up before anything is rounded. `path` is the field's. */
mpt_status mpt_promote_check(mpt_ctx *ctx, const char *path, int64_t promote, mpt_where where);

/* The slots of a GEMM (first, second operand) and of a tensor. */
void mpt_gemm_slots(mpt_gemm gemm, mpt_slot out[2]);
void mpt_operand_slots(mpt_role operand, mpt_slot out[2]);
mpt_gemm mpt_slot_gemm(mpt_slot slot);

/* By name, or -1: "wgrad"; "weight"; "fprop.x". */
int mpt_gemm_by_name(const char *name);
int mpt_operand_by_name(const char *name);
int mpt_slot_by_name(const char *name);

#endif
