/* What the values of a strip are on their way to codes: largest magnitudes, then scales.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. */
#ifndef MPT_KERNELS_CPU_STRIP_VALUES_H
#define MPT_KERNELS_CPU_STRIP_VALUES_H

#include "kernels/cpu/strip_choice.h"
#include "kernels/cpu/strip_rotate.h"

/* ---- largest magnitudes ---- */

/* Of each column over some rows from r on. NaN and Inf are above all others, as their bits. */
KERNEL static void column_max(const strip *t, int64_t r, int64_t rows, float *most) {
    const float *v = t->v + r * t->ld;
    for (int64_t j = 0; j < t->width; j += 4 * LANES) {
        vi m[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
        for (int64_t i = 0; i < rows; i++)
            EACH4(u)
        m[u] = v_larger(m[u], v_bits(v_abs(v_load(v + i * t->ld + j + u * LANES))));
        EACH4(u)
        v_store(most + j + u * LANES, v_float(m[u]));
    }
}

/* Of `block` neighbours, lane by lane. */
LANE vi lanes_max(const float *v, int64_t block) {
    vi m = v_bits(v_abs(v_load(v)));
    UNROLL_WHERE_KNOWN
    for (int64_t j = LANES; j < block; j += LANES)
        m = v_larger(m, v_bits(v_abs(v_load(v + j))));
    return m;
}

/* Of each `block` neighbours of n values; most has room for whole vectors. */
LANE void neighbour_max(const float *v, int64_t n, int64_t block, float *most) {
    int64_t at = 0;
    vi m[LANES];
    for (; at + LANES * block <= n; at += LANES * block) {
        UNROLL
        for (int i = 0; i < LANES; i++)
            m[i] = lanes_max(v + at + i * block, block);
        v_store(most + at / block, v_float(v_max_of_each(m)));
    }
    if (at == n)
        return;
    for (int i = 0; i < LANES; i++)
        m[i] = at + i * block < n ? lanes_max(v + at + i * block, block) : v_set(0);
    v_store(most + at / block, v_float(v_max_of_each(m)));
}

KERNEL static void blocks_max(const float *v, int64_t n, int64_t block, float *most) {
    if (block == 16)
        neighbour_max(v, n, 16, most);
    else if (block == 32)
        neighbour_max(v, n, 32, most);
    else
        neighbour_max(v, n, block, most);
}

/* Of squares of `block` over some rows from r on, which are read one after the other. */
LANE void square_max_of(const strip *t, int64_t r, int64_t rows, int64_t block, float *most) {
    _Alignas(64) float sofar[MPT_LINE_COLS]; /* a vector each block */
    int64_t n = t->width / block;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t b = 0; b < n; b++) {
            const float *v = t->v + (r + i) * t->ld + b * block;
            vi m = lanes_max(v, block);
            if (i)
                m = v_larger(m, v_bits(v_load(sofar + b * LANES)));
            v_store(sofar + b * LANES, v_float(m));
        }
    for (int64_t b = 0; b < n; b += LANES) {
        vi m[LANES];
        UNROLL
        for (int i = 0; i < LANES; i++)
            m[i] = b + i < n ? v_bits(v_load(sofar + (b + i) * LANES)) : v_set(0);
        v_store(most + b, v_float(v_max_of_each(m)));
    }
}

KERNEL static void square_max(const strip *t, int64_t r, int64_t rows, int64_t block,
                              float *most) {
    if (block == 16)
        square_max_of(t, r, rows, 16, most);
    else if (block == 32)
        square_max_of(t, r, rows, 32, most);
    else
        square_max_of(t, r, rows, block, most);
}

KERNEL static bool is_finite(const float *most, int64_t n) {
    vi m = v_set(0);
    for (int64_t i = 0; i < n; i += LANES)
        m = v_larger(m, v_bits(v_load(most + i)));
    return !v_any_more(m, v_set(MPT_INF_BITS - 1));
}

