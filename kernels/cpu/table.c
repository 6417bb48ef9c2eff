/* The cpu backend: fast kernels, best first for each op.
 *
 * What has no row here runs by its reference kernel. Each row's file says what it assumes; the
 * conformance test holds every row against ref. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/optim.h"
#include "kernels/quantize.h"

const mpt_kernel mpt_kernels_cpu[] = {
    {MPT_OP_zero, "cpu.zero", NULL, mpt_cpu_zero, NULL},
    {MPT_OP_grad_norm, "cpu.grad_norm", NULL, mpt_cpu_grad_norm, mpt_cpu_grad_norm_scratch},
    {MPT_OP_adamw, "cpu.adamw", NULL, mpt_cpu_adamw, NULL},
    {MPT_OP_sgd, "cpu.sgd", NULL, mpt_cpu_sgd, NULL},
    {MPT_OP_cast, "cpu.cast", NULL, mpt_cpu_cast, NULL},
    {MPT_OP_quantize, "cpu.quantize", NULL, mpt_cpu_quantize, mpt_cpu_quantize_scratch},
    {0, NULL, NULL, NULL, NULL},
};
