/* One copy of a strip: its scales, codes and values on their way out.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. */
#ifndef MPT_KERNELS_CPU_STRIP_COPY_H
#define MPT_KERNELS_CPU_STRIP_COPY_H

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

/* Those of a row copy whose first is block `at` of n. */
KERNEL static void put_row_scales(const mpt_quantize_plan *plan, int64_t at,
                                  const float *decode, const uint32_t *code, int64_t n) {
    if (plan->job->q->scale_format <= MPT_SCALE_POW2)
        memcpy((float *)plan->job->scales + at, decode, (size_t)n * sizeof(float));
    else
        put_scale_bytes((uint8_t *)plan->job->scales + at, code, n);
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
    put_row_scales(plan, at, s->scales.decode, s->scales.code,
                   (t->cols + plan->block - 1) / plan->block);
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
                               .encode = t->encode ? t->encode : s->scales.encode,
                               .decode = t->decode ? t->decode : s->scales.decode,
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

/* ---- panels of a row copy ---- */

/* One strip of a panel, `c` and `r` from its corner. */
KERNEL static void run_piece(const mpt_quantize_plan *plan, side *s, const mpt_panel *panel,
                             int64_t c, int64_t r, mpt_quantize_amax *most) {
    _Alignas(64) float loaded[MPT_PANEL_ROWS * MPT_PANEL_COLS];
    strip t = strip_at(plan, panel, c, r);
    strip_load(plan, &t, loaded, false);
    run_strip(plan, s, t, most);
}

/* All of them, in the order of memory. */
KERNEL static void run_strips(const mpt_quantize_plan *plan, side *s, const mpt_panel *panel,
                              mpt_quantize_amax *most) {
    int64_t cols = strip_most_cols(plan);
    for (int64_t r = 0; r < panel->rows; r += plan->strip)
        for (int64_t c = 0; c < panel->cols; c += cols)
            run_piece(plan, s, panel, c, r, most);
}

#endif
