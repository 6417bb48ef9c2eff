/* A device as a run uses it: opened once, shared by the executors of all phases and by the
 * state, closed by the last of them.
 *
 * The host touches none of its memory: tensors there are read and written as the host's float32
 * and int32 by these calls, which pack and unpack what lies there otherwise. A device that
 * fails is told once, by mpt_stream_status: calls that follow do nothing, and reads give -1
 * where the value is of integers and else NaN. */
#ifndef MPT_EXEC_STREAM_H
#define MPT_EXEC_STREAM_H

#include "kernels/backend.h"
#include "kernels/cuda/device.h"

typedef struct mpt_stream {
    mpt_ctx *ctx;
    const mpt_device_ops *ops;
    mpt_gpu gpu;
    int users;
    size_t bytes;     /* of its memory that are taken, the products' workspace with it */
    mpt_run_env *env; /* gpu.env, to be written */
    int n_counts;     /* room in gpu.counts and in `counts` */
    mpt_quantize_counts *counts;
    size_t raw_bytes; /* room in `raw` */
    void *raw;        /* bytes as they lie on the device */
    size_t value_bytes;
    void *values; /* room for the largest value as the host has it */
    mpt_tensor fetched;
} mpt_stream;

/* One user; each other one is added by mpt_stream_share. */
mpt_status mpt_stream_open(mpt_ctx *ctx, const mpt_backend *backend, mpt_stream **out);
mpt_stream *mpt_stream_share(mpt_stream *stream);
void mpt_stream_leave(mpt_stream *stream); /* NULL is left already */

/* Room for so many operands to be counted, for the largest packed tensor, and for the largest
 * one as floats; what there is is enough where it is larger. */
mpt_status mpt_stream_reserve(mpt_stream *stream, int n_operands, size_t raw_bytes,
                              size_t value_bytes);

/* Refused with a text that says how much there is. `what` is wanted: "the state". */
mpt_status mpt_stream_alloc(mpt_stream *stream, const char *what, size_t bytes, void **out);
void mpt_stream_free(mpt_stream *stream, void *memory);

/* Elements at ... at + n - 1 of a tensor on the device, from and to the host's. What is packed
 * is read whole, and not written. A tensor without data takes nothing. Reading waits. */
void mpt_stream_write(mpt_stream *stream, const mpt_tensor *t, int64_t at, int64_t n,
                      const void *from);
void mpt_stream_read(mpt_stream *stream, const mpt_tensor *t, int64_t at, int64_t n, void *to);

/* A whole tensor in the host's memory; until the next call. Waits. */
const mpt_tensor *mpt_stream_fetch(mpt_stream *stream, const mpt_tensor *t);

/* Around a run: the environment goes to the device, and where it counts, counts come back. */
void mpt_stream_begin(mpt_stream *stream, const mpt_run_env *env, int n_operands);
void mpt_stream_end(mpt_stream *stream, const mpt_run_env *env, int n_operands);

/* MPT_INTERNAL where the device has failed. Does not wait. */
mpt_status mpt_stream_status(const mpt_stream *stream);

#endif
