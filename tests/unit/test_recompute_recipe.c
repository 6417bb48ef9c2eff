/* train.recompute from the recipe to the plan: its words and errors, the hash, what the plan
 * says, a model without blocks; and every shipped recipe compiled both ways, its schedule
 * checked. */
#include "lua_test.h"

#include <dirent.h>

#include "plan/plan.h"

#define TRAIN(words)                                                                           \
    "train = { steps = 4, batch = 2, sequence = 16,\nlr = constant { peak = 1e-3, warmup = "   \
    "1 }, " words " }"

/* ---- words ---- */

static void expect_every(const char *fields, int full, int proxy) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
    assert_int_equal(mpt_recipe_train(r, false).recompute.every, full);
    assert_int_equal(mpt_recipe_train(r, true).recompute.every, proxy);
    mpt_lua_finish(ctx, r);
}

static void test_word_when_said_then_blocks_at_a_time(void **state) {
    (void)state;
    expect_every(TRAIN(""), 0, 0);
    expect_every(TRAIN("recompute = 'none'"), 0, 0);
    expect_every(TRAIN("recompute = 'block'"), 1, 1);
    expect_every(TRAIN("recompute = { every = 3 }"), 3, 3);
    expect_every(TRAIN("recompute = {}"), 1, 1);
    expect_every(TRAIN("recompute = 'block', proxy = { recompute = 'none' }"), 1, 0);
    expect_every(TRAIN("proxy = { recompute = { every = 2 } }"), 0, 2);
}

static void test_word_when_wrong_then_named_with_a_way_out(void **state) {
    (void)state;
    mpt_lua_refuse_fields(TRAIN("recompute = 'blocks'"),
                          "r.lua:6: train.recompute: no value 'blocks'; did you mean "
                          "'block'?");
    mpt_lua_refuse_fields(TRAIN("recompute = 'everything'"),
                          "r.lua:6: train.recompute: no value 'everything'; it can be none "
                          "or block");
    mpt_lua_refuse_fields(
        TRAIN("recompute = 2"),
        "r.lua:6: train.recompute: cannot be 2; give \"none\", \"block\" or { "
        "every = 1 }");
    mpt_lua_refuse_fields(TRAIN("recompute = true"),
                          "r.lua:6: train.recompute: cannot be true; give \"none\", \"block\" "
                          "or { every = 1 }");
    mpt_lua_refuse_fields(
        TRAIN("recompute = { every = 0 }"),
        "r.lua:6: train.recompute.every: out of range: 0; give a whole number "
        "of 1 or more and at most 65536");
    mpt_lua_refuse_fields(TRAIN("recompute = { evry = 2 }"),
                          "r.lua:6: train.recompute: no field 'evry'; did you mean 'every'?");
    mpt_lua_refuse_fields(
        TRAIN("recompute = { 2 }"),
        "r.lua:6: train.recompute: a number stands here without a name; give it a "
        "name: name = value");
}

static void set(mpt_recipe *r, const char *path, const char *value) {
    assert_mpt_ok(r->ctx, mpt_recipe_set(r, path, value));
}

/* A value set by path counts for the proxy too; train.proxy is the proxy's alone. */
static void test_set_when_by_path_then_as_in_the_recipe(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, TRAIN("proxy = { recompute = { every = 4 } }"));
    set(r, "train.recompute.every", "2");
    assert_int_equal(mpt_recipe_train(r, false).recompute.every, 2);
    assert_int_equal(mpt_recipe_train(r, true).recompute.every, 2);
    set(r, "train.recompute", "block");
    assert_int_equal(mpt_recipe_train(r, false).recompute.every, 1);
    assert_int_equal(mpt_recipe_train(r, true).recompute.every, 1);
    set(r, "train.proxy.recompute", "none");
    assert_int_equal(mpt_recipe_train(r, false).recompute.every, 1);
    assert_int_equal(mpt_recipe_train(r, true).recompute.every, 0);
    set(r, "train.proxy.recompute.every", "5");
    assert_int_equal(mpt_recipe_train(r, true).recompute.every, 5);
    assert_int_equal(mpt_recipe_set(r, "train.recompute.every", "many"), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:4: train.recompute.every: cannot be 'many'; give a whole number "
                        "of 1 or more and at most 65536");
    assert_int_equal(mpt_recipe_set(r, "train.recompute", "3"), MPT_INVALID);
    assert_int_equal(mpt_recipe_train(r, false).recompute.every, 1);
    mpt_lua_finish(ctx, r);
}

/* ---- canonical text ---- */

static void canonical(const char *words, char text[4096], char hash[17]) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    mpt_recipe *r = mpt_lua_load_fields(ctx, words);
    mpt_str_init(&out, ctx);
    mpt_recipe_canonical(r, &out);
    assert_true(out.len < 4096);
    memcpy(text, out.data, out.len + 1);
    assert_mpt_ok(ctx, mpt_recipe_hash(r, hash));
    mpt_str_deinit(&out);
    mpt_lua_finish(ctx, r);
}

