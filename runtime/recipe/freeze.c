/* Stage 2's first half: what can be checked of a recipe without its model, then no change more.
 *
 * Single values were checked when they were set; here is what fields say together: length,
 * batch and learning rate, the rules, the order of the phases. */
#include "recipe/schema_store.h"
#include "recipe/select.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fails with one text and one way out. */
#define REFUSE(recipe, where, hint, ...)                                                       \
    do {                                                                                       \
        mpt_status refuse_status = MPT_FAIL((recipe)->ctx, MPT_INVALID, (where), __VA_ARGS__); \
        mpt_hint((recipe)->ctx, "%s", (hint));                                                 \
        return refuse_status;                                                                  \
    } while (0)

static bool has(const mpt_train *train, const char *name) {
    return mpt_record_has(&mpt_record_train, train, mpt_record_lookup(&mpt_record_train, name));
}

/* ---- name and model ---- */

/* The name becomes a folder's, so it must be one. */
static mpt_status check_name(const mpt_recipe *recipe) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n = strlen(recipe->name);
    if (n && n <= 100 && recipe->name[0] != '.' && strspn(recipe->name, allowed) == n)
        return MPT_OK;
    REFUSE(recipe, recipe->where, "take letters, digits, '_', '-' and '.', 100 at most",
           "name: '%.100s' cannot name a run's folder", recipe->name);
}

static mpt_status check_model(const mpt_recipe *recipe) {
    if (!recipe->model.present || !recipe->source.build)
        REFUSE(recipe, recipe->where, "name one: model = nemotron_h \"12b\"",
               "model: the recipe has none");
    return MPT_OK;
}

/* ---- train ---- */

static mpt_status check_length(const mpt_recipe *recipe, const mpt_train *said,
                               const char *path) {
    bool steps = said->steps > 0, tokens = said->tokens > 0, epochs = said->epochs > 0;
    if (steps + tokens + epochs > 1)
        REFUSE(recipe, recipe->where, "give one of them", "%s: %s and %s are both given", path,
               steps ? "steps" : "tokens", tokens && steps ? "tokens" : "epochs");
    return MPT_OK;
}

/* A run that is given in epochs has no length before its data is known. */
static bool is_unknown(const mpt_train *train) {
    return train->epochs > 0 && train->steps == 0;
}

/* Spans that the proxy inherits are counted in the full run's unit. */
static mpt_status check_inherited(const mpt_recipe *recipe, const mpt_train *proxy) {
    const mpt_lr *lr = &proxy->lr;
    bool absolute = (!lr->warmup.fraction && lr->warmup.value > 0) ||
                    (lr->kind == MPT_LR_WSD && !lr->decay.fraction && lr->decay.value > 0);
    bool other_unit = (recipe->train.tokens > 0) != (proxy->tokens > 0);
    if (absolute && other_unit && !has(&recipe->train_proxy, "lr"))
        REFUSE(recipe, recipe->where, "give train.proxy.lr, or write spans as fractions: 0.01",
               "train.proxy: it is given in %s, but lr counts warmup and decay in %s",
               proxy->tokens > 0 ? "tokens" : "steps", proxy->tokens > 0 ? "steps" : "tokens");
    return MPT_OK;
}

static double share(const mpt_span *span, const mpt_train *train) {
    double run = train->tokens > 0 ? train->tokens : (double)train->steps;
    return span->fraction ? span->value : span->value / run;
}

static mpt_status check_lr(const mpt_recipe *recipe, const mpt_train *train, const char *path) {
    const mpt_lr *lr = &train->lr;
    if (!(lr->peak > 0))
        REFUSE(recipe, recipe->where, "give one: lr = cosine { peak = 3e-4, warmup = 100 }",
               "%s.lr: there is no learning rate", path);
    if (lr->final > lr->peak)
        REFUSE(recipe, recipe->where, "the learning rate falls from peak to final",
               "%s.lr.final: %g is above the peak of %g", path, lr->final, lr->peak);
    double warmup = share(&lr->warmup, train);
    double decay = lr->kind == MPT_LR_WSD ? share(&lr->decay, train) : 0;
    if (warmup + decay > 1 + 1e-9)
        REFUSE(recipe, recipe->where, "shorten them, or write them as fractions: warmup = 0.05",
               "%s.lr: warmup and decay take %.3g times the run's length", path,
               warmup + decay);
    return MPT_OK;
}

