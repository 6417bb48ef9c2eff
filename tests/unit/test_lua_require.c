/* lua/bind: where `require` looks, and in which order; in folders of its own. */
#include "lua_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A project with a recipe in recipes/ and whatever else a test writes. */
typedef struct project {
    char root[64];
    char files[8][512];
    int n_files;
} project;

static project begin(void) {
    project p = {"/tmp/mpt_test_require_XXXXXX", {""}, 0};
    assert_non_null(mkdtemp(p.root));
    return p;
}

/* Writes a file; the folders on its way are made. */
static void put(project *p, const char *name, const char *text) {
    char *path = p->files[p->n_files++];
    char root[sizeof p->root];
    memcpy(root, p->root, sizeof root);
    snprintf(path, sizeof p->files[0], "%s/%s", root, name);
    for (char *slash = path + strlen(p->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Removes the files and each folder that gets empty by that. */
static void end(project *p) {
    while (p->n_files > 0) {
        char *path = p->files[--p->n_files];
        assert_int_equal(unlink(path), 0);
        for (char *slash; (slash = strrchr(path, '/')) > path + strlen(p->root);) {
            *slash = 0;
            (void)rmdir(path);
        }
    }
    assert_int_equal(rmdir(p->root), 0);
}

/* Loads a recipe of the project and gives its train.steps, which say which file was used. */
static int steps_of(const project *p, const char *name) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", p->root, name);
    assert_mpt_ok(ctx, mpt_recipe_load_file(ctx, path, NULL, &recipe));
    int steps = (int)recipe->train.steps;
    mpt_lua_finish(ctx, recipe);
    return steps;
}

#define DERIVED "return derive(require 'recipes.gpt2_base', {})"
#define BASE(steps)                                                                            \
    "return recipe { model = require 'models.mlp' 'tiny', train = { steps = " steps " } }"

static void test_require_when_nothing_stands_near_then_the_tree_is_used(void **state) {
    (void)state;
    project p = begin();
    put(&p, "recipes/mine.lua", DERIVED);
    assert_int_equal(steps_of(&p, "recipes/mine.lua"), 1000);
    end(&p);
}

static void test_require_when_a_project_has_its_own_files_then_they_win(void **state) {
    (void)state;
    project p = begin();
    put(&p, "recipes/mine.lua", DERIVED);
    put(&p, "recipes/gpt2_base.lua", BASE("7"));
    assert_int_equal(steps_of(&p, "recipes/mine.lua"), 7);
    put(&p, "models/mlp.lua", "return (require 'models.gpt2')");
    put(&p, "models/gpt2.lua", "error('my own model', 0)");
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    char path[512];
    snprintf(path, sizeof path, "%s/recipes/mine.lua", p.root);
    assert_int_equal(mpt_recipe_load_file(ctx, path, NULL, &recipe), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "my own model"));
    mpt_lua_finish(ctx, NULL);
    end(&p);
}

static void test_require_when_folders_lie_below_the_recipe_then_they_come_first(void **state) {
    (void)state;
    project p = begin();
    put(&p, "sub/mine.lua", DERIVED);
    put(&p, "recipes/gpt2_base.lua", BASE("7"));
    assert_int_equal(steps_of(&p, "sub/mine.lua"), 7);
    put(&p, "sub/recipes/gpt2_base.lua", BASE("8"));
    assert_int_equal(steps_of(&p, "sub/mine.lua"), 8);
    end(&p);
}

/* From inside the folder the way up is "../". */
static void
test_require_when_the_recipe_has_no_folder_then_the_one_above_is_found(void **state) {
    (void)state;
    static const char *const names[] = {"mine.lua", "./mine.lua", "../recipes/mine.lua",
                                        "../recipes/./mine.lua"};
    project p = begin();
    char before[512], folder[512];
    put(&p, "recipes/mine.lua", BASE("7"));
    put(&p, "models/mlp.lua", "error('my own model', 0)");
    snprintf(folder, sizeof folder, "%s/recipes", p.root);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe;
        assert_int_equal(mpt_recipe_load_file(ctx, names[i], NULL, &recipe), MPT_INVALID);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, "my own model"));
        mpt_lua_finish(ctx, NULL);
    }
    assert_int_equal(chdir(before), 0);
    end(&p);
}

/* Only models/ and recipes/ are looked for above the recipe, and never two folders above. */
static void test_require_when_a_file_is_out_of_reach_then_it_stays_so(void **state) {
    (void)state;
    project p = begin();
    put(&p, "sub/sub/mine.lua", "return require 'other.part'");
    put(&p, "sub/other/part.lua", "return 1");
    put(&p, "models/part.lua", "return 1");
    put(&p, "sub/sub/up.lua", "return require 'models.part'");
    static const char *const names[] = {"mine", "up"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe;
        mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
        char path[512], message[1024];
        options.tree = "/no/tree";
        snprintf(path, sizeof path, "%s/sub/sub/%s.lua", p.root, names[i]);
        assert_int_equal(mpt_recipe_load_file(ctx, path, &options, &recipe), MPT_INVALID);
        if (i == 0)
            snprintf(message, sizeof message,
                     "%s:1: require: there is no module 'other.part'; looked for "
                     "other/part.lua in %s/sub/sub/",
                     path, p.root);
        else
            snprintf(message, sizeof message,
                     "%s:1: require: there is no module 'models.part'; looked for "
                     "models/part.lua in %s/sub/sub/, %s/sub/, /no/tree/",
                     path, p.root, p.root);
        assert_string_equal(mpt_ctx_error(ctx)->message, message);
        mpt_lua_finish(ctx, NULL);
    }
    end(&p);
}

static void test_require_when_the_recipe_is_in_memory_then_no_folder_is_read(void **state) {
    (void)state;
    mpt_lua_refuse("return require 'part'",
                   "r.lua:1: require: there is no module 'part'; a recipe held in memory has "
                   "models.* and recipes.* only");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_require_when_nothing_stands_near_then_the_tree_is_used),
    cmocka_unit_test(test_require_when_a_project_has_its_own_files_then_they_win),
    cmocka_unit_test(test_require_when_folders_lie_below_the_recipe_then_they_come_first),
    cmocka_unit_test(test_require_when_the_recipe_has_no_folder_then_the_one_above_is_found),
    cmocka_unit_test(test_require_when_a_file_is_out_of_reach_then_it_stays_so),
    cmocka_unit_test(test_require_when_the_recipe_is_in_memory_then_no_folder_is_read),
};
MPT_TEST_MAIN(cases)
