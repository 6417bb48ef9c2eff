/* Text of a page: head, sections, facts, tables, and the file it ends in. Drawings:
 * page_draw.c. */
#include "report/page.h"

#include <string.h>

#include "io/file_write.h"
#include "report/page_parts.h"

/* What a file of ours begins with, so that no other is ever replaced. */
static const char page_start[] = "<!doctype html>\n<meta name=\"generator\" content=\"mpt\">\n";

/* ---- text ---- */

static void put(mpt_page *page, const char *html) {
    mpt_str_append(&page->html, html, strlen(html));
}

/* Of a control character nothing is shown but the ends of lines; bytes over 127 are UTF-8 and
 * stay. */
static void put_escaped(mpt_page *page, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            put(page, "&amp;");
            break;
        case '<':
            put(page, "&lt;");
            break;
        case '>':
            put(page, "&gt;");
            break;
        case '"':
            put(page, "&quot;");
            break;
        case '\'':
            put(page, "&#39;");
            break;
        default:
            if ((unsigned char)*text >= 0x20 || *text == '\n' || *text == '\t')
                mpt_str_append(&page->html, text, 1);
        }
    }
}

MPT_PRINTF(2, 0) static void put_formatted(mpt_page *page, const char *fmt, va_list args) {
    mpt_str text;
    mpt_str_init(&text, page->ctx);
    mpt_str_vprintf(&text, fmt, args);
    page->html.failed |= text.failed;
    if (text.data)
        put_escaped(page, text.data);
    mpt_str_deinit(&text);
}

static const char *class_of(mpt_page_tone tone) {
    return tone == MPT_PAGE_GOOD ? "good" : tone == MPT_PAGE_BAD ? "bad" : "plain";
}

/* ---- the page ---- */

void mpt_page_begin(mpt_page *page, mpt_ctx *ctx, const char *title, mpt_page_tone tone,
                    const char *verdict) {
    *page = (mpt_page){.ctx = ctx};
    mpt_str_init(&page->html, ctx);
    put(page, page_start);
    put(page, "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    put_escaped(page, title);
    put(page, "</title>\n<style>\n");
    put(page, mpt_page_css);
    mpt_str_printf(&page->html, "</style></head>\n<body><main>\n<p class=\"verdict %s\">",
                   class_of(tone));
    put_escaped(page, verdict);
    put(page, "</p>\n<h1>");
    put_escaped(page, title);
    put(page, "</h1>\n<noscript><p class=\"note bad\">The plots are drawn by the script inside "
              "this page: allow it to run.</p></noscript>\n<section>\n");
}

static bool is_page(const char *path, const unsigned char *start, size_t n) {
    (void)path;
    return n >= sizeof page_start - 1 && memcmp(start, page_start, sizeof page_start - 1) == 0;
}

mpt_status mpt_page_write(mpt_page *page, const char *path) {
    static const mpt_file_kind kind = {"page of a report", sizeof page_start - 1, is_page};
    mpt_file_writer *writer = NULL;
    put(page, "</section></main>\n<script>\n");
    put(page, mpt_page_js);
    put(page, "</script></body></html>\n");
    mpt_status status = page->html.failed ? mpt_fail_memory(page->ctx, page->html.cap) : MPT_OK;
    if (status == MPT_OK)
        status = mpt_file_create(page->ctx, path, page->html.len, &kind, &writer);
    if (status == MPT_OK) {
        memcpy(mpt_file_bytes(writer), page->html.data, page->html.len);
        status = mpt_file_commit(writer);
    }
    mpt_page_deinit(page);
    return status;
}

void mpt_page_deinit(mpt_page *page) {
    mpt_str_deinit(&page->html);
}

/* ---- what stands in it ---- */

void mpt_page_section(mpt_page *page, const char *heading) {
    put(page, "</section>\n<section><h2>");
    put_escaped(page, heading);
    put(page, "</h2>\n");
}

void mpt_page_note(mpt_page *page, mpt_page_tone tone, const char *fmt, ...) {
    va_list args;
    mpt_str_printf(&page->html, "<p class=\"note %s\">", class_of(tone));
    va_start(args, fmt);
    put_formatted(page, fmt, args);
    va_end(args);
    put(page, "</p>\n");
}

void mpt_page_begin_facts(mpt_page *page) {
    put(page, "<dl class=\"facts\">\n");
}

void mpt_page_fact(mpt_page *page, const char *word, const char *fmt, ...) {
    va_list args;
    put(page, "<div><dt>");
    put_escaped(page, word);
    put(page, "</dt><dd>");
    va_start(args, fmt);
    put_formatted(page, fmt, args);
    va_end(args);
    put(page, "</dd></div>\n");
}

void mpt_page_end_facts(mpt_page *page) {
    put(page, "</dl>\n");
}

void mpt_page_begin_table(mpt_page *page, const char *title, const mpt_page_column *columns,
                          int n_columns) {
    page->n_columns = n_columns > MPT_PAGE_COLUMNS ? MPT_PAGE_COLUMNS : n_columns;
    page->column = 0;
    put(page, "<div class=\"scroll\"><table>");
    if (title) {
        put(page, "<caption>");
        put_escaped(page, title);
        put(page, "</caption>");
    }
    put(page, "<thead><tr>");
    for (int i = 0; i < page->n_columns; i++) {
        page->numbers[i] = columns[i].number;
        put(page, columns[i].number ? "<th class=\"number\">" : "<th>");
        put_escaped(page, columns[i].name);
        put(page, "</th>");
    }
    put(page, "</tr></thead>\n<tbody>\n");
}

static void begin_cell(mpt_page *page) {
    put(page, page->column == 0 ? "<tr>" : "");
    put(page, page->numbers[page->column] ? "<td class=\"number\">" : "<td>");
}

static void end_cell(mpt_page *page) {
    put(page, "</td>");
    if (++page->column < page->n_columns)
        return;
    page->column = 0;
    put(page, "</tr>\n");
}

void mpt_page_cell(mpt_page *page, const char *fmt, ...) {
    va_list args;
    begin_cell(page);
    va_start(args, fmt);
    put_formatted(page, fmt, args);
    va_end(args);
    end_cell(page);
}

/* "./" in front, so that no name of a folder reads as a scheme; of the rest all is escaped that
 * is no plain character of a path. */
void mpt_page_cell_link(mpt_page *page, const char *path, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./";
    begin_cell(page);
    put(page, "<a href=\"./");
    for (; *path; path++)
        if (strchr(plain, *path))
            mpt_str_append(&page->html, path, 1);
        else
            mpt_str_printf(&page->html, "%%%02X", (unsigned)(unsigned char)*path);
    put(page, "\">");
    put_escaped(page, text);
    put(page, "</a>");
    end_cell(page);
}

void mpt_page_end_table(mpt_page *page) {
    put(page, page->column > 0 ? "</tr>\n" : "");
    put(page, "</tbody></table></div>\n");
}

void mpt_page_text(mpt_page *page, const char *heading, const char *text) {
    put(page, "<details><summary>");
    put_escaped(page, heading);
    put(page, "</summary><pre>");
    put_escaped(page, text);
    put(page, "</pre></details>\n");
}
