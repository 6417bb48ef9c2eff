/* A checkpoint under another recipe: what is said, what may change and what may not. */
#include "checkpoint_case.h"

#define BF16 "precision = { rules = { rule { 'linear', use = bf16 } } }"
#define WIDE "precision = { rules = { rule { 'linear', use = e4m3 } } }"
#define CHOSEN(answer)                                                                         \
    "precision = { rules = { rule { 'linear', where = function(l) return " answer              \
    " end, use = e4m3 } } }"

/* Saves under one recipe after six steps, and reads under another: `set` as path=value. */
static mpt_status change(checkpoint_case *b, const checkpoints *f, const char *was,
                         const char *now, const mpt_set *set, bool allow) {
    mpt_load_checkpoint_options options = MPT_LOAD_CHECKPOINT_OPTIONS_INIT;
    checkpoint_case a;
    checkpoint_begin(&a, was, 1);
    checkpoint_save_after(&a, 6, f->path);
    checkpoint_end(&a);
    options.allow_recipe_change = allow;
    *b = (checkpoint_case){.ctx = mpt_test_ctx()};
    assert_mpt_ok(b->ctx, checkpoint_make(b, now, 1, set, set ? 1 : 0));
    return mpt_trainer_load_checkpoint(b->trainer, checkpoint_at(f->path, 6).text, &options);
}

/* What differs is told by the recipe's own words, whether it is refused or not. */
static void test_load_when_the_recipe_is_another_then_fields_are_named(void **s) {
    (void)s;
    static const struct {
        const char *was, *now;
        mpt_set set;
        const char *named;
    } rows[] = {
        {BF16,
         BF16,
         {"train.lr.peak", "0.5"},
         "another recipe: train.lr.peak: 0.5, was 0.01; go"},
        {BF16, BF16, {"train.seed", "7"}, "another recipe: train.seed: 7, was 1234; go"},
        {BF16, BF16, {"data.seed", "7"}, "another recipe: data.seed: 7, was 0; go"},
        {BF16, BF16, {"train.steps", "30"}, "train.steps: 30, was 20; go"},
        {BF16, BF16, {"train.lr", "linear"}, "train.lr: linear, was constant; train.lr."},
        {BF16, WIDE, {0}, "precision.rules[1].use: e4m3 "},
        {BF16, CHECKPOINT_FP16, {0}, "precision.base: fp16, was bf16"},
        {CHOSEN("true"), CHOSEN("false"), {0}, "schedule of phase 'main': "},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        checkpoints f = checkpoints_make();
        checkpoint_case c;
        const mpt_set *set = rows[i].set.path ? &rows[i].set : NULL;
        assert_int_equal(change(&c, &f, rows[i].was, rows[i].now, set, false), MPT_INVALID);
        const char *message = mpt_ctx_error(c.ctx)->message;
        if (!strstr(message, rows[i].named))
            fail_msg("row %zu: expected '%s' in: %s", i, rows[i].named, message);
        assert_int_equal(c.trainer->attempted, 0);
        checkpoint_end(&c);
        assert_mpt_ok(c.ctx, change(&c, &f, rows[i].was, rows[i].now, set, true));
        assert_int_equal(c.trainer->attempted, 6);
        checkpoint_train(&c, 2, 0);
        checkpoint_end(&c);
        checkpoints_remove(&f);
    }
}

/* Names, notes, saving, evaluation and watching decide no number. */
static void test_load_when_nothing_that_decides_numbers_changed_then_taken(void **s) {
    (void)s;
    static const mpt_set sets[] = {{"train.checkpoint.every", "3"},
                                   {"train.checkpoint.keep", "9"},
                                   {"train.eval.every", "3"},
                                   {"name", "another"}};
    for (size_t i = 0; i < MPT_COUNT(sets); i++) {
        checkpoints f = checkpoints_make();
        checkpoint_case c;
        assert_mpt_ok(c.ctx, change(&c, &f, BF16, BF16, &sets[i], false));
        checkpoint_end(&c);
        checkpoints_remove(&f);
    }
}

/* The same bytes under another name are the same data; others of the same number are not, and
 * be it one byte of very many, which no row of the run's beginning shows. */
static void test_load_when_a_text_has_moved_then_taken_and_when_edited_then_refused(void **s) {
    (void)s;
    enum { FILES = 5, EDITED = 2 };
    static const char model[] = "return recipe { name = 't', model = require 'models.mlp' "
                                "'tiny', allow = { 'no-warmup' "
                                "}, data = text '%s', " CHECKPOINT_TRAIN " }";
    checkpoints f = checkpoints_make();
    static char text[400000];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    char path[FILES][80], recipe[1024];
    options.n_threads = 1;
    for (int i = 0; i < FILES; i++) {
        checkpoint_case c = {.ctx = mpt_test_ctx()};
        snprintf(path[i], sizeof path[i], "%s/text%d", f.path, i);
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)('a' + (k * k + (i == EDITED ? k / 7 : 0)) % 26);
        if (i > EDITED) /* in the training part, and in what is held back */
            text[i == EDITED + 1 ? 123456 : sizeof text - 77] ^= 1;
        bytes_write(path[i], text, sizeof text);
        snprintf(recipe, sizeof recipe, model, path[0]);
        assert_mpt_ok(c.ctx, mpt_recipe_load_string(c.ctx, MPT_SOURCE_DIR "/recipes/t.lua",
                                                    recipe, strlen(recipe), NULL, &c.recipe));
        options.data = path[i];
        assert_mpt_ok(c.ctx, mpt_compile(c.recipe, &options, &c.program));
        assert_mpt_ok(c.ctx, mpt_trainer_create(c.program, NULL, &c.trainer));
        checkpoint_path at = checkpoint_at(f.path, 0);
        if (i == 0)
            assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
        else if (i == 1)
            assert_mpt_ok(c.ctx, mpt_trainer_load_checkpoint(c.trainer, at.text, NULL));
        else
            assert_int_equal(mpt_trainer_load_checkpoint(c.trainer, at.text, NULL),
                             MPT_INVALID);
        if (i >= EDITED)
            assert_non_null(strstr(mpt_ctx_error(c.ctx)->message,
                                   "another recipe: data: other tokens, from bytes of "));
        checkpoint_end(&c);
    }
    for (int i = 0; i < FILES; i++)
        assert_int_equal(unlink(path[i]), 0);
    checkpoints_remove(&f);
}

