/* recipe/schema*.c: rows, defaults, checks, and the words of the errors. */
#include "setter_fixture.h"

/* ---- rows ---- */

static void test_rows_when_listed_then_each_says_what_it_is(void **state) {
    (void)state;
    int n = 0;
    const mpt_record *const *records = mpt_record_all(&n);
    assert_true(n >= 20);
    for (int r = 0; r < n; r++) {
        assert_true(strlen(records[r]->doc) > 10);
        assert_string_equal(mpt_record_find(records[r]->name)->name, records[r]->name);
        assert_true(records[r]->n_fields > 0 && records[r]->n_fields <= 32);
        for (int i = 0; i < records[r]->n_fields; i++) {
            const mpt_field *row = &records[r]->fields[i];
            size_t end = strlen(row->doc);
            assert_true(end > 5);
            if (row->doc[end - 1] != '.')
                fail_msg("%s.%s: '%s' is no sentence", records[r]->name, row->name, row->doc);
            assert_true(strlen(row->by_default) > 0);
            assert_non_null(row->source);
            assert_true(row->type != MPT_FIELD_RECORD || row->record || row->variants);
        }
    }
}

/* What a number format, a scale, a moment or a decay is comes from somewhere, and says from
 * where; mpt's own words are listed here. */
static void test_rows_when_they_are_of_a_method_then_they_name_its_source(void **state) {
    (void)state;
    static const char *const methods[] = {"quantizer", "delayed", "four_over_six", "hadamard",
                                          "state",     "static",  "adamw",         "sgd",
                                          "constant",  "linear",  "cosine",        "wsd"};
    static const char *const own[] = {"delayed.headroom", "hadamard.scope", "hadamard.seed",
                                      "constant.peak",    "linear.peak",    "cosine.peak",
                                      "wsd.peak"};
    for (size_t m = 0; m < MPT_COUNT(methods); m++) {
        const mpt_record *record = mpt_record_find(methods[m]);
        for (int i = 0; i < record->n_fields; i++) {
            char path[64];
            bool known = *record->fields[i].source != 0;
            snprintf(path, sizeof path, "%s.%s", record->name, record->fields[i].name);
            for (size_t k = 0; k < MPT_COUNT(own); k++)
                known = known || strcmp(own[k], path) == 0;
            if (!known)
                fail_msg("%s has no source", path);
        }
    }
}

static void test_rows_when_ranges_are_given_then_the_default_lies_in_them(void **state) {
    (void)state;
    mpt_optimizer adamw = {.beta1 = -1}, sgd = {.momentum = -1};
    mpt_record_init(mpt_record_find("adamw"), &adamw);
    mpt_record_init(mpt_record_find("sgd"), &sgd);
    assert_int_equal(adamw.kind, MPT_OPTIMIZER_ADAMW);
    assert_true(adamw.beta1 == 0.9 && adamw.beta2 == 0.95);
    assert_true(adamw.eps == 1e-8 && adamw.weight_decay == 0.1);
    assert_int_equal(sgd.kind, MPT_OPTIMIZER_SGD);
    assert_true(sgd.momentum == 0 && sgd.weight_decay == 0);
    mpt_lr wsd = {.peak = 0};
    mpt_record_init(mpt_record_find("wsd"), &wsd);
    assert_int_equal(wsd.kind, MPT_LR_WSD);
    assert_true(wsd.decay.fraction && wsd.decay.value == 0.2);
    assert_true(!wsd.warmup.fraction && wsd.warmup.value == 0);
    mpt_hadamard hadamard = {.size = 0};
    mpt_record_init(mpt_record_find("hadamard"), &hadamard);
    assert_int_equal(hadamard.size, 16);
    assert_int_equal(hadamard.signs, MPT_SIGNS_FIXED);
}

static void test_train_when_initialized_then_defaults_are_those_of_the_rows(void **state) {
    (void)state;
    mpt_train train = {.set = 0};
    mpt_record_init(mpt_record_find("train"), &train);
    assert_int_equal(train.set, 0);
    assert_int_equal(train.steps, 0);
    assert_int_equal(train.seed, 1234);
    assert_true(train.clip == 1.0);
    assert_int_equal(train.eval_batches, 8);
    assert_int_equal(train.optimizer.kind, MPT_OPTIMIZER_ADAMW);
    assert_true(train.optimizer.beta2 == 0.95);
}

