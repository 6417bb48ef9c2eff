/* Setting fields: by name, by dotted path, from text; and the words for what goes wrong.
 *
 * Every message has the shape `file:line: path.name: fault; way out`. The way out comes from
 * the row: the nearest name, the choices, or the range. */
#include "recipe/schema_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 32, TEXT_MAX = 256 };

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

/* What a field accepts, as the end of "give ...". */
static void accepted_text(const mpt_field *field, char *text) {
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
    case MPT_FIELD_PAIR:
        append(text, "two numbers");
        range_text(field, text);
        return;
    case MPT_FIELD_STRING:
        append(text, "a text");
        return;
    case MPT_FIELD_RECORD:
        if (field->record && field->record->n_fields == 1) {
            accepted_text(field->record->fields, text);
            return;
        }
        append(text, field->record ? "a table of " : "one of ");
        append(text, field->record ? field->record->name : list);
        append(text, field->record && n ? " or " : "");
        append(text, field->record && n ? list : "");
        return;
    default:
        append(text, n ? list : "what the reference says of it");
        return;
    }
}

/* A value as its writer would know it. */
static void value_text(const mpt_setting *value, char *text) {
    char piece[TEXT_MAX];
    text[0] = 0;
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
            snprintf(piece, sizeof piece, "%g", value->number);
        append(text, piece);
        return;
    case MPT_SETTING_STRING:
        snprintf(piece, sizeof piece, "'%.100s'", value->string);
        append(text, piece);
        return;
    case MPT_SETTING_NUMBERS:
        append(text, "{");
        for (int i = 0; i < value->n && i < 8; i++) {
            snprintf(piece, sizeof piece, "%s%g", i ? ", " : "", value->numbers[i]);
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

static mpt_status fail_unknown(mpt_ctx *ctx, const mpt_record *record, const char *path,
                               const char *name, mpt_where where) {
    const char *names[MAX_NAMES];
    char list[TEXT_MAX];
    int n = record->n_fields < MAX_NAMES ? record->n_fields : MAX_NAMES;
    for (int i = 0; i < n; i++)
        names[i] = record->fields[i].name;
    mpt_status status =
        MPT_FAIL(ctx, MPT_INVALID, where, "%s%sno field '%s'", path, *path ? ": " : "", name);
    const char *near = mpt_nearest(name, names, n);
    list_names(list, names, n);
    if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else if (n == 1)
        mpt_hint(ctx, "%s has only '%s'", record->name, list);
    else
        mpt_hint(ctx, "%s has %s", record->name, list);
    return status;
}

static mpt_status fail_choice(mpt_ctx *ctx, const mpt_field *field, const char *path,
                              const mpt_setting *value, mpt_where where) {
    const char *names[MAX_NAMES];
    char text[TEXT_MAX], list[TEXT_MAX];
    int n = field_names(field, names);
    value_text(value, text);
    list_names(list, names, n);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: no %s %s", path, dot(path),
                                 field->name, field->name, text);
    const char *near = NULL;
    if (value->kind == MPT_SETTING_STRING)
        near = mpt_nearest(value->string, names, n);
    if (near)
        mpt_hint(ctx, "did you mean '%s'?", near);
    else
        mpt_hint(ctx, n == 1 ? "it can only be %s" : "it can be %s", list);
    return status;
}

static mpt_status fail_value(mpt_ctx *ctx, const mpt_field *field, mpt_problem problem,
                             const char *path, const mpt_setting *value, mpt_where where) {
    static const char *const faults[] = {
        [MPT_PROBLEM_WRONG_TYPE] = "cannot be",
        [MPT_PROBLEM_NOT_FINITE] = "must be finite, not",
        [MPT_PROBLEM_NOT_INTEGER] = "must be whole, not",
        [MPT_PROBLEM_OUT_OF_RANGE] = "out of range:",
    };
    char text[TEXT_MAX], accepted[TEXT_MAX];
    if (problem == MPT_PROBLEM_NO_CHOICE)
        return fail_choice(ctx, field, path, value, where);
    value_text(value, text);
    accepted_text(field, accepted);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: %s %s", path, dot(path),
                                 field->name, faults[problem], text);
    mpt_hint(ctx, "give %s", accepted);
    return status;
}

/* ---- setting ---- */

const mpt_field *mpt_record_field(mpt_ctx *ctx, const mpt_record *record, const char *path,
                                  const char *name, mpt_where where) {
    const mpt_field *field = mpt_record_lookup(record, name);
    if (!field)
        (void)fail_unknown(ctx, record, path, name, where);
    return field;
}

static mpt_status set_string(mpt_ctx *ctx, mpt_arena *arena, const mpt_field *field,
                             void *member, const char *path, const mpt_setting *value,
                             mpt_where where) {
    if (value->kind != MPT_SETTING_STRING)
        return fail_value(ctx, field, MPT_PROBLEM_WRONG_TYPE, path, value, where);
    const char *copy = mpt_arena_strdup(arena, value->string);
    if (!copy)
        return MPT_OUT_OF_MEMORY;
    memcpy(member, &copy, sizeof copy);
    return MPT_OK;
}

mpt_status mpt_record_set(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                          void *object, const char *path, const char *name,
                          const mpt_setting *value, mpt_where where) {
    const mpt_field *field = mpt_record_field(ctx, record, path, name, where);
    int64_t nowhere[8] = {0}; /* where values go that are only checked */
    if (!field)
        return MPT_INVALID;
    void *member = field->offset == SIZE_MAX ? (void *)nowhere : (char *)object + field->offset;
    if (field->type == MPT_FIELD_STRING)
        MPT_TRY(set_string(ctx, arena, field, member, path, value, where));
    mpt_problem problem = MPT_PROBLEM_NONE;
    if (field->type != MPT_FIELD_STRING)
        problem = mpt_field_store(field, member, value);
    if (problem)
        return fail_value(ctx, field, problem, path, value, where);
    mpt_record_mark(record, object, field);
    return MPT_OK;
}

