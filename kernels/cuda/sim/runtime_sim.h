/* What tests may do with the simulated device beside what runtime.h has. */
#ifndef MPT_KERNELS_CUDA_SIM_RUNTIME_SIM_H
#define MPT_KERNELS_CUDA_SIM_RUNTIME_SIM_H

#include "kernels/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives a function to the stream of args->gpu, as a launch is given: it runs later, in order
 * and once more with each replay, on a copy of the arguments, and may touch the device's
 * memory. */
void cusim_launch_call(const mpt_kernel_args *args, void (*call)(const mpt_kernel_args *args));

#ifdef __cplusplus
}
#endif
#endif
