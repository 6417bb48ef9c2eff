/* recipes/: each shipped recipe is short, names its source, and compiles to the plan in
 * tests/golden/zoo/. A plan that changes shows in the difference of a golden text. */
#include "zoo.h"

#include "golden_text.h"
#include "plan/plan.h"

enum { MAX_LINES = 60, LEAST_RECIPES = 30 };

static void read_recipe(mpt_ctx *ctx, const char *name, mpt_str *out) {
    char path[512];
    snprintf(path, sizeof path, "%s/recipes/%s.lua", MPT_SOURCE_DIR, name);
    mpt_str_init(out, ctx);
    assert_true(golden_read(path, out));
}

static void test_zoo_when_counted_then_it_covers_the_published_methods(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    assert_true(z.n >= LEAST_RECIPES);
}

static void test_zoo_when_read_then_each_is_short_and_starts_with_its_path(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_str text;
        char head[128];
        int lines = 0;
        read_recipe(ctx, z.names[i], &text);
        snprintf(head, sizeof head, "-- recipes/%s.lua\n-- ", z.names[i]);
        if (strncmp(text.data, head, strlen(head)) != 0)
            fail_msg("%s does not begin with its path and a sentence", z.names[i]);
        for (size_t k = 0; k < text.len; k++)
            lines += text.data[k] == '\n';
        if (lines >= MAX_LINES)
            fail_msg("%s has %d lines", z.names[i], lines);
        mpt_str_deinit(&text);
        mpt_ctx_destroy(ctx);
    }
}

/* Whether the comment at the head says where the method is from. */
static bool names_a_source(const char *text) {
    static const char *const sources[] = {
        "arXiv ", "Transformer Engine", "torchao",         "OCP ",
        "NVIDIA", "Megatron",           "measured against"};
    const char *code = strstr(text, "\n\n");
    const char *end = strstr(text, "\nreturn ");
    code = code && (!end || code < end) ? code : end;
    for (size_t i = 0; code && i < MPT_COUNT(sources); i++) {
        const char *at = strstr(text, sources[i]);
        if (at && at < code)
            return true;
    }
    return false;
}

static void test_zoo_when_read_then_each_method_names_its_source(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_str text;
        read_recipe(ctx, z.names[i], &text);
        if (zoo_is_method(z.names[i]) && !names_a_source(text.data))
            fail_msg("%s names no source", z.names[i]);
        mpt_str_deinit(&text);
        mpt_ctx_destroy(ctx);
    }
}

/* One thread, because scratch memory is counted in the plan. */
static void check_plan(const char *name) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = zoo_load(ctx, name);
    mpt_program *program = NULL;
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = MPT_MODEL_FULL;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    mpt_str text;
    char golden[128];
    assert_mpt_ok(ctx, mpt_compile(recipe, &options, &program));
    mpt_str_init(&text, ctx);
    mpt_plan_print(program, &text);
    snprintf(golden, sizeof golden, "zoo/%s.txt", name);
    assert_golden(&text, golden);
    if (program->n_warnings > 0)
        fail_msg("%s: %s: %s", name, program->warnings[0].name, program->warnings[0].text);
    mpt_str_deinit(&text);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_zoo_when_compiled_then_each_has_its_plan_and_no_warning(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    for (int i = 0; i < z.n; i++)
        check_plan(z.names[i]);
}

/* A plan of a recipe that is gone would stay unnoticed. */
static void test_zoo_when_golden_plans_are_listed_then_each_has_a_recipe(void **state) {
    (void)state;
    zoo z;
    zoo_list(&z);
    DIR *dir = opendir(MPT_TESTS_DIR "/golden/zoo");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        bool known = entry->d_name[0] == '.';
        for (int i = 0; i < z.n; i++) {
            char file[ZOO_NAME + 8];
            snprintf(file, sizeof file, "%s.txt", z.names[i]);
            known = known || strcmp(file, entry->d_name) == 0;
        }
        if (!known)
            fail_msg("golden/zoo/%s is the plan of no recipe", entry->d_name);
    }
    closedir(dir);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_zoo_when_counted_then_it_covers_the_published_methods),
    cmocka_unit_test(test_zoo_when_read_then_each_is_short_and_starts_with_its_path),
    cmocka_unit_test(test_zoo_when_read_then_each_method_names_its_source),
    cmocka_unit_test(test_zoo_when_compiled_then_each_has_its_plan_and_no_warning),
    cmocka_unit_test(test_zoo_when_golden_plans_are_listed_then_each_has_a_recipe),
};
MPT_TEST_MAIN(cases)
