/* Checkpoints of a run: everything that decides the next bit, in a folder that is there whole
 * or not at all. */
#ifndef MPT_TRAIN_CHECKPOINT_H
#define MPT_TRAIN_CHECKPOINT_H

#include "train/trainer.h"

/* Back to the newest whole checkpoint of the trainer's folder, in what training has learnt:
 * masters, moments, scales and histories, the applied steps and the loss scale. The counters of
 * data and of attempted steps go on from where they are, so that the batch of the bad step never
 * comes again and no step number twice. `out_step` is the checkpoint's. MPT_NOT_FOUND: there is
 * none. */
mpt_status mpt_trainer_roll_back(mpt_trainer *trainer, int64_t *out_step);

#endif
