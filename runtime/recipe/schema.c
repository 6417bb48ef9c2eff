/* The schema at work: looks rows up, checks values against them and stores them.
 *
 * The rows are in schema_quantizer.c, schema_precision.c, schema_train.c and
 * schema_data.c. Conversion (store)
 * knows no context and no text, so that defaults pass through the same code as what a user
 * wrote; mpt_record_set turns what went wrong into words (schema_error.c). */
#include "recipe/schema_store.h"

#include <math.h>
#include <string.h>

static const mpt_record *const records[] = {
    &mpt_record_recipe,      &mpt_record_precision,     &mpt_record_state,
    &mpt_record_static,      &mpt_record_dynamic,       &mpt_record_rule,
    &mpt_record_gemm,        &mpt_record_fprop,         &mpt_record_dgrad,
    &mpt_record_wgrad,       &mpt_record_quantizer,     &mpt_record_delayed,
    &mpt_record_fixed_scale, &mpt_record_four_over_six, &mpt_record_hadamard,
    &mpt_record_phase,       &mpt_record_train,         &mpt_record_proxy,
    &mpt_record_recompute,   &mpt_record_eval,          &mpt_record_adamw,
    &mpt_record_sgd,         &mpt_record_constant,      &mpt_record_linear,
    &mpt_record_cosine,      &mpt_record_wsd,           &mpt_record_synthetic,
    &mpt_record_text,        &mpt_record_tokens,        &mpt_record_batches,
    &mpt_record_ops,         &mpt_record_checkpoint,    &mpt_record_watch,
    &mpt_record_spike,       &mpt_record_telemetry,     &mpt_record_file,
};

const mpt_record *mpt_record_find(const char *name) {
    for (size_t i = 0; i < MPT_COUNT(records); i++)
        if (strcmp(records[i]->name, name) == 0)
            return records[i];
    return NULL;
}

const mpt_record *const *mpt_record_all(int *out_n) {
    *out_n = (int)MPT_COUNT(records);
    return records;
}

const mpt_field *mpt_record_lookup(const mpt_record *record, const char *name) {
    for (int i = 0; i < record->n_fields; i++)
        if (strcmp(record->fields[i].name, name) == 0)
            return &record->fields[i];
    return NULL;
}

const mpt_record *mpt_field_variant(const mpt_field *field, const char *name) {
    for (int i = 0; field->variants && field->variants[i]; i++)
        if (strcmp(field->variants[i]->name, name) == 0)
            return field->variants[i];
    return NULL;
}

const mpt_record *mpt_field_record(const mpt_field *field, const void *member) {
    int32_t kind = 0;
    if (!field->variants)
        return field->record;
    memcpy(&kind, member, sizeof kind);
    for (int i = 0; field->variants[i]; i++)
        if (field->variants[i]->kind == kind)
            return field->variants[i];
    return NULL;
}

const mpt_record *mpt_field_plain(const mpt_field *field) {
    const mpt_record *record = field->variants ? field->variants[0] : field->record;
    return record && record->n_fields == 1 && !field->choices ? record : NULL;
}

const char *mpt_field_word(const mpt_field *field, const void *member) {
    int64_t value = 0;
    int32_t parts[2];
    if (field->variants && mpt_field_record(field, member))
        return mpt_field_record(field, member)->name;
    memcpy(parts, member, field->type == MPT_FIELD_BLOCK ? sizeof parts : sizeof parts[0]);
    value = field->type == MPT_FIELD_BLOCK ? BLOCK_VALUE(parts[0], parts[1]) : parts[0];
    for (const mpt_choice *c = field->choices; c && c->name; c++)
        if (c->value == value)
            return c->name;
    return NULL;
}

/* ---- storing ---- */

static mpt_problem store_integer(const mpt_field *field, void *member, int64_t value) {
    int32_t narrow = (int32_t)value;
    if (field->bytes == sizeof narrow)
        memcpy(member, &narrow, sizeof narrow);
    else if (field->bytes)
        memcpy(member, &value, sizeof value);
    return MPT_PROBLEM_NONE;
}

