/* One quantizer: how the elements of one operand become low-precision codes.
 *
 * A plain value, copied freely. The recipe resolves rules into these, the compiler puts them on
 * quantize nodes, the kernels obey them. Field meanings: the rows in recipe/schema.def. */
#ifndef MPT_RECIPE_QUANTIZER_H
#define MPT_RECIPE_QUANTIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/formats.h"

/* Where a scale comes from. NONE: the format is wide enough to hold the values as they are. */
typedef enum mpt_scaling { MPT_SCALING_NONE, MPT_SCALING_CURRENT } mpt_scaling;
typedef enum mpt_outer { MPT_OUTER_NONE, MPT_OUTER_TENSOR } mpt_outer;
typedef enum mpt_rounding { MPT_ROUNDING_NEAREST, MPT_ROUNDING_STOCHASTIC } mpt_rounding;
typedef enum mpt_signs { MPT_SIGNS_FIXED, MPT_SIGNS_NONE } mpt_signs;

/* A rotation by size consecutive elements along the dot product; size 0 means none. */
typedef struct mpt_hadamard {
    int32_t size;
    mpt_signs signs;
} mpt_hadamard;

typedef struct mpt_quantizer {
    const char *name;   /* what the recipe calls it: "nvfp4", "e4m3", "bf16"; static or arena */
    mpt_dtype format;   /* of the elements */
    int32_t block_rows; /* elements that share a scale; 0 is the whole extent, so */
    int32_t block_cols; /* {0, 0} is one scale a tensor; columns run along the dot product */
    mpt_scaling scaling;
    mpt_dtype scale_format; /* of the stored block scale: FP32 or E4M3 */
    mpt_outer outer;        /* second-level FP32 scale */
    mpt_rounding rounding;  /* of the elements; scales are always rounded to nearest */
    mpt_hadamard hadamard;
} mpt_quantizer;

/* Whether two quantizers give the same bytes for the same input (the name does not count). */
bool mpt_quantizer_equal(const mpt_quantizer *a, const mpt_quantizer *b);

/* Whether this is a plain cast to a wide format: no scale, no rotation, nearest even. */
bool mpt_quantizer_is_cast(const mpt_quantizer *q);

#endif
