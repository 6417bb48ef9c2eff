/* The watch and checkpoints: what a run that gives up leaves behind, rollbacks, and a window
 * that a resumed run goes on with. */
#include "checkpoint_case.h"

#include <math.h>

#include "mpt/watch.h"

#define PLAIN "precision = { base = bf16 }"

/* A trainer with faults and a folder. `sets` ends with a NULL path. */
static void begin(checkpoint_case *c, const char *fields, const mpt_set *sets,
                  const char *const *faults, int n_faults, const char *into) {
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    int n = 0;
    while (sets[n].path)
        n++;
    *c = (checkpoint_case){.ctx = mpt_test_ctx()};
    assert_mpt_ok(c->ctx, checkpoint_make(c, fields, 1, sets, n));
    mpt_trainer_destroy(c->trainer);
    options.metrics = checkpoint_write;
    options.metrics_ud = c;
    options.inject = faults;
    options.n_inject = n_faults;
    options.checkpoints = into;
    assert_mpt_ok(c->ctx, mpt_trainer_create(c->program, &options, &c->trainer));
}

/* A step, and the checkpoint behind it. */
static mpt_status step_on(checkpoint_case *c, mpt_step_result *out) {
    MPT_TRY(mpt_trainer_step(c->trainer, NULL, out));
    return mpt_trainer_checkpoint(c->trainer, false);
}

static void steps_on(checkpoint_case *c, int n) {
    mpt_step_result step;
    for (int i = 0; i < n; i++)
        assert_mpt_ok(c->ctx, step_on(c, &step));
}

/* The text of all events of a kind. */
static const char *event(const checkpoint_case *c, const char *start) {
    const char *at = strstr(c->lines ? c->lines : "", start);
    if (!at)
        fail_msg("no %s in\n%s", start, c->lines);
    return at;
}

static uint64_t weights_hash(const checkpoint_case *c) {
    const mpt_graph *graph = c->program->phases[0]->graph;
    uint64_t hash = 0;
    for (int p = 0; p < graph->n_params; p++) {
        int64_t n = mpt_value_elements(&graph->values[graph->params[p].value]);
        const float *const buffers[] = {c->trainer->state->master[p],
                                        c->trainer->state->moment[0][p],
                                        c->trainer->state->moment[1][p]};
        for (size_t b = 0; b < MPT_COUNT(buffers); b++)
            hash = hash * 31 + mpt_hash(buffers[b], (size_t)n * sizeof(float));
    }
    return hash;
}

/* ---- P07: giving up ---- */

static bool keep_text(void *ud, const char *text, size_t length) {
    mpt_str_append(ud, text, length);
    return true;
}

static void assert_diagnosis(const checkpoint_case *c, const char *text) {
    mpt_str said;
    mpt_str_init(&said, c->ctx);
    assert_mpt_ok(c->ctx, mpt_trainer_diagnosis(c->trainer, keep_text, &said));
    if (!said.data || !strstr(said.data, text))
        fail_msg("no \"%s\" in\n%s", text, said.data ? said.data : "(nothing)");
    mpt_str_deinit(&said);
}

/* FP16, and a learning rate of a thousand from step 5 on. What was good stays the newest
 * checkpoint, even where one is kept only, and loads. */
