/* The cpu backend: fast kernels, best first for each op.
 *
 * What has no row here runs by its reference kernel. Each row's file says what it assumes; the
 * conformance test holds every row against ref. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/optim.h"
#include "kernels/quantize.h"

#define ROW(op, name)                                                                          \
    { MPT_OP_##op, "cpu." name, NULL, mpt_cpu_##op, NULL }
#define ROW_SCRATCH(op, name)                                                                  \
    { MPT_OP_##op, "cpu." name, NULL, mpt_cpu_##op, mpt_cpu_##op##_scratch }

const mpt_kernel mpt_kernels_cpu[] = {
    ROW(linear, "linear_sgemm"),
    ROW(linear_dgrad, "linear_dgrad_sgemm"),
    ROW_SCRATCH(linear_wgrad, "linear_wgrad_sgemm"),
    ROW_SCRATCH(bias_grad, "bias_grad"),
    ROW(embedding, "embedding"),
    ROW(embedding_grad, "embedding_grad"),
    ROW(add, "add"),
    ROW(mul, "mul"),
    ROW(gelu, "gelu"),
    ROW(gelu_grad, "gelu_grad"),
    ROW(silu, "silu"),
    ROW(silu_grad, "silu_grad"),
    ROW(relu2, "relu2"),
    ROW(relu2_grad, "relu2_grad"),
    ROW(softplus, "softplus"),
    ROW(softplus_grad, "softplus_grad"),
    ROW(swiglu, "swiglu"),
    ROW(swiglu_grad, "swiglu_grad"),
    ROW(softmax, "softmax"),
    ROW(softmax_grad, "softmax_grad"),
    ROW(scale, "scale"),
    ROW(dropout, "dropout"),
    ROW_SCRATCH(rope, "rope"),
    ROW_SCRATCH(rope_grad, "rope_grad"),
    ROW(rmsnorm, "rmsnorm"),
    ROW_SCRATCH(rmsnorm_grad, "rmsnorm_grad"),
    ROW(layernorm, "layernorm"),
    ROW_SCRATCH(layernorm_grad, "layernorm_grad"),
    ROW(gated_rmsnorm, "gated_rmsnorm"),
    ROW_SCRATCH(gated_rmsnorm_grad, "gated_rmsnorm_grad"),
    ROW_SCRATCH(attention, "attention_tiled"),
    ROW_SCRATCH(attention_grad, "attention_grad_tiled"),
    ROW_SCRATCH(conv1d, "conv1d"),
    ROW_SCRATCH(conv1d_grad, "conv1d_grad"),
    {MPT_OP_ssm_scan, "cpu.ssm_scan_chunked", mpt_cpu_ssm_scan_chunked_can,
     mpt_cpu_ssm_scan_chunked, mpt_cpu_ssm_scan_chunked_scratch},
    ROW_SCRATCH(ssm_scan, "ssm_scan"),
    {MPT_OP_ssm_scan_grad, "cpu.ssm_scan_grad_chunked", mpt_cpu_ssm_scan_chunked_can,
     mpt_cpu_ssm_scan_grad_chunked, mpt_cpu_ssm_scan_grad_chunked_scratch},
    ROW_SCRATCH(ssm_scan_grad, "ssm_scan_grad"),
    ROW(split, "split"),
    ROW(concat, "concat"),
    ROW(moe_dispatch, "moe_dispatch"),
    ROW(moe_dispatch_grad, "moe_dispatch_grad"),
    ROW(moe_combine, "moe_combine"),
    ROW(moe_combine_grad, "moe_combine_grad"),
    ROW_SCRATCH(cross_entropy, "cross_entropy"),
    ROW(cross_entropy_grad, "cross_entropy_grad"),
    {MPT_OP_zero, "cpu.zero", NULL, mpt_cpu_zero, NULL},
    {MPT_OP_grad_reduce, "cpu.grad_reduce", NULL, mpt_cpu_grad_reduce, NULL},
    {MPT_OP_grad_norm, "cpu.grad_norm", NULL, mpt_cpu_grad_norm, mpt_cpu_grad_norm_scratch},
    {MPT_OP_adamw, "cpu.adamw", NULL, mpt_cpu_adamw, NULL},
    {MPT_OP_sgd, "cpu.sgd", NULL, mpt_cpu_sgd, NULL},
    {MPT_OP_quantize_state, "cpu.quantize_state", NULL, mpt_cpu_quantize_state, NULL},
    {MPT_OP_cast, "cpu.cast", NULL, mpt_cpu_cast, NULL},
    {MPT_OP_quantize, "cpu.quantize", NULL, mpt_cpu_quantize, mpt_cpu_quantize_scratch},
    {MPT_OP_record_amax, "cpu.record_amax", NULL, mpt_cpu_record_amax,
     mpt_cpu_record_amax_scratch},
    {0, NULL, NULL, NULL, NULL},
};
