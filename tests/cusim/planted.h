/* Kernels with a fault each, and sound ones beside them: what the simulator has to tell apart.
 * Each launches one block unless it says otherwise. */
#ifndef MPT_TESTS_CUSIM_PLANTED_H
#define MPT_TESTS_CUSIM_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[t] = x[t - 1] of 256 threads through shared memory, the first takes the last's. */
void planted_rotate(const float *x, float *y, bool with_barrier);

void planted_divergent_barrier(void); /* two halves meet at two places */
void planted_lost_lane(void);         /* a warp waits for a lane that returned */
void planted_half_at_barrier(
    void); /* one warp at the barrier, lanes of the other for each other */
void planted_wrong_mask(void);
void planted_shared_overrun(void); /* one number beyond a static array */
void planted_dynamic_overrun(void);
void planted_too_many_threads(void);

/* One block with so many bytes of dynamic shared memory, after it was asked for or not. What
 * the device says where it refuses; NULL: the kernel ran. */
const char *planted_much_shared(size_t bytes, bool asked);

/* The sound ones: y has 64 numbers. */
void planted_early_return(int *y);
void planted_shuffles(int *y);
void planted_votes(unsigned *y);
void planted_masks(int *y); /* two halves of each warp, each by itself */

/* Adds 1 to x[0 ... n - 1], 256 threads a block; `recorded` times out of a recording. */
void planted_add_one(float *x, int n, int recorded);

/* Element after element, by gpu_get and gpu_put. */
void planted_copy(const mpt_tensor *x, const mpt_tensor *y);

#ifdef __cplusplus
}
#endif
#endif
