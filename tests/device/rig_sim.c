/* The device that the simulator is: the same kernels, run on the CPU over the host's memory. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "rig.h"

const bool rig_is_simulated = true;

static bool sim_open(mpt_ctx *ctx, mpt_gpu *gpu) {
    (void)ctx;
    gpu->target = MPT_TARGET_SM90;
    gpu->n_multiprocessors = 2;
    return true;
}

static void sim_close(mpt_gpu *gpu) {
    (void)gpu;
}

static void *sim_alloc(mpt_gpu *gpu, size_t bytes) {
    (void)gpu;
    return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

static void sim_free(mpt_gpu *gpu, void *memory) {
    (void)gpu;
    free(memory);
}

static bool sim_copy(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    (void)gpu;
    memcpy(to, from, bytes);
    return true;
}

static bool sim_wait(mpt_gpu *gpu) {
    (void)gpu;
    return true;
}

static const mpt_device_ops sim_ops = {.open = sim_open,
                                       .close = sim_close,
                                       .alloc = sim_alloc,
                                       .free = sim_free,
                                       .write = sim_copy,
                                       .read = sim_copy,
                                       .wait = sim_wait};

static const mpt_kernel *const sim_tables[] = {mpt_kernels_cuda, NULL};

static const mpt_backend sim_backend = {
    .api = MPT_BACKEND_API, .name = "cuda", .tables = sim_tables, .device = &sim_ops};

const mpt_backend *rig_find(const char *folder, mpt_ctx *ctx, char why[RIG_WHY]) {
    (void)folder;
    (void)ctx;
    (void)why;
    return &sim_backend;
}
