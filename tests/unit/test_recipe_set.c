/* recipe/set.c: path=value as --set and hosts write it, last and for both models. */
#include "recipe_fixture.h"

#include <math.h>

static void expect_refused(fixture *f, const char *path, const char *value,
                           const char *message) {
    assert_int_equal(mpt_recipe_set_at(f->recipe, path, value, (mpt_where){"--set", 0}),
                     MPT_INVALID);
    assert_message(f->ctx, message);
}

static void test_set_when_each_type_then_read_as_the_row_wants(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "seed", "7");
    fixture_set(&f, "train.decay", "all");
    fixture_set(&f, "train.optimizer.betas", "0.8,0.9");
    fixture_set(&f, "train.optimizer.weight_decay", "0");
    fixture_set(&f, "precision.base", "fp32");
    fixture_set(&f, "precision.state.residual", "bf16");
    fixture_set(&f, "precision.loss_scale", "1024");
    fixture_set(&f, "data.vocab", "512");
    fixture_set(&f, "description", "12");
    const mpt_recipe *r = f.recipe;
    assert_int_equal(r->train.seed, 7);
    assert_int_equal(r->train.decay, MPT_DECAY_ALL);
    assert_true(r->train.optimizer.beta1 == 0.8 && r->train.optimizer.beta2 == 0.9);
    assert_true(r->train.optimizer.eps == 1e-8 && r->train.optimizer.weight_decay == 0);
    assert_int_equal(r->base, MPT_DTYPE_FP32);
    assert_int_equal(r->residual, MPT_DTYPE_BF16);
    assert_true(r->loss_scale.scale == 1024);
    assert_int_equal(r->data.vocab, 512);
    assert_string_equal(r->description, "12");
    fixture_close(&f);
}

static void test_set_when_the_path_is_wrong_then_the_nearest_is_named(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    expect_refused(&f, "trian.steps", "3", "--set: no field 'trian'; did you mean 'train'?");
    expect_refused(&f, "train.step", "3",
                   "--set: train: no field 'step'; did you mean 'steps'?");
    expect_refused(&f, "train.lr.peek", "3",
                   "--set: train.lr: no field 'peek'; did you mean 'peak'?");
    expect_refused(&f, "train.proxy.lr.peek", "3",
                   "--set: train.proxy.lr: no field 'peek'; did you mean 'peak'?");
    expect_refused(&f, "train.steps.x", "3",
                   "--set: train.steps: has no fields of its own; set it as a whole");
    expect_refused(&f, "data.path", "x",
                   "--set: data: no field 'path'; synthetic has seed or vocab");
    expect_refused(&f, "", "3",
                   "--set: no field ''; recipe has version, name, description, "
                   "model, proxy, precision, phases, train, data or allow");
    fixture_close(&f);
}

static void test_set_when_only_the_recipe_can_say_it_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    expect_refused(&f, "precision.rules", "x",
                   "--set: precision.rules: cannot be set from a text; change it in the recipe "
                   "itself");
    expect_refused(&f, "train.proxy", "x",
                   "--set: train.proxy: cannot be set from a text; change it in the recipe "
                   "itself");
    fixture_close(&f);
}

static void test_set_when_the_value_is_wrong_then_the_range_is_told(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    expect_refused(&f, "train.steps", "many",
                   "--set: train.steps: cannot be 'many'; give a whole number of 1 or more");
    expect_refused(&f, "train.steps", "0",
                   "--set: train.steps: out of range: 0; give a whole number of 1 or more");
    expect_refused(&f, "train.steps", "",
                   "--set: train.steps: cannot be ''; give a whole number of 1 or more");
    expect_refused(&f, "train.clip", "nan",
                   "--set: train.clip: must be finite, not NaN; give a number of 0 or more and "
                   "at most 1000000");
    expect_refused(&f, "train.lr", "cosin",
                   "--set: train.lr: no value 'cosin'; did you mean 'cosine'?");
    expect_refused(
        &f, "precision.base", "nvfp4",
        "--set: precision.base: no format 'nvfp4' here; take fp32, tf32, bf16 or fp16");
    assert_int_equal(f.recipe->train.steps, 100);
    fixture_close(&f);
}

static void test_set_when_frozen_then_refused(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    expect_refused(&f, "train.steps", "3",
                   "--set: train.steps: the recipe was compiled and does not change any more; "
                   "set it before, or load the recipe again");
    fixture_close(&f);
}

static void test_set_when_another_kind_then_common_fields_stay(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.lr", "wsd");
    const mpt_lr *lr = &f.recipe->train.lr;
    assert_int_equal(lr->kind, MPT_LR_WSD);
    assert_true(lr->peak == 1e-3 && lr->warmup.value == 10 && !lr->warmup.fraction);
    assert_true(lr->decay.fraction && lr->decay.value == 0.2);
    /* An optimizer that nobody chose has no say in the next one. */
    fixture_set(&f, "train.optimizer", "sgd");
    assert_true(f.recipe->train.optimizer.weight_decay == 0);
    fixture_set(&f, "train.optimizer.weight_decay", "0.5");
    fixture_set(&f, "train.optimizer", "adamw");
    assert_true(f.recipe->train.optimizer.weight_decay == 0.5);
    assert_true(f.recipe->train.optimizer.beta1 == 0.9);
    fixture_close(&f);
}

