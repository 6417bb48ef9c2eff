/* Stage 3: what is allowed but known to go wrong, each under a name that `allow` silences.
 *
 * A warning is given once, for the first phase it holds in, with the number of layers and the
 * rule to blame. Nothing here changes the recipe. */
#include "recipe/check.h"
#include "recipe/schema_store.h"

#include <stdio.h>
#include <string.h>

static const char *const warning_names[] = {
#define WARNING_NAME(id, name, doc) name,
    MPT_WARNING_LIST(WARNING_NAME)
#undef WARNING_NAME
};
static const char *const warning_docs[] = {
#define WARNING_DOC(id, name, doc) doc,
    MPT_WARNING_LIST(WARNING_DOC)
#undef WARNING_DOC
};

const char *const *mpt_warning_names(int *out_n) {
    *out_n = (int)MPT_COUNT(warning_names);
    return warning_names;
}

const char *mpt_warning_doc(int index) {
    return warning_docs[index];
}

typedef mpt_checker checker;

static bool is_allowed(const mpt_recipe *recipe, const char *name) {
    for (int i = 0; i < recipe->n_allow; i++)
        if (strcmp(recipe->allow[i], name) == 0)
            return true;
    return false;
}

void mpt_checker_warn(checker *c, mpt_warning_kind kind, mpt_where where, const char *fmt,
                      ...) {
    char text[512];
    va_list args;
    const char *name = warning_names[kind];
    if (c->failed || is_allowed(c->recipe, name))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_warning *grown = mpt_arena_grow(c->arena, c->list, sizeof *grown, c->n, &c->cap);
    const char *copy = grown ? mpt_arena_strdup(c->arena, text) : NULL;
    c->failed = copy == NULL;
    if (c->failed)
        return;
    c->list = grown;
    c->list[c->n++] = (mpt_warning){name, where, copy};
}

/* The last deciding rule that speaks of a slot at all. */
mpt_where mpt_checker_blame(checker *c, int phase, const mpt_policy *policy, int slot) {
    mpt_arena arena;
    mpt_arena_init(&arena, c->recipe->ctx);
    int n = 0;
    mpt_where where = c->recipe->where;
    mpt_cascade_rule *rules = mpt_cascade_list(c->recipe, phase, &arena, &n);
    c->failed = c->failed || !rules;
    for (int r = 0; rules && r < n; r++) {
        const mpt_slot_use *use = &rules[r].rule->use.slot[slot];
        mpt_where rule_where = rules[r].rule->where;
        for (int i = 0; i < policy->n_decided; i++)
            if ((use->has_format || use->set) &&
                rule_where.line == policy->decided_by[i].line &&
                rule_where.file == policy->decided_by[i].file)
                where = rule_where;
    }
    mpt_arena_deinit(&arena);
    return where;
}

/* ---- rules ---- */

static void check_shadowed(checker *c, mpt_cascade_rule rule) {
    char path[MPT_RULE_PATH];
    mpt_rule_path(&rule, path);
    if (!rule.rule->decides)
        mpt_checker_warn(
            c, MPT_WARNING_RULE_SHADOWED, rule.rule->where,
            "%s decides nothing: later rules overrule it on every layer, or its function "
            "refused them all",
            path);
}

/* Rules that a lift overrules are no slip: that is what it was asked for. */
static void check_lifts(checker *c) {
    for (int i = 0; i < c->recipe->n_lifts; i++)
        if (!c->recipe->lifts[i].decides)
            mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, c->recipe->lifts[i].where,
                             "precision.lift: nothing that it names is quantized");
}

static void check_all_shadowed(checker *c) {
    mpt_recipe *r = c->recipe;
    check_lifts(c);
    if (r->n_lifts > 0)
        return;
    for (int i = 0; i < r->n_rules; i++)
        check_shadowed(c, (mpt_cascade_rule){&r->rules[i], -1, i});
    for (int p = 0; p < r->n_phases; p++)
        for (int i = 0; i < r->phases[p].n_rules; i++)
            check_shadowed(c, mpt_phase_rule(r, p, i));
}

