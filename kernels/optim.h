/* The optimizer's tail by pieces, shared by the host backends.
 *
 * What happens to one number is in optim_element.h, which device code reads too. Everything is
 * float32, except sums of squares, which are double and run over fixed pieces that do not
 * depend on threads. */
#ifndef MPT_KERNELS_OPTIM_H
#define MPT_KERNELS_OPTIM_H

#include "kernels/numerics_random.h"
#include "kernels/optim_element.h"

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

/* Sum of squares of the unscaled gradient over one piece. */
static inline double mpt_norm_piece(const float *g, int64_t n, float unscale) {
    double lane[MPT_NORM_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + MPT_NORM_LANES <= n; i += MPT_NORM_LANES)
#pragma omp simd
        for (int k = 0; k < MPT_NORM_LANES; k++)
            lane[k] += mpt_norm_term(g[i + k], unscale);
    for (; i < n; i++)
        lane[i % MPT_NORM_LANES] += mpt_norm_term(g[i], unscale);
    for (int k = 0; k < MPT_NORM_LANES; k++)
        sum += lane[k];
    return sum;
}

/* The stream of a quantize_state node: a state is rounded once a step. */
static inline mpt_random_key mpt_state_key(const mpt_kernel_args *args) {
    return (mpt_random_key){.seed = args->env->seed,
                            .operand = args->node->attrs.row_operand,
                            .step = args->env->step};
}

static inline mpt_adamw_attrs mpt_adamw_attrs_of(const mpt_attrs *a) {
    return (mpt_adamw_attrs){a->beta1, a->beta2, a->eps, a->weight_decay};
}

static inline void mpt_adamw_piece(const mpt_adamw *s, int64_t n, float *w, const float *grad,
                                   float *m, float *v) {
    const mpt_adamw k = *s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        mpt_adamw_element(&k, grad[i], &w[i], &m[i], &v[i]);
}

static inline mpt_sgd mpt_sgd_of(const mpt_attrs *a, float lr, float factor) {
    return (mpt_sgd){lr, factor, a->weight_decay, a->momentum};
}

/* `velocity` is NULL without momentum. */
static inline void mpt_sgd_piece(const mpt_sgd *s, int64_t n, float *w, const float *grad,
                                 float *velocity) {
    for (int64_t i = 0; i < n; i++)
        mpt_sgd_element(s, grad[i], &w[i], velocity ? &velocity[i] : NULL);
}

#endif