static mpt_problem store_int(const mpt_field *field, void *member, const mpt_setting *value) {
    int64_t integer = value->integer;
    if (value->kind == MPT_SETTING_NUMBER) {
        if (!isfinite(value->number))
            return MPT_PROBLEM_NOT_FINITE;
        if (value->number != floor(value->number))
            return MPT_PROBLEM_NOT_INTEGER;
        if (value->number < field->min || value->number > field->max)
            return MPT_PROBLEM_OUT_OF_RANGE;
        integer = (int64_t)value->number;
    } else if (value->kind != MPT_SETTING_INT) {
        return MPT_PROBLEM_WRONG_TYPE;
    }
    if ((double)integer < field->min || (double)integer > field->max)
        return MPT_PROBLEM_OUT_OF_RANGE;
    for (const mpt_choice *c = field->choices; c && c->value != integer; c++)
        if (!c[1].name)
            return MPT_PROBLEM_NO_CHOICE;
    return store_integer(field, member, integer);
}

static mpt_problem check_number(const mpt_field *field, double number) {
    if (!isfinite(number))
        return MPT_PROBLEM_NOT_FINITE;
    if (number < field->min || number > field->max)
        return MPT_PROBLEM_OUT_OF_RANGE;
    if (number != 0 && (float)number == 0)
        return MPT_PROBLEM_BECOMES_ZERO;
    return field->max == BELOW_ONE && (float)number == 1 ? MPT_PROBLEM_BECOMES_ONE
                                                         : MPT_PROBLEM_NONE;
}

static mpt_problem store_number(const mpt_field *field, void *member,
                                const mpt_setting *value) {
    if (value->kind != MPT_SETTING_INT && value->kind != MPT_SETTING_NUMBER)
        return MPT_PROBLEM_WRONG_TYPE;
    mpt_problem problem = check_number(field, value->number);
    if (!problem)
        memcpy(member, &value->number, sizeof value->number);
    return problem;
}

/* A float up to 1 is a fraction of the run; all else is a count, and counts are whole. */
static mpt_problem store_span(const mpt_field *field, void *member, const mpt_setting *value) {
    if (value->kind != MPT_SETTING_INT && value->kind != MPT_SETTING_NUMBER)
        return MPT_PROBLEM_WRONG_TYPE;
    mpt_problem problem = check_number(field, value->number);
    bool fraction = value->kind == MPT_SETTING_NUMBER && value->number <= 1.0;
    if (!problem && !fraction && value->number != floor(value->number))
        problem = MPT_PROBLEM_NOT_INTEGER;
    if (problem)
        return problem;
    memcpy(member, &value->number, sizeof value->number);
    memcpy((char *)member + offsetof(mpt_span, fraction), &fraction, sizeof fraction);
    return MPT_PROBLEM_NONE;
}

static mpt_problem store_pair(const mpt_field *field, void *member, const mpt_setting *value) {
    if (value->kind != MPT_SETTING_NUMBERS || value->n != 2)
        return MPT_PROBLEM_WRONG_TYPE;
    for (int i = 0; i < 2; i++) {
        mpt_problem problem = check_number(field, value->numbers[i]);
        if (problem)
            return problem;
    }
    memcpy(member, value->numbers, 2 * sizeof(double));
    return MPT_PROBLEM_NONE;
}

/* A share; a path is copied by mpt_record_set, which has the arena. */
static mpt_problem store_part(const mpt_field *field, void *member, const mpt_setting *value) {
    mpt_part part = {0, NULL};
    mpt_problem problem = store_number(field, &part.share, value);
    if (!problem)
        memcpy(member, &part, sizeof part);
    return problem;
}

static mpt_problem store_block(const mpt_field *field, void *member, const mpt_setting *value) {
    bool list = value->kind == MPT_SETTING_NUMBERS && value->n == 2;
    if (!list && value->kind != MPT_SETTING_STRING)
        return MPT_PROBLEM_WRONG_TYPE;
    for (const mpt_choice *c = field->choices; c->name; c++) {
        int32_t block[2] = {(int32_t)(c->value >> 32), (int32_t)c->value};
        if (list
                ? block[0] > 0 && value->numbers[0] == block[0] && value->numbers[1] == block[1]
                : strcmp(c->name, value->string) == 0) {
            memcpy(member, block, sizeof block);
            return MPT_PROBLEM_NONE;
        }
    }
    return MPT_PROBLEM_NO_CHOICE;
}

static mpt_problem store_choice(const mpt_field *field, void *member,
                                const mpt_setting *value) {
    if (value->kind != MPT_SETTING_STRING)
        return MPT_PROBLEM_WRONG_TYPE;
    for (const mpt_choice *c = field->choices; c->name; c++)
        if (strcmp(c->name, value->string) == 0)
            return store_integer(field, member, c->value);
    return MPT_PROBLEM_NO_CHOICE;
}

