/* What watches over a run: what it has seen, and why training gave up. What it does is said by
 * the recipe, in train.watch. */
#ifndef MPT_WATCH_H
#define MPT_WATCH_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the watch has seen and done so far. */
typedef struct mpt_watch_view {
    int64_t skipped;    /* steps that changed no weight, whatever the reason */
    int64_t spikes;     /* steps whose loss or gradient norm stood out */
    int64_t left_out;   /* of these, skipped */
    int64_t rollbacks;  /* of these, that went back to a checkpoint */
    int64_t near_end;   /* warnings of values near the end of FP16's range */
    int64_t high_since; /* the step by which the last losses were all far above the first, and
                           have been since; -1: they are not */
} mpt_watch_view;
MPT_API bool mpt_trainer_watch(const mpt_trainer *trainer, mpt_watch_view *out);

/* Why training gave up, as text for people: the first bad tensor in the order of the schedule
 * and its largest magnitude, what the loss scale did, what to try. Nothing is written where it
 * has not. */
MPT_API MPT_CHECKED mpt_status mpt_trainer_diagnosis(const mpt_trainer *trainer,
                                                     mpt_write_fn write, void *ud);

#ifdef __cplusplus
}
#endif

#endif
