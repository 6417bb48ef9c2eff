/* The quantizer and the casts, as plain functions over matrices.
 *
 * The graph's quantize and cast nodes call these, and tools that quantize files will. Each
 * exists twice: mpt_ref_* is the definition, one element after the other; the fast one gives
 * the same bytes for any number of threads. None allocates, prints or fails. */
#ifndef MPT_KERNELS_QUANTIZE_H
#define MPT_KERNELS_QUANTIZE_H

#include <stddef.h>

#include "kernels/kernel.h"

/* Rounds n values to a floating format in place: the executor does so after each kernel whose
 * output is not FP32. FP32 leaves them as they are. */
void mpt_ref_round_to(mpt_dtype dtype, float *x, size_t n);
void mpt_round_to(mpt_dtype dtype, float *x, size_t n);

/* The same from x to y, which may be one buffer. */
void mpt_ref_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);
void mpt_round_copy(mpt_dtype dtype, const float *x, float *y, size_t n);

/* The kernels of the op `cast`: the output's dtype tells the format. */
void mpt_ref_cast(const mpt_kernel_args *args);
void mpt_cpu_cast(const mpt_kernel_args *args);

#endif
