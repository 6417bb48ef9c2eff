/* The words for what goes wrong when a field is set.
 *
 * Every message has the shape `file:line: path.name: fault; way out`. The way out comes from
 * the row: the nearest name, the choices, or the range. */
#include "recipe/schema_store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/numerics_cast.h"

enum { MAX_NAMES = 32, TEXT_MAX = MPT_ACCEPTED_TEXT };

/* ---- text of rows ---- */

/* Appends to a text of TEXT_MAX bytes; what does not fit is cut. */
static void append(char *text, const char *piece) {
    size_t used = strlen(text);
    snprintf(text + used, TEXT_MAX - used, "%s", piece);
}

/* "a, b or c" of names. */
static void list_names(char *text, const char *const *names, int n) {
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        append(text, i == 0 ? "" : i == n - 1 ? " or " : ", ");
        append(text, names[i]);
    }
}

/* The names a field takes: choices, then variants. */
static int field_names(const mpt_field *field, const char **names) {
    int n = 0;
    for (const mpt_choice *c = field->choices; c && c->name && n < MAX_NAMES; c++)
        names[n++] = c->name;
    for (int i = 0; field->variants && field->variants[i] && n < MAX_NAMES; i++)
        names[n++] = field->variants[i]->name;
    return n;
}

/* " above 0 and below 1", " of 1 or more", "". */
static void range_text(const mpt_field *field, char *text) {
    char piece[64] = "";
    bool whole = field->min == field->max;
    if (whole)
        snprintf(piece, sizeof piece, " %.17g", field->min);
    else if (field->min == ABOVE_ZERO)
        snprintf(piece, sizeof piece, " above 0");
    else if (field->min == ABOVE_ONE)
        snprintf(piece, sizeof piece, " above 1");
    else
        snprintf(piece, sizeof piece, " of %.17g or more", field->min);
    append(text, piece);
    if (whole || field->max >= COUNT_MAX)
        return;
    if (field->max == BELOW_ONE)
        snprintf(piece, sizeof piece, " and below 1");
    else
        snprintf(piece, sizeof piece, " and at most %.17g", field->max);
    append(text, piece);
}

/* Words, or a plain table of fields in their place: "none", "block" or { every = 1 }. */
static void words_or_table(const mpt_field *field, const char *const *names, int n,
                           char *text) {
    for (int i = 0; i < n; i++) {
        append(text, i ? ", \"" : "\"");
        append(text, names[i]);
        append(text, "\"");
    }
    append(text, " or { ");
    append(text, field->record->fields->name);
    append(text, " = ");
    append(text, field->record->fields->by_default);
    append(text, " }");
}

/* A record: by its only field, by one of its words, or as a whole. */
static void accepted_record(const mpt_field *field, char *text) {
    const mpt_record *record = field->record;
    const char *names[MAX_NAMES];
    char list[TEXT_MAX];
    int n = field_names(field, names);
    list_names(list, names, n);
    if (record && n && record->set_offset != SIZE_MAX) {
        words_or_table(field, names, n, text);
    } else if (mpt_field_plain(field)) {
        mpt_schema_accepted(mpt_field_plain(field)->fields, text);
        for (int i = 1; field->variants && i < n; i++) {
            append(text, i + 1 < n ? ", " : ", or ");
            append(text, names[i]);
            append(text, " { ... }");
        }
    } else if (record && n) {
        append(text, record->name);
        append(text, " { ");
        append(text, record->fields->name);
        append(text, " = ");
        append(text, record->fields->by_default);
        append(text, " } or \"");
        append(text, list);
        append(text, "\"");
    } else if (record) {
        append(text, "a table of ");
        append(text, record->name);
        append(text, ", such as { ");
        append(text, record->fields->name);
        append(text, " = ... }");
    } else {
        append(text, "one of ");
        append(text, list);
    }
}

