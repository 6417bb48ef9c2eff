/* Field faults of runs that go wrong, by their numbers: what is skipped, what is said, what
 * ends a run. Loss scales as a state machine are in test_loss_scale.c, spikes in test_watch.c.
 */
#include "mpt_test.h"

#include <math.h>

#include "mpt/watch.h"
#include "train/lr.h"
#include "train_rig.h"

static const mpt_loss_scale usual = {.kind = MPT_LOSS_SCALE_DYNAMIC,
                                     .init = 65536,
                                     .growth = 2,
                                     .backoff = 0.5,
                                     .interval = 2000,
                                     .min = 1,
                                     .max = 16777216,
                                     .hysteresis = 1};

/* A line of the metrics that begins like this; fails where there is none. */
static const char *event(const rig *r, const char *start) {
    const char *at = strstr(r->lines ? r->lines : "", start);
    if (!at)
        fail_msg("no %s in\n%s", start, r->lines);
    return at;
}

static bool keep_text(void *ud, const char *text, size_t length) {
    mpt_str_append(ud, text, length);
    return true;
}

/* Whether the diagnosis says this; an empty text: whether it says nothing. */
static bool diagnosis_says(const rig *r, const char *text) {
    mpt_str said;
    mpt_str_init(&said, r->ctx);
    assert_mpt_ok(r->ctx, mpt_trainer_diagnosis(r->trainer, keep_text, &said));
    bool found = *text ? said.data && strstr(said.data, text) != NULL : said.len == 0;
    if (!found)
        print_message("%s\n", said.data ? said.data : "(nothing)");
    mpt_str_deinit(&said);
    return found;
}

/* ---- P04: the scale falls and falls ---- */

static void test_p04_run_when_a_weight_is_nan_then_it_ends_in_time_and_names_it(void **s) {
    (void)s;
    rig r;
    int64_t n;
    mpt_step_result step = {.loss_scale = 0};
    mpt_status status = MPT_OK;
    rig_options o = rig_fp16_options(&usual);
    rig_init(&r, &o);
    rig_weights(&r, "layers.0.up.weight", &n)[7] = NAN;
    assert_true(diagnosis_says(&r, ""));
    uint64_t before = rig_state_hash(&r);
    for (int i = 0; i < RIG_MAX_SKIPS && status == MPT_OK; i++) {
        status = mpt_trainer_step(r.trainer, NULL, &step);
        assert_true(step.loss_scale >= 1 && isnormal(step.loss_scale));
    }
    assert_int_equal(status, MPT_STOPPED);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message,
                           "step 19: 20 steps in a row were skipped; first bad tensor: NaN in "
                           "the weights layers.0.up.weight; no loss scale cures that"));
    event(&r, "{\"event\":\"diagnosis\",\"step\":19,\"reason\":\"max_skips\",\"tensor\":"
              "\"layers.0.up.weight\",\"op\":\"weights\",\"pass\":\"prepare\",\"format\":"
              "\"fp32\",\"fault\":\"NaN\",\"nan\":1,\"inf\":0,\"elements\":512,");
    assert_true(diagnosis_says(&r, "NaN in the weights layers.0.up.weight\n"));
    assert_true(rig_state_hash(&r) == before); /* looking for it has changed nothing */
    rig_deinit(&r);
}

/* ---- P05: the scale grows and grows ---- */

static void test_p05_run_when_the_loss_is_tiny_then_the_scale_stops_at_its_cap(void **s) {
    (void)s;
    rig r;
    mpt_step_result step = {.loss = 0};
    int32_t tokens[4][17];
    mpt_loss_scale scale = usual;
    scale.interval = 1;
    rig_options o = rig_fp16_options(&scale);
    o.lr = 0.05;
    for (int i = 0; i < 4 * 17; i++)
        tokens[i / 17][i % 17] = 5;
    rig_init(&r, &o);
    for (int i = 0; i < 60; i++) /* until nothing else is expected any more */
        assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, tokens[0], &step));
    assert_true(step.loss < 1e-7);
    for (int i = 0; i < 300; i++) {
        assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, tokens[0], &step));
        assert_false(step.skipped);
        assert_true(step.loss_scale <= scale.max);
    }
    assert_true(step.loss_scale == scale.max);
    rig_deinit(&r);
}

/* ---- P11: three counters ---- */

