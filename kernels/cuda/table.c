/* The CUDA backend's table, best first for each op. It has to take every node by itself: there
 * is no falling back on a host kernel. */
#include "kernels/cuda/cuda.h"

#define MPT_CUDA_ROW(op) {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, NULL},
#define MPT_CUDA_ROW_SCRATCH(op)                                                               \
    {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, mpt_cuda_##op##_scratch},

const mpt_kernel mpt_kernels_cuda[] = {
#include "kernels/cuda/rows.def"
    {MPT_OP_linear, "cuda.linear_plain", NULL, mpt_cuda_linear_plain, NULL},
    {MPT_OP_linear_dgrad, "cuda.linear_dgrad_plain", NULL, mpt_cuda_linear_dgrad_plain, NULL},
    {MPT_OP_linear_wgrad, "cuda.linear_wgrad_plain", NULL, mpt_cuda_linear_wgrad_plain, NULL},
    {0, NULL, NULL, NULL, NULL},
};
