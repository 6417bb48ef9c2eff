/* The codes and values of one row of a strip, once its scales are known.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. Each loop is compiled for a rounding,
 * for a format where that is a common one, and for what it puts out: values, codes a byte each,
 * or E2M1's two a byte, which saves a row copy another pass. */
#ifndef MPT_KERNELS_CPU_STRIP_LINE_H
#define MPT_KERNELS_CPU_STRIP_LINE_H

#include "kernels/cpu/strip_counts.h"

typedef enum lane_output { LANE_VALUES, LANE_BYTES, LANE_NIBBLES } lane_output;

/* What a loop is compiled for. */
typedef struct lane_loop {
    lane_kind kind;
    bool by_lane; /* every element has a scale of its own */
    lane_output output;
} lane_loop;

/* The factors of four vectors of a line. Elements that share one come in sixteens at least. */
LANE void line_factors(const float *of, int64_t i, const mpt_quantize_line *line, bool by_lane,
                       vf out[4]) {
    EACH4(u) {
        if (by_lane)
            out[u] = v_load(of + i + u * LANES);
        else if (u * LANES % 16 == 0)
            out[u] = v_all(of[(i + u * LANES) >> line->shift]);
        else
            out[u] = out[u - 1];
    }
}

/* The line comes as a copy: stores to its outputs then leave it in registers. */
LANE void encode_loop(const mpt_quantize_plan *plan, mpt_quantize_line line, lane_loop loop) {
    lane_format f = v_format(plan, loop.kind.format);
    bool random = loop.kind.rounding == MPT_ROUNDING_STOCHASTIC;
    for (int64_t i = 0; i < line.n; i += 4 * LANES) {
        if (line.ahead)
            v_fetch4(line.ahead + i * line.ahead_size, line.ahead_size);
        vi code[4];
        vf y[4], encode[4], decode[4];
        line_factors(line.encode, i, &line, loop.by_lane, encode);
        if (loop.output == LANE_VALUES)
            line_factors(line.decode, i, &line, loop.by_lane, decode);
        EACH4(u) {
            int64_t j = i + u * LANES;
            y[u] = v_mul(v_load(line.v + j), encode[u]);
            vi high = v_set(0), low = v_set(0);
            if (random)
                high = v_load_bytes(line.high + j);
            if (random && line.low)
                low = v_load_bytes(line.low + j);
            if (loop.output == LANE_VALUES)
                v_store(line.value + j,
                        v_mul(v_value(f, loop.kind, y[u], high, low), decode[u]));
            else
                code[u] = v_code(f, loop.kind, y[u], high, low);
        }
        if (loop.output == LANE_BYTES && loop.kind.format == MPT_DTYPE_FP32 && line.code_high)
            v_store_pairs4(f, line.code + i, line.code_high + i, code, y);
        else if (loop.output == LANE_BYTES)
            v_store_codes4(f, line.code + i, code, y);
        if (loop.output == LANE_NIBBLES)
            v_store_nibbles4(line.packed + i / 2, code, y);
    }
}

#define ENCODE(FORMAT, ROUNDING, BY_LANE, OUTPUT)                                              \
    encode_loop(plan, *line,                                                                   \
                (lane_loop){{MPT_DTYPE_##FORMAT, MPT_ROUNDING_##ROUNDING}, BY_LANE, OUTPUT})

/* Of the formats, E2M1, E4M3 and E5M2 have loops of their own where they are rounded most. */
#define ENCODE_FUNCTION(name, BY_LANE, OUTPUT)                                                 \
    KERNEL static void name(const mpt_quantize_plan *plan, const mpt_quantize_line *line) {    \
        mpt_dtype format = plan->job->q->format;                                               \
        switch (plan->job->q->rounding) {                                                      \
        case MPT_ROUNDING_NEAREST:                                                             \
            if (format == MPT_DTYPE_E2M1)                                                      \
                ENCODE(E2M1, NEAREST, BY_LANE, OUTPUT);                                        \
            else if (format == MPT_DTYPE_E4M3)                                                 \
                ENCODE(E4M3, NEAREST, BY_LANE, OUTPUT);                                        \
            else if (format == MPT_DTYPE_E5M2)                                                 \
                ENCODE(E5M2, NEAREST, BY_LANE, OUTPUT);                                        \
            else                                                                               \
                ENCODE(FP32, NEAREST, BY_LANE, OUTPUT);                                        \
            break;                                                                             \
        case MPT_ROUNDING_STOCHASTIC:                                                          \
            if (format == MPT_DTYPE_E2M1)                                                      \
                ENCODE(E2M1, STOCHASTIC, BY_LANE, OUTPUT);                                     \
            else                                                                               \
                ENCODE(FP32, STOCHASTIC, BY_LANE, OUTPUT);                                     \
            break;                                                                             \
        case MPT_ROUNDING_TOWARD_ZERO:                                                         \
            ENCODE(FP32, TOWARD_ZERO, BY_LANE, OUTPUT);                                        \
            break;                                                                             \
        case MPT_ROUNDING_HALF_AWAY:                                                           \
            ENCODE(FP32, HALF_AWAY, BY_LANE, OUTPUT);                                          \
            break;                                                                             \
        }                                                                                      \
    }

ENCODE_FUNCTION(encode_codes, false, LANE_BYTES)
ENCODE_FUNCTION(encode_values, false, LANE_VALUES)
ENCODE_FUNCTION(encode_codes_by_lane, true, LANE_BYTES)
ENCODE_FUNCTION(encode_values_by_lane, true, LANE_VALUES)

/* E2M1, two codes a byte. */
KERNEL static void encode_nibbles(const mpt_quantize_plan *plan,
                                  const mpt_quantize_line *line) {
    switch (plan->job->q->rounding) {
    case MPT_ROUNDING_NEAREST:
        ENCODE(E2M1, NEAREST, false, LANE_NIBBLES);
        break;
    case MPT_ROUNDING_STOCHASTIC:
        ENCODE(E2M1, STOCHASTIC, false, LANE_NIBBLES);
        break;
    case MPT_ROUNDING_TOWARD_ZERO:
        ENCODE(E2M1, TOWARD_ZERO, false, LANE_NIBBLES);
        break;
    case MPT_ROUNDING_HALF_AWAY:
        ENCODE(E2M1, HALF_AWAY, false, LANE_NIBBLES);
        break;
    }
}

KERNEL static void careful_line(const mpt_quantize_plan *plan, const mpt_quantize_line *line) {
    mpt_quantize_careful_line(plan, line);
    for (int64_t i = 0; line->packed && i < line->n; i += 64)
        v_pack_nibbles(line->packed + i / 2, line->code + i);
}

KERNEL static void encode_line(const mpt_quantize_plan *plan, const mpt_quantize_line *line,
                               bool bad) {
    if (bad) {
        careful_line(plan, line);
        return;
    }
    if (line->packed)
        encode_nibbles(plan, line);
    else if (line->code)
        (line->shift ? encode_codes : encode_codes_by_lane)(plan, line);
    if (line->value)
        (line->shift ? encode_values : encode_values_by_lane)(plan, line);
    if (plan->counts)
        (line->shift ? count_line : count_line_by_lane)(plan, line);
}

#endif
