/* Dynamic loss scaling as a state machine of one decision a step: PyTorch's, with the floor and
 * the hysteresis of Megatron-LM.
 *
 * A step whose gradients were not finite is skipped and brings the scale nearer to falling: it
 * falls at the skipped step that uses the hysteresis up, and at each one after it. `interval`
 * good steps in a row let it grow, and only that gives the hysteresis back. A static scale, and
 * the 1 of a recipe without one, stay as they are. */
#ifndef MPT_TRAIN_LOSS_SCALE_H
#define MPT_TRAIN_LOSS_SCALE_H

#include "recipe/recipe.h"

/* All that loss scaling carries from step to step: a checkpoint of it is these three. */
typedef struct mpt_scaler {
    double loss_scale;  /* of the step to come; where it is dynamic, a float32 number */
    int64_t good_steps; /* in a row, since the scale changed or a step was skipped */
    int64_t hysteresis; /* skipped steps that the scale still bears; 0: it falls at each */
} mpt_scaler;

mpt_scaler mpt_scaler_start(const mpt_loss_scale *scale);

/* After a step, skipped or not: the state for the next. */
void mpt_scaler_update(mpt_scaler *scaler, const mpt_loss_scale *scale, bool skipped);

/* Whether skipping more steps can lower the scale: then a run of them may cure itself. */
bool mpt_scaler_can_fall(const mpt_scaler *scaler, const mpt_loss_scale *scale);

#endif
