/* train/watch.c and train/spike.c: what stands out of a window, and what comes of it. */
#include "mpt_test.h"

#include <float.h>
#include <math.h>

#include "lua_test.h"
#include "mpt/watch.h"
#include "train_rig.h"

/* ---- where a value lies among others ---- */

/* 1 ... 9: the median is 5, the deviations 4 3 2 1 0 1 2 3 4 have the median 2. */
static void test_measure_when_worked_out_by_hand_then_the_same(void **s) {
    (void)s;
    double x[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    mpt_outlying of = mpt_watch_measure(x, 9, 25);
    assert_true(of.median == 5 && fabs(of.z - 0.6745 * 20 / 2) < 1e-12);
    double even[] = {1, 10, 2, 4};
    assert_true(mpt_watch_measure(even, 4, 3).median == 3);
    double one[] = {7};
    assert_true(mpt_watch_measure(one, 1, 7).z == 0);
    assert_true(isnan(mpt_watch_measure(NULL, 0, 7).median));
}

/* Against sorting, over lengths odd and even, with many equal values. */
static void
test_measure_when_windows_are_random_then_the_median_is_that_of_the_sorted(void **s) {
    (void)s;
    uint64_t state = 1;
    for (int64_t n = 1; n <= 200; n++) {
        double x[200], sorted[200];
        for (int64_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[i] = (double)(state >> 33 & 63u);
            int64_t at = i;
            for (; at > 0 && sorted[at - 1] > x[i]; at--)
                sorted[at] = sorted[at - 1];
            sorted[at] = x[i];
        }
        double median = (sorted[n / 2] + sorted[(n - 1) / 2]) / 2;
        assert_true(mpt_watch_measure(x, n, 0).median == median);
    }
}

/* The last bits of a series that does not move are no spikes; a step up from it is one. */
static void test_measure_when_nothing_moved_then_a_thousandth_is_the_yardstick(void **s) {
    (void)s;
    double x[16], zeros[16] = {0};
    for (int i = 0; i < 16; i++)
        x[i] = 4;
    assert_true(mpt_watch_measure(x, 16, 4.0000001).z < 1e-3);
    for (int i = 0; i < 16; i++)
        x[i] = 4;
    assert_true(fabs(mpt_watch_measure(x, 16, 4 + 4.0 / 1024).z - 1) < 1e-9);
    mpt_outlying of = mpt_watch_measure(zeros, 16, 1);
    assert_true(of.median == 0 && of.z > 1e9 && isfinite(of.z));
    assert_true(isfinite(mpt_watch_measure(zeros, 16, DBL_MAX).z));
}

static void test_measure_when_a_value_is_low_then_it_does_not_stand_out(void **s) {
    (void)s;
    double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    assert_true(mpt_watch_measure(x, 9, -1e9).z == 0);
}

/* ---- the window ---- */

/* The verdict over x, where every sample so far was one of 1, 2, 3 in turn. */
static mpt_watch_verdict judge_after(int n, int64_t window, double x) {
    static mpt_watch_state watch;
    mpt_spike spike = {.action = MPT_SPIKE_WARN, .window = window, .z = 8};
    mpt_watch_begin(&spike, NAN, &watch);
    for (int i = 0; i < n; i++)
        mpt_watch_take(&watch, 1 + i % 3, 1 + i % 3);
    return mpt_watch_judge(&watch, x, x);
}

static void test_judge_when_samples_are_few_then_it_does_not_speak(void **s) {
    (void)s;
    assert_int_equal(judge_after(0, 128, 1e9).action, MPT_SPIKE_OFF);
    assert_int_equal(judge_after(MPT_WATCH_SAMPLES - 1, 128, 1e9).action, MPT_SPIKE_OFF);
    assert_int_equal(judge_after(MPT_WATCH_SAMPLES, 128, 1e9).action, MPT_SPIKE_WARN);
    assert_int_equal(judge_after(7, 8, 1e9).action, MPT_SPIKE_OFF);
    assert_int_equal(judge_after(8, 8, 1e9).action, MPT_SPIKE_WARN);
}

/* Median 2, deviation 1 / 0.6745: z = 8 is at 2 + 8 / 0.6745. */
static void test_judge_when_z_is_at_the_bound_then_it_is_a_spike(void **s) {
    (void)s;
    double bound = 2 + 8 / 0.6745;
    assert_int_equal(judge_after(300, 9, bound + 1e-9).action, MPT_SPIKE_WARN);
    assert_int_equal(judge_after(300, 9, bound - 1e-9).action, MPT_SPIKE_OFF);
}

static void
test_judge_when_the_value_is_not_finite_then_it_is_no_spike_and_no_sample(void **s) {
    (void)s;
    static mpt_watch_state watch;
    mpt_spike spike = {.action = MPT_SPIKE_SKIP, .window = 8, .z = 8};
    assert_int_equal(judge_after(100, 8, NAN).action, MPT_SPIKE_OFF);
    assert_int_equal(judge_after(100, 8, INFINITY).action, MPT_SPIKE_OFF);
    mpt_watch_begin(&spike, NAN, &watch);
    for (int i = 0; i < 8; i++)
        mpt_watch_take(&watch, i % 2 ? (double)NAN : 1.0 + i, (double)INFINITY);
    assert_int_equal(watch.counts.samples[MPT_WATCHED_LOSS], 4);
    assert_int_equal(watch.counts.samples[MPT_WATCHED_GRAD_NORM], 0);
}

/* A level that lasts becomes the new one, once the window is full of it. */
static void test_window_when_it_is_full_then_old_samples_leave(void **s) {
    (void)s;
    static mpt_watch_state watch;
    mpt_spike spike = {.action = MPT_SPIKE_WARN, .window = 9, .z = 8};
    mpt_watch_begin(&spike, NAN, &watch);
    for (int i = 0; i < 2 * MPT_WATCH_MOST + 5; i++)
        mpt_watch_take(&watch, 1 + i % 3, 1);
    int n = 0;
    while (mpt_watch_judge(&watch, 1000, 1).action != MPT_SPIKE_OFF) {
        mpt_watch_take(&watch, 1000, 1);
        n++;
    }
    assert_int_equal(n, 5); /* more than half of 9 */
}

/* ---- a loss that has left for good ---- */

/* The level once these losses were taken in; the entropy is 4. */
static mpt_level level_of(const double *losses, int n, double entropy, int64_t fewest) {
    static mpt_watch_state watch;
    mpt_spike spike = {.action = MPT_SPIKE_WARN, .window = 128, .z = 8};
    mpt_watch_begin(&spike, entropy, &watch);
    for (int i = 0; i < n; i++)
        mpt_watch_take(&watch, losses[i], 1);
    return mpt_watch_level(&watch, fewest);
}

/* 2 nats above the first loss, and above the entropy: in each of the last 8. */
static void test_level_when_the_last_losses_are_all_far_above_the_first_then_high(void **s) {
    (void)s;
    double up[] = {5, 4, 7.1, 8, 9, 800, 7.1, 9, 9, 9}, bump[] = {5, 9, 9, 9, 9, 9, 9, 9, 6.9};
    mpt_level level = level_of(up, 10, 4, MPT_WATCH_LEVEL);
    assert_true(level.high && level.n == 8 && level.lowest == 7.1 && level.bound == 7);
    assert_false(level_of(up, 9, 4, MPT_WATCH_LEVEL).high); /* 4 is among them still */
    assert_true(level_of(bump, 8, 4, 3).high);
    assert_false(level_of(bump, 8, 4, MPT_WATCH_LEVEL).high); /* too few yet */
    assert_false(level_of(bump, 9, 4, MPT_WATCH_LEVEL).high); /* on its way back */
}

/* A run that goes on from good weights begins low, and with batches of any kind stays below
 * what counting words alone comes to. */
static void test_level_when_the_first_loss_is_low_then_the_entropy_is_the_measure(void **s) {
    (void)s;
    double tuned[] = {0.2, 3, 3, 3, 3, 3, 3, 3, 3}, lost[] = {0.2, 7, 7, 7, 7, 7, 7, 7, 7};
    assert_false(level_of(tuned, 9, 4, 3).high);
    assert_true(level_of(lost, 9, 4, 3).high);
    assert_true(level_of(tuned, 9, NAN, 3).high); /* of which nothing is known */
}

static void test_level_when_losses_are_few_or_not_finite_then_it_is_not_judged(void **s) {
    (void)s;
    double few[] = {5, 900, 900}, bad[] = {NAN, INFINITY, NAN, NAN, NAN};
    assert_false(level_of(NULL, 0, 4, 3).high);
    assert_false(level_of(few, 1, 4, 3).high);
    assert_false(level_of(few, 3, 4, 3).high);
    assert_false(level_of(bad, 5, 4, 3).high);
}

static void test_changes_when_there_are_many_then_the_last_are_told_in_order(void **s) {
    (void)s;
    static mpt_watch_state watch;
    mpt_spike spike = {.action = MPT_SPIKE_OFF};
    double out[MPT_WATCH_CHANGES][2];
    mpt_watch_begin(&spike, NAN, &watch);
    assert_int_equal(mpt_watch_changes(&watch, MPT_WATCH_CHANGES, out), 0);
    for (int i = 0; i < 40; i++)
        mpt_watch_scale(&watch, i, 100 + i / 2); /* each twice: 20 changes */
    assert_int_equal(mpt_watch_changes(&watch, MPT_WATCH_CHANGES, out), MPT_WATCH_CHANGES);
    assert_true(out[0][0] == 8 && out[0][1] == 104);
    assert_true(out[15][0] == 38 && out[15][1] == 119);
    assert_int_equal(mpt_watch_changes(&watch, 3, out), 3);
    assert_true(out[0][1] == 117 && out[2][1] == 119);
}

/* What a strange checkpoint may hold: no count leads outside of the rings. */
static void test_watch_when_counts_make_no_sense_then_nothing_breaks(void **s) {
    (void)s;
    static mpt_watch_state watch;
    double out[MPT_WATCH_CHANGES][2];
    static const int64_t counts[] = {-1, INT64_MIN, INT64_MAX - 40};
    mpt_spike spike = {.action = MPT_SPIKE_WARN, .window = 16, .z = 8};
    for (size_t i = 0; i < MPT_COUNT(counts); i++) {
        mpt_watch_begin(&spike, NAN, &watch);
        watch.counts.samples[0] = watch.counts.samples[1] = watch.counts.changes = counts[i];
        (void)mpt_watch_judge(&watch, 1, 1);
        (void)mpt_watch_level(&watch, 1);
        (void)mpt_watch_last(&watch, MPT_WATCHED_LOSS);
        mpt_watch_take(&watch, 1, 1);
        mpt_watch_scale(&watch, 1, 2);
        assert_true(mpt_watch_changes(&watch, MPT_WATCH_CHANGES, out) <= MPT_WATCH_CHANGES);
    }
}

/* ---- in the trainer ---- */

enum { BEFORE = 12 }; /* steps before the bad one */

static rig_options spike_options(mpt_spike_action action) {
    rig_options o = rig_defaults();
    o.watch.spike = (mpt_spike){.action = action, .window = 8, .z = 20};
    return o;
}

/* A run up to a step whose gradient has one huge element, and that step. */
static mpt_step_result run_to_spike(rig *r, const rig_options *o) {
    static const char *const faults[] = {"grad:model.lm_head.weight=1e6@12"};
    rig_compile(r, mpt_test_ctx(), o);
    r->inject = faults;
    r->n_inject = 1;
    assert_mpt_ok(r->ctx, rig_create_trainer(r));
    for (int i = 0; i < BEFORE; i++)
        assert_false(rig_step(r).spike);
    return rig_step(r);
}

#define SPIKE_EVENT                                                                            \
    "{\"event\":\"spike\",\"step\":12,\"what\":\"grad_norm\",\"value\":1000000,\"median\":"

static void test_spike_when_off_then_nothing_is_said_and_it_is_applied(void **s) {
    (void)s;
    rig r;
    rig_options o = spike_options(MPT_SPIKE_OFF);
    mpt_step_result step = run_to_spike(&r, &o);
    assert_false(step.spike || step.skipped);
    assert_null(strstr(r.lines, "\"spike\""));
    rig_deinit(&r);
}

static void test_spike_when_warn_then_an_event_with_the_data_and_it_is_applied(void **s) {
    (void)s;
    rig r;
    mpt_watch_view watch;
    rig_options o = spike_options(MPT_SPIKE_WARN);
    mpt_step_result step = run_to_spike(&r, &o);
    assert_true(step.spike && !step.skipped);
    assert_int_equal(r.trainer->applied, BEFORE + 1);
    assert_non_null(strstr(r.lines, SPIKE_EVENT));
    assert_non_null(strstr(
        r.lines, ",\"action\":\"warn\",\"batch\":12,\"first_sequence\":48,\"sequences\":4}\n"));
    assert_true(mpt_trainer_watch(r.trainer, &watch));
    assert_int_equal(watch.spikes, 1);
    assert_int_equal(watch.left_out, 0);
    assert_int_equal(watch.skipped, 0);
    rig_deinit(&r);
}

static void test_spike_when_skip_then_no_weight_changes_and_the_data_goes_on(void **s) {
    (void)s;
    rig r;
    mpt_watch_view watch;
    rig_options o = spike_options(MPT_SPIKE_SKIP);
    run_to_spike(&r, &o);
    rig_deinit(&r);
    /* Once more, looking at the state around the step. */
    rig_compile(&r, mpt_test_ctx(), &o);
    static const char *const faults[] = {"grad:model.lm_head.weight=1e6@12"};
    r.inject = faults;
    r.n_inject = 1;
    assert_mpt_ok(r.ctx, rig_create_trainer(&r));
    for (int i = 0; i < BEFORE; i++)
        rig_step(&r);
    uint64_t before = rig_state_hash(&r);
    mpt_step_result step = rig_step(&r);
    assert_true(step.spike && step.skipped && !step.bad_tensor && step.grad_norm >= 1e6);
    assert_true(rig_state_hash(&r) == before);
    assert_int_equal(r.trainer->applied, BEFORE);
    assert_int_equal(r.trainer->data, BEFORE + 1);
    assert_non_null(strstr(r.lines, ",\"action\":\"skip\","));
    assert_null(strstr(r.lines, "\"event\":\"skip\"")); /* that is of values not finite */
    assert_int_equal(r.trainer->watch.counts.samples[MPT_WATCHED_GRAD_NORM], BEFORE);
    step = rig_step(&r);
    assert_false(step.spike || step.skipped);
    assert_true(rig_state_hash(&r) != before);
    assert_true(mpt_trainer_watch(r.trainer, &watch));
    assert_int_equal(watch.spikes + watch.left_out + watch.skipped, 3);
    assert_int_equal(watch.rollbacks, 0);
    rig_deinit(&r);
}

/* P85, on one rank: the bad batch is a loss that is far too large. The host's own tokens are no
 * range of the recipe's data. */
static void test_p85_spike_when_the_hosts_batch_is_bad_then_its_loss_stands_out(void **s) {
    (void)s;
    rig r;
    mpt_step_result step;
    int32_t good[4][17], bad[4][17];
    rig_options o = spike_options(MPT_SPIKE_SKIP);
    for (int i = 0; i < 4 * 17; i++) {
        good[i / 17][i % 17] = i % 17 % 2 ? 5 : 9;
        bad[i / 17][i % 17] = i % 29;
    }
    rig_init(&r, &o);
    for (int i = 0; i < 40; i++) {
        assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, good[0], &step));
        assert_false(step.spike);
    }
    assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, bad[0], &step));
    assert_true(step.spike && step.skipped);
    const char *event = strstr(r.lines, "{\"event\":\"spike\",\"step\":40,\"what\":\"loss\"");
    assert_non_null(event);
    assert_null(strstr(event, "first_sequence"));
    assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, good[0], &step));
    assert_false(step.spike);
    rig_deinit(&r);
}