static void check_no_effect(checker *c) {
    const mpt_recipe *r = c->recipe;
    const mpt_field *decay = mpt_record_lookup(&mpt_record_train, "decay");
    const mpt_field *eval = mpt_record_lookup(&mpt_record_train, "eval");
    if (mpt_record_has(&mpt_record_train, &r->train, decay) &&
        r->train.optimizer.weight_decay == 0)
        mpt_checker_warn(
            c, MPT_WARNING_NO_EFFECT, r->where,
            "train.decay chooses what weight decay applies to, but weight_decay is 0");
    if (mpt_record_has(&mpt_record_train, &r->train, eval) && r->train.eval_every == 0 &&
        !r->train.eval_use)
        mpt_checker_warn(
            c, MPT_WARNING_NO_EFFECT, r->where,
            "train.eval.batches counts for evaluations in between, but eval.every is 0");
    bool recomputes = r->train.recompute.every > 0 ||
                      (r->proxy.present && r->train_proxy.recompute.every > 0);
    if (recomputes && c->model.n_blocks == 0)
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, r->where,
                         "train.recompute: the model has no blocks to recompute");
    else if (!r->proxy.present && r->train.recompute.every >= c->model.n_blocks && recomputes)
        mpt_checker_warn(
            c, MPT_WARNING_NO_EFFECT, r->where,
            "train.recompute.every is %d, but the model has %d block%s: nothing is "
            "saved",
            (int)r->train.recompute.every, c->model.n_blocks,
            c->model.n_blocks == 1 ? "" : "s");
    if (r->train_proxy.set && !r->proxy.present)
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, r->where,
                         "train.proxy is for a proxy, but the recipe has none");
}

/* ---- phases ---- */

/* Whether an operand is scaled by its history in phase p and was not in the one before. */
static bool enters_delayed(const checker *c, int p) {
    for (int i = 0; i < c->model.n; i++)
        for (int s = 0; mpt_layer_has_gemms(c->model.layers[i].kind) && s < MPT_SLOT_COUNT; s++)
            if (c->policies[p][i].slot[s].scale.kind == MPT_SCALING_DELAYED &&
                c->policies[p - 1][i].slot[s].scale.kind != MPT_SCALING_DELAYED)
                return true;
    return false;
}

/* Whether the next phase starts at the same step: shares of a short run round alike. Starts
 * that count differently are not compared. */
static bool runs_no_step(const checker *c, int p) {
    mpt_train train = mpt_recipe_train(c->recipe, false);
    const mpt_phase *phase = &c->recipe->phases[p];
    if (p + 1 >= c->recipe->n_phases || (p > 0 && phase[0].by != phase[1].by))
        return false;
    int64_t start = p > 0 ? mpt_phase_start(phase, &train) : 0;
    return start < train.steps && mpt_phase_start(phase + 1, &train) <= start;
}

/* A phase that is as the one before, or that is over when it starts. */
static void check_idle_phase(checker *c, int p) {
    const mpt_phase *phase = &c->recipe->phases[p];
    if (runs_no_step(c, p))
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, phase->where,
                         "phases[%d]: '%s' runs no step, since '%s' starts with it", p + 1,
                         phase->name, phase[1].name);
    else if (p > 0 && phase->n_rules == 0 && phase[-1].n_rules == 0 && !phase->warm_histories)
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, phase->where,
                         "phases[%d]: '%s' is as '%s' before it: neither has rules", p + 1,
                         phase->name, phase[-1].name);
}

