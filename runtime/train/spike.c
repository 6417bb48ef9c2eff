/* What a loss or a gradient norm that stands out brings about: an event and a warning; a step
 * that is left out; a warning of a loss that stays far above where it began; a run that goes
 * back to its last checkpoint and past the data that it stumbled over. watch.c gives the
 * verdict, trainer_step.c has obeyed it in the update. */
#include "train/trainer.h"

#include "train/checkpoint.h"

/* What is done about the step, once a rollback was tried. */
typedef struct settling {
    mpt_spike_action action;
    int64_t to;   /* of a rollback: the checkpoint's step */
    bool in_vain; /* it was gone back to often enough */
} settling;

static const char *action_name(mpt_spike_action action) {
    static const char *const names[] = {"off", "warn", "skip", "rollback"};
    return names[action];
}

/* The batch in its source: which one it was, and its sequences from the run's first one on. */
static void write_range(const mpt_trainer *trainer, mpt_metrics_line *line) {
    int64_t batch = trainer->program->train.batch;
    if (trainer->drawn < 0)
        return; /* the host's own tokens */
    mpt_metrics_integer(line, "batch", trainer->drawn);
    mpt_metrics_integer(line, "first_sequence", trainer->drawn * batch);
    mpt_metrics_integer(line, "sequences", batch);
}

static mpt_status write_spike(const mpt_trainer *trainer, const mpt_step_result *r,
                              mpt_watched what, const mpt_outlying *of,
                              mpt_spike_action action) {
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "spike");
    mpt_metrics_integer(&line, "step", r->step);
    mpt_metrics_string(&line, "what", mpt_watched_name(what));
    mpt_metrics_number(&line, "value", of->value);
    mpt_metrics_number(&line, "median", of->median);
    mpt_metrics_number(&line, "z", of->z);
    mpt_metrics_string(&line, "action", action_name(action));
    write_range(trainer, &line);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

/* A level that has changed for good is a spike at each step until the window knows it: the log
 * hears of the first. */
static void log_spike(const mpt_trainer *trainer, const mpt_step_result *r,
                      const mpt_outlying *of, const char *name, mpt_spike_action action) {
    if (action == MPT_SPIKE_WARN && trainer->watch.counts.spikes_in_a_row > 1)
        return;
    mpt_log(trainer->ctx, MPT_LOG_WARNING,
            "step %lld: %s %.4g stands out of the steps before (median %.4g, z %.3g)%s",
            (long long)r->step, name, of->value, of->median, of->z,
            action == MPT_SPIKE_WARN ? "" : ": it changes no weight");
}

static mpt_status say_spike(const mpt_trainer *trainer, const mpt_step_result *r,
                            const mpt_watch_verdict *verdict, mpt_spike_action action) {
    static const char *const names[] = {"the loss of", "the gradient norm of"};
    for (int i = 0; i < MPT_WATCHED_COUNT; i++) {
        if (!verdict->of[i].spike)
            continue;
        MPT_TRY(write_spike(trainer, r, (mpt_watched)i, &verdict->of[i], action));
        log_spike(trainer, r, &verdict->of[i], names[i], action);
    }
    return MPT_OK;
}

/* Whether the checkpoint that comes next is one that leads to the same spike again and again.
 */
static bool is_in_vain(const mpt_trainer *trainer) {
    const mpt_watch_counts *counts = &trainer->watch.counts;
    mpt_checkpoint_info info;
    return counts->rolled_times >= MPT_WATCH_ROLLBACKS && trainer->checkpoints &&
           mpt_checkpoint_find_until(trainer->ctx, trainer->checkpoints, trainer->attempted,
                                     &info) == MPT_OK &&
           info.step == counts->rolled_to;
}

/* Where there is nothing to go back to, leaving the step out is all that can be done. */
static mpt_status roll_back(mpt_trainer *trainer, const mpt_step_result *r, settling *out) {
    out->in_vain = is_in_vain(trainer);
    if (out->in_vain)
        return MPT_OK;
    mpt_status status = mpt_trainer_roll_back(trainer, &out->to);
    if (status == MPT_OK)
        return MPT_OK;
    if (status != MPT_NOT_FOUND)
        return status;
    out->action = MPT_SPIKE_SKIP;
    mpt_log(trainer->ctx, MPT_LOG_WARNING,
            "step %lld: there is no checkpoint to go back to%s; the step alone is left out",
            (long long)r->step, trainer->checkpoints ? " yet" : ", and no folder for them");
    return MPT_OK;
}

