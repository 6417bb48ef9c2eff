/* The CUDA backend's table, best first for each op. It has to take every node by itself: there
 * is no falling back on a host kernel. */
#include "kernels/cuda/cuda.h"

#define MPT_CUDA_ROW(op) {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, NULL},
#define MPT_CUDA_ROW_SCRATCH(op)                                                               \
    {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, mpt_cuda_##op##_scratch},

const mpt_kernel mpt_kernels_cuda[] = {
#include "kernels/cuda/rows.def"
    {0, NULL, NULL, NULL, NULL},
};
