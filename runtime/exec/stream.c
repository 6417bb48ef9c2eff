/* A device's memory and stream, and what the host keeps beside them. See stream.h. */
#include "exec/stream.h"

#include <string.h>

#include "kernels/packed.h"
#include "kernels/tensor.h"

/* ---- life ---- */

static mpt_status fail_open(const mpt_stream *stream, const char *name) {
    mpt_status status = MPT_FAIL(stream->ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                                 "the device %s could not be opened: %s", name,
                                 stream->gpu.error ? stream->gpu.error : "it gave no reason");
    mpt_hint(stream->ctx, "the device 'cpu' is always there");
    return status;
}

mpt_status mpt_stream_open(mpt_ctx *ctx, const mpt_backend *backend, mpt_stream **out) {
    mpt_stream *stream = mpt_alloc(ctx, sizeof *stream);
    void *env;
    *out = NULL;
    if (!stream)
        return mpt_fail_memory(ctx, sizeof *stream);
    stream->ctx = ctx;
    stream->ops = backend->device;
    stream->users = 1;
    mpt_status status = MPT_OK;
    bool opened = stream->ops->open(ctx, &stream->gpu);
    stream->bytes = stream->gpu.workspace_bytes;
    if (!opened)
        status = fail_open(stream, backend->name);
    else
        status = mpt_stream_alloc(stream, "a step's numbers", sizeof(mpt_run_env), &env);
    if (status != MPT_OK) {
        mpt_stream_leave(stream);
        return status;
    }
    stream->gpu.env = stream->env = env;
    *out = stream;
    return MPT_OK;
}

mpt_stream *mpt_stream_share(mpt_stream *stream) {
    if (stream)
        stream->users++;
    return stream;
}

void mpt_stream_leave(mpt_stream *stream) {
    if (!stream || --stream->users > 0)
        return;
    mpt_stream_free(stream, stream->env);
    mpt_stream_free(stream, stream->gpu.counts);
    stream->ops->close(&stream->gpu);
    mpt_free(stream->ctx, stream->counts);
    mpt_free(stream->ctx, stream->raw);
    mpt_free(stream->ctx, stream->values);
    mpt_free(stream->ctx, stream);
}

/* ---- room ---- */

static mpt_status grow(mpt_stream *stream, size_t bytes, size_t *have, void **memory) {
    if (bytes <= *have)
        return MPT_OK;
    mpt_free(stream->ctx, *memory);
    *have = 0;
    *memory = mpt_alloc(stream->ctx, bytes);
    if (!*memory)
        return mpt_fail_memory(stream->ctx, bytes);
    *have = bytes;
    return MPT_OK;
}

static mpt_status grow_counts(mpt_stream *stream, int n) {
    size_t bytes = mpt_size_mul((size_t)n, sizeof *stream->counts);
    size_t have = (size_t)stream->n_counts * sizeof *stream->counts;
    size_t before = have;
    void *host = stream->counts, *device = NULL;
    if (n <= stream->n_counts)
        return MPT_OK;
    stream->n_counts = 0;
    mpt_status status = grow(stream, bytes, &have, &host);
    stream->counts = host;
    MPT_TRY(status);
    mpt_stream_free(stream, stream->gpu.counts);
    stream->bytes -= stream->gpu.counts ? before : 0;
    stream->gpu.counts = NULL;
    MPT_TRY(mpt_stream_alloc(stream, "counts", bytes, &device));
    stream->gpu.counts = device;
    stream->n_counts = n;
    return MPT_OK;
}

mpt_status mpt_stream_reserve(mpt_stream *stream, int n_operands, size_t raw_bytes,
                              size_t value_bytes) {
    MPT_TRY(grow_counts(stream, n_operands));
    MPT_TRY(grow(stream, raw_bytes, &stream->raw_bytes, &stream->raw));
    return grow(stream, value_bytes, &stream->value_bytes, &stream->values);
}

mpt_status mpt_stream_alloc(mpt_stream *stream, const char *what, size_t bytes, void **out) {
    *out = bytes == SIZE_MAX ? NULL : stream->ops->alloc(&stream->gpu, bytes ? bytes : 1);
    if (*out) {
        stream->bytes += bytes;
        return MPT_OK;
    }
    MPT_TRY(mpt_stream_status(stream));
    mpt_status status =
        MPT_FAIL(stream->ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                 "%s: no %.1f GB for %s; of %.1f GB, %.1f were free at the start",
                 stream->gpu.name, (double)bytes / 1e9, what,
                 (double)stream->gpu.memory_bytes / 1e9, (double)stream->gpu.free_bytes / 1e9);
    mpt_hint(stream->ctx, "choose a smaller model, micro_batch or sequence");
    return status;
}

void mpt_stream_free(mpt_stream *stream, void *memory) {
    if (memory)
        stream->ops->free(&stream->gpu, memory);
}