static void test_canonical_when_none_then_as_if_not_said(void **state) {
    (void)state;
    char plain[4096], none[4096], block[4096], one[4096], two[4096];
    char hash[5][17];
    canonical(TRAIN(""), plain, hash[0]);
    canonical(TRAIN("recompute = 'none'"), none, hash[1]);
    canonical(TRAIN("recompute = 'block'"), block, hash[2]);
    canonical(TRAIN("recompute = { every = 1 }"), one, hash[3]);
    canonical(TRAIN("recompute = { every = 2 }"), two, hash[4]);
    assert_string_equal(plain, none);
    assert_null(strstr(plain, "recompute"));
    assert_non_null(strstr(block, "train.recompute = block\n"));
    assert_string_equal(block, one);
    assert_non_null(strstr(two, "train.recompute = recompute\ntrain.recompute.every = 2\n"));
    assert_string_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[1], hash[2]);
    assert_string_equal(hash[2], hash[3]);
    assert_string_not_equal(hash[3], hash[4]);
}

/* ---- programs ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} fixture;

static void compile(fixture *f, mpt_model_choice model) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = model;
    options.n_threads = 1;
    assert_mpt_ok(f->ctx, mpt_compile(f->recipe, &options, &f->program));
}

static void setup_file(fixture *f, const char *name, const char *every,
                       mpt_model_choice model) {
    char path[512];
    mpt_load_options options = MPT_LOAD_OPTIONS_INIT;
    mpt_set sets[] = {{"train.recompute.every", every}};
    *f = (fixture){.ctx = mpt_test_ctx()};
    snprintf(path, sizeof path, "%s/recipes/%s", MPT_SOURCE_DIR, name);
    options.sets = sets;
    options.n_sets = every ? 1 : 0;
    assert_mpt_ok(f->ctx, mpt_recipe_load_file(f->ctx, path, &options, &f->recipe));
    compile(f, model);
}

static void teardown(fixture *f) {
    mpt_program_destroy(f->program);
    mpt_lua_finish(f->ctx, f->recipe);
}

static bool has_warning(const fixture *f, const char *name, const char *text) {
    mpt_warning_view w;
    for (int i = 0; mpt_program_warning(f->program, i, &w); i++)
        if (strcmp(w.name, name) == 0 && strstr(w.text, text))
            return true;
    return false;
}

static void test_compile_when_the_model_has_no_blocks_then_no_effect(void **state) {
    (void)state;
    static const char text[] = "train.recompute: the model has no blocks to recompute";
    fixture f = {.ctx = mpt_test_ctx()};
    f.recipe = mpt_lua_load_fields(f.ctx, TRAIN("recompute = 'block'"));
    compile(&f, MPT_MODEL_FULL);
    assert_true(has_warning(&f, "no-effect", text));
    teardown(&f);
    f = (fixture){.ctx = mpt_test_ctx()};
    f.recipe = mpt_lua_load_fields(f.ctx, TRAIN(""));
    compile(&f, MPT_MODEL_FULL);
    assert_false(has_warning(&f, "no-effect", text));
    teardown(&f);
}

/* What leads nowhere in a model is no fault: it costs nothing. */
static void test_compile_when_a_value_is_unused_then_it_is_pruned(void **state) {
    (void)state;
    static const char text[] =
        "local m = model { name = 'm', sizes = { s = { w = 4 } }, graph = function(nn, size)\n"
        "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"
        "  nn.add(nn.silu(x), x)\n"
        "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"
        "return recipe { model = m 's', " TRAIN("") " }";
    fixture f = {.ctx = mpt_test_ctx()};
    f.recipe = mpt_lua_load(f.ctx, text);
    compile(&f, MPT_MODEL_FULL);
    assert_int_equal(f.program->phases[0]->graph->n_pruned, 2);
    teardown(&f);
}

/* ---- the plan ---- */

static void collect(const fixture *f, mpt_plan *plan) {
    mpt_arena arena;
    mpt_arena_init(&arena, f->ctx);
    assert_mpt_ok(f->ctx, mpt_plan_collect(f->program, &arena, plan));
    mpt_arena_deinit(&arena);
}

/* Each of the two programs says what the other would take, and the same of both. */
static void test_plan_when_either_way_then_both_figures_are_there(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        mpt_model_choice model;
    } rows[] = {{"nvfp4_12b.lua", MPT_MODEL_FULL},
                {"nvfp4_12b.lua", MPT_MODEL_PROXY},
                {"gpt2_fp8_delayed.lua", MPT_MODEL_FULL}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        mpt_plan kept, block, two;
        setup_file(&f, rows[i].recipe, NULL, rows[i].model);
        collect(&f, &kept);
        teardown(&f);
        setup_file(&f, rows[i].recipe, "1", rows[i].model);
        collect(&f, &block);
        teardown(&f);
        setup_file(&f, rows[i].recipe, "2", rows[i].model);
        collect(&f, &two);
        teardown(&f);
        assert_int_equal(kept.bytes.of[MPT_MEMORY_ACTIVATIONS], kept.activations_kept);
        assert_int_equal(block.bytes.of[MPT_MEMORY_ACTIVATIONS], block.activations_recomputed);
        assert_int_equal(two.bytes.of[MPT_MEMORY_ACTIVATIONS], two.activations_recomputed);
        assert_int_equal(kept.activations_kept, block.activations_kept);
        assert_int_equal(kept.activations_kept, two.activations_kept);
        assert_int_equal(kept.activations_recomputed, block.activations_recomputed);
        assert_true(block.activations_recomputed < kept.activations_kept);
        assert_int_equal(two.recompute, 2);
    }
}

