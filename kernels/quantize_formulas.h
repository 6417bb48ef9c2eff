/* From a quantizer's fields to numbers: which formula of numerics_scale.h each of them means.
 *
 * Between the largest magnitudes and the casts: the scale of a tensor, of a row, of a block;
 * the code of a value; what is counted of it. Values that are not finite end here: what a scale
 * says of them is decided in this file alone (numerics contract 5). Constants of a quantizer
 * are worked out once a job (mpt_quantize_constants); a block then costs the few operations of
 * its formula. As all of numerics.h for C, C++ and device code. */
#ifndef MPT_KERNELS_QUANTIZE_FORMULAS_H
#define MPT_KERNELS_QUANTIZE_FORMULAS_H

#include "kernels/numerics.h"
#include "recipe/quantizer.h"

/* ---- the rotation ---- */

/* The signs of a rotation as a mask: fixed ones, none, or those drawn under the quantizer's own
 * seed or else the key's. `scope` is 0 or the hash of a layer's path. */
MPT_NUMERIC void mpt_hadamard_signs(const mpt_hadamard *hadamard, const mpt_random_key *key,
                                    uint32_t scope, uint32_t signs[4]) {
    uint64_t seed = hadamard->seed < 0 ? key->seed : (uint64_t)hadamard->seed;
    uint32_t step = hadamard->redraw == MPT_REDRAW_STEP ? key->step : 0;
    for (int i = 0; i < 4; i++)
        signs[i] = 0;
    if (hadamard->signs == MPT_SIGNS_RANDOM)
        mpt_random_signs(seed, scope, step, signs);
    else if (hadamard->signs == MPT_SIGNS_FIXED)
        mpt_fixed_signs(signs);
}

/* The stream of one copy's elements, `groups` groups a micro-batch. What is quantized once
 * a step is of micro-batch 0. */
MPT_NUMERIC mpt_random_key mpt_quantize_key(uint64_t seed, uint32_t step, uint32_t operand,
                                            uint64_t micro_batch, int64_t groups) {
    mpt_random_key key = {seed, operand, step, micro_batch * (uint64_t)groups};
    return key;
}

/* ---- the largest magnitudes ---- */

/* The largest magnitudes among values. */
typedef struct mpt_quantize_amax {
    uint32_t finite; /* bits of the largest finite magnitude */
    bool inf, nan;   /* whether there is such a value */
} mpt_quantize_amax;

MPT_NUMERIC void mpt_quantize_amax_see(mpt_quantize_amax *a, float x) {
    uint32_t bits = mpt_abs_bits(x);
    if (bits < MPT_INF_BITS) {
        a->finite = bits > a->finite ? bits : a->finite;
        return;
    }
    a->inf = a->inf || bits == MPT_INF_BITS;
    a->nan = a->nan || bits > MPT_INF_BITS;
}

MPT_NUMERIC void mpt_quantize_amax_merge(mpt_quantize_amax *a, mpt_quantize_amax b) {
    a->finite = b.finite > a->finite ? b.finite : a->finite;
    a->inf = a->inf || b.inf;
    a->nan = a->nan || b.nan;
}

/* Transformer Engine's amax: NaN is not seen, Inf is. */
MPT_NUMERIC float mpt_quantize_saturated_amax(mpt_quantize_amax seen) {
    return mpt_bits_float(seen.inf ? MPT_INF_BITS : seen.finite);
}

/* The amax that a tensor or a row is scaled by: with "propagate" of its finite values. Largest
 * of parts is that of the whole, as numbers and as bits. */
MPT_NUMERIC float mpt_quantize_own_amax(bool propagate, mpt_quantize_amax seen) {
    return propagate ? mpt_bits_float(seen.finite) : mpt_quantize_saturated_amax(seen);
}

/* The amax of a block as its quantizer takes it: NaN or Inf where that is to be seen. Bits of
 * the largest of parts, NaN above all, are those of the whole. */
MPT_NUMERIC float mpt_quantize_block_amax(bool propagate, mpt_quantize_amax seen) {
    if (propagate && (seen.inf || seen.nan))
        return mpt_bits_float(MPT_NAN_BITS);
    return mpt_quantize_saturated_amax(seen);
}

/* ---- the tensor ---- */

