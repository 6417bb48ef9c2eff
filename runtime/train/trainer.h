/* The trainer's inside, shared by trainer.c (its life), trainer_step.c (a step), skip.c and
 * eval.c (validation). */
#ifndef MPT_TRAIN_TRAINER_H
#define MPT_TRAIN_TRAINER_H

#include <math.h>

#include "kernels/quantize.h"
#include "runtime/pipeline.h"
#include "train/gemms.h"
#include "train/inject.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/state.h"

/* After so many skipped steps in a row nothing will cure itself, and training stops. A step
 * does not count where its loss was finite and a dynamic loss scale can still fall: there are
 * only so many of those before it is at its floor. */
enum { MPT_MAX_SKIPS = 20 };

struct mpt_trainer {
    mpt_ctx *ctx;
    const mpt_program *program; /* lent */
    mpt_write_fn metrics;
    void *metrics_ud;
    mpt_write_fn telemetry; /* NULL: none */
    void *telemetry_ud;
    mpt_state *state;
    const char *root; /* of the checkpoint that the weights came from; NULL: from none */
    char *weights;    /* the file of that checkpoint, or NULL */
    int n_executors;
    mpt_executor **executors;  /* one a phase, then those of evaluation; over the one state */
    int phase;                 /* the current one */
    int announced;             /* the last phase that the metrics name; -1 at first */
    int32_t *tokens, *targets; /* [batch, sequence] of the step */
    mpt_gemms gemms;           /* that ran in the steps so far */
    /* Three counters. Data: batches taken from the recipe's source. Attempted: all steps;
     * phases and stochastic streams go by it. Applied: steps that changed weights; the learning
     * rate and Adam's bias correction go by it. */
    int64_t data, attempted, applied;
    mpt_scaler scaler;
    mpt_faults faults;  /* that the host asked for */
    int skips_in_a_row; /* but those that a lower loss scale may cure */
    int64_t lost;       /* skipped steps of that kind, in all */
    double tokens_seen;
    double last_eval; /* NAN before the first */
    bool told_empty;  /* that there is nothing to validate with */
    /* What the last counted step did to each operand of the phase it ran in. */
    bool has_gradients; /* mpt_trainer_forward left gradients of the loss in the state */
    bool count_next;
    int counted;          /* that phase; -1 before the first */
    int64_t counted_step; /* and that attempted step */
    mpt_quantize_counts *counts;
};

/* One step on trainer->tokens and trainer->targets; a target of -1 is masked. Loss and gradient
 * are means over the targets of the whole step, however they are spread over micro-batches. */
mpt_status mpt_trainer_step_batch(mpt_trainer *trainer, mpt_step_result *out);

/* Counts a skipped step and names its fault, in the gradient of this parameter; stops where it
 * is the last of too many. */
mpt_status mpt_trainer_skip(mpt_trainer *trainer, const mpt_step_result *r, int param);

/* Which GEMMs ran so far, a line of the metrics for each kind: at the end of a run, whatever
 * ended it. */
mpt_status mpt_trainer_write_gemms(const mpt_trainer *trainer);

/* Says which faults the step to come gets, in the log and in the metrics. */
mpt_status mpt_trainer_announce_faults(const mpt_trainer *trainer);

/* The environment of the step to come, in the current phase. */
mpt_run_env mpt_trainer_env(const mpt_trainer *trainer);

/* What the current phase runs, for steps or for an evaluation: a program, its graph and its
 * executor. */
typedef struct mpt_runner {
    const mpt_phase_program *program;
    const mpt_graph *graph;
    mpt_executor *executor;
} mpt_runner;
mpt_runner mpt_trainer_runner(const mpt_trainer *trainer, bool evaluation);

/* Goes to the phase that a run ends in, where no step was taken and the weights were read: they
 * are a run's last. Gives the phase to go back to. */
int mpt_trainer_enter_end(mpt_trainer *trainer);

/* Copies rows into a runner's inputs. */
void mpt_runner_fill(const mpt_runner *runner, const int32_t *tokens, const int32_t *targets);

/* The mean loss over the micro-batch's targets, once FORWARD has run. */
double mpt_runner_loss(const mpt_runner *runner);

/* Fills the inputs and runs FORWARD; gives the loss. */
double mpt_runner_forward(const mpt_runner *runner, const int32_t *tokens,
                          const int32_t *targets, const mpt_run_env *env);

/* Runs FORWARD step by step and shows the logits right before the loss reads them; later steps
 * use their memory again. */
typedef void (*mpt_logits_fn)(void *ud, const mpt_tensor *logits);
void mpt_runner_look(const mpt_runner *runner, const mpt_run_env *env, mpt_logits_fn look,
                     void *ud);

/* Fills the batch's rows with n windows spread over all n_all, from the first-th of them on.
 * Rows past the last repeat it with masked targets. */
void mpt_trainer_fill_windows(mpt_trainer *trainer, int64_t first, int64_t n, int64_t n_all);

/* Refuses the first id of [micro_batch, sequence] that is no token of the model, and no -1
 * where they are targets. `name` leads the message. */
mpt_status mpt_trainer_check_ids(const mpt_trainer *trainer, const char *name,
                                 const int32_t *ids, bool targets);

/* Whether a row of logits is largest at the target; of equal ones the first counts. A row with
 * NaN foretells nothing. */
static inline bool mpt_foretells(const float *logits, int64_t n, int32_t target) {
    for (int64_t i = 0; i < n; i++)
        if (!(logits[i] < logits[target] || (logits[i] == logits[target] && i >= target)))
            return false;
    return true;
}

static inline const mpt_graph *mpt_trainer_graph(const mpt_trainer *trainer) {
    return trainer->program->phases[trainer->phase]->graph;
}

static inline const char *mpt_trainer_phase(const mpt_trainer *trainer) {
    return trainer->program->phases[trainer->phase]->phase;
}

static inline bool mpt_all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* How many targets are not masked. */
static inline int64_t mpt_count_targets(const int32_t *targets, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += targets[i] >= 0;
    return count;
}

#endif
