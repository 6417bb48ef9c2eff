/* Ranges of steps that a device has recorded.
 *
 * Launching one step after the other costs the host more than many of them take on a device. A
 * range that runs for the second time is recorded on the way, and from then on replayed whole:
 * the first time, kernels are loaded and products choose their algorithms. Which kernels a step
 * launches depends on whether it evaluates and whether it counts, so there is a recording for
 * each. */
#ifndef MPT_EXEC_REPLAY_H
#define MPT_EXEC_REPLAY_H

#include "exec/stream.h"

enum { MPT_REPLAY_MOST = 24 }; /* ranges past these are launched step by step */

typedef struct mpt_recording {
    int from, to;
    bool evaluating, counting;
    void *made; /* NULL: the range has run once */
} mpt_recording;

typedef struct mpt_replay {
    int n;
    mpt_recording list[MPT_REPLAY_MOST];
} mpt_replay;

/* Launches the steps of a range, one after the other. */
typedef void (*mpt_launch_fn)(void *ud, int from, int to);

/* Runs a range: by its recording, or where there is none by `launch`. */
void mpt_replay_run(mpt_replay *replay, mpt_stream *stream, const mpt_recording *range,
                    mpt_launch_fn launch, void *ud);

/* Drops all recordings: what they name has moved, or the executor ends. */
void mpt_replay_forget(mpt_replay *replay, mpt_stream *stream);

#endif
