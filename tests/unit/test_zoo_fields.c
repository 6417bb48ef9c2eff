/* No dead knobs (P56): each field of each shipped recipe is changed, one at a time, to another
 * value that is legal there. The schedule must become another one, or the change must be warned
 * of as `no-effect`; what is no part of a schedule must change the recipe's hash.
 *
 * Fields come from the schema's rows, so a new row is tested without a line here. */
#include "zoo.h"

#include "recipe/schema_store.h"
#include "recipe/use.h"

enum { PATH = 128, VALUE = 64, HASHES = 512 };

/* What is changed: the recipe, one of its phases, or slots of a rule. */
typedef struct target {
    int phase, rule; /* -1: of the recipe itself; not a rule */
    uint32_t slots;
} target;

typedef struct outcome {
    bool legal;
    char recipe_hash[17];
    char schedules[HASHES]; /* where each phase starts, and its hash */
    bool no_effect;
} outcome;

/* One recipe on its way through all changes. */
typedef struct sweep {
    const char *name;
    outcome before;
    int n_changes, n_dead;
} sweep;

/* ---- one change ---- */

static mpt_rule *rule_of(mpt_recipe *recipe, const target *t) {
    return t->phase < 0 ? &recipe->rules[t->rule] : &recipe->phases[t->phase].rules[t->rule];
}

static mpt_status change_slots(mpt_recipe *recipe, const target *t, const char *path,
                               const char *value) {
    mpt_rule *rule = rule_of(recipe, t);
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        mpt_text_setting setting = {"use", path, value, rule->where};
        mpt_slot_use *use = &rule->use.slot[s];
        if (!(t->slots >> s & 1))
            continue;
        MPT_TRY(mpt_record_set_under(recipe->ctx, &recipe->arena, &mpt_record_quantizer, use,
                                     &setting));
        mpt_slot_use_settle(use);
        if (use->has_format)
            MPT_TRY(mpt_quantizer_validate(recipe->ctx, &use->q, "use", rule->where));
    }
    return MPT_OK;
}

static mpt_status change(mpt_recipe *recipe, const target *t, const char *path,
                         const char *value) {
    if (t->rule >= 0)
        return change_slots(recipe, t, path, value);
    if (t->phase >= 0)
        return mpt_record_set_path(recipe->ctx, &recipe->arena, &mpt_record_phase,
                                   &recipe->phases[t->phase], path, value, recipe->where);
    return mpt_recipe_set(recipe, path, value);
}

static void read_outcome(const mpt_program *program, outcome *out) {
    size_t n = 0;
    out->legal = true;
    memcpy(out->recipe_hash, program->recipe_hash, sizeof out->recipe_hash);
    for (int p = 0; p < program->n_phases; p++)
        n += (size_t)snprintf(
            out->schedules + n, HASHES - n, "%lld%s %s ", (long long)program->phase_start[p],
            program->phase_applied[p] ? " applied" : "", program->phases[p]->schedule_hash);
    assert_true(n < HASHES);
    for (int i = 0; i < program->n_warnings; i++)
        if (strcmp(program->warnings[i].name, "no-effect") == 0)
            out->no_effect = true;
}

static void compile(mpt_ctx *ctx, mpt_recipe *recipe, outcome *out) {
    mpt_program *program = NULL;
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = MPT_MODEL_FULL;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    if (mpt_compile(recipe, &options, &program) == MPT_OK)
        read_outcome(program, out);
    else
        assert_int_equal(mpt_ctx_error(ctx)->code, MPT_INVALID);
    mpt_program_destroy(program);
}

/* The recipe with one change, or none where `path` is NULL. */
static outcome try_change(const char *name, const target *t, const char *path,
                          const char *value) {
    outcome out = {.legal = false};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = zoo_load_small(ctx, name);
    if (!path || change(recipe, t, path, value) == MPT_OK)
        compile(ctx, recipe, &out);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return out;
}

/* ---- which values a field may have ---- */