/* ---- both models ---- */

static void test_set_when_the_proxy_overrides_then_the_set_value_wins(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.proxy.clip", "2");
    fixture_set(&f, "train.proxy.lr", "wsd");
    fixture_set(&f, "train.proxy.lr.peak", "0.5");
    fixture_set(&f, "train.clip", "3");
    fixture_set(&f, "train.lr.peak", "0.25");
    mpt_train proxy = mpt_recipe_train(f.recipe, true);
    assert_true(proxy.clip == 3);
    assert_int_equal(proxy.lr.kind, MPT_LR_WSD);
    assert_true(proxy.lr.peak == 0.25);
    assert_true(mpt_recipe_train(f.recipe, false).lr.peak == 0.25);
    fixture_close(&f);
}

static void test_set_when_only_the_proxys_kind_has_the_field_then_it_takes_it(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.proxy.lr", "wsd");
    fixture_set(&f, "train.proxy.lr.peak", "0.5");
    fixture_set(&f, "train.lr.decay", "0.5");
    assert_true(f.recipe->train_proxy.lr.decay.value == 0.5);
    assert_int_equal(f.recipe->train.lr.kind, MPT_LR_COSINE);
    fixture_set(&f, "train.lr", "constant");
    assert_int_equal(mpt_recipe_train(f.recipe, true).lr.kind, MPT_LR_CONSTANT);
    fixture_close(&f);
}

static void test_set_when_steps_then_tokens_are_dropped_and_back(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.tokens", "1e6");
    assert_int_equal(f.recipe->train.steps, 0);
    assert_int_equal(mpt_recipe_train(f.recipe, false).steps, 3907);
    fixture_set(&f, "train.proxy.tokens", "1e5");
    fixture_set(&f, "train.steps", "300");
    assert_true(f.recipe->train.tokens == 0);
    assert_int_equal(mpt_recipe_train(f.recipe, false).steps, 300);
    assert_int_equal(mpt_recipe_train(f.recipe, true).steps, 300);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

/* ---- spans when the length changes ---- */

static void test_set_when_spans_still_fit_then_they_stay(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.steps", "50");
    assert_true(f.recipe->train.lr.warmup.value == 10 && !f.recipe->train.lr.warmup.fraction);
    fixture_close(&f);
}

static void test_set_when_spans_do_not_fit_then_they_keep_their_share(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.lr", "wsd");
    fixture_set(&f, "train.lr.peak", "1e-3");
    fixture_set(&f, "train.lr.warmup", "10");
    fixture_set(&f, "train.lr.decay", "0.2");
    fixture_set(&f, "train.steps", "11"); /* 10 + 2.2 are more than 11 */
    const mpt_lr *lr = &f.recipe->train.lr;
    assert_true(lr->warmup.fraction && fabs(lr->warmup.value - 0.1) < 1e-12);
    assert_true(lr->decay.fraction && lr->decay.value == 0.2);
    assert_mpt_ok(f.ctx, mpt_recipe_freeze(f.recipe));
    fixture_close(&f);
}

static void test_set_when_the_unit_changes_then_spans_keep_their_share(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.tokens", "10e12");
    fixture_set(&f, "train.lr.warmup", "8e9");
    fixture_set(&f, "train.steps", "1000");
    const mpt_lr *lr = &f.recipe->train.lr;
    assert_true(lr->warmup.fraction && fabs(lr->warmup.value - 8e-4) < 1e-12);
    fixture_close(&f);
}

static void test_set_when_the_proxy_has_its_own_lr_then_it_is_refitted_too(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.proxy.steps", "200");
    fixture_set(&f, "train.proxy.lr", "wsd");
    fixture_set(&f, "train.proxy.lr.peak", "3e-3");
    fixture_set(&f, "train.proxy.lr.warmup", "20");
    fixture_set(&f, "train.steps", "20");
    mpt_train proxy = mpt_recipe_train(f.recipe, true);
    assert_int_equal(proxy.steps, 20);
    assert_int_equal(mpt_span_steps(&proxy.lr.warmup, &proxy), 2);
    assert_int_equal(mpt_span_steps(&proxy.lr.decay, &proxy), 4);
    fixture_close(&f);
}

static void test_set_when_the_length_is_set_twice_then_spans_are_refitted_once(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.steps", "1000");
    fixture_set(&f, "train.lr.warmup", "1");
    fixture_set(&f, "train.steps", "3");
    fixture_set(&f, "train.lr.peak", "0.5");
    fixture_set(&f, "train.tokens", "256000");
    mpt_train train = mpt_recipe_train(f.recipe, false);
    assert_int_equal(train.steps, 1000);
    assert_int_equal(mpt_span_steps(&train.lr.warmup, &train), 1);
    assert_true(train.lr.peak == 0.5);
    fixture_set(&f, "train.steps", "1000");
    assert_true(f.recipe->train.lr.warmup.value == 1 && !f.recipe->train.lr.warmup.fraction);
    fixture_set(&f, "train.steps", "10");
    fixture_set(&f, "train.lr.warmup", "5"); /* speaks of the run of 10 */
    fixture_set(&f, "train.steps", "2");
    assert_true(f.recipe->train.lr.warmup.value == 0.5);
    fixture_close(&f);
}

static void test_set_when_a_proxy_has_the_field_then_what_was_typed_is_named(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.proxy.steps", "20");
    fixture_set(&f, "train.proxy.lr", "wsd");
    fixture_set(&f, "train.proxy.lr.peak", "1e-3");
    expect_refused(&f, "train.steps.x", "3",
                   "--set: train.steps: has no fields of its own; set it as a whole");
    expect_refused(&f, "train.lr.peak", "-1",
                   "--set: train.lr.peak: out of range: -1; give a number above 0 and at most "
                   "1000000");
    expect_refused(&f, "train.proxy.lr.peak", "-1",
                   "--set: train.proxy.lr.peak: out of range: -1; give a number above 0 and at "
                   "most 1000000");
    fixture_close(&f);
}

static void test_set_when_a_number_is_out_of_range_then_it_is_echoed_as_typed(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f);
    expect_refused(
        &f, "train.steps", "99999999999999999999",
        "--set: train.steps: out of range: 99999999999999999999; give a whole number "
        "of 1 or more and at most 9007199254740992");
    expect_refused(
        &f, "train.lr.warmup", "1e300",
        "--set: train.lr.warmup: out of range: 1e300; give a whole number, or a fraction of "
        "the run from 0.0 to 1.0, at most 9007199254740992");
    expect_refused(
        &f, "train.batch", "-0x1p70",
        "--set: train.batch: out of range: -0x1p70; give a whole number of 1 or more "
        "and at most 16777216");
    fixture_close(&f);
}

