/* The scale of a job's tensor: the constants of its quantizer, once a job, and the outputs that
 * hold one number a tensor. The formulas are in quantize_formulas.h. */
#include "kernels/quantize_job.h"

#include <string.h>

float mpt_quantizer_constant(const mpt_quantizer *q) {
    return 1.0f / mpt_quantizer_divisor(q);
}

/* ---- the tensor ---- */

bool mpt_quantize_needs_amax(const mpt_quantize_job *job) {
    bool one_scale =
        job->q->scale.kind != MPT_SCALING_NONE && mpt_quantizer_is_one_scale(job->q);
    bool row = job->q->outer == MPT_OUTER_ROW;
    if (job->whole)
        return false;
    return one_scale || job->q->outer == MPT_OUTER_TENSOR || (job->amax && !row) ||
           job->amax_history;
}

mpt_tensor_scale mpt_quantize_constants(const mpt_quantize_job *job) {
    const mpt_quantizer *q = job->q;
    mpt_tensor_scale t;
    memset(&t, 0, sizeof t);
    t.format = mpt_format_of(q->format);
    t.max = mpt_effective_max(t.format.max, q->headroom);
    t.bound = mpt_quantizer_bound(q);
    t.constant = mpt_quantizer_constant(q);
    t.cap = job->fp16                   ? mpt_format_of(MPT_DTYPE_FP16).max
            : mpt_quantize_is_bf16(job) ? mpt_format_of(MPT_DTYPE_BF16).max
                                        : MPT_FLT_MAX;
    t.headroom = q->headroom == 0.0 ? 1.0f : (float)q->headroom;
    t.propagate = q->nonfinite == MPT_NONFINITE_PROPAGATE;
    t.one = q->scale.kind != MPT_SCALING_NONE && mpt_quantizer_is_one_scale(q);
    return t;
}

mpt_tensor_scale mpt_quantize_tensor_scale(const mpt_quantize_job *job,
                                           mpt_quantize_amax seen) {
    mpt_tensor_scale t = mpt_quantize_constants(job);
    mpt_quantize_settle(job->q, job->scale ? *job->scale : 0.0f,
                        job->whole ? *job->whole : seen, &t);
    return t;
}

void mpt_quantize_put_tensor(const mpt_quantize_job *job, const mpt_tensor_scale *tensor) {
    if (job->amax_history)
        *job->amax_history = mpt_quantize_raised(*job->amax_history, tensor);
    if (job->scales && tensor->one)
        *(float *)job->scales = tensor->decode;
    if (job->q->outer == MPT_OUTER_ROW)
        return;
    if (job->amax)
        *job->amax = tensor->amax;
    if (job->factor)
        *job->factor = mpt_quantize_factor(job->q, tensor);
}