/* What a field accepts, as the end of "give ...". */
void mpt_schema_accepted(const mpt_field *field, char text[MPT_ACCEPTED_TEXT]) {
    const char *names[MAX_NAMES];
    char list[TEXT_MAX];
    int n = field_names(field, names);
    list_names(list, names, n);
    text[0] = 0;
    switch (field->type) {
    case MPT_FIELD_BOOL:
        append(text, "true or false");
        return;
    case MPT_FIELD_INT:
        append(text, n ? list : "a whole number");
        if (!n)
            range_text(field, text);
        return;
    case MPT_FIELD_NUMBER:
        append(text, "a number");
        range_text(field, text);
        return;
    case MPT_FIELD_SPAN:
        append(text, "a whole number, or a fraction of the run from 0.0 to 1.0");
        return;
    case MPT_FIELD_PART:
        append(text, "a path, or a share");
        range_text(field, text);
        return;
    case MPT_FIELD_PAIR:
        append(text, "two numbers");
        range_text(field, text);
        return;
    case MPT_FIELD_STRING:
        append(text, "a text");
        return;
    case MPT_FIELD_RECORD:
        accepted_record(field, text);
        return;
    default:
        append(text, field->takes ? field->takes : list);
        return;
    }
}

/* A value as its writer would know it. */
static void value_text(const mpt_setting *value, char *text) {
    char piece[TEXT_MAX];
    text[0] = 0;
    bool number = value->kind == MPT_SETTING_INT || value->kind == MPT_SETTING_NUMBER;
    if (number && value->string && !isnan(value->number)) {
        snprintf(text, TEXT_MAX, "%.100s", value->string); /* as it was typed */
        return;
    }
    switch (value->kind) {
    case MPT_SETTING_BOOL:
        append(text, value->boolean ? "true" : "false");
        return;
    case MPT_SETTING_INT:
        snprintf(piece, sizeof piece, "%lld", (long long)value->integer);
        append(text, piece);
        return;
    case MPT_SETTING_NUMBER:
        if (isnan(value->number))
            snprintf(piece, sizeof piece, "NaN"); /* whose sign printf would show */
        else
            snprintf(piece, sizeof piece, "%.12g", value->number);
        append(text, piece);
        return;
    case MPT_SETTING_STRING:
        snprintf(piece, sizeof piece, "'%.100s'", value->string);
        append(text, piece);
        return;
    case MPT_SETTING_NUMBERS:
        append(text, "{");
        for (int i = 0; i < value->n && i < 8; i++) {
            snprintf(piece, sizeof piece, "%s%.12g", i ? ", " : "", value->numbers[i]);
            append(text, piece);
        }
        append(text, "}");
        return;
    }
}

/* ---- failures ---- */

static const char *dot(const char *path) {
    return *path ? "." : "";
}

/* Why an operation has no word in precision.ops. */
static const char *op_hint(const mpt_ops_row *op) {
    static const char *const moves[] = {"split", "concat", "moe_dispatch"};
    if (strcmp(op->op, "linear") == 0)
        return "rules say it: rule { \"linear\", use = bf16 }";
    for (size_t i = 0; i < MPT_COUNT(moves); i++)
        if (strcmp(op->op, moves[i]) == 0)
            return "it moves numbers and keeps their format";
    return op->kind == MPT_OPS_CLASS_LOW    ? "it puts out precision.base"
           : op->kind == MPT_OPS_CLASS_FP32 ? "it always puts out fp32"
                                            : "it always puts out the format of its input";
}

