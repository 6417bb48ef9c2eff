/* libmpt_cuda.so's one exported symbol: the table by which the program knows it, and what it
 * says of the machine. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "kernels/cuda/capability.h"
#include "kernels/cuda/cuda.h"
#include "kernels/module.h"

/* "13.0", of a version as CUDA numbers it. */
static void version_text(int version, char out[16]) {
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

static bool refuse(cudaError_t error, char why[MPT_MODULE_WHY]) {
    int has = 0, wants = 0;
    char has_text[16], wants_text[16];
    if (error == cudaErrorNoDevice || error == cudaSuccess) {
        snprintf(why, MPT_MODULE_WHY, "there is no GPU");
    } else if (error == cudaErrorInsufficientDriver &&
               cudaDriverGetVersion(&has) == cudaSuccess && has > 0 &&
               cudaRuntimeGetVersion(&wants) == cudaSuccess) {
        version_text(has, has_text);
        version_text(wants, wants_text);
        snprintf(why, MPT_MODULE_WHY,
                 "the NVIDIA driver is for CUDA %s, and libmpt_cuda.so needs one for %s",
                 has_text, wants_text);
    } else {
        snprintf(why, MPT_MODULE_WHY, "the NVIDIA driver says: %s", cudaGetErrorString(error));
    }
    return false;
}

/* The first device that the driver shows, which CUDA_VISIBLE_DEVICES chooses. */
static bool probe(mpt_module_device *out, char why[MPT_MODULE_WHY]) {
    struct cudaDeviceProp gpu;
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess || n < 1)
        return refuse(error, why);
    error = cudaGetDeviceProperties(&gpu, 0);
    if (error != cudaSuccess)
        return refuse(error, why);
    *out = (mpt_module_device){.major = gpu.major,
                               .minor = gpu.minor,
                               .target = mpt_cuda_target(gpu.major, gpu.minor),
                               .memory_bytes = gpu.totalGlobalMem};
    snprintf(out->name, sizeof out->name, "%.127s", gpu.name);
    if (out->target == MPT_TARGET_HOST)
        snprintf(
            why, MPT_MODULE_WHY,
            "the GPU (%s) has compute capability %d.%d, and mpt needs " MPT_CUDA_CAPABILITIES,
            out->name, out->major, out->minor);
    return out->target != MPT_TARGET_HOST;
}

__attribute__((visibility("default"))) const mpt_module *mpt_cuda_module(void);

const mpt_module *mpt_cuda_module(void) {
    static const mpt_module module = {.api = MPT_MODULE_API,
                                      .version = MPT_VERSION_STRING,
                                      .sizes = mpt_module_sizes,
                                      .numbers = mpt_module_numbers,
                                      .probe = probe,
                                      .backend = &mpt_backend_cuda};
    return &module;
}
