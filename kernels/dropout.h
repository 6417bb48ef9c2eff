/* The bits of dropout: what ref and cpu share, so that both drop the same elements.
 *
 * An element's word is that of mpt_random_words by (seed, step, layer, element of the step);
 * the elements of a micro-batch follow those of the one before, from a new group of four. */
#ifndef MPT_KERNELS_DROPOUT_H
#define MPT_KERNELS_DROPOUT_H

#include "kernels/numerics_random.h"
#include "kernels/tensor.h"

typedef struct mpt_dropout {
    mpt_words_key key;
    uint32_t below; /* words below this are dropped: p 2^32 */
    bool off;       /* an evaluation drops nothing */
} mpt_dropout;

static inline mpt_dropout mpt_dropout_of(const mpt_kernel_args *args) {
    const mpt_run_env *env = args->env;
    const mpt_attrs *a = &args->node->attrs;
    uint64_t groups = ((uint64_t)mpt_tensor_elements(&args->out[0]) + 3) / 4;
    mpt_dropout d = {.below = (uint32_t)((double)a->p * 4294967296.0),
                     .off = env->evaluating || a->p == 0};
    d.key = (mpt_words_key){.seed = env->seed,
                            .stream = MPT_STREAM_DROPOUT,
                            .scope = a->scope,
                            .step = env->step,
                            .first_group = env->micro_batch * groups};
    return d;
}

#endif