/* What holds for every block of a job: constants of its quantizer, and the tensor's scale. */
typedef struct mpt_tensor_scale {
    mpt_format format;
    float max;      /* the largest element with the headroom in it */
    float bound;    /* largest block scale under an outer one */
    float constant; /* mpt_quantizer_constant */
    float cap;      /* FP32 scales of blocks that would be Inf */
    float headroom; /* for the E8M0 rules that look at the amax alone */
    bool propagate; /* nonfinite = "propagate" */
    bool one;       /* one FP32 scale for the whole tensor */
    mpt_quantize_amax seen;
    float amax;            /* as it is put out and decoded by; Inf or NaN where that shows it */
    mpt_outer_scale outer; /* where blocks have E4M3 scales */
    float scale;           /* where there is one FP32 scale for all, or none: then 1 */
    float decode;          /* its reciprocal */
    bool capped;           /* the scale of the tensor would have been Inf */
} mpt_tensor_scale;

/* The one scale of a tensor, before it is rounded. `delayed` is that of earlier steps, 0 where
 * there is none yet. */
MPT_NUMERIC float mpt_quantize_one_scale(const mpt_quantizer *q, float delayed,
                                         mpt_tensor_scale *t) {
    if (q->scale.kind == MPT_SCALING_STATIC)
        return (float)q->scale.value;
    if (q->scale.kind == MPT_SCALING_DELAYED && delayed != 0.0f)
        return delayed;
    t->capped = t->amax != 0.0f && t->max / t->amax > MPT_FLT_MAX;
    return mpt_current_scale(t->max, t->amax);
}

/* The second level of a tensor or row whose amax is known. */
MPT_NUMERIC void mpt_quantize_outer(mpt_tensor_scale *t) {
    t->outer = mpt_outer_scale_of(t->max, t->bound, t->amax);
    t->capped = t->amax != 0.0f && t->bound * t->max / t->amax > MPT_FLT_MAX;
}

/* Fills in what the values decide, in a `t` that has its constants. */
MPT_NUMERIC void mpt_quantize_settle(const mpt_quantizer *q, float delayed,
                                     mpt_quantize_amax seen, mpt_tensor_scale *t) {
    t->seen = seen;
    t->amax = mpt_quantize_own_amax(t->propagate, seen);
    t->scale = t->decode = 1.0f;
    t->capped = false;
    if (t->one) {
        t->scale = mpt_decodable_scale(mpt_quantize_one_scale(q, delayed, t));
        if (q->scale_format == MPT_SCALE_POW2)
            t->scale = mpt_pow2_below(t->scale);
        /* Elements that cannot say NaN leave it to the scale that they share. */
        if (t->propagate && !mpt_has_nan(q->format) && (seen.inf || seen.nan))
            t->scale = t->amax = mpt_bits_float(MPT_NAN_BITS);
        t->decode = 1.0f / t->scale;
    }
    if (q->outer == MPT_OUTER_TENSOR)
        mpt_quantize_outer(t);
    else
        t->outer = mpt_outer_scale_of(t->max, t->bound, 0.0f);
}

/* The same for a row whose amax is its own: outer = "row". */
MPT_NUMERIC mpt_tensor_scale mpt_quantize_row_scale(const mpt_tensor_scale *tensor,
                                                    float amax) {
    mpt_tensor_scale t = *tensor;
    t.amax = amax;
    mpt_quantize_outer(&t);
    return t;
}

/* The factor output of a tensor; with outer = "row" each row's is its amax. */
MPT_NUMERIC float mpt_quantize_factor(const mpt_quantizer *q, const mpt_tensor_scale *t) {
    return q->outer == MPT_OUTER_TENSOR ? t->amax : t->decode;
}

/* The first entry of an amax history after a tensor. It sees what the values held: with
 * "propagate" NaN too, which stays. Bits of magnitudes are in the order of the magnitudes, NaN
 * last. */
MPT_NUMERIC float mpt_quantize_raised(float history, const mpt_tensor_scale *t) {
    uint32_t bits = mpt_float_bits(mpt_quantize_saturated_amax(t->seen));
    if (t->propagate && t->seen.nan)
        bits = MPT_NAN_BITS;
    return bits > mpt_abs_bits(history) ? mpt_bits_float(bits) : history;
}

