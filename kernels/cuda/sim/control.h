/* What tests set and read of the simulator, from C. */
#ifndef MPT_KERNELS_CUDA_SIM_CONTROL_H
#define MPT_KERNELS_CUDA_SIM_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on blocks, threads and those that a barrier lets go run in an order drawn by the
 * seed, so that a kernel whose results hang on the order shows it; 0: in order of their index.
 */
void cusim_shuffle(uint64_t seed);

/* Launches so far, threads that they ran, and switches between fibers that it took. */
typedef struct cusim_counts {
    uint64_t launches, threads, switches;
} cusim_counts;

cusim_counts cusim_counted(void);

#ifdef __cplusplus
}
#endif
#endif