/* Windows that are drawn with replacement end nowhere. A file that is given instead of the
 * recipe's data is judged when it is known (mpt_data_settle). */
static mpt_status check_epochs(const mpt_recipe *recipe, const char *path) {
    const mpt_data_spec *data = &recipe->data;
    bool files = data->kind == MPT_DATA_TEXT || data->kind == MPT_DATA_TOKENS;
    if (files && data->order == MPT_ORDER_RANDOM)
        REFUSE(recipe, recipe->where, "say data.order = \"shuffle\", or give train.steps",
               "%s.epochs: data.order is random, which draws windows with replacement and has "
               "no epochs",
               path);
    return MPT_OK;
}

static mpt_status check_train(const mpt_recipe *recipe, bool proxy) {
    const char *path = proxy ? "train.proxy" : "train";
    mpt_train train = mpt_recipe_train(recipe, proxy);
    MPT_TRY(check_length(recipe, proxy ? &recipe->train_proxy : &recipe->train, path));
    if (train.batch < 1)
        REFUSE(recipe, recipe->where, "give sequences an optimizer step: batch = 16",
               "%s.batch: is missing", path);
    if (train.sequence < 1)
        REFUSE(recipe, recipe->where, "give tokens a sequence: sequence = 1024",
               "%s.sequence: is missing", path);
    if (train.steps < 1 && !is_unknown(&train))
        REFUSE(recipe, recipe->where, "give steps = 1000, or tokens = 1e9",
               "%s: the run has no length", path);
    if (train.batch % train.micro_batch)
        REFUSE(recipe, recipe->where, "take a micro_batch that divides the batch",
               "%s.micro_batch: batch %lld is no multiple of %lld", path,
               (long long)train.batch, (long long)train.micro_batch);
    if (train.watch.spike.action == MPT_SPIKE_ROLLBACK && train.checkpoint.every == 0)
        REFUSE(recipe, recipe->where,
               "say how often they are saved: checkpoint = { every = 100 }",
               "%s.watch.spike.action: rollback needs checkpoints to go back to", path);
    if (proxy)
        MPT_TRY(check_inherited(recipe, &train));
    return is_unknown(&train) ? check_epochs(recipe, path) : check_lr(recipe, &train, path);
}

/* A list names files of its own, and an end comes only where there are epochs. */
static mpt_status check_data(const mpt_recipe *recipe) {
    const mpt_data_spec *data = &recipe->data;
    mpt_where where = data->where.file ? data->where : recipe->where;
    bool path = data->path && *data->path;
    if (path && data->n_files > 0)
        REFUSE(recipe, where, "put it into the list", "data: path and files are both given");
    if (data->kind != MPT_DATA_SYNTHETIC && !path && data->n_files == 0)
        REFUSE(recipe, where, "give a file: data = text \"corpus.txt\"",
               "data.path: there is no file");
    for (int i = 0; i < data->n_files; i++)
        if (!data->files[i].path || !*data->files[i].path)
            REFUSE(recipe, data->files[i].where, "give one: { path = \"a.bin\", weight = 2 }",
                   "data.files[%d].path: there is no file", i + 1);
    if (data->validation.path && !*data->validation.path)
        REFUSE(recipe, where, "give a share or a file: validation = 0.1",
               "data.validation: there is no file");
    bool files = data->kind == MPT_DATA_TEXT || data->kind == MPT_DATA_TOKENS;
    if (files && data->order == MPT_ORDER_RANDOM && mpt_data_spec_says(data, "remainder"))
        REFUSE(recipe, where, "say order = \"shuffle\", or leave it out",
               "data.remainder: data.order is random, which has no epochs that could end");
    return MPT_OK;
}

/* ---- rules ---- */

static bool says_nothing(const mpt_use *use) {
    bool nothing = !use->bare;
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        nothing = nothing && !use->slot[s].has_format && !use->slot[s].set;
    for (int g = 0; g < MPT_GEMM_COUNT; g++)
        nothing =
            nothing && !use->has_output[g] && !use->has_accumulate[g] && !use->has_promote[g];
    return nothing;
}

