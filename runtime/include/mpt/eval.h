/* Evaluating a model: on tokens from a file, with everything it computes written to another, or
 * on data, as figures.
 *
 *   recipe -> mpt_tokens_shape -> program of that batch and sequence -> trainer, its weights
 *          -> mpt_trainer_eval_file
 *
 * Ownership, errors and threads as in mpt.h. */
#ifndef MPT_EVAL_H
#define MPT_EVAL_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was found: means over all targets that are not masked. */
typedef struct mpt_eval_result {
    double loss;     /* nats; NAN where there is no target */
    double accuracy; /* share of the targets that the largest logit foretells */
    int64_t n_targets, n_windows;
    int64_t bad_window; /* the first with a logit that is not finite, of rows where tokens come
                           from a file; -1: none */
    const char *phase;  /* whose precision was used; the program's */
    bool eval_use;      /* with the formats of train.eval.use in it */
} mpt_eval_result;

/* Batch and sequence of a file of tokens, which a program must have to be evaluated on it:
 * safetensors with `tokens` and `targets`, I32 or I64 [batch, tokens], a target of -1 or -100
 * being masked; or with `tokens`, [1, batch, tokens + 1], whose rows end in their last target.
 * Other tensors are passed over. */
MPT_API MPT_CHECKED mpt_status mpt_tokens_shape(mpt_ctx *ctx, const char *path,
                                                int64_t *out_batch, int64_t *out_sequence);

/* One forward pass over such a file, and with `gradients` a backward pass. Writes safetensors:
 * `logits` [batch, tokens, words], `loss` [1], and the gradients by the names and in the shapes
 * of the checkpoint that the weights came from. `out` is there whole or not at all; what stands
 * there is replaced where it is a safetensors file or empty, is not `tokens`, and is not among
 * the weights that the trainer read. */
typedef struct mpt_eval_options {
    size_t size;
    const char *tokens, *out;
    bool gradients;
} mpt_eval_options;
#define MPT_EVAL_OPTIONS_INIT ((mpt_eval_options){.size = sizeof(mpt_eval_options)})
MPT_API MPT_CHECKED mpt_status mpt_trainer_eval_file(mpt_trainer *trainer,
                                                     const mpt_eval_options *options,
                                                     mpt_eval_result *out_result);

/* Loss and accuracy over the validation windows of the program's data: those that end a run, in
 * the same precision, so that the loss of a run's last weights is the one that it ended with:
 * weights that were read, before any step, are measured in the phase that the run ends in.
 * `progress` is NULL, or told after each micro-batch how many windows are done; MPT_INTERRUPTED
 * where it gives false. MPT_DATA where the data holds no window. */
typedef bool (*mpt_measure_fn)(void *ud, int64_t done, int64_t all);
MPT_API MPT_CHECKED mpt_status mpt_trainer_measure(mpt_trainer *trainer,
                                                   mpt_measure_fn progress, void *ud,
                                                   mpt_eval_result *out);

#ifdef __cplusplus
}
#endif

#endif
