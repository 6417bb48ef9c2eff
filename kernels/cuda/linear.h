/* How a linear node is made on tensor cores: what is done to its operands before the library's
 * product and to the result after it, and the kernels that do it.
 *
 * An operand goes to the library as it lies, or as its codes turned round, or rewritten in
 * scratch: `repack` makes codes and scales along the dot product out of such as lie across it,
 * or in E4M3 out of narrower ones; `decode` makes wide numbers. The result goes straight to the
 * output where alpha can carry the factors and the library writes the output's format; else the
 * sums are left in scratch, in FP32, and `finish` makes the output of them. */
#ifndef MPT_KERNELS_CUDA_LINEAR_H
#define MPT_KERNELS_CUDA_LINEAR_H

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/operand.h"
#include "recipe/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A linear node with its shapes, before a run without data: a tensor that is there has a
 * pointer that is not NULL. */
typedef struct linear_view {
    mpt_op op;
    mpt_target target;
    const mpt_attrs *attrs;
    mpt_tensor in[6], out;
} linear_view;

typedef enum linear_take { LINEAR_AS_IT_LIES, LINEAR_REPACKED, LINEAR_DECODED } linear_take;

typedef struct linear_side {
    gpu_operand from;
    linear_take take;
    bool scaled_after;   /* scales of rows multiply the result */
    mpt_packed repacked; /* where it is */
    mpt_gemm_side to;    /* data is an offset in scratch where it is rewritten */
    size_t at;           /* that offset */
} linear_side;

typedef struct linear_plan {
    mpt_way way;
    linear_side side[2];
    mpt_gpu_gemm gemm;
    bool on_device; /* alpha is made of factors on the device, at the start of scratch */
    bool apart;     /* the sums are in scratch */
    size_t sums;    /* where */
    size_t bytes;   /* of scratch */
} linear_plan;

/* False where the node has to be made without tensor cores; `why` says for what reason. */
bool mpt_linear_plan(const linear_view *view, linear_plan *out, char why[MPT_TARGET_WHY]);

/* decode.cu. Each element of `from` as a number of `format`, stored in the same order; the
 * scales of rows left out where they multiply the result. */
void mpt_cuda_decode(const mpt_gpu *gpu, const gpu_operand *from, mpt_dtype format, void *to);

/* Codes [outer, k] in the format of to->q, and their scales: `to` is no column copy. */
void mpt_cuda_repack(const mpt_gpu *gpu, const gpu_operand *from, const mpt_packed *to,
                     void *data);

/* scalars[0] = first * second * alpha, scalars[1] = beta. A product beyond the largest number
 * becomes that, so that sums of 0 stay 0. */
void mpt_cuda_alpha(const mpt_kernel_args *args, float beta, float *scalars);

/* What comes after sums [rows, cols]: scales of rows (NULL: none), factors, alpha, bias, what
 * is there already. */
typedef struct linear_finish {
    const float *sums;
    int64_t rows, cols;
    const float *row_scales, *col_scales;
    bool add;
} linear_finish;
void mpt_cuda_finish(const mpt_kernel_args *args, const linear_finish *finish);

#ifdef __cplusplus
}
#endif

#endif