mpt_status mpt_record_put(mpt_ctx *ctx, const mpt_record *record, void *object,
                          const char *path, const char *name, const mpt_record *what,
                          const void *value, mpt_where where) {
    const mpt_field *field = mpt_record_field(ctx, record, path, name, where);
    if (!field)
        return MPT_INVALID;
    bool fits = field->type == MPT_FIELD_RECORD &&
                (field->variants ? mpt_field_variant(field, what->name) == what
                                 : field->record == what);
    if (!fits) {
        char accepted[TEXT_MAX];
        accepted_text(field, accepted);
        mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: cannot be %s", path,
                                     dot(path), field->name, what->name);
        mpt_hint(ctx, "give %s", accepted);
        return status;
    }
    if (field->bytes)
        memcpy((char *)object + field->offset, value, field->bytes);
    mpt_record_mark(record, object, field);
    return MPT_OK;
}

/* ---- text ---- */

/* The whole text as a number; the C locale's point, as recipes are written. */
static bool parse_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0;
}

/* "0.9,0.95" or "16x16". */
static bool parse_numbers(const char *text, mpt_setting *out) {
    char *end;
    out->integral = true;
    for (out->n = 0; out->n < 8;) {
        double number = strtod(text, &end);
        if (end == text)
            return false;
        out->numbers[out->n++] = number;
        out->integral = out->integral && number == floor(number);
        if (*end == 0)
            return true;
        if (*end != ',' && *end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

void mpt_setting_parse(const mpt_field *field, const char *text, mpt_setting *out) {
    mpt_field_type type = field->type;
    char *end;
    if (type == MPT_FIELD_RECORD && field->record && field->record->n_fields == 1)
        type = field->record->fields[0].type;
    *out = (mpt_setting){.kind = MPT_SETTING_STRING, .string = text};
    bool numeric = type == MPT_FIELD_INT || type == MPT_FIELD_NUMBER || type == MPT_FIELD_SPAN;
    if (numeric && *text && strspn(text, "+-0123456789") == strlen(text)) {
        out->integer = strtoll(text, &end, 10); /* past the range it gives the nearest */
        out->number = (double)out->integer;
        if (*end == 0)
            out->kind = MPT_SETTING_INT;
    } else if (numeric && parse_number(text, &out->number)) {
        out->kind = MPT_SETTING_NUMBER;
    } else if (type == MPT_FIELD_PAIR && parse_numbers(text, out)) {
        out->kind = MPT_SETTING_NUMBERS;
    } else if (type == MPT_FIELD_BOOL &&
               (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        out->kind = MPT_SETTING_BOOL;
        out->boolean = *text == 't';
    }
}

/* Steps from a record into an embedded one. A record that was never set starts from its
 * defaults; "lr.peak" without "lr" takes the first variant. */
static mpt_status enter(mpt_ctx *ctx, const mpt_record **record, void **object,
                        const char *path, const char *name, mpt_where where) {
    const mpt_field *field = mpt_record_field(ctx, *record, path, name, where);
    if (!field)
        return MPT_INVALID;
    if (field->type != MPT_FIELD_RECORD) {
        mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where,
                                     "%s%s%s: has no fields of its own", path, dot(path), name);
        mpt_hint(ctx, "set it as a whole");
        return status;
    }
    void *member = (char *)*object + field->offset;
    const mpt_record *inner = mpt_field_record(field, member);
    bool known = mpt_record_has(*record, *object, field);
    if (field->bytes && (*record)->set_offset != SIZE_MAX && !known)
        mpt_record_init(inner, member);
    mpt_record_mark(*record, *object, field);
    *record = inner;
    *object = member;
    return MPT_OK;
}

mpt_status mpt_record_set_under(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                                void *object, const mpt_text_setting *setting) {
    char before[TEXT_MAX], name[64];
    const char *rest = setting->path, *prefix = setting->prefix;
    mpt_where where = setting->where;
    snprintf(before, sizeof before, "%s", prefix);
    for (const char *end = strchr(rest, '.'); end; end = strchr(rest, '.')) {
        snprintf(name, sizeof name, "%.*s", (int)(end - rest), rest);
        MPT_TRY(enter(ctx, &record, &object, before, name, where));
        snprintf(before, sizeof before, "%s%s%.*s", prefix, dot(prefix),
                 (int)(end - setting->path), setting->path);
        rest = end + 1;
    }
    mpt_setting value;
    const mpt_field *field = mpt_record_field(ctx, record, before, rest, where);
    if (!field)
        return MPT_INVALID;
    if (field->type == MPT_FIELD_SPECIAL) {
        mpt_status status =
            MPT_FAIL(ctx, MPT_INVALID, where, "%s%s%s: cannot be set from a text", before,
                     dot(before), rest);
        mpt_hint(ctx, "change it in the recipe itself");
        return status;
    }
    mpt_setting_parse(field, setting->text, &value);
    return mpt_record_set(ctx, arena, record, object, before, rest, &value, where);
}

mpt_status mpt_record_set_path(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                               void *object, const char *path, const char *text,
                               mpt_where where) {
    mpt_text_setting setting = {"", path, text, where};
    return mpt_record_set_under(ctx, arena, record, object, &setting);
}
