/* `path=value`: what --set and hosts write, applied after the recipe and its proxy overrides.
 *
 * A value set this way counts for the full model and for the proxy alike, so an override that
 * the recipe made for the proxy gives way to it. */
#include "recipe/lift.h"
#include "recipe/presets.h"
#include "recipe/schema_store.h"
#include "recipe/use.h"

#include <stdio.h>
#include <string.h>

/* The first name of a dotted path equals `name`; *rest is what follows its dot, or NULL. */
static bool starts_with(const char *path, const char *name, const char **rest) {
    size_t n = strlen(name);
    if (strncmp(path, name, n) != 0 || (path[n] != '.' && path[n] != 0))
        return false;
    *rest = path[n] ? path + n + 1 : NULL;
    return true;
}

static void clear_bit(mpt_train *train, const char *name) {
    const mpt_field *field = mpt_record_lookup(&mpt_record_train, name);
    train->set &= ~(UINT64_C(1) << (field - mpt_record_train.fields));
}

static bool has_bit(const mpt_train *train, const char *name) {
    return mpt_record_has(&mpt_record_train, train, mpt_record_lookup(&mpt_record_train, name));
}

/* ---- a new length ---- */

/* A length of run in its own unit: steps, or tokens. */
static double run_length(const mpt_train *train) {
    return train->tokens > 0 ? train->tokens : (double)train->steps;
}

static double span_length(const mpt_span *span, double run) {
    return span->fraction ? span->value * run : span->value;
}

static void span_to_share(mpt_span *span, double run) {
    if (span->fraction || span->value == 0)
        return;
    span->value = span->value < run ? span->value / run : 1.0;
    span->fraction = true;
}

/* Warmup and decay that no longer fit, or were counted in the other unit, keep their share of
 * the run; all others stay as written. A second new length starts from what was written too,
 * not from what the first made of it. */
static bool refit_lr(mpt_lr *lr, mpt_written_lr *written, const mpt_train *before,
                     const mpt_train *after) {
    if (written->run <= 0)
        *written =
            (mpt_written_lr){run_length(before), before->tokens > 0, lr->warmup, lr->decay};
    lr->warmup = written->warmup;
    lr->decay = written->decay;
    double old_run = written->run, run = run_length(after);
    double length = span_length(&lr->warmup, run);
    if (lr->kind == MPT_LR_WSD)
        length += span_length(&lr->decay, run);
    bool same_unit = written->in_tokens == (after->tokens > 0);
    if (old_run <= 0 || (same_unit && length <= run))
        return false;
    bool absolute = (!lr->warmup.fraction && lr->warmup.value > 0) ||
                    (lr->kind == MPT_LR_WSD && !lr->decay.fraction && lr->decay.value > 0);
    span_to_share(&lr->warmup, old_run);
    span_to_share(&lr->decay, old_run);
    return absolute;
}

static const char *const lengths[] = {"steps", "tokens", "epochs"};

static bool is_length(const char *name) {
    for (size_t i = 0; i < MPT_COUNT(lengths); i++)
        if (strcmp(name, lengths[i]) == 0)
            return true;
    return false;
}

/* train.steps, train.tokens and train.epochs: one drops the others, and all that the proxy had.
 */
static mpt_status set_length(mpt_recipe *recipe, const mpt_text_setting *setting,
                             const char *name) {
    mpt_train full = mpt_recipe_train(recipe, false), proxy = mpt_recipe_train(recipe, true);
    MPT_TRY(
        mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_recipe, recipe, setting));
    for (size_t i = 0; i < MPT_COUNT(lengths); i++) {
        clear_bit(&recipe->train_proxy, lengths[i]);
        if (strcmp(name, lengths[i]) != 0)
            clear_bit(&recipe->train, lengths[i]);
    }
    recipe->train.steps = *name == 's' ? recipe->train.steps : 0;
    recipe->train.tokens = *name == 't' ? recipe->train.tokens : 0;
    recipe->train.epochs = *name == 'e' ? recipe->train.epochs : 0;
    bool refit = refit_lr(&recipe->train.lr, &recipe->written[0], &full, &recipe->train);
    if (has_bit(&recipe->train_proxy, "lr"))
        refit =
            refit_lr(&recipe->train_proxy.lr, &recipe->written[1], &proxy, &recipe->train) ||
            refit;
    if (refit)
        mpt_log(recipe->ctx, MPT_LOG_INFO,
                "%s=%s: warmup and decay of the learning rate keep their share of the run",
                setting->path, setting->text);
    return MPT_OK;
}

