/* The steps of dynamic loss scaling. See loss_scale.h. */
#include "train/loss_scale.h"

mpt_scaler mpt_scaler_start(const mpt_loss_scale *scale) {
    return (mpt_scaler){.loss_scale = mpt_loss_scale_first(scale),
                        .hysteresis = scale->hysteresis};
}

/* The scale is one float32 number, as gradients are: what a checkpoint holds is what is used.
 */
static double times(double scale, double factor) {
    return (double)(float)(scale * factor);
}

static void fall(mpt_scaler *scaler, const mpt_loss_scale *scale) {
    double lower = times(scaler->loss_scale, scale->backoff);
    double floor = (double)(float)scale->min;
    scaler->good_steps = 0;
    if (scaler->hysteresis > 0)
        scaler->hysteresis--;
    if (scaler->hysteresis == 0)
        scaler->loss_scale = lower > floor ? lower : floor;
}

static void grow(mpt_scaler *scaler, const mpt_loss_scale *scale) {
    double higher = times(scaler->loss_scale, scale->growth);
    double ceiling = (double)(float)scale->max;
    scaler->good_steps = 0;
    scaler->hysteresis = scale->hysteresis;
    scaler->loss_scale = higher < ceiling ? higher : ceiling;
}

void mpt_scaler_update(mpt_scaler *scaler, const mpt_loss_scale *scale, bool skipped) {
    if (scale->kind != MPT_LOSS_SCALE_DYNAMIC)
        return;
    if (skipped)
        fall(scaler, scale);
    else if (++scaler->good_steps >= scale->interval)
        grow(scaler, scale);
}

bool mpt_scaler_can_fall(const mpt_scaler *scaler, const mpt_loss_scale *scale) {
    return scale->kind == MPT_LOSS_SCALE_DYNAMIC &&
           scaler->loss_scale > (double)(float)scale->min;
}
