/* recipe/recipe.c, freeze.c, set.c: making, merging for the proxy, --set, and the last checks.
 */
#include "recipe_fixture.h"

static void with_proxy(fixture *f) {
    f->recipe->proxy = (mpt_model_ref){.present = true, .name = "gpt", .size = "tiny_proxy"};
}

/* Expects the recipe to be refused with this message. */
static void expect_refused(fixture *f, const char *message) {
    assert_int_equal(mpt_recipe_freeze(f->recipe), MPT_INVALID);
    assert_message(f->ctx, message);
    assert_false(f->recipe->frozen);
}

static void test_freeze_when_complete_then_defaults_are_filled(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    assert_int_equal(f.recipe->base, MPT_DTYPE_BF16);
    assert_false(f.recipe->base_set);
    assert_int_equal(f.recipe->n_phases, 1);
    assert_string_equal(f.recipe->phases[0].name, "main");
    assert_true(f.recipe->phases[0].from == 0);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    assert_int_equal(f.recipe->n_phases, 1);
    fixture_close(&f);
}

static void test_freeze_when_the_model_is_missing_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    f.recipe->model.present = false;
    expect_refused(&f, "model: the recipe has none; name one: model = nemotron_h \"12b\"");
    fixture_close(&f);
}

static void test_freeze_when_the_name_is_no_folder_then_refused(void **state) {
    (void)state;
    static const char *const names[] = {"", ".hidden", "a/b", "..", "two words"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        fixture f;
        fixture_open(&f);
        fixture_set(&f, "name", names[i]);
        assert_int_equal(mpt_recipe_freeze(f.recipe), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(f.ctx)->hint,
                            "take letters, digits, '_', '-' and '.', 100 at most");
        fixture_close(&f);
    }
}

static void test_freeze_when_length_is_missing_or_double_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    f.recipe->train.steps = 0;
    expect_refused(&f, "train: the run has no length; give steps = 1000, or tokens = 1e9");
    f.recipe->train.steps = 10;
    f.recipe->train.tokens = 1e6;
    expect_refused(&f, "train: steps and tokens are both given; give one of them");
    fixture_close(&f);
}

static void test_freeze_when_batch_or_sequence_is_missing_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    f.recipe->train.batch = 0;
    expect_refused(&f, "train.batch: is missing; give sequences an optimizer step: batch = 16");
    f.recipe->train.batch = 8;
    f.recipe->train.sequence = 0;
    expect_refused(&f, "train.sequence: is missing; give tokens a sequence: sequence = 1024");
    fixture_close(&f);
}

static void test_freeze_when_micro_batch_does_not_divide_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.micro_batch", "3");
    expect_refused(&f,
                   "train.micro_batch: batch 8 is no multiple of 3; take a micro_batch that "
                   "divides the batch");
    fixture_close(&f);
}

static void test_freeze_when_lr_is_missing_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    f.recipe->train.lr.peak = 0;
    expect_refused(&f, "train.lr: there is no learning rate; give one: lr = cosine { peak = "
                       "3e-4, warmup = 100 }");
    fixture_close(&f);
}

static void test_freeze_when_lr_rises_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.lr.final", "0.01");
    expect_refused(&f,
                   "train.lr.final: 0.01 is above the peak of 0.001; the learning rate falls "
                   "from peak to final");
    fixture_close(&f);
}

static void test_freeze_when_spans_exceed_the_run_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.lr", "wsd");
    fixture_set(&f, "train.lr.peak", "1e-3");
    fixture_set(&f, "train.lr.warmup", "90");
    expect_refused(&f, "train.lr: warmup and decay take 1.1 times the run's length; shorten "
                       "them, or write them as fractions: warmup = 0.05");
    fixture_set(&f, "train.lr.warmup", "80");
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

static void test_freeze_when_text_has_no_path_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "data", "text");
    expect_refused(&f, "data.path: there is no file; give a file: data = text \"corpus.txt\"");
    fixture_set(&f, "data.path", "corpus.txt");
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

