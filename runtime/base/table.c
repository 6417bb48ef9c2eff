/* The aligned table: collects cells, then prints them in columns. Used by every dump. */
#include "base/table.h"

#include <stdio.h>
#include <string.h>

static void end_cell(mpt_table *t, size_t start) {
    int width = (int)(t->text.len - start);
    if (t->text.failed)
        return;
    if (width > t->width[t->column])
        t->width[t->column] = width;
    mpt_str_append(&t->text, "", 1);
    t->column = (t->column + 1) % t->n_columns;
    t->n_rows += t->column == 0;
}

void mpt_table_init(mpt_table *table, mpt_ctx *ctx, const char *titles) {
    *table = (mpt_table){.titles = titles, .n_columns = 1};
    mpt_str_init(&table->text, ctx);
    for (const char *p = titles; *p; p++)
        table->n_columns += *p == '|';
    for (const char *p = titles; p;) {
        const char *end = strchr(p, '|');
        size_t start = table->text.len, len = end ? (size_t)(end - p) : strlen(p);
        bool right = *p == '>';
        table->right[table->column] = right;
        mpt_str_append(&table->text, p + right, len - right);
        end_cell(table, start);
        p = end ? end + 1 : NULL;
    }
}

void mpt_table_deinit(mpt_table *table) {
    mpt_str_deinit(&table->text);
}

void mpt_table_cell(mpt_table *table, const char *fmt, ...) {
    char cell[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(cell, sizeof cell, fmt, args);
    va_end(args);
    size_t start = table->text.len;
    mpt_str_append(&table->text, cell, strlen(cell));
    end_cell(table, start);
}

static void print_row(const mpt_table *t, const char **cell, mpt_str *out) {
    int last = 0; /* of those that hold text: no line ends in spaces */
    const char *p = *cell;
    for (int c = 0; c < t->n_columns; c++, p += strlen(p) + 1)
        if (*p)
            last = c;
    for (int c = 0; c < t->n_columns; c++) {
        const char *text = *cell;
        *cell += strlen(text) + 1;
        if (c > last)
            continue;
        const char *gap = c ? "  " : "";
        if (t->right[c])
            mpt_str_printf(out, "%s%*s", gap, t->width[c], text);
        else
            mpt_str_printf(out, "%s%-*s", gap, c < last ? t->width[c] : 0, text);
    }
    mpt_str_append(out, "\n", 1);
}

void mpt_table_print(const mpt_table *table, mpt_str *out) {
    if (table->text.failed) {
        out->failed = true;
        return;
    }
    const char *cell = table->text.data;
    for (int row = 0; row < table->n_rows; row++)
        print_row(table, &cell, out);
}
