/* The probe for a person: a table of matrices with a group of columns a format, a line a format
 * over all of them, and the advice of probe_advice.c.
 *
 * Without a limit all stands in one table with whole names. Where the width is limited, the
 * shape goes first, then the amax; formats that do not fit beside each other come in a further
 * table; and only names that leave no room for one format lose what all have in common, then
 * their middle. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "plan/text.h"
#include "tools/probe.h"

enum {
    NAME_LEAST = 24, /* columns that a name gets at least */
    NAME_MOST = 200, /* and at most */
    NAME_SUMMARY = 60,
    AMAX_WIDTH = 10,
    PAIR_WIDTH = 13, /* SQNR and lost of one format */
    SAT_WIDTH = 6,
    ZEROS_WIDTH = 7,
    FIGURES_WIDTH = 37 /* of the summary, beside format, name and the columns it may lack */
};

/* ---- figures ---- */

mpt_figure mpt_probe_db(double db) {
    mpt_figure f;
    if (isnan(db))
        snprintf(f.text, sizeof f.text, "-"); /* no signal */
    else if (isinf(db) && db > 0)
        snprintf(f.text, sizeof f.text, "exact");
    else
        snprintf(f.text, sizeof f.text, "%.1f", db);
    return f;
}

mpt_figure mpt_probe_percent(double share) {
    mpt_figure f;
    if (share <= 0)
        snprintf(f.text, sizeof f.text, "0");
    else if (share < 0.0005)
        snprintf(f.text, sizeof f.text, "<0.1%%");
    else
        snprintf(f.text, sizeof f.text, share >= 0.9995 ? "%.0f%%" : "%.1f%%", 100 * share);
    return f;
}

/* The SQNR, or why there is none. */
static mpt_figure quality(const mpt_probe_cell *cell) {
    if (cell->state == MPT_PROBE_NONFINITE)
        return (mpt_figure){"NaN"};
    return cell->state == MPT_PROBE_ZERO ? (mpt_figure){"zero"} : mpt_probe_db(cell->sqnr);
}