static void
test_p07_run_when_it_diverges_then_the_good_checkpoint_and_the_cause_remain(void **s) {
    (void)s;
    static const mpt_set sets[] = {
        {"train.steps", "200"}, {"train.checkpoint.keep", "1"}, {NULL, NULL}};
    checkpoint_case c;
    mpt_checkpoint_info info;
    mpt_step_result step;
    mpt_status status = MPT_OK;
    uint64_t good = 0;
    checkpoints f = checkpoints_make();
    begin(&c,
          "precision = { base = fp16, rules = { rule { 'linear', use = fp16 } }, loss_scale = "
          "dynamic { init = 65536, min = 1 } }",
          sets, NULL, 0, f.path);
    while (status == MPT_OK && c.trainer->attempted < 100) {
        if (c.trainer->attempted == 4)
            good = weights_hash(&c);
        if (c.trainer->attempted == 5)
            c.program->train.lr.peak = 1e3;
        status = step_on(&c, &step);
    }
    assert_int_equal(status, MPT_STOPPED);
    const char *diagnosis = event(&c, "{\"event\":\"diagnosis\",");
    assert_non_null(strstr(diagnosis, "\"reason\":\"max_skips\",\"tensor\":\""));
    assert_non_null(strstr(diagnosis, "\"format\":\"fp16\",\"fault\":"));
    assert_non_null(strstr(diagnosis, "\"amax\":"));
    assert_non_null(strstr(diagnosis, "\"loss_scales\":[["));
    assert_diagnosis(&c, "first bad tensor   ");
    assert_diagnosis(&c, "\nloss scale         ");
    assert_diagnosis(&c, "\n                   1 from step ");
    assert_diagnosis(&c, "what to try        ");
    assert_non_null(strstr(diagnosis, "\"text\":\"20 steps in a row were skipped\""));
    assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &info));
    assert_int_equal(info.step, 4);
    assert_false(info.gave_up);
    /* What is saved now says of itself that training had given up. */
    assert_mpt_ok(c.ctx, mpt_trainer_save_checkpoint(c.trainer, f.path));
    mpt_checkpoint_info now;
    assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &now));
    assert_true(now.step == c.trainer->attempted && now.gave_up);
    int64_t step_back;
    assert_int_equal(mpt_trainer_roll_back(c.trainer, &step_back), MPT_NOT_FOUND);
    assert_mpt_ok(c.ctx, mpt_trainer_load_checkpoint(c.trainer, info.path, NULL));
    assert_true(weights_hash(&c) == good);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* What one asks for in a bad moment is saved, and pushes nothing out. */