static void test_spike_when_a_loss_scale_grows_then_left_out_steps_count_as_good(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = {.kind = MPT_LOSS_SCALE_DYNAMIC,
                            .init = 8,
                            .growth = 2,
                            .backoff = 0.5,
                            .interval = 1000,
                            .min = 1,
                            .max = 64,
                            .hysteresis = 1};
    rig_options o = spike_options(MPT_SPIKE_SKIP);
    o.dynamic = &scale;
    assert_true(run_to_spike(&r, &o).skipped);
    assert_true(r.trainer->scaler.loss_scale == 8);
    assert_int_equal(r.trainer->scaler.good_steps, BEFORE + 1);
    rig_deinit(&r);
}

/* A level that lasts is left out again and again, as long as max_skips bears it. */
static void test_spike_when_every_step_is_one_then_max_skips_ends_it(void **s) {
    (void)s;
    rig r;
    mpt_step_result step;
    int32_t good[4][17], bad[4][17];
    rig_options o = spike_options(MPT_SPIKE_SKIP);
    o.watch.max_skips = 3;
    for (int i = 0; i < 4 * 17; i++) {
        good[i / 17][i % 17] = i % 17 % 2 ? 5 : 9;
        bad[i / 17][i % 17] = i % 29;
    }
    rig_init(&r, &o);
    for (int i = 0; i < 40; i++)
        assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, good[0], &step));
    assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, bad[0], &step));
    assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, bad[0], &step));
    assert_int_equal(mpt_trainer_step(r.trainer, bad[0], &step), MPT_STOPPED);
    const char *message = mpt_ctx_error(r.ctx)->message;
    assert_non_null(strstr(message, "step 42: 3 steps in a row were skipped; the last for a "
                                    "spike, with loss "));
    assert_non_null(strstr(message, "raise train.watch.spike.z"));
    assert_null(strstr(message, "NaN"));
    assert_non_null(strstr(r.lines, "{\"event\":\"diagnosis\",\"step\":42,\"reason\":"
                                    "\"max_skips\",\"loss\":"));
    rig_deinit(&r);
}

