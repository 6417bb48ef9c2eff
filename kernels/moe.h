/* The scores of a choice of experts: what all backends share, so that the same logits choose
 * the same experts.
 *
 * They are made in double and rounded once. Two libraries' exponentials differ in the last bit
 * of a float32 now and then, and sums in their order; in double both differences are a
 * billionth of what the rounding leaves. */
#ifndef MPT_KERNELS_MOE_H
#define MPT_KERNELS_MOE_H

#include <math.h>

#include "kernels/numerics_cast.h" /* what marks code that a device can call */

MPT_NUMERIC double mpt_moe_sigmoid(double logit) {
    return 1 / (1 + exp(-logit));
}

/* A probability, from the largest logit and the sum of all exp(logit - most). */
MPT_NUMERIC double mpt_moe_softmax(double logit, double most, double sum) {
    return exp(logit - most) / sum;
}

#endif
