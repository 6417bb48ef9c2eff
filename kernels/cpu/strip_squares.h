/* Row copies in square blocks, whose scales are made before their codes; and the order in which
 * lines of a panel are read.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. A square is many rows high, and that
 * many rows side by side come slowly from memory. So all lines are read twice: for the largest
 * magnitudes of the blocks, which wait in the scratch of the job, and, when those have become
 * scales, for codes and values. Where the scale of the tensor asks for a pass over the whole
 * matrix anyway, that is the first of the two; else both go over a piece that stays in a
 * cache. A piece that holds NaN or Inf goes the way of other strips. */
#ifndef MPT_KERNELS_CPU_STRIP_SQUARES_H
#define MPT_KERNELS_CPU_STRIP_SQUARES_H

#include "kernels/cpu/strip_copy.h"

/* ---- lines ---- */

/* A line is part of one row: a page of floats, so that what is fetched ahead is the next page,
 * which a processor does not look for by itself. Two lines of distant rows are read in turn:
 * memory then answers more requests at a time, and with more than two no longer. */
enum { LINE_COLS = 1024, LINE_BANDS = 2 };

/* Values of a piece that both passes go over: the last cache holds one a thread. */
enum { PIECE_VALUES = 1 << 20 };

/* The same plan in strips of one row. */
static mpt_quantize_plan by_lines(const mpt_quantize_plan *plan) {
    mpt_quantize_plan lines = *plan;
    lines.strip = 1;
    return lines;
}

/* Rows of a panel are read in bands of so many, one line of each in turn. */
static int64_t band_rows(const mpt_panel *panel) {
    return (panel->rows + LINE_BANDS - 1) / LINE_BANDS;
}

/* The line at `c` and `r` from a panel's corner, its values in place or else in `buffer`. What
 * lies one line on in memory is fetched meanwhile, be it of this row, of the next one, or of
 * the piece beside the panel. */
KERNEL static strip line_at(const mpt_quantize_plan *lines, const mpt_panel *panel, int64_t c,
                            int64_t r, float *buffer) {
    const mpt_quantize_job *job = lines->job;
    strip t = {.row = panel->row + r, .col = panel->col + c, .rows = 1};
    t.cols = least(LINE_COLS, panel->cols - c);
    t.ahead_size = job->x ? (int64_t)sizeof *job->x : (int64_t)sizeof *job->x_bf16;
    int64_t next = t.row * job->cols + t.col + LINE_COLS;
    const char *x = job->x ? (const void *)job->x : (const void *)job->x_bf16;
    if (next + LINE_COLS <= job->rows * job->cols)
        t.ahead = x + next * t.ahead_size;
    strip_load(lines, &t, buffer, false);
    return t;
}

/* ---- the largest magnitudes ---- */

/* Of the blocks of a square job, as they are kept: those of (row, col) of memory on. */
static float *kept_at(const mpt_quantize_plan *plan, float *kept, int64_t row, int64_t col) {
    return kept + row / plan->block * plan->squares_ld + col / plan->block;
}

/* Blocks that some columns are, padding included. */
static int64_t blocks_of(const mpt_quantize_plan *plan, int64_t cols) {
    return (cols + STRIP_UNIT - 1) / STRIP_UNIT * STRIP_UNIT / plan->block;
}

/* Of each block of a line; `most` has room for whole vectors. */
LANE void line_max(const strip *t, int64_t block, float *most) {
    const int64_t step = LANES * block;
    for (int64_t at = 0; at < t->width; at += step) {
        int64_t n = least(step, t->width - at);
        for (int64_t i = 0; t->ahead && i < n; i += 4 * LANES)
            v_fetch4(t->ahead + (at + i) * t->ahead_size, t->ahead_size);
        neighbour_max(t->v + at, n, block, most + at / block);
    }
}

/* Takes a line into the largest magnitudes of its blocks. */
KERNEL static mpt_quantize_amax see_line(const mpt_quantize_plan *plan, const strip *t) {
    _Alignas(64) float most[MPT_PANEL_COLS];
    float *kept = kept_at(plan, plan->encode, t->row, t->col);
    vi largest = v_set(0);
    if (plan->block == 16)
        line_max(t, 16, most);
    else if (plan->block == 32)
        line_max(t, 32, most);
    else
        line_max(t, plan->block, most);
    for (int64_t b = 0; b < t->width / plan->block; b += LANES) {
        vi m = v_bits(v_load(most + b));
        largest = v_larger(largest, m);
        v_store(kept + b, v_float(v_larger(m, v_bits(v_load(kept + b)))));
    }
    uint32_t bits = largest_lane(largest);
    if (bits >= MPT_INF_BITS)
        return mpt_quantize_careful_amax(t->v, t->ld, 1, t->width);
    return (mpt_quantize_amax){bits, false, false};
}

