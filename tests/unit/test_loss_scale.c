/* train/loss_scale.c: the state machine against sequences worked out by hand and one recorded
 * from PyTorch; the trainer around it; the words of a recipe. */
#include "mpt_test.h"

#include <math.h>

#include "lua_test.h"
#include "train_rig.h"

/* ---- the state machine ---- */

static const mpt_loss_scale usual = {.kind = MPT_LOSS_SCALE_DYNAMIC,
                                     .init = 65536,
                                     .growth = 2,
                                     .backoff = 0.5,
                                     .interval = 4,
                                     .min = 1,
                                     .max = 16777216,
                                     .hysteresis = 1};

enum { STEPS_MAX = 16 };

typedef struct sequence {
    const char *steps; /* '.' good, 'x' skipped */
    double init, min, max;
    int64_t hysteresis;
    double scales[STEPS_MAX]; /* the one used at each step */
} sequence;

/* The first is PyTorch 2's GradScaler over a real run of 16 steps. */
static const sequence sequences[] = {
    {"..xx.....x......",
     65536,
     1,
     16777216,
     1,
     {65536, 65536, 65536, 32768, 16384, 16384, 16384, 16384, 32768, 32768, 16384, 16384, 16384,
      16384, 32768, 32768}},
    /* Two are borne; then each skipped step counts, until a growth. */
    {"xx.x....xxx", 64, 1, 128, 2, {64, 64, 32, 32, 16, 16, 16, 16, 32, 32, 16}},
    /* Good steps in between give nothing back. */
    {"x.x...x", 64, 1, 128, 3, {64, 64, 64, 64, 64, 64, 64}},
    {"xxxx", 4, 2, 128, 1, {4, 2, 2, 2}},
    {"........", 64, 1, 96, 1, {64, 64, 64, 64, 96, 96, 96, 96}},
    {"...x...", 8, 1, 128, 1, {8, 8, 8, 8, 4, 4, 4}},
};

static void test_scaler_when_steps_are_skipped_then_scales_are_those_of_the_table(void **s) {
    (void)s;
    for (size_t i = 0; i < MPT_COUNT(sequences); i++) {
        const sequence *q = &sequences[i];
        mpt_loss_scale scale = usual;
        scale.init = q->init;
        scale.min = q->min;
        scale.max = q->max;
        scale.hysteresis = q->hysteresis;
        mpt_scaler scaler = mpt_scaler_start(&scale);
        for (int step = 0; q->steps[step]; step++) {
            if (scaler.loss_scale != q->scales[step])
                fail_msg("sequence %zu, step %d: scale %g, expected %g", i, step,
                         scaler.loss_scale, q->scales[step]);
            mpt_scaler_update(&scaler, &scale, q->steps[step] == 'x');
        }
    }
}

static void test_scaler_when_factors_are_odd_then_scales_are_float32(void **s) {
    (void)s;
    mpt_loss_scale scale = usual;
    scale.backoff = 0.7;
    scale.growth = 1.1;
    scale.interval = 1;
    mpt_scaler scaler = mpt_scaler_start(&scale);
    for (int i = 0; i < 40; i++) {
        double before = scaler.loss_scale;
        bool skipped = i % 3 == 0;
        mpt_scaler_update(&scaler, &scale, skipped);
        assert_true(scaler.loss_scale == (double)(float)scaler.loss_scale);
        assert_true(skipped ? scaler.loss_scale < before : scaler.loss_scale > before);
    }
}

static void test_scaler_when_static_or_none_then_it_stays(void **s) {
    (void)s;
    mpt_loss_scale scales[] = {{.kind = MPT_LOSS_SCALE_STATIC, .scale = 1000.1},
                               {.kind = MPT_LOSS_SCALE_NONE}};
    for (int i = 0; i < 2; i++) {
        mpt_scaler scaler = mpt_scaler_start(&scales[i]);
        mpt_scaler_update(&scaler, &scales[i], true);
        mpt_scaler_update(&scaler, &scales[i], false);
        assert_true(scaler.loss_scale == (i ? 1 : 1000.1));
        assert_false(mpt_scaler_can_fall(&scaler, &scales[i]));
    }
}

/* ---- in the trainer ---- */

