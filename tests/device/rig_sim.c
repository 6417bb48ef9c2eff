/* The device that the simulator is: the same kernels, run on the CPU. */
#include "kernels/cuda/cuda.h"
#include "rig.h"

const bool rig_is_simulated = true;

const mpt_backend *rig_find(const char *folder, mpt_ctx *ctx, char why[RIG_WHY]) {
    (void)folder;
    (void)ctx;
    (void)why;
    return &mpt_backend_cuda;
}
