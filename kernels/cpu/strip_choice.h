/* Four Over Six: of two scales of a block the one with the smaller error.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. Ties and near ties are decided by the
 * order of float additions, which is that of ref_quantize_choice.c: along the dot product in
 * order, then over the rows of a block as a tree. So a lane is a block where blocks lie along
 * the rows, and a column where they go down; either way it adds its own sum in order. */
#ifndef MPT_KERNELS_CPU_STRIP_CHOICE_H
#define MPT_KERNELS_CPU_STRIP_CHOICE_H

#include "kernels/cpu/round_lanes.h"

enum { CHOICE_BLOCK = 16 }; /* elements along the dot product; rows of a square */

/* The scales of a row of blocks. */
typedef struct strip_scales {
    _Alignas(64) float encode[MPT_PANEL_COLS], decode[MPT_PANEL_COLS];
    _Alignas(64) uint32_t code[MPT_PANEL_COLS];
    int shift; /* elements that share one, as a power of two */
} strip_scales;

/* The row of blocks that is scaled: values, their rows in memory, and columns with padding. */
typedef struct choice_row {
    const float *v;
    int64_t ld, rows, width;
} choice_row;

/* Both scales of all its blocks, six first, and their errors. */
typedef struct choice {
    _Alignas(64) float encode[2][MPT_PANEL_COLS], decode[2][MPT_PANEL_COLS];
    _Alignas(64) float error[2][MPT_PANEL_COLS];
    _Alignas(64) uint32_t code[2][MPT_PANEL_COLS];
} choice;

KERNEL static void choice_scales(const mpt_quantize_plan *plan, const float *amax, int64_t n,
                                 choice *c) {
    for (int64_t b = 0; b < n; b += LANES) {
        vf base = v_mul(v_div(v_load(amax + b), v_all(6.0f)), v_all(plan->tensor.outer.encode));
        for (int i = 0; i < 2; i++) {
            lane_scale s = v_e4m3_of(plan, i ? v_mul(base, v_all(1.5f)) : base);
            v_store(c->encode[i] + b, s.encode);
            v_store(c->decode[i] + b, s.decode);
            v_store_bits(c->code[i] + b, s.code);
        }
    }
}

/* The error of x under a scale, as it is added. */
LANE vf choice_error(const mpt_quantize_plan *plan, vf encode, vf decode, vf x) {
    const lane_kind kind = {MPT_DTYPE_E2M1, MPT_ROUNDING_NEAREST};
    vf q = v_value(v_format(plan, MPT_DTYPE_E2M1), kind, v_mul(x, encode), v_set(0), v_set(0));
    vf decoded = v_mul(v_mul(q, decode), v_all(plan->tensor.amax));
    vf d = v_sub(v_div(decoded, v_all(6.0f * plan->tensor.bound)), x);
    return plan->job->q->scale_rule.error == MPT_ERROR_MSE ? v_mul(d, d) : v_abs(d);
}

/* Adds the rows' sums onto each other, the upper half onto the lower. */
LANE vf choice_fold(vf sum[CHOICE_BLOCK]) {
    for (int h = CHOICE_BLOCK / 2; h > 0; h /= 2)
        for (int i = 0; i < h; i++)
            sum[i] = v_add(sum[i], sum[i + h]);
    return sum[0];
}

/* Elements i of LANES blocks, or of those that there are, to row i of `to`. */
LANE void choice_turn(const float *v, int64_t blocks, float to[CHOICE_BLOCK][LANES]) {
    for (int64_t b = 0; b < LANES; b++)
        for (int i = 0; i < CHOICE_BLOCK; i++)
            to[i][b] = b < blocks ? v[b * CHOICE_BLOCK + i] : 0.0f;
}

/* Row copies: a lane is a block. */
KERNEL static void errors_along(const mpt_quantize_plan *plan, const choice_row *row,
                                choice *c) {
    int64_t n = row->width / CHOICE_BLOCK;
    for (int64_t b = 0; b < n; b += LANES) {
        _Alignas(64) float x[CHOICE_BLOCK][LANES];
        vf sum[2][CHOICE_BLOCK];
        for (int i = 0; i < CHOICE_BLOCK; i++)
            sum[0][i] = sum[1][i] = v_all(0.0f);
        for (int64_t r = 0; r < row->rows; r++) {
            choice_turn(row->v + r * row->ld + b * CHOICE_BLOCK, n - b, x);
            for (int s = 0; s < 2; s++) {
                vf encode = v_load(c->encode[s] + b), decode = v_load(c->decode[s] + b);
                vf one = v_all(0.0f);
                for (int i = 0; i < CHOICE_BLOCK; i++)
                    one = v_add(one, choice_error(plan, encode, decode, v_load(x[i])));
                sum[s][r] = one;
            }
        }
        for (int s = 0; s < 2; s++)
            v_store(c->error[s] + b,
                    plan->axis == MPT_AXIS_SQUARE ? choice_fold(sum[s]) : sum[s][0]);
    }
}

/* The errors of a square's columns become its own. */
static void fold_squares(float *error, int64_t n) {
    for (int64_t b = 0; b < n; b++) {
        float *column = error + b * CHOICE_BLOCK;
        for (int h = CHOICE_BLOCK / 2; h > 0; h /= 2)
            for (int i = 0; i < h; i++)
                column[i] += column[i + h];
        error[b] = column[0];
    }
}

/* Column copies: a lane is a column, and the dot product goes down. */
KERNEL static void errors_down(const mpt_quantize_plan *plan, const choice_row *row,
                               choice *c) {
    bool square = plan->axis == MPT_AXIS_SQUARE;
    for (int s = 0; s < 2; s++) {
        const float *encodes = c->encode[s], *decodes = c->decode[s];
        for (int64_t j = 0; j < row->width; j += LANES) {
            int64_t b = j / CHOICE_BLOCK;
            vf encode = square ? v_all(encodes[b]) : v_load(encodes + j);
            vf decode = square ? v_all(decodes[b]) : v_load(decodes + j), sum = v_all(0.0f);
            for (int64_t r = 0; r < row->rows; r++)
                sum = v_add(
                    sum, choice_error(plan, encode, decode, v_load(row->v + r * row->ld + j)));
            v_store(c->error[s] + j, sum);
        }
        if (square)
            fold_squares(c->error[s], row->width / CHOICE_BLOCK);
    }
}

/* Four's factor where its error is smaller, else six's. */
LANE vf chosen(vi six, vi four, float of[2][MPT_PANEL_COLS], int64_t b) {
    vi yes = v_bits(v_load(of[1] + b)), no = v_bits(v_load(of[0] + b));
    return v_float(v_if_more(six, four, yes, no));
}

/* The scales of n blocks with these largest magnitudes. Errors are not below 0, so that their
 * bits are in their order; none is NaN. */
KERNEL static void choose_scales(const mpt_quantize_plan *plan, const choice_row *row,
                                 const float *amax, int64_t n, strip_scales *out) {
    choice c;
    choice_scales(plan, amax, n, &c);
    if (plan->job->column)
        errors_down(plan, row, &c);
    else
        errors_along(plan, row, &c);
    for (int64_t b = 0; b < n; b += LANES) {
        vi six = v_bits(v_load(c.error[0] + b)), four = v_bits(v_load(c.error[1] + b));
        v_store_bits(out->code + b, v_if_more(six, four, v_load_bits(c.code[1] + b),
                                              v_load_bits(c.code[0] + b)));
        v_store(out->encode + b, chosen(six, four, c.encode, b));
        v_store(out->decode + b, chosen(six, four, c.decode, b));
    }
}

#endif