static void test_freeze_when_a_rule_is_empty_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 3, .selector = "linear");
    expect_refused(
        &f, "r.lua:3: precision.rules[1].use: it says nothing; give a format or a gemm: use = "
            "bf16");
    f.recipe->n_rules = 0;
    fixture_rule(&f, 4, .use = "bf16");
    expect_refused(
        &f, "r.lua:4: precision.rules[1]: it selects nothing; name a kind such as \"linear\", "
            "or a path such as \"*.o_proj\"");
    fixture_close(&f);
}

/* ---- phases ---- */

static void test_phases_when_out_of_order_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "a", NULL));
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "b", "0.8"));
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "c", "50"));
    expect_refused(&f, "phases[3].from: 'c' does not start after 'b'; list phases in the order "
                       "in which they start");
    f.recipe->phases[2].from = 81;
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

static void test_phases_when_the_first_starts_late_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "a", "5"));
    expect_refused(&f,
                   "phases[1].from: the first phase starts with the run; leave its from out");
    fixture_close(&f);
}

static void test_phases_when_the_second_starts_with_the_run_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "a", NULL));
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "b", "0.0"));
    expect_refused(&f, "phases[2].from: 'b' does not start after 'a'; list phases in the order "
                       "in which they start");
    fixture_close(&f);
}

static void test_phases_when_two_have_one_name_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "a", NULL));
    assert_mpt_ok(f.ctx, mpt_recipe_add_phase(f.recipe, "a", "0.5"));
    expect_refused(&f, "phases[2]: there is a phase 'a' already; give each phase a name of its "
                       "own");
    fixture_close(&f);
}

static void test_phase_start_when_a_fraction_then_rounded_to_a_step(void **state) {
    (void)state;
    mpt_train run = {.steps = 200}, short_run = {.steps = 1};
    mpt_phase phase = {.from = 0.82, .from_is_fraction = true};
    assert_int_equal(mpt_phase_start(&phase, &run), 164);
    assert_int_equal(mpt_phase_start(&phase, &short_run), 1);
    phase = (mpt_phase){.from = 70};
    assert_int_equal(mpt_phase_start(&phase, &run), 70);
}

/* ---- lengths ---- */

static void test_tokens_when_no_multiple_of_a_step_then_rounded_up(void **state) {
    (void)state;
    mpt_train train = {.tokens = 10e12, .batch = 736, .sequence = 8192};
    assert_int_equal(mpt_train_steps(&train), 1658565);
    mpt_span warmup = {8e9, false}, decay = {0.2, true};
    assert_int_equal(mpt_span_steps(&warmup, &train), 1327);
    assert_int_equal(mpt_span_steps(&decay, &train), 331713);
    train = (mpt_train){.steps = 50, .batch = 2, .sequence = 4};
    warmup = (mpt_span){7, false};
    assert_int_equal(mpt_span_steps(&warmup, &train), 7);
}

/* ---- the proxy ---- */

static void test_train_when_the_proxy_overrides_then_the_rest_is_inherited(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    with_proxy(&f);
    fixture_set(&f, "train.tokens", "1e9");
    fixture_set(&f, "train.clip", "0.5");
    fixture_set(&f, "train.proxy.steps", "20");
    fixture_set(&f, "train.proxy.batch", "4");
    fixture_set(&f, "train.proxy.lr", "constant");
    fixture_set(&f, "train.proxy.lr.peak", "0.01");
    mpt_train full = mpt_recipe_train(f.recipe, false);
    mpt_train proxy = mpt_recipe_train(f.recipe, true);
    assert_int_equal(full.steps, 3906250);
    assert_int_equal(full.micro_batch, 1);
    assert_int_equal(full.lr.kind, MPT_LR_COSINE);
    assert_int_equal(proxy.steps, 20);
    assert_true(proxy.tokens == 0);
    assert_int_equal(proxy.batch, 4);
    assert_int_equal(proxy.micro_batch, 4);
    assert_int_equal(proxy.sequence, 32);
    assert_int_equal(proxy.lr.kind, MPT_LR_CONSTANT);
    assert_true(proxy.clip == 0.5);
    assert_int_equal(proxy.seed, 1234);
    fixture_close(&f);
}

