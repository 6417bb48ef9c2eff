/* The two backends of the host: ref and cpu. Both work in the context's memory. */
#include "exec/backend.h"

static const mpt_kernel *const ref_tables[] = {mpt_kernels_ref, NULL};
static const mpt_kernel *const cpu_tables[] = {mpt_kernels_cpu, mpt_kernels_ref, NULL};

static const mpt_backend backends[] = {
    {MPT_BACKEND_API, "ref", "the definition: plain loops in one fixed order", ref_tables,
     mpt_alloc, mpt_free, NULL},
    {MPT_BACKEND_API, "cpu", "OpenMP and oneDNN, ref where it has no kernel", cpu_tables,
     mpt_alloc, mpt_free, NULL},
};

const mpt_backend *mpt_backend_get(mpt_device device) {
    switch (device) {
    case MPT_DEVICE_REF:
        return &backends[0];
    case MPT_DEVICE_AUTO:
    case MPT_DEVICE_CPU:
        return &backends[1];
    default:
        return NULL;
    }
}
