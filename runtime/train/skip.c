/* A step whose gradients were not finite: what is said of it, what it does to the loss scale,
 * and when there were too many. trainer.c has run it, and its optimizer has left everything
 * alone. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

/* "NaN" or "Inf": what stands first in the gradient. */
static const char *fault_of(const mpt_trainer *trainer, int param) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    int64_t n = mpt_value_elements(&graph->values[graph->params[param].value]);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(trainer->state->grad[param][i]))
            return isnan(trainer->state->grad[param][i]) ? "NaN" : "Inf";
    return "Inf"; /* unscaling by a factor above 1 went past the largest number */
}

/* What would help where steps are skipped one after the other. */
static void hint_at_skips(const mpt_trainer *trainer, const mpt_step_result *r) {
    const char *wider = "lower the learning rate, or keep this layer in a wider format";
    mpt_loss_scale_kind kind = trainer->program->recipe->loss_scale.kind;
    switch (isfinite(r->loss) ? kind : MPT_LOSS_SCALE_NONE) { /* which cures no such loss */
    case MPT_LOSS_SCALE_STATIC:
        mpt_hint(trainer->ctx,
                 "lower precision.loss_scale, which is %g, or make it dynamic { }",
                 r->loss_scale);
        return;
    case MPT_LOSS_SCALE_DYNAMIC:
        mpt_hint(trainer->ctx, "the loss scale is at its floor of %g: %s", r->loss_scale,
                 wider);
        return;
    default:
        mpt_hint(trainer->ctx, "%s",
                 isnan(r->loss) ? "the loss itself is NaN: look for the weights that hold it"
                                : wider);
    }
}

/* ", the loss scale falls to 32768" where a dynamic one does; else nothing. */
static void say_fall(const mpt_trainer *trainer, const mpt_step_result *r, char out[64]) {
    out[0] = 0;
    if (trainer->scaler.loss_scale < r->loss_scale)
        snprintf(out, 64, "; the loss scale falls to %g", trainer->scaler.loss_scale);
}

mpt_status mpt_trainer_skip(mpt_trainer *trainer, const mpt_step_result *r, int param) {
    const mpt_loss_scale *scale = &trainer->program->recipe->loss_scale;
    const char *fault = fault_of(trainer, param);
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
    trainer->lost++;
    if (++trainer->skips_in_a_row < MPT_MAX_SKIPS)
        return MPT_OK;
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                                 "step %lld: %d steps in a row were skipped; first bad tensor: "
                                 "%s in the gradient of %s",
                                 (long long)r->step, MPT_MAX_SKIPS, fault, r->bad_tensor);
    hint_at_skips(trainer, r);
    return status;
}
