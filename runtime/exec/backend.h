/* The backends of the host: `ref` is the definition of every number, `cpu` the fast one, which
 * falls back on ref's kernels op by op. The compiler (pipeline.c) hands their tables to the
 * selector; the executor takes the program's block from alloc, or from the device. */
#ifndef MPT_EXEC_BACKEND_H
#define MPT_EXEC_BACKEND_H

#include "kernels/backend.h"

/* The backend of a device; AUTO is the fastest that every machine has. NULL: there is none of
 * the host's, and of CUDA it is mpt_ctx.device_backend. */
const mpt_backend *mpt_backend_get(mpt_device device);

#endif
