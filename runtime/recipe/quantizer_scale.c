/* What a quantizer's scales aim at: the numbers that both the compiler (constants of products,
 * updates of delayed scales) and the kernels take from its fields. */
#include "kernels/numerics_cast.h"
#include "recipe/quantizer.h"

float mpt_quantizer_largest(const mpt_quantizer *q) {
    float max = mpt_format_of(q->format).max;
    return q->headroom > 0 ? max * (float)q->headroom : max;
}

float mpt_quantizer_divisor(const mpt_quantizer *q) {
    float bound = 448.0f;
    if (q->outer == MPT_OUTER_NONE)
        return 1.0f;
    if (q->scale_rule.kind == MPT_RULE_FOUR_OVER_SIX)
        bound = q->scale_rule.bound == 448 ? 448.0f : 256.0f;
    return bound * mpt_quantizer_largest(q);
}

float mpt_quantizer_delayed_largest(const mpt_quantizer *q) {
    float largest = mpt_quantizer_largest(q);
    for (int32_t i = 0; i < q->scale.margin; i++)
        largest *= 0.5f;
    for (int32_t i = 0; i > q->scale.margin; i--)
        largest *= 2.0f;
    return q->scale.headroom > 0 ? largest / (float)q->scale.headroom : largest;
}
