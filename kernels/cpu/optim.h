/* Threaded kernels of the optimizer's tail, named by table.c. */
#ifndef MPT_KERNELS_CPU_OPTIM_H
#define MPT_KERNELS_CPU_OPTIM_H

#include "kernels/kernel.h"

void mpt_cpu_zero(const mpt_kernel_args *args);
void mpt_cpu_grad_reduce(const mpt_kernel_args *args);
void mpt_cpu_grad_norm(const mpt_kernel_args *args);
size_t mpt_cpu_grad_norm_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads);
void mpt_cpu_adamw(const mpt_kernel_args *args);
void mpt_cpu_sgd(const mpt_kernel_args *args);
void mpt_cpu_quantize_state(const mpt_kernel_args *args);

#endif
