/* The probe for a person: a table of matrices with a group of columns a format, a line a format
 * over all of them, and what to do about it. At most 100 columns wide: formats that do not fit
 * beside each other come in a further table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "plan/text.h"
#include "tools/probe.h"

enum {
    WIDTH = 100,
    NAME_LEAST = 24, /* columns that a name gets at least */
    AMAX_WIDTH = 10,
    PAIR_WIDTH = 13, /* SQNR and lost of one format */
    SAT_WIDTH = 6,
    RULES = 12 /* most rules that are proposed */
};
static const double much = 6.0; /* dB below the median: a bit of precision */

/* ---- figures ---- */

typedef struct figure {
    char text[24];
} figure;

static figure decibels(double db) {
    figure f;
    if (isnan(db))
        snprintf(f.text, sizeof f.text, "-"); /* no signal */
    else if (isinf(db) && db > 0)
        snprintf(f.text, sizeof f.text, "exact");
    else
        snprintf(f.text, sizeof f.text, "%.1f", db);
    return f;
}

static figure percent(double share) {
    figure f;
    if (share <= 0)
        snprintf(f.text, sizeof f.text, "0");
    else if (share < 0.0005)
        snprintf(f.text, sizeof f.text, "<0.1%%");
    else
        snprintf(f.text, sizeof f.text, share >= 0.9995 ? "%.0f%%" : "%.1f%%", 100 * share);
    return f;
}

