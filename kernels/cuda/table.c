/* The CUDA backend's table, best first for each op. It has to take every node by itself: there
 * is no falling back on a host kernel. */
#include "kernels/cuda/cuda.h"

#define MPT_CUDA_ROW(op) {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, NULL},
#define MPT_CUDA_ROW_SCRATCH(op)                                                               \
    {MPT_OP_##op, "cuda." #op, NULL, mpt_cuda_##op, mpt_cuda_##op##_scratch},

/* As codes on tensor cores, decoded on tensor cores, without them. */
#define MPT_CUDA_LINEAR(op)                                                                    \
    {MPT_OP_##op, "cuda." #op "_lt", mpt_cuda_linear_lt_can, mpt_cuda_linear,                  \
     mpt_cuda_linear_scratch},                                                                 \
        {MPT_OP_##op, "cuda." #op "_decoded", mpt_cuda_linear_decoded_can, mpt_cuda_linear,    \
         mpt_cuda_linear_scratch},                                                             \
    {                                                                                          \
        MPT_OP_##op, "cuda." #op "_plain", NULL, mpt_cuda_##op##_plain, NULL                   \
    }

const mpt_kernel mpt_kernels_cuda[] = {
#include "kernels/cuda/rows.def"
    MPT_CUDA_LINEAR(linear),
    MPT_CUDA_LINEAR(linear_dgrad),
    MPT_CUDA_LINEAR(linear_wgrad),
    {0, NULL, NULL, NULL, NULL},
};
