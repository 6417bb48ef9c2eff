/* A step whose gradients were not finite: what is said of it, what it does to the loss scale,
 * and when there were too many. trainer_step.c has run it, and its optimizer has left
 * everything alone. Steps that are left out for a spike are counted here, too. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

/* Whether NaN or Inf stands first in the gradient. */
static bool nan_is_first(const mpt_trainer *trainer, int param) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    int64_t n = mpt_value_elements(&graph->values[graph->params[param].value]);
    if (mpt_state_see(trainer->state, MPT_STATE_GRADS) != MPT_OK)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(trainer->state->grad[param][i]))
            return isnan(trainer->state->grad[param][i]);
    return false; /* unscaling by a factor above 1 went past the largest number */
}

void mpt_trainer_note_skip(mpt_trainer *trainer, const mpt_step_result *r, int param) {
    trainer->bad = (mpt_bad_step){.step = r->step,
                                  .param = param,
                                  .nan = param >= 0 && nan_is_first(trainer, param),
                                  .amax = r->bad_amax,
                                  .loss = r->loss,
                                  .grad_norm = r->grad_norm,
                                  .loss_scale = r->loss_scale};
}

/* ", the loss scale falls to 32768" where a dynamic one does; else nothing. */
static void say_fall(const mpt_trainer *trainer, const mpt_step_result *r, char out[64]) {
    out[0] = 0;
    if (trainer->scaler.loss_scale < r->loss_scale)
        snprintf(out, 64, "; the loss scale falls to %g", trainer->scaler.loss_scale);
}

mpt_status mpt_trainer_count_skip(mpt_trainer *trainer, const mpt_step_result *r) {
    trainer->lost++;
    if (++trainer->skips_in_a_row < trainer->program->train.watch.max_skips)
        return MPT_OK;
    return mpt_trainer_give_up(trainer, r, MPT_STOP_MAX_SKIPS);
}

mpt_status mpt_trainer_skip(mpt_trainer *trainer, const mpt_step_result *r, int param) {
    const mpt_loss_scale *scale = &trainer->program->recipe->loss_scale;
    mpt_trainer_note_skip(trainer, r, param);
    const char *fault = trainer->bad.nan ? "NaN" : "Inf";
    char falls[64];
    bool curable = isfinite(r->loss) && mpt_scaler_can_fall(&trainer->scaler, scale);
    mpt_scaler_update(&trainer->scaler, scale, true);
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "skip");
    mpt_metrics_integer(&line, "step", r->step);
    mpt_metrics_string(&line, "tensor", r->bad_tensor);
    mpt_metrics_string(&line, "fault", fault);
    MPT_TRY(mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud));
    say_fall(trainer, r, falls);
    mpt_log(trainer->ctx, MPT_LOG_WARNING, "step %lld skipped: %s in the gradient of %s%s",
            (long long)r->step, fault, r->bad_tensor, falls);
    if (curable)
        return MPT_OK;
    if (trainer->program->train.watch.nonfinite == MPT_NONFINITE_STOP) {
        trainer->lost++;
        trainer->skips_in_a_row++;
        return mpt_trainer_give_up(trainer, r, MPT_STOP_NONFINITE);
    }
    return mpt_trainer_count_skip(trainer, r);
}