static void test_load_when_the_state_is_another_then_refused_whatever_is_allowed(void **s) {
    (void)s;
    static const struct {
        mpt_set set;
        const char *named;
    } rows[] = {
        {{"train.optimizer", "sgd"},
         "was made with the optimizer adamw, and the recipe has sgd"},
        {{"precision.state.adam_m", "bf16"},
         "embed_tokens.weight is fp32 [128, 32], moments fp32 fp32 in it, and fp32 [128, 32], "
         "moments bf16 fp32 in the recipe"},
        {{"precision.state.master", "bf16"},
         "and bf16 [128, 32], moments fp32 fp32 in the recipe"},
        {{"data.vocab", "64"}, "[128, 32], moments fp32 fp32 in it, and fp32 [64, 32]"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        checkpoints f = checkpoints_make();
        checkpoint_case c;
        assert_int_equal(change(&c, &f, BF16, BF16, &rows[i].set, true), MPT_INVALID);
        const char *message = mpt_ctx_error(c.ctx)->message;
        if (!strstr(message, rows[i].named))
            fail_msg("row %zu: expected '%s' in: %s", i, rows[i].named, message);
        assert_int_equal(c.trainer->attempted, 0);
        checkpoint_end(&c);
        checkpoints_remove(&f);
    }
}

/* Delayed scales that only the new recipe has start anew: 0 is none yet. */
static void test_load_when_scaling_becomes_delayed_then_histories_start_anew(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    assert_mpt_ok(c.ctx, change(&c, &f, BF16, CHECKPOINT_DELAYED, NULL, true));
    assert_true(c.trainer->state->n_scales > 0);
    assert_true(*c.trainer->state->scales[0].scale == 0);
    checkpoint_train(&c, 1, 0);
    assert_true(*c.trainer->state->scales[0].scale > 0);
    assert_non_null(strstr(c.lines, "{\"event\":\"phase\",\"step\":6,")); /* and it is told */
    checkpoint_end(&c);
    assert_mpt_ok(c.ctx, change(&c, &f, CHECKPOINT_DELAYED, BF16, NULL, true)); /* dropped */
    checkpoint_train(&c, 1, 0);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* A window of another length is another operand's history: it starts anew, its scale goes on.
 */
static void test_load_when_a_window_is_longer_then_only_the_history_starts_anew(void **s) {
    (void)s;
    static const char longer[] =
        "precision = { rules = { rule { 'linear', use = gemm { weight = e4m3 { scale = delayed "
        "{ history = 32 } }, activation = e4m3 { scale = delayed { history = 32 } }, gradient "
        "= "
        "e5m2 { scale = delayed { history = 32 } } } } } }";
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    assert_mpt_ok(c.ctx, change(&c, &f, CHECKPOINT_DELAYED, longer, NULL, true));
    assert_true(*c.trainer->state->scales[0].scale > 0);
    assert_int_equal(c.trainer->state->scales[0].history, 32);
    for (int i = 0; i < 32; i++)
        assert_true(c.trainer->state->scales[0].amax_history[i] == 0);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* Phases of the new recipe by its own starts: the run goes on in the one that is due. */
static void test_load_when_phases_are_others_then_the_due_one_goes_on(void **s) {
    (void)s;
    checkpoints f = checkpoints_make();
    checkpoint_case c;
    assert_mpt_ok(c.ctx, change(&c, &f, BF16,
                                BF16 ", phases = { phase { 'a' }, phase { 'b', from = 3, rules "
                                     "= { rule { 'linear', use = e4m3 } } } }",
                                NULL, true));
    checkpoint_train(&c, 1, 0);
    assert_non_null(strstr(c.lines, "\"phase\":\"b\""));
    assert_null(strstr(c.lines, "\"phase\":\"a\""));
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_load_when_the_recipe_is_another_then_fields_are_named),
    cmocka_unit_test(test_load_when_nothing_that_decides_numbers_changed_then_taken),
    cmocka_unit_test(test_load_when_a_text_has_moved_then_taken_and_when_edited_then_refused),
    cmocka_unit_test(test_load_when_the_state_is_another_then_refused_whatever_is_allowed),
    cmocka_unit_test(test_load_when_scaling_becomes_delayed_then_histories_start_anew),
    cmocka_unit_test(test_load_when_a_window_is_longer_then_only_the_history_starts_anew),
    cmocka_unit_test(test_load_when_phases_are_others_then_the_due_one_goes_on),
};
MPT_TEST_MAIN(cases)
