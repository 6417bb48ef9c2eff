/* Setting fields: by name, by dotted path, from text.
 *
 * The one way into the IR, for Lua, --set and hosts alike. Conversion is schema.c's, the words
 * for what goes wrong are schema_error.c's. */
#include "recipe/schema_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 256 };
_Static_assert(sizeof(mpt_lr) <= 16 * sizeof(double) &&
                   sizeof(mpt_optimizer) <= 16 * sizeof(double) &&
                   sizeof(mpt_data_spec) <= 16 * sizeof(double) &&
                   sizeof(mpt_scale_source) <= 16 * sizeof(double) &&
                   sizeof(mpt_loss_scale) <= 16 * sizeof(double),
               "mpt_record_set keeps any of them while it changes its kind");

static const char *dot(const char *path) {
    return *path ? "." : "";
}

/* ---- setting ---- */

const mpt_field *mpt_record_field(mpt_ctx *ctx, const mpt_record *record, const char *path,
                                  const char *name, mpt_where where) {
    const mpt_field *field = mpt_record_lookup(record, name);
    if (!field)
        (void)mpt_schema_fail_unknown(ctx, record, path, name, where);
    return field;
}

static mpt_status set_string(mpt_ctx *ctx, mpt_arena *arena, const mpt_field *field,
                             void *member, const char *path, const mpt_setting *value,
                             mpt_where where) {
    if (value->kind != MPT_SETTING_STRING)
        return mpt_schema_fail_value(ctx, field, MPT_PROBLEM_WRONG_TYPE, path, value, where);
    const char *copy = mpt_arena_strdup(arena, value->string);
    if (!copy)
        return MPT_OUT_OF_MEMORY;
    if (field->type == MPT_FIELD_PART)
        memcpy((char *)member + offsetof(mpt_part, path), &copy, sizeof copy);
    else
        memcpy(member, &copy, sizeof copy);
    return MPT_OK;
}

/* Another word for a field that was set before ("train.lr" from wsd to cosine): what both words
 * have, such as peak and warmup, stays as it was said. `old` is the struct before the change.
 */
static void keep_common(const mpt_field *field, const void *old, void *member) {
    const mpt_record *before = mpt_field_record(field, old);
    const mpt_record *now = mpt_field_record(field, member);
    for (int i = 0; before && now && i < now->n_fields; i++) {
        const mpt_field *inner = &now->fields[i];
        const mpt_field *was = mpt_record_lookup(before, inner->name);
        if (!was)
            continue;
        memcpy((char *)member + inner->offset, (const char *)old + inner->offset, inner->bytes);
        if (before->set_offset != SIZE_MAX && mpt_record_has(before, old, was))
            mpt_record_mark(now, member, inner);
    }
}

mpt_status mpt_record_set(mpt_ctx *ctx, mpt_arena *arena, const mpt_record *record,
                          void *object, const char *path, const char *name,
                          const mpt_setting *value, mpt_where where) {
    const mpt_field *field = mpt_record_field(ctx, record, path, name, where);
    int64_t nowhere[8] = {0}; /* where values go that are only checked */
    if (!field)
        return MPT_INVALID;
    void *member = field->offset == SIZE_MAX ? (void *)nowhere : (char *)object + field->offset;
    bool text = field->type == MPT_FIELD_STRING ||
                (field->type == MPT_FIELD_PART && value->kind == MPT_SETTING_STRING);
    if (text)
        MPT_TRY(set_string(ctx, arena, field, member, path, value, where));
    double old[16]; /* the largest struct with variants, aligned for all of them */
    bool again = field->variants && mpt_record_has(record, object, field);
    if (again)
        memcpy(old, member, field->bytes);
    mpt_problem problem = MPT_PROBLEM_NONE;
    if (field->refined && value->kind == MPT_SETTING_STRING)
        MPT_TRY(mpt_state_format_parse(ctx, arena, field, member, path, value, where));
    else if (!text)
        problem = mpt_field_store(field, member, value);
    if (problem)
        return mpt_schema_fail_value(ctx, field, problem, path, value, where);
    if (again)
        keep_common(field, old, member);
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
    if (!fits)
        return mpt_schema_fail_word(ctx, field, path, what->name, where);
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
    if (type == MPT_FIELD_RECORD && mpt_field_plain(field))
        type = mpt_field_plain(field)->fields[0].type;
    *out = (mpt_setting){.kind = MPT_SETTING_STRING, .string = text};
    bool numeric = type == MPT_FIELD_INT || type == MPT_FIELD_NUMBER ||
                   type == MPT_FIELD_SPAN || type == MPT_FIELD_PART;
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
 * defaults; "lr.peak" without "lr" takes the first variant. A word without fields has no way
 * in. */
static mpt_status enter(mpt_ctx *ctx, const mpt_record **record, void **object,
                        const char *path, const char *name, mpt_where where) {
    const mpt_field *field = mpt_record_field(ctx, *record, path, name, where);
    if (!field)
        return MPT_INVALID;
    bool is_new = (*record)->set_offset != SIZE_MAX && !mpt_record_has(*record, *object, field);
    bool is_record = field->type == MPT_FIELD_RECORD;
    void *member = is_record ? (char *)*object + field->offset : NULL;
    const mpt_record *inner = is_record ? mpt_field_record(field, member) : NULL;
    if (field->variants && is_new)
        inner = field->variants[0];
    if (!inner) {
        mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where,
                                     "%s%s%s: has no fields of its own", path, dot(path), name);
        mpt_hint(ctx, "set it as a whole");
        return status;
    }
    if (field->bytes && is_new)
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
