/* The reference backend: one kernel an op, each the definition of the op's numbers.
 *
 * The selector (sched/select.c) falls back to these; every other backend is tested against
 * them. Forward and backward ops come from rows.def; casts and the optimizer's tail, which have
 * no double-precision copy, follow by name. */
#include "kernels/ref/real.h"

#define MPT_REF_ROW(op) {MPT_OP_##op, "ref." #op, NULL, mpt_ref_##op, NULL},
#define MPT_REF_ROW_SCRATCH(op)                                                                \
    {MPT_OP_##op, "ref." #op, NULL, mpt_ref_##op, mpt_ref_##op##_scratch},

const mpt_kernel mpt_kernels_ref[] = {
#include "kernels/ref/rows.def"
    {0, NULL, NULL, NULL, NULL},
};