/* The values to try, by the type of the row; NULL past the last. */
static const char *candidate(const mpt_field *field, int i) {
    static const char *const booleans[] = {"true", "false"}, *const pair[] = {"0.8,0.85"};
    static const char *const integers[] = {"2", "3", "17", "32", "64", "1000"};
    static const char *const numbers[] = {"0.5", "0.75", "2", "3", "1000"};
    static const char *const spans[] = {"0.25", "2", "3"};
    int n = 0;
    for (; field->choices && field->choices[n].name; n++)
        if (i == n)
            return field->choices[n].name;
    for (int k = 0; field->variants && field->variants[k]; k++)
        if (i == n + k)
            return field->variants[k]->name;
#define PICK(list) (i < (int)MPT_COUNT(list) ? (list)[i] : NULL)
    switch (field->type) {
    case MPT_FIELD_BOOL:
        return PICK(booleans);
    case MPT_FIELD_INT:
        return PICK(integers);
    case MPT_FIELD_NUMBER:
        return PICK(numbers);
    case MPT_FIELD_SPAN:
        return PICK(spans);
    case MPT_FIELD_PAIR:
        return PICK(pair);
    default:
        return NULL;
    }
#undef PICK
}

/* Fields that no schedule is made from: factors of the optimizer, and lengths. */
static bool is_outside_schedule(const char *path) {
    static const char *const fields[] = {
        "train.steps",     "train.tokens", "train.batch", "train.seed", "train.lr",
        "train.optimizer", "train.decay",  "train.clip",  "data",       "precision.loss_scale"};
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        if (strncmp(path, fields[i], strlen(fields[i])) == 0)
            return true;
    return false;
}

/* What decides no number of training is in no hash. */
static bool is_outside_hashes(const char *path) {
    static const char *const fields[] = {
        "version", "name", "description", "train.eval", "train.checkpoint", "train.watch"};
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        if (strncmp(path, fields[i], strlen(fields[i])) == 0)
            return true;
    return false;
}

/* All dead fields are told, not only the first. */
static void report(sweep *w, const target *t, const char *path, const char *value) {
    print_error("%s: %s = %s of %s %d, slots %x, changes no step and nothing says so\n",
                w->name, path, value, t->rule < 0 ? "phase" : "rule",
                t->rule < 0 ? t->phase : t->rule, (unsigned)t->slots);
    w->n_dead++;
}

/* Changes one field to the first legal value that is not the one it has. */
static void sweep_field(sweep *w, const target *t, const mpt_field *field, const char *path) {
    for (int i = 0;; i++) {
        const char *value = candidate(field, i);
        if (!value)
            return;
        outcome after = try_change(w->name, t, path, value);
        if (!after.legal || strcmp(after.recipe_hash, w->before.recipe_hash) == 0)
            continue;
        w->n_changes++;
        if (strcmp(after.schedules, w->before.schedules) == 0 && !after.no_effect &&
            !is_outside_schedule(path))
            report(w, t, path, value);
        return;
    }
}

/* A field that a rule's table without a format leaves out: saying it, with the value that
 * stands already, is no change. */
static bool is_unsaid(const mpt_record *record, const void *object, int field) {
    const mpt_slot_use *use = object;
    return record == &mpt_record_quantizer && !use->has_format && !(use->set >> field & 1);
}

/* What the second copy is made from: the first copy of a tensor may say it too, as it does
 * where `activation` or `weight` fills both slots. */
static bool is_first_copys_source(const target *t, const mpt_field *field) {
    const uint32_t first = 1U << MPT_SLOT_FPROP_X | 1U << MPT_SLOT_FPROP_W;
    return strcmp(field->name, "source") == 0 && (t->slots & ~first) == 0;
}

/* All fields of a record and of the records in it. `object` tells which of several records a
 * field holds now. */
static void sweep_record(sweep *w, const target *t, const mpt_record *record,
                         const void *object, const char *prefix) {
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        char path[PATH];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", field->name);
        if (field->type == MPT_FIELD_SPECIAL || is_outside_hashes(path) ||
            is_unsaid(record, object, i) || is_first_copys_source(t, field))
            continue;
        const void *member =
            field->offset == SIZE_MAX ? NULL : (const char *)object + field->offset;
        const mpt_record *inner =
            field->type == MPT_FIELD_RECORD && member ? mpt_field_record(field, member) : NULL;
        sweep_field(w, t, field, path);
        if (inner)
            sweep_record(w, t, inner, member, path);
    }
}

