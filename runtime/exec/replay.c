/* Recording and replaying ranges of steps. See replay.h. */
#include "exec/replay.h"

static mpt_recording *find(mpt_replay *replay, const mpt_recording *range) {
    for (int i = 0; i < replay->n; i++) {
        mpt_recording *r = &replay->list[i];
        if (r->from == range->from && r->to == range->to &&
            r->evaluating == range->evaluating && r->counting == range->counting)
            return r;
    }
    return NULL;
}

void mpt_replay_run(mpt_replay *replay, mpt_stream *stream, const mpt_recording *range,
                    mpt_launch_fn launch, void *ud) {
    mpt_recording *r = find(replay, range);
    if (!r) {
        launch(ud, range->from, range->to);
        if (replay->n < MPT_REPLAY_MOST)
            replay->list[replay->n++] = *range;
        return;
    }
    if (!r->made) {
        if (!stream->ops->record(&stream->gpu))
            return;
        launch(ud, range->from, range->to);
        r->made = stream->ops->recorded(&stream->gpu);
    }
    if (r->made)
        (void)stream->ops->replay(&stream->gpu, r->made);
}

void mpt_replay_forget(mpt_replay *replay, mpt_stream *stream) {
    for (int i = 0; i < replay->n; i++)
        if (replay->list[i].made)
            stream->ops->forget(&stream->gpu, replay->list[i].made);
    replay->n = 0;
}
