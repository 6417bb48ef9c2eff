/* What every .cu file includes first: CUDA under nvcc, the simulator under a C++ compiler.
 *
 * Kernels are written once against this header. Launches are GPU_LAUNCH(kernel, grid, block,
 * dynamic shared bytes, gpu, arguments...); arguments are copied, so a graph may run them
 * again. Code that only nvcc can read (inline PTX) stands behind __CUDA_ARCH__ with a portable
 * twin beside it. */
#ifndef MPT_KERNELS_CUDA_GPU_H
#define MPT_KERNELS_CUDA_GPU_H

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define GPU_LAUNCH(kernel, grid, block, shared, gpu, ...)                                      \
    kernel<<<(grid), (block), (shared), (cudaStream_t)(gpu)->stream>>>(__VA_ARGS__)
#define GPU_DYNAMIC_SHARED(type, name)                                                         \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[];                        \
    type *name = reinterpret_cast<type *>(gpu_dynamic_shared)
#else
#include "kernels/cuda/sim/cusim.h"
#define GPU_LAUNCH(kernel, grid, block, shared, gpu, ...)                                      \
    ::cusim::launch({#kernel, (const void *)(kernel), (grid), (block), (size_t)(shared),       \
                     ::cusim::bound(kernel, __VA_ARGS__)},                                     \
                    (gpu)->stream)
#define GPU_DYNAMIC_SHARED(type, name) type *name = (type *)::cusim::dynamic_shared()
#endif

/* Before a loop of a constant count, whose arrays are to be registers. */
#if defined(__CUDA_ARCH__)
#define GPU_UNROLL _Pragma("unroll")
#else
#define GPU_UNROLL
#endif

#include "kernels/numerics.h" /* its library has templates, so it comes before the C headers */
extern "C" {
#include "kernels/cuda/cuda.h"
#include "kernels/packed.h"
}
#endif