/* ---- train ---- */

/* "lr.decay" is no field of every learning rate: the proxy may have another kind. */
static bool proxy_has_field(const mpt_recipe *recipe, const mpt_field *field,
                            const char *rest) {
    if (!field->variants)
        return true;
    const char *member = (const char *)&recipe->train_proxy + field->offset;
    return mpt_record_lookup(mpt_field_record(field, member), rest) != NULL;
}

static mpt_status set_train(mpt_recipe *recipe, const mpt_text_setting *setting,
                            const char *rest) {
    const char *inner = NULL;
    /* What is set for both is named as it was typed. */
    mpt_text_setting proxy = {"train", rest, setting->text, setting->where};
    bool of_proxy = starts_with(rest, "proxy", &inner) && inner;
    if (of_proxy)
        recipe->written[1].run = 0; /* its spans and length count as written from here */
    else if (strcmp(rest, "lr") == 0 || strcmp(rest, "lr.warmup") == 0 ||
             strcmp(rest, "lr.decay") == 0)
        recipe->written[0].run = recipe->written[1].run = 0;
    if (of_proxy) {
        proxy.prefix = "train.proxy";
        proxy.path = rest + strlen("proxy.");
        return mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_proxy,
                                    &recipe->train_proxy, &proxy);
    }
    if (is_length(rest))
        return set_length(recipe, setting, rest);
    bool whole = !strchr(rest, '.');
    for (int i = 0; i < mpt_record_proxy.n_fields; i++) {
        const mpt_field *field = &mpt_record_proxy.fields[i];
        if (!starts_with(rest, field->name, &inner) ||
            !mpt_record_has(&mpt_record_proxy, &recipe->train_proxy, field))
            continue;
        bool both = !whole && proxy_has_field(recipe, field, inner);
        if (both)
            MPT_TRY(mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_proxy,
                                         &recipe->train_proxy, &proxy));
        if (both && field->variants &&
            !mpt_record_lookup(
                mpt_field_record(field, (const char *)&recipe->train + field->offset), inner))
            return MPT_OK; /* only the proxy's kind has the field */
        if (whole)
            clear_bit(&recipe->train_proxy, field->name);
    }
    return mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_recipe, recipe,
                                setting);
}

/* train.eval.use is no plain field but a rule. Set for both, it replaces the proxy's. */
static mpt_status set_eval_use(mpt_recipe *recipe, const mpt_text_setting *setting) {
    bool of_proxy = strcmp(setting->path, "train.proxy.eval.use") == 0;
    mpt_train *train = of_proxy ? &recipe->train_proxy : &recipe->train;
    mpt_rule *rule = mpt_recipe_make_eval_use(recipe, setting->where);
    const mpt_record *record = of_proxy ? &mpt_record_proxy : &mpt_record_train;
    const mpt_field *field = mpt_record_lookup(record, "eval");
    if (!rule)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_use_parse(recipe, of_proxy ? "train.proxy.eval" : "train.eval", setting->text,
                          setting->where, &rule->use));
    if (of_proxy &&
        !mpt_record_has(record, train, field)) { /* the rest as for the full model */
        train->eval_every = recipe->train.eval_every;
        train->eval_batches = recipe->train.eval_batches;
    }
    mpt_record_mark(record, train, field);
    train->eval_use = rule;
    if (!of_proxy && has_bit(&recipe->train_proxy, "eval"))
        recipe->train_proxy.eval_use = rule;
    return MPT_OK;
}

