/* A product in cuBLASLt's own terms: needs its header, but neither a driver nor a device. */
#ifndef MPT_KERNELS_CUDA_LT_DESCRIPTORS_H
#define MPT_KERNELS_CUDA_LT_DESCRIPTORS_H

#include <cublasLt.h>

#include "kernels/cuda/gemm.h"

/* The library counts columns first: its A is our b, its B our a, and d is [cols, rows]. */
typedef struct mpt_lt_descriptors {
    cublasLtMatmulDesc_t matmul;
    cublasLtMatrixLayout_t a, b, d;
} mpt_lt_descriptors;

/* Makes all of them, or none; the status is the library's. Pointers of scales and bias are set
 * by mpt_lt_point, before each call. */
cublasStatus_t mpt_lt_describe(const mpt_gpu_gemm *gemm, mpt_lt_descriptors *out);
void mpt_lt_descriptors_destroy(mpt_lt_descriptors *descriptors);

/* This call's scales and bias; copies bytes and allocates nothing. */
cublasStatus_t mpt_lt_point(const mpt_gpu_gemm *gemm, const mpt_lt_descriptors *descriptors);

#endif
