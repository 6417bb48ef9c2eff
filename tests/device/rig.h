/* What the parts of the device test stand on: an open device, tensors in its memory, and a node
 * run there by its kernel.
 *
 * The device is a GPU behind the CUDA module, or the simulator: rig_find() is written twice.
 * Findings go to the result's file, the first of each part in words, all in numbers. */
#ifndef MPT_TESTS_DEVICE_RIG_H
#define MPT_TESTS_DEVICE_RIG_H

#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/packed.h"

enum { RIG_SHOWN = 40, RIG_WHY = 512 };

typedef struct rig {
    const mpt_backend *backend;
    bool simulated; /* slow: parts take less of everything */
    bool planted;   /* a bit of every second tensor that is read is spoilt: a part that finds
                       nothing then is blind */
    long long reads;
    mpt_gpu gpu;
    mpt_run_env env; /* as the host knows it; rig_set_env() takes it to the device */
    mpt_ctx *ctx;
    FILE *out;
    long long checks, faults;
} rig;

/* The backend of this program's device; NULL: `why` says what is missing. */
const mpt_backend *rig_find(const char *folder, mpt_ctx *ctx, char why[RIG_WHY]);
extern const bool rig_is_simulated;

/* Opens the device. False: `why` says what is missing, and nothing is open. */
bool rig_open(rig *r, const char *folder, char why[RIG_WHY]);
void rig_close(rig *r);

/* The environment as it now is, for the launches that follow. */
void rig_set_env(rig *r);

/* One more comparison; where it failed, the words go to the file. */
bool rig_check(rig *r, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory ---- */

/* What the device or the host lacks ends the program: a test with holes proves nothing. */
void *rig_alloc(rig *r, size_t bytes);
void rig_free(rig *r, void *memory);
void rig_write(rig *r, void *to, const void *from, size_t bytes);
void rig_read(rig *r, void *to, const void *from, size_t bytes);
void *rig_host(size_t bytes); /* zeroed */

/* A tensor in the device's memory, and a guard behind it. */
typedef struct rig_tensor {
    mpt_tensor at; /* data NULL: absent */
    mpt_packed packed;
    size_t bytes;
} rig_tensor;

/* [rows, cols] in a storage that is not packed, from floats that are numbers of the dtype;
 * x NULL: anything. cols 0 makes a vector. */
rig_tensor rig_tensor_of(rig *r, mpt_dtype dtype, mpt_storage storage, int64_t rows,
                         int64_t cols, const float *x);
rig_tensor rig_packed(rig *r, const mpt_packed *packed);
void rig_tensor_free(rig *r, rig_tensor *t);

/* Its bytes as they are; the guard is looked at on the way. `to` NULL: only the guard. */
void rig_bytes(rig *r, const rig_tensor *t, void *to, const char *what);

/* ---- nodes ---- */

typedef struct rig_call {
    mpt_node node;                                 /* ids of values are set by rig_prepare */
    rig_tensor *in[MPT_MAX_IN], *out[MPT_MAX_OUT]; /* NULL: absent */
    /* ---- set by rig_prepare ---- */
    const mpt_kernel *kernel;
    void *scratch;
    mpt_tensor in_at[MPT_MAX_IN], out_at[MPT_MAX_OUT];
} rig_call;

/* Chooses the kernel and gives it scratch; false, as a fault, where none takes the node. */
bool rig_prepare(rig *r, rig_call *call);
void rig_launch(rig *r, const rig_call *call);
void rig_done(rig *r, rig_call *call);

/* Seconds that one launch takes, of many that follow each other. */
double rig_seconds(rig *r, const rig_call *call, int launches);

/* ---- the parts ---- */

/* The quantizers of the recipes, one after the other; false behind the last: quantizers.c */
bool rig_quantizer(int i, mpt_quantizer *out);

void rig_quantizers(rig *r); /* conformance.c */
void rig_products(rig *r);   /* products.c */
void rig_reruns(rig *r);     /* reruns.c */
void rig_speeds(rig *r);     /* speeds.c */

#endif