static void test_find_when_the_record_is_unknown_then_null(void **state) {
    (void)state;
    assert_null(mpt_record_find("quantiser"));
}

/* ---- unknown names ---- */

static void test_field_when_misspelt_then_the_nearest_is_suggested(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "quantizer", &use, "rules[2].use.wgrad", "roundng",
                                setter_text("nearest")),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: rules[2].use.wgrad: no field 'roundng'; did you mean "
                          "'rounding'?");
    setter_close(&s);
}

static void test_field_when_far_from_all_then_all_are_listed(void **state) {
    (void)state;
    setter s;
    mpt_lr lr = {.peak = 0};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "constant", &lr, "", "zzzzzz", setter_number(1)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: no field 'zzzzzz'; constant has peak or warmup");
    setter_close(&s);
}

static void test_choice_when_misspelt_then_the_nearest_is_suggested(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "quantizer", &use, "rules[2].use.wgrad", "rounding",
                                setter_text("stochastc")),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: rules[2].use.wgrad.rounding: no value "
                          "'stochastc'; did you mean 'stochastic'?");
    assert_int_equal(use.set, 0);
    setter_close(&s);
}

static void test_choice_when_far_from_all_then_all_are_listed(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "outer", setter_text("columns")),
                     MPT_INVALID);
    assert_message(
        s.ctx, "nvfp4.lua:14: use.outer: no value 'columns'; it can be none, tensor or row");
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "scale", setter_text("columns")),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: use.scale: no value 'columns'; it can be current, "
                          "delayed or static");
    setter_close(&s);
}

/* ---- wrong values ---- */

static void test_number_when_not_finite_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    setter_open(&s);
    double zero = 0;
    assert_int_equal(
        setter_set(&s, "train", &train, "train", "clip", setter_number(zero / zero)),
        MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.clip: must be finite, not NaN; give a number of "
                          "0 or more and at most 1000000");
    assert_int_equal(setter_set(&s, "train", &train, "train", "steps", setter_number(1 / zero)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: must be finite, not inf; give a whole "
                          "number of 1 or more");
    setter_close(&s);
}

static void test_integer_when_out_of_range_then_the_range_is_told(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "train", &train, "train", "batch", setter_integer(0)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.batch: out of range: 0; give a whole number of "
                          "1 or more and at most 16777216");
    assert_int_equal(
        setter_set(&s, "train", &train, "train", "steps", setter_integer(INT64_MAX)),
        MPT_INVALID);
    assert_int_equal(
        setter_set(&s, "train", &train, "train", "steps", setter_integer(INT64_MIN)),
        MPT_INVALID);
    assert_int_equal(train.steps, 0);
    setter_close(&s);
}

