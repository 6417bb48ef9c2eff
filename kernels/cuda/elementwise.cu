/* Ops that make each element from elements at the same place. */
#include "kernels/cuda/values.h"

static __global__ void add_kernel(gpu_tensor a, gpu_tensor b, gpu_tensor y) {
    GPU_EACH(i, y.n)
    gpu_put(y, i, gpu_get(a, i) + gpu_get(b, i));
}

extern "C" void mpt_cuda_add(const mpt_kernel_args *args) {
    gpu_tensor y = gpu_out(args, 0);
    GPU_LAUNCH(add_kernel, gpu_blocks(y.n), GPU_THREADS, 0, args->gpu, gpu_in(args, 0),
               gpu_in(args, 1), y);
}

static __global__ void mul_kernel(gpu_tensor a, gpu_tensor b, gpu_tensor y) {
    GPU_EACH(i, y.n)
    gpu_put(y, i, gpu_get(a, i) * gpu_get(b, i));
}

extern "C" void mpt_cuda_mul(const mpt_kernel_args *args) {
    gpu_tensor y = gpu_out(args, 0);
    GPU_LAUNCH(mul_kernel, gpu_blocks(y.n), GPU_THREADS, 0, args->gpu, gpu_in(args, 0),
               gpu_in(args, 1), y);
}
