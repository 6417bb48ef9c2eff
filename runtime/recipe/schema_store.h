/* Inside the schema: what schema.c (conversion), schema_error.c (words) and schema_set.c share.
 */
#ifndef MPT_RECIPE_SCHEMA_STORE_H
#define MPT_RECIPE_SCHEMA_STORE_H

#include "recipe/schema_rows.h"

/* What can be wrong with a value. */
typedef enum mpt_problem {
    MPT_PROBLEM_NONE,
    MPT_PROBLEM_WRONG_TYPE,
    MPT_PROBLEM_NO_CHOICE,
    MPT_PROBLEM_NOT_FINITE,
    MPT_PROBLEM_NOT_INTEGER,
    MPT_PROBLEM_OUT_OF_RANGE,
    MPT_PROBLEM_BECOMES_ZERO, /* training works in float32, which has no such number */
    MPT_PROBLEM_BECOMES_ONE
} mpt_problem;

/* Checks a value and writes it to the member; `member` is untouched where there is a problem.
 */
mpt_problem mpt_field_store(const mpt_field *field, void *member, const mpt_setting *value);

/* The row of a name; the variant of a name; the record that a member has now, NULL where it
 * holds a word without fields. */
const mpt_field *mpt_record_lookup(const mpt_record *record, const char *name);
const mpt_record *mpt_field_variant(const mpt_field *field, const char *name);
const mpt_record *mpt_field_record(const mpt_field *field, const void *member);

/* The record that a plain value alone fills: the field's, or its first variant, where that has
 * one row; else NULL. */
const mpt_record *mpt_field_plain(const mpt_field *field);

/* The word that a member holds: of a choice, a format, or a record that is chosen by name; NULL
 * where the field has no words or the value is none of them. */
const char *mpt_field_word(const mpt_field *field, const void *member);

/* The quantizer that the member of a refined format is the `format` of; NULL for other fields.
 */
mpt_quantizer *mpt_field_refined(const mpt_field *field, void *member);

/* Whether the fields of a state's format go together. `path` is the state's. */
mpt_status mpt_state_format_validate(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                                     mpt_where where);

/* Reads "bf16", or "e4m3 block=1x128 rounding=stochastic", into a refined format; `path` is
 * that of the record. The member is untouched where it is refused. */
mpt_status mpt_state_format_parse(mpt_ctx *ctx, mpt_arena *arena, const mpt_field *field,
                                  void *member, const char *path, const mpt_setting *value,
                                  mpt_where where);

/* The bit of a field in the record's mask. */
void mpt_record_mark(const mpt_record *record, void *object, const mpt_field *field);
bool mpt_record_has(const mpt_record *record, const void *object, const mpt_field *field);

/* Set the error, in the words of schema_error.c: no such field; a value with a problem; a
 * record that the field does not take. All give MPT_INVALID. */
mpt_status mpt_schema_fail_unknown(mpt_ctx *ctx, const mpt_record *record, const char *path,
                                   const char *name, mpt_where where);
mpt_status mpt_schema_fail_value(mpt_ctx *ctx, const mpt_field *field, mpt_problem problem,
                                 const char *path, const mpt_setting *value, mpt_where where);
mpt_status mpt_schema_fail_word(mpt_ctx *ctx, const mpt_field *field, const char *path,
                                const char *word, mpt_where where);

/* mpt_record_set_path where the object itself has a path, which messages put in front. */
typedef struct mpt_text_setting {
    const char *prefix; /* "precision.rules[2].use", or "" */
    const char *path;   /* from there on */
    const char *text;
    mpt_where where;
} mpt_text_setting;
mpt_status mpt_record_set_under(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                                void *object, const mpt_text_setting *setting);

/* What a field accepts, as the end of "give ...": "'nearest' or 'stochastic'". */
enum { MPT_ACCEPTED_TEXT = 256 };
void mpt_schema_accepted(const mpt_field *field, char text[MPT_ACCEPTED_TEXT]);

#endif