/* ---- one recipe ---- */

/* The slots that one written value fills: all of a bare format, else those of one tensor; the
 * rotation is of both operands of a product. */
static void sweep_rule(sweep *w, const mpt_rule *rule, int phase, int index) {
    uint32_t said = 0, groups[2 * MPT_OPERAND_COUNT] = {0};
    int n = 0;
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (rule->use.slot[s].has_format || rule->use.slot[s].set)
            said |= 1U << s;
    if (rule->use.bare)
        groups[n++] = said;
    for (int o = 0; !rule->use.bare && o < MPT_OPERAND_COUNT; o++) {
        mpt_slot slots[2];
        mpt_operand_slots((mpt_role)o, slots);
        groups[n++] = said & (1U << slots[0] | 1U << slots[1]);
        mpt_gemm_slots((mpt_gemm)o, slots);
        groups[n++] = said & (1U << slots[0] | 1U << slots[1]);
    }
    for (int g = 0; g < n; g++) {
        target t = {phase, index, groups[g]};
        int first = 0;
        if (!groups[g])
            continue;
        while (!(groups[g] >> first & 1))
            first++;
        sweep_record(w, &t, &mpt_record_quantizer, &rule->use.slot[first], "");
    }
}

static void sweep_rules(sweep *w, const mpt_recipe *recipe) {
    for (int r = 0; r < recipe->n_rules; r++)
        sweep_rule(w, &recipe->rules[r], -1, r);
    for (int p = 0; p < recipe->n_phases; p++) {
        target t = {p, -1, 0};
        sweep_record(w, &t, &mpt_record_phase, &recipe->phases[p], "");
        for (int r = 0; r < recipe->phases[p].n_rules; r++)
            sweep_rule(w, &recipe->phases[p].rules[r], p, r);
    }
}

/* Gives the number of fields that had another legal value. */
static int sweep_recipe(const char *name, bool whole) {
    target none = {-1, -1, 0};
    sweep w = {.name = name, .before = try_change(name, &none, NULL, NULL)};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = zoo_load_small(ctx, name);
    assert_true(w.before.legal);
    if (whole)
        sweep_record(&w, &none, &mpt_record_recipe, recipe, "");
    sweep_rules(&w, recipe);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    assert_int_equal(w.n_dead, 0);
    return w.n_changes;
}

/* ---- the cases: a part of the recipes each, so that they run side by side ---- */

static void sweep_part(int part, int n_parts) {
    zoo z;
    int n = 0;
    zoo_list(&z);
    for (int i = part; i < z.n; i += n_parts)
        n += sweep_recipe(z.names[i], false);
    assert_true(n > 100);
}

static void test_rules_when_a_field_changes_then_a_step_does_1(void **state) {
    (void)state;
    sweep_part(0, 4);
}

static void test_rules_when_a_field_changes_then_a_step_does_2(void **state) {
    (void)state;
    sweep_part(1, 4);
}

static void test_rules_when_a_field_changes_then_a_step_does_3(void **state) {
    (void)state;
    sweep_part(2, 4);
}

static void test_rules_when_a_field_changes_then_a_step_does_4(void **state) {
    (void)state;
    sweep_part(3, 4);
}

static void test_p56_fields_of_a_recipe_when_changed_then_hashes_are(void **state) {
    (void)state;
    assert_true(sweep_recipe("gpt2_fp16", true) > 15);
    assert_true(sweep_recipe("nvfp4_12b", true) > 50);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rules_when_a_field_changes_then_a_step_does_1),
    cmocka_unit_test(test_rules_when_a_field_changes_then_a_step_does_2),
    cmocka_unit_test(test_rules_when_a_field_changes_then_a_step_does_3),
    cmocka_unit_test(test_rules_when_a_field_changes_then_a_step_does_4),
    cmocka_unit_test(test_p56_fields_of_a_recipe_when_changed_then_hashes_are),
};
MPT_TEST_MAIN(cases)
