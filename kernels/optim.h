/* The arithmetic of the optimizer's tail, shared by the backends: one element or one piece.
 *
 * The order of operations is PyTorch's (torch.optim AdamW and SGD on float32, without fusing),
 * so that trajectories can be compared. Everything is float32 in the order written, except sums
 * of squares, which are double. Sums run over fixed pieces that do not depend on threads. */
#ifndef MPT_KERNELS_OPTIM_H
#define MPT_KERNELS_OPTIM_H

#include <math.h>

#include "kernels/kernel.h"
#include "kernels/numerics_random.h"

enum { MPT_PIECE = 64 * 1024, MPT_NORM_LANES = 8 };

static inline int64_t mpt_optim_elements(const mpt_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static inline int64_t mpt_piece_count(int64_t n) {
    return (n + MPT_PIECE - 1) / MPT_PIECE;
}

static inline int64_t mpt_piece_length(int64_t n, int64_t piece) {
    int64_t left = n - piece * MPT_PIECE;
    return left < MPT_PIECE ? left : MPT_PIECE;
}

/* Sum of squares of the unscaled gradient over one piece. It is finite exactly where all
 * elements are: squares of float32 numbers cannot overflow a double. */
static inline double mpt_norm_piece(const float *g, int64_t n, float unscale) {
    double lane[MPT_NORM_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + MPT_NORM_LANES <= n; i += MPT_NORM_LANES)
#pragma omp simd
        for (int k = 0; k < MPT_NORM_LANES; k++) {
            float x = g[i + k] * unscale;
            lane[k] += (double)x * (double)x;
        }
    for (; i < n; i++) {
        float x = g[i] * unscale;
        lane[i % MPT_NORM_LANES] += (double)x * (double)x;
    }
    for (int k = 0; k < MPT_NORM_LANES; k++)
        sum += lane[k];
    return sum;
}

/* A row of the shared norms: the norm, not its square, which float32 could not hold. */
static inline void mpt_norm_row(float *row, double sum_of_squares) {
    row[0] = (float)sqrt(sum_of_squares);
    row[1] = isfinite(sum_of_squares) ? 1.0f : 0.0f;
}

/* The stream of a quantize_state node: a state is rounded once a step. */
static inline mpt_random_key mpt_state_key(const mpt_kernel_args *args) {
    return (mpt_random_key){.seed = args->env->seed,
                            .operand = args->node->attrs.row_operand,
                            .step = args->env->step};
}

/* Scalars of one AdamW node, each rounded to float32 once. */
typedef struct mpt_adamw {
    float factor, keep, one_minus_beta1, beta2, one_minus_beta2, root_bias2, eps, minus_step;
} mpt_adamw;

static inline mpt_adamw mpt_adamw_of(const mpt_attrs *a, const mpt_run_env *env, float factor) {
    mpt_adamw s = {.factor = factor, .beta2 = a->beta2, .eps = a->eps};
    s.keep = (float)(1.0 - (double)env->lr * (double)a->weight_decay);
    s.one_minus_beta1 = (float)(1.0 - (double)a->beta1);
    s.one_minus_beta2 = (float)(1.0 - (double)a->beta2);
    s.root_bias2 = (float)sqrt((double)env->bias_correction2);
    s.minus_step = (float)(-(double)env->lr / (double)env->bias_correction1);
    return s;
}

static inline void mpt_adamw_piece(const mpt_adamw *s, int64_t n, float *w, const float *grad,
                                   float *m, float *v) {
    const mpt_adamw k = *s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * k.factor;
        float kept = w[i] * k.keep;
        m[i] = m[i] + k.one_minus_beta1 * (g - m[i]);
        v[i] = v[i] * k.beta2 + k.one_minus_beta2 * g * g;
        float root = sqrtf(v[i]) / k.root_bias2 + k.eps;
        w[i] = kept + k.minus_step * m[i] / root;
    }
}

/* SGD adds the decay to the gradient; `velocity` is NULL without momentum. */
static inline void mpt_sgd_piece(const mpt_attrs *a, float lr, float factor, int64_t n,
                                 float *w, const float *grad, float *velocity) {
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * factor + a->weight_decay * w[i];
        if (velocity)
            g = velocity[i] = a->momentum * velocity[i] + g;
        w[i] = w[i] - lr * g;
    }
}

#endif
