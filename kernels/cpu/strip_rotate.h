/* Hadamard rotations of a strip, down its columns or along its rows.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. */
#ifndef MPT_KERNELS_CPU_STRIP_ROTATE_H
#define MPT_KERNELS_CPU_STRIP_ROTATE_H

#include "kernels/cpu/strip_load.h"

/* The last step: what is quantized, or, unfinished, what its order can be told by. */
LANE vf rotated(const mpt_quantize_plan *plan, vf x, bool finish) {
    if (!finish)
        return x;
    x = v_mul(x, v_all(mpt_hadamard_factor(plan->job->q->hadamard.size)));
    return mpt_quantize_is_bf16(plan->job) ? v_round_bf16(x) : x;
}

/* Sixteen rows: butterflies of width 1, 2 ... `last`. */
LANE void butterflies16(vf v[16], int last) {
    UNROLL
    for (int h = 1; h <= last; h *= 2) {
        UNROLL
        for (int i = 0; i < 16; i++)
            if (!(i & h)) {
                vf a = v[i], b = v[i + h];
                v[i] = v_add(a, b);
                v[i + h] = v_sub(a, b);
            }
    }
}

LANE void rotate16(const mpt_quantize_plan *plan, const strip *t, int64_t r, float *to,
                   int last, bool finish) {
    const uint32_t *signs = plan->signs + r;
    for (int64_t j = 0; j < t->width; j += LANES) {
        vf v[16];
        UNROLL
        for (int i = 0; i < 16; i++)
            v[i] = v_float(v_xor(v_bits(v_load(t->v + (r + i) * t->ld + j)), v_set(signs[i])));
        butterflies16(v, last);
        UNROLL
        for (int i = 0; i < 16; i++)
            v_store(to + (r + i) * MPT_PANEL_COLS + j, rotated(plan, v[i], finish));
    }
}

/* Butterflies between rows that are sixteen or more apart, in place. */
KERNEL static void rotate_far(const mpt_quantize_plan *plan, const strip *t, float *to,
                              bool finish) {
    int n = plan->job->q->hadamard.size;
    for (int h = 16; h < n; h *= 2)
        for (int64_t i = 0; i < t->rows; i++) {
            if (i & h)
                continue;
            float *up = to + i * MPT_PANEL_COLS, *down = up + h * MPT_PANEL_COLS;
            bool done = finish && 2 * h == n;
            for (int64_t j = 0; j < t->width; j += LANES) {
                vf a = v_load(up + j), b = v_load(down + j);
                v_store(up + j, rotated(plan, v_add(a, b), done));
                v_store(down + j, rotated(plan, v_sub(a, b), done));
            }
        }
}

/* Down the columns. */
KERNEL static void rotate_down(const mpt_quantize_plan *plan, const strip *t, float *to,
                               bool finish) {
    int n = plan->job->q->hadamard.size;
    for (int64_t r = 0; r < t->rows; r += 16) {
        if (n == 16 && finish)
            rotate16(plan, t, r, to, 8, true);
        else if (n >= 16)
            rotate16(plan, t, r, to, 8, false);
        else if (n == 8)
            rotate16(plan, t, r, to, 4, finish);
        else if (n == 4)
            rotate16(plan, t, r, to, 2, finish);
        else
            rotate16(plan, t, r, to, 1, finish);
    }
    if (n > 16)
        rotate_far(plan, t, to, finish);
}

LANE vf butterfly_within(vf x, int n) {
    if (n > 1)
        x = v_butterfly(x, 1);
    if (n > 2)
        x = v_butterfly(x, 2);
    if (LANES > 4 && n > 4)
        x = v_butterfly(x, 4);
    if (LANES > 8 && n > 8)
        x = v_butterfly(x, 8);
    return x;
}

/* Along the row: within vectors first, then between them. */
KERNEL static void rotate_along(const mpt_quantize_plan *plan, const strip *t, float *to,
                                bool finish) {
    int n = plan->job->q->hadamard.size;
    for (int64_t r = 0; r < t->rows; r++) {
        float *row = to + r * MPT_PANEL_COLS;
        for (int64_t j = 0; j < t->width; j += LANES) {
            vi signs = v_load_bits(plan->signs + j % MPT_HADAMARD_MAX);
            vf x = v_float(v_xor(v_bits(v_load(t->v + r * t->ld + j)), signs));
            v_store(row + j, rotated(plan, butterfly_within(x, n), finish && n <= LANES));
        }
        for (int h = LANES; h < n; h *= 2)
            for (int64_t j = 0; j < t->width; j += LANES) {
                if (j & h)
                    continue;
                vf a = v_load(row + j), b = v_load(row + j + h);
                v_store(row + j, rotated(plan, v_add(a, b), finish && 2 * h == n));
                v_store(row + j + h, rotated(plan, v_sub(a, b), finish && 2 * h == n));
            }
    }
}

/* The strip's values become rotated ones, in `to`. */
KERNEL static void strip_rotate(const mpt_quantize_plan *plan, strip *t, float *to,
                                bool finish) {
    if (plan->job->column)
        rotate_down(plan, t, to, finish);
    else
        rotate_along(plan, t, to, finish);
    t->v = to;
    t->ld = MPT_PANEL_COLS;
}

#endif