static mpt_figure shape(const mpt_stored_tensor *tensor) {
    mpt_figure f = {""};
    size_t used = 0;
    for (int i = 0; i < tensor->rank && used < sizeof f.text - 1; i++) {
        int n = snprintf(f.text + used, sizeof f.text - used, "%s%lld", i ? "x" : "",
                         (long long)tensor->dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return f;
}

/* ---- names ---- */

static bool starts_character(char c) {
    return ((unsigned char)c & 0xC0u) != 0x80u; /* of UTF-8 */
}

static int columns(const char *text) {
    int n = 0;
    for (; *text && n < INT_MAX; text++)
        n += starts_character(*text);
    return n;
}

/* The place after n characters. */
static const char *after(const char *text, int n) {
    while (*text && (n > 0 || !starts_character(*text)))
        n -= starts_character(*text++);
    return text;
}

void mpt_probe_name(mpt_str *out, const char *name, int most) {
    int length = columns(name), head = most / 3;
    if (length <= most) {
        mpt_str_append(out, name, strlen(name));
        return;
    }
    mpt_str_append(out, name, (size_t)(after(name, head) - name));
    mpt_str_printf(out, "..%s", after(name, length - (most - head - 2)));
}

/* What all names begin with, up to a dot, in bytes. */
static size_t common_start(const mpt_probe *probe) {
    const char *first = probe->lines[0].name;
    size_t n = probe->n_lines > 1 ? strlen(first) : 0;
    for (int i = 1; i < probe->n_lines; i++) {
        size_t same = 0;
        while (same < n && probe->lines[i].name[same] == first[same])
            same++;
        n = same;
    }
    while (n > 0 && first[n - 1] != '.')
        n--;
    return n;
}

/* ---- the tables of matrices ---- */

/* Formats first to last - 1 beside each other, and what else there is room for. */
typedef struct sheet {
    int first, last;
    size_t skip;                 /* bytes that all names begin with, left out */
    int name_width, shape_width; /* a shape_width of 0: there is no room */
    bool amax;
} sheet;

static int group_width(const mpt_probe *probe, int f) {
    return PAIR_WIDTH + (probe->total[f].counts.overflow ? SAT_WIDTH : 0);
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* The columns of the longest name, where that many bytes of each are left out. */
static int longest_name(const mpt_probe *probe, size_t skip) {
    int most = (int)strlen("tensor");
    for (int i = 0; i < probe->n_lines; i++)
        most = larger(most, columns(probe->lines[i].name + skip) + (skip ? 2 : 0));
    return most < NAME_MOST ? most : NAME_MOST;
}

static sheet lay_out(const mpt_probe *probe, int first) {
    sheet s = {.first = first, .last = first + 1, .name_width = longest_name(probe, 0)};
    int dims = (int)strlen("shape"), group = group_width(probe, first);
    int room = (probe->width ? probe->width : INT_MAX) - group;
    for (int i = 0; i < probe->n_lines; i++)
        dims = larger(dims, (int)strlen(shape(probe->lines[i].tensor).text));
    if (s.name_width > room) {
        s.skip = common_start(probe);
        s.name_width = larger(NAME_LEAST, room);
        int longest = longest_name(probe, s.skip);
        s.name_width = longest < s.name_width ? longest : s.name_width;
    }
    room -= s.name_width;
    while (s.last < probe->n_formats && group_width(probe, s.last) <= room)
        room -= group_width(probe, s.last++);
    s.amax = room >= AMAX_WIDTH;
    s.shape_width = room >= AMAX_WIDTH + 2 + dims ? 2 + dims : 0;
    return s;
}

/* Formats too long for the head of their group go by number; the summary has them whole. */
static void put_label(const mpt_probe *probe, int f, bool last, mpt_str *out) {
    const char *text = probe->formats[f].text;
    int width = group_width(probe, f);
    mpt_figure number;
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

static void put_name(const sheet *s, const char *name, mpt_str *out) {
    size_t start = out->len;
    if (s->skip)
        mpt_str_printf(out, "..");
    mpt_probe_name(out, name + s->skip, s->name_width - (s->skip ? 2 : 0));
    int used = out->failed ? s->name_width : columns(out->data + start);
    mpt_str_printf(out, "%*s", s->name_width - used, "");
}

static void put_line(const mpt_probe *probe, const sheet *s, const mpt_probe_line *line,
                     mpt_str *out) {
    put_name(s, line->name, out);
    if (s->shape_width)
        mpt_str_printf(out, "%*s", s->shape_width, shape(line->tensor).text);
    if (s->amax)
        mpt_str_printf(out, "%*.3g", AMAX_WIDTH, (double)line->amax);
    for (int f = s->first; f < s->last; f++) {
        const mpt_probe_cell *cell = &line->cells[f];
        mpt_figure lost = mpt_probe_percent(mpt_probe_share(cell, cell->counts.underflow));
        mpt_str_printf(out, "%7s%*s", quality(cell).text, PAIR_WIDTH - 7, lost.text);
        if (probe->total[f].counts.overflow)
            mpt_str_printf(
                out, "%*s", SAT_WIDTH,
                mpt_probe_percent(mpt_probe_share(cell, cell->counts.overflow)).text);
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

/* What the summary has room for. */
typedef struct summary {
    int name; /* columns of a name */
    bool zeros, saturated;
} summary;

/* Saturation only where there is some, as in the tables; the zeros where the names fit. */
static summary summary_of(const mpt_probe *probe) {
    summary s = {.name = longest_name(probe, 0)};
    int format = 0;
    s.name = s.name < NAME_SUMMARY ? s.name : NAME_SUMMARY;
    for (int f = 0; f < probe->n_formats; f++) {
        format = larger(format, columns(probe->formats[f].text));
        s.saturated = s.saturated || probe->total[f].counts.overflow;
    }
    int room = (probe->width ? probe->width : INT_MAX) - FIGURES_WIDTH - format -
               (s.saturated ? SAT_WIDTH + 1 : 0);
    s.zeros = room >= s.name + ZEROS_WIDTH;
    room = larger(NAME_LEAST, room);
    s.name = s.name < room ? s.name : room;
    return s;
}

static void put_worst(const mpt_probe *probe, int f, int room, mpt_table *table,
                      mpt_str *name) {
    const mpt_probe_line *worst = mpt_probe_worst(probe, f);
    mpt_table_cell(table, "%s", worst ? quality(&worst->cells[f]).text : "-");
    name->len = 0;
    mpt_probe_name(name, worst ? worst->name : "-", room);
    mpt_table_cell(table, "%s", name->failed ? "" : name->data);
}

static void put_share(mpt_table *table, const mpt_probe_cell *cell, uint64_t n) {
    mpt_table_cell(table, "%s", mpt_probe_percent(mpt_probe_share(cell, n)).text);
}

static void put_summary(const mpt_probe *probe, mpt_str *out) {
    mpt_table table;
    mpt_str name;
    char titles[96];
    summary s = summary_of(probe);
    snprintf(titles, sizeof titles, "|format|>bits|>dB%s|>lost%s|>worst dB|worst tensor",
             s.zeros ? "|>zeros" : "", s.saturated ? "|>sat" : "");
    mpt_str_init(&name, probe->ctx);
    mpt_table_init(&table, probe->ctx, titles);
    for (int f = 0; f < probe->n_formats; f++) {
        const mpt_probe_cell *cell = &probe->total[f];
        const mpt_quantize_counts *c = &cell->counts;
        mpt_table_cell(&table, "(%d)", f + 1);
        mpt_table_cell(&table, "%s", probe->formats[f].text);
        mpt_table_cell(&table, "%.2f", cell->bits);
        mpt_table_cell(&table, "%s", mpt_probe_db(cell->sqnr).text);
        if (s.zeros)
            put_share(&table, cell, c->zeros);
        put_share(&table, cell, c->underflow);
        if (s.saturated)
            put_share(&table, cell, c->overflow);
        put_worst(probe, f, s.name, &table, &name);
    }
    mpt_table_print(&table, out);
    out->failed = out->failed || name.failed;
    mpt_table_deinit(&table);
    mpt_str_deinit(&name);
    mpt_str_printf(out,
                   "dB is the SQNR, bits are those of a weight with its scales, lost became "
                   "zero%s.\n",
                   s.saturated ? ", sat saturated" : "");
}

void mpt_probe_text(const mpt_probe *probe, mpt_str *out) {
    mpt_words skipped = {.len = 0};
    put_tables(probe, out);
    put_summary(probe, out);
    mpt_probe_advice(probe, out);
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
