/* AdamW and SGD: each weight, its gradient and its moments are read once and written once.
 *
 * Bound by memory: 28 bytes an element of AdamW in FP32, for about 80 instructions of which a
 * GPU has 200 free in that time. What the step says (lr, bias corrections) and the factor are
 * read in the kernel; a factor of NaN skips the step, and everything stays as it is. Results
 * are rounded to the formats that they are kept in by gpu_put; weights that a quantize_state
 * node rounds behind are kept in FP32 until then, so their own format is not looked at. */
#include "kernels/cuda/fours.h"
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
    bool fours;
};

static __device__ void adamw_one(const mpt_adamw &s, const adamw_tensors &t, int64_t i) {
    float w = gpu_get(t.w, i), m = gpu_get(t.m, i), v = gpu_get(t.v, i);
    mpt_adamw_element(&s, gpu_get(t.grad, i), &w, &m, &v);
    gpu_put(t.w, i, w);
    gpu_put(t.m, i, m);
    gpu_put(t.v, i, v);
}

static __device__ void adamw_four(const mpt_adamw &s, const adamw_tensors &t, int64_t i) {
    gpu_four w = gpu_get4(t.w, i), m = gpu_get4(t.m, i), v = gpu_get4(t.v, i);
    gpu_four g = gpu_get4(t.grad, i);
    for (int k = 0; k < GPU_FOUR; k++)
        mpt_adamw_element(&s, g.x[k], &w.x[k], &m.x[k], &v.x[k]);
    gpu_put4(t.w, i, w);
    gpu_put4(t.m, i, m);
    gpu_put4(t.v, i, v);
}

static __global__ void adamw_kernel(adamw_tensors t, const float *factor, mpt_adamw_attrs attrs,
                                    const mpt_run_env *env) {
    if (*factor != *factor)
        return;
    mpt_adamw s = mpt_adamw_of(&attrs, env, *factor);
    int64_t fours = t.fours ? t.w.n / GPU_FOUR : 0;
    GPU_EACH(i, fours)
    adamw_four(s, t, i * GPU_FOUR);
    GPU_EACH(i, t.w.n - fours * GPU_FOUR)
    adamw_one(s, t, fours * GPU_FOUR + i);
}

extern "C" void mpt_cuda_adamw(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    adamw_tensors t = {weights_of(args), gpu_in(args, 1), gpu_in(args, 2), gpu_in(args, 3),
                       false};
    mpt_adamw_attrs attrs = {a->beta1, a->beta2, a->eps, a->weight_decay};
    t.fours = gpu_fours(t.w) && gpu_fours(t.grad) && gpu_fours(t.m) && gpu_fours(t.v);
    GPU_LAUNCH(adamw_kernel, gpu_resident_blocks(args->gpu, t.w.n), GPU_THREADS, 0, args->gpu,
               t, (const float *)args->in[4].data, attrs, args->gpu->env);
}

/* ---- SGD ---- */

struct sgd_tensors {
    gpu_tensor w, grad, velocity; /* the last may be absent */
    bool fours;
};

static __device__ void sgd_one(const mpt_sgd &s, const sgd_tensors &t, int64_t i) {
    bool moves = t.velocity.data != nullptr;
    float w = gpu_get(t.w, i), u = moves ? gpu_get(t.velocity, i) : 0.0f;
    mpt_sgd_element(&s, gpu_get(t.grad, i), &w, moves ? &u : nullptr);
    gpu_put(t.w, i, w);
    if (moves)
        gpu_put(t.velocity, i, u);
}

static __device__ void sgd_four(const mpt_sgd &s, const sgd_tensors &t, int64_t i) {
    bool moves = t.velocity.data != nullptr;
    gpu_four w = gpu_get4(t.w, i), g = gpu_get4(t.grad, i), u = {{0, 0, 0, 0}};
    if (moves)
        u = gpu_get4(t.velocity, i);
    for (int k = 0; k < GPU_FOUR; k++)
        mpt_sgd_element(&s, g.x[k], &w.x[k], moves ? &u.x[k] : nullptr);
    gpu_put4(t.w, i, w);
    if (moves)
        gpu_put4(t.velocity, i, u);
}

static __global__ void sgd_kernel(sgd_tensors t, const float *factor, mpt_sgd s,
                                  const mpt_run_env *env) {
    if (*factor != *factor)
        return;
    s.lr = env->lr;
    s.factor = *factor;
    int64_t fours = t.fours ? t.w.n / GPU_FOUR : 0;
    GPU_EACH(i, fours)
    sgd_four(s, t, i * GPU_FOUR);
    GPU_EACH(i, t.w.n - fours * GPU_FOUR)
    sgd_one(s, t, fours * GPU_FOUR + i);
}

extern "C" void mpt_cuda_sgd(const mpt_kernel_args *args) {
    const mpt_attrs *a = &args->node->attrs;
    sgd_tensors t = {weights_of(args), gpu_in(args, 1), gpu_in(args, 2), false};
    mpt_sgd s = {0, 0, a->weight_decay, a->momentum};
    t.fours = gpu_fours(t.w) && gpu_fours(t.grad) && gpu_fours(t.velocity);
    GPU_LAUNCH(sgd_kernel, gpu_resident_blocks(args->gpu, t.w.n), GPU_THREADS, 0, args->gpu, t,
               (const float *)args->in[3].data, s, args->gpu->env);
}
