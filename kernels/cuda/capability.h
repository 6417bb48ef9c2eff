/* Which GPUs the module's kernels run on.
 *
 * They are compiled to machine code of compute capability 8.0, 9.0a and 10.0a. That of 8.0 runs
 * on all of 8.x; that of 9.0a and 10.0a on these alone. No PTX goes along: the driver would
 * compile it for any later GPU, with a compiler and for a processor that no test has seen, and
 * casts are promised to the bit. */
#ifndef MPT_KERNELS_CUDA_CAPABILITY_H
#define MPT_KERNELS_CUDA_CAPABILITY_H

#include "mpt/mpt.h"

#define MPT_CUDA_CAPABILITIES "8.x, 9.0 or 10.0"

/* MPT_TARGET_HOST: none of them. */
static inline mpt_target mpt_cuda_target(int major, int minor) {
    return major == 8                  ? MPT_TARGET_SM80
           : major == 9 && minor == 0  ? MPT_TARGET_SM90
           : major == 10 && minor == 0 ? MPT_TARGET_SM100
                                       : MPT_TARGET_HOST;
}

#endif
