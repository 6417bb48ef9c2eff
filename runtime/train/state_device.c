/* The copy of a run's state that a device trains on.
 *
 * Kernels work on the copy alone. The host's buffers are brought up to date when somebody looks
 * at them (a checkpoint, a view, a diagnosis) and written back when somebody changed them (a
 * load, a fault by request, a switch of phases), a whole set at a time: most steps move neither
 * way. A set is newer on one side at most. */
#include "train/state.h"

#include "exec/stream.h"

enum { COPY_ALIGN = 64 }; /* as the host, so that spans lie alike */

/* One buffer: the host's, and its tensor on the device. */
typedef struct copied {
    float *host;
    int64_t n;
    unsigned set;
    size_t offset; /* in the copy */
    mpt_tensor device;
} copied;

typedef struct mpt_state_copy {
    mpt_stream *stream;
    void *memory;
    unsigned host_newer, device_newer; /* sets */
    int n;
    copied *buffers; /* in the order in which the host has them */
} mpt_state_copy;

/* ---- layout ---- */

static size_t align_up(size_t bytes) {
    size_t padded = mpt_size_add(bytes, COPY_ALIGN - 1);
    return padded == SIZE_MAX ? padded : padded / COPY_ALIGN * COPY_ALIGN;
}

static void add(mpt_state_copy *copy, float *host, int64_t n, unsigned set, mpt_storage storage,
                size_t *at) {
    copied *c = &copy->buffers[copy->n++];
    *c = (copied){.host = host, .n = n, .set = set, .offset = *at};
    c->device = (mpt_tensor){.storage = storage, .rank = 1, .dims = {n}};
    *at = mpt_size_add(*at, align_up(mpt_size_mul((size_t)n, mpt_storage_bytes(storage))));
}

static void add_params(const mpt_state *state, const mpt_phase_program *program, int c,
                       size_t *at) {
    static const unsigned sets[] = {MPT_STATE_MASTERS, MPT_STATE_GRADS, MPT_STATE_MOMENTS,
                                    MPT_STATE_MOMENTS};
    float *const *lists[] = {state->master, state->grad, state->moment[0], state->moment[1]};
    const mpt_graph *graph = program->graph;
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_param *param = &graph->params[p];
        const mpt_value_id ids[] = {param->value, param->grad, param->moment[0],
                                    param->moment[1]};
        if (ids[c] >= 0)
            add(state->copy, lists[c][p], mpt_value_elements(&graph->values[ids[c]]), sets[c],
                program->storage[ids[c]], at);
    }
}

/* Lists all buffers; gives the bytes of the copy. */
static size_t lay_out(const mpt_state *state, const mpt_phase_program *program) {
    size_t bytes = 0;
    for (int c = 0; c < 4; c++)
        add_params(state, program, c, &bytes);
    for (int i = 0; i < state->n_scales; i++) {
        const mpt_scale_state *scale = &state->scales[i];
        add(state->copy, scale->scale, 1, MPT_STATE_SCALES, MPT_STORAGE_HOST, &bytes);
        add(state->copy, scale->amax_history, scale->history, MPT_STATE_SCALES,
            MPT_STORAGE_HOST, &bytes);
    }
    return bytes;
}

/* ---- life ---- */

mpt_status mpt_state_place(mpt_state *state, const mpt_phase_program *program,
                           const mpt_executor *executor) {
    mpt_stream *stream = mpt_executor_stream(executor);
    size_t most = 4 * (size_t)state->n_params + 2 * (size_t)state->n_scales;
    size_t bytes = mpt_size_add(sizeof(mpt_state_copy), mpt_size_mul(most, sizeof(copied)));
    if (!stream)
        return MPT_OK;
    mpt_state_copy *copy = state->copy = mpt_alloc(state->ctx, bytes);
    if (!copy)
        return mpt_fail_memory(state->ctx, bytes);
    copy->stream = mpt_stream_share(stream);
    copy->buffers = (copied *)(copy + 1);
    size_t device_bytes = lay_out(state, program);
    MPT_TRY(mpt_stream_alloc(stream, "weights, gradients and moments", device_bytes,
                             &copy->memory));
    for (int i = 0; i < copy->n; i++)
        copy->buffers[i].device.data = (char *)copy->memory + copy->buffers[i].offset;
    copy->host_newer = MPT_STATE_ALL;
    return MPT_OK;
}

void mpt_state_unplace(mpt_state *state) {
    if (!state->copy)
        return;
    mpt_stream_free(state->copy->stream, state->copy->memory);
    mpt_stream_leave(state->copy->stream);
    mpt_free(state->ctx, state->copy);
    state->copy = NULL;
}

float *mpt_state_at(const mpt_state *state, const float *buffer) {
    const mpt_state_copy *copy = state->copy;
    int low = 0, high = copy ? copy->n : 0;
    while (high - low > 1) { /* the last that does not begin behind it */
        int middle = low + (high - low) / 2;
        if (copy->buffers[middle].host <= buffer)
            low = middle;
        else
            high = middle;
    }
    return copy ? copy->buffers[low].device.data : (float *)(uintptr_t)buffer;
}

/* ---- the two sides ---- */

/* From buffer i on as many elements as lie alike on both sides, all of the sets; gives the
 * buffer behind them. One transfer then does for all scales. */
static int span_of(const mpt_state_copy *copy, unsigned sets, int i, int64_t *out_n) {
    const copied *first = &copy->buffers[i], *last = first;
    for (; ++i < copy->n; last++) {
        const copied *next = &copy->buffers[i];
        size_t apart = next->offset - last->offset;
        if (!(next->set & sets) || last->device.storage != MPT_STORAGE_HOST ||
            next->device.storage != MPT_STORAGE_HOST ||
            (size_t)((const char *)next->host - (const char *)last->host) != apart)
            break;
    }
    *out_n = last->host - first->host + last->n;
    return i;
}

static void move(const mpt_state_copy *copy, unsigned sets, bool to_device) {
    for (int i = 0; i < copy->n;) {
        const copied *c = &copy->buffers[i];
        int64_t n;
        if (!(c->set & sets)) {
            i++;
            continue;
        }
        i = span_of(copy, sets, i, &n);
        if (to_device)
            mpt_stream_write(copy->stream, &c->device, 0, n, c->host);
        else
            mpt_stream_read(copy->stream, &c->device, 0, n, c->host);
    }
}

mpt_status mpt_state_see(mpt_state *state, unsigned sets) {
    mpt_state_copy *copy = state->copy;
    if (!copy)
        return MPT_OK;
    move(copy, copy->device_newer & sets, false);
    copy->device_newer &= ~sets;
    return mpt_stream_status(copy->stream);
}

mpt_status mpt_state_edit(mpt_state *state, unsigned sets) {
    MPT_TRY(mpt_state_see(state, sets));
    if (state->copy)
        state->copy->host_newer |= sets;
    return MPT_OK;
}

void mpt_state_push(mpt_state *state) {
    mpt_state_copy *copy = state->copy;
    if (!copy)
        return;
    move(copy, copy->host_newer, true);
    copy->host_newer = 0;
    copy->device_newer = MPT_STATE_ALL; /* what is about to run may change any */
}
