/* What the row files share: the list of records, and the macro that ties a row to its member.
 *
 * Rows stand in schema_quantizer.c (formats and their fields), schema_precision.c (rules,
 * phases), schema_train.c (training) and schema_data.c (data); schema.c reads them. */
#ifndef MPT_RECIPE_SCHEMA_ROWS_H
#define MPT_RECIPE_SCHEMA_ROWS_H

#include "recipe/schema.h"

/* The place of a member; without one (SIZE_MAX) a value is checked and not stored. */
#define MEMBER(type, member)                                                                   \
    .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define NO_MEMBER .offset = SIZE_MAX, .bytes = 0

/* Bounds that are not reached: "above 0", "below 1" and, for what float32 must tell from 1,
 * "above 1". */
#define ABOVE_ZERO 0x1p-1022
#define ABOVE_ONE  0x1.000002p0
#define BELOW_ONE  0x1.fffffffffffffp-1
/* Counts up to here are exact in a double, which is what Lua and --set may hand in. */
#define COUNT_MAX 0x1p53

/* A block as a choice's value: {rows, columns}, {0, 0} is the whole tensor. */
#define BLOCK_VALUE(rows, cols) ((int64_t)(rows) << 32 | (cols))

extern const mpt_record mpt_record_recipe, mpt_record_precision, mpt_record_state,
    mpt_record_quantizer, mpt_record_hadamard, mpt_record_static, mpt_record_dynamic,
    mpt_record_gemm, mpt_record_fprop, mpt_record_dgrad, mpt_record_wgrad, mpt_record_rule,
    mpt_record_phase, mpt_record_ops;
extern const mpt_record mpt_record_current, mpt_record_delayed, mpt_record_fixed_scale,
    mpt_record_four_over_six;
extern const mpt_record mpt_record_train, mpt_record_proxy, mpt_record_recompute,
    mpt_record_eval, mpt_record_checkpoint, mpt_record_spike, mpt_record_watch,
    mpt_record_telemetry, mpt_record_adamw, mpt_record_sgd, mpt_record_constant,
    mpt_record_linear, mpt_record_cosine, mpt_record_wsd, mpt_record_synthetic, mpt_record_text,
    mpt_record_tokens, mpt_record_batches, mpt_record_file;
extern const mpt_record *const mpt_data_records[]; /* by mpt_data_kind */

#endif
