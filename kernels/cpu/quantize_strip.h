/* Strips: the quantizer's kernels, written over the words of lanes_*.h.
 *
 * Compiled once a level, by quantize_avx512.c, quantize_avx2.c and quantize_portable.c. A panel
 * of the matrix is worked on in strips of a few rows and MPT_PANEL_COLS columns, which stay in
 * the first cache from one step to the next: load, rotate, largest magnitudes, scales, codes
 * and values, packing. A vector is always neighbours of one row of memory: for blocks along the
 * rows it has one scale, for blocks down the columns each lane has its own, and nothing is
 * transposed but the codes of a column copy, as bytes, when a panel is done. The steps are in
 * strip_*.h; strip_at_once.h takes them in one loop where a row needs little. */
#ifndef MPT_KERNELS_CPU_QUANTIZE_STRIP_H
#define MPT_KERNELS_CPU_QUANTIZE_STRIP_H

#include "kernels/cpu/strip_squares.h"

/* ---- codes of a column copy ---- */

/* Sixteen columns of the panel's codes, which lie along the rows of the output. */
KERNEL static void put_columns(const mpt_quantize_plan *plan, const side *s,
                               const mpt_panel *panel, int64_t col, int64_t bytes) {
    bool nibbles = mpt_code_bits(plan->job->q->format) == 4;
    int64_t ld = nibbles ? (plan->k + 1) / 2 : plan->k;
    uint8_t turned[16 * MPT_PANEL_ROWS];
    for (int64_t b = 0; b < bytes; b += 16)
        v_transpose_bytes(turned + b, MPT_PANEL_ROWS, s->codes + b * MPT_PANEL_COLS + col,
                          MPT_PANEL_COLS);
    uint8_t *to =
        plan->job->codes + (panel->col + col) * ld + (nibbles ? panel->row / 2 : panel->row);
    for (int64_t i = 0; i < 16 && col + i < panel->cols; i++)
        memcpy(to + i * ld, turned + i * MPT_PANEL_ROWS, (size_t)bytes);
}

/* The same of codes of two bytes. */
KERNEL static void put_columns_of_two(const mpt_quantize_plan *plan, const side *s,
                                      const mpt_panel *panel, int64_t col) {
    uint8_t low[16 * MPT_PANEL_ROWS], high[16 * MPT_PANEL_ROWS];
    for (int64_t b = 0; b < panel->rows; b += 16) {
        int64_t at = b * MPT_PANEL_COLS + col;
        v_transpose_bytes(low + b, MPT_PANEL_ROWS, s->codes + at, MPT_PANEL_COLS);
        v_transpose_bytes(high + b, MPT_PANEL_ROWS, s->codes_high + at, MPT_PANEL_COLS);
    }
    uint8_t *to = plan->job->codes + 2 * ((panel->col + col) * plan->k + panel->row);
    for (int64_t i = 0; i < 16 && col + i < panel->cols; i++)
        zip_codes(to + 2 * i * plan->k, low + i * MPT_PANEL_ROWS, high + i * MPT_PANEL_ROWS,
                  panel->rows);
}

KERNEL static void finish_column_codes(const mpt_quantize_plan *plan, side *s,
                                       const mpt_panel *panel) {
    int64_t bytes = panel->rows;
    memset(s->codes + panel->rows * MPT_PANEL_COLS, 0,
           (size_t)((MPT_PANEL_ROWS - panel->rows) * MPT_PANEL_COLS));
    if (mpt_code_bits(plan->job->q->format) == 4) {
        bytes = (panel->rows + 1) / 2;
        for (int64_t i = 0; i < bytes; i++)
            for (int64_t j = 0; j < panel->cols; j += 16) {
                const uint8_t *even = s->codes + 2 * i * MPT_PANEL_COLS + j;
                v_merge_nibbles(s->codes + i * MPT_PANEL_COLS + j, even, even + MPT_PANEL_COLS);
            }
    }
    for (int64_t j = 0; j < panel->cols; j += 16)
        if (mpt_code_bits(plan->job->q->format) == 16)
            put_columns_of_two(plan, s, panel, j);
        else
            put_columns(plan, s, panel, j, bytes);
}