/* The first steps overflow under a scale of 2^40. Warm-up and the phase go by applied steps. */
static void test_p11_run_when_the_first_steps_are_skipped_then_schedules_wait(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = usual;
    scale.init = scale.max = 0x1p40;
    rig_options o = rig_fp16_options(&scale);
    o.switch_at = 10;
    o.by_applied = true;
    rig_init(&r, &o);
    r.program.train.steps = 200;
    r.program.train.lr.warmup = (mpt_span){.value = 10};
    int64_t skipped = 0, applied = 0;
    while (applied < 12) {
        mpt_step_result step = rig_step(&r);
        skipped += step.skipped;
        assert_true(step.lr == (double)(float)mpt_lr_at(&r.program.train, applied));
        assert_string_equal(step.phase, applied < 10 ? "main" : "settle");
        if (!step.skipped && applied++ == 0)
            assert_true(step.lr == (double)(float)(o.lr / 10));
        assert_int_equal(r.trainer->data, step.step + 1); /* no batch twice */
    }
    assert_in_range(skipped, 5, 40);
    assert_int_equal(r.trainer->attempted, skipped + applied);
    assert_int_equal(r.trainer->applied, applied);
    event(&r, "{\"event\":\"skip\",\"step\":0,");
    rig_deinit(&r);
}

/* ---- P16: true words ---- */

static void test_p16_run_when_a_bf16_gradient_is_nan_then_no_word_of_a_loss_scale(void **s) {
    (void)s;
    static const struct {
        const char *fault, *message;
    } faults[] = {
        {"grad:model.layers.0.down.weight=nan@4",
         "step 4: a gradient is not finite, and train.watch.nonfinite is 'stop'; first bad "
         "tensor: NaN in the gradient of layers.0.down.weight; "},
        {"grad:model.layers.0.down.weight=-inf@4",
         "Inf in the gradient of layers.0.down.weight"},
        {"act:model.layers.0.up=inf@4",
         "first bad tensor: Inf in layers.0.up (linear, bf16); "},
        {"weight:model.layers.0.up.weight=nan@4",
         "first bad tensor: NaN in the weights layers.0.up.weight; "},
    };
    for (size_t i = 0; i < MPT_COUNT(faults); i++) {
        rig r;
        mpt_step_result step;
        rig_options o = rig_defaults();
        o.switch_at = 1; /* BF16 from there on */
        o.watch.nonfinite = MPT_NONFINITE_STOP;
        rig_compile(&r, mpt_test_ctx(), &o);
        r.inject = &faults[i].fault;
        r.n_inject = 1;
        assert_mpt_ok(r.ctx, rig_create_trainer(&r));
        for (int k = 0; k < 4; k++)
            rig_step(&r);
        uint64_t before = rig_state_hash(&r);
        assert_int_equal(mpt_trainer_step(r.trainer, NULL, &step), MPT_STOPPED);
        const char *message = mpt_ctx_error(r.ctx)->message;
        if (!strstr(message, faults[i].message))
            fail_msg("%s, expected %s", message, faults[i].message);
        assert_null(strstr(message, "loss scale"));
        assert_null(strstr(message, "verflow"));
        assert_true(diagnosis_says(&r, "Training stopped itself at step 4: "));
        assert_null(strstr(event(&r, "{\"event\":\"diagnosis\""), "loss_scale"));
        assert_true(rig_state_hash(&r) == before);
        assert_false(rig_step(&r).skipped); /* a host may go on all the same */
        rig_deinit(&r);
    }
}

/* "stop" is no matter of steps that a lower loss scale cures. */
static void test_p16_run_when_told_to_stop_then_a_falling_scale_is_still_no_reason(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = usual;
    scale.init = scale.max = 0x1p40;
    rig_options o = rig_fp16_options(&scale);
    o.watch.nonfinite = MPT_NONFINITE_STOP;
    rig_init(&r, &o);
    while (rig_step(&r).skipped)
        continue;
    assert_true(r.trainer->scaler.loss_scale < 0x1p40);
    rig_deinit(&r);
}

/* ---- P43: into delayed scaling ---- */

/* BF16, then FP8 with delayed scaling. What the plan says of it: test_phases.c. */
static void choose_delayed_late(const void *ud, const mpt_graph *graph, int phase,
                                mpt_policy *policies) {
    (void)ud;
    for (int i = 0; i < graph->n_layers && phase > 0; i++)
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            policies[i].slot[slot] =
                (mpt_quantizer){.name = "e4m3",
                                .format = MPT_DTYPE_E4M3,
                                .scale = {.kind = MPT_SCALING_DELAYED, .history = 16}};
}

