/* rmsnorm, layernorm and gated_rmsnorm over slices of rows. Bound by memory: norm.h. */
#include "kernels/cuda/norm.h"

/* 1 / sqrt(mean of squares + eps) of the numbers of `x` less their mean. */
template <norm_kind KIND, int THREADS, int VECTORS>
static __device__ __forceinline__ float norm_factor(const norm_job &k, int64_t at, float mean,
                                                    norm_slice<VECTORS> *x) {
    float squares = 0, none = 0;
    NORM_EACH(j, c) {
        gpu_vector v = KIND == NORM_LAYER ? x->again(k.x, j, at + c, k.n - c)
                                          : x->first(k.x, j, at + c, k.n - c);
        if (KIND == NORM_GATED) {
            norm_gate(&v, norm_load<VECTORS>(k.z, at + c, k.n - c));
            if (VECTORS)
                x->kept[j] = v;
        }
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            float d = c + i < k.n ? v.v[i] - mean : 0;
            squares += d * d;
        }
    }
    gpu_team<THREADS>::sum(&squares, &none);
    return 1.0f / sqrtf(squares / (float)k.n + k.eps);
}

template <norm_kind KIND, int THREADS, int VECTORS>
static __global__ void __launch_bounds__(gpu_team<THREADS>::BLOCK, 1) norm_kernel(norm_job k) {
    int64_t slice = gpu_team<THREADS>::index();
    if (slice >= k.n_rows * k.n_groups)
        return;
    int64_t at = slice * k.n, feature = slice % k.n_groups * k.n;
    norm_slice<VECTORS> x;
    float mean = KIND == NORM_LAYER ? norm_mean<THREADS>(k, at, &x) : 0;
    float r = norm_factor<KIND, THREADS>(k, at, mean, &x);
    NORM_EACH(j, c) {
        int64_t left = k.n - c;
        gpu_vector v = x.again(k.x, j, at + c, left);
        gpu_vector w = norm_load<VECTORS>(k.w, feature + c, left), b = {};
        if (KIND == NORM_GATED && !VECTORS)
            norm_gate(&v, norm_load<VECTORS>(k.z, at + c, left));
        if (KIND == NORM_LAYER && k.bias.data)
            b = norm_load<VECTORS>(k.bias, feature + c, left);
        GPU_UNROLL
        for (int i = 0; i < GPU_VECTOR; i++) {
            v.v[i] = w.v[i] * ((v.v[i] - mean) * r);
            if (KIND == NORM_LAYER)
                v.v[i] += b.v[i];
        }
        norm_store<VECTORS>(k.y, at + c, left, v);
    }
}

struct norm_forward {
    template <norm_kind KIND, int THREADS, int VECTORS>
    static void launch(const mpt_gpu *gpu, const norm_job &k) {
        typedef gpu_team<THREADS> team;
        auto kernel = norm_kernel<KIND, THREADS, VECTORS>;
        GPU_LAUNCH(kernel, team::blocks(k.n_rows * k.n_groups), team::BLOCK, 0, gpu, k);
    }
};

extern "C" void mpt_cuda_rmsnorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.y = gpu_out(args, 0);
    norm_run<norm_forward, NORM_RMS>(args->gpu, k);
}

extern "C" void mpt_cuda_layernorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.w = gpu_in(args, 1);
    k.bias = gpu_in(args, 2);
    k.y = gpu_out(args, 0);
    norm_run<norm_forward, NORM_LAYER>(args->gpu, k);
}

extern "C" void mpt_cuda_gated_rmsnorm(const mpt_kernel_args *args) {
    norm_job k = norm_of(args);
    k.z = gpu_in(args, 1);
    k.w = gpu_in(args, 2);
    k.y = gpu_out(args, 0);
    norm_run<norm_forward, NORM_GATED>(args->gpu, k);
}
