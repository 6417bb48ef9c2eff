/* Builder of one HTML page that needs nothing else: style, script and data are inside, and it
 * asks no network for anything.
 *
 * Calls add to the page from top to bottom; every text is escaped, so that a name of a recipe
 * or a layer is shown and never run. Numbers of plots go along as JSON, and the script in
 * page.js draws them when the page is opened. Memory that ran out is remembered and told by
 * mpt_page_write, so nothing need be checked before. */
#ifndef MPT_REPORT_PAGE_H
#define MPT_REPORT_PAGE_H

#include "base/base.h"

/* How something is meant: coloured, and told by its words too. */
typedef enum mpt_page_tone { MPT_PAGE_PLAIN, MPT_PAGE_GOOD, MPT_PAGE_BAD } mpt_page_tone;

/* `column` and `n_columns` belong to the table that is open. */
typedef struct mpt_page {
    mpt_ctx *ctx;
    mpt_str html;
    int n_drawings;
    int n_columns, column;
    bool numbers[16];
} mpt_page;

enum { MPT_PAGE_COLUMNS = 16 };

/* `title` says what the page is about; `verdict` is its first line, what a reader wants to know
 * before anything else. */
void mpt_page_begin(mpt_page *page, mpt_ctx *ctx, const char *title, mpt_page_tone tone,
                    const char *verdict);

/* Ends the page and writes it: the file at `path` is there whole or is what it was. Frees the
 * page either way. MPT_INVALID where something stands there that is no such page. */
mpt_status mpt_page_write(mpt_page *page, const char *path);

/* Frees a page that is not written. */
void mpt_page_deinit(mpt_page *page);

void mpt_page_section(mpt_page *page, const char *heading);

/* A paragraph. */
void mpt_page_note(mpt_page *page, mpt_page_tone tone, const char *fmt, ...) MPT_PRINTF(3, 4);

/* Short pairs of a word and its value, beside each other. */
void mpt_page_begin_facts(mpt_page *page);
void mpt_page_fact(mpt_page *page, const char *word, const char *fmt, ...) MPT_PRINTF(3, 4);
void mpt_page_end_facts(mpt_page *page);

/* A table, filled cell by cell along its rows. A column of numbers stands right. At most
 * MPT_PAGE_COLUMNS columns. `title` may be NULL. */
typedef struct mpt_page_column {
    const char *name;
    bool number;
} mpt_page_column;
void mpt_page_begin_table(mpt_page *page, const char *title, const mpt_page_column *columns,
                          int n_columns);
void mpt_page_cell(mpt_page *page, const char *fmt, ...) MPT_PRINTF(2, 3);
/* A cell that leads to a file, by its path relative to the page. */
void mpt_page_cell_link(mpt_page *page, const char *path, const char *text);
void mpt_page_end_table(mpt_page *page);

/* A long text as it is, folded away under its heading. */
void mpt_page_text(mpt_page *page, const char *heading, const char *text);

/* ---- drawings ---- */

/* A line through n points; x does not fall. A y that is not finite is a gap. A long series is
 * thinned: of each stretch the lowest and the highest point stay, so no spike is lost. */
typedef struct mpt_series {
    const char *name;
    int64_t n;
    const double *x, *y;
    const double *low, *high; /* a shaded band around it, or NULL */
    bool dots;                /* with a dot at each point: for few of them */
    bool faint;               /* drawn behind the others, pale */
    bool aside;               /* the axis fits the others, where there are any */
} mpt_series;

/* A place on the x axis: where a phase begins, where a step was skipped. One without a label is
 * a tick at the lower edge, for many of a kind. */
typedef struct mpt_mark {
    double x;
    const char *label; /* NULL: none */
    mpt_page_tone tone;
} mpt_mark;

/* A horizontal line: a bound, the entropy of the data. */
typedef struct mpt_level {
    double y;
    const char *label;
} mpt_level;

typedef struct mpt_plot {
    const char *title, *x_name, *y_name;
    bool log_y; /* at first; the reader may change it. Values of 0 and below are gaps then */
    bool wide;  /* over the whole width; else two stand beside each other */
    const mpt_series *series;
    int n_series;
    const mpt_mark *marks;
    int n_marks;
    const mpt_level *levels;
    int n_levels;
} mpt_plot;
void mpt_page_plot(mpt_page *page, const mpt_plot *plot);

/* Colours for values over rows and columns, low dark and high bright. Columns are at x, which
 * rises; a value that is not finite has no colour, +Inf the highest. Many columns are thinned,
 * the lowest value of each stretch stays. */
typedef struct mpt_heat {
    const char *title, *x_name, *value_name;
    const char *const *rows; /* [n_rows] */
    int n_rows;
    const double *x; /* [n_columns] */
    int n_columns;
    double x_low, x_high;  /* ends of the axis, where they differ; else those of x */
    const mpt_mark *marks; /* those with a label are shown */
    int n_marks;
    const double *values; /* [n_rows, n_columns] */
    double low, high;     /* ends of the colours; NAN: those of the values */
} mpt_heat;
void mpt_page_heat(mpt_page *page, const mpt_heat *heat);

#endif
