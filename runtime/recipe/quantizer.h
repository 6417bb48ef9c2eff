/* One quantizer: how the elements of one operand become low-precision codes.
 *
 * A plain value, copied freely. The recipe resolves rules into these, the compiler puts them on
 * quantize nodes, the kernels obey them. Field meanings: the rows in schema_quantizer.c; the
 * formulas: kernels/numerics_scale.h. In every enum 0 is what a format without scales has. */
#ifndef MPT_RECIPE_QUANTIZER_H
#define MPT_RECIPE_QUANTIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/formats.h"

/* ---- where a scale comes from ---- */

/* NONE: the format is wide enough to hold the values as they are. */
typedef enum mpt_scaling {
    MPT_SCALING_NONE,
    MPT_SCALING_CURRENT,
    MPT_SCALING_DELAYED,
    MPT_SCALING_STATIC
} mpt_scaling;

typedef enum mpt_amax_algo { MPT_AMAX_MAX, MPT_AMAX_MOST_RECENT } mpt_amax_algo;

typedef struct mpt_scale_source {
    mpt_scaling kind;
    int32_t history;    /* delayed: steps that the window holds */
    mpt_amax_algo algo; /* delayed */
    int32_t margin;     /* delayed: the scale is divided by 2^margin */
    bool reduce_amax;   /* delayed: ranks share the largest amax */
    double headroom;    /* delayed: the scale is divided by it */
    double value;       /* static: what values are multiplied by */
    uint64_t set;       /* delayed: bit i: field i of its record was said, for plans */
} mpt_scale_source;

/* ---- how a scale is stored and rounded ---- */

typedef enum mpt_scale_format {
    MPT_SCALE_FP32, /* the decode scale, unrounded */
    MPT_SCALE_POW2, /* FP32 with a power of two in it */
    MPT_SCALE_E8M0, /* one byte: the exponent */
    MPT_SCALE_E4M3  /* one byte, under an outer scale or none */
} mpt_scale_format;

const char *mpt_scale_format_name(mpt_scale_format format); /* "pow2" */

/* NEAREST: as FP32 and E4M3 scales are rounded. The next four are for E8M0; UP also for POW2.
 */
typedef enum mpt_scale_rule_kind {
    MPT_RULE_NEAREST,
    MPT_RULE_UP,
    MPT_RULE_FLOOR,
    MPT_RULE_CEIL,
    MPT_RULE_EVEN,
    MPT_RULE_FOUR_OVER_SIX
} mpt_scale_rule_kind; /* names: the row of `scale_rule` */

typedef enum mpt_choice_error { MPT_ERROR_MAE, MPT_ERROR_MSE } mpt_choice_error;

typedef struct mpt_scale_rule {
    mpt_scale_rule_kind kind;
    mpt_choice_error error; /* four_over_six: what the better of two scales is told by */
    int32_t bound;          /* four_over_six: the largest block scale, 256 or 448 */
} mpt_scale_rule;

/* How scales of a format are rounded where nothing else is said. */
mpt_scale_rule mpt_scale_format_rule(mpt_scale_format format);

typedef enum mpt_outer { MPT_OUTER_NONE, MPT_OUTER_TENSOR, MPT_OUTER_ROW } mpt_outer;

/* ---- elements ---- */

typedef enum mpt_rounding {
    MPT_ROUNDING_NEAREST,
    MPT_ROUNDING_STOCHASTIC,
    MPT_ROUNDING_TOWARD_ZERO,
    MPT_ROUNDING_HALF_AWAY
} mpt_rounding;

typedef enum mpt_signs { MPT_SIGNS_FIXED, MPT_SIGNS_RANDOM, MPT_SIGNS_NONE } mpt_signs;
typedef enum mpt_signs_scope { MPT_SCOPE_SHARED, MPT_SCOPE_LAYER } mpt_signs_scope;
typedef enum mpt_redraw { MPT_REDRAW_NEVER, MPT_REDRAW_STEP } mpt_redraw;

/* A rotation by size consecutive elements along the dot product; size 0 means none. */
typedef struct mpt_hadamard {
    int32_t size;
    mpt_signs signs;
    mpt_signs_scope scope; /* random: whether layers draw signs of their own */
    mpt_redraw redraw;     /* random: when they are drawn anew */
    int64_t seed;          /* random: -1 takes the run's */
} mpt_hadamard;