static void test_set_when_float32_has_no_such_number_then_refused(void **state) {
    (void)state;
    static const char *const vanish[] = {"train.clip", "train.optimizer.eps", "train.lr.peak",
                                         "train.lr.final", "train.optimizer.weight_decay"};
    char message[256];
    fixture f;
    fixture_open(&f);
    fixture_set(&f, "train.lr", "cosine");
    for (size_t i = 0; i < MPT_COUNT(vanish); i++) {
        assert_int_equal(mpt_recipe_set(f.recipe, vanish[i], "1e-300"), MPT_INVALID);
        snprintf(message, sizeof message, "%s: must not become 0 in float32, as 1e-300",
                 vanish[i]);
        assert_non_null(strstr(mpt_ctx_error(f.ctx)->message, message));
        fixture_set(&f, vanish[i], "1e-40"); /* subnormal, but there */
    }
    fixture_set(&f, "train.clip", "0");
    expect_refused(
        &f, "train.optimizer.betas", "0.9,0.999999999",
        "--set: train.optimizer.betas: must not become 1 in float32, as {0.9, "
        "0.999999999}; give two numbers of 0 or more and below 1 in float32: at most "
        "0.9999999");
    fixture_set(&f, "train.optimizer.betas", "0.9,0.9999999");
    fixture_set(&f, "train.optimizer", "sgd");
    assert_int_equal(mpt_recipe_set(f.recipe, "train.optimizer.momentum", "0.99999999999"),
                     MPT_INVALID);
    fixture_close(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_set_when_the_length_is_set_twice_then_spans_are_refitted_once),
    cmocka_unit_test(test_set_when_a_proxy_has_the_field_then_what_was_typed_is_named),
    cmocka_unit_test(test_set_when_a_number_is_out_of_range_then_it_is_echoed_as_typed),
    cmocka_unit_test(test_set_when_float32_has_no_such_number_then_refused),
    cmocka_unit_test(test_set_when_each_type_then_read_as_the_row_wants),
    cmocka_unit_test(test_set_when_the_path_is_wrong_then_the_nearest_is_named),
    cmocka_unit_test(test_set_when_only_the_recipe_can_say_it_then_refused),
    cmocka_unit_test(test_set_when_the_value_is_wrong_then_the_range_is_told),
    cmocka_unit_test(test_set_when_frozen_then_refused),
    cmocka_unit_test(test_set_when_another_kind_then_common_fields_stay),
    cmocka_unit_test(test_set_when_the_proxy_overrides_then_the_set_value_wins),
    cmocka_unit_test(test_set_when_only_the_proxys_kind_has_the_field_then_it_takes_it),
    cmocka_unit_test(test_set_when_steps_then_tokens_are_dropped_and_back),
    cmocka_unit_test(test_set_when_spans_still_fit_then_they_stay),
    cmocka_unit_test(test_set_when_spans_do_not_fit_then_they_keep_their_share),
    cmocka_unit_test(test_set_when_the_unit_changes_then_spans_keep_their_share),
    cmocka_unit_test(test_set_when_the_proxy_has_its_own_lr_then_it_is_refitted_too),
};
MPT_TEST_MAIN(cases)
