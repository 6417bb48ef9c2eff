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

#include "kernels/cpu/strip_at_once.h"

/* ---- one copy's share of a panel ---- */

/* Buffers of one copy. */
typedef struct side {
    _Alignas(64) float rotated[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    _Alignas(64) uint8_t codes[MPT_PANEL_ROWS * MPT_PANEL_COLS]; /* column copy: the panel */
    _Alignas(64) uint8_t high[16 * MPT_PANEL_COLS], low[16 * MPT_PANEL_COLS];
    _Alignas(64) uint8_t codes_high[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    _Alignas(64) uint8_t line_codes[MPT_LINE_COLS], line_high[MPT_LINE_COLS];
    _Alignas(64) uint8_t packed[MPT_LINE_COLS];
    _Alignas(64) float line_values[MPT_LINE_COLS];
    strip_scales scales;
    uint32_t scale_bits[MPT_PANEL_ROWS / 16][MPT_PANEL_COLS]; /* column copy: the panel's */
} side;

static void put_scale(const mpt_quantize_plan *plan, int64_t at, uint32_t bits) {
    if (plan->job->q->scale_format <= MPT_SCALE_POW2)
        ((float *)plan->job->scales)[at] = mpt_bits_float(bits);
    else
        ((uint8_t *)plan->job->scales)[at] = (uint8_t)bits;
}

KERNEL static void put_scale_bytes(uint8_t *to, const uint32_t *code, int64_t n) {
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        v_store_bytes4(to + i, v_load_bits(code + i), v_load_bits(code + i + LANES),
                       v_load_bits(code + i + 2 * LANES), v_load_bits(code + i + 3 * LANES));
    for (; i < n; i++)
        to[i] = (uint8_t)code[i];
}

/* The scales of the blocks from row `r` on: a row copy's go out, a column copy's wait. */
KERNEL static void put_scales(const mpt_quantize_plan *plan, side *s, const strip *t,
                              int64_t r) {
    bool floats = plan->job->q->scale_format <= MPT_SCALE_POW2;
    if (!plan->job->scales || plan->axis == MPT_AXIS_ONE)
        return;
    if (plan->job->column) {
        const void *from = floats ? (const void *)s->scales.decode : s->scales.code;
        memcpy(s->scale_bits[(t->row + r) % MPT_PANEL_ROWS / plan->block], from,
               sizeof s->scale_bits[0]);
        return;
    }
    int64_t rows = plan->axis == MPT_AXIS_ROW ? 1 : plan->block;
    int64_t at = (t->row + r) / rows * plan->blocks_k + t->col / plan->block;
    int64_t n = (t->cols + plan->block - 1) / plan->block;
    if (floats)
        memcpy((float *)plan->job->scales + at, s->scales.decode, (size_t)n * sizeof(float));
    else
        put_scale_bytes((uint8_t *)plan->job->scales + at, s->scales.code, n);
}

/* Random bytes of row r of the strip, or of the sixteen rows from there. */
KERNEL static void draw(const mpt_quantize_plan *plan, side *s, const strip *t, int64_t r) {
    uint64_t first = plan->job->key.first_group, groups = (uint64_t)plan->groups;
    uint64_t row = (uint64_t)(t->row + r), col = (uint64_t)t->col;
    bool two = !mpt_takes_one_byte(plan->job->q->format);
    for (int half = 0; half <= (two ? 1 : 0); half++) {
        uint8_t *out = half ? s->low : s->high;
        uint32_t low = half ? MPT_RANDOM_LOW : 0;
        if (!plan->job->column)
            v_row_bytes(plan, first + row * groups + col / 16, low, t->width, out);
        else if (r % 16 == 0)
            v_column_bytes(plan, first + col * groups + row / 16, groups, low, t->width, out,
                           MPT_PANEL_COLS);
    }
}

/* n codes of two bytes, low first. */
KERNEL static void zip_codes(uint8_t *to, const uint8_t *low, const uint8_t *high, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_zip_bytes(to + 2 * i, low + i, high + i);
    for (; i < n; i++) {
        to[2 * i] = low[i];
        to[2 * i + 1] = high[i];
    }
}

/* Where the codes of row r of a row copy go: to the output at once, unless its end is near. */
static void place_codes(const mpt_quantize_plan *plan, side *s, const strip *t, int64_t r,
                        mpt_quantize_line *line) {
    const mpt_quantize_job *job = plan->job;
    bool whole = t->cols == t->width;
    if (mpt_code_bits(job->q->format) == 8) {
        line->code = whole ? job->codes + (t->row + r) * plan->k + t->col : s->line_codes;
        return;
    }
    line->code = s->line_codes;
    if (mpt_code_bits(job->q->format) == 16)
        return;
    uint8_t *to = job->codes + (t->row + r) * ((plan->k + 1) / 2) + t->col / 2;
    line->packed = whole ? to : s->packed;
}

/* The codes of a row that waited. */
KERNEL static void put_codes(const mpt_quantize_plan *plan, side *s, const strip *t,
                             int64_t r) {
    const mpt_quantize_job *job = plan->job;
    if (mpt_code_bits(job->q->format) == 16) {
        uint8_t *to = job->codes + 2 * ((t->row + r) * plan->k + t->col);
        zip_codes(to, s->line_codes, s->line_high, t->cols);
        return;
    }
    if (t->cols == t->width)
        return;
    if (mpt_code_bits(job->q->format) == 8) {
        memcpy(job->codes + (t->row + r) * plan->k + t->col, s->line_codes, (size_t)t->cols);
        return;
    }
    if (t->cols % 2) /* the other half of the last byte */
        s->packed[t->cols / 2] &= 0x0F;
    memcpy(job->codes + (t->row + r) * ((plan->k + 1) / 2) + t->col / 2, s->packed,
           (size_t)(t->cols + 1) / 2);
}

/* What the codes of a line of a row copy stand for. */
KERNEL static void put_restored(const mpt_quantize_plan *plan, side *s, const strip *t,
                                const mpt_quantize_line *made, bool bad) {
    mpt_quantize_line line = *made;
    _Alignas(64) float restore[MPT_PANEL_COLS];
    for (int64_t b = 0; b * (INT64_C(1) << line.shift) < line.n; b++)
        restore[b] = line.decode[b] * plan->restore[0] * plan->restore[1];
    float *to = plan->job->stands_for + made->row * plan->k + t->col;
    line.decode = restore;
    line.code = NULL;
    line.cols = 0; /* it has been counted */
    line.value = t->cols == t->width ? to : s->line_values;
    if (bad)
        mpt_quantize_careful_line(plan, &line);
    else
        encode_values(plan, &line);
    if (line.value != to)
        memcpy(to, line.value, (size_t)t->cols * sizeof(float));
}

static mpt_quantize_line line_of(const side *s, const strip *t, int64_t r) {
    return (mpt_quantize_line){.v = t->v + r * t->ld,
                               .n = t->width,
                               .cols = t->cols,
                               .row = t->row + r,
                               .encode = s->scales.encode,
                               .decode = s->scales.decode,
                               .shift = s->scales.shift,
                               .ahead = t->ahead ? t->ahead + r * t->ahead_ld : NULL,
                               .ahead_size = t->ahead_size};
}

/* One row of the strip: where its codes and values go, then both. */
KERNEL static void run_line(const mpt_quantize_plan *plan, side *s, const strip *t, int64_t r,
                            bool bad) {
    const mpt_quantize_job *job = plan->job;
    bool random = job->q->rounding == MPT_ROUNDING_STOCHASTIC;
    int64_t of_row = random && job->column ? r % 16 * MPT_PANEL_COLS : 0;
    int64_t row = t->row + r, values = plan->decoded_cols - t->col;
    mpt_quantize_line line = line_of(s, t, r);
    if (random) {
        draw(plan, s, t, r);
        line.high = s->high + of_row;
        line.low = mpt_takes_one_byte(job->q->format) ? NULL : s->low + of_row;
    }
    if (job->codes && job->column)
        line.code = s->codes + row % MPT_PANEL_ROWS * MPT_PANEL_COLS;
    else if (job->codes)
        place_codes(plan, s, t, r, &line);
    if (job->codes && mpt_code_bits(job->q->format) == 16)
        line.code_high =
            job->column ? s->codes_high + row % MPT_PANEL_ROWS * MPT_PANEL_COLS : s->line_high;
    float *decoded = NULL;
    if (job->decoded && row < plan->decoded_rows && values > 0) {
        decoded = job->decoded + row * plan->decoded_ld + t->col;
        line.value = values >= t->width ? decoded : s->line_values;
    }
    encode_line(plan, &line, bad);
    if (decoded && line.value != decoded)
        memcpy(decoded, line.value,
               (size_t)(values < t->cols ? values : t->cols) * sizeof(float));
    if (job->codes && !job->column)
        put_codes(plan, s, t, r);
    if (job->stands_for)
        put_restored(plan, s, t, &line, bad);
}

/* Row r of a strip in one loop; false where one of its values is not finite. */
KERNEL static bool run_at_once(const mpt_quantize_plan *plan, side *s, const strip *t,
                               int64_t r, mpt_quantize_amax *seen) {
    s->scales.encode[0] = plan->tensor.scale;
    s->scales.shift = plan->axis == MPT_AXIS_ONE ? 31 : log2_of(plan->block);
    mpt_quantize_line line = line_of(s, t, r);
    place_codes(plan, s, t, r, &line);
    mpt_quantize_amax most = {encode_at_once(plan, &line, &s->scales), false, false};
    if (most.finite >= MPT_INF_BITS)
        return false;
    if (plan->axis == MPT_AXIS_ONE)
        mpt_quantize_amax_merge(seen, most);
    put_scales(plan, s, t, r);
    put_codes(plan, s, t, r);
    return true;
}

/* One copy of a strip whose values are loaded. */
KERNEL static void run_strip(const mpt_quantize_plan *plan, side *s, strip t,
                             mpt_quantize_amax *seen) {
    t.rows = t.rows < plan->rows - t.row ? t.rows : plan->rows - t.row;
    t.cols = t.cols < plan->cols - t.col ? t.cols : plan->cols - t.col;
    if (t.rows <= 0 || t.cols <= 0)
        return;
    if (plan->job->q->hadamard.size)
        strip_rotate(plan, &t, s->rotated, true);
    int64_t step = plan->axis == MPT_AXIS_ROW ? 1 : plan->block;
    bool bad = false, restores = plan->counts || plan->job->stands_for;
    bool at_once = takes_at_once(plan, t.width);
    for (int64_t r = 0; r < t.rows; r++) {
        if (at_once && run_at_once(plan, s, &t, r, seen))
            continue;
        if (plan->axis == MPT_AXIS_ONE && r == 0) {
            if (!plan->finite) {
                mpt_quantize_amax most = strip_amax(&t, NULL);
                mpt_quantize_amax_merge(seen, most);
                bad = most.inf || most.nan;
            }
            s->scales.encode[0] = plan->tensor.scale;
            s->scales.decode[0] = 1.0f;
            s->scales.shift = 31;
        } else if (plan->axis != MPT_AXIS_ONE && r % step == 0) {
            bad = strip_scale(plan, &t, r, &s->scales);
            put_scales(plan, s, &t, r);
        }
        run_line(plan, s, &t, r, bad || (restores && !plan->restorable));
    }
}

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
    mpt_quantize_job job = *plan->job;
    mpt_quantize_plan by_rows = *plan;
    if (!job.q->hadamard.size) {
        job.column = false;
        by_rows.job = &job;
        by_rows.strip = 1;
        plan = &by_rows;
    }
    for (int64_t r = 0; r < panel->rows; r += plan->strip)
        for (int64_t c = 0; c < panel->cols; c += strip_most_cols(plan)) {
            strip t = strip_at(plan, panel, c, r);
            strip_load(plan, &t, loaded, false);
            mpt_quantize_amax_merge(&most, strip_rotated_amax(plan, &t, rotated));
        }
    return most;
}

/* One strip of a panel, `c` and `r` from its corner. */
KERNEL static void run_piece(const mpt_quantize_plan *plan, side *s, const mpt_panel *panel,
                             int64_t c, int64_t r, mpt_quantize_amax *most) {
    _Alignas(64) float loaded[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    strip t = strip_at(plan, panel, c, r);
    strip_load(plan, &t, loaded, false);
    run_strip(plan, s, t, most);
}

/* A panel in pieces of some columns: of a column copy all strips of one before the next, else
 * in the order of memory. */
KERNEL static mpt_quantize_amax panel_run(const mpt_quantize_plan *plan,
                                          const mpt_panel *panel) {
    side s;
    mpt_quantize_amax most = {0, false, false};
    int64_t cols = strip_most_cols(plan);
    if (!plan->job->column) {
        for (int64_t r = 0; r < panel->rows; r += plan->strip)
            for (int64_t c = 0; c < panel->cols; c += cols)
                run_piece(plan, &s, panel, c, r, &most);
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
