/* What the two files of the scan's backward pass share. */
#ifndef MPT_KERNELS_CUDA_SSM_GRAD_H
#define MPT_KERNELS_CUDA_SSM_GRAD_H

#include "kernels/cuda/ssm.h"

/* A tile of rows that may be of a state, which has three planes. */
template <int WIDTH, int ROWS = SSM_OTHERS>
static __host__ __device__ constexpr int ssm_wide() {
    return tile_layout<WIDTH, TILE_ORDERS>::size(ROWS);
}

static inline ssm_job ssm_grad_job_of(const mpt_kernel_args *args) {
    ssm_job job = ssm_job_of(args, true);
    job.states = gpu_in(args, 7), job.dy = gpu_in(args, 8);
    job.dx = gpu_out(args, 0), job.db = gpu_out(args, 1), job.dc = gpu_out(args, 2);
    job.ddt = gpu_out(args, 3), job.da_log = gpu_out(args, 4), job.dd = gpu_out(args, 5);
    job.ddt_bias = gpu_out(args, 6);
    return job;
}

static inline bool ssm_grad_bf16(const mpt_kernel_args *args) {
    bool bf16 = args->in[8].storage == MPT_STORAGE_BF16;
    for (int i = 0; i < 3; i++)
        bf16 = bf16 && args->in[i].storage == MPT_STORAGE_BF16;
    return bf16;
}

/* ssm_grad_group.cu: dB and dC, from rates and gradients of states that are there. */
void ssm_launch_groups(const mpt_kernel_args *args);

#endif
