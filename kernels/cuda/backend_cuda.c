/* The backend `cuda`: its kernels, and the memory and stream that they work in. In the module
 * it is a GPU; in the simulator's library the same over sim/runtime_sim.cpp. */
#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/lt.h"
#include "kernels/cuda/runtime.h"

static bool open_all(mpt_ctx *ctx, mpt_gpu *gpu) {
    if (!mpt_gpu_open(gpu))
        return false;
    mpt_status status = mpt_lt_create(ctx, &gpu->lt);
    if (status != MPT_OK)
        gpu->error = status == MPT_OUT_OF_MEMORY ? "the host's memory is full"
                                                 : "cuBLASLt does not start";
    gpu->workspace = mpt_gpu_alloc(gpu, gpu->workspace_bytes);
    if (!gpu->workspace && !gpu->error)
        gpu->error = "its memory is full";
    return !gpu->error;
}

static void close_all(mpt_gpu *gpu) {
    if (!gpu->stream)
        return;
    mpt_gpu_free(gpu, gpu->workspace);
    mpt_lt_destroy(gpu->lt);
    mpt_gpu_close(gpu);
}

/* A product that the library refused shows where the stream is waited for. */
static bool find_fault(mpt_gpu *gpu) {
    const char *fault = mpt_lt_fault(gpu->lt);
    if (fault && !gpu->error)
        gpu->error = fault;
    return !gpu->error;
}

static bool wait_for(mpt_gpu *gpu) {
    return mpt_gpu_wait(gpu) && find_fault(gpu);
}

static bool read_from(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    return mpt_gpu_read(gpu, to, from, bytes) && find_fault(gpu);
}

static const mpt_kernel *const tables[] = {mpt_kernels_cuda, NULL};

static const mpt_device_ops device = {
    .open = open_all,
    .close = close_all,
    .alloc = mpt_gpu_alloc,
    .free = mpt_gpu_free,
    .zero = mpt_gpu_zero,
    .write = mpt_gpu_write,
    .read = read_from,
    .wait = wait_for,
    .record = mpt_gpu_record,
    .recorded = mpt_gpu_recorded,
    .replay = mpt_gpu_replay,
    .forget = mpt_gpu_forget,
    .mark_create = mpt_gpu_mark_create,
    .mark = mpt_gpu_mark,
    .between = mpt_gpu_between,
    .mark_destroy = mpt_gpu_mark_destroy,
};

const mpt_backend mpt_backend_cuda = {
    .api = MPT_BACKEND_API,
    .name = "cuda",
    .summary = "an NVIDIA GPU: own kernels, products by cuBLASLt",
    .tables = tables,
    .device = &device,
};
