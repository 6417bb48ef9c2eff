/* A default that a plan tells is the value that is used: said by hand it changes nothing, and
 * plan, recipe's text and hash all have it. Over every field that a plan has a default for, in
 * recipes whose defaults depend on other fields, on the model's size and on the proxy. */
#include "lua_test.h"

#include <jansson.h>

#include "pipeline.h"
#include "plan/plan.h"

typedef struct told {
    char hash[17], schedule[17];
    json_t *plan;
} told;

/* Compiles a recipe with one field set, none where `path` is NULL. */
static void tell(const char *fields, mpt_model_choice model, const char *path,
                 const char *value, told *out) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = mpt_lua_load_fields(ctx, fields);
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    mpt_program *program = NULL;
    mpt_str text;
    options.device = MPT_DEVICE_CPU;
    options.model = model;
    options.n_threads = 1;
    if (path)
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, path, value));
    assert_mpt_ok(ctx, mpt_compile(recipe, &options, &program));
    mpt_str_init(&text, ctx);
    assert_mpt_ok(ctx, mpt_plan_json(program, &text));
    out->plan = json_loads(text.data, 0, NULL);
    assert_non_null(out->plan);
    memcpy(out->hash, program->recipe_hash, sizeof out->hash);
    memcpy(out->schedule, program->phases[0]->schedule_hash, sizeof out->schedule);
    mpt_str_deinit(&text);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, recipe);
}

#define LENGTH "steps = 6, batch = 4, sequence = 8"
#define RATE   "lr = constant { peak = 1e-3 }"

static const struct {
    const char *what, *fields;
    mpt_model_choice model;
} rows[] = {
    {"a small model", "train = { " LENGTH ", " RATE " }", MPT_MODEL_AUTO},
    {"sgd", "train = { " LENGTH ", optimizer = sgd {}, lr = wsd { peak = 1 } }",
     MPT_MODEL_AUTO},
    {"fp16",
     "precision = { base = fp16, loss_scale = dynamic {} },\n"
     "train = { " LENGTH ", lr = cosine { peak = 1e-3 } }",
     MPT_MODEL_AUTO},
    {"a model beside its proxy",
     "proxy = m 's', train = { " LENGTH ", " RATE ", proxy = { batch = 2 } }", MPT_MODEL_FULL},
    {"its proxy", "proxy = m 's', train = { " LENGTH ", " RATE ", proxy = { batch = 2 } }",
     MPT_MODEL_PROXY},
};

/* Every member of train that is also a field of the recipe's text has its value. */
static void check_train(const char *what, mpt_model_choice model, const json_t *plan) {
    const json_t *train = json_object_get(plan, "train"),
                 *fields = json_object_get(train, "fields");
    const char *name;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)train, name, value) {
        char path[64], number[32];
        snprintf(path, sizeof path, "train.%s%s", model == MPT_MODEL_PROXY ? "proxy." : "",
                 name);
        const char *field = json_string_value(json_object_get(fields, path));
        if (!field || !json_is_integer(value))
            continue;
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        if (strcmp(field, number) != 0)
            fail_msg("%s: %s is %s, and its text says %s", what, path, number, field);
        n++;
    }
    assert_true(n >= 5); /* steps, batch, micro_batch, sequence, seed */
}

/* Not the words of what is absent, nor an op's that name another one that decides. */
static bool is_value(const char *path, const char *value) {
    static const char ops[] = "precision.ops.";
    if (strncmp(path, ops, strlen(ops)) == 0)
        return mpt_dtype_by_name(value) != MPT_DTYPE_COUNT;
    return strcmp(value, "none") != 0 && strcmp(value, "as computed") != 0;
}

/* One default, said by hand. Where there is a proxy, it is said for both models, so that only
 * what the plan says of the one that runs is the same. */
static void check_default(size_t r, const told *unsaid, const char *path, const char *value) {
    told said;
    tell(rows[r].fields, rows[r].model, path, value, &said);
    if (strcmp(said.schedule, unsaid->schedule) != 0)
        fail_msg("%s: %s = %s has another schedule than unsaid", rows[r].what, path, value);
    if (rows[r].model == MPT_MODEL_AUTO && strcmp(said.hash, unsaid->hash) != 0)
        fail_msg("%s: %s = %s has another recipe hash than unsaid", rows[r].what, path, value);
    if (!json_equal(json_object_get(said.plan, "train"),
                    json_object_get(unsaid->plan, "train")))
        fail_msg("%s: %s = %s trains otherwise than unsaid", rows[r].what, path, value);
    json_decref(said.plan);
}

static void test_defaults_when_said_by_hand_then_the_recipe_is_the_same(void **state) {
    (void)state;
    for (size_t r = 0; r < MPT_COUNT(rows); r++) {
        told unsaid;
        json_t *field;
        size_t i;
        bool has_micro = false;
        tell(rows[r].fields, rows[r].model, NULL, NULL, &unsaid);
        check_train(rows[r].what, rows[r].model, unsaid.plan);
        json_array_foreach(json_object_get(unsaid.plan, "defaults"), i, field) {
            const char *path = json_string_value(json_object_get(field, "path")),
                       *value = json_string_value(json_object_get(field, "value"));
            has_micro = has_micro || strcmp(path, "train.micro_batch") == 0;
            if (is_value(path, value))
                check_default(r, &unsaid, path, value);
        }
        assert_true(has_micro);
        json_decref(unsaid.plan);
    }
}

/* Whoever says another value must be told apart, or two computations share a hash. */
static void test_micro_batch_when_another_than_used_then_another_hash(void **state) {
    (void)state;
    told used, one;
    tell(rows[0].fields, MPT_MODEL_AUTO, NULL, NULL, &used);
    tell(rows[0].fields, MPT_MODEL_AUTO, "train.micro_batch", "1", &one);
    assert_string_not_equal(used.schedule, one.schedule);
    assert_string_not_equal(used.hash, one.hash);
    json_decref(used.plan);
    json_decref(one.plan);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_defaults_when_said_by_hand_then_the_recipe_is_the_same),
    cmocka_unit_test(test_micro_batch_when_another_than_used_then_another_hash),
};

MPT_TEST_MAIN(cases)
