/* cuBLASLt: a handle, and one plan for each kind of product that was asked for.
 *
 * The first product of a kind makes its descriptors and picks its algorithm; all later ones run
 * the same algorithm, so that a run repeats bit by bit, and allocate nothing. The workspace is
 * mpt_gpu's, one a stream. What was picked is told for the record of the run: the same bytes
 * give the same results with the same version of the library and as many multiprocessors. */
#ifndef MPT_KERNELS_CUDA_LT_H
#define MPT_KERNELS_CUDA_LT_H

#include "kernels/cuda/gemm.h"

typedef struct mpt_lt mpt_lt;

/* MPT_UNSUPPORTED with the library's own words where it does not start. */
mpt_status mpt_lt_create(mpt_ctx *ctx, mpt_lt **out);
void mpt_lt_destroy(mpt_lt *lt);

/* What went wrong first; NULL: nothing. Products after a fault are not run. */
const char *mpt_lt_fault(const mpt_lt *lt);

enum { MPT_LT_ALGO_BYTES = 64 };

/* One kind of product and the algorithm that runs it. */
typedef struct mpt_lt_choice {
    mpt_gpu_gemm gemm; /* its pointers mean nothing */
    unsigned char algo[MPT_LT_ALGO_BYTES];
    size_t workspace; /* bytes that the algorithm takes */
} mpt_lt_choice;

/* The i-th choice in the order of their first use; false where there are no more. */
bool mpt_lt_choice_at(const mpt_lt *lt, int i, mpt_lt_choice *out);

size_t mpt_lt_version(void); /* 130100: 13.1.0 */

#endif
