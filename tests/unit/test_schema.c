/* recipe/schema*.c: rows, defaults, checks, and the words of the errors. */
#include "recipe_fixture.h"

typedef struct setter {
    mpt_ctx *ctx;
    mpt_arena arena;
} setter;

static void open(setter *s) {
    s->ctx = mpt_test_ctx();
    mpt_arena_init(&s->arena, s->ctx);
}

static void close(setter *s) {
    mpt_arena_deinit(&s->arena);
    assert_int_equal(mpt_ctx_memory(s->ctx).live_bytes, 0);
    mpt_ctx_destroy(s->ctx);
}

static const mpt_where at = {"nvfp4.lua", 14};

static mpt_status set(setter *s, const char *record, void *object, const char *path,
                      const char *name, mpt_setting value) {
    return mpt_record_set(s->ctx, &s->arena, mpt_record_find(record), object, path, name,
                          &value, at);
}

static mpt_setting text(const char *string) {
    return (mpt_setting){.kind = MPT_SETTING_STRING, .string = string};
}

static mpt_setting number(double value) {
    return (mpt_setting){.kind = MPT_SETTING_NUMBER, .number = value};
}

static mpt_setting integer(int64_t value) {
    return (mpt_setting){.kind = MPT_SETTING_INT, .integer = value, .number = (double)value};
}

static mpt_setting numbers(double a, double b) {
    return (mpt_setting){
        .kind = MPT_SETTING_NUMBERS, .n = 2, .numbers = {a, b}, .integral = true};
}

/* ---- rows ---- */