LANE uint32_t largest_lane(vi x) {
    uint32_t lane[LANES], most = 0;
    v_store_bits(lane, x);
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

/* `ahead` is the input of the next strip, where it shall be fetched. */
KERNEL static mpt_quantize_amax strip_amax(const strip *t, const char *ahead) {
    vi m[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->width; j += 4 * LANES) {
            if (ahead)
                v_fetch4(ahead + i * t->ahead_ld + j * t->ahead_size, t->ahead_size);
            EACH4(u)
            m[u] = v_larger(m[u], v_bits(v_abs(v_load(t->v + i * t->ld + j + u * LANES))));
        }
    uint32_t most = largest_lane(v_larger(v_larger(m[0], m[1]), v_larger(m[2], m[3])));
    if (most >= MPT_INF_BITS)
        return mpt_quantize_careful_amax(t->v, t->ld, t->rows, t->width);
    return (mpt_quantize_amax){most, false, false};
}

/* Of the values that are quantized. The rotation's factor and the rounding keep order, so they
 * wait until the largest is known, unless it is near the end of float32's range. */
KERNEL static mpt_quantize_amax strip_rotated_amax(const mpt_quantize_plan *plan,
                                                   const strip *t, float *buffer) {
    strip work = *t;
    strip_rotate(plan, &work, buffer, false);
    mpt_quantize_amax most = strip_amax(&work, t->ahead);
    if (most.inf || most.nan || most.finite >= mpt_float_bits(0x1p126f)) {
        work = *t;
        strip_rotate(plan, &work, buffer, true);
        return strip_amax(&work, NULL);
    }
    float x = mpt_bits_float(most.finite) * mpt_hadamard_factor(plan->job->q->hadamard.size);
    if (mpt_quantize_is_bf16(plan->job))
        x = mpt_round(MPT_DTYPE_BF16, x);
    most.finite = mpt_float_bits(x);
    return most;
}

/* ---- scales ---- */

static int log2_of(int n) {
    int k = 0;
    for (; n > 1; n /= 2)
        k++;
    return k;
}

/* The scales of n blocks value by value; a block is rows x cols, the first at v. */
static void careful_scales(const mpt_quantize_plan *plan, const strip *t, int64_t r,
                           int64_t rows, int64_t cols, strip_scales *s) {
    for (int64_t b = 0; b * cols < t->width; b++) {
        const float *v = t->v + r * t->ld + b * cols;
        mpt_block_factors f = mpt_quantize_careful_scale(plan, v, t->ld, rows, cols);
        s->encode[b] = f.encode;
        s->decode[b] = f.decode;
        s->code[b] = f.code;
        if (plan->counts)
            plan->counts->capped += f.capped;
    }
}

/* How many FP32 scales would have been Inf; those of padding, whose amax is 0, are not. */
KERNEL static uint64_t v_capped(const mpt_quantize_plan *plan, const float *amax, int64_t n) {
    uint32_t lane[LANES];
    uint64_t sum = 0;
    vi capped = v_set(0);
    for (int64_t b = 0; b < n; b += LANES) {
        vf a = v_load(amax + b);
        vi some = v_smaller(v_bits(a), v_set(1));
        vi e = v_bits(v_div(v_all(plan->tensor.max), a));
        capped = v_plus(capped, v_if_more(e, v_set(MPT_INF_BITS - 1), some, v_set(0)));
    }
    v_store_bits(lane, capped);
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

/* The scales of the row of blocks that starts at row r. Says whether one of its values is not
 * finite. */
KERNEL static bool strip_scale(const mpt_quantize_plan *plan, const strip *t, int64_t r,
                               strip_scales *s) {
    _Alignas(64) float most[MPT_PANEL_COLS];
    int64_t rows = plan->axis == MPT_AXIS_ROW ? 1 : plan->block;
    int64_t across = plan->axis == MPT_AXIS_COLUMN ? 1 : plan->block, n = t->width / across;
    rows = rows < t->rows - r ? rows : t->rows - r;
    if (plan->axis == MPT_AXIS_ROW) {
        blocks_max(t->v + r * t->ld, t->width, across, most);
    } else if (plan->axis == MPT_AXIS_COLUMN) {
        column_max(t, r, rows, most);
    } else {
        square_max(t, r, rows, across, most);
    }
    s->shift = log2_of((int)across);
    bool choose = plan->job->q->scale_rule.kind == MPT_RULE_FOUR_OVER_SIX;
    if (!is_finite(most, n) || (choose && !mpt_is_finite(plan->tensor.amax))) {
        careful_scales(plan, t, r, rows, across, s);
        return true;
    }
    if (plan->counts && plan->job->q->scale_format <= MPT_SCALE_POW2)
        plan->counts->capped += v_capped(plan, most, n);
    if (choose) {
        choice_row row = {t->v + r * t->ld, t->ld, rows, t->width};
        choose_scales(plan, &row, most, n, s);
        return false;
    }
    for (int64_t b = 0; b < n; b += LANES) {
        lane_scale scale = v_scale(plan, v_load(most + b));
        v_store(s->encode + b, scale.encode);
        v_store(s->decode + b, scale.decode);
        v_store_bits(s->code + b, scale.code);
    }
    return false;
}

#endif
