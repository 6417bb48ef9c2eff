/* The trainer's inside, shared by trainer.c (its life), trainer_step.c (a step), skip.c and
 * spike.c (steps that are left out), diagnosis.c (the end of a run that gives up) and eval.c
 * (validation). */
#ifndef MPT_TRAIN_TRAINER_H
#define MPT_TRAIN_TRAINER_H

#include <math.h>

#include "comm/comm.h"
#include "kernels/quantize.h"
#include "runtime/pipeline.h"
#include "train/diagnosis.h"
#include "train/gemms.h"
#include "train/inject.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/state.h"
#include "train/watch.h"

enum { MPT_CHECKPOINTS_PATH = 4000 }; /* bytes of the path of their folder */

struct mpt_trainer {
    mpt_ctx *ctx;
    const mpt_program *program; /* lent */
    const mpt_comm *comm;       /* to the other ranks, lent */
    mpt_write_fn metrics; /* counts, and passes on to the host's; NULL where it has none */
    void *metrics_ud;
    mpt_write_fn telemetry; /* NULL: none */
    void *telemetry_ud;
    mpt_write_fn host_metrics;
    void *host_metrics_ud;
    int64_t metrics_bytes; /* written so far, over all processes of the run */
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
    int64_t drawn; /* the batch of the last step, in the data counter; -1: the host's tokens */
    mpt_scaler scaler;
    mpt_faults faults;  /* that the host asked for */
    int skips_in_a_row; /* but those that a lower loss scale may cure: there are only so many of
                           these before it is at its floor */
    int64_t lost;       /* skipped steps of that kind, in all */
    mpt_watch_state watch;
    mpt_range range;
    mpt_bad_step bad;
    mpt_diagnosis diagnosis;
    double tokens_seen;
    double last_eval;          /* NAN before the first */
    char *checkpoints;         /* their folder; NULL: there are none */
    char *loaded_in;           /* the folder of the checkpoint that was read last, or NULL */
    bool owns;                 /* the checkpoints there are this run's */
    bool swept;                /* what an ended run left half done there is gone */
    int64_t saved_at, told_at; /* steps of the last one saved or read, and of its event; -1 */
    char came_from[16];        /* another device, whose state goes on: not told yet; or "" */
    bool told_empty;           /* that there is nothing to validate with */
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

/* MPT_UNSUPPORTED where there are several ranks and the program computes on a device. */
mpt_status mpt_trainer_expect_ranks(const mpt_trainer *trainer);

/* Names the fault of a step that was skipped for the gradient of this parameter, and counts it;
 * stops where it is the last of too many. */
mpt_status mpt_trainer_skip(mpt_trainer *trainer, const mpt_step_result *r, int param);

/* Keeps what a diagnosis may need of a skipped step; param -1: it was skipped for a spike. */
void mpt_trainer_note_skip(mpt_trainer *trainer, const mpt_step_result *r, int param);

/* Counts a skipped step that no lower loss scale cures; stops where it is the last of too many.
 */
mpt_status mpt_trainer_count_skip(mpt_trainer *trainer, const mpt_step_result *r);

/* What comes of the verdict over a step with finite gradients, which has run: events, and where
 * it says so a rollback; and the step's numbers into the window, where it was applied. */
mpt_status mpt_trainer_settle_spike(mpt_trainer *trainer, const mpt_step_result *r,
                                    const mpt_watch_verdict *verdict);

/* Looks at the values of the step to come, where it is one of those that are looked at; and
 * says afterwards which of them came near the end of their range. */
void mpt_trainer_start_range(mpt_trainer *trainer);
mpt_status mpt_trainer_end_range(mpt_trainer *trainer, int64_t step);

/* Whether the last step was good: no checkpoint is due before that, and none makes way for one
 * that was asked for all the same. */
bool mpt_trainer_is_sound(const mpt_trainer *trainer);

/* Ends training: looks for the first bad tensor of the step, which runs once more, and says in
 * the metrics and in the error what was found. Gives MPT_STOPPED. Weights, moments, histories
 * and counters stay. */
mpt_status mpt_trainer_give_up(mpt_trainer *trainer, const mpt_step_result *r,
                               mpt_stop_reason reason);

/* The same at the end of a run, from what is known of the last skipped step, or where the loss
 * is high of the last one; the error is the caller's. */
mpt_status mpt_trainer_diagnose_end(mpt_trainer *trainer, mpt_stop_reason reason);

/* Which GEMMs ran so far, a line of the metrics for each kind: at the end of a run, whatever
 * ended it. */
mpt_status mpt_trainer_write_gemms(const mpt_trainer *trainer);

/* Says which faults the step to come gets, in the log and in the metrics. */
mpt_status mpt_trainer_announce_faults(const mpt_trainer *trainer);

/* Goes on under another recipe: in the phase that is due by it, which is announced. */
void mpt_trainer_enter_anew(mpt_trainer *trainer);

/* Says in the metrics that the run has come from another device, once. */
mpt_status mpt_trainer_tell_device(mpt_trainer *trainer);

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