/* Of a panel; with square blocks, those of each too. */
KERNEL static mpt_quantize_amax lines_amax(const mpt_quantize_plan *plan,
                                           const mpt_panel *panel) {
    _Alignas(64) float loaded[LINE_COLS];
    mpt_quantize_amax most = {0, false, false};
    mpt_quantize_plan lines = by_lines(plan);
    for (int64_t r = 0; plan->encode && r < panel->rows; r += plan->block)
        memset(kept_at(plan, plan->encode, panel->row + r, panel->col), 0,
               (size_t)blocks_of(plan, panel->cols) * sizeof(float));
    for (int64_t i = 0; i < band_rows(panel); i++)
        for (int64_t c = 0; c < panel->cols; c += LINE_COLS)
            for (int64_t r = i; r < panel->rows; r += band_rows(panel)) {
                strip t = line_at(&lines, panel, c, r, loaded);
                mpt_quantize_amax_merge(&most, plan->encode ? see_line(&lines, &t)
                                                            : strip_amax(&t, t.ahead));
            }
    return most;
}

/* ---- scales ---- */

/* Whether all magnitudes of a piece are. */
KERNEL static bool squares_finite(const mpt_quantize_plan *plan, const mpt_panel *piece) {
    bool finite = true;
    for (int64_t r = 0; r < piece->rows; r += plan->block)
        finite = finite && is_finite(kept_at(plan, plan->encode, piece->row + r, piece->col),
                                     blocks_of(plan, piece->cols));
    return finite;
}

/* The scales of at most MPT_PANEL_COLS blocks from (row, col) of memory on: the largest
 * magnitudes become what is multiplied by. `n` of them are no padding. */
KERNEL static void some_scales(const mpt_quantize_plan *plan, int64_t row, int64_t col,
                               int64_t padded, int64_t n) {
    _Alignas(64) uint32_t code[MPT_PANEL_COLS];
    float *encode = kept_at(plan, plan->encode, row, col);
    float *decode = kept_at(plan, plan->decode, row, col);
    if (plan->counts && plan->job->q->scale_format <= MPT_SCALE_POW2)
        plan->counts->capped += v_capped(plan, encode, padded);
    for (int64_t i = 0; i < padded; i += LANES) {
        lane_scale scale = v_scale(plan, v_load(encode + i));
        v_store(encode + i, scale.encode);
        v_store(decode + i, scale.decode);
        v_store_bits(code + i, scale.code);
    }
    if (plan->job->scales)
        put_row_scales(plan, row / plan->block * plan->blocks_k + col / plan->block, decode,
                       code, n);
}

/* Of all blocks of a piece. */
KERNEL static void squares_scale(const mpt_quantize_plan *plan, const mpt_panel *piece) {
    const int64_t step = MPT_PANEL_COLS * plan->block;
    for (int64_t r = 0; r < piece->rows; r += plan->block)
        for (int64_t c = 0; c < piece->cols; c += step) {
            int64_t cols = least(step, piece->cols - c);
            some_scales(plan, piece->row + r, piece->col + c, blocks_of(plan, cols),
                        (cols + plan->block - 1) / plan->block);
        }
}

/* ---- codes and values ---- */

/* A piece whose scales are made. */
KERNEL static void run_lines(const mpt_quantize_plan *plan, side *s, const mpt_panel *piece) {
    _Alignas(64) float loaded[LINE_COLS];
    mpt_quantize_plan lines = by_lines(plan);
    bool restores = plan->counts || plan->job->stands_for;
    s->scales.shift = log2_of(plan->block);
    for (int64_t i = 0; i < band_rows(piece); i++)
        for (int64_t c = 0; c < piece->cols; c += LINE_COLS)
            for (int64_t r = i; r < piece->rows; r += band_rows(piece)) {
                strip t = line_at(&lines, piece, c, r, loaded);
                t.encode = kept_at(plan, plan->encode, t.row, t.col);
                t.decode = kept_at(plan, plan->decode, t.row, t.col);
                run_line(&lines, s, &t, 0, restores && !plan->restorable);
            }
}

KERNEL static void run_squares(const mpt_quantize_plan *plan, side *s, const mpt_panel *panel) {
    int64_t rows = plan->maxima ? panel->rows : plan->block;
    int64_t cols = plan->maxima ? panel->cols : PIECE_VALUES / plan->block;
    mpt_quantize_amax seen = {0, false, false};
    for (int64_t r = 0; r < panel->rows; r += rows)
        for (int64_t c = 0; c < panel->cols; c += cols) {
            mpt_panel piece = {panel->row + r, panel->col + c, least(rows, panel->rows - r),
                               least(cols, panel->cols - c)};
            if (!plan->maxima)
                mpt_quantize_amax_merge(&seen, lines_amax(plan, &piece));
            if (!squares_finite(plan, &piece)) {
                run_strips(plan, s, &piece, &seen);
                continue;
            }
            squares_scale(plan, &piece);
            run_lines(plan, s, &piece);
        }
}

#endif