static void test_p43_phase_when_fp8_delayed_begins_then_its_first_step_cuts_nothing(void **s) {
    (void)s;
    for (int warm = 0; warm < 2; warm++) {
        rig r;
        mpt_operand_view operand;
        int n = 0;
        rig_options o = rig_defaults();
        o.choose = choose_delayed_late;
        o.switch_at = 10;
        o.warm = warm;
        rig_init(&r, &o);
        for (int i = 0; i < 10; i++)
            rig_step(&r);
        assert_true((rig_scale(&r, "layers.0.up.fprop.x").scale > 0) == (warm == 1));
        mpt_trainer_count_next(r.trainer);
        mpt_step_result step = rig_step(&r);
        assert_string_equal(step.phase, "settle");
        assert_false(step.skipped);
        for (; mpt_trainer_operand(r.trainer, n, &operand); n++) {
            if (!warm)
                assert_int_equal(operand.overflow, 0);
            assert_true(operand.sqnr >
                        20); /* a scale of the steps before may cut a value or two */
        }
        assert_true(n > 0);
        rig_deinit(&r);
    }
}

/* ---- P83: near the end of FP16 ---- */

/* The gain of the last norm, far too large and growing by 2 % a step, as a run may drift. */
static void
test_p83_run_when_fp16_values_grow_then_a_warning_comes_before_the_first_inf(void **s) {
    (void)s;
    rig r;
    int64_t n;
    rig_options o = rig_fp16_options(NULL);
    mpt_watch_view watch;
    o.lr = 1e-12;
    o.loss_scale = 1;
    rig_init(&r, &o);
    r.program.train.steps = 2000;
    float *gain = rig_weights(&r, "norm_f.weight", &n);
    for (int64_t i = 0; i < n; i++)
        gain[i] *= 200;
    bool skipped = false;
    int64_t first_inf = 0;
    while (!skipped && r.trainer->attempted < 1000) {
        mpt_step_result step;
        mpt_status status = mpt_trainer_step(r.trainer, NULL, &step);
        assert_int_equal(status, MPT_OK);
        skipped = step.skipped;
        first_inf = step.step;
        for (int64_t i = 0; i < n; i++)
            gain[i] *= 1.02f;
    }
    assert_true(skipped);
    const char *warning = event(&r, "{\"event\":\"range\",\"step\":");
    long long at = strtoll(warning + strlen("{\"event\":\"range\",\"step\":"), NULL, 10);
    assert_in_range(first_inf - at, 10, 60);
    assert_int_equal(at % MPT_RANGE_EVERY, 0);
    assert_non_null(strstr(warning,
                           ",\"tensor\":\"norm_f\",\"op\":\"rmsnorm\",\"format\":\"fp16\","
                           "\"amax\":"));
    assert_true(mpt_trainer_watch(r.trainer, &watch) && watch.near_end > 0);
    rig_deinit(&r);
}

/* Large gradients are what a dynamic loss scale is for. */
static void test_p83_run_when_only_scaled_gradients_are_large_then_no_warning(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = usual;
    rig_options o = rig_fp16_options(&scale);
    scale.init = scale.max = 0x1p23;
    rig_init(&r, &o);
    for (int i = 0; i < 30; i++)
        rig_step(&r);
    assert_true(r.trainer->applied > 16);
    assert_null(strstr(r.lines, "\"range\""));
    rig_deinit(&r);
}

static void test_p83_run_when_nothing_is_in_fp16_then_nothing_is_looked_at(void **s) {
    (void)s;
    rig r;
    int64_t n;
    rig_options o = rig_defaults();
    rig_init(&r, &o);
    float *gain = rig_weights(&r, "norm_f.weight", &n);
    for (int64_t i = 0; i < n; i++)
        gain[i] = 60000;
    rig_step(&r);
    assert_null(strstr(r.lines, "\"range\""));
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p04_run_when_a_weight_is_nan_then_it_ends_in_time_and_names_it),
    cmocka_unit_test(test_p05_run_when_the_loss_is_tiny_then_the_scale_stops_at_its_cap),
    cmocka_unit_test(test_p11_run_when_the_first_steps_are_skipped_then_schedules_wait),
    cmocka_unit_test(test_p16_run_when_a_bf16_gradient_is_nan_then_no_word_of_a_loss_scale),
    cmocka_unit_test(test_p16_run_when_told_to_stop_then_a_falling_scale_is_still_no_reason),
    cmocka_unit_test(test_p43_phase_when_fp8_delayed_begins_then_its_first_step_cuts_nothing),
    cmocka_unit_test(
        test_p83_run_when_fp16_values_grow_then_a_warning_comes_before_the_first_inf),
    cmocka_unit_test(test_p83_run_when_only_scaled_gradients_are_large_then_no_warning),
    cmocka_unit_test(test_p83_run_when_nothing_is_in_fp16_then_nothing_is_looked_at),
};

MPT_TEST_MAIN(cases)
