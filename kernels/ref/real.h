/* The number type of the reference kernels: float, or double in the tests.
 *
 * The library compiles kernels/ref with float. tests/ref64.h compiles the same files once more
 * with MPT_REF_DOUBLE, under other names, so that finite differences have digits to spare. */
#ifndef MPT_KERNELS_REF_REAL_H
#define MPT_KERNELS_REF_REAL_H

#include <tgmath.h>

#include "kernels/kernel.h"
#include "kernels/tensor.h"

#ifdef MPT_REF_DOUBLE
typedef double mpt_real;
#define MPT_REF(name) mpt_ref64_##name
#else
typedef float mpt_real;
#define MPT_REF(name) mpt_ref_##name
#endif

/* One kernel a row of rows.def: mpt_ref_<op>, and mpt_ref_<op>_scratch where it needs room. */
#define MPT_REF_ROW(op) void MPT_REF(op)(const mpt_kernel_args *args);
#define MPT_REF_ROW_SCRATCH(op)                                                                \
    MPT_REF_ROW(op)                                                                            \
    size_t MPT_REF(op##_scratch)(const mpt_graph *graph, const mpt_node *node, int n_threads);
#include "kernels/ref/rows.def"
#undef MPT_REF_ROW
#undef MPT_REF_ROW_SCRATCH

static inline mpt_real MPT_REF(sigmoid)(mpt_real x) {
    return 1 / (1 + exp(-x));
}

/* d/dx of x * sigmoid(x). */
static inline mpt_real MPT_REF(silu_slope)(mpt_real x) {
    mpt_real s = MPT_REF(sigmoid)(x);
    return s * (1 + x * (1 - s));
}

#endif