/* A vocabulary that was set also holds for a file that takes the place of the recipe's data. */
static void state_words(mpt_data_spec *data) {
    data->words_set = true;
    if (data->kind == MPT_DATA_SYNTHETIC)
        data->words = data->vocab;
}

/* Words of data. Those that only files have are taken by a recipe without files too, for the
 * one that --data or a host gives instead: mpt_data_open refuses them where none is. */
static mpt_status set_data(mpt_recipe *recipe, const mpt_text_setting *setting,
                           const char *name) {
    mpt_data_spec *data = &recipe->data;
    bool synthetic = data->kind == MPT_DATA_SYNTHETIC;
    if (synthetic && (strcmp(name, "order") == 0 || strcmp(name, "remainder") == 0 ||
                      strcmp(name, "validation") == 0)) {
        mpt_text_setting inner = {"data", name, setting->text, setting->where};
        MPT_TRY(
            mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_text, data, &inner));
    } else {
        MPT_TRY(mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_recipe, recipe,
                                     setting));
    }
    if (strcmp(name, "vocab") == 0)
        state_words(data);
    if (strcmp(name, "path") == 0)
        data->n_files = 0; /* instead of the list */
    data->validation_set |= strcmp(name, "validation") == 0;
    return MPT_OK;
}

/* Another word for data: what was set before it, for the file to come, is this file's. */
static mpt_status set_data_word(mpt_recipe *recipe, const mpt_text_setting *setting) {
    static const char *const names[] = {"remainder", "order", "validation"};
    mpt_data_spec before = recipe->data;
    MPT_TRY(
        mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_recipe, recipe, setting));
    mpt_data_spec *data = &recipe->data;
    const mpt_record *record = mpt_data_records[data->kind];
    for (size_t i = 0; before.kind == MPT_DATA_SYNTHETIC && i < MPT_COUNT(names); i++) {
        const mpt_field *field = mpt_record_lookup(record, names[i]);
        if (!field || !mpt_data_spec_says(&before, names[i]))
            continue;
        memcpy((char *)data + field->offset, (char *)&before + field->offset, field->bytes);
        mpt_record_mark(record, data, field);
    }
    data->validation_set = before.validation_set;
    return MPT_OK;
}

mpt_status mpt_recipe_set_at(mpt_recipe *recipe, const char *path, const char *value,
                             mpt_where where) {
    mpt_text_setting setting = {"", strcmp(path, "seed") == 0 ? "train.seed" : path, value,
                                where};
    const char *rest = NULL;
    if (recipe->frozen) {
        mpt_status status =
            MPT_FAIL(recipe->ctx, MPT_INVALID, where,
                     "%s: the recipe was compiled and does not change any more", path);
        mpt_hint(recipe->ctx, "set it before, or load the recipe again");
        return status;
    }
    if (strcmp(path, "precision.lift") == 0)
        return mpt_recipe_append_lift(recipe, value, where);
    if (strcmp(path, "precision") == 0)
        return mpt_recipe_use_preset(recipe, value, where);
    if (strcmp(setting.path, "train.eval.use") == 0 ||
        strcmp(setting.path, "train.proxy.eval.use") == 0)
        return set_eval_use(recipe, &setting);
    if (starts_with(setting.path, "train", &rest) && rest)
        return set_train(recipe, &setting, rest);
    if (strcmp(setting.path, "precision.base") == 0)
        recipe->base_where = where;
    if (strcmp(setting.path, "precision.state.residual") == 0)
        recipe->residual_where = where;
    if (starts_with(setting.path, "data", &rest))
        return rest ? set_data(recipe, &setting, rest) : set_data_word(recipe, &setting);
    return mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_recipe, recipe,
                                &setting);
}

mpt_status mpt_recipe_set(mpt_recipe *recipe, const char *path, const char *value) {
    MPT_REQUIRE_OBJECT(recipe);
    MPT_REQUIRE(recipe->ctx, path);
    MPT_REQUIRE(recipe->ctx, value);
    return mpt_recipe_set_at(recipe, path, value, recipe->where);
}
