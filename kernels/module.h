/* What a module of kernels, a shared library that is opened when its device is asked for,
 * tells the program.
 *
 * It exports one function, of type mpt_module_fn, that gives this table. Module and program are
 * compiled by themselves and may come from different versions, so the table says what both have
 * to agree in: `api`, which stays the first member for ever, and where that is the same the
 * sizes of what is passed across and the order of what is passed by number. exec/module.c
 * compares them and refuses in words. */
#ifndef MPT_KERNELS_MODULE_H
#define MPT_KERNELS_MODULE_H

#include "kernels/backend.h"

enum { MPT_MODULE_API = 1 };

typedef struct mpt_module_size {
    const char *name; /* "mpt_tensor"; NULL ends the list */
    size_t bytes;
} mpt_module_size;

/* The device that computes. */
typedef struct mpt_module_device {
    char name[128];    /* "NVIDIA H200" */
    int major, minor;  /* compute capability */
    mpt_target target; /* what its tensor cores take */
    size_t memory_bytes;
} mpt_module_device;

enum { MPT_MODULE_WHY = 512 };

typedef struct mpt_module {
    int api;             /* MPT_MODULE_API */
    const char *version; /* of mpt */
    const mpt_module_size *sizes;
    const char *numbers; /* ops and formats in the order of their numbers */
    /* Looks for a device. False: there is none, and `why` says what is missing. */
    bool (*probe)(mpt_module_device *out, char why[MPT_MODULE_WHY]);
    const mpt_backend *backend;
} mpt_module;

typedef const mpt_module *(*mpt_module_fn)(void);

/* What this side of the border was compiled with (kernels/module.c is part of both). */
extern const mpt_module_size mpt_module_sizes[];
extern const char mpt_module_numbers[];

#endif
