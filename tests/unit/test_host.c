/* recipe/host.c and print.c: a recipe filled by C calls, its canonical text and hash, and what
 * is left when memory runs out half way. */
#include "recipe_fixture.h"

#include <stdlib.h>

static void expect_refused(const mpt_rule_desc *rule, const char *message) {
    fixture f;
    fixture_open(&f);
    mpt_rule_desc desc = *rule;
    desc.size = sizeof desc;
    assert_int_equal(mpt_recipe_add_rule(f.recipe, &desc), MPT_INVALID);
    assert_message(f.ctx, message);
    assert_int_equal(f.recipe->n_rules, 0);
    fixture_close(&f);
}

#define RULE(...)   (&(const mpt_rule_desc){__VA_ARGS__})
#define WORDS(...)  .words = (const mpt_set[]){__VA_ARGS__}, .n_words = 1
#define LINEAR(...) RULE(.selector = "linear", __VA_ARGS__)

static void test_rule_when_the_format_is_misspelt_then_the_nearest_is_named(void **state) {
    (void)state;
    expect_refused(LINEAR(.use = "nvpf4"),
                   "precision.rules[1].use: no format 'nvpf4'; did you mean 'nvfp4'?");
    expect_refused(LINEAR(.use = "posit"),
                   "precision.rules[1].use: no format 'posit'; for instance 'fp32'");
    expect_refused(
        LINEAR(.use = "nvfp4 stochastic"),
        "precision.rules[1].use: 'stochastic' is no field with a value; write a format first, "
        "then fields: nvfp4 rounding=stochastic");
    expect_refused(LINEAR(.use = "nvfp4 roundng=stochastic"),
                   "precision.rules[1].use: no field 'roundng'; did you mean 'rounding'?");
    expect_refused(LINEAR(.use = "nvfp4 hadamard.size=12"),
                   "precision.rules[1].use.hadamard.size: no value 12; it can be 2, 4, 8, 16, "
                   "32, 64 or 128");
}

static void test_rule_when_a_word_is_wrong_then_the_way_out_is_named(void **state) {
    (void)state;
    expect_refused(LINEAR(WORDS({"wieght", "bf16"})),
                   "precision.rules[1].use: no word 'wieght'; did you mean 'weight'?");
    expect_refused(
        LINEAR(WORDS({"wgrad", "bf16"})),
        "precision.rules[1].use.wgrad: only hadamard belongs to a whole product; name the "
        "operand: fprop.x, fprop.w, dgrad.dy, dgrad.w, wgrad.dy or wgrad.x");
    expect_refused(
        LINEAR(WORDS({"fprop.output", "e4m3"})),
        "precision.rules[1].use.fprop.output: no format 'e4m3' here; take fp32, bf16 or fp16");
    expect_refused(LINEAR(.gemms = "fprop wgard", .use = "bf16"),
                   "precision.rules[1].gemms: no gemm 'wgard'; did you mean 'wgrad'?");
    expect_refused(LINEAR(.phase = "late", .use = "bf16"),
                   "rule: there is no phase 'late'; add it first, by mpt_recipe_add_phase");
}

static void test_rule_when_blocks_are_wrong_then_the_shapes_are_listed(void **state) {
    (void)state;
    static const char *const wrong[] = {"",          "2",          "first",     "first two",
                                        "first 1.5", "range 3",    "only",      "every 2 3",
                                        "all 3",     "range 1 2x", "first 1e99"};
    for (size_t i = 0; i < MPT_COUNT(wrong); i++) {
        char message[256];
        snprintf(message, sizeof message,
                 "precision.rules[1].blocks: '%s' is no choice of blocks; write first 2, last "
                 "8, range 3 "
                 "7, every 4, last_fraction 0.15 or only 3 7",
                 wrong[i]);
        expect_refused(LINEAR(.blocks = wrong[i], .use = "bf16"), message);
    }
    expect_refused(LINEAR(.blocks = "first 0", .use = "bf16"),
                   "precision.rules[1].blocks: needs a number of blocks; give 1 or more");
    expect_refused(
        LINEAR(.blocks = "range 3 2", .use = "bf16"),
        "precision.rules[1].blocks: is no range of blocks; give the first and the last block, "
        "counted from 0");
    expect_refused(LINEAR(.blocks = "last_fraction 1.5", .use = "bf16"),
                   "precision.rules[1].blocks: needs a fraction of the blocks; give a number "
                   "above 0 and at "
                   "most 1");
    expect_refused(
        LINEAR(.blocks = "only 1 -1", .use = "bf16"),
        "precision.rules[1].blocks: has a negative block; blocks are counted from 0; last(n) "
        "counts from the end");
}

