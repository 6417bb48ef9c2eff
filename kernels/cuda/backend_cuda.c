/* The backend `cuda`: its kernels, and the memory and stream that they work in. In the module
 * it is a GPU; in the simulator's library the same over sim/runtime_sim.cpp. */
#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/runtime.h"

static const mpt_kernel *const tables[] = {mpt_kernels_cuda, NULL};

static const mpt_device_ops device = {
    .open = mpt_gpu_open,
    .close = mpt_gpu_close,
    .alloc = mpt_gpu_alloc,
    .free = mpt_gpu_free,
    .zero = mpt_gpu_zero,
    .write = mpt_gpu_write,
    .read = mpt_gpu_read,
    .wait = mpt_gpu_wait,
    .record = mpt_gpu_record,
    .recorded = mpt_gpu_recorded,
    .replay = mpt_gpu_replay,
    .forget = mpt_gpu_forget,
};

const mpt_backend mpt_backend_cuda = {
    .api = MPT_BACKEND_API,
    .name = "cuda",
    .summary = "an NVIDIA GPU: own kernels, products by cuBLASLt",
    .tables = tables,
    .device = &device,
};