/* 2^64 takes more skipped steps than would stop a run that nothing can cure. */
static void test_run_when_the_scale_starts_too_high_then_it_falls_until_steps_count(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = usual;
    scale.init = scale.max = 0x1p64;
    scale.interval = 1000;
    rig_options o = rig_fp16_options(&scale);
    rig_init(&r, &o);
    double expected = 0x1p64;
    int skipped = 0;
    for (mpt_step_result step = rig_step(&r); step.skipped; step = rig_step(&r)) {
        assert_true(step.loss_scale == expected && isfinite(step.loss));
        expected /= 2;
        skipped++;
    }
    assert_true(skipped > RIG_MAX_SKIPS && skipped < 50);
    for (int i = 0; i < 5; i++) {
        mpt_step_result step = rig_step(&r);
        assert_true(!step.skipped && step.loss_scale == expected);
    }
    assert_int_equal(r.trainer->skips_in_a_row, 0);
    assert_int_equal(r.trainer->scaler.good_steps, 6);
    rig_deinit(&r);
}

static void test_run_when_the_scale_is_at_its_floor_then_training_stops_and_says_so(void **s) {
    (void)s;
    rig r;
    mpt_loss_scale scale = usual;
    mpt_step_result result;
    scale.init = scale.max = 0x1p44;
    scale.min = 0x1p40;
    rig_options o = rig_fp16_options(&scale);
    rig_init(&r, &o);
    for (int i = 0; i < 4 + RIG_MAX_SKIPS - 1; i++)
        assert_true(rig_step(&r).skipped);
    assert_int_equal(mpt_trainer_step(r.trainer, NULL, &result), MPT_STOPPED);
    assert_string_equal(mpt_ctx_error(r.ctx)->message,
                        "step 23: 20 steps in a row were skipped; first bad tensor: Inf in "
                        "d.lm_head (cross_entropy_grad, fp16), in the backward pass; the loss "
                        "scale is at its floor of 1.09951e+12: lower the learning rate, or "
                        "keep this layer in a wider format");
    rig_deinit(&r);
}

/* A lower loss scale cures no NaN in the weights. */
static void
test_run_when_the_loss_is_nan_then_a_dynamic_scale_does_not_put_off_the_end(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    mpt_step_result result;
    int64_t n;
    o.dynamic = &usual;
    rig_init(&r, &o);
    rig_weights(&r, "lm_head.weight", &n)[0] = NAN;
    for (int i = 0; i < RIG_MAX_SKIPS - 1; i++)
        assert_true(rig_step(&r).skipped);
    assert_int_equal(mpt_trainer_step(r.trainer, NULL, &result), MPT_STOPPED);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message,
                           "NaN in the weights lm_head.weight; no loss scale cures that"));
    rig_deinit(&r);
}

/* The recorded sequence again, with a bad weight at the steps that PyTorch was given an Inf. */
static void test_run_when_steps_2_3_and_9_are_bad_then_logged_scales_are_pytorchs(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    int64_t n;
    o.dynamic = &usual;
    rig_init(&r, &o);
    float *weight = rig_weights(&r, "lm_head.weight", &n);
    for (int step = 0; step < STEPS_MAX; step++) {
        char logged[64];
        float kept = weight[0];
        bool bad = sequences[0].steps[step] == 'x';
        weight[0] = bad ? INFINITY : kept;
        mpt_step_result result = rig_step(&r);
        if (bad)
            weight[0] = kept;
        assert_int_equal(result.skipped, bad);
        assert_true(result.loss_scale == sequences[0].scales[step]);
        snprintf(logged, sizeof logged, "\"loss_scale\":%.9g,\"skipped\":%s",
                 sequences[0].scales[step], bad ? "true" : "false");
        const char *last = r.lines;
        for (const char *at = r.lines; (at = strstr(at, "{\"event\":\"step\"")); at++)
            last = at;
        assert_non_null(strstr(last, logged));
    }
    rig_deinit(&r);
}

static uint64_t hash_after_ten_steps(const mpt_loss_scale *scale) {
    rig r;
    rig_options o = rig_defaults();
    o.dynamic = scale;
    rig_init(&r, &o);
    for (int i = 0; i < 10; i++)
        assert_false(rig_step(&r).skipped);
    uint64_t hash = rig_state_hash(&r);
    rig_deinit(&r);
    return hash;
}