static void test_rule_when_made_by_the_macro_then_the_place_is_the_hosts(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    int line = __LINE__ + 1;
    assert_mpt_ok(f.ctx,
                  mpt_recipe_add_rule(f.recipe, MPT_RULE(.selector = "linear", .use = "e4m3")));
    assert_string_equal(f.recipe->rules[0].where.file, __FILE__);
    assert_in_range(f.recipe->rules[0].where.line, line, line + 2);
    fixture_close(&f);
}

static void test_host_when_frozen_then_nothing_can_be_added(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    assert_int_equal(
        mpt_recipe_add_rule(f.recipe, MPT_RULE(.selector = "linear", .use = "e4m3")),
        MPT_INVALID);
    assert_message(f.ctx, "rule: the recipe was compiled and does not change any more; add it "
                          "before compiling");
    assert_int_equal(mpt_recipe_add_phase(f.recipe, "late", "0.5"), MPT_INVALID);
    assert_int_equal(mpt_recipe_set_model(f.recipe, "m", "s", fixture_build, NULL),
                     MPT_INVALID);
    fixture_close(&f);
}

static void test_phase_when_its_start_is_no_number_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_int_equal(mpt_recipe_add_phase(f.recipe, "late", "soon"), MPT_INVALID);
    assert_message(f.ctx,
                   "from: cannot be 'soon'; give a whole number, or a fraction of the run "
                   "from 0.0 to 1.0");
    assert_int_equal(f.recipe->n_phases, 0);
    fixture_close(&f);
}

/* ---- canonical text ---- */

static void fill(fixture *f) {
    const mpt_set words[] = {{"weight", "nvfp4 block=16x16"},
                             {"gradient", "rounding=stochastic"},
                             {"wgrad", "hadamard.size=16"},
                             {"dgrad.output", "fp32"}};
    assert_mpt_ok(f->ctx, mpt_recipe_add_phase(f->recipe, "low", NULL));
    assert_mpt_ok(f->ctx, mpt_recipe_add_phase(f->recipe, "settle", "0.82"));
    fixture_rule(f, 1, .selector = "linear", .words = words, .n_words = 4);
    fixture_rule(f, 2, .selector = "linear *.o_proj", .blocks = "only 0 2", .use = "bf16");
    fixture_rule(f, 3, .phase = "settle", .selector = "linear", .gemms = "fprop",
                 .use = "e4m3");
}

