/* Reference kernels of the optimizer's tail, named by table.c. */
#ifndef MPT_KERNELS_REF_OPTIM_H
#define MPT_KERNELS_REF_OPTIM_H

#include "kernels/kernel.h"

void mpt_ref_zero(const mpt_kernel_args *args);
void mpt_ref_grad_reduce(const mpt_kernel_args *args);
void mpt_ref_unscale(const mpt_kernel_args *args);
void mpt_ref_grad_norm(const mpt_kernel_args *args);
void mpt_ref_finite_check(const mpt_kernel_args *args);
void mpt_ref_global_norm(const mpt_kernel_args *args);
void mpt_ref_clip_factor(const mpt_kernel_args *args);
void mpt_ref_adamw(const mpt_kernel_args *args);
void mpt_ref_sgd(const mpt_kernel_args *args);
void mpt_ref_quantize_state(const mpt_kernel_args *args);
void mpt_ref_moe_balance(const mpt_kernel_args *args);
void mpt_ref_scale_update(const mpt_kernel_args *args); /* ref_scale.c */

#endif