/* What counts say that a whole tensor was multiplied by; 0 where only its blocks or rows have
 * scales. `one`: it has one scale; `constant` is mpt_quantizer_constant. */
MPT_NUMERIC float mpt_quantize_counted_scale(const mpt_quantizer *q, bool one, float constant,
                                             float delayed, float factor) {
    if (q->scale.kind == MPT_SCALING_STATIC)
        return (float)q->scale.value;
    if (q->scale.kind == MPT_SCALING_NONE)
        return 0.0f;
    if (delayed != 0.0f)
        return delayed;
    if (one)
        return 1.0f / factor;
    if (q->outer != MPT_OUTER_TENSOR)
        return 0.0f;
    return factor == 0.0f ? 1.0f : 1.0f / (factor * constant);
}

/* ---- blocks ---- */

/* What a block multiplies by: values before the cast, codes for `decoded`, and codes for what
 * they stand for. */
typedef struct mpt_block_factors {
    uint32_t code; /* where scales are bytes; FP32 scales are `decode` */
    float encode, decode, restore;
    bool capped; /* it would have been Inf */
} mpt_block_factors;

/* Of a block whose scale is the E4M3 code. */
MPT_NUMERIC mpt_block_factors mpt_quantize_block_of_code(const mpt_quantizer *q,
                                                         const mpt_tensor_scale *tensor,
                                                         uint32_t code) {
    mpt_block_factors f = {0, 0.0f, 0.0f, 0.0f, false};
    f.code = code;
    f.decode = mpt_decode(MPT_DTYPE_E4M3, code);
    f.encode = mpt_block_encode(f.decode, &tensor->outer);
    f.restore = q->outer == MPT_OUTER_NONE
                    ? f.decode
                    : mpt_outer_restore(f.decode, tensor->amax, tensor->constant);
    return f;
}