static void test_run_when_the_scale_grows_by_twos_then_weights_are_the_same_bits(void **s) {
    (void)s;
    mpt_loss_scale scale = usual;
    scale.interval = 2;
    assert_true(hash_after_ten_steps(&scale) == hash_after_ten_steps(NULL));
}

/* ---- the words ---- */

#define TRAIN "train = { steps = 9, batch = 1, sequence = 8, lr = constant { peak = 1 } },\n"

static void test_lua_when_dynamic_then_every_field_arrives(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(
        ctx, TRAIN "precision = { base = fp16,\n"
                   "loss_scale = dynamic { init = 2^32, growth = 4, backoff = 0.25,\n"
                   "interval = 1000, min = 2, max = 2^40, hysteresis = 2 } }");
    const mpt_loss_scale *scale = &r->loss_scale;
    assert_int_equal(scale->kind, MPT_LOSS_SCALE_DYNAMIC);
    assert_true(scale->init == 0x1p32 && scale->growth == 4 && scale->backoff == 0.25);
    assert_true(scale->min == 2 && scale->max == 0x1p40);
    assert_int_equal(scale->interval, 1000);
    assert_int_equal(scale->hysteresis, 2);
    assert_int_equal(scale->where.line, 7);
    mpt_lua_finish(ctx, r);
}

/* From Lua, from calls and from the defaults alone: one text, one hash. */
static void test_recipe_when_dynamic_is_said_three_ways_then_the_hash_is_the_same(void **s) {
    (void)s;
    static const char *const ways[] = {
        TRAIN "precision = { loss_scale = dynamic {} }",
        TRAIN "precision = { loss_scale = 'dynamic' }",
        TRAIN "precision = { loss_scale = dynamic { init = 65536, growth = 2, backoff = 0.5,\n"
              "interval = 2000, min = 1, max = 2^24, hysteresis = 1 } }",
    };
    mpt_ctx *ctx = mpt_test_ctx();
    char first[17], hash[17];
    for (size_t i = 0; i <= MPT_COUNT(ways); i++) {
        bool calls = i == MPT_COUNT(ways);
        mpt_recipe *r = mpt_lua_load_fields(ctx, calls ? TRAIN : ways[i]);
        if (calls)
            assert_mpt_ok(ctx, mpt_recipe_set(r, "precision.loss_scale", "dynamic"));
        assert_mpt_ok(ctx, mpt_recipe_hash(r, hash));
        if (i == 0)
            memcpy(first, hash, sizeof first);
        assert_string_equal(hash, first);
        if (calls) {
            assert_mpt_ok(ctx, mpt_recipe_set(r, "precision.loss_scale.hysteresis", "2"));
            assert_mpt_ok(ctx, mpt_recipe_hash(r, hash));
            assert_string_not_equal(hash, first);
        }
        mpt_recipe_destroy(r);
    }
    mpt_ctx_destroy(ctx);
}

static void test_lua_when_a_field_is_wrong_then_the_way_out_is_named(void **s) {
    (void)s;
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {"min = 0",
         "r.lua:5: precision.loss_scale.min: out of range: 0; give a number above 0"},
        {"growth = 1", "r.lua:5: precision.loss_scale.growth: out of range: 1; give a number "
                       "above 1 and at most 1000000"},
        {"backoff = 1", "r.lua:5: precision.loss_scale.backoff: out of range: 1; give a number "
                        "above 0 and below 1"},
        {"interval = 0",
         "r.lua:5: precision.loss_scale.interval: out of range: 0; give a whole "
         "number of 1 or more"},
        {"hysteresis = 0", "r.lua:5: precision.loss_scale.hysteresis: out of range: 0; give a "
                           "whole number of 1 or more"},
        {"windows = 5", "r.lua:5: precision.loss_scale: no field 'windows'; dynamic has init, "
                        "growth, backoff, interval, min, max or hysteresis"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char fields[256];
        snprintf(fields, sizeof fields, "precision = { loss_scale = dynamic { %s } }",
                 cases[i].fields);
        mpt_lua_refuse_fields(fields, cases[i].message);
    }
    mpt_lua_refuse_fields(
        "precision = { loss_scale = dynamic }",
        "r.lua:5: precision.loss_scale: cannot be a word without its { }; write dynamic { "
        "init = 65536 }");
    mpt_lua_refuse_fields(
        "precision = { loss_scale = wsd { peak = 1 } }",
        "r.lua:5: precision.loss_scale: cannot be wsd; give a number above 0, "
        "or dynamic { ... }");
}

