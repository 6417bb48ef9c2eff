/* What both backends need to know of a quantizer: its padding, its scratch, the shape of a job.
 * The numbers are in ref/ref_quantize.c; how a graph node becomes jobs in quantize_node.c. */
#include "kernels/quantize_job.h"

int64_t mpt_quantizer_extent(const mpt_quantizer *q, int64_t k) {
    int64_t n = q->hadamard.size;
    return n ? (k + n - 1) / n * n : k;
}

size_t mpt_quantize_scratch(const mpt_quantize_job *job) {
    if (job->q->hadamard.size == 0)
        return 0;
    mpt_quantize_shape s = mpt_quantize_shape_of(job);
    return (size_t)s.rows * (size_t)s.k * sizeof(float);
}

mpt_quantize_shape mpt_quantize_shape_of(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    mpt_quantize_shape s;
    s.rows = job->column ? job->cols : job->rows;
    s.k_in = job->column ? job->rows : job->cols;
    s.k = mpt_quantizer_extent(q, s.k_in);
    s.row_stride = job->column ? 1 : job->cols;
    s.k_stride = job->column ? job->cols : 1;
    s.block_rows = q->block_rows ? q->block_rows : s.rows;
    s.block_k = q->block_cols ? q->block_cols : s.k;
    s.one_scale =
        q->scale.kind == MPT_SCALING_NONE ||
        (q->block_rows == 0 && q->block_cols == 0 && q->scale_format == MPT_SCALE_FP32);
    s.groups = (s.k + MPT_RANDOM_GROUP - 1) / MPT_RANDOM_GROUP;
    return s;
}