MPT_NUMERIC uint32_t mpt_quantize_e8m0(const mpt_quantizer *q, const mpt_tensor_scale *tensor,
                                       float amax) {
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

MPT_NUMERIC mpt_block_factors mpt_quantize_fp32_block(const mpt_quantizer *q,
                                                      const mpt_tensor_scale *tensor,
                                                      float amax) {
    mpt_block_factors f = {0, 0.0f, 0.0f, 0.0f, false};
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

MPT_NUMERIC mpt_block_factors mpt_quantize_e8m0_block(const mpt_quantizer *q,
                                                      const mpt_tensor_scale *tensor,
                                                      float amax) {
    mpt_block_factors f = {0, 0.0f, 0.0f, 0.0f, false};
    f.code = mpt_quantize_e8m0(q, tensor, amax);
    f.encode = mpt_e8m0_reciprocal(f.code);
    f.decode = f.restore = mpt_decode_e8m0(f.code);
    return f;
}

/* Of a block with that amax; NaN makes every part NaN. Four Over Six is another matter. */
MPT_NUMERIC mpt_block_factors mpt_quantize_block_scale(const mpt_quantizer *q,
                                                       const mpt_tensor_scale *tensor,
                                                       float amax) {
    if (q->scale_format == MPT_SCALE_E4M3)
        return mpt_quantize_block_of_code(q, tensor, mpt_block_scale(amax, &tensor->outer));
    return q->scale_format == MPT_SCALE_E8M0 ? mpt_quantize_e8m0_block(q, tensor, amax)
                                             : mpt_quantize_fp32_block(q, tensor, amax);
}

/* ---- elements ---- */

/* The code of a scaled value by the quantizer's rounding. `f` is that of its format, `bits`
 * sixteen random ones. */
MPT_NUMERIC uint32_t mpt_quantize_code(const mpt_quantizer *q, const mpt_format *f, float y,
                                       uint32_t bits) {
    switch (q->rounding) {
    case MPT_ROUNDING_STOCHASTIC:
        return mpt_encode_stochastic(q->format, y, bits);
    case MPT_ROUNDING_TOWARD_ZERO:
        return mpt_encode_as(q->format, f, y, MPT_ROUND_ZERO);
    case MPT_ROUNDING_HALF_AWAY:
        return mpt_encode_as(q->format, f, y, MPT_ROUND_AWAY);
    default:
        return mpt_encode_as(q->format, f, y, MPT_ROUND_EVEN);
    }
}

/* The same with x, whose value under the scale is y, kept visible where it is not finite and
 * `visible`: there is one scale for the tensor, or none, and it propagates. */
MPT_NUMERIC uint32_t mpt_quantize_code_of(const mpt_quantizer *q, const mpt_format *f,
                                          bool visible, float x, float y, uint32_t bits) {
    uint32_t code = mpt_quantize_code(q, f, y, bits);
    return visible ? mpt_code_visible(q->format, x, code) : code;
}

/* What one element adds to the error of a block under a scale that Four Over Six may choose. */
MPT_NUMERIC float mpt_quantize_choice_error(const mpt_quantizer *q,
                                            const mpt_tensor_scale *tensor,
                                            const mpt_block_factors *f, float x) {
    uint32_t code = mpt_encode_as(q->format, &tensor->format, x * f->encode, MPT_ROUND_EVEN);
    float d = mpt_four_over_six_error(mpt_decode(q->format, code), f->decode, tensor->amax,
                                      tensor->bound, x);
    return q->scale_rule.error == MPT_ERROR_MSE ? d * d : mpt_bits_float(mpt_abs_bits(d));
}

/* 16 random bits an element of a group: FP4 and FP6 take the high bytes alone. */
MPT_NUMERIC void mpt_quantize_draw(const mpt_random_key *key, mpt_dtype format, uint64_t group,
                                   uint32_t bits[MPT_RANDOM_GROUP]) {
    uint8_t high[MPT_RANDOM_GROUP], low[MPT_RANDOM_GROUP] = {0};
    mpt_random_bytes(key, group, 0, high);
    if (!mpt_takes_one_byte(format))
        mpt_random_bytes(key, group, MPT_RANDOM_LOW, low);
    for (int i = 0; i < MPT_RANDOM_GROUP; i++)
        bits[i] = (uint32_t)high[i] << 8 | low[i];
}

/* ---- counts ---- */

/* What happened to the values of one copy. Sums run over the values as they are quantized
 * (after a rotation) that are finite, in pieces that do not depend on the threads. */
typedef struct mpt_quantize_counts {
    uint64_t elements;
    uint64_t overflow;  /* finite values that were cut to the largest: mpt_overflows */
    uint64_t underflow; /* values other than 0 whose code is zero */
    uint64_t zeros;     /* codes that are zero */
    uint64_t nonfinite; /* NaN and Inf among the values */
    uint64_t capped;    /* scales that would have been Inf */
    float amax;         /* largest finite magnitude */
    double signal;      /* sum of x^2 */
    double noise;       /* sum of (x - dequantized)^2 */
    float scale; /* that the whole tensor is multiplied by, of the last copy; 0: none. A node
                    sets it, no job */
} mpt_quantize_counts;

/* Adds b to a: of tensors, or of steps. */
MPT_NUMERIC void mpt_quantize_counts_add(mpt_quantize_counts *a, const mpt_quantize_counts *b) {
    a->elements += b->elements;
    a->overflow += b->overflow;
    a->underflow += b->underflow;
    a->zeros += b->zeros;
    a->nonfinite += b->nonfinite;
    a->capped += b->capped;
    a->amax = b->amax > a->amax ? b->amax : a->amax;
    a->signal += b->signal;
    a->noise += b->noise;
}

/* Adds one value to the counts: x became y under its scale, which was rounded to `value`, a
 * number of format f; that times `restore` is what its code stands for. */
MPT_NUMERIC void mpt_quantize_count(mpt_quantize_counts *c, const mpt_format *f, float x,
                                    float y, float value, float restore) {
    c->elements++;
    c->zeros += value == 0.0f;
    if (!mpt_is_finite(x)) {
        c->nonfinite++;
        return;
    }
    float magnitude = mpt_bits_float(mpt_abs_bits(x));
    c->underflow += x != 0.0f && value == 0.0f;
    c->overflow += mpt_overflows(f, y) != 0;
    c->amax = magnitude > c->amax ? magnitude : c->amax;
    float restored = value * restore;
    if (restored != restored)
        return; /* a scale that is NaN says all there is to say */
    double error = (double)x - (double)restored;
    c->signal += (double)x * (double)x;
    c->noise += error * error;
}

#endif
