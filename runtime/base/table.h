/* A table of text with aligned columns: how schedules, selections and plans are printed.
 *
 * Cells are added row by row and kept until the end, because the width of a column is that of
 * its widest cell. The last column is never padded, so lines have no spaces at their ends. */
#ifndef MPT_BASE_TABLE_H
#define MPT_BASE_TABLE_H

#include "base/base.h"

enum { MPT_TABLE_COLUMNS = 12 };

typedef struct mpt_table {
    mpt_str text;       /* all cells, each ended by a zero byte, rows one after the other */
    const char *titles; /* cells of the first line, separated by '|' */
    int n_columns, column;
    int n_rows;
    bool
        right[MPT_TABLE_COLUMNS]; /* numbers stand to the right: a title that starts with '>' */
    int width[MPT_TABLE_COLUMNS];
} mpt_table;

/* "step|>bytes|name": three columns, the second of numbers. */
void mpt_table_init(mpt_table *table, mpt_ctx *ctx, const char *titles);
void mpt_table_deinit(mpt_table *table);

/* The next cell; after the last of a row the next row begins. */
void mpt_table_cell(mpt_table *table, const char *fmt, ...) MPT_PRINTF(2, 3);

/* Adds the whole table to `out`; a lack of memory shows as out->failed. */
void mpt_table_print(const mpt_table *table, mpt_str *out);

#endif
