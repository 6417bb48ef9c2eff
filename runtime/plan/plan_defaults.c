/* The fields that a recipe does not say, and what they became.
 *
 * Which fields were said is in the masks of the records; the values are those of the rows,
 * except where a default depends on other fields. Paths and values are in the words of --set,
 * so that a line of the plan can be given back to the command. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "recipe/schema_store.h"

typedef struct finder {
    mpt_arena *arena;
    mpt_plan *plan;
    int cap;
    bool failed;
} finder;

static void add(finder *f, const char *path, const char *name, const char *value) {
    mpt_plan *plan = f->plan;
    mpt_plan_default *grown =
        mpt_arena_grow(f->arena, plan->defaults, sizeof *grown, plan->n_defaults, &f->cap);
    const char *whole = mpt_arena_printf(f->arena, "%s%s%s", path, *path ? "." : "", name);
    f->failed = f->failed || !grown || !whole || !value;
    if (f->failed)
        return;
    plan->defaults = grown;
    grown[plan->n_defaults++] = (mpt_plan_default){whole, value};
}

/* A default is worth a word where its row has a value: "required" and "this or tokens" do not
 * stand for one. */
static bool has_default(const mpt_field *field) {
    return field->type != MPT_FIELD_SPECIAL && field->by_default && *field->by_default &&
           strcmp(field->by_default, "required") != 0 &&
           strncmp(field->by_default, "this or", 7) != 0;
}

/* What a default is that depends on others; else what its row says. */
static const char *value_of(finder *f, const mpt_field *field) {
    const mpt_program *p = f->plan->program;
    if (strcmp(field->by_default, "precision.base") == 0)
        return mpt_dtype_name(mpt_stored_format(p->recipe->base));
    if (strcmp(field->name, "micro_batch") == 0)
        return mpt_arena_printf(f->arena, "%" PRId64, p->train.micro_batch);
    return field->by_default;
}

/* Whether somebody said a field: by the record's mask, or where it has none by its value. */
static bool is_said(const mpt_record *record, const mpt_field *field, const void *object) {
    mpt_dtype format = MPT_DTYPE_COUNT;
    if (record->set_offset != SIZE_MAX)
        return mpt_record_has(record, object, field);
    if (field->type != MPT_FIELD_FORMAT || field->offset == SIZE_MAX)
        return true;
    memcpy(&format, (const char *)object + field->offset, sizeof format);
    return format != MPT_DTYPE_COUNT;
}

/* The fields of one record that are not in its mask; a record among them that was said is gone
 * through as well. `object` holds the masks. */
static void add_record(finder *f, const char *path, const mpt_record *record,
                       const void *object) {
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        bool said = is_said(record, field, object);
        bool own = field->bytes > 0 && field->always; /* it has a mask of its own */
        const mpt_record *inner = field->type == MPT_FIELD_RECORD && (field->bytes == 0 || own)
                                      ? field->record
                                      : NULL;
        if (inner) {
            char inner_path[64];
            snprintf(inner_path, sizeof inner_path, "%s.%s", path, field->name);
            add_record(f, inner_path, inner, (const char *)object + (own ? field->offset : 0));
        } else if (!said && has_default(field)) {
            add(f, path, field->name, value_of(f, field));
        }
    }
}

static void add_train(finder *f) {
    const mpt_program *p = f->plan->program;
    static const char *const optimizers[] = {"adamw", "sgd"};
    static const char *const lrs[] = {"constant", "linear", "cosine", "wsd"};
    mpt_train train = p->train;
    if (p->proxy) { /* both speak of it */
        train.set = p->recipe->train.set | p->recipe->train_proxy.set;
        train.eval_set = p->recipe->train.eval_set | p->recipe->train_proxy.eval_set;
    }
    add_record(f, "train", &mpt_record_train, &train);
    add_record(f, "train.optimizer", mpt_record_find(optimizers[train.optimizer.kind]),
               &train.optimizer);
    add_record(f, "train.lr", mpt_record_find(lrs[train.lr.kind]), &train.lr);
}

static void add_data(finder *f) {
    const mpt_program *p = f->plan->program;
    const mpt_data_spec *data = &p->recipe->data;
    if (p->data_given)
        return;
    if (data->kind == MPT_DATA_SYNTHETIC && !data->where.file && data->set == 0)
        add(f, "", "data", "synthetic");
    mpt_data_spec said = *data;
    const mpt_record *record = mpt_data_records[data->kind];
    if (record != &mpt_record_synthetic && data->order == MPT_ORDER_RANDOM &&
        data->kind != MPT_DATA_BATCHES) /* which has no end that could leave a remainder */
        mpt_record_mark(record, &said, mpt_record_lookup(record, "remainder"));
    add_record(f, "data", record, &said);
}

mpt_status mpt_plan_find_defaults(mpt_arena *arena, mpt_plan *plan) {
    const mpt_recipe *recipe = plan->program->recipe;
    finder f = {.arena = arena, .plan = plan};
    add_record(&f, "precision", &mpt_record_precision, recipe);
    add_train(&f);
    add_data(&f);
    return f.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}
