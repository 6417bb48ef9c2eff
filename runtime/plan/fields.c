/* The canonical text read back by fields. See fields.h. */
#include "plan/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"

enum { VALUE = 1024 };

/* ---- values as people read them ---- */

/* One word of a value: a number in the fewest digits that are it, with separators where it is
 * long; anything else as it is. */
static void add_word(mpt_words *out, const char *word, bool is_seed) {
    char *end, text[64];
    double number = strtod(word, &end);
    if (end == word || *end || !isfinite(number) || is_seed) {
        mpt_words_add(out, "%s", word);
        return;
    }
    if (number == floor(number) && fabs(number) >= 10 && fabs(number) < 0x1p63) {
        mpt_words_count(out, (int64_t)number);
        return;
    }
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, number);
    while (strtod(text, NULL) != number && ++digits <= 17);
    mpt_words_add(out, "%s", text);
}

const char *mpt_field_readable(mpt_arena *arena, const char *name, const char *value,
                               size_t length) {
    mpt_words out = {.len = 0};
    size_t n = strlen(name);
    bool is_seed = n >= 4 && strcmp(name + n - 4, "seed") == 0;
    char word[VALUE];
    for (size_t at = 0; at < length;) {
        size_t size = strcspn(value + at, " \n");
        snprintf(word, sizeof word, "%.*s", (int)size, value + at);
        add_word(&out, word, is_seed);
        at += size;
        if (at < length)
            mpt_words_add(&out, "%c", value[at++]);
    }
    return mpt_arena_strdup(arena, out.len ? out.data : "none");
}

/* ---- lines of the canonical text ---- */

bool mpt_field_starts(const mpt_field_line *l, const char *with) {
    return l->n_name >= strlen(with) && strncmp(l->name, with, strlen(with)) == 0;
}

bool mpt_field_next(const char **text, mpt_field_line *out) {
    const char *p = *text;
    while (p && *p) {
        size_t length = strcspn(p, "\n");
        const char *begin = p, *end = p + length, *equals = strstr(p, " =");
        p += length + (*end == '\n');
        *text = p;
        if (!equals || equals >= end)
            continue;
        const char *value = equals + 2 + (equals[2] == ' ');
        *out = (mpt_field_line){begin, value, (size_t)(equals - begin), (size_t)(end - value)};
        if (!mpt_field_starts(out, "precision.rules[") && !mpt_field_starts(out, "phases["))
            return true;
    }
    return false;
}
