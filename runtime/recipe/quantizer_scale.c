/* What a quantizer's scales aim at: numbers that the compiler (constants of products, updates
 * of delayed scales) and the kernels take from its fields alike. */
#include "kernels/numerics_scale.h"
#include "recipe/quantizer.h"

static float largest(const mpt_quantizer *q) {
    return mpt_effective_max(mpt_format_of(q->format).max, q->headroom);
}

float mpt_quantizer_bound(const mpt_quantizer *q) {
    return q->scale_rule.kind == MPT_RULE_FOUR_OVER_SIX && q->scale_rule.bound
               ? (float)q->scale_rule.bound
               : MPT_E4M3_MAX;
}

float mpt_quantizer_divisor(const mpt_quantizer *q) {
    return q->outer == MPT_OUTER_NONE ? 1.0f : mpt_quantizer_bound(q) * largest(q);
}

float mpt_quantizer_delayed_max(const mpt_quantizer *q) {
    return mpt_delayed_max(largest(q), q->scale.margin, q->scale.headroom);
}
