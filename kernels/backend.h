/* A backend: the kernels of one device and the memory they work in.
 *
 * Kernels of a host backend work in the context's memory. Where `device` is set, they work in
 * memory of its own, which the host does not touch: everything goes through these calls, and
 * every pointer that kernels are given is the device's. A backend of another maker fills this
 * struct and states the API version it was written for; exec/backend.h lists those of the
 * host. */
#ifndef MPT_KERNELS_BACKEND_H
#define MPT_KERNELS_BACKEND_H

#include "kernels/kernel.h"

enum { MPT_BACKEND_API = 3 };

struct mpt_gpu; /* kernels/cuda/device.h */

/* One device, its memory and its one stream. What is given to the stream (writes, launches,
 * replays) runs in order and later; read and wait come back when all of it is done. Calls that
 * give a bool or a recording fail where the device has: mpt_gpu.error then says how, and all
 * that follow fail, too. */
typedef struct mpt_device_ops {
    /* Fills a zeroed one; what the host's memory is needed for comes from the context. To be
     * closed in any case. */
    bool (*open)(mpt_ctx *ctx, struct mpt_gpu *gpu);
    void (*close)(struct mpt_gpu *gpu);
    /* 256-byte aligned, with anything in it; NULL where there is not as much, which is no
     * failure of the device. */
    void *(*alloc)(struct mpt_gpu *gpu, size_t bytes);
    void (*free)(struct mpt_gpu *gpu, void *memory);
    bool (*zero)(struct mpt_gpu *gpu, void *at, size_t bytes);
    /* `from` may change once it is back. */
    bool (*write)(struct mpt_gpu *gpu, void *to, const void *from, size_t bytes);
    bool (*read)(struct mpt_gpu *gpu, void *to, const void *from, size_t bytes);
    bool (*wait)(struct mpt_gpu *gpu);
    /* Between the two, launches are recorded and not run; writes and reads are not allowed. */
    bool (*record)(struct mpt_gpu *gpu);
    void *(*recorded)(struct mpt_gpu *gpu);
    bool (*replay)(struct mpt_gpu *gpu, void *recording);
    void (*forget)(struct mpt_gpu *gpu, void *recording);
    /* Marks tell when the stream came to them, by the device's clock: placed among launches, as
     * often as wanted, but in no recording. `between` waits for `to` and gives the seconds
     * since `from`, which was placed before it. */
    void *(*mark_create)(struct mpt_gpu *gpu);
    bool (*mark)(struct mpt_gpu *gpu, void *mark);
    bool (*between)(struct mpt_gpu *gpu, void *from, void *to, double *out_seconds);
    void (*mark_destroy)(struct mpt_gpu *gpu, void *mark);
} mpt_device_ops;

typedef struct mpt_backend {
    int api;          /* MPT_BACKEND_API */
    const char *name; /* "cpu": what --device says */
    const char *summary;
    const mpt_kernel *const *tables; /* best first, NULL-ended */
    /* Zeroed, 64-byte aligned; NULL refuses and sets no error. Not used with a device. */
    void *(*alloc)(mpt_ctx *ctx, size_t bytes);
    void (*free)(mpt_ctx *ctx, void *memory);
    const mpt_device_ops *device; /* NULL: the host's memory */
} mpt_backend;

#endif
