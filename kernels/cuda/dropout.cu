/* dropout, forward and backward: bit for bit the host's (kernels/dropout.h). Bound by memory in
 * four-byte storage, by the issue rate of Philox in two-byte storage. */
#include "kernels/cuda/values.h"

struct dropout_job {
    uint64_t groups; /* of one micro-batch */
    uint32_t scope;
    uint32_t below;
    float kept;
};

/* Eight elements are two groups. The key changes from step to step, so it is read here. */
static __global__ void dropout_kernel(dropout_job job, const mpt_run_env *env, gpu_tensor x,
                                      gpu_tensor y) {
    mpt_words_key key = {env->seed, MPT_STREAM_DROPOUT, job.scope, env->step,
                         env->micro_batch * job.groups};
    GPU_EACH_VECTOR(i, y.n) {
        gpu_floats<GPU_VECTOR> v = gpu_get_n<GPU_VECTOR>(x, i, y.n);
        GPU_UNROLL
        for (int group = 0; group < GPU_VECTOR / 4; group++) {
            uint32_t words[4];
            mpt_random_words(&key, (uint64_t)(i / 4 + group), words);
            GPU_UNROLL
            for (int k = 0; k < 4; k++)
                v.v[4 * group + k] *= words[k] < job.below ? 0 : job.kept;
        }
        gpu_put_n(y, i, y.n, v);
    }
}

static __global__ void dropout_off_kernel(gpu_tensor x, gpu_tensor y) {
    GPU_EACH_VECTOR(i, y.n)
    gpu_put_n(y, i, y.n, gpu_get_n<GPU_VECTOR>(x, i, y.n));
}

extern "C" void mpt_cuda_dropout(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    gpu_tensor x = gpu_in(args, 0), y = gpu_out(args, 0);
    if (args->env->evaluating || a->p == 0) {
        GPU_LAUNCH(dropout_off_kernel, gpu_vector_blocks(y.n), GPU_THREADS, 0, args->gpu, x, y);
        return;
    }
    dropout_job job = {((uint64_t)y.n + 3) / 4, a->scope,
                       (uint32_t)((double)a->p * 4294967296.0), 1 / (1 - a->p)};
    GPU_LAUNCH(dropout_kernel, gpu_vector_blocks(y.n), GPU_THREADS, 0, args->gpu, job,
               args->gpu->env, x, y);
}