static void
test_checkpoint_when_the_last_step_was_skipped_then_it_waits_for_a_good_one(void **s) {
    (void)s;
    static const mpt_set sets[] = {{"train.checkpoint.keep", "1"}, {NULL, NULL}};
    static const char *const faults[] = {"grad:embed_tokens.weight=nan@7",
                                         "grad:embed_tokens.weight=nan@8"};
    checkpoint_case c;
    checkpoints f = checkpoints_make();
    begin(&c, PLAIN, sets, faults, 2, f.path);
    steps_on(&c, 8);
    assert_checkpoints(f.path, "step-4");
    assert_false(mpt_trainer_checkpoint_due(c.trainer));
    steps_on(&c, 1);
    assert_mpt_ok(c.ctx, mpt_trainer_checkpoint(c.trainer, true));
    assert_checkpoints(f.path, "step-4 step-9");
    steps_on(&c, 1);
    assert_checkpoints(f.path, "step-10");
    event(&c, "{\"event\":\"checkpoint\",\"step\":10}\n");
    steps_on(&c, 1);
    assert_checkpoints(f.path, "step-10");
    steps_on(&c, 1);
    assert_checkpoints(f.path, "step-12");
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* ---- rollbacks ---- */

static const mpt_set rollback[] = {{"train.watch.spike.action", "rollback"},
                                   {"train.watch.spike.window", "8"},
                                   {"train.watch.spike.z", "50"},
                                   {"train.checkpoint.keep", "3"},
                                   {NULL, NULL}};

/* The weights of the checkpoint are there again; the batch of the bad step is past, no step has
 * a number twice, and Adam's corrections and the learning rate go by what was undone. */
static void
test_rollback_when_a_step_stands_out_then_the_state_goes_back_and_the_data_on(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:embed_tokens.weight=1e6@14"};
    checkpoint_case c;
    mpt_step_result step;
    mpt_watch_view watch;
    uint64_t good = 0;
    checkpoints f = checkpoints_make();
    begin(&c, PLAIN, rollback, faults, 1, f.path);
    steps_on(&c, 12);
    good = weights_hash(&c);
    steps_on(&c, 2);
    assert_true(weights_hash(&c) != good);
    assert_mpt_ok(c.ctx, step_on(&c, &step));
    assert_true(step.spike && step.skipped);
    assert_true(weights_hash(&c) == good);
    assert_int_equal(c.trainer->data, 15);
    assert_int_equal(c.trainer->attempted, 15);
    assert_int_equal(c.trainer->applied, 12);
    const char *spike = event(&c, "{\"event\":\"spike\",\"step\":14,\"what\":\"grad_norm\",");
    assert_non_null(strstr(
        spike, "\"action\":\"rollback\",\"batch\":14,\"first_sequence\":28,\"sequences\":2}"));
    event(&c, "{\"event\":\"rollback\",\"step\":14,\"to\":12,\"times\":1,\"applied\":12}\n");
    assert_true(mpt_trainer_watch(c.trainer, &watch));
    assert_int_equal(watch.rollbacks, 1);
    assert_int_equal(watch.skipped, 1);
    assert_mpt_ok(c.ctx, step_on(&c, &step));
    assert_int_equal(step.step, 15);
    assert_false(step.skipped);
    assert_int_equal(c.trainer->applied, 13);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static void test_rollback_when_there_is_nothing_yet_then_the_step_is_left_out(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:embed_tokens.weight=1e6@9"};
    static const mpt_set sets[] = {{"train.watch.spike.action", "rollback"},
                                   {"train.watch.spike.window", "8"},
                                   {"train.watch.spike.z", "50"},
                                   {"train.checkpoint.every", "100"},
                                   {NULL, NULL}};
    for (int saving = 0; saving < 2; saving++) {
        checkpoint_case c;
        mpt_step_result step;
        checkpoints f = checkpoints_make();
        begin(&c, PLAIN, sets, faults, 1, saving ? f.path : NULL);
        steps_on(&c, 9);
        uint64_t before = weights_hash(&c);
        assert_mpt_ok(c.ctx, step_on(&c, &step));
        assert_true(step.spike && step.skipped);
        assert_true(weights_hash(&c) == before);
        assert_non_null(strstr(event(&c, "{\"event\":\"spike\","), "\"action\":\"skip\""));
        assert_null(strstr(c.lines, "\"rollback\""));
        checkpoint_end(&c);
        checkpoints_remove(&f);
    }
}

/* Each way on from the checkpoint ends in a spike: the fourth time is the last. */
static void test_rollback_when_one_checkpoint_leads_nowhere_then_training_stops(void **s) {
    (void)s;
    static const char *const faults[] = {
        "grad:embed_tokens.weight=1e6@9", "grad:embed_tokens.weight=1e6@11",
        "grad:embed_tokens.weight=1e6@13", "grad:embed_tokens.weight=1e6@15"};
    checkpoint_case c;
    mpt_step_result step;
    checkpoints f = checkpoints_make();
    begin(&c, PLAIN, rollback, faults, 4, f.path);
    steps_on(&c, 8);
    for (int i = 0; i < 7; i++) { /* nothing is saved on the way */
        assert_mpt_ok(c.ctx, mpt_trainer_step(c.trainer, NULL, &step));
        assert_int_equal(step.spike, i % 2 == 1);
    }
    assert_int_equal(mpt_trainer_step(c.trainer, NULL, &step), MPT_STOPPED);
    assert_non_null(
        strstr(mpt_ctx_error(c.ctx)->message,
               "step 15: after 3 rollbacks to step 8 the spike is there again; it has loss "));
    event(&c, "{\"event\":\"rollback\",\"step\":13,\"to\":8,\"times\":3,");
    event(&c, "{\"event\":\"diagnosis\",\"step\":15,\"reason\":\"rollbacks\",");
    assert_diagnosis(&c, "Training stopped itself at step 15: after 3 rollbacks to step 8");
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* The phase before had the operand's scale for another format: a checkpoint from there must not
 * leave it in the phase that goes on. */
static void
test_rollback_when_the_checkpoint_is_of_the_phase_before_then_scales_are_anew(void **s) {
    (void)s;
    static const char fields[] =
        "precision = { rules = { rule { 'linear', use = e5m2 { scale = delayed { history = 16 "
        "} } } } }, phases = { phase { 'a' }, phase { 'b', steps = 10, rules = { rule { "
        "'linear', use = e4m3 { scale = delayed { history = 16 } } } } } }";
    static const char *const faults[] = {"grad:embed_tokens.weight=1e6@10"};
    checkpoint_case c, plain;
    mpt_step_result step;
    mpt_scale_view a, b;
    checkpoints f = checkpoints_make();
    begin(&c, fields, rollback, faults, 1, f.path);
    steps_on(&c, 10);
    assert_mpt_ok(c.ctx, step_on(&c, &step));
    assert_true(step.spike);
    assert_string_equal(step.phase, "b");
    /* As if the phase had begun at the checkpoint's step. */
    begin(&plain, fields, rollback, NULL, 0, NULL);
    steps_on(&plain, 8);
    mpt_state_switch(plain.trainer->state, plain.program->phases[0]->graph,
                     plain.program->phases[1]->graph);
    for (int i = 0; mpt_trainer_scale(plain.trainer, i, &b); i++) {
        assert_true(mpt_trainer_scale(c.trainer, i, &a));
        assert_true(a.scale == b.scale);
        assert_memory_equal(a.amax_history, b.amax_history,
                            (size_t)a.n_history * sizeof(float));
    }
    checkpoint_end(&plain);
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

/* ---- resuming ---- */

/* In the middle of a window, between a spike and a rollback: the same bytes. */
static void test_resume_when_a_window_is_half_full_then_the_metrics_are_the_same(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:embed_tokens.weight=1e6@9",
                                         "grad:embed_tokens.weight=1e6@17"};
    checkpoint_case whole, half;
    mpt_checkpoint_info info;
    checkpoints f = checkpoints_make(), g = checkpoints_make();
    begin(&whole, PLAIN, rollback, faults, 2, f.path);
    steps_on(&whole, 20);
    event(&whole, "{\"event\":\"rollback\",\"step\":9,\"to\":8,");
    event(&whole, "{\"event\":\"rollback\",\"step\":17,\"to\":16,");
    begin(&half, PLAIN, rollback, faults, 2, g.path);
    steps_on(&half, 13);
    checkpoint_end(&half);
    begin(&half, PLAIN, rollback, faults, 2, g.path);
    assert_mpt_ok(half.ctx, mpt_checkpoint_find(half.ctx, g.path, &info));
    assert_int_equal(info.step, 12);
    assert_mpt_ok(half.ctx, mpt_trainer_load_checkpoint(half.trainer, info.path, NULL));
    assert_mpt_ok(half.ctx, mpt_trainer_checkpoint(half.trainer, false));
    steps_on(&half, 8);
    assert_string_equal(half.lines, whole.lines + info.metrics_bytes);
    assert_true(weights_hash(&half) == weights_hash(&whole));
    assert_same_checkpoint(f.path, g.path, 20);
    checkpoint_end(&half);
    checkpoint_end(&whole);
    checkpoints_remove(&f);
    checkpoints_remove(&g);
}

/* Settings of the watch are no part of a recipe's identity: the run goes on with what it has
 * seen. */
static void test_resume_when_the_watch_is_set_otherwise_then_it_goes_on(void **s) {
    (void)s;
    static const mpt_set other[] = {
        {"train.watch.spike.action", "warn"}, {"train.watch.spike.window", "16"}, {NULL, NULL}};
    static const char *const faults[] = {"grad:embed_tokens.weight=1e6@16"};
    checkpoint_case c;
    mpt_checkpoint_info info;
    mpt_step_result step;
    checkpoints f = checkpoints_make();
    begin(&c, PLAIN, rollback, NULL, 0, f.path);
    steps_on(&c, 16);
    checkpoint_end(&c);
    begin(&c, PLAIN, other, faults, 1, f.path);
    assert_mpt_ok(c.ctx, mpt_checkpoint_find(c.ctx, f.path, &info));
    assert_mpt_ok(c.ctx, mpt_trainer_load_checkpoint(c.trainer, info.path, NULL));
    assert_mpt_ok(c.ctx, mpt_trainer_step(c.trainer, NULL, &step));
    assert_true(step.spike && !step.skipped); /* it knows sixteen steps */
    checkpoint_end(&c);
    checkpoints_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(
        test_p07_run_when_it_diverges_then_the_good_checkpoint_and_the_cause_remain),
    cmocka_unit_test(
        test_checkpoint_when_the_last_step_was_skipped_then_it_waits_for_a_good_one),
    cmocka_unit_test(
        test_rollback_when_a_step_stands_out_then_the_state_goes_back_and_the_data_on),
    cmocka_unit_test(test_rollback_when_there_is_nothing_yet_then_the_step_is_left_out),
    cmocka_unit_test(test_rollback_when_one_checkpoint_leads_nowhere_then_training_stops),
    cmocka_unit_test(
        test_rollback_when_the_checkpoint_is_of_the_phase_before_then_scales_are_anew),
    cmocka_unit_test(test_resume_when_a_window_is_half_full_then_the_metrics_are_the_same),
    cmocka_unit_test(test_resume_when_the_watch_is_set_otherwise_then_it_goes_on),
};

MPT_TEST_MAIN(cases)