static void test_freeze_when_the_start_is_outside_then_refused_at_its_line(void **s) {
    (void)s;
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {"init = 0.5", "r.lua:6: precision.loss_scale.init: 0.5 is not between min 1 and max "
                       "1.67772e+07; start inside, or move min or max"},
        {"init = 2^30", "r.lua:6: precision.loss_scale.init: 1.07374e+09 is not between min 1 "
                        "and max 1.67772e+07; start inside, or move min or max"},
        {"min = 8, max = 4", "r.lua:6: precision.loss_scale.min: 8 is above max 4; give a min "
                             "that is no larger than max"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char fields[512];
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(fields, sizeof fields, TRAIN "precision = { loss_scale = dynamic { %s } }",
                 cases[i].fields);
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        assert_int_equal(mpt_recipe_freeze(r), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, cases[i].message);
        mpt_lua_finish(ctx, r);
    }
}

static void test_freeze_when_a_static_scale_has_no_value_then_refused(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = mpt_lua_load_fields(ctx, TRAIN);
    assert_mpt_ok(ctx, mpt_recipe_set(r, "precision.loss_scale", "static"));
    assert_int_equal(mpt_recipe_freeze(r), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:4: precision.loss_scale: the static scale has no value; give "
                        "one: loss_scale = static(1024)");
    mpt_lua_finish(ctx, r);
}

/* P88: loss-scale keys carried along into a BF16 recipe. */
static void test_check_when_p88_bf16_has_a_loss_scale_then_unused_with_its_line(void **s) {
    (void)s;
    static const struct {
        const char *value;
        int n;
        const char *texts[2];
    } cases[] = {
        {"'dynamic'", 1, {"precision.loss_scale is dynamic, but nothing is in fp16"}},
        {"dynamic { min = 0.5 }",
         2,
         {"precision.loss_scale is dynamic, but nothing is in fp16",
          "precision.loss_scale.min is 0.5: it makes small gradients smaller"}},
        {"static(8)", 1, {"precision.loss_scale is 8, but nothing is in fp16"}},
        {"8", 1, {"precision.loss_scale is 8, but nothing is in fp16"}},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char fields[512];
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_program *program;
        snprintf(fields, sizeof fields,
                 TRAIN "allow = 'no-warmup', precision = {\nloss_scale = %s }", cases[i].value);
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
        assert_int_equal(program->n_warnings, cases[i].n);
        for (int w = 0; w < cases[i].n; w++) {
            assert_string_equal(program->warnings[w].text, cases[i].texts[w]);
            assert_int_equal(program->warnings[w].where.line, 7);
        }
        assert_string_equal(program->warnings[0].name, "loss-scale-unused");
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, r);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_scaler_when_steps_are_skipped_then_scales_are_those_of_the_table),
    cmocka_unit_test(test_scaler_when_factors_are_odd_then_scales_are_float32),
    cmocka_unit_test(test_scaler_when_static_or_none_then_it_stays),
    cmocka_unit_test(test_run_when_the_scale_starts_too_high_then_it_falls_until_steps_count),
    cmocka_unit_test(test_run_when_the_scale_is_at_its_floor_then_training_stops_and_says_so),
    cmocka_unit_test(
        test_run_when_the_loss_is_nan_then_a_dynamic_scale_does_not_put_off_the_end),
    cmocka_unit_test(test_run_when_steps_2_3_and_9_are_bad_then_logged_scales_are_pytorchs),
    cmocka_unit_test(test_run_when_the_scale_grows_by_twos_then_weights_are_the_same_bits),
    cmocka_unit_test(test_lua_when_dynamic_then_every_field_arrives),
    cmocka_unit_test(test_recipe_when_dynamic_is_said_three_ways_then_the_hash_is_the_same),
    cmocka_unit_test(test_lua_when_a_field_is_wrong_then_the_way_out_is_named),
    cmocka_unit_test(test_freeze_when_the_start_is_outside_then_refused_at_its_line),
    cmocka_unit_test(test_freeze_when_a_static_scale_has_no_value_then_refused),
    cmocka_unit_test(test_check_when_p88_bf16_has_a_loss_scale_then_unused_with_its_line),
};

MPT_TEST_MAIN(cases)
