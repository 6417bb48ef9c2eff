/* A backend: the kernels of one device and the memory they work in.
 *
 * `ref` is the definition of every number, `cpu` the fast one for the host, which falls back on
 * ref's kernels op by op. The compiler (pipeline.c) hands `tables` to the selector; the
 * executor takes the program's block from alloc. A backend of another maker fills this struct
 * and states the API version it was written for. */
#ifndef MPT_EXEC_BACKEND_H
#define MPT_EXEC_BACKEND_H

#include "kernels/kernel.h"

enum { MPT_BACKEND_API = 1 };

typedef struct mpt_backend {
    int api;          /* MPT_BACKEND_API */
    const char *name; /* "cpu": what --device says */
    const char *summary;
    const mpt_kernel *const *tables; /* best first, NULL-ended */
    /* Zeroed, 64-byte aligned; NULL refuses and sets no error. */
    void *(*alloc)(mpt_ctx *ctx, size_t bytes);
    void (*free)(mpt_ctx *ctx, void *memory);
} mpt_backend;

/* The backend of a device; AUTO is the fastest that this machine has. NULL: not in this build.
 */
const mpt_backend *mpt_backend_get(mpt_device device);

#endif