static void finish_column_scales(const mpt_quantize_plan *plan, const side *s,
                                 const mpt_panel *panel) {
    int64_t across = plan->axis == MPT_AXIS_SQUARE ? plan->block : 1;
    int64_t first = panel->col / across * plan->blocks_k + panel->row / plan->block;
    for (int64_t i = 0; i * across < panel->cols; i++)
        for (int64_t b = 0; b * plan->block < panel->rows; b++)
            put_scale(plan, first + i * plan->blocks_k + b, s->scale_bits[b][i]);
}

/* What of a column copy is put out once its panel is done. */
KERNEL static void finish_columns(const mpt_quantize_plan *plan, side *s,
                                  const mpt_panel *panel) {
    mpt_panel p = *panel;
    p.rows = p.rows < plan->rows - p.row ? p.rows : plan->rows - p.row;
    p.cols = p.cols < plan->cols - p.col ? p.cols : plan->cols - p.col;
    if (!plan->job->column || p.rows <= 0 || p.cols <= 0)
        return;
    if (plan->job->codes)
        finish_column_codes(plan, s, &p);
    if (plan->job->scales && plan->axis != MPT_AXIS_ONE)
        finish_column_scales(plan, s, &p);
}

/* ---- panels ---- */

KERNEL static mpt_quantize_amax panel_amax(const mpt_quantize_plan *plan,
                                           const mpt_panel *panel) {
    _Alignas(64) float loaded[MPT_PANEL_ROWS * MPT_PANEL_COLS],
        rotated[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    mpt_quantize_amax most = {0, false, false};
    if (!plan->job->q->hadamard.size) {
        mpt_quantize_job job = *plan->job;
        mpt_quantize_plan in_order = *plan;
        job.column = false;
        in_order.job = &job;
        return lines_amax(&in_order, panel);
    }
    for (int64_t r = 0; r < panel->rows; r += plan->strip)
        for (int64_t c = 0; c < panel->cols; c += strip_most_cols(plan)) {
            strip t = strip_at(plan, panel, c, r);
            strip_load(plan, &t, loaded, false);
            mpt_quantize_amax_merge(&most, strip_rotated_amax(plan, &t, rotated));
        }
    return most;
}

/* A panel in pieces of some columns: of a column copy all strips of one before the next. */
KERNEL static mpt_quantize_amax panel_run(const mpt_quantize_plan *plan,
                                          const mpt_panel *panel) {
    side s;
    mpt_quantize_amax most = {0, false, false};
    int64_t cols = strip_most_cols(plan);
    if (plan->encode) {
        run_squares(plan, &s, panel);
        return most;
    }
    if (!plan->job->column) {
        run_strips(plan, &s, panel, &most);
        return most;
    }
    for (int64_t c = 0; c < panel->cols; c += cols) {
        mpt_panel piece = *panel;
        piece.col += c;
        piece.cols = least(cols, panel->cols - c);
        for (int64_t r = 0; r < panel->rows; r += plan->strip)
            run_piece(plan, &s, panel, c, r, &most);
        finish_columns(plan, &s, &piece);
    }
    return most;
}

KERNEL static void panel_both(const mpt_quantize_plan *row, const mpt_quantize_plan *col,
                              const mpt_panel *panel, mpt_quantize_amax out_seen[2]) {
    _Alignas(64) float loaded[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    side row_side, col_side;
    int64_t step = row->strip > col->strip ? row->strip : col->strip;
    for (int64_t c = 0; c < panel->cols; c += MPT_PANEL_COLS) {
        mpt_panel piece = *panel;
        piece.col += c;
        piece.cols = least(MPT_PANEL_COLS, panel->cols - c);
        for (int64_t r = 0; r < panel->rows; r += step) {
            strip t = {.row = panel->row + r, .col = piece.col, .cols = piece.cols};
            t.rows = least(step, panel->rows - r);
            strip_load(col, &t, loaded, true);
            run_strip(row, &row_side, t, &out_seen[0]);
            run_strip(col, &col_side, t, &out_seen[1]);
        }
        finish_columns(col, &col_side, &piece);
    }
}

#endif
