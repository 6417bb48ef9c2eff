/* The recipe object: made, grown, merged for the proxy, destroyed.
 *
 * lua/bind or a host fills it (set.c, host.c); freeze.c then checks it as a whole, and from
 * there on it only is read. All it points to lies in its arena. */
#include "recipe/schema_store.h"

#include <math.h>
#include <string.h>

mpt_status mpt_recipe_new(mpt_ctx *ctx, const char *name, const char *file, mpt_recipe **out) {
    *out = NULL;
    mpt_recipe *recipe = mpt_alloc(ctx, sizeof *recipe);
    if (!recipe)
        return mpt_fail_memory(ctx, sizeof *recipe);
    recipe->ctx = ctx;
    mpt_arena_init(&recipe->arena, ctx);
    recipe->name = mpt_arena_strdup(&recipe->arena, name);
    recipe->file = file ? mpt_arena_strdup(&recipe->arena, file) : NULL;
    if (!recipe->name || (file && !recipe->file)) {
        mpt_recipe_destroy(recipe);
        return MPT_OUT_OF_MEMORY;
    }
    recipe->where = (mpt_where){recipe->file, 0};
    recipe->state = (mpt_state_formats){.gradient = MPT_DTYPE_FP32, .reduce = MPT_DTYPE_FP32};
    (void)mpt_quantizer_by_name("fp32", &recipe->state.master);
    recipe->state.adam_m = recipe->state.adam_v = recipe->state.master;
    recipe->base = recipe->residual = MPT_DTYPE_COUNT; /* decided by freeze, or read as base */
    recipe->activation = MPT_DTYPE_COUNT;
    recipe->activation_where = recipe->where;
    for (int i = 0; i < MPT_OPS_COUNT; i++)
        recipe->ops[i] = (mpt_ops_use){.format = MPT_DTYPE_COUNT, .where = recipe->where};
    mpt_record_init(&mpt_record_train, &recipe->train);
    mpt_record_init(&mpt_record_proxy, &recipe->train_proxy);
    mpt_record_init(&mpt_record_synthetic, &recipe->data);
    *out = recipe;
    return MPT_OK;
}

void mpt_recipe_destroy(mpt_recipe *recipe) {
    if (!recipe)
        return;
    if (recipe->source.destroy)
        recipe->source.destroy(recipe->source.ud);
    mpt_arena_deinit(&recipe->arena);
    mpt_free(recipe->ctx, recipe);
}

const char *mpt_recipe_name(const mpt_recipe *recipe) {
    return recipe ? recipe->name : NULL;
}

bool mpt_recipe_get_file(const mpt_recipe *recipe, int index, mpt_recipe_file *out) {
    if (!recipe || !out || index < 0 || index >= recipe->n_files)
        return false;
    *out = recipe->files[index];
    return true;
}

mpt_status mpt_recipe_append_file(mpt_recipe *recipe, const char *name, const char *text,
                                  size_t length) {
    mpt_arena *arena = &recipe->arena;
    for (int i = 0; i < recipe->n_files; i++)
        if (strcmp(recipe->files[i].name, name) == 0)
            return MPT_OK;
    mpt_recipe_file *grown = mpt_arena_grow(arena, recipe->files, sizeof *grown,
                                            recipe->n_files, &recipe->cap_files);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    recipe->files = grown;
    char *copy = mpt_arena_alloc(arena, length + 1);
    const char *name_copy = mpt_arena_strdup(arena, name);
    if (!copy || !name_copy)
        return MPT_OUT_OF_MEMORY;
    if (length)
        memcpy(copy, text, length);
    recipe->files[recipe->n_files++] = (mpt_recipe_file){name_copy, copy, length};
    return MPT_OK;
}

const char *mpt_recipe_source(const mpt_recipe *recipe) {
    return recipe ? recipe->source_text : NULL;
}

/* ---- growing ---- */

mpt_rule *mpt_recipe_append_rule(mpt_recipe *recipe, int phase) {
    mpt_rule **rules = phase < 0 ? &recipe->rules : &recipe->phases[phase].rules;
    int *n = phase < 0 ? &recipe->n_rules : &recipe->phases[phase].n_rules;
    int *cap = phase < 0 ? &recipe->cap_rules : &recipe->phases[phase].cap_rules;
    mpt_rule *grown = mpt_arena_grow(&recipe->arena, *rules, sizeof *grown, *n, cap);
    if (!grown)
        return NULL;
    *rules = grown;
    mpt_rule *rule = &grown[(*n)++];
    *rule = (mpt_rule){.where = recipe->where, .predicate = -1};
    return rule;
}

mpt_phase *mpt_recipe_append_phase(mpt_recipe *recipe, const char *name) {
    mpt_phase *grown = mpt_arena_grow(&recipe->arena, recipe->phases, sizeof *grown,
                                      recipe->n_phases, &recipe->cap_phases);
    const char *copy = grown ? mpt_arena_strdup(&recipe->arena, name) : NULL;
    if (!copy)
        return NULL;
    recipe->phases = grown;
    mpt_phase *phase = &grown[recipe->n_phases++];
    *phase = (mpt_phase){.name = copy, .where = recipe->where};
    return phase;
}

static const char *const all_linear[] = {"linear"};

mpt_rule *mpt_recipe_insert_use(mpt_recipe *recipe, int phase, mpt_where where) {
    mpt_phase *p = &recipe->phases[phase];
    if (!mpt_recipe_append_rule(recipe, phase))
        return NULL;
    memmove(p->rules + 1, p->rules, (size_t)(p->n_rules - 1) * sizeof *p->rules);
    p->rules[0] =
        (mpt_rule){.where = where, .predicate = -1, .n_selectors = 1, .selectors = all_linear};
    p->has_use = true;
    return p->rules;
}

