/* The learning rate of each step: pure functions of the training settings and a counter. */
#ifndef MPT_TRAIN_LR_H
#define MPT_TRAIN_LR_H

#include "recipe/recipe.h"

/* The rate of one step. Schedules count applied steps: a skipped step does not move them.
 * `applied` is how many there were before this one, so the first has 0 and uses the schedule
 * at 1: with warm-up W it is peak / W, never 0, and the last of N steps has exactly `final`.
 *
 *   constant  peak
 *   linear    peak to final on a straight line
 *   cosine    final + (peak - final) (1 + cos(pi t)) / 2
 *   wsd       peak, and a straight line to final over the last `decay` of the run
 *
 * t runs from 0 at the end of warm-up to 1 at the end of the run. Warm-up comes first in all of
 * them: peak * step / W up to step W. */
double mpt_lr_at(const mpt_train *train, int64_t applied);

#endif
