/* How the text plan is laid out: numbers as people read them, a left column of names, tables.
 */
#ifndef MPT_PLAN_TEXT_H
#define MPT_PLAN_TEXT_H

#include "base/table.h"

/* A short text being put together on the stack; what does not fit is cut. */
typedef struct mpt_words {
    char data[1024];
    size_t len;
} mpt_words;

void mpt_words_add(mpt_words *words, const char *fmt, ...) MPT_PRINTF(2, 3);

/* Numbers with separators ("12,310,001,152") and to three digits with a unit ("10.0 T"). */
void mpt_words_count(mpt_words *words, int64_t n);
void mpt_words_things(mpt_words *words, int64_t n, const char *one); /* "1 step", "2 steps" */
void mpt_words_about(mpt_words *words, double n);

/* A name in the left column and text beside it, broken at spaces before column 96. */
void mpt_text_line(mpt_str *out, const char *name, const char *text);
void mpt_text_linef(mpt_str *out, const char *name, const char *fmt, ...) MPT_PRINTF(3, 4);

/* Prints a table, indented, and frees it. */
void mpt_text_table(mpt_str *out, mpt_table *table);

#endif
