/* Opens the module of a device: the shared library that holds its backend.
 *
 * It is opened when a compilation asks for the device, never before, and a program works
 * without it. Looking for it prints nothing and fails nothing: the answer says what was found
 * or, as one sentence without its end, what is missing. A file that the system's loader cannot
 * be trusted with, cut off or none at all, is told by its header and never opened. A module
 * that is taken stays loaded until the process ends, because programs hold its tables and the
 * device's runtime in it leaves threads and exit handlers behind. */
#ifndef MPT_EXEC_MODULE_H
#define MPT_EXEC_MODULE_H

#include "kernels/module.h"

typedef struct mpt_module_kind {
    const char *file;   /* "libmpt_cuda.so" */
    const char *symbol; /* "mpt_cuda_module" */
    const char *driver; /* a library of the system without which there is no device; or NULL.
                           It is asked for first, since a module may take long to load */
    const char *driver_name; /* "the NVIDIA driver" */
} mpt_module_kind;

extern const mpt_module_kind mpt_module_cuda;

typedef struct mpt_module_answer {
    const mpt_module *module; /* NULL: no device of this kind computes here */
    bool found;               /* the module's file is there */
    char why[MPT_MODULE_WHY]; /* what is missing, where module is NULL */
    mpt_module_device device; /* where it is not */
} mpt_module_answer;

/* Looks in `folder`, which may be NULL, then beside the program's or the library's own file. */
void mpt_module_look(const mpt_module_kind *kind, const char *folder, mpt_module_answer *out);

#endif
