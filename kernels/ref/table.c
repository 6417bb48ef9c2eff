/* The reference backend: one kernel an op, each the definition of the op's numbers.
 *
 * The selector (sched/select.c) falls back to these; every other backend is tested against
 * them. Forward and backward ops come from rows.def; casts and the optimizer's tail, which have
 * no double-precision copy, follow by name. */
#include "kernels/ref/optim.h"
#include "kernels/ref/real.h"
#include "kernels/quantize.h"

#define MPT_REF_ROW(op) {MPT_OP_##op, "ref." #op, NULL, mpt_ref_##op, NULL},
#define MPT_REF_ROW_SCRATCH(op)                                                                \
    {MPT_OP_##op, "ref." #op, NULL, mpt_ref_##op, mpt_ref_##op##_scratch},

const mpt_kernel mpt_kernels_ref[] = {
#include "kernels/ref/rows.def"
    {MPT_OP_zero, "ref.zero", NULL, mpt_ref_zero, NULL},
    {MPT_OP_grad_reduce, "ref.grad_reduce", NULL, mpt_ref_grad_reduce, NULL},
    {MPT_OP_unscale, "ref.unscale", NULL, mpt_ref_unscale, NULL},
    {MPT_OP_grad_norm, "ref.grad_norm", NULL, mpt_ref_grad_norm, NULL},
    {MPT_OP_finite_check, "ref.finite_check", NULL, mpt_ref_finite_check, NULL},
    {MPT_OP_global_norm, "ref.global_norm", NULL, mpt_ref_global_norm, NULL},
    {MPT_OP_clip_factor, "ref.clip_factor", NULL, mpt_ref_clip_factor, NULL},
    {MPT_OP_adamw, "ref.adamw", NULL, mpt_ref_adamw, NULL},
    {MPT_OP_sgd, "ref.sgd", NULL, mpt_ref_sgd, NULL},
    {MPT_OP_quantize_state, "ref.quantize_state", NULL, mpt_ref_quantize_state, NULL},
    {MPT_OP_moe_balance, "ref.moe_balance", NULL, mpt_ref_moe_balance, NULL},
    {MPT_OP_scale_update, "ref.scale_update", NULL, mpt_ref_scale_update, NULL},
    MPT_REF_ROW(cast) MPT_REF_ROW_SCRATCH(quantize)
        MPT_REF_ROW_SCRATCH(record_amax){0, NULL, NULL, NULL, NULL},
};
