/* What cuBLASLt multiplies: its table of modes as a function, for the compute capabilities 8.0,
 * 8.9, 9.0 and 10.0.
 *
 * The plan asks it which products of a recipe are native, the backend before it runs one, and a
 * device test compares it with what the library accepts. Where the documentation is silent the
 * answer is no. A product is [rows, k] times [k, cols] in row-major order; the library, which
 * counts columns first, calls b its A and cols its M.
 *
 * Sources: the cuBLAS 13 documentation, cublasLtMatmul, "Data types usage" and "Narrow
 * precision data types usage"; rows and columns in eights: Transformer Engine's observation. */
#ifndef MPT_RECIPE_LT_SUPPORT_H
#define MPT_RECIPE_LT_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/formats.h"

/* The scales of an operand: CUBLASLT_MATMUL_MATRIX_SCALE_* of the library. */
typedef enum mpt_lt_scaling {
    MPT_LT_UNSCALED, /* wide formats */
    MPT_LT_TENSOR,   /* FP8: one FP32 scale, or none: 1 */
    MPT_LT_ROWS,     /* FP8: one FP32 scale for each dot product */
    MPT_LT_1X128,    /* FP8: FP32 for 128 elements */
    MPT_LT_128X128,  /* FP8: FP32 for 128 of 128 dot products */
    MPT_LT_MX,       /* FP8: E8M0 for 32 elements */
    MPT_LT_NVFP4,    /* E2M1: E4M3 for 16 elements */
    MPT_LT_SCALING_COUNT
} mpt_lt_scaling;

typedef struct mpt_lt_operand {
    mpt_dtype format; /* TF32 lies as FP32 */
    mpt_lt_scaling scaling;
    bool across; /* a stored row has one element of each dot product, not all of one */
    int64_t ld;  /* elements from one stored row to the next; 0: as many as a row has */
} mpt_lt_operand;

typedef struct mpt_lt_query {
    int capability; /* 10 times major plus minor */
    int64_t rows, cols, k;
    int64_t batch; /* 0 reads as 1 */
    mpt_lt_operand a, b;
    mpt_dtype d;
    int64_t ldd; /* elements; 0: cols */
    bool has_bias;
    mpt_dtype bias;  /* one for each column */
    int32_t aligned; /* bytes that all pointers are multiples of; 0 reads as 256 */
} mpt_lt_query;

enum { MPT_LT_WHY = 128 };

/* Whether the library multiplies this on such a device; else `why` says what it lacks: "sm90
 * multiplies no fp4". */
bool mpt_lt_supported(const mpt_lt_query *query, char why[MPT_LT_WHY]);

/* "1x128", "mx": of messages. */
const char *mpt_lt_scaling_name(mpt_lt_scaling scaling);

#endif