static void test_rows_when_listed_then_each_says_what_it_is(void **state) {
    (void)state;
    int n = 0;
    const mpt_record *const *records = mpt_record_all(&n);
    assert_true(n >= 20);
    for (int r = 0; r < n; r++) {
        assert_true(strlen(records[r]->doc) > 10);
        assert_ptr_equal(mpt_record_find(records[r]->name), records[r]);
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
    open(&s);
    assert_int_equal(
        set(&s, "quantizer", &use, "rules[2].use.wgrad", "roundng", text("nearest")),
        MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: rules[2].use.wgrad: no field 'roundng'; did you mean "
                          "'rounding'?");
    close(&s);
}

static void test_field_when_far_from_all_then_all_are_listed(void **state) {
    (void)state;
    setter s;
    mpt_lr lr = {.peak = 0};
    open(&s);
    assert_int_equal(set(&s, "constant", &lr, "", "zzzzzz", number(1)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: no field 'zzzzzz'; constant has peak or warmup");
    close(&s);
}

static void test_choice_when_misspelt_then_the_nearest_is_suggested(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    open(&s);
    assert_int_equal(
        set(&s, "quantizer", &use, "rules[2].use.wgrad", "rounding", text("stochastc")),
        MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: rules[2].use.wgrad.rounding: no rounding "
                          "'stochastc'; did you mean 'stochastic'?");
    assert_int_equal(use.set, 0);
    close(&s);
}

static void test_choice_when_far_from_all_then_all_are_listed(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    open(&s);
    assert_int_equal(set(&s, "quantizer", &use, "use", "outer", text("columns")), MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: use.outer: no outer 'columns'; it can be none or tensor");
    assert_int_equal(set(&s, "quantizer", &use, "use", "scale", text("delayed")), MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: use.scale: no scale 'delayed'; it can only be current");
    close(&s);
}

/* ---- wrong values ---- */

static void test_number_when_not_finite_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    open(&s);
    double zero = 0;
    assert_int_equal(set(&s, "train", &train, "train", "clip", number(zero / zero)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.clip: must be finite, not NaN; give a number of "
                          "0 or more and at most 1000000");
    assert_int_equal(set(&s, "train", &train, "train", "steps", number(1 / zero)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: must be finite, not inf; give a whole "
                          "number of 1 or more");
    close(&s);
}

static void test_integer_when_out_of_range_then_the_range_is_told(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    open(&s);
    assert_int_equal(set(&s, "train", &train, "train", "batch", integer(0)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.batch: out of range: 0; give a whole number of "
                          "1 or more and at most 16777216");
    assert_int_equal(set(&s, "train", &train, "train", "steps", integer(INT64_MAX)),
                     MPT_INVALID);
    assert_int_equal(set(&s, "train", &train, "train", "steps", integer(INT64_MIN)),
                     MPT_INVALID);
    assert_int_equal(train.steps, 0);
    close(&s);
}

static void test_integer_when_a_float_is_whole_then_taken(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "train", &train, "train", "steps", number(1e3)));
    assert_int_equal(train.steps, 1000);
    assert_int_equal(set(&s, "train", &train, "train", "steps", number(2.5)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: must be whole, not 2.5; give a whole "
                          "number of 1 or more");
    assert_int_equal(train.steps, 1000);
    close(&s);
}

static void test_value_when_of_the_wrong_type_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    mpt_slot_use use = {.set = 0};
    mpt_recipe recipe = {.name = NULL};
    open(&s);
    assert_int_equal(set(&s, "train", &train, "train", "steps", text("many")), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.steps: cannot be 'many'; give a whole number of "
                          "1 or more");
    mpt_setting yes = {.kind = MPT_SETTING_BOOL, .boolean = true};
    assert_int_equal(set(&s, "quantizer", &use, "use", "rounding", yes), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: use.rounding: cannot be true; give nearest or "
                          "stochastic");
    assert_int_equal(set(&s, "recipe", &recipe, "", "name", integer(3)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: name: cannot be 3; give a text");
    assert_int_equal(set(&s, "train", &train, "train", "lr", number(1e-3)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.lr: cannot be 0.001; give one of constant, "
                          "linear, cosine or wsd");
    assert_int_equal(set(&s, "train", &train, "train", "eval", integer(3)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: train.eval: cannot be 3; give a table of eval");
    close(&s);
}

static void test_version_when_not_ours_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.name = NULL};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "recipe", &recipe, "", "version", integer(1)));
    assert_int_equal(set(&s, "recipe", &recipe, "", "version", integer(2)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: version: out of range: 2; give a whole number 1");
    close(&s);
}

static void test_betas_when_one_is_one_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_optimizer adamw = {.beta1 = 0.5};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "adamw", &adamw, "o", "betas", numbers(0, 0.999)));
    assert_true(adamw.beta1 == 0 && adamw.beta2 == 0.999);
    assert_int_equal(set(&s, "adamw", &adamw, "o", "betas", numbers(0.9, 1)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: o.betas: out of range: {0.9, 1}; give two numbers of "
                          "0 or more and below 1");
    assert_int_equal(set(&s, "adamw", &adamw, "o", "betas", number(0.9)), MPT_INVALID);
    assert_int_equal(set(&s, "adamw", &adamw, "o", "eps", number(0)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: o.eps: out of range: 0; give a number above 0 and at "
                          "most 1000000");
    close(&s);
}

static void test_state_when_not_fp32_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.residual = MPT_DTYPE_COUNT};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "state", &recipe, "state", "master", text("fp32")));
    assert_int_equal(set(&s, "state", &recipe, "state", "adam_m", text("bf16")), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: state.adam_m: no adam_m 'bf16'; it can only be fp32");
    assert_mpt_ok(s.ctx, set(&s, "state", &recipe, "state", "residual", text("fp32")));
    assert_int_equal(recipe.residual, MPT_DTYPE_FP32);
    close(&s);
}

/* ---- shapes of values ---- */

static void test_span_when_up_to_one_then_only_a_float_is_a_fraction(void **state) {
    (void)state;
    setter s;
    mpt_lr lr = {.peak = 0};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "wsd", &lr, "lr", "warmup", integer(1)));
    assert_true(lr.warmup.value == 1 && !lr.warmup.fraction);
    assert_mpt_ok(s.ctx, set(&s, "wsd", &lr, "lr", "warmup", number(1.0)));
    assert_true(lr.warmup.value == 1 && lr.warmup.fraction);
    assert_mpt_ok(s.ctx, set(&s, "wsd", &lr, "lr", "warmup", number(8e9)));
    assert_true(lr.warmup.value == 8e9 && !lr.warmup.fraction);
    assert_int_equal(set(&s, "wsd", &lr, "lr", "warmup", number(20.5)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: lr.warmup: must be whole, not 20.5; give a whole "
                          "number, or a fraction of the run from 0.0 to 1.0");
    assert_int_equal(set(&s, "wsd", &lr, "lr", "warmup", number(-0.1)), MPT_INVALID);
    close(&s);
}

static void test_phase_when_its_start_is_set_then_its_rules_stay(void **state) {
    (void)state;
    setter s;
    mpt_phase phase = {.n_rules = 77};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "phase", &phase, "phases[2]", "from", number(0.82)));
    assert_true(phase.from == 0.82 && phase.from_is_fraction);
    assert_int_equal(phase.n_rules, 77);
    close(&s);
}

static void test_block_when_a_list_or_a_name_then_the_same(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.set = 0};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "quantizer", &use, "use", "block", numbers(16, 16)));
    assert_int_equal(use.q.block_rows, 16);
    assert_int_equal(use.q.block_cols, 16);
    assert_int_equal(use.set, 1);
    assert_mpt_ok(s.ctx, set(&s, "quantizer", &use, "use", "block", text("tensor")));
    assert_int_equal(use.q.block_rows, 0);
    assert_int_equal(set(&s, "quantizer", &use, "use", "block", numbers(16, 17)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: use.block: no block {16, 17}; it can be tensor, 1x16 "
                          "or 16x16");
    assert_int_equal(set(&s, "quantizer", &use, "use", "block", numbers(0, 0)), MPT_INVALID);
    close(&s);
}

