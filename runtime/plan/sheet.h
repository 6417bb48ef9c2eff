/* A table with headings between its rows, which the widths of the columns ignore: how explain
 * and diff are laid out. On a terminal headings are bold and rows of less weight are dim. */
#ifndef MPT_PLAN_SHEET_H
#define MPT_PLAN_SHEET_H

#include "base/table.h"

#define MPT_BOLD  "\033[1m"
#define MPT_DIM   "\033[2m"
#define MPT_PLAIN "\033[0m"

typedef struct mpt_sheet {
    mpt_table table;
    mpt_str lines; /* what stands in which order: a letter and its text, each ended by a zero */
    bool color;
    int indent; /* of rows; headings bring their own */
    int n_rows;
} mpt_sheet;

/* `titles` as mpt_table_init takes them. */
void mpt_sheet_init(mpt_sheet *sheet, mpt_ctx *ctx, const char *titles, bool color, int indent);

/* A line of its own before the next row: a heading, or a plain note. */
void mpt_sheet_heading(mpt_sheet *sheet, const char *fmt, ...) MPT_PRINTF(2, 3);
void mpt_sheet_note(mpt_sheet *sheet, const char *fmt, ...) MPT_PRINTF(2, 3);

/* Ends a row whose cells went to `table`. */
void mpt_sheet_row(mpt_sheet *sheet, bool dim);

/* Prints all, titles first, and frees the sheet. */
void mpt_sheet_print(mpt_sheet *sheet, mpt_str *out);

#endif
