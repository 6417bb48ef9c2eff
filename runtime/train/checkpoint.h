/* Checkpoints of a run: everything that decides the next bit, in a folder that is there whole
 * or not at all. mpt/checkpoint.h says what is in one.
 *
 * checkpoint_rows.c lists the state, checkpoint_manifest.c says whose it is and sums it up,
 * checkpoint_save.c writes, checkpoint_find.c looks for the newest whole one, checkpoint_load.c
 * reads it back, checkpoint_changes.c tells two recipes apart. */
#ifndef MPT_TRAIN_CHECKPOINT_H
#define MPT_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "mpt/checkpoint.h"
#include "train/saved.h"
#include "train/trainer.h"
#include "train/weights.h"

#define MPT_CHECKPOINT_STATE    "state.safetensors"
#define MPT_CHECKPOINT_MANIFEST "checkpoint.json"

/* Back to the newest whole checkpoint of the trainer's folder, in what training has learnt:
 * masters, moments, scales and histories, the applied steps and the loss scale. The counters of
 * data and of attempted steps go on from where they are, so that the batch of the bad step
 * never comes again and no step number twice. `out_step` is the checkpoint's. MPT_NOT_FOUND:
 * there is none. */
mpt_status mpt_trainer_roll_back(mpt_trainer *trainer, int64_t *out_step);

/* ---- the state ---- */

/* Adds all that a trainer carries from step to step, its weights excepted. */
mpt_status mpt_trainer_saved(mpt_trainer *trainer, mpt_saved *list);

/* ---- the manifest: checkpoint.json ---- */

/* Whose state it is: step, recipe, schedules, data, parameters. The caller's. */
mpt_status mpt_manifest_make(const mpt_trainer *trainer, json_t **out);

/* Adds the files that lie in the folder, with their sums, and writes it there as the last. */
mpt_status mpt_manifest_write(mpt_ctx *ctx, const char *folder, json_t *manifest);

/* Reads it and checks every file against its sum. MPT_DATA names what is damaged. */
mpt_status mpt_manifest_read(mpt_ctx *ctx, const char *folder, json_t **out);

/* The text of a member; "" where there is none. */
const char *mpt_manifest_text(const json_t *manifest, const char *member);

void mpt_manifest_info(const json_t *manifest, const char *folder, mpt_checkpoint_info *out);

/* ---- another recipe ---- */

/* The fields that differ, "train.lr.peak: 0.01, was 0.02; ..."; *out_n counts them: 0 where it
 * is the same run. */
mpt_status mpt_manifest_changes(const json_t *saved, const json_t *now, mpt_str *out,
                                int *out_n);

/* Refuses what no recipe change allows: other parameters, optimizer or formats of the state. */
mpt_status mpt_manifest_check_state(mpt_ctx *ctx, const char *path, const json_t *saved,
                                    const json_t *now);

/* ---- folders ---- */

/* N of a name "step-N"; -1 for any other. */
int64_t mpt_checkpoint_step(const char *name);

/* The newest whole one with a step up to `most`. */
mpt_status mpt_checkpoint_find_until(mpt_ctx *ctx, const char *folder, int64_t most,
                                     mpt_checkpoint_info *out);

#endif