/* Two runs, and the same with threads: the same lines. */
static void test_spike_when_run_twice_then_the_metrics_are_the_same(void **s) {
    (void)s;
    rig a, b;
    rig_options o = spike_options(MPT_SPIKE_SKIP);
    run_to_spike(&a, &o);
    o.n_threads = 2;
    run_to_spike(&b, &o);
    assert_string_equal(a.lines, b.lines);
    rig_deinit(&a);
    rig_deinit(&b);
}

/* ---- the words ---- */

#define TRAIN                                                                                  \
    "allow = { 'no-warmup' }, train = { steps = 100, batch = 2, sequence = 8, lr = constant "  \
    "{ peak = 1e-3 }, "

static void test_lua_when_all_is_said_then_it_arrives(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, TRAIN "checkpoint = { every = 5 }, watch = { nonfinite = 'stop', max_skips = 7,\n"
                   "spike = { action = 'rollback', window = 64, z = 5 } } }");
    const mpt_watch *watch = &r->train.watch;
    assert_int_equal(watch->nonfinite, MPT_NONFINITE_STOP);
    assert_int_equal(watch->max_skips, 7);
    assert_int_equal(watch->spike.action, MPT_SPIKE_ROLLBACK);
    assert_int_equal(watch->spike.window, 64);
    assert_true(watch->spike.z == 5);
    assert_mpt_ok(ctx, mpt_recipe_freeze(r));
    mpt_lua_finish(ctx, r);
}

