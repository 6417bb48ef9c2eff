/* What tests ask of a page of a report: that it is whole, that nothing in it leads out of it,
 * and what its drawings hold. */
#ifndef MPT_TESTS_REPORT_PAGE_H
#define MPT_TESTS_REPORT_PAGE_H

#include <jansson.h>

#include "safetensors_file.h"

/* A page's text; free() it. */
static inline char *page_read(const char *path) {
    file_bytes b = bytes_read(path);
    b.data[b.size] = 0;
    assert_int_equal(strlen((const char *)b.data), b.size);
    return (char *)b.data;
}

static inline int page_count(const char *page, const char *text) {
    int n = 0;
    for (const char *at = page; (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

/* The n-th drawing's data, from 0; NULL past the last. */
static inline json_t *page_drawing(const char *page, int n) {
    const char *at = page;
    for (int i = 0; i <= n; i++) {
        at = strstr(at, "<script type=\"application/json\"");
        if (!at)
            return NULL;
        at++;
    }
    const char *from = strchr(at, '>') + 1, *to = strstr(from, "</script>");
    json_error_t error;
    json_t *json = json_loadb(from, (size_t)(to - from), 0, &error);
    if (!json)
        fail_msg("drawing %d: %s", n, error.text);
    return json;
}

/* Elements are closed as often as opened, drawings are JSON, and nothing is fetched. */
static inline void page_check(const char *page) {
    static const char *const elements[] = {"section", "table", "tr",     "td",  "figure",
                                           "dl",      "p",     "script", "main"};
    static const char *const leads_out[] = {"src=",   "href=",          "url(http", "@import",
                                            "fetch(", "XMLHttpRequest", "import ",  "https:"};
    char open[32], close[32];
    for (size_t i = 0; i < MPT_COUNT(elements); i++) {
        snprintf(open, sizeof open, "<%s>", elements[i]);
        snprintf(close, sizeof close, "</%s>", elements[i]);
        int n = page_count(page, open);
        snprintf(open, sizeof open, "<%s ", elements[i]);
        assert_int_equal(n + page_count(page, open), page_count(page, close));
    }
    for (size_t i = 0; i < MPT_COUNT(leads_out); i++)
        if (strstr(page, leads_out[i]))
            fail_msg("the page has '%s'", leads_out[i]);
    assert_int_equal(page_count(page, "http:"), page_count(page, "http://www.w3.org/2000/svg"));
    for (int i = 0;; i++) {
        json_t *json = page_drawing(page, i);
        if (!json)
            break;
        json_decref(json);
    }
    assert_true(strncmp(page, "<!doctype html>\n", 16) == 0);
    assert_non_null(strstr(page, "</html>\n"));
}

#endif
