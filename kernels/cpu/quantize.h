/* The CPU's quantizer: which path a job takes, and the pieces that AVX2 does.
 *
 * Pieces only make decoded values and block scales; whole jobs are put together in quantize.c,
 * which hands each thread its share. */
#ifndef MPT_KERNELS_CPU_QUANTIZE_H
#define MPT_KERNELS_CPU_QUANTIZE_H

#include "kernels/quantize_job.h"

/* GENERAL runs the definition's steps on every thread. The others are fast and decode only. */
typedef enum mpt_quantize_path {
    MPT_QUANTIZE_GENERAL,
    MPT_QUANTIZE_CAST,   /* rounding to a wide format */
    MPT_QUANTIZE_SCALED, /* FP8 with one scale a tensor */
    MPT_QUANTIZE_ROWS,   /* NVFP4, 1x16 blocks along the columns */
    MPT_QUANTIZE_SQUARE, /* NVFP4, 16x16 blocks: both copies are one */
    MPT_QUANTIZE_COLUMNS /* NVFP4, 16 values down the rows, rotated or not */
} mpt_quantize_path;

mpt_quantize_path mpt_quantize_choose(const mpt_quantize_job *job);

/* Largest finite |x| of n values, as bits. */
uint32_t mpt_avx2_amax(const float *x, size_t n);

/* y = the FP8 value of fl(x * scale), not finite where x is not. */
void mpt_avx2_scaled(mpt_dtype format, const float *x, float *y, size_t n, float scale);

/* One row r: blocks of 16 along it. */
void mpt_avx2_row(const mpt_quantize_job *job, const mpt_outer_scale *outer, int64_t r);

/* Sixteen rows from row r, with blocks of 16x16. */
void mpt_avx2_square(const mpt_quantize_job *job, const mpt_outer_scale *outer, int64_t r);

/* Sixteen rows from row r, one block a column: its amax after the rotation, and its values. */
uint32_t mpt_avx2_columns_amax(const mpt_quantize_job *job, int64_t r);
void mpt_avx2_columns(const mpt_quantize_job *job, const mpt_outer_scale *outer, int64_t r);

#endif
