/* The layout of a sheet: see sheet.h. */
#include "plan/sheet.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 1024 };

void mpt_sheet_init(mpt_sheet *sheet, mpt_ctx *ctx, const char *titles, bool color,
                    int indent) {
    *sheet = (mpt_sheet){.color = color, .indent = indent};
    mpt_table_init(&sheet->table, ctx, titles);
    mpt_str_init(&sheet->lines, ctx);
}

static void add_line(mpt_sheet *sheet, char letter, const char *text) {
    mpt_str_append(&sheet->lines, &letter, 1);
    mpt_str_append(&sheet->lines, text, strlen(text) + 1);
}

void mpt_sheet_heading(mpt_sheet *sheet, const char *fmt, ...) {
    char text[LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_line(sheet, 'h', text);
}

void mpt_sheet_note(mpt_sheet *sheet, const char *fmt, ...) {
    char text[LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_line(sheet, 'n', text);
}

void mpt_sheet_row(mpt_sheet *sheet, bool dim) {
    add_line(sheet, dim ? 'd' : 'r', "");
    sheet->n_rows++;
}

/* The table's next line, indented; gives what follows it. */
static const char *print_row(const mpt_sheet *sheet, const char *row, bool dim, mpt_str *out) {
    size_t length = strcspn(row, "\n");
    bool shade = dim && sheet->color;
    mpt_str_printf(out, "%*s%s%.*s%s\n", sheet->indent, "", shade ? MPT_DIM : "", (int)length,
                   row, shade ? MPT_PLAIN : "");
    return row + length + (row[length] == '\n');
}

static void print_lines(const mpt_sheet *sheet, const char *rows, mpt_str *out) {
    const char *end = sheet->lines.data + sheet->lines.len;
    rows = print_row(sheet, rows, true, out);
    for (const char *line = sheet->lines.data; line < end; line += strlen(line) + 1) {
        bool bold = *line == 'h' && sheet->color;
        if (*line == 'h' || *line == 'n')
            mpt_str_printf(out, "%s%s%s\n", bold ? MPT_BOLD : "", line + 1,
                           bold ? MPT_PLAIN : "");
        else
            rows = print_row(sheet, rows, *line == 'd', out);
    }
}

void mpt_sheet_print(mpt_sheet *sheet, mpt_str *out) {
    mpt_str text;
    mpt_str_init(&text, out->ctx);
    mpt_table_print(&sheet->table, &text);
    out->failed |= text.failed || sheet->lines.failed;
    if (!out->failed && sheet->lines.data)
        print_lines(sheet, text.data, out);
    mpt_str_deinit(&text);
    mpt_str_deinit(&sheet->lines);
    mpt_table_deinit(&sheet->table);
}
