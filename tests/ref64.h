/* The reference kernels compiled once more in double precision, as mpt_ref64_<op>.
 *
 * Included by tests only, in one translation unit each, before any other header of kernels/ref.
 */
#ifndef MPT_TESTS_REF64_H
#define MPT_TESTS_REF64_H

#define MPT_REF_DOUBLE
#include "kernels/ref/real.h"

#include "kernels/ref/ref_attention.c"
#include "kernels/ref/ref_conv1d.c"
#include "kernels/ref/ref_cross_entropy.c"
#include "kernels/ref/ref_dropout.c"
#include "kernels/ref/ref_elementwise.c"
#include "kernels/ref/ref_embedding.c"
#include "kernels/ref/ref_gated_rmsnorm.c"
#include "kernels/ref/ref_linear.c"
#include "kernels/ref/ref_moe.c"
#include "kernels/ref/ref_norm.c"
#include "kernels/ref/ref_rope.c"
#include "kernels/ref/ref_softmax.c"
#include "kernels/ref/ref_split.c"
#include "kernels/ref/ref_ssm_scan.c"

#define MPT_REF_ROW(op) {MPT_OP_##op, "ref64." #op, NULL, mpt_ref64_##op, NULL},
#define MPT_REF_ROW_SCRATCH(op)                                                                \
    {MPT_OP_##op, "ref64." #op, NULL, mpt_ref64_##op, mpt_ref64_##op##_scratch},
static const mpt_kernel ref64_kernels[] = {
#include "kernels/ref/rows.def"
    {0, NULL, NULL, NULL, NULL},
};
#undef MPT_REF_ROW
#undef MPT_REF_ROW_SCRATCH

#endif
