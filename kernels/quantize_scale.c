/* Scales of the quantizers: which formula of numerics_scale.h a quantizer means.
 *
 * Between the largest magnitudes and the casts. Constants of a quantizer are worked out once a
 * job; a block then costs the few operations of its formula. Values that are not finite end
 * here: what a scale says of them is decided in this file alone (numerics contract 5). */
#include "kernels/quantize_job.h"

#include <string.h>

float mpt_quantizer_constant(const mpt_quantizer *q) {
    return 1.0f / mpt_quantizer_divisor(q);
}

/* ---- the tensor ---- */

void mpt_quantize_amax_merge(mpt_quantize_amax *a, mpt_quantize_amax b) {
    a->finite = b.finite > a->finite ? b.finite : a->finite;
    a->inf = a->inf || b.inf;
    a->nan = a->nan || b.nan;
}

bool mpt_quantize_needs_amax(const mpt_quantize_job *job) {
    bool one_scale =
        job->q->scale.kind != MPT_SCALING_NONE && mpt_quantizer_is_one_scale(job->q);
    bool row = job->q->outer == MPT_OUTER_ROW;
    if (job->whole)
        return false;
    return one_scale || job->q->outer == MPT_OUTER_TENSOR || (job->amax && !row) ||
           job->amax_history;
}

/* Transformer Engine's amax: NaN is not seen, Inf is. */
static float saturated_amax(mpt_quantize_amax seen) {
    return mpt_bits_float(seen.inf ? MPT_INF_BITS : seen.finite);
}

float mpt_quantize_block_amax(const mpt_tensor_scale *tensor, mpt_quantize_amax seen) {
    if (tensor->propagate && (seen.inf || seen.nan))
        return mpt_bits_float(MPT_NAN_BITS);
    return saturated_amax(seen);
}

static mpt_tensor_scale constants_of(const mpt_quantize_job *job) {
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
    return t;
}

/* The one scale of a tensor, before it is rounded. */
static float scale_of_tensor(const mpt_quantize_job *job, mpt_tensor_scale *t) {
    const mpt_scale_source *source = &job->q->scale;
    if (source->kind == MPT_SCALING_STATIC)
        return (float)source->value;
    if (source->kind == MPT_SCALING_DELAYED && job->scale && *job->scale != 0.0f)
        return *job->scale;
    t->capped = t->amax != 0.0f && t->max / t->amax > MPT_FLT_MAX;
    return mpt_current_scale(t->max, t->amax);
}

mpt_tensor_scale mpt_quantize_tensor_scale(const mpt_quantize_job *job,
                                           mpt_quantize_amax seen) {
    const mpt_quantizer *q = job->q;
    mpt_tensor_scale t = constants_of(job);
    if (job->whole)
        seen = *job->whole;
    t.seen = seen;
    t.amax = t.propagate ? mpt_bits_float(seen.finite) : saturated_amax(seen);
    t.scale = t.decode = 1.0f;
    if (q->scale.kind != MPT_SCALING_NONE && mpt_quantizer_is_one_scale(q)) {
        t.scale = mpt_decodable_scale(scale_of_tensor(job, &t));
        if (q->scale_format == MPT_SCALE_POW2)
            t.scale = mpt_pow2_below(t.scale);
        /* Elements that cannot say NaN leave it to the scale that they share. */
        if (t.propagate && !mpt_has_nan(q->format) && (seen.inf || seen.nan))
            t.scale = t.amax = mpt_bits_float(MPT_NAN_BITS);
        t.decode = 1.0f / t.scale;
    }
    float outer_amax = q->outer == MPT_OUTER_TENSOR ? t.amax : 0.0f;
    t.outer = mpt_outer_scale_of(t.max, t.bound, outer_amax);
    if (q->outer == MPT_OUTER_TENSOR)
        t.capped = t.amax != 0.0f && t.bound * t.max / t.amax > MPT_FLT_MAX;
    return t;
}