/* ---- values ---- */

/* Where element `at` begins. */
static char *place_of(const mpt_tensor *t, int64_t at) {
    return (char *)t->data + (size_t)at * mpt_storage_bytes(t->storage);
}

/* How many elements go through `raw` at a time. */
static int64_t piece_of(const mpt_stream *stream, const mpt_tensor *t, int64_t n) {
    int64_t room = (int64_t)(stream->raw_bytes / mpt_storage_bytes(t->storage));
    return n < room ? n : room;
}

void mpt_stream_write(mpt_stream *stream, const mpt_tensor *t, int64_t at, int64_t n,
                      const void *from) {
    const float *x = from;
    if (!t->data || t->storage == MPT_STORAGE_PACKED)
        return;
    if (t->storage == MPT_STORAGE_HOST) {
        (void)stream->ops->write(&stream->gpu, place_of(t, at), from, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t done = 0, piece; done < n; done += piece) {
        piece = piece_of(stream, t, n - done);
        mpt_pack(t->storage, x + done, piece, stream->raw);
        (void)stream->ops->write(&stream->gpu, place_of(t, at + done), stream->raw,
                                 (size_t)piece * mpt_storage_bytes(t->storage));
    }
}

static void read_packed(mpt_stream *stream, const mpt_tensor *t, float *to) {
    if (stream->ops->read(&stream->gpu, stream->raw, t->data, t->packed->bytes))
        mpt_unpack(t->storage, t->packed, stream->raw, mpt_tensor_elements(t), to);
    else
        memset(to, 0xff, (size_t)mpt_tensor_elements(t) * sizeof *to);
}

/* What a device that has failed gives: all bits set, which are NaN and -1. */
static void read_piece(mpt_stream *stream, const mpt_tensor *t, int64_t at, int64_t n,
                       float *to) {
    void *raw = t->storage == MPT_STORAGE_HOST ? (void *)to : stream->raw;
    size_t bytes = (size_t)n * mpt_storage_bytes(t->storage);
    if (!stream->ops->read(&stream->gpu, raw, place_of(t, at), bytes))
        memset(to, 0xff, (size_t)n * sizeof *to);
    else if (t->storage != MPT_STORAGE_HOST)
        mpt_unpack(t->storage, NULL, raw, n, to);
}

void mpt_stream_read(mpt_stream *stream, const mpt_tensor *t, int64_t at, int64_t n, void *to) {
    float *x = to;
    if (!t->data)
        return;
    if (t->storage == MPT_STORAGE_PACKED) {
        read_packed(stream, t, x);
        return;
    }
    for (int64_t done = 0, piece; done < n; done += piece) {
        piece = t->storage == MPT_STORAGE_HOST ? n : piece_of(stream, t, n - done);
        read_piece(stream, t, at + done, piece, x + done);
    }
}

const mpt_tensor *mpt_stream_fetch(mpt_stream *stream, const mpt_tensor *t) {
    stream->fetched = *t;
    stream->fetched.storage = MPT_STORAGE_HOST;
    stream->fetched.packed = NULL;
    if (t->data) {
        mpt_stream_read(stream, t, 0, mpt_tensor_elements(t), stream->values);
        stream->fetched.data = stream->values;
    }
    return &stream->fetched;
}

/* ---- around a run ---- */

void mpt_stream_begin(mpt_stream *stream, const mpt_run_env *env, int n_operands) {
    mpt_gpu *gpu = &stream->gpu;
    gpu->counting = env->counts && n_operands > 0;
    (void)stream->ops->write(gpu, stream->env, env, sizeof *env);
    if (gpu->counting)
        (void)stream->ops->zero(gpu, gpu->counts, (size_t)n_operands * sizeof *gpu->counts);
}

void mpt_stream_end(mpt_stream *stream, const mpt_run_env *env, int n_operands) {
    mpt_gpu *gpu = &stream->gpu;
    size_t bytes = (size_t)n_operands * sizeof *gpu->counts;
    if (!gpu->counting || !stream->ops->read(gpu, stream->counts, gpu->counts, bytes))
        return;
    for (int i = 0; i < n_operands; i++) {
        if (stream->counts[i].elements == 0)
            continue;
        mpt_quantize_counts_add(&env->counts[i], &stream->counts[i]);
        env->counts[i].scale = stream->counts[i].scale;
    }
}

mpt_status mpt_stream_status(const mpt_stream *stream) {
    if (!stream->gpu.error)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(stream->ctx, MPT_INTERNAL, MPT_NOWHERE, "the device %s has failed: %s",
                 stream->gpu.name, stream->gpu.error);
    mpt_hint(stream->ctx,
             "nothing of this step was kept: go on from the last checkpoint with --resume");
    return status;
}
