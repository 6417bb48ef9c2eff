/* A recipe's fields, as its canonical text (recipe/print.c) has them: a line a field. Lines on
 * rules and phases are left out, which are compared by what they come to. */
#ifndef MPT_PLAN_FIELDS_H
#define MPT_PLAN_FIELDS_H

#include "base/base.h"

/* A line "name = value"; both lie in the text. */
typedef struct mpt_field_line {
    const char *name, *value;
    size_t n_name, n_value;
} mpt_field_line;

/* The next line that is no part of a rule or of a phase; false at the end. */
bool mpt_field_next(const char **text, mpt_field_line *out);

bool mpt_field_starts(const mpt_field_line *line, const char *with);

/* A value as people read it: numbers in the fewest digits that are them, with separators where
 * they are long. NULL where memory ran out. */
const char *mpt_field_readable(mpt_arena *arena, const char *name, const char *value,
                               size_t length);

#endif