static void test_freeze_when_a_rollback_has_nothing_to_go_back_to_then_refused(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        mpt_lua_load_fields(ctx, TRAIN "watch = { spike = { action = 'rollback' } } }");
    assert_int_equal(mpt_recipe_freeze(r), MPT_INVALID);
    assert_non_null(
        strstr(mpt_ctx_error(ctx)->message,
               "train.watch.spike.action: rollback needs checkpoints to go back to; "
               "say how often they are saved: checkpoint = { every = 100 }"));
    mpt_lua_finish(ctx, r);
}

static void test_lua_when_a_field_is_wrong_then_the_way_out_is_named(void **s) {
    (void)s;
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {"nonfinite = 'halt'",
         "r.lua:5: train.watch.nonfinite: no value 'halt'; it can be skip or stop"},
        {"max_skips = 0",
         "r.lua:5: train.watch.max_skips: out of range: 0; give a whole number of "
         "1 or more"},
        {"spike = { action = 'rolback' }", "r.lua:5: train.watch.spike.action: no value "
                                           "'rolback'; did you mean 'rollback'?"},
        {"spike = { window = 7 }",
         "r.lua:5: train.watch.spike.window: out of range: 7; give a whole "
         "number of 8 or more and at most 1024"},
        {"spike = { window = 1025 }",
         "r.lua:5: train.watch.spike.window: out of range: 1025; give a whole "
         "number of 8 or more and at most 1024"},
        {"spike = { z = 0 }",
         "r.lua:5: train.watch.spike.z: out of range: 0; give a number above 0 and "
         "at most 1000000"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char fields[512];
        snprintf(fields, sizeof fields, TRAIN "watch = { %s } }", cases[i].fields);
        mpt_lua_refuse_fields(fields, cases[i].message);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_measure_when_worked_out_by_hand_then_the_same),
    cmocka_unit_test(
        test_measure_when_windows_are_random_then_the_median_is_that_of_the_sorted),
    cmocka_unit_test(test_measure_when_nothing_moved_then_a_thousandth_is_the_yardstick),
    cmocka_unit_test(test_measure_when_a_value_is_low_then_it_does_not_stand_out),
    cmocka_unit_test(test_judge_when_samples_are_few_then_it_does_not_speak),
    cmocka_unit_test(test_judge_when_z_is_at_the_bound_then_it_is_a_spike),
    cmocka_unit_test(test_judge_when_the_value_is_not_finite_then_it_is_no_spike_and_no_sample),
    cmocka_unit_test(test_window_when_it_is_full_then_old_samples_leave),
    cmocka_unit_test(test_level_when_the_last_losses_are_all_far_above_the_first_then_high),
    cmocka_unit_test(test_level_when_the_first_loss_is_low_then_the_entropy_is_the_measure),
    cmocka_unit_test(test_level_when_losses_are_few_or_not_finite_then_it_is_not_judged),
    cmocka_unit_test(test_changes_when_there_are_many_then_the_last_are_told_in_order),
    cmocka_unit_test(test_watch_when_counts_make_no_sense_then_nothing_breaks),
    cmocka_unit_test(test_spike_when_off_then_nothing_is_said_and_it_is_applied),
    cmocka_unit_test(test_spike_when_warn_then_an_event_with_the_data_and_it_is_applied),
    cmocka_unit_test(test_spike_when_skip_then_no_weight_changes_and_the_data_goes_on),
    cmocka_unit_test(test_p85_spike_when_the_hosts_batch_is_bad_then_its_loss_stands_out),
    cmocka_unit_test(test_spike_when_a_loss_scale_grows_then_left_out_steps_count_as_good),
    cmocka_unit_test(test_spike_when_every_step_is_one_then_max_skips_ends_it),
    cmocka_unit_test(test_spike_when_run_twice_then_the_metrics_are_the_same),
    cmocka_unit_test(test_lua_when_all_is_said_then_it_arrives),
    cmocka_unit_test(test_freeze_when_a_rollback_has_nothing_to_go_back_to_then_refused),
    cmocka_unit_test(test_lua_when_a_field_is_wrong_then_the_way_out_is_named),
};

MPT_TEST_MAIN(cases)
