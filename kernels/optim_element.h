/* The optimizer's arithmetic on single numbers, shared by host kernels and device code.
 *
 * The order of operations is PyTorch's (torch.optim AdamW and SGD on float32, without fusing),
 * so that trajectories can be compared. Single IEEE operations in the order written, with
 * square root and division as IEEE 754 rounds them, so host and device agree by construction;
 * build without contraction. C17, C++17 and CUDA device code. */
#ifndef MPT_KERNELS_OPTIM_ELEMENT_H
#define MPT_KERNELS_OPTIM_ELEMENT_H

#include <math.h>

#include "kernels/kernel.h"
#include "kernels/numerics_cast.h"

/* ---- norms, clip ---- */

/* What one element adds to the sum of squares of the unscaled gradient. A sum is finite exactly
 * where all elements are: squares of float32 numbers cannot overflow a double. */
MPT_NUMERIC double mpt_norm_term(float g, float unscale) {
    float x = g * unscale;
    return (double)x * (double)x;
}

/* A row of the shared norms: the norm, not its square, which float32 could not hold; and
 * whether it is finite. */
MPT_NUMERIC void mpt_norm_row(float *row, double sum_of_squares) {
    row[0] = (float)sqrt(sum_of_squares);
    row[1] = sum_of_squares <= 0x1.fffffffffffffp1023 ? 1.0f : 0.0f;
}

/* The one factor of the step; NaN where a gradient is not finite. */
MPT_NUMERIC float mpt_step_factor(float clip, float norm, float unscale, int bad) {
    double limit = (double)clip / ((double)norm + 1e-6);
    double shrink = clip > 0 && limit < 1 ? limit : 1;
    return bad ? mpt_bits_float(MPT_NAN_BITS) : (float)((double)unscale * shrink);
}

/* ---- AdamW ---- */

/* Scalars of one AdamW node, each rounded to float32 once. */
typedef struct mpt_adamw {
    float factor, keep, one_minus_beta1, beta2, one_minus_beta2, root_bias2, eps, minus_step;
} mpt_adamw;

/* What the node says; what the step says comes with the run's environment. */
typedef struct mpt_adamw_attrs {
    float beta1, beta2, eps, weight_decay;
} mpt_adamw_attrs;

MPT_NUMERIC mpt_adamw mpt_adamw_of(const mpt_adamw_attrs *a, const mpt_run_env *env,
                                   float factor) {
    mpt_adamw s;
    s.factor = factor;
    s.beta2 = a->beta2;
    s.eps = a->eps;
    s.keep = (float)(1.0 - (double)env->lr * (double)a->weight_decay);
    s.one_minus_beta1 = (float)(1.0 - (double)a->beta1);
    s.one_minus_beta2 = (float)(1.0 - (double)a->beta2);
    s.root_bias2 = (float)sqrt((double)env->bias_correction2);
    s.minus_step = (float)(-(double)env->lr / (double)env->bias_correction1);
    return s;
}

/* One weight and its moments, brought up to date. */
MPT_NUMERIC void mpt_adamw_element(const mpt_adamw *s, float grad, float *w, float *m,
                                   float *v) {
    float g = grad * s->factor;
    float kept = *w * s->keep;
    *m = *m + s->one_minus_beta1 * (g - *m);
    *v = *v * s->beta2 + s->one_minus_beta2 * g * g;
    float root = sqrtf(*v) / s->root_bias2 + s->eps;
    *w = kept + s->minus_step * *m / root;
}

/* ---- SGD ---- */

typedef struct mpt_sgd {
    float lr, factor, weight_decay, momentum;
} mpt_sgd;

/* SGD adds the decay to the gradient; `velocity` is NULL without momentum. */
MPT_NUMERIC void mpt_sgd_element(const mpt_sgd *s, float grad, float *w, float *velocity) {
    float g = grad * s->factor + s->weight_decay * *w;
    if (velocity)
        g = *velocity = s->momentum * *velocity + g;
    *w = *w - s->lr * g;
}

#endif
