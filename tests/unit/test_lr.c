/* Learning rate schedules at their corners. */
#include "mpt_test.h"

#include <math.h>

#include "train/lr.h"

static mpt_train train_of(mpt_lr_kind kind, double peak, double final, double warmup,
                          double decay) {
    mpt_train t = {.steps = 100, .batch = 8, .sequence = 128};
    t.lr = (mpt_lr){.kind = kind,
                    .peak = peak,
                    .final = final,
                    .warmup = {warmup, false},
                    .decay = {decay, false}};
    return t;
}

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * fabs(b) + 1e-18))
        fail_msg("%.17g is not %.17g", a, b);
}

static void test_warmup_when_first_step_then_one_part_of_peak_and_not_zero(void **s) {
    (void)s;
    for (int kind = MPT_LR_CONSTANT; kind <= MPT_LR_WSD; kind++) {
        mpt_train t = train_of((mpt_lr_kind)kind, 1e-3, 1e-5, 10, 20);
        near(mpt_lr_at(&t, 0), 1e-4);
        near(mpt_lr_at(&t, 4), 5e-4);
        near(mpt_lr_at(&t, 8), 9e-4);
        near(mpt_lr_at(&t, 9), 1e-3);
    }
}

static void test_warmup_when_none_then_first_step_is_at_or_just_below_peak(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_CONSTANT, 1e-3, 0, 0, 0);
    near(mpt_lr_at(&t, 0), 1e-3);
    t = train_of(MPT_LR_LINEAR, 1, 0, 0, 0);
    near(mpt_lr_at(&t, 0), 0.99);
    t = train_of(MPT_LR_WSD, 1e-3, 0, 0, 20);
    near(mpt_lr_at(&t, 0), 1e-3);
}

static void test_schedules_when_last_step_then_exactly_final(void **s) {
    (void)s;
    const mpt_lr_kind kinds[] = {MPT_LR_LINEAR, MPT_LR_COSINE, MPT_LR_WSD};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++) {
        mpt_train t = train_of(kinds[k], 3e-3, 3e-5, 10, 20);
        assert_true(mpt_lr_at(&t, 99) == 3e-5);
        assert_true(mpt_lr_at(&t, 98) > 3e-5);
        assert_true(mpt_lr_at(&t, 100000) == 3e-5); /* past the end it stays */
    }
    mpt_train t = train_of(MPT_LR_CONSTANT, 3e-3, 3e-5, 10, 0);
    assert_true(mpt_lr_at(&t, 99) == 3e-3);
}

static void test_linear_when_half_way_then_half(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_LINEAR, 2, 1, 20, 0);
    near(mpt_lr_at(&t, 59), 1.5);
}

static void test_cosine_when_half_way_then_half_and_slow_at_both_ends(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_COSINE, 2, 1, 20, 0);
    near(mpt_lr_at(&t, 59), 1.5);
    near(mpt_lr_at(&t, 39), 1 + 0.5 * (1 + sqrt(0.5)));
    near(mpt_lr_at(&t, 79), 1 + 0.5 * (1 - sqrt(0.5)));
}

static void test_wsd_when_before_decay_then_peak_and_then_a_straight_line(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_WSD, 1, 0, 10, 20);
    near(mpt_lr_at(&t, 9), 1);
    near(mpt_lr_at(&t, 79), 1);
    near(mpt_lr_at(&t, 80), 0.95);
    near(mpt_lr_at(&t, 89), 0.5);
    near(mpt_lr_at(&t, 98), 0.05);
}

static void test_warmup_when_given_in_tokens_then_steps_of_that_many(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_CONSTANT, 1, 0, 10 * 1024, 0);
    t.tokens = 100 * 1024;
    near(mpt_lr_at(&t, 0), 0.1);
    near(mpt_lr_at(&t, 8), 0.9);
    near(mpt_lr_at(&t, 9), 1);
}

static void test_wsd_when_decay_is_a_fraction_then_the_last_part_of_the_run(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_WSD, 1, 0, 10, 0);
    t.lr.decay = (mpt_span){0.2, true};
    near(mpt_lr_at(&t, 79), 1);
    near(mpt_lr_at(&t, 89), 0.5);
}

static void test_schedules_when_run_has_one_step_then_finite(void **s) {
    (void)s;
    for (int kind = MPT_LR_CONSTANT; kind <= MPT_LR_WSD; kind++) {
        mpt_train t = train_of((mpt_lr_kind)kind, 1, 0.5, 0, 0);
        t.steps = 1;
        double lr = mpt_lr_at(&t, 0);
        assert_true(lr >= 0.5 && lr <= 1);
    }
}

static void test_schedules_when_warmup_exceeds_the_run_then_only_warmup(void **s) {
    (void)s;
    mpt_train t = train_of(MPT_LR_COSINE, 1, 0, 1000, 0);
    near(mpt_lr_at(&t, 99), 0.1);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_warmup_when_first_step_then_one_part_of_peak_and_not_zero),
    cmocka_unit_test(test_warmup_when_none_then_first_step_is_at_or_just_below_peak),
    cmocka_unit_test(test_schedules_when_last_step_then_exactly_final),
    cmocka_unit_test(test_linear_when_half_way_then_half),
    cmocka_unit_test(test_cosine_when_half_way_then_half_and_slow_at_both_ends),
    cmocka_unit_test(test_wsd_when_before_decay_then_peak_and_then_a_straight_line),
    cmocka_unit_test(test_warmup_when_given_in_tokens_then_steps_of_that_many),
    cmocka_unit_test(test_wsd_when_decay_is_a_fraction_then_the_last_part_of_the_run),
    cmocka_unit_test(test_schedules_when_run_has_one_step_then_finite),
    cmocka_unit_test(test_schedules_when_warmup_exceeds_the_run_then_only_warmup),
};

MPT_TEST_MAIN(cases)