static void test_integer_when_a_float_is_whole_then_taken(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    setter_open(&s);
    assert_mpt_ok(s.ctx, setter_set(&s, "train", &train, "train", "steps", setter_number(1e3)));
    assert_int_equal(train.steps, 1000);
    assert_int_equal(setter_set(&s, "train", &train, "train", "steps", setter_number(2.5)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: must be whole, not 2.5; give a whole "
                          "number of 1 or more");
    assert_int_equal(train.steps, 1000);
    setter_close(&s);
}

static void test_value_when_of_the_wrong_type_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    mpt_slot_use use = {.set = 0};
    mpt_recipe recipe = {.name = NULL};
    setter_open(&s);
    assert_int_equal(setter_set(&s, "train", &train, "train", "steps", setter_text("many")),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: cannot be 'many'; give a whole number of "
                          "1 or more");
    mpt_setting yes = {.kind = MPT_SETTING_BOOL, .boolean = true};
    assert_int_equal(setter_set(&s, "quantizer", &use, "use", "rounding", yes), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: use.rounding: cannot be true; give nearest, "
                          "stochastic, toward_zero or half_away");
    assert_int_equal(setter_set(&s, "recipe", &recipe, "", "name", setter_integer(3)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: name: cannot be 3; give a text");
    assert_int_equal(setter_set(&s, "train", &train, "train", "lr", setter_number(1e-3)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.lr: cannot be 0.001; give one of constant, "
                          "linear, cosine or wsd");
    assert_int_equal(setter_set(&s, "train", &train, "train", "eval", setter_integer(3)),
                     MPT_INVALID);
    assert_message(
        s.ctx,
        "nvfp4.lua:14: train.eval: cannot be 3; give a table of eval, such as { every = ... }");
    setter_close(&s);
}

static void test_version_when_not_ours_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.name = NULL};
    setter_open(&s);
    assert_mpt_ok(s.ctx, setter_set(&s, "recipe", &recipe, "", "version", setter_integer(1)));
    assert_int_equal(setter_set(&s, "recipe", &recipe, "", "version", setter_integer(2)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: version: out of range: 2; give a whole number 1");
    setter_close(&s);
}

static void test_betas_when_one_is_one_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_optimizer adamw = {.beta1 = 0.5};
    setter_open(&s);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "adamw", &adamw, "o", "betas", setter_numbers(0, 0.999)));
    assert_true(adamw.beta1 == 0 && adamw.beta2 == 0.999);
    assert_int_equal(setter_set(&s, "adamw", &adamw, "o", "betas", setter_numbers(0.9, 1)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: o.betas: out of range: {0.9, 1}; give two numbers of "
                          "0 or more and below 1");
    assert_int_equal(setter_set(&s, "adamw", &adamw, "o", "betas", setter_number(0.9)),
                     MPT_INVALID);
    assert_int_equal(setter_set(&s, "adamw", &adamw, "o", "eps", setter_number(0)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: o.eps: out of range: 0; give a number above 0 and at "
                          "most 1000000");
    setter_close(&s);
}

static void test_state_when_a_format_is_set_then_stored_or_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.residual = MPT_DTYPE_COUNT};
    setter_open(&s);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "state", &recipe, "state", "master", setter_text("fp32")));
    assert_int_equal(setter_set(&s, "state", &recipe, "state", "adam_m", setter_text("e2m1")),
                     MPT_INVALID);
    assert_message(
        s.ctx,
        "nvfp4.lua:14: state.adam_m: no format 'e2m1' here; take fp32, bf16, fp16, e4m3 or "
        "e5m2");
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "state", &recipe, "state", "adam_m", setter_text("bf16")));
    assert_int_equal(recipe.state.adam_m.format, MPT_DTYPE_BF16);
    assert_mpt_ok(s.ctx,
                  setter_set(&s, "state", &recipe, "state", "residual", setter_text("fp32")));
    assert_int_equal(recipe.residual, MPT_DTYPE_FP32);
    setter_close(&s);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rows_when_listed_then_each_says_what_it_is),
    cmocka_unit_test(test_rows_when_they_are_of_a_method_then_they_name_its_source),
    cmocka_unit_test(test_rows_when_ranges_are_given_then_the_default_lies_in_them),
    cmocka_unit_test(test_train_when_initialized_then_defaults_are_those_of_the_rows),
    cmocka_unit_test(test_find_when_the_record_is_unknown_then_null),
    cmocka_unit_test(test_field_when_misspelt_then_the_nearest_is_suggested),
    cmocka_unit_test(test_field_when_far_from_all_then_all_are_listed),
    cmocka_unit_test(test_choice_when_misspelt_then_the_nearest_is_suggested),
    cmocka_unit_test(test_choice_when_far_from_all_then_all_are_listed),
    cmocka_unit_test(test_number_when_not_finite_then_refused),
    cmocka_unit_test(test_integer_when_out_of_range_then_the_range_is_told),
    cmocka_unit_test(test_integer_when_a_float_is_whole_then_taken),
    cmocka_unit_test(test_value_when_of_the_wrong_type_then_refused),
    cmocka_unit_test(test_version_when_not_ours_then_refused),
    cmocka_unit_test(test_betas_when_one_is_one_then_refused),
    cmocka_unit_test(test_state_when_a_format_is_set_then_stored_or_refused),
};
MPT_TEST_MAIN(cases)