/* The one value of a record that has no more: 1024 for static(1024). */
static mpt_problem store_plain(const mpt_field *field, const mpt_record *record, void *member,
                               const mpt_setting *value) {
    const mpt_field *only = record->fields;
    if (!field->variants)
        return mpt_field_store(only, member, value);
    double stored[2] = {0, 0};
    mpt_problem problem = mpt_field_store(only, stored, value);
    if (problem)
        return problem;
    memset(member, 0, field->bytes);
    mpt_record_init(record, member);
    memcpy((char *)member + only->offset, stored, only->bytes);
    return MPT_PROBLEM_NONE;
}

/* A record by name (one of its variants, or of the choices that have no fields), or by its only
 * value. */
static mpt_problem store_record(const mpt_field *field, void *member,
                                const mpt_setting *value) {
    bool text = value->kind == MPT_SETTING_STRING;
    const mpt_record *plain = mpt_field_plain(field);
    if (plain && !(text && field->variants))
        return store_plain(field, plain, member, value);
    if (!text || (!field->variants && !field->choices))
        return MPT_PROBLEM_WRONG_TYPE;
    const mpt_record *variant = mpt_field_variant(field, value->string);
    const mpt_choice *choice = field->choices;
    while (choice && choice->name && strcmp(choice->name, value->string) != 0)
        choice++;
    bool chosen = choice && choice->name;
    if (!variant && !chosen)
        return MPT_PROBLEM_NO_CHOICE;
    memset(member, 0, field->bytes);
    if (variant) {
        mpt_record_init(variant, member);
    } else {
        int32_t kind = (int32_t)choice->value;
        memcpy(member, &kind, sizeof kind);
    }
    return MPT_PROBLEM_NONE;
}

mpt_problem mpt_field_store(const mpt_field *field, void *member, const mpt_setting *value) {
    switch (field->type) {
    case MPT_FIELD_BOOL:
        if (value->kind != MPT_SETTING_BOOL)
            return MPT_PROBLEM_WRONG_TYPE;
        memcpy(member, &value->boolean, sizeof value->boolean);
        return MPT_PROBLEM_NONE;
    case MPT_FIELD_INT:
        return store_int(field, member, value);
    case MPT_FIELD_NUMBER:
        return store_number(field, member, value);
    case MPT_FIELD_SPAN:
        return store_span(field, member, value);
    case MPT_FIELD_PAIR:
        return store_pair(field, member, value);
    case MPT_FIELD_PART:
        return store_part(field, member, value);
    case MPT_FIELD_BLOCK:
        return store_block(field, member, value);
    case MPT_FIELD_CHOICE:
    case MPT_FIELD_FORMAT:
        return store_choice(field, member, value);
    case MPT_FIELD_RECORD:
        return store_record(field, member, value);
    case MPT_FIELD_STRING: /* copied by mpt_record_set, which has the arena */
    case MPT_FIELD_SPECIAL:
        break;
    }
    return MPT_PROBLEM_WRONG_TYPE;
}

void mpt_record_init(const mpt_record *record, void *object) {
    if (record->kind >= 0)
        memcpy(object, &record->kind, sizeof record->kind);
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        mpt_setting value;
        if (field->offset == SIZE_MAX)
            continue;
        if (field->type == MPT_FIELD_RECORD && field->bytes == 0) {
            mpt_record_init(field->record, object);
            continue;
        }
        if (field->always) {
            mpt_record_init(field->record, (char *)object + field->offset);
            continue;
        }
        /* "required", "by format" and the like are no values: the member stays as it is. */
        mpt_setting_parse(field, field->by_default, &value);
        (void)mpt_field_store(field, (char *)object + field->offset, &value);
    }
}

void mpt_record_mark(const mpt_record *record, void *object, const mpt_field *field) {
    uint64_t set;
    if (record->set_offset == SIZE_MAX)
        return;
    memcpy(&set, (char *)object + record->set_offset, sizeof set);
    set |= UINT64_C(1) << (field - record->fields);
    memcpy((char *)object + record->set_offset, &set, sizeof set);
}

bool mpt_record_has(const mpt_record *record, const void *object, const mpt_field *field) {
    uint64_t set = 0;
    if (record->set_offset != SIZE_MAX)
        memcpy(&set, (const char *)object + record->set_offset, sizeof set);
    return set >> (field - record->fields) & 1;
}