/* A block's forward work once more, less what only made what backward does not need: the last
 * product of each block. The other passes stay as they were. */
static void test_plan_when_recomputed_then_its_work_is_counted_apart(void **state) {
    (void)state;
    fixture f;
    mpt_plan kept, block;
    setup_file(&f, "gpt2_nvfp4.lua", NULL, MPT_MODEL_FULL);
    collect(&f, &kept);
    teardown(&f);
    setup_file(&f, "gpt2_nvfp4.lua", "1", MPT_MODEL_FULL);
    collect(&f, &block);
    teardown(&f);
    assert_true(kept.flops.recompute == 0);
    assert_true(block.flops.recompute > kept.flops.fprop / 2);
    assert_true(block.flops.recompute <
                kept.flops.fprop + kept.flops.attention + kept.flops.other);
    assert_true(block.flops.fprop == kept.flops.fprop);
    assert_true(block.flops.dgrad == kept.flops.dgrad);
    assert_true(block.flops.wgrad == kept.flops.wgrad);
    assert_true(block.flops.attention == kept.flops.attention);
}

static void test_plan_when_printed_then_a_line_says_both(void **state) {
    (void)state;
    static const struct {
        const char *every, *text;
    } rows[] = {{NULL, "none; with \"block\", activations would take "},
                {"1", "1 block at a time; kept, activations would take "},
                {"3", "3 blocks at a time; kept, activations would take "}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        mpt_str text;
        setup_file(&f, "gpt2_bf16.lua", rows[i].every, MPT_MODEL_FULL);
        mpt_str_init(&text, f.ctx);
        mpt_plan_print(f.program, &text);
        assert_non_null(strstr(text.data, rows[i].text));
        mpt_str_deinit(&text);
        teardown(&f);
    }
}

/* Without recomputation a schedule keeps its hash; each length of segment has its own. */
static void test_hash_when_recomputed_then_another(void **state) {
    (void)state;
    static const char *const every[] = {NULL, "1", "2"};
    char hash[3][17];
    for (size_t i = 0; i < MPT_COUNT(every); i++) {
        fixture f;
        setup_file(&f, "gpt2_nvfp4.lua", every[i], MPT_MODEL_FULL);
        memcpy(hash[i], f.program->phases[0]->schedule_hash, 17);
        teardown(&f);
    }
    assert_string_not_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[0], hash[2]);
    assert_string_not_equal(hash[1], hash[2]);
}

/* ---- every shipped recipe ---- */

static void verify_phases(const fixture *f, const char *name) {
    for (int p = 0; p < f->program->n_phases; p++)
        if (mpt_schedule_verify(f->program->phases[p]) != MPT_OK)
            fail_msg("%s, phase %s: %s", name, f->program->phases[p]->phase,
                     mpt_ctx_error(f->ctx)->message);
}

static void verify_recipe(const char *name, const char *every) {
    fixture f;
    setup_file(&f, name, every, MPT_MODEL_FULL);
    verify_phases(&f, name);
    bool has_proxy = f.recipe->proxy.present;
    teardown(&f);
    if (!has_proxy)
        return;
    setup_file(&f, name, every, MPT_MODEL_PROXY);
    verify_phases(&f, name);
    teardown(&f);
}

static void test_schedule_when_any_shipped_recipe_then_it_is_sound(void **state) {
    (void)state;
    static const char *const every[] = {NULL, "1", "3"};
    DIR *dir = opendir(MPT_SOURCE_DIR "/recipes");
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".lua") != 0)
            continue;
        for (size_t i = 0; i < MPT_COUNT(every); i++)
            verify_recipe(entry->d_name, every[i]);
        n++;
    }
    closedir(dir);
    assert_true(n >= 11);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_word_when_said_then_blocks_at_a_time),
    cmocka_unit_test(test_word_when_wrong_then_named_with_a_way_out),
    cmocka_unit_test(test_set_when_by_path_then_as_in_the_recipe),
    cmocka_unit_test(test_canonical_when_none_then_as_if_not_said),
    cmocka_unit_test(test_compile_when_the_model_has_no_blocks_then_no_effect),
    cmocka_unit_test(test_compile_when_a_value_is_unused_then_it_is_pruned),
    cmocka_unit_test(test_plan_when_either_way_then_both_figures_are_there),
    cmocka_unit_test(test_plan_when_recomputed_then_its_work_is_counted_apart),
    cmocka_unit_test(test_plan_when_printed_then_a_line_says_both),
    cmocka_unit_test(test_hash_when_recomputed_then_another),
    cmocka_unit_test(test_schedule_when_any_shipped_recipe_then_it_is_sound),
};

MPT_TEST_MAIN(cases)