static void test_hadamard_when_size_is_no_power_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_hadamard hadamard = {.size = 16};
    open(&s);
    assert_int_equal(set(&s, "hadamard", &hadamard, "h", "size", integer(12)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: h.size: no size 12; it can be 2, 4, 8, 16, 32, 64 or "
                          "128");
    assert_int_equal(set(&s, "hadamard", &hadamard, "h", "size", integer(256)), MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: h.size: out of range: 256; give 2, 4, 8, 16, 32, 64 "
                          "or 128");
    assert_mpt_ok(s.ctx, set(&s, "hadamard", &hadamard, "h", "size", integer(128)));
    assert_int_equal(hadamard.size, 128);
    close(&s);
}

/* ---- embedded records ---- */

static void test_put_when_the_word_does_not_fit_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_train train = {.set = 0};
    mpt_optimizer sgd = {.kind = MPT_OPTIMIZER_SGD, .momentum = 0.9};
    const mpt_record *record = mpt_record_find("train");
    open(&s);
    assert_mpt_ok(s.ctx, mpt_record_put(s.ctx, record, &train, "train", "optimizer",
                                        mpt_record_find("sgd"), &sgd, at));
    assert_true(train.optimizer.momentum == 0.9);
    assert_int_equal(
        mpt_record_put(s.ctx, record, &train, "train", "lr", mpt_record_find("sgd"), &sgd, at),
        MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: train.lr: cannot be sgd; give one of constant, linear, "
                   "cosine or wsd");
    assert_int_equal(mpt_record_put(s.ctx, record, &train, "train", "optimiser",
                                    mpt_record_find("sgd"), &sgd, at),
                     MPT_INVALID);
    assert_message(s.ctx,
                   "nvfp4.lua:14: train: no field 'optimiser'; did you mean 'optimizer'?");
    close(&s);
}

static void test_hadamard_when_none_then_taken_away(void **state) {
    (void)state;
    setter s;
    mpt_slot_use use = {.q = {.hadamard = {16, MPT_SIGNS_FIXED}}};
    open(&s);
    assert_mpt_ok(s.ctx, set(&s, "quantizer", &use, "use", "hadamard", text("none")));
    assert_int_equal(use.q.hadamard.size, 0);
    assert_int_equal(set(&s, "quantizer", &use, "use", "hadamard", integer(16)), MPT_INVALID);
    assert_message(
        s.ctx, "nvfp4.lua:14: use.hadamard: cannot be 16; give a table of hadamard or none");
    close(&s);
}

static void test_loss_scale_when_not_above_zero_then_refused(void **state) {
    (void)state;
    setter s;
    mpt_recipe recipe = {.loss_scale = 0};
    open(&s);
    assert_mpt_ok(s.ctx,
                  set(&s, "precision", &recipe, "precision", "loss_scale", integer(1024)));
    assert_true(recipe.loss_scale == 1024);
    assert_int_equal(set(&s, "precision", &recipe, "precision", "loss_scale", integer(0)),
                     MPT_INVALID);
    assert_message(s.ctx, "nvfp4.lua:14: precision.loss_scale: out of range: 0; give a number "
                          "above 0");
    close(&s);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rows_when_listed_then_each_says_what_it_is),
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
    cmocka_unit_test(test_state_when_not_fp32_then_refused),
    cmocka_unit_test(test_span_when_up_to_one_then_only_a_float_is_a_fraction),
    cmocka_unit_test(test_phase_when_its_start_is_set_then_its_rules_stay),
    cmocka_unit_test(test_block_when_a_list_or_a_name_then_the_same),
    cmocka_unit_test(test_hadamard_when_size_is_no_power_then_refused),
    cmocka_unit_test(test_put_when_the_word_does_not_fit_then_refused),
    cmocka_unit_test(test_hadamard_when_none_then_taken_away),
    cmocka_unit_test(test_loss_scale_when_not_above_zero_then_refused),
};
MPT_TEST_MAIN(cases)