mpt_status mpt_schema_fail_unknown(mpt_ctx *ctx, const mpt_record *record, const char *path,
                                   const char *name, mpt_where where) {
    const char *names[MAX_NAMES];
    char list[TEXT_MAX];
    int n = record->n_fields < MAX_NAMES ? record->n_fields : MAX_NAMES;
    for (int i = 0; i < n; i++)
        names[i] = record->fields[i].name;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, where, "%s%sno field '%s'", path, *path ? ": " : "", name);
    const char *near = mpt_nearest(name, names, n);
    const mpt_ops_row *op = record == &mpt_record_ops ? mpt_ops_find(name) : NULL;
    list_names(list, names, n);
    if (op)
        mpt_hint(ctx, "%s", op_hint(op));
    else if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else if (n <= 1)
        mpt_hint(ctx, n ? "%s has only '%s'" : "%s has none", record->name, list);
    else
        mpt_hint(ctx, "%s has %s", record->name, list);
    return status;
}

/* Whether the name is a format, though none of those that the field takes. */
static bool other_format(const mpt_field *field, const char *name) {
    mpt_quantizer q;
    return field->type == MPT_FIELD_FORMAT && mpt_quantizer_by_name(name, &q);
}

static mpt_status fail_choice(mpt_ctx *ctx, const mpt_field *field, const char *path,
                              const mpt_setting *value, mpt_where where) {
    const char *names[MAX_NAMES];
    char text[TEXT_MAX], list[TEXT_MAX];
    int n = field_names(field, names);
    bool format = field->type == MPT_FIELD_FORMAT;
    value_text(value, text);
    list_names(list, names, n);
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: no %s %s%s", path, dot(path), field->name,
                 format ? "format" : "value", text, format ? " here" : "");
    const char *near = NULL;
    bool other = false;
    if (value->kind == MPT_SETTING_STRING) {
        near = mpt_nearest(value->string, names, n);
        other = other_format(field, value->string);
    }
    if (other)
        mpt_hint(ctx, "take %s", list);
    else if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else
        mpt_hint(ctx, n == 1 ? "it can only be %s" : "it can be %s", list);
    return status;
}

/* The end of a range that goes without saying until somebody is past it. */
static void add_far_end(const mpt_field *field, const mpt_setting *value, char *text) {
    char piece[64];
    if (value->number <= field->max || field->max < COUNT_MAX)
        return;
    snprintf(piece, sizeof piece, "%s at most %.17g",
             field->type == MPT_FIELD_SPAN ? "," : " and", field->max);
    append(text, piece);
}

mpt_status mpt_schema_fail_value(mpt_ctx *ctx, const mpt_field *field, mpt_problem problem,
                                 const char *path, const mpt_setting *value, mpt_where where) {
    static const char *const faults[] = {
        [MPT_PROBLEM_WRONG_TYPE] = "cannot be",
        [MPT_PROBLEM_NOT_FINITE] = "must be finite, not",
        [MPT_PROBLEM_NOT_INTEGER] = "must be whole, not",
        [MPT_PROBLEM_OUT_OF_RANGE] = "out of range:",
        [MPT_PROBLEM_BECOMES_ZERO] = "must not become 0 in float32, as",
        [MPT_PROBLEM_BECOMES_ONE] = "must not become 1 in float32, as",
    };
    char text[TEXT_MAX], accepted[TEXT_MAX];
    if (problem == MPT_PROBLEM_NO_CHOICE)
        return fail_choice(ctx, field, path, value, where);
    value_text(value, text);
    mpt_schema_accepted(field, accepted);
    if (problem == MPT_PROBLEM_OUT_OF_RANGE)
        add_far_end(field, value, accepted);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: %s %s", path, dot(path),
                                 field->name, faults[problem], text);
    mpt_hint(ctx, "give %s%s", accepted,
             problem == MPT_PROBLEM_BECOMES_ONE ? " in float32: at most 0.9999999" : "");
    return status;
}

mpt_status mpt_schema_fail_word(mpt_ctx *ctx, const mpt_field *field, const char *path,
                                const char *word, mpt_where where) {
    char accepted[TEXT_MAX];
    mpt_schema_accepted(field, accepted);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: cannot be %s", path,
                                 dot(path), field->name, word);
    mpt_hint(ctx, "give %s", accepted);
    return status;
}