static const char canonical_text[] =
    "model = gpt tiny\n"
    "precision.base = bf16\n"
    "precision.state.residual = bf16\n"
    "precision.loss_scale = 0\n"
    "precision.rules[1].select = linear\n"
    "precision.rules[1].blocks = all\n"
    "precision.rules[1].gemms = fprop dgrad wgrad\n"
    "precision.rules[1].use.fprop.w = e2m1 block=16x16 scale=current scale_format=e4m3 "
    "scale_rule=nearest outer=tensor headroom=1 rounding=nearest hadamard=none "
    "nonfinite=propagate source=original pad=zero\n"
    "precision.rules[1].use.dgrad.dy = rounding=stochastic\n"
    "precision.rules[1].use.dgrad.w = e2m1 block=16x16 scale=current scale_format=e4m3 "
    "scale_rule=nearest outer=tensor headroom=1 rounding=nearest hadamard=none "
    "nonfinite=propagate source=original pad=zero\n"
    "precision.rules[1].use.wgrad.dy = rounding=stochastic hadamard.size=16 "
    "hadamard.signs=fixed\n"
    "precision.rules[1].use.wgrad.x = hadamard.size=16 hadamard.signs=fixed\n"
    "precision.rules[1].use.dgrad.output = fp32\n"
    "precision.rules[2].select = linear *.o_proj\n"
    "precision.rules[2].blocks = only 0 2\n"
    "precision.rules[2].gemms = fprop dgrad wgrad\n"
    "precision.rules[2].use = bf16\n"
    "phases[1] = low\n"
    "phases[1].from = 0\n"
    "phases[2] = settle\n"
    "phases[2].from = 0.81999999999999995 of the run\n"
    "phases[2].rules[1].select = linear\n"
    "phases[2].rules[1].blocks = all\n"
    "phases[2].rules[1].gemms = fprop\n"
    "phases[2].rules[1].use = e4m3 block=tensor scale=current scale_format=fp32 "
    "scale_rule=nearest outer=none headroom=1 rounding=nearest hadamard=none "
    "nonfinite=propagate source=original pad=zero\n"
    "train.steps = 100\n"
    "train.tokens = 0\n"
    "train.batch = 8\n"
    "train.micro_batch = 1\n"
    "train.sequence = 32\n"
    "train.optimizer = adamw\n"
    "train.optimizer.betas = 0.90000000000000002 0.94999999999999996\n"
    "train.optimizer.eps = 1e-08\n"
    "train.optimizer.weight_decay = 0.10000000000000001\n"
    "train.decay = matrices\n"
    "train.lr = cosine\n"
    "train.lr.peak = 0.001\n"
    "train.lr.final = 0\n"
    "train.lr.warmup = 10\n"
    "train.clip = 1\n"
    "train.seed = 1234\n"
    "data = synthetic\n"
    "data.seed = 0\n"
    "data.vocab = 128\n";

static void test_canonical_when_printed_then_every_number_is_there(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fill(&f);
    mpt_str text;
    mpt_str_init(&text, f.ctx);
    mpt_recipe_canonical(f.recipe, &text);
    assert_string_equal(text.data, canonical_text);
    mpt_str_deinit(&text);
    fixture_close(&f);
}

static void hash_of(const char *path, const char *value, char out[17]) {
    fixture f;
    fixture_open(&f);
    fill(&f);
    if (path)
        fixture_set(&f, path, value);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    assert_mpt_ok(f.ctx, mpt_recipe_hash(f.recipe, out));
    assert_int_equal(strlen(out), 16);
    fixture_close(&f);
}

static void test_hash_when_a_number_changes_then_it_changes(void **state) {
    (void)state;
    static const mpt_set changes[] = {{"train.clip", "2"},
                                      {"train.lr.peak", "2e-3"},
                                      {"train.micro_batch", "2"},
                                      {"precision.base", "fp16"},
                                      {"precision.state.residual", "fp32"},
                                      {"precision.loss_scale", "2"},
                                      {"data.seed", "3"},
                                      {"seed", "3"}};
    char base[17], other[17];
    hash_of(NULL, NULL, base);
    for (size_t i = 0; i < MPT_COUNT(changes); i++) {
        hash_of(changes[i].path, changes[i].value, other);
        if (strcmp(base, other) == 0)
            fail_msg("%s does not count", changes[i].path);
    }
}

static void test_hash_when_only_words_change_then_it_stays(void **state) {
    (void)state;
    static const mpt_set changes[] = {{"name", "other"},
                                      {"description", "words"},
                                      {"train.eval.every", "10"},
                                      {"precision.base", "bf16"},
                                      {"train.micro_batch", "1"}};
    char base[17], other[17];
    hash_of(NULL, NULL, base);
    for (size_t i = 0; i < MPT_COUNT(changes); i++) {
        hash_of(changes[i].path, changes[i].value, other);
        assert_string_equal(base, other);
    }
}

/* ---- memory ---- */