typedef enum mpt_nonfinite { MPT_NONFINITE_PROPAGATE, MPT_NONFINITE_SATURATE } mpt_nonfinite;
typedef enum mpt_copy_source { MPT_SOURCE_ORIGINAL, MPT_SOURCE_DEQUANTIZED } mpt_copy_source;
typedef enum mpt_pad { MPT_PAD_ZERO, MPT_PAD_BF16, MPT_PAD_ERROR } mpt_pad;

typedef struct mpt_quantizer {
    const char *name; /* what the recipe calls it: "nvfp4", "e4m3", "bf16"; static or arena */
    mpt_dtype format; /* of the elements */
    int32_t
        block_rows; /* elements that share a scale; 0 is the whole extent, so {0, 0} is one */
    int32_t
        block_cols; /* scale a tensor, {1, 0} one a row; columns run along the dot product */
    mpt_scale_source scale;
    mpt_scale_format scale_format;
    mpt_scale_rule scale_rule;
    mpt_outer outer;       /* second-level FP32 scale */
    double headroom;       /* factor on the format's largest magnitude; 0 reads as 1 */
    mpt_rounding rounding; /* of the elements; scales follow scale_rule */
    mpt_hadamard hadamard;
    mpt_nonfinite nonfinite;
    mpt_copy_source source; /* what the column copy is made from */
    mpt_pad pad;            /* where a dimension is no multiple of the block */
} mpt_quantizer;

/* Whether two quantizers give the same bytes for the same input: the name does not count, nor
 * does pad, which decides before anything is quantized. */
bool mpt_quantizer_equal(const mpt_quantizer *a, const mpt_quantizer *b);

/* Whether two operands are rotated alike, so that their product is as without. */
bool mpt_hadamard_equal(const mpt_hadamard *a, const mpt_hadamard *b);

/* Whether this is a plain cast to a wide format: no scale, no rotation, nearest even. */
bool mpt_quantizer_is_cast(const mpt_quantizer *q);

/* Whether one scale (none, or the one FP32 scale) holds for the whole tensor. */
bool mpt_quantizer_is_one_scale(const mpt_quantizer *q);

/* The largest E4M3 block scale: 448, or what Four Over Six is told. */
float mpt_quantizer_bound(const mpt_quantizer *q);

/* With an outer scale, whose factor is an amax: what the product divides by to decode, the
 * bound times the largest element. 1 where there is none. */
float mpt_quantizer_divisor(const mpt_quantizer *q);

/* What a delayed scale brings the window's amax to: the largest element with headroom, margin
 * and the source's own headroom. */
float mpt_quantizer_delayed_max(const mpt_quantizer *q);

/* ---- texts ---- */

enum { MPT_QUANTIZER_TEXT = 768 };

/* Everything that decides a byte, in the words that mpt_recipe_add_rule takes: "e2m1 block=1x16
 * scale=current scale_format=e4m3 ...". Quantizers that are equal, pad included, have one text;
 * the canonical text and the schedule hash are made of it. */
void mpt_quantizer_text(const mpt_quantizer *q, char out[MPT_QUANTIZER_TEXT]);

/* For people: the name, the block, and what differs from what the name means:
 * "nvfp4 16x16 stochastic hadamard 16". */
void mpt_quantizer_brief(const mpt_quantizer *q, char out[MPT_QUANTIZER_TEXT]);

/* The value of one row of the quantizer's record, for people: "16x16", "delayed history=16
 * algo=max ...", of the format also its name: "nvfp4 (e2m1)"; "-" where it means nothing,
 * because the format has no scale. */
void mpt_quantizer_field_text(const mpt_quantizer *q, int row, char out[MPT_QUANTIZER_TEXT]);

/* Whether the two copies of a tensor, along its rows by `one` and along its columns by `other`,
 * hold the same numbers: the blocks cover the same elements (square ones, or one scale a
 * tensor), and no result depends on the direction in which the elements are taken, as a
 * rotation and a stochastic stream do. */
bool mpt_quantizer_turns(const mpt_quantizer *one, const mpt_quantizer *other);

#endif