static figure shape(const mpt_stored_tensor *tensor) {
    figure f = {""};
    size_t used = 0;
    for (int i = 0; i < tensor->rank && used < sizeof f.text - 1; i++) {
        int n = snprintf(f.text + used, sizeof f.text - used, "%s%lld", i ? "x" : "",
                         (long long)tensor->dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return f;
}

/* A text padded or cut to a width; cut names keep their end, which tells them apart. */
static void put_text(mpt_str *out, const char *text, int width) {
    int length = (int)strlen(text), head = width / 3;
    if (length <= width)
        mpt_str_printf(out, "%-*s", width, text);
    else
        mpt_str_printf(out, "%.*s..%s", head, text, text + length - (width - head - 2));
}

/* ---- the tables of matrices ---- */

/* Formats first to last - 1 beside each other, and what else there is room for. */
typedef struct sheet {
    int first, last;
    int name_width, shape_width; /* a shape_width of 0: there is no room */
    bool amax;
} sheet;

static int group_width(const mpt_probe *probe, int f) {
    return PAIR_WIDTH + (probe->total[f].counts.overflow ? SAT_WIDTH : 0);
}

static int longer(int a, size_t b) {
    return a > (int)b ? a : (int)b;
}

static sheet lay_out(const mpt_probe *probe, int first) {
    sheet s = {.first = first, .last = first};
    int name = (int)strlen("tensor"), dims = (int)strlen("shape"), room = WIDTH - NAME_LEAST;
    for (int i = 0; i < probe->n_lines; i++) {
        name = longer(name, strlen(probe->lines[i].name));
        dims = longer(dims, strlen(shape(probe->lines[i].tensor).text));
    }
    while (s.last < probe->n_formats && group_width(probe, s.last) <= room)
        room -= group_width(probe, s.last++);
    room += NAME_LEAST;
    s.name_width = name < room ? name : room;
    room -= s.name_width;
    s.amax = room >= AMAX_WIDTH;
    s.shape_width = room >= AMAX_WIDTH + 2 + dims ? 2 + dims : 0;
    return s;
}

/* Formats too long for the head of their group go by number; the summary has them whole. */
static void put_label(const mpt_probe *probe, int f, bool last, mpt_str *out) {
    const char *text = probe->formats[f].text;
    int width = group_width(probe, f);
    figure number;
    snprintf(number.text, sizeof number.text, "(%d)", f + 1);
    mpt_str_printf(out, "  %-*s", last ? 0 : width - 2,
                   (int)strlen(text) <= width - 2 ? text : number.text);
}

static void put_head(const mpt_probe *probe, const sheet *s, mpt_str *out) {
    int left = s->name_width + s->shape_width + (s->amax ? AMAX_WIDTH : 0);
    mpt_str_printf(out, "%*s", left, "");
    for (int f = s->first; f < s->last; f++)
        put_label(probe, f, f + 1 == s->last, out);
    mpt_str_printf(out, "\n%-*s", s->name_width, "tensor");
    if (s->shape_width)
        mpt_str_printf(out, "%*s", s->shape_width, "shape");
    if (s->amax)
        mpt_str_printf(out, "%*s", AMAX_WIDTH, "amax");
    for (int f = s->first; f < s->last; f++) {
        mpt_str_printf(out, "%*s%*s", 7, "dB", PAIR_WIDTH - 7, "lost");
        if (probe->total[f].counts.overflow)
            mpt_str_printf(out, "%*s", SAT_WIDTH, "sat");
    }
    mpt_str_append(out, "\n", 1);
}

static void put_line(const mpt_probe *probe, const sheet *s, const mpt_probe_line *line,
                     mpt_str *out) {
    put_text(out, line->name, s->name_width);
    if (s->shape_width)
        mpt_str_printf(out, "%*s", s->shape_width, shape(line->tensor).text);
    if (s->amax)
        mpt_str_printf(out, "%*.3g", AMAX_WIDTH, (double)line->amax);
    for (int f = s->first; f < s->last; f++) {
        const mpt_probe_cell *cell = &line->cells[f];
        figure lost = percent(mpt_probe_share(cell, cell->counts.underflow));
        mpt_str_printf(out, "%7s%*s", decibels(cell->sqnr).text, PAIR_WIDTH - 7, lost.text);
        if (probe->total[f].counts.overflow)
            mpt_str_printf(out, "%*s", SAT_WIDTH,
                           percent(mpt_probe_share(cell, cell->counts.overflow)).text);
    }
    mpt_str_append(out, "\n", 1);
}

static void put_tables(const mpt_probe *probe, mpt_str *out) {
    for (int first = 0; first < probe->n_formats;) {
        sheet s = lay_out(probe, first);
        put_head(probe, &s, out);
        for (int i = 0; i < probe->n_lines; i++)
            put_line(probe, &s, &probe->lines[i], out);
        mpt_str_append(out, "\n", 1);
        first = s.last;
    }
}

/* ---- over all matrices ---- */

static void put_summary(const mpt_probe *probe, mpt_str *out) {
    mpt_table table;
    mpt_table_init(&table, probe->ctx,
                   "|format|>bits|>dB|>zeros|>lost|>sat|>worst dB|worst tensor");
    for (int f = 0; f < probe->n_formats; f++) {
        const mpt_probe_cell *cell = &probe->total[f];
        const mpt_probe_line *worst = mpt_probe_worst(probe, f);
        mpt_table_cell(&table, "(%d)", f + 1);
        mpt_table_cell(&table, "%s", probe->formats[f].text);
        mpt_table_cell(&table, "%.2f", cell->bits);
        mpt_table_cell(&table, "%s", decibels(cell->sqnr).text);
        mpt_table_cell(&table, "%s", percent(mpt_probe_share(cell, cell->counts.zeros)).text);
        mpt_table_cell(&table, "%s",
                       percent(mpt_probe_share(cell, cell->counts.underflow)).text);
        mpt_table_cell(&table, "%s",
                       percent(mpt_probe_share(cell, cell->counts.overflow)).text);
        mpt_table_cell(&table, "%s", worst ? decibels(worst->cells[f].sqnr).text : "-");
        mpt_table_cell(&table, "%s", worst ? worst->name : "-");
    }
    mpt_table_print(&table, out);
    mpt_table_deinit(&table);
    mpt_str_printf(out, "dB is the SQNR, bits are those of a weight with its scales, lost "
                        "became zero, sat saturated.\n");
}

/* ---- what to do ---- */

/* The median SQNR of the first format over the lines that have one: they come first. */
static double median(const mpt_probe *probe, int *out_n) {
    int n = 0;
    while (n < probe->n_lines && !isnan(probe->lines[n].cells[0].sqnr))
        n++;
    *out_n = n;
    return n ? probe->lines[n / 2].cells[0].sqnr : NAN;
}

/* The path by which a rule finds the layer: without the root of the checkpoint, and without the
 * parameter's own name. */
static void put_rule(const char *tensor, mpt_str *out) {
    static const char *const roots[] = {"model.", "transformer.", "backbone."};
    static const char suffix[] = ".weight";
    size_t length = strlen(tensor), tail = sizeof suffix - 1;
    for (size_t i = 0; i < MPT_COUNT(roots); i++) {
        size_t n = strlen(roots[i]);
        if (strncmp(tensor, roots[i], n) == 0 && length > n) {
            tensor += n;
            length -= n;
            break;
        }
    }
    if (length > tail && strcmp(tensor + length - tail, suffix) == 0)
        length -= tail;
    mpt_str_printf(out, "  rule { \"%.*s\", use = bf16 },\n", (int)length, tensor);
}

static void put_advice(const mpt_probe *probe, mpt_str *out) {
    const char *format = probe->formats[0].text;
    int n, n_bad = 0;
    double middle = median(probe, &n);
    while (n_bad < n && probe->lines[n_bad].cells[0].sqnr < middle - much)
        n_bad++;
    if (n_bad == 0) {
        mpt_str_printf(out,
                       "\n%s: no tensor loses more than %.0f dB against the median (%s dB), so "
                       "none needs a rule.\n",
                       format, much, decibels(middle).text);
        return;
    }
    mpt_str_printf(out,
                   "\n%s: %d tensor%s more than %.0f dB against the median (%s dB); rules that "
                   "keep %s in BF16:\n",
                   format, n_bad, n_bad == 1 ? " loses" : "s lose", much, decibels(middle).text,
                   n_bad == 1 ? "it" : "them");
    for (int i = 0; i < n_bad && i < RULES; i++)
        put_rule(probe->lines[i].name, out);
    if (n_bad > RULES)
        mpt_str_printf(out, "  and %d more, the next ones of the table\n", n_bad - RULES);
}

static void put_nonfinite(const mpt_probe *probe, mpt_str *out) {
    for (int i = 0; i < probe->n_lines; i++) {
        uint64_t n = probe->lines[i].cells[0].counts.nonfinite;
        if (n)
            mpt_str_printf(out, "\nNaN or Inf: %llu values of %s, not counted in its dB\n",
                           (unsigned long long)n, probe->lines[i].name);
    }
}

void mpt_probe_text(const mpt_probe *probe, mpt_str *out) {
    mpt_words skipped = {.len = 0};
    put_tables(probe, out);
    put_summary(probe, out);
    put_nonfinite(probe, out);
    put_advice(probe, out);
    if (probe->n_vectors)
        mpt_words_things(&skipped, probe->n_vectors, "vector");
    if (probe->n_vectors && probe->n_others)
        mpt_words_add(&skipped, " and ");
    if (probe->n_others) {
        mpt_words_things(&skipped, probe->n_others, "tensor");
        mpt_words_add(&skipped, " not of a floating type, or empty");
    }
    if (skipped.len)
        mpt_str_printf(out, "Skipped: %s.\n", skipped.data);
}
