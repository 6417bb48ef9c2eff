/* The layout of the text plan: see text.h. */
#include "plan/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_COLUMN = 12, LAST_COLUMN = 96 };

void mpt_words_add(mpt_words *words, const char *fmt, ...) {
    va_list args;
    size_t room = sizeof words->data - words->len;
    va_start(args, fmt);
    int n = vsnprintf(words->data + words->len, room, fmt, args);
    va_end(args);
    if (n > 0)
        words->len += (size_t)n < room ? (size_t)n : room - 1;
}

void mpt_words_count(mpt_words *words, int64_t n) {
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    for (int i = 0; i < len; i++) {
        bool comma = i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-';
        mpt_words_add(words, "%s%c", comma ? "," : "", digits[i]);
    }
}

void mpt_words_things(mpt_words *words, int64_t n, const char *one) {
    mpt_words_count(words, n);
    mpt_words_add(words, " %s%s", one, n == 1 ? "" : "s");
}

void mpt_words_about(mpt_words *words, double n) {
    static const char units[] = {'k', 'M', 'G', 'T', 'P', 'E'};
    int unit = -1;
    while (n >= 999.5 && unit + 1 < (int)sizeof units) {
        n /= 1000;
        unit++;
    }
    if (unit < 0)
        mpt_words_add(words, "%.0f", n);
    else
        mpt_words_add(words, "%.*f %c", n < 9.995 ? 2 : n < 99.95 ? 1 : 0, n, units[unit]);
}

void mpt_text_line(mpt_str *out, const char *name, const char *text) {
    int column = NAME_COLUMN;
    mpt_str_printf(out, "%-*s", NAME_COLUMN, name);
    for (bool first = true; *text; first = false) {
        int word = (int)strcspn(text, " ");
        if (!first && column + 1 + word > LAST_COLUMN) {
            mpt_str_printf(out, "\n%*s", NAME_COLUMN, "");
            column = NAME_COLUMN;
            first = true;
        }
        mpt_str_printf(out, "%s%.*s", first ? "" : " ", word, text);
        column += word + !first;
        text += word + (text[word] == ' ');
    }
    mpt_str_append(out, "\n", 1);
}

void mpt_text_linef(mpt_str *out, const char *name, const char *fmt, ...) {
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_text_line(out, name, text);
}

void mpt_text_table(mpt_str *out, mpt_table *table) {
    mpt_str text;
    mpt_str_init(&text, out->ctx);
    mpt_table_print(table, &text);
    for (const char *p = text.data; p && *p;) {
        size_t len = strcspn(p, "\n");
        mpt_str_printf(out, "  %.*s\n", (int)len, p);
        p += len + (p[len] == '\n');
    }
    out->failed |= text.failed;
    mpt_str_deinit(&text);
    mpt_table_deinit(table);
}
