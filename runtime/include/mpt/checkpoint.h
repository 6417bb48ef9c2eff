/* Checkpoints: all that decides the next bit of a run, in folders that are there whole or not
 * at all.
 *
 *   FOLDER/step-N/   after N attempted steps:
 *     model.safetensors    the master weights in FP32, by the names of Hugging Face, as every
 *                          call that reads weights takes them (or shards and their index)
 *     state.safetensors    moments, delayed scales and amax histories, counters
 *     checkpoint.json      of which run it is, and the size and XXH3-64 of each file
 *
 * A step-N folder gets its name when all of it is on the disk, so what has the name is whole
 * unless the disk has damaged it since; that is found by the sums, on every read. */
#ifndef MPT_CHECKPOINT_H
#define MPT_CHECKPOINT_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a checkpoint says of itself. */
typedef struct mpt_checkpoint_info {
    char path[4096]; /* of its step-N folder */
    int64_t step;    /* attempted steps so far */
    int64_t tokens;  /* seen so far */
    /* Bytes of metrics.jsonl so far, as the trainer's writer was given them: a host that goes
     * on from here cuts its file there. The line of the checkpoint itself comes behind. */
    int64_t metrics_bytes;
    char recipe_hash[17];
    char device[16]; /* "ref", "cpu": the same bits are promised for the same device */
    char phase[128];
    /* Training had stopped itself when it was saved: its weights may be lost, and whoever goes
     * on from it without a change comes to the same end. No rollback goes to one. */
    bool gave_up;
} mpt_checkpoint_info;

/* The newest whole checkpoint of a folder. One that is damaged is passed over, with a warning
 * that says what is wrong. MPT_NOT_FOUND: there is none at all; MPT_DATA: there are some, and
 * none is whole. */
MPT_API MPT_CHECKED mpt_status mpt_checkpoint_find(mpt_ctx *ctx, const char *folder,
                                                   mpt_checkpoint_info *out);

/* One checkpoint by its own folder, read as a whole and checked. MPT_DATA says which file is
 * damaged, MPT_NOT_FOUND that there is none, MPT_UNSUPPORTED that a later mpt has written it,
 * or that it was saved on a device that this one does not know. */
MPT_API MPT_CHECKED mpt_status mpt_checkpoint_read(mpt_ctx *ctx, const char *path,
                                                   mpt_checkpoint_info *out);

/* The folder of mpt_trainer_options.checkpoints, for a host that makes it only once there is
 * memory for the trainer. Copied; NULL: none. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_set_checkpoints(mpt_trainer *trainer,
                                                           const char *folder);

/* Whether the recipe wants a checkpoint now, between two steps: every train.checkpoint.every
 * attempted steps, and after the last one. Where the step before was skipped or stood out, it
 * is put off until a step is good again: no bad state pushes a good one out. */
MPT_API bool mpt_trainer_checkpoint_due(const mpt_trainer *trainer);

/* To be called between two steps, after the evaluation that belongs there. Where one is due,
 * saves into the folder of mpt_trainer_options.checkpoints (nothing happens without it), writes
 * the line
 * {"event":"checkpoint","step":N} to the metrics, and then removes what train.checkpoint.keep
 * does not keep. `now` saves also where none is due, as at an early end, without the line: the
 * metrics of a run that goes on from there are those of one that never ended. What is saved
 * already is not saved again.
 *
 * MPT_IO: it could not be written. Nothing incomplete has the name of a checkpoint then, and
 * those from before are as they were; a run should end there, since it could not be continued.
 */
MPT_API MPT_CHECKED mpt_status mpt_trainer_checkpoint(mpt_trainer *trainer, bool now);

/* Saves FOLDER/step-N, whatever the recipe says, and removes nothing else. A checkpoint of the
 * same step is replaced. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_save_checkpoint(const mpt_trainer *trainer,
                                                           const char *folder);

/* Goes on from a checkpoint, by its step-N folder: the steps to come have the bits they would
 * have had. Nothing is drawn and no counter moves, so saving again gives the same bytes. All of
 * it is checked first; where it fails, nothing has changed.
 *
 * Another recipe, seed or data is MPT_INVALID, and the message says which fields differ. With
 * allow_recipe_change they are said in warnings; delayed scales that only one of the two
 * recipes has start anew, or are dropped. Parameters, their shapes, the optimizer and the
 * formats of precision.state must be the same in any case. */
typedef struct mpt_load_checkpoint_options {
    size_t size;
    bool allow_recipe_change;
} mpt_load_checkpoint_options;
#define MPT_LOAD_CHECKPOINT_OPTIONS_INIT                                                       \
    ((mpt_load_checkpoint_options){.size = sizeof(mpt_load_checkpoint_options)})
MPT_API MPT_CHECKED mpt_status mpt_trainer_load_checkpoint(
    mpt_trainer *trainer, const char *path, const mpt_load_checkpoint_options *options);

#ifdef __cplusplus
}
#endif

#endif
