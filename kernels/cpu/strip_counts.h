/* What happened to the values of a line: its counts, and the sums of squares of both the values
 * and the errors.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. A line that is counted is in the first
 * cache; its values are rounded once more here, so that a job may ask for its counts alone.
 * Lines with values that are not finite are counted in quantize_careful.c. */
#ifndef MPT_KERNELS_CPU_STRIP_COUNTS_H
#define MPT_KERNELS_CPU_STRIP_COUNTS_H

#include "kernels/cpu/round_lanes.h"

/* The scale or its reciprocal for LANES elements from i on. */
LANE vf line_factor(const float *of, int64_t i, const mpt_quantize_line *line, bool by_lane) {
    return by_lane ? v_load(of + i) : v_all(of[i >> line->shift]);
}

/* Counts of one line, lane by lane. */
typedef struct lane_counts {
    vi nonzero, kept; /* values other than zero; those whose code is neither */
    vi over, most;
    vd signal[2], noise[2];
} lane_counts;

/* Magnitudes with larger bits overflow: those past the middle between the largest value and
 * what would come next. The middle itself goes to the even code. */
static uint32_t overflow_limit(const mpt_format *f) {
    uint32_t middle = mpt_float_bits(f->max) + (1u << (22 - f->mantissa_bits));
    return middle - (f->max_code & 1u);
}

/* x became y under its scale, and that became `value`. */
LANE void count_lanes(lane_counts *c, vf x, vf y, vf value, vi limit) {
    vi one = v_set(1), a = v_bits(v_abs(x));
    c->most = v_larger(c->most, a);
    c->nonzero = v_plus(c->nonzero, v_smaller(a, one));
    c->kept = v_plus(c->kept, v_smaller(v_bits(v_abs(value)), one));
    c->over = v_plus(c->over, v_down(v_minus(limit, v_bits(v_abs(y))), 31));
}

LANE void square_lanes(lane_counts *c, vf x, vf restored) {
    vd low = v_lower(x), high = v_upper(x);
    c->signal[0] = v_add_square(c->signal[0], low);
    c->signal[1] = v_add_square(c->signal[1], high);
    c->noise[0] = v_add_square(c->noise[0], v_less(low, v_lower(restored)));
    c->noise[1] = v_add_square(c->noise[1], v_less(high, v_upper(restored)));
}

LANE uint64_t sum_of_lanes(vi x) {
    uint32_t lane[LANES];
    uint64_t sum = 0;
    v_store_bits(lane, x);
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

LANE double sum_of_doubles(const vd x[2]) {
    double lane[LANES], sum = 0;
    v_store_sum(lane, x[0]);
    v_store_sum(lane + LANES / 2, x[1]);
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* Padding is zero throughout, so of the counts it is only in those of all elements. */
LANE void add_lanes(mpt_quantize_counts *to, const lane_counts *c, int64_t n) {
    uint64_t kept = sum_of_lanes(c->kept);
    uint32_t lane[LANES];
    to->elements += (uint64_t)n;
    to->zeros += (uint64_t)n - kept;
    to->underflow += sum_of_lanes(c->nonzero) - kept;
    to->overflow += sum_of_lanes(c->over);
    to->signal += sum_of_doubles(c->signal);
    to->noise += sum_of_doubles(c->noise);
    v_store_bits(lane, c->most);
    for (int i = 0; i < LANES; i++)
        to->amax = lane[i] > mpt_float_bits(to->amax) ? mpt_bits_float(lane[i]) : to->amax;
}

/* The line comes as a copy, as to encode_loop. */
LANE void count_loop(const mpt_quantize_plan *plan, mpt_quantize_line line, lane_kind kind,
                     bool by_lane) {
    lane_format f = v_format(plan, kind.format);
    bool random = kind.rounding == MPT_ROUNDING_STOCHASTIC;
    vi zero = v_set(0), limit = v_set(overflow_limit(&plan->tensor.format));
    vf amax = v_all(plan->restore[0]), constant = v_all(plan->restore[1]);
    lane_counts c = {
        zero, zero, zero, zero, {v_no_sum(), v_no_sum()}, {v_no_sum(), v_no_sum()}};
    for (int64_t i = 0; i < line.n; i += LANES) {
        vf x = v_load(line.v + i), y = v_mul(x, line_factor(line.encode, i, &line, by_lane));
        vf decode = line_factor(line.decode, i, &line, by_lane);
        vi high = random ? v_load_bytes(line.high + i) : zero;
        vi low = random && line.low ? v_load_bytes(line.low + i) : zero;
        vf value = v_value(f, kind, y, high, low);
        count_lanes(&c, x, y, value, limit);
        square_lanes(&c, x, v_mul(value, v_mul(v_mul(decode, amax), constant)));
    }
    add_lanes(plan->counts, &c, line.cols);
}

#define COUNT(FORMAT, ROUNDING, BY_LANE)                                                       \
    count_loop(plan, *line, (lane_kind){MPT_DTYPE_##FORMAT, MPT_ROUNDING_##ROUNDING}, BY_LANE)

/* As ENCODE_FUNCTION of strip_line.h, with loops of fewer kinds. */
#define COUNT_FUNCTION(name, BY_LANE)                                                          \
    KERNEL static void name(const mpt_quantize_plan *plan, const mpt_quantize_line *line) {    \
        mpt_dtype format = plan->job->q->format;                                               \
        mpt_rounding rounding = plan->job->q->rounding;                                        \
        if (rounding == MPT_ROUNDING_STOCHASTIC)                                               \
            COUNT(FP32, STOCHASTIC, BY_LANE);                                                  \
        else if (rounding == MPT_ROUNDING_TOWARD_ZERO)                                         \
            COUNT(FP32, TOWARD_ZERO, BY_LANE);                                                 \
        else if (rounding == MPT_ROUNDING_HALF_AWAY)                                           \
            COUNT(FP32, HALF_AWAY, BY_LANE);                                                   \
        else if (format == MPT_DTYPE_E2M1)                                                     \
            COUNT(E2M1, NEAREST, BY_LANE);                                                     \
        else if (format == MPT_DTYPE_E4M3)                                                     \
            COUNT(E4M3, NEAREST, BY_LANE);                                                     \
        else                                                                                   \
            COUNT(FP32, NEAREST, BY_LANE);                                                     \
    }

COUNT_FUNCTION(count_line, false)
COUNT_FUNCTION(count_line_by_lane, true)

#endif