typedef struct failing {
    int left; /* calls that still succeed */
} failing;

static void *failing_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    failing *f = ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return f->left-- > 0 ? realloc(ptr, new_size) : NULL;
}

/* Makes, resolves, checks and hashes a recipe; large enough to need several arena chunks. */
static mpt_status whole_life(mpt_ctx *ctx, fixture *f) {
    mpt_arena arena;
    mpt_warning *warnings;
    mpt_policy *policies[] = {f->policies};
    char hash[17];
    int n;
    mpt_arena_init(&arena, ctx);
    mpt_status status = mpt_recipe_create(ctx, "test", &f->recipe);
    if (status == MPT_OK)
        status = mpt_recipe_set_model(f->recipe, "gpt", "tiny", fixture_build, NULL);
    static const mpt_set sets[] = {{"train.steps", "10"},     {"train.batch", "1"},
                                   {"train.sequence", "8"},   {"train.lr", "cosine"},
                                   {"train.lr.peak", "1e-3"}, {"train.clip", "0"},
                                   {"data", "text"},          {"data.path", "a.txt"}};
    for (size_t i = 0; status == MPT_OK && i < MPT_COUNT(sets); i++)
        status = mpt_recipe_set(f->recipe, sets[i].path, sets[i].value);
    for (int i = 0; status == MPT_OK && i < 40; i++)
        status =
            mpt_recipe_add_rule(f->recipe, MPT_RULE(.selector = "linear", .blocks = "only 1 2",
                                                    .use = "e4m3 rounding=stochastic"));
    if (status == MPT_OK)
        status = mpt_recipe_append_allow(f->recipe, "no-warmup", MPT_NOWHERE);
    if (status == MPT_OK)
        status = mpt_recipe_freeze(f->recipe);
    if (status == MPT_OK)
        status = fixture_try_resolve(f, 0);
    if (status == MPT_OK)
        status = mpt_recipe_check(f->recipe, &arena, f->layers, FIXTURE_LAYERS, FIXTURE_BLOCKS,
                                  policies, &warnings, &n);
    if (status == MPT_OK)
        status = mpt_recipe_hash(f->recipe, hash);
    mpt_arena_deinit(&arena);
    mpt_recipe_destroy(f->recipe);
    return status;
}

static void test_host_when_memory_runs_out_then_nothing_is_lost(void **state) {
    (void)state;
    mpt_status status = MPT_OUT_OF_MEMORY;
    int calls = 1;
    for (; status != MPT_OK && calls < 1000; calls++) {
        failing hook = {calls};
        mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
        fixture f;
        options.alloc = failing_alloc;
        options.alloc_ud = &hook;
        memset(&f, 0, sizeof f);
        fixture_layers(&f);
        assert_int_equal(mpt_ctx_create(&options, &f.ctx), MPT_OK);
        status = whole_life(f.ctx, &f);
        assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
        assert_int_equal(mpt_ctx_memory(f.ctx).live_bytes, 0);
        mpt_ctx_destroy(f.ctx);
    }
    assert_int_equal(status, MPT_OK);
    assert_true(calls > 8);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rule_when_the_format_is_misspelt_then_the_nearest_is_named),
    cmocka_unit_test(test_rule_when_a_word_is_wrong_then_the_way_out_is_named),
    cmocka_unit_test(test_rule_when_blocks_are_wrong_then_the_shapes_are_listed),
    cmocka_unit_test(test_rule_when_made_by_the_macro_then_the_place_is_the_hosts),
    cmocka_unit_test(test_host_when_frozen_then_nothing_can_be_added),
    cmocka_unit_test(test_phase_when_its_start_is_no_number_then_refused),
    cmocka_unit_test(test_canonical_when_printed_then_every_number_is_there),
    cmocka_unit_test(test_hash_when_a_number_changes_then_it_changes),
    cmocka_unit_test(test_hash_when_only_words_change_then_it_stays),
    cmocka_unit_test(test_host_when_memory_runs_out_then_nothing_is_lost),
};
MPT_TEST_MAIN(cases)