mpt_tensor_scale mpt_quantize_row_scale(const mpt_tensor_scale *tensor,
                                        mpt_quantize_amax seen) {
    mpt_tensor_scale t = *tensor;
    t.amax = t.propagate ? mpt_bits_float(seen.finite) : saturated_amax(seen);
    t.outer = mpt_outer_scale_of(t.max, t.bound, t.amax);
    t.capped = t.amax != 0.0f && t.bound * t.max / t.amax > MPT_FLT_MAX;
    return t;
}

/* The history sees what the values held: with "propagate" NaN too, which stays. Bits of
 * magnitudes are in the order of the magnitudes, NaN last. */
static void raise_history(float *history, const mpt_tensor_scale *t) {
    uint32_t bits = mpt_float_bits(saturated_amax(t->seen));
    if (t->propagate && t->seen.nan)
        bits = MPT_NAN_BITS;
    if (bits > mpt_abs_bits(*history))
        *history = mpt_bits_float(bits);
}

void mpt_quantize_put_tensor(const mpt_quantize_job *job, const mpt_tensor_scale *tensor) {
    const mpt_quantizer *q = job->q;
    if (job->amax_history)
        raise_history(job->amax_history, tensor);
    if (job->scales && q->scale.kind != MPT_SCALING_NONE && mpt_quantizer_is_one_scale(q))
        *(float *)job->scales = tensor->decode;
    if (q->outer == MPT_OUTER_ROW)
        return;
    if (job->amax)
        *job->amax = tensor->amax;
    if (job->factor)
        *job->factor = q->outer == MPT_OUTER_TENSOR ? tensor->amax : tensor->decode;
}

/* ---- blocks ---- */

mpt_block_factors mpt_quantize_block_of_code(const mpt_quantizer *q,
                                             const mpt_tensor_scale *tensor, uint32_t code) {
    mpt_block_factors f = {0};
    f.code = code;
    f.decode = mpt_decode(MPT_DTYPE_E4M3, code);
    f.encode = mpt_block_encode(f.decode, &tensor->outer);
    f.restore = q->outer == MPT_OUTER_NONE
                    ? f.decode
                    : mpt_outer_restore(f.decode, tensor->amax, tensor->constant);
    return f;
}

static uint32_t e8m0_code(const mpt_quantizer *q, const mpt_tensor_scale *tensor, float amax) {
    float room = tensor->headroom == 1.0f ? amax : amax / tensor->headroom;
    switch (q->scale_rule.kind) {
    case MPT_RULE_FLOOR:
        return mpt_e8m0_floor(&tensor->format, room);
    case MPT_RULE_CEIL:
        return mpt_e8m0_ceil(&tensor->format, room);
    case MPT_RULE_EVEN:
        return mpt_e8m0_even(&tensor->format, room);
    default:
        return mpt_e8m0_up(tensor->max, amax);
    }
}

static mpt_block_factors fp32_block(const mpt_quantizer *q, const mpt_tensor_scale *tensor,
                                    float amax) {
    mpt_block_factors f = {0};
    if (amax == amax) {
        f.capped = amax != 0.0f && tensor->max / amax > MPT_FLT_MAX;
        f.encode = mpt_decodable_scale(mpt_capped_scale(tensor->max, amax, tensor->cap));
    } else {
        f.encode = mpt_bits_float(MPT_NAN_BITS);
    }
    if (q->scale_format == MPT_SCALE_POW2)
        f.encode = mpt_pow2_below(f.encode);
    f.decode = f.restore = 1.0f / f.encode;
    return f;
}

mpt_block_factors mpt_quantize_block_scale(const mpt_quantizer *q,
                                           const mpt_tensor_scale *tensor, float amax) {
    if (q->scale_format == MPT_SCALE_E4M3)
        return mpt_quantize_block_of_code(q, tensor, mpt_block_scale(amax, &tensor->outer));
    if (q->scale_format != MPT_SCALE_E8M0)
        return fp32_block(q, tensor, amax);
    mpt_block_factors f = {0};
    f.code = e8m0_code(q, tensor, amax);
    f.encode = mpt_e8m0_reciprocal(f.code);
    f.decode = f.restore = mpt_decode_e8m0(f.code);
    return f;
}
