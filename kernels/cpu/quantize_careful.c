/* Strips that hold NaN or Inf, value by value as the definition has them.
 *
 * The kernels find such strips by the largest magnitude and come here instead of going on in
 * vectors. Rotation, random bytes and what happens to codes are the same for both. */
#include "kernels/cpu/quantize.h"

mpt_quantize_amax mpt_quantize_careful_amax(const float *v, int64_t ld, int64_t rows,
                                            int64_t cols) {
    mpt_quantize_amax seen = {0, false, false};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            mpt_quantize_amax_see(&seen, v[i * ld + j]);
    return seen;
}

mpt_block_factors mpt_quantize_careful_scale(const mpt_quantize_plan *plan, const float *v,
                                             int64_t ld, int64_t rows, int64_t cols) {
    mpt_quantize_amax seen = mpt_quantize_careful_amax(v, ld, rows, cols);
    float amax = mpt_quantize_block_amax(plan->tensor.propagate, seen);
    if (plan->job->q->scale_rule.kind != MPT_RULE_FOUR_OVER_SIX)
        return mpt_quantize_block_scale(plan->job->q, &plan->tensor, amax);
    bool column = plan->job->column;
    mpt_quantize_shape s = {.block_rows = plan->job->q->block_rows,
                            .row_stride = column ? 1 : ld,
                            .k_stride = column ? ld : 1};
    mpt_quantize_area all = {0, column ? cols : rows, 0, column ? rows : cols};
    mpt_quantize_job block = {.q = plan->job->q, .x = v};
    return mpt_quantize_block_of_code(
        plan->job->q, &plan->tensor,
        mpt_quantize_four_over_six(&block, &s, &plan->tensor, all, amax));
}

void mpt_quantize_careful_line(const mpt_quantize_plan *plan, const mpt_quantize_line *line) {
    const mpt_quantizer *q = plan->job->q;
    bool visible = plan->axis == MPT_AXIS_ONE && plan->tensor.propagate;
    for (int64_t i = 0; i < line->n; i++) {
        float x = line->v[i];
        uint32_t bits =
            line->high ? (uint32_t)line->high[i] << 8 | (line->low ? line->low[i] : 0u) : 0u;
        float y = x * line->encode[i >> line->shift];
        uint32_t code = mpt_quantize_code(q, &plan->tensor.format, y, bits);
        if (visible)
            code = mpt_code_visible(q->format, x, code);
        float value = mpt_decode(q->format, code), decode = line->decode[i >> line->shift];
        if (line->code)
            line->code[i] = (uint8_t)code;
        if (line->code_high)
            line->code_high[i] = (uint8_t)(code >> 8);
        if (line->value)
            line->value[i] = value * decode;
        if (plan->counts && i < line->cols)
            mpt_quantize_count(plan->counts, &plan->tensor.format, x, y, value,
                               decode * plan->restore[0] * plan->restore[1]);
    }
}