mpt_rule *mpt_recipe_make_eval_use(mpt_recipe *recipe, mpt_where where) {
    mpt_rule *rule = mpt_arena_alloc(&recipe->arena, sizeof *rule);
    if (rule)
        *rule = (mpt_rule){.where = where,
                           .predicate = -1,
                           .n_selectors = 1,
                           .selectors = all_linear,
                           .gemms = 1u << MPT_GEMM_FPROP};
    return rule;
}

mpt_status mpt_recipe_append_allow(mpt_recipe *recipe, const char *name, mpt_where where) {
    int n_names;
    const char *const *names = mpt_warning_names(&n_names);
    for (int i = 0; i < n_names; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        const char **grown = mpt_arena_grow(&recipe->arena, recipe->allow, sizeof *grown,
                                            recipe->n_allow, &recipe->cap_allow);
        if (!grown)
            return MPT_OUT_OF_MEMORY;
        recipe->allow = grown;
        recipe->allow[recipe->n_allow++] = names[i];
        return MPT_OK;
    }
    mpt_status status =
        MPT_FAIL(recipe->ctx, MPT_INVALID, where, "allow: no warning '%s'", name);
    const char *near = mpt_nearest(name, names, n_names);
    if (near)
        mpt_hint(recipe->ctx, "did you mean '%s'?", near);
    else
        mpt_hint(recipe->ctx, "warnings print their names in front");
    return status;
}

/* ---- training settings ---- */

static bool is_length(const mpt_field *field) {
    return field->offset == offsetof(mpt_train, steps) ||
           field->offset == offsetof(mpt_train, tokens) ||
           field->offset == offsetof(mpt_train, epochs);
}

mpt_train mpt_recipe_train(const mpt_recipe *recipe, bool proxy) {
    mpt_train train = recipe->train;
    const mpt_train *over = &recipe->train_proxy;
    const mpt_record *record = &mpt_record_proxy;
    for (int i = 0; proxy && i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        if (!mpt_record_has(record, over, field))
            continue;
        if (is_length(field)) { /* of the run: it replaces whichever the full model has */
            train.steps = train.epochs = 0;
            train.tokens = 0;
        }
        memcpy((char *)&train + field->offset, (const char *)over + field->offset,
               field->bytes);
        if (field->record == &mpt_record_eval) {
            train.eval_every = over->eval_every;
            train.eval_batches = over->eval_batches;
            train.eval_use = over->eval_use;
        }
    }
    if (train.micro_batch == 0)
        train.micro_batch = proxy || recipe->small ? train.batch : 1;
    if (train.epochs > 0 && train.steps == 0 && train.tokens <= 0)
        train.steps = recipe->epoch_steps[proxy];
    train.steps = mpt_train_steps(&train);
    return train;
}

int64_t mpt_train_steps(const mpt_train *train) {
    if (train->tokens <= 0)
        return train->steps;
    double step = (double)train->batch * (double)train->sequence;
    double steps = step > 0 ? ceil(train->tokens / step) : 0;
    return steps < 0x1p53 ? (int64_t)steps : INT64_C(1) << 53;
}

int64_t mpt_span_steps(const mpt_span *span, const mpt_train *train) {
    if (span->fraction)
        return (int64_t)floor(span->value * (double)mpt_train_steps(train) + 0.5);
    if (train->tokens <= 0)
        return (int64_t)span->value;
    return (int64_t)ceil(span->value / ((double)train->batch * (double)train->sequence));
}

/* Whether a field of a phase was said. */
static bool phase_says(const mpt_phase *phase, const char *name) {
    return mpt_record_has(&mpt_record_phase, phase, mpt_record_lookup(&mpt_record_phase, name));
}

const char *mpt_phase_start_word(const mpt_phase *phase) {
    return phase_says(phase, "tokens")  ? "tokens"
           : phase_says(phase, "steps") ? "steps"
                                        : "from";
}

int64_t mpt_phase_start(const mpt_phase *phase, const mpt_train *train) {
    mpt_train whole = *train;
    if (phase_says(phase, "tokens")) {
        whole.tokens = phase->tokens;
        return phase->tokens > 0 ? mpt_train_steps(&whole) : 0;
    }
    if (phase_says(phase, "steps"))
        return phase->steps;
    if (!phase->from_is_fraction)
        return (int64_t)phase->from;
    return (int64_t)floor(phase->from * (double)mpt_train_steps(train) + 0.5);
}

double mpt_loss_scale_first(const mpt_loss_scale *scale) {
    switch (scale->kind) {
    case MPT_LOSS_SCALE_STATIC:
        return scale->scale;
    case MPT_LOSS_SCALE_DYNAMIC:
        return (double)(float)scale->init;
    case MPT_LOSS_SCALE_NONE:
        break;
    }
    return 1;
}

/* ---- state ---- */

bool mpt_state_format_at(const mpt_state_formats *formats, int index, mpt_state_format *out) {
    const mpt_state_format all[] = {
        {"master", formats->master},
        {"gradient", {.name = mpt_dtype_name(formats->gradient), .format = formats->gradient}},
        {"reduce", {.name = mpt_dtype_name(formats->reduce), .format = formats->reduce}},
        {"adam_m", formats->adam_m},
        {"adam_v", formats->adam_v}};
    if (index < 0 || index >= (int)MPT_COUNT(all))
        return false;
    *out = all[index];
    return true;
}
