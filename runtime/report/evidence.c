/* What goes into the event file of a run: its steps, its evaluations, its operands. */
#include "mpt/evidence.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

enum { TAG = 600 };

mpt_status mpt_events_step(mpt_events *events, const mpt_step_result *result) {
    MPT_REQUIRE_OBJECT(events && result);
    MPT_TRY(mpt_events_scalar(events, "train/loss", result->step, (float)result->loss));
    MPT_TRY(mpt_events_scalar(events, "train/lr", result->step, (float)result->lr));
    MPT_TRY(
        mpt_events_scalar(events, "train/grad_norm", result->step, (float)result->grad_norm));
    MPT_TRY(
        mpt_events_scalar(events, "train/loss_scale", result->step, (float)result->loss_scale));
    MPT_TRY(mpt_events_scalar(events, "train/skipped", result->step, result->skipped ? 1 : 0));
    return mpt_events_flush(events);
}

mpt_status mpt_events_eval(mpt_events *events, int64_t step, double loss) {
    MPT_REQUIRE_OBJECT(events);
    MPT_TRY(mpt_events_scalar(events, "eval/loss", step, (float)loss));
    return mpt_events_flush(events);
}

/* "layers.3.mixer.up_proj.fprop.x" is quant/layers.3.mixer.up_proj/fprop.x/NAME: the slot is
 * the last two words. */
static void make_tag(char out[TAG], const char *operand, const char *name) {
    const char *slot = strrchr(operand, '.');
    while (slot && slot > operand && *--slot != '.')
        ;
    if (slot && slot > operand)
        snprintf(out, TAG, "quant/%.*s/%s/%s", (int)(slot - operand), operand, slot + 1, name);
    else
        snprintf(out, TAG, "quant/%s/%s", operand, name);
}

static mpt_status put_operand(mpt_events *events, const mpt_operand_view *o) {
    double elements = o->elements ? (double)o->elements : 1;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"amax", o->amax},
                   {"sqnr", o->sqnr},
                   {"overflow", (double)o->overflow / elements},
                   {"underflow", (double)o->underflow / elements}};
    char tag[TAG];
    for (size_t i = 0; i < MPT_COUNT(numbers); i++) {
        make_tag(tag, o->name, numbers[i].name);
        MPT_TRY(mpt_events_scalar(events, tag, o->step, (float)numbers[i].value));
    }
    return MPT_OK;
}

mpt_status mpt_events_operands(mpt_events *events, const mpt_trainer *trainer, int64_t step) {
    mpt_operand_view operand;
    MPT_REQUIRE_OBJECT(events && trainer);
    for (int i = 0; mpt_trainer_operand(trainer, i, &operand) && operand.step == step; i++)
        MPT_TRY(put_operand(events, &operand));
    return mpt_events_flush(events);
}
