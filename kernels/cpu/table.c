/* The cpu backend: fast kernels, best first for each op.
 *
 * What has no row here runs by its reference kernel. Each row's file says what it assumes; the
 * conformance test holds every row against ref. */
#include "kernels/cpu/cpu.h"

const mpt_kernel mpt_kernels_cpu[] = {
    {0, NULL, NULL, NULL, NULL},
};
