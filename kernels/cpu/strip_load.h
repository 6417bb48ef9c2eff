/* A strip of the matrix: where it lies, what comes after it, and its values as they are loaded.
 *
 * Part of quantize_strip.h, over the words of lanes_*.h. */
#ifndef MPT_KERNELS_CPU_STRIP_LOAD_H
#define MPT_KERNELS_CPU_STRIP_LOAD_H

#include <string.h>

#include "kernels/cpu/round_lanes.h"

enum {
    STRIP_UNIT = 128,    /* columns are padded with zeros to a multiple: of every block */
    STRIP_VALUES = 16384 /* of a strip read in place: the second cache holds a few of them */
};

/* Values of a few rows, at most strip_most_cols() columns of them. */
typedef struct strip {
    const float *v;
    int64_t ld;
    const char *ahead;            /* the input of the strip that comes next, or NULL */
    int64_t ahead_size, ahead_ld; /* bytes of its values and from row to row */
    int64_t row, col;             /* in the matrix */
    int64_t rows, cols;
    int64_t width; /* cols padded; as many may be read from v, and rows in sixteens where some
                      are worked on together */
    const float *encode, *decode; /* of its blocks, where they are made before; else NULL */
} strip;

/* Whether strips are walked row by row only, so that wide ones are read where they lie. */
static bool strip_in_order(const mpt_quantize_plan *plan) {
    return plan->strip == 1 || (!plan->job->column && !plan->job->q->hadamard.size &&
                                plan->job->x && plan->strip <= 32);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Columns that are worked on together: low strips are wide. */
static int64_t strip_most_cols(const mpt_quantize_plan *plan) {
    if (!strip_in_order(plan))
        return MPT_PANEL_COLS;
    int64_t cols = STRIP_VALUES / plan->strip;
    return cols < MPT_LINE_COLS ? cols : MPT_LINE_COLS;
}

/* ---- load ---- */

/* The strip at `c` and `r` from a panel's corner. The one after it is fetched while this one is
 * worked on, so that memory and arithmetic do not wait for each other: strips are a few rows
 * high, and what a processor fetches by itself ends with each page. */
static strip strip_at(const mpt_quantize_plan *plan, const mpt_panel *panel, int64_t c,
                      int64_t r) {
    const mpt_quantize_job *job = plan->job;
    int64_t most = strip_most_cols(plan);
    strip t = {.row = panel->row + r, .col = panel->col + c};
    t.rows = least(plan->strip, panel->rows - r);
    t.cols = least(most, panel->cols - c);
    c += most;
    if (c >= panel->cols) {
        c = 0;
        r += plan->strip;
    }
    int64_t at = (panel->row + r) * job->cols + panel->col + c;
    bool inside = at + (plan->strip - 1) * job->cols + most <= job->rows * job->cols;
    t.ahead_size = job->x ? (int64_t)sizeof *job->x : (int64_t)sizeof *job->x_bf16;
    t.ahead_ld = job->cols * t.ahead_size;
    if (strip_in_order(plan) && r < panel->rows && inside)
        t.ahead =
            (const char *)(job->x ? (const void *)job->x : job->x_bf16) + at * t.ahead_size;
    return t;
}

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

#endif
