/* The values of a strip on their way to codes: load, rotate, largest magnitudes, scales.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. */
#ifndef MPT_KERNELS_CPU_STRIP_VALUES_H
#define MPT_KERNELS_CPU_STRIP_VALUES_H

#include <string.h>

#include "kernels/cpu/strip_choice.h"

enum { STRIP_UNIT = 128 }; /* columns are padded with zeros to a multiple: of every block */

/* Values of a few rows, at most strip_most_cols() columns of them. */
typedef struct strip {
    const float *v;
    int64_t ld;
    const float *ahead; /* of the strip that comes next, in x, to be fetched; or NULL */
    int64_t row, col;   /* in the matrix */
    int64_t rows, cols;
    int64_t width; /* cols padded; as many may be read from v, and rows in sixteens where some
                      are worked on together */
} strip;

/* Whether strips are walked row by row only, so that wide ones are read where they lie. */
static bool strip_in_order(const mpt_quantize_plan *plan) {
    return plan->strip == 1 || (!plan->job->column && !plan->job->q->hadamard.size &&
                                plan->job->x && plan->strip <= 32);
}

/* Columns that are worked on together: wide strips fill a buffer as well as high ones. */
static int64_t strip_most_cols(const mpt_quantize_plan *plan) {
    if (!strip_in_order(plan))
        return MPT_PANEL_COLS;
    int64_t cols = MPT_PANEL_ROWS * MPT_PANEL_COLS / plan->strip;
    return cols < MPT_LINE_COLS ? cols : MPT_LINE_COLS;
}

/* ---- load ---- */

KERNEL static void load_row(const mpt_quantize_job *job, int64_t at, int64_t n, int64_t width,
                            float *to) {
    if (job->x_bf16) {
        const uint16_t *from = job->x_bf16 + at;
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            v_store(to + i, v_float(v_up(v_load_halves(from + i), 16)));
        for (; i < n; i++)
            to[i] = mpt_bits_float((uint32_t)from[i] << 16);
    } else {
        memcpy(to, job->x + at, (size_t)n * sizeof *to);
    }
    if (n < width)
        memset(to + n, 0, (size_t)(width - n) * sizeof *to);
}

/* Gives the strip its values. They are read where they are if they are floats, whole, and
 * looked at only once, or in the order of memory: rows that are a power of two apart throw each
 * other out of the cache. Else, and where `copy` says so, from `buffer`. */
KERNEL static void strip_load(const mpt_quantize_plan *plan, strip *t, float *buffer,
                              bool copy) {
    const mpt_quantize_job *job = plan->job;
    int64_t rows = job->rows - t->row, cols = job->cols - t->col;
    int64_t whole = job->column ? (t->rows + 15) / 16 * 16 : t->rows;
    t->width = (t->cols + STRIP_UNIT - 1) / STRIP_UNIT * STRIP_UNIT;
    bool in_order = strip_in_order(plan) || plan->job->q->hadamard.size;
    if (!copy && in_order && job->x && cols >= t->width && rows >= whole) {
        t->v = job->x + t->row * job->cols + t->col;
        t->ld = job->cols;
        return;
    }
    t->v = buffer;
    t->ld = copy ? MPT_PANEL_COLS : strip_most_cols(plan);
    rows = rows < t->rows ? rows : t->rows;
    cols = cols < t->width ? cols : t->width;
    for (int64_t i = 0; i < whole; i++) {
        int64_t n = i < rows && cols > 0 ? cols : 0;
        load_row(job, (t->row + i) * job->cols + t->col, n, t->width, buffer + i * t->ld);
    }
}

/* ---- rotate ---- */

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

KERNEL static mpt_quantize_amax strip_amax(const strip *t) {
    vi m[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->width; j += 4 * LANES)
            EACH4(u)
    m[u] = v_larger(m[u], v_bits(v_abs(v_load(t->v + i * t->ld + j + u * LANES))));
    uint32_t lane[LANES], most = 0;
    v_store_bits(lane, v_larger(v_larger(m[0], m[1]), v_larger(m[2], m[3])));
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    if (most >= MPT_INF_BITS)
        return mpt_quantize_careful_amax(t->v, t->ld, t->rows, t->width);
    return (mpt_quantize_amax){most, false, false};
}

/* Of the values that are quantized. The rotation's factor and the rounding keep order, so they
 * wait until the largest is known, unless it is near the end of float32's range. */
KERNEL static mpt_quantize_amax strip_rotated_amax(const mpt_quantize_plan *plan,
                                                   const strip *t, float *buffer) {
    strip work = *t;
    if (!plan->job->q->hadamard.size)
        return strip_amax(t);
    strip_rotate(plan, &work, buffer, false);
    mpt_quantize_amax most = strip_amax(&work);
    if (most.inf || most.nan || most.finite >= mpt_float_bits(0x1p126f)) {
        work = *t;
        strip_rotate(plan, &work, buffer, true);
        return strip_amax(&work);
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
