/* recipe/schema*.c: spans, blocks, rotations and embedded records, which take several shapes.
 */
#include "setter_fixture.h"

/* ---- shapes of values ---- */

static void test_span_when_up_to_one_then_only_a_float_is_a_fraction(void **state) {
    (void)state;
    setter s;
    mpt_lr lr = {.peak = 0};
    setter_open(&s);
    assert_mpt_ok(s.ctx, setter_set(&s, "wsd", &lr, "lr", "warmup", setter_integer(1)));
    assert_true(lr.warmup.value == 1 && !lr.warmup.fraction);
    assert_mpt_ok(s.ctx, setter_set(&s, "wsd", &lr, "lr", "warmup", setter_number(1.0)));
    assert_true(lr.warmup.value == 1 && lr.warmup.fraction);
    assert_mpt_ok(s.ctx, setter_set(&s, "wsd", &lr, "lr", "warmup", setter_number(8e9)));
    assert_true(lr.warmup.value == 8e9 && !lr.warmup.fraction);
    assert_int_equal(setter_set(&s, "wsd", &lr, "lr", "warmup", setter_number(20.5)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: lr.warmup: must be whole, not 20.5; give a whole "
                          "number, or a fraction of the run from 0.0 to 1.0");
    assert_int_equal(setter_set(&s, "wsd", &lr, "lr", "warmup", setter_number(-0.1)),
                     MPT_INVALID);
    setter_close(&s);
}

static void test_phase_when_its_start_is_set_then_its_rules_stay(void **state) {
    (void)state;
    setter s;
    mpt_phase phase = {.n_rules = 77};
    setter_open(&s);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "phase", &phase, "phases[2]", "from", setter_number(0.82)));
    assert_true(phase.from == 0.82 && phase.from_is_fraction);
    assert_int_equal(phase.n_rules, 77);
    setter_close(&s);
}

static void test_block_when_a_list_or_a_name_then_the_same(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    setter_open(&s);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "quantizer", &use, "use", "block", setter_numbers(16, 16)));
    assert_int_equal(use.q.block_rows, 16);
    assert_int_equal(use.q.block_cols, 16);
    assert_int_equal(use.set, 2); /* the second row */
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "quantizer", &use, "use", "block", setter_text("tensor")));
    assert_int_equal(use.q.block_rows, 0);
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "block", setter_numbers(16, 17)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: use.block: no value {16, 17}; it can be tensor, row, "
                          "1x16, 1x32, 1x128, 16x16, 32x32 or 128x128");
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "block", setter_numbers(0, 0)),
                     MPT_INVALID);
    setter_close(&s);
}

static void test_hadamard_when_size_is_no_power_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_hadamard hadamard = {.size = 16};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "hadamard", &hadamard, "h", "size", setter_integer(12)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: h.size: no value 12; it can be 2, 4, 8, 16, 32, 64 or "
                          "128");
    assert_int_equal(setter_set(&s, "hadamard", &hadamard, "h", "size", setter_integer(256)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: h.size: out of range: 256; give 2, 4, 8, 16, 32, 64 "
                          "or 128");
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "hadamard", &hadamard, "h", "size", setter_integer(128)));
    assert_int_equal(hadamard.size, 128);
    setter_close(&s);
}

/* ---- embedded records ---- */

static void test_put_when_the_word_does_not_fit_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    mpt_optimizer sgd = {.kind = MPT_OPTIMIZER_SGD, .momentum = 0.9};
    const mpt_record *record = mpt_record_find("train");
    setter_open(&s);
    assert_mpt_ok(s.ctx, mpt_record_put(s.ctx, record, &train, "train", "optimizer",
                                        mpt_record_find("sgd"), &sgd, setter_at));
    assert_true(train.optimizer.momentum == 0.9);
    assert_int_equal(mpt_record_put(s.ctx, record, &train, "train", "lr",
                                    mpt_record_find("sgd"), &sgd, setter_at),
                     MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: train.lr: cannot be sgd; give one of constant, linear, "
                   "cosine or wsd");
    assert_int_equal(mpt_record_put(s.ctx, record, &train, "train", "optimiser",
                                    mpt_record_find("sgd"), &sgd, setter_at),
                     MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: train: no field 'optimiser'; did you mean 'optimizer'?");
    setter_close(&s);
}

static void test_hadamard_when_none_then_taken_away(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.q = {.hadamard = {.size = 16}}};
    setter_open(&s);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "quantizer", &use, "use", "hadamard", setter_text("none")));
    assert_int_equal(use.q.hadamard.size, 0);
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "hadamard", setter_integer(16)),
                     MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: use.hadamard: cannot be 16; give hadamard { size = 16 } "
                   "or \"none\"");
    setter_close(&s);
}

static void test_loss_scale_when_not_above_zero_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.loss_scale = {.kind = MPT_LOSS_SCALE_NONE}};
    setter_open(&s);
    assert_mpt_ok(s.ctx, setter_set(&s, "precision", &recipe, "precision", "loss_scale",
                                    setter_integer(1024)));
    assert_int_equal(recipe.loss_scale.kind, MPT_LOSS_SCALE_STATIC);
    assert_true(recipe.loss_scale.scale == 1024);
    assert_int_equal(
        setter_set(&s, "precision", &recipe, "precision", "loss_scale", setter_integer(0)),
        MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: precision.loss_scale: out of range: 0; give a number "
                          "above 0, or dynamic { ... }");
    setter_close(&s);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_span_when_up_to_one_then_only_a_float_is_a_fraction),
    cmocka_unit_test(test_phase_when_its_start_is_set_then_its_rules_stay),
    cmocka_unit_test(test_block_when_a_list_or_a_name_then_the_same),
    cmocka_unit_test(test_hadamard_when_size_is_no_power_then_refused),
    cmocka_unit_test(test_put_when_the_word_does_not_fit_then_refused),
    cmocka_unit_test(test_hadamard_when_none_then_taken_away),
    cmocka_unit_test(test_loss_scale_when_not_above_zero_then_refused),
};
MPT_TEST_MAIN(cases)