static mpt_status write_rollback(const mpt_trainer *trainer, const mpt_step_result *r,
                                 int64_t to) {
    mpt_metrics_line line;
    mpt_log(trainer->ctx, MPT_LOG_WARNING,
            "step %lld: back to the checkpoint of step %lld; the data goes on behind this step",
            (long long)r->step, (long long)to);
    mpt_metrics_begin(&line, "rollback");
    mpt_metrics_integer(&line, "step", r->step);
    mpt_metrics_integer(&line, "to", to);
    mpt_metrics_integer(&line, "times", trainer->watch.counts.rolled_times);
    mpt_metrics_integer(&line, "applied", trainer->applied);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

static mpt_status count_rollback(mpt_trainer *trainer, const mpt_step_result *r, int64_t to) {
    mpt_watch_counts *counts = &trainer->watch.counts;
    bool again = counts->rollbacks > 0 && counts->rolled_to == to;
    counts->rollbacks++;
    counts->rolled_to = to;
    counts->rolled_times = again ? counts->rolled_times + 1 : 1;
    return write_rollback(trainer, r, to);
}

/* ---- a loss that stays high ---- */

static mpt_status say_high(const mpt_trainer *trainer, const mpt_step_result *r,
                           const mpt_level *level) {
    mpt_metrics_line line;
    mpt_log(trainer->ctx, MPT_LOG_WARNING,
            "step %lld: training diverges: the last %lld losses are all above %.4g, and the "
            "first was %.4g",
            (long long)r->step, (long long)level->n, level->bound, trainer->watch.first_loss);
    mpt_metrics_begin(&line, "diverging");
    mpt_metrics_integer(&line, "step", r->step);
    mpt_metrics_number(&line, "lowest", level->lowest);
    mpt_metrics_number(&line, "bound", level->bound);
    mpt_metrics_number(&line, "first", trainer->watch.first_loss);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

/* Said as it begins; what it means for the run is seen at its end. */
static mpt_status settle_level(mpt_trainer *trainer, const mpt_step_result *r) {
    mpt_watch_counts *counts = &trainer->watch.counts;
    mpt_level level = mpt_watch_level(&trainer->watch, MPT_WATCH_LEVEL);
    bool begins = level.high && counts->high_since == 0;
    if (begins)
        counts->high_since = r->step + 1;
    else if (!level.high)
        counts->high_since = 0;
    return begins ? say_high(trainer, r, &level) : MPT_OK;
}

/* ---- the step ---- */

bool mpt_trainer_is_sound(const mpt_trainer *trainer) {
    bool skipped = trainer->bad.step >= 0 && trainer->bad.step == trainer->attempted - 1;
    return !skipped && trainer->watch.counts.spikes_in_a_row == 0;
}

mpt_status mpt_trainer_settle_spike(mpt_trainer *trainer, const mpt_step_result *r,
                                    const mpt_watch_verdict *verdict) {
    mpt_watch_counts *counts = &trainer->watch.counts;
    settling done = {.action = verdict->action};
    counts->spikes_in_a_row = r->spike ? counts->spikes_in_a_row + 1 : 0;
    if (!r->skipped) {
        mpt_watch_take(&trainer->watch, r->loss, r->grad_norm);
        MPT_TRY(settle_level(trainer, r));
    }
    if (!r->spike)
        return MPT_OK;
    counts->spikes++;
    counts->skips += r->skipped;
    if (r->skipped)
        mpt_trainer_note_skip(trainer, r, -1);
    if (done.action == MPT_SPIKE_ROLLBACK)
        MPT_TRY(roll_back(trainer, r, &done));
    MPT_TRY(say_spike(trainer, r, verdict, done.action));
    if (done.in_vain)
        return mpt_trainer_give_up(trainer, r, MPT_STOP_ROLLBACKS);
    if (done.action == MPT_SPIKE_ROLLBACK)
        MPT_TRY(count_rollback(trainer, r, done.to));
    return r->skipped ? mpt_trainer_count_skip(trainer, r) : MPT_OK;
}
