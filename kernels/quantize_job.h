/* Between the backends' quantizers: the shape of a job, and the node's way to jobs. */
#ifndef MPT_KERNELS_QUANTIZE_JOB_H
#define MPT_KERNELS_QUANTIZE_JOB_H

#include "kernels/quantize.h"

/* A job as its quantized orientation sees it: `rows` times `k`, blocks and groups along k. */
typedef struct mpt_quantize_shape {
    int64_t rows, k;              /* k padded for the rotation */
    int64_t k_in;                 /* elements along k that x has */
    int64_t row_stride, k_stride; /* of x */
    int64_t block_rows, block_k;
    bool one_scale; /* one for the whole tensor */
    int64_t groups; /* of random bits, a row */
} mpt_quantize_shape;

mpt_quantize_shape mpt_quantize_shape_of(const mpt_quantize_job *job);

/* Runs the row and the column job of a quantize node. */
void mpt_quantize_node(const mpt_kernel_args *args, void (*run)(const mpt_quantize_job *job));

/* The larger of what the two jobs need. */
size_t mpt_quantize_node_scratch(const mpt_graph *graph, const mpt_node *node,
                                 size_t (*scratch)(const mpt_quantize_job *job));

/* The steps of the definition over a range of rows of the quantized orientation. A backend
 * that runs them range by range, in any order, gives the same bytes. */
void mpt_quantize_rotate_rows(const mpt_quantize_job *job, int64_t first, int64_t last);

/* The largest finite magnitude, as bits. Where one scale holds the whole tensor and the
 * elements cannot be NaN, a value that is not finite counts too, and makes that scale NaN. */
uint32_t mpt_quantize_amax_rows(const mpt_quantize_job *job, int64_t first, int64_t last);

/* What is known of a tensor once its amax is. */
typedef struct mpt_tensor_scale {
    float amax;
    mpt_outer_scale outer; /* where blocks have E4M3 scales */
    float scale;           /* where there is one FP32 scale for all, or none: then 1 */
} mpt_tensor_scale;

mpt_tensor_scale mpt_quantize_tensor_scale(const mpt_quantize_job *job, float amax);

/* The amax and factor outputs, and the scale where there is one for all. */
void mpt_quantize_put_tensor(const mpt_quantize_job *job, const mpt_tensor_scale *tensor);

/* Codes, scales and decoded values of whole rows of blocks. */
void mpt_quantize_block_rows(const mpt_quantize_job *job, const mpt_tensor_scale *tensor,
                             int64_t first, int64_t last);

#endif