static mpt_status check_rule(const mpt_recipe *recipe, const mpt_cascade_rule *cascade_rule) {
    const mpt_rule *rule = cascade_rule->rule;
    char path[MPT_RULE_PATH], slot_path[2 * MPT_RULE_PATH];
    mpt_rule_path(cascade_rule, path);
    if (rule->n_selectors < 1)
        REFUSE(recipe, rule->where,
               "name a kind such as \"linear\", or a path such as \"*.o_proj\"",
               "%s: it selects nothing", path);
    if (says_nothing(&rule->use))
        REFUSE(recipe, rule->where, "give a format or a gemm: use = bf16",
               "%s.use: it says nothing", path);
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        if (rule->use.bare)
            snprintf(slot_path, sizeof slot_path, "%s.use", path);
        else
            snprintf(slot_path, sizeof slot_path, "%s.use.%s", path,
                     mpt_slot_name((mpt_slot)s));
        if (rule->use.slot[s].has_format)
            MPT_TRY(mpt_quantizer_validate(recipe->ctx, &rule->use.slot[s].q, slot_path,
                                           rule->where));
    }
    return mpt_blocks_check(recipe->ctx, &rule->blocks, path, rule->where);
}

static mpt_status check_phase_rule(const mpt_recipe *recipe, int phase, int i) {
    mpt_cascade_rule rule = mpt_phase_rule(recipe, phase, i);
    return check_rule(recipe, &rule);
}

/* What evaluation uses must say something of fprop, and have no history: that is training's. */
static mpt_status check_evaluation(const mpt_recipe *recipe, mpt_rule *rule) {
    bool speaks = rule->use.bare || rule->use.has_output[MPT_GEMM_FPROP] ||
                  rule->use.has_accumulate[MPT_GEMM_FPROP] ||
                  rule->use.has_promote[MPT_GEMM_FPROP];
    for (int s = MPT_SLOT_FPROP_X; s <= MPT_SLOT_FPROP_W; s++) {
        const mpt_slot_use *use = &rule->use.slot[s];
        speaks = speaks || use->has_format || use->set;
        if (use->q.scale.kind == MPT_SCALING_DELAYED)
            REFUSE(recipe, rule->where, "give scale = current {}",
                   "train.eval.use: delayed scaling has no history in an evaluation");
    }
    if (!speaks)
        REFUSE(recipe, rule->where, "name a format, or operands of fprop: use = bf16",
               "train.eval.use: it says nothing of fprop, which is all that evaluation runs");
    return check_rule(recipe, &(mpt_cascade_rule){rule, -1, -1});
}

static mpt_status check_evaluations(const mpt_recipe *recipe) {
    mpt_rule *full = recipe->train.eval_use, *proxy = recipe->train_proxy.eval_use;
    if (full)
        MPT_TRY(check_evaluation(recipe, full));
    return proxy ? check_evaluation(recipe, proxy) : MPT_OK;
}

static mpt_status check_rules(mpt_recipe *recipe) {
    for (int i = 0; i < recipe->n_rules; i++)
        MPT_TRY(check_rule(recipe, &(mpt_cascade_rule){&recipe->rules[i], -1, i}));
    for (int p = 0; p < recipe->n_phases; p++)
        for (int i = 0; i < recipe->phases[p].n_rules; i++)
            MPT_TRY(check_phase_rule(recipe, p, i));
    return check_evaluations(recipe);
}

/* ---- phases ---- */

/* Starts written alike are compared as written, others in steps of the full run, in which none
 * is skipped. */
static bool in_order(const mpt_phase *a, const mpt_phase *b, const mpt_train *train) {
    const char *word = mpt_phase_start_word(a);
    if (strcmp(word, mpt_phase_start_word(b)) != 0)
        return mpt_phase_start(a, train) < mpt_phase_start(b, train);
    if (strcmp(word, "tokens") == 0)
        return a->tokens < b->tokens;
    if (strcmp(word, "from") == 0 && a->from_is_fraction == b->from_is_fraction)
        return a->from < b->from;
    return mpt_phase_start(a, train) < mpt_phase_start(b, train);
}

/* A start above 0, however it is written. */
static bool starts_late(const mpt_phase *phase) {
    const char *word = mpt_phase_start_word(phase);
    return strcmp(word, "tokens") == 0  ? phase->tokens > 0
           : strcmp(word, "steps") == 0 ? phase->steps > 0
                                        : phase->from > 0;
}