static void check_phase(checker *c, int p) {
    const mpt_phase *phase = &c->recipe->phases[p];
    if (p == 0 && phase->by == MPT_BY_APPLIED)
        mpt_checker_warn(
            c, MPT_WARNING_NO_EFFECT, phase->where,
            "phases[1].by: the first phase starts with the run, whatever is counted");
    if (phase->warm_histories && p == 0)
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, phase->where,
                         "phases[1].warm_histories: no phase before it could record them");
    else if (phase->warm_histories && !enters_delayed(c, p))
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, phase->where,
                         "phases[%d].warm_histories: no operand enters delayed scaling in '%s'",
                         p + 1, phase->name);
    for (int proxy = 0; p > 0 && proxy <= c->recipe->proxy.present; proxy++) {
        mpt_train train = mpt_recipe_train(c->recipe, proxy);
        bool unknown = train.steps == 0; /* in epochs of data that nobody has settled */
        if (unknown || mpt_phase_start(phase, &train) < train.steps)
            continue;
        mpt_checker_warn(c, MPT_WARNING_NO_EFFECT, phase->where,
                         "phases[%d]: '%s' starts after the %s %lld steps", p + 1, phase->name,
                         proxy ? "proxy's" : "run's", (long long)train.steps);
        return;
    }
    check_idle_phase(c, p);
}

/* ---- training ---- */

static void check_training(checker *c, bool proxy) {
    mpt_train train = mpt_recipe_train(c->recipe, proxy);
    const char *path = proxy ? "train.proxy" : "train";
    mpt_train full = mpt_recipe_train(c->recipe, false);
    if (train.clip == 0 && (!proxy || full.clip != 0))
        mpt_checker_warn(c, MPT_WARNING_NO_CLIP, c->recipe->where,
                         "%s.clip is 0: one bad batch can throw the weights far away", path);
    if (train.lr.warmup.value == 0 && (!proxy || full.lr.warmup.value != 0))
        mpt_checker_warn(c, MPT_WARNING_NO_WARMUP, c->recipe->where,
                         "%s.lr.warmup is 0: the first steps run at %s learning rate", path,
                         train.lr.kind == MPT_LR_CONSTANT ? "the full" : "the peak");
}

mpt_status mpt_recipe_check(mpt_recipe *recipe, mpt_arena *arena, const mpt_layer *layers,
                            int n_layers, int n_blocks, mpt_policy *const *policies,
                            mpt_warning **out_warnings, int *out_n) {
    checker c = {.recipe = recipe,
                 .arena = arena,
                 .model = {layers, n_layers, n_blocks},
                 .policies = policies};
    check_all_shadowed(&c);
    mpt_check_nothing_quantized(&c);
    check_no_effect(&c);
    for (int p = 0; p < recipe->n_phases; p++)
        check_phase(&c, p);
    mpt_check_effects(&c);
    mpt_check_formats(&c);
    check_training(&c, false);
    if (recipe->proxy.present)
        check_training(&c, true);
    mpt_check_loss_scale(&c);
    mpt_check_numbers(&c);
    *out_warnings = c.list;
    *out_n = c.n;
    return c.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}

static mpt_status add_to(const checker *from, mpt_warning_kind kind, mpt_where where,
                         const char *text, mpt_warning **list, int *n) {
    checker c = *from;
    c.list = *list;
    c.n = c.cap = *n;
    mpt_checker_warn(&c, kind, where, "%s", text);
    *list = c.list;
    *n = c.n;
    return c.failed ? MPT_OUT_OF_MEMORY : MPT_OK;
}

mpt_status mpt_recipe_warn_not_native(mpt_recipe *recipe, mpt_arena *arena, mpt_where where,
                                      const char *text, mpt_warning **list, int *n) {
    const checker c = {.recipe = recipe, .arena = arena};
    return add_to(&c, MPT_WARNING_NOT_NATIVE, where, text, list, n);
}

mpt_status mpt_recipe_warn_binary_text(mpt_recipe *recipe, mpt_arena *arena, mpt_where where,
                                       const char *text, mpt_warning **list, int *n) {
    const checker c = {.recipe = recipe, .arena = arena};
    return add_to(&c, MPT_WARNING_BINARY_TEXT, where, text, list, n);
}
