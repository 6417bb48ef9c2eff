/* AdamW and SGD: each weight, its gradient and its moments are read once and written once.
 *
 * Bound by memory: 28 bytes an element of AdamW in FP32, for about 80 instructions of which a
 * GPU has 200 free in that time. What the step says (lr, bias corrections) and the factor are
 * read in the kernel; a factor of NaN skips the step, and everything stays as it is. Results
 * are rounded to the formats that they are kept in by gpu_put; weights that a quantize_state
 * node rounds behind are kept in FP32 until then, so their own format is not looked at. */
#include "kernels/cuda/values.h"
#include "kernels/optim_element.h"

/* The weights' format as far as this node rounds to it. */
static gpu_tensor weights_of(const mpt_kernel_args *args) {
    gpu_tensor w = gpu_out(args, 0);
    if (args->node->attrs.kept_later)
        w.dtype = MPT_DTYPE_FP32;
    return w;
}

/* ---- AdamW ---- */

struct adamw_tensors {
    gpu_tensor w, grad, m, v;
};

static __device__ void adamw_four(const mpt_adamw &s, const adamw_tensors &t, int64_t i) {
    int64_t n = t.w.n;
    gpu_four w = gpu_get_n<GPU_FOUR>(t.w, i, n), g = gpu_get_n<GPU_FOUR>(t.grad, i, n);
    gpu_four m = gpu_get_n<GPU_FOUR>(t.m, i, n), v = gpu_get_n<GPU_FOUR>(t.v, i, n);
    for (int k = 0; k < GPU_FOUR; k++)
        mpt_adamw_element(&s, g.v[k], &w.v[k], &m.v[k], &v.v[k]);
    gpu_put_n<GPU_FOUR>(t.w, i, n, w);
    gpu_put_n<GPU_FOUR>(t.m, i, n, m);
    gpu_put_n<GPU_FOUR>(t.v, i, n, v);
}

static __global__ void adamw_kernel(adamw_tensors t, const float *factor, mpt_adamw_attrs attrs,
                                    const mpt_run_env *env) {
    if (*factor != *factor)
        return;
    mpt_adamw s = mpt_adamw_of(&attrs, env, *factor);
    GPU_EACH(i, gpu_fours(t.w.n))
    adamw_four(s, t, i * GPU_FOUR);
}

extern "C" void mpt_cuda_adamw(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    adamw_tensors t = {weights_of(args), gpu_in(args, 1), gpu_in(args, 2), gpu_in(args, 3)};
    mpt_adamw_attrs attrs = {a->beta1, a->beta2, a->eps, a->weight_decay};
    GPU_LAUNCH(adamw_kernel, gpu_resident_blocks(args->gpu, t.w.n), GPU_THREADS, 0, args->gpu,
               t, (const float *)args->in[4].data, attrs, args->gpu->env);
}

/* ---- SGD ---- */

struct sgd_tensors {
    gpu_tensor w, grad, velocity; /* the last may be absent */
};

static __device__ void sgd_four(const mpt_sgd &s, const sgd_tensors &t, int64_t i) {
    bool moves = t.velocity.data != nullptr;
    int64_t n = t.w.n;
    gpu_four w = gpu_get_n<GPU_FOUR>(t.w, i, n), g = gpu_get_n<GPU_FOUR>(t.grad, i, n), u = {};
    if (moves)
        u = gpu_get_n<GPU_FOUR>(t.velocity, i, n);
    for (int k = 0; k < GPU_FOUR; k++)
        mpt_sgd_element(&s, g.v[k], &w.v[k], moves ? &u.v[k] : nullptr);
    gpu_put_n<GPU_FOUR>(t.w, i, n, w);
    if (moves)
        gpu_put_n<GPU_FOUR>(t.velocity, i, n, u);
}

static __global__ void sgd_kernel(sgd_tensors t, const float *factor, mpt_sgd s,
                                  const mpt_run_env *env) {
    if (*factor != *factor)
        return;
    s.lr = env->lr;
    s.factor = *factor;
    GPU_EACH(i, gpu_fours(t.w.n))
    sgd_four(s, t, i * GPU_FOUR);
}

extern "C" void mpt_cuda_sgd(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    sgd_tensors t = {weights_of(args), gpu_in(args, 1), gpu_in(args, 2)};
    mpt_sgd s = {0, 0, a->weight_decay, a->momentum};
    GPU_LAUNCH(sgd_kernel, gpu_resident_blocks(args->gpu, t.w.n), GPU_THREADS, 0, args->gpu, t,
               (const float *)args->in[3].data, s, args->gpu->env);
}
