/* Largest magnitudes, scales and codes of a row in one loop.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. What is quantized most needs nothing
 * but codes, and takes as long as memory: a loop that looks for magnitudes alone would let
 * memory rest. Whether all values are finite shows only at the end; if they are not, the row is
 * done again the longer way, which writes the same places. */
#ifndef MPT_KERNELS_CPU_STRIP_AT_ONCE_H
#define MPT_KERNELS_CPU_STRIP_AT_ONCE_H

#include "kernels/cpu/strip_line.h"
#include "kernels/cpu/strip_values.h"

/* Whether rows of `width` values can be: codes only, scales that follow from a block alone. */
static bool takes_at_once(const mpt_quantize_plan *plan, int64_t width) {
    const mpt_quantize_job *job = plan->job;
    const mpt_quantizer *q = job->q;
    if (job->column || !job->codes || job->decoded || job->stands_for || plan->counts ||
        q->hadamard.size || q->rounding != MPT_ROUNDING_NEAREST ||
        q->scale_rule.kind == MPT_RULE_FOUR_OVER_SIX)
        return false;
    if (plan->axis == MPT_AXIS_ONE)
        return q->format == MPT_DTYPE_E4M3 || q->format == MPT_DTYPE_E5M2;
    return plan->axis == MPT_AXIS_ROW && width % (LANES * plan->block) == 0 &&
           ((q->format == MPT_DTYPE_E2M1 && plan->block <= 32) ||
            (q->format == MPT_DTYPE_E4M3 && plan->block == 32));
}

/* The scales of LANES blocks from value `at` on; the largest magnitudes. */
LANE vi scales_at(const mpt_quantize_plan *plan, const float *v, int64_t at, int64_t block,
                  strip_scales *s) {
    vi m[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++)
        m[i] = lanes_max(v + at + i * block, block);
    vi most = v_max_of_each(m);
    lane_scale scale = v_scale(plan, v_float(most));
    v_store(s->encode + at / block, scale.encode);
    v_store(s->decode + at / block, scale.decode);
    v_store_bits(s->code + at / block, scale.code);
    return most;
}

/* n values of the line from `at` on. */
LANE mpt_quantize_line part_of(mpt_quantize_line line, int64_t at, int64_t n,
                               lane_output output) {
    line.v += at;
    line.encode += at >> line.shift;
    line.n = n;
    if (output == LANE_NIBBLES)
        line.packed += at / 2;
    else
        line.code += at;
    if (line.ahead)
        line.ahead += at * line.ahead_size;
    return line;
}

/* Blocks along the row. The scales of some are made before the codes of those in front of them,
 * which hide how long a scale takes. */
LANE vi blocks_loop(const mpt_quantize_plan *plan, mpt_quantize_line line, strip_scales *s,
                    int64_t block, lane_loop loop) {
    const int64_t step = LANES * block;
    vi most = scales_at(plan, line.v, 0, block, s);
    for (int64_t at = 0; at < line.n; at += step) {
        if (at + step < line.n)
            most = v_larger(most, scales_at(plan, line.v, at + step, block, s));
        encode_loop(plan, part_of(line, at, step, loop.output), loop);
    }
    return most;
}

/* One scale for all. */
LANE vi one_loop(const mpt_quantize_plan *plan, mpt_quantize_line line, lane_loop loop) {
    vi most = v_set(0);
    for (int64_t at = 0; at < line.n; at += 4 * LANES) {
        most = v_larger(most, lanes_max(line.v + at, 4 * LANES));
        encode_loop(plan, part_of(line, at, 4 * LANES, loop.output), loop);
    }
    return most;
}

/* The codes of a row that takes_at_once(), and its scales in `s`; the largest magnitude's bits,
 * or what is above all finite ones. */
KERNEL static uint32_t encode_at_once(const mpt_quantize_plan *plan,
                                      const mpt_quantize_line *line, strip_scales *s) {
    const lane_loop e4m3 = {{MPT_DTYPE_E4M3, MPT_ROUNDING_NEAREST}, false, LANE_BYTES};
    const lane_loop e5m2 = {{MPT_DTYPE_E5M2, MPT_ROUNDING_NEAREST}, false, LANE_BYTES};
    const lane_loop e2m1 = {{MPT_DTYPE_E2M1, MPT_ROUNDING_NEAREST}, false, LANE_NIBBLES};
    vi m;
    if (plan->axis == MPT_AXIS_ONE && plan->job->q->format == MPT_DTYPE_E4M3)
        m = one_loop(plan, *line, e4m3);
    else if (plan->axis == MPT_AXIS_ONE)
        m = one_loop(plan, *line, e5m2);
    else if (plan->job->q->format == MPT_DTYPE_E4M3)
        m = blocks_loop(plan, *line, s, 32, e4m3);
    else if (plan->block == 32)
        m = blocks_loop(plan, *line, s, 32, e2m1);
    else
        m = blocks_loop(plan, *line, s, 16, e2m1);
    return largest_lane(m);
}

#endif