/* Of from, steps and tokens a phase says one at most. */
static mpt_status check_start(const mpt_recipe *recipe, int index) {
    static const char *const words[] = {"from", "steps", "tokens"};
    const mpt_phase *phase = &recipe->phases[index];
    const char *first = NULL;
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        const mpt_field *field = mpt_record_lookup(&mpt_record_phase, words[i]);
        if (!mpt_record_has(&mpt_record_phase, phase, field))
            continue;
        if (first)
            REFUSE(recipe, phase->where, "give one of them",
                   "phases[%d]: %s and %s both say where '%s' starts", index + 1, first,
                   words[i], phase->name);
        first = words[i];
    }
    return MPT_OK;
}

static mpt_status check_phases(mpt_recipe *recipe) {
    mpt_train train = mpt_recipe_train(recipe, false);
    if (recipe->n_phases == 0)
        return mpt_recipe_append_phase(recipe, "main") ? MPT_OK : MPT_OUT_OF_MEMORY;
    const mpt_phase *phases = recipe->phases;
    for (int i = 0; i < recipe->n_phases; i++)
        MPT_TRY(check_start(recipe, i));
    if (starts_late(&phases[0])) {
        const char *word = mpt_phase_start_word(&phases[0]);
        mpt_status status = MPT_FAIL(recipe->ctx, MPT_INVALID, phases[0].where,
                                     "phases[1].%s: the first phase starts with the run", word);
        mpt_hint(recipe->ctx, "leave its %s out", word);
        return status;
    }
    for (int i = 1; i < recipe->n_phases; i++) {
        for (int k = 0; k < i; k++)
            if (strcmp(phases[i].name, phases[k].name) == 0)
                REFUSE(recipe, phases[i].where, "give each phase a name of its own",
                       "phases[%d]: there is a phase '%s' already", i + 1, phases[i].name);
        /* The first phase's 0 is the same start as a step and as a fraction. */
        bool order = i == 1
                         ? starts_late(&phases[1])
                         : is_unknown(&train) || in_order(&phases[i - 1], &phases[i], &train);
        if (!order)
            REFUSE(recipe, phases[i].where, "list phases in the order in which they start",
                   "phases[%d].%s: '%s' does not start after '%s'", i + 1,
                   mpt_phase_start_word(&phases[i]), phases[i].name, phases[i - 1].name);
    }
    return MPT_OK;
}

/* ---- the loss scale ---- */

static mpt_status check_loss_scale(const mpt_recipe *recipe) {
    const mpt_loss_scale *scale = &recipe->loss_scale;
    mpt_where where = scale->where.file ? scale->where : recipe->where;
    if (scale->kind == MPT_LOSS_SCALE_STATIC && !(scale->scale > 0))
        REFUSE(recipe, where, "give one: loss_scale = static(1024)",
               "precision.loss_scale: the static scale has no value");
    if (scale->kind != MPT_LOSS_SCALE_DYNAMIC)
        return MPT_OK;
    if (scale->min > scale->max)
        REFUSE(recipe, where, "give a min that is no larger than max",
               "precision.loss_scale.min: %g is above max %g", scale->min, scale->max);
    if (scale->init < scale->min || scale->init > scale->max)
        REFUSE(recipe, where, "start inside, or move min or max",
               "precision.loss_scale.init: %g is not between min %g and max %g", scale->init,
               scale->min, scale->max);
    return MPT_OK;
}

mpt_status mpt_recipe_settle_epochs(mpt_recipe *recipe, bool proxy, int64_t steps) {
    recipe->epoch_steps[proxy] = steps;
    MPT_TRY(check_train(recipe, proxy));
    return proxy ? MPT_OK : check_phases(recipe);
}

mpt_status mpt_recipe_freeze(mpt_recipe *recipe) {
    if (recipe->frozen)
        return MPT_OK;
    MPT_TRY(check_name(recipe));
    MPT_TRY(check_model(recipe));
    MPT_TRY(check_train(recipe, false));
    if (recipe->proxy.present)
        MPT_TRY(check_train(recipe, true));
    MPT_TRY(check_data(recipe));
    MPT_TRY(check_rules(recipe));
    MPT_TRY(check_phases(recipe));
    MPT_TRY(check_loss_scale(recipe));
    recipe->base_set = recipe->base != MPT_DTYPE_COUNT;
    if (!recipe->base_set)
        recipe->base = MPT_DTYPE_BF16;
    recipe->frozen = true;
    return MPT_OK;
}