static void test_train_when_the_proxy_evaluates_then_defaults_count(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.eval.every", "10");
    fixture_set(&f, "train.eval.batches", "3");
    fixture_set(&f, "train.proxy.eval.every", "5");
    mpt_train proxy = mpt_recipe_train(f.recipe, true);
    assert_int_equal(proxy.eval_every, 5);
    assert_int_equal(proxy.eval_batches, 8);
    assert_int_equal(mpt_recipe_train(f.recipe, false).eval_batches, 3);
    fixture_close(&f);
}

static void test_freeze_when_the_proxy_inherits_spans_in_tokens_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    with_proxy(&f);
    fixture_set(&f, "train.tokens", "1e9");
    fixture_set(&f, "train.lr.warmup", "1e6");
    fixture_set(&f, "train.proxy.steps", "20");
    expect_refused(&f, "train.proxy: it is given in steps, but lr counts warmup and decay in "
                       "tokens; give train.proxy.lr, or write spans as fractions: 0.01");
    fixture_set(&f, "train.lr.warmup", "0.01");
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

static void test_freeze_when_the_proxy_is_wrong_then_its_path_is_named(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    with_proxy(&f);
    fixture_set(&f, "train.proxy.batch", "6");
    fixture_set(&f, "train.proxy.micro_batch", "4");
    expect_refused(&f,
                   "train.proxy.micro_batch: batch 6 is no multiple of 4; take a micro_batch "
                   "that divides the batch");
    fixture_close(&f);
}

/* ---- warnings to keep quiet ---- */

static void test_allow_when_the_name_is_unknown_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    mpt_where where = {"r.lua", 30};
    assert_mpt_ok(f.ctx, mpt_recipe_append_allow(f.recipe, "no-clip", where));
    assert_int_equal(mpt_recipe_append_allow(f.recipe, "no-clipp", where), MPT_INVALID);
    assert_message(f.ctx, "r.lua:30: allow: no warning 'no-clipp'; did you mean 'no-clip'?");
    assert_int_equal(mpt_recipe_append_allow(f.recipe, "everything", where), MPT_INVALID);
    assert_message(
        f.ctx, "r.lua:30: allow: no warning 'everything'; warnings print their names in front");
    assert_int_equal(f.recipe->n_allow, 1);
    fixture_close(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_freeze_when_complete_then_defaults_are_filled),
    cmocka_unit_test(test_freeze_when_the_model_is_missing_then_refused),
    cmocka_unit_test(test_freeze_when_the_name_is_no_folder_then_refused),
    cmocka_unit_test(test_freeze_when_length_is_missing_or_double_then_refused),
    cmocka_unit_test(test_freeze_when_batch_or_sequence_is_missing_then_refused),
    cmocka_unit_test(test_freeze_when_micro_batch_does_not_divide_then_refused),
    cmocka_unit_test(test_freeze_when_lr_is_missing_then_refused),
    cmocka_unit_test(test_freeze_when_lr_rises_then_refused),
    cmocka_unit_test(test_freeze_when_spans_exceed_the_run_then_refused),
    cmocka_unit_test(test_freeze_when_text_has_no_path_then_refused),
    cmocka_unit_test(test_freeze_when_a_rule_is_empty_then_refused),
    cmocka_unit_test(test_phases_when_out_of_order_then_refused),
    cmocka_unit_test(test_phases_when_the_first_starts_late_then_refused),
    cmocka_unit_test(test_phases_when_the_second_starts_with_the_run_then_refused),
    cmocka_unit_test(test_phases_when_two_have_one_name_then_refused),
    cmocka_unit_test(test_phase_start_when_a_fraction_then_rounded_to_a_step),
    cmocka_unit_test(test_tokens_when_no_multiple_of_a_step_then_rounded_up),
    cmocka_unit_test(test_train_when_the_proxy_overrides_then_the_rest_is_inherited),
    cmocka_unit_test(test_train_when_the_proxy_evaluates_then_defaults_count),
    cmocka_unit_test(test_freeze_when_the_proxy_inherits_spans_in_tokens_then_refused),
    cmocka_unit_test(test_freeze_when_the_proxy_is_wrong_then_its_path_is_named),
    cmocka_unit_test(test_allow_when_the_name_is_unknown_then_refused),
};
MPT_TEST_MAIN(cases)
