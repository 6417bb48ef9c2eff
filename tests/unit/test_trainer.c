/* The trainer when all is well: falling loss, equal bits, phases, evaluation, metrics. */
#include "mpt_test.h"

#include <math.h>

#include "train_rig.h"

/* ---- learning ---- */

static void test_step_when_repeated_then_loss_falls_below_unigram_entropy(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    rig_init(&r, &o);
    double first = rig_step(&r).loss, last = 0;
    assert_true(fabs(first - log(RIG_VOCAB)) < 0.5);
    for (int i = 1; i < 150; i++)
        last = rig_step(&r).loss;
    (void)last;
    double loss;
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 0, &loss));
    print_message("first %.3f, eval %.3f, unigram %.3f, entropy %.3f\n", first, loss,
                  mpt_data_unigram_entropy(r.program.data), mpt_data_entropy(r.program.data));
    assert_true(loss < mpt_data_unigram_entropy(r.program.data) - 0.4);
    assert_true(loss > mpt_data_entropy(r.program.data));
    rig_deinit(&r);
}

static void test_step_when_sgd_then_loss_falls(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    o.optimizer = MPT_OPTIMIZER_SGD;
    o.lr = 0.2;
    rig_init(&r, &o);
    double first = rig_step(&r).loss, last = first;
    for (int i = 0; i < 60; i++)
        last = rig_step(&r).loss;
    assert_true(last < first - 0.4);
    rig_deinit(&r);
}

static void test_step_when_counted_then_results_and_done_agree(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    rig_init(&r, &o);
    for (int i = 0; i < 30; i++) {
        assert_false(mpt_trainer_done(r.trainer));
        mpt_step_result result = rig_step(&r);
        assert_int_equal(result.step, i);
        assert_true(result.tokens == 64.0 * (i + 1));
        assert_true(result.loss_scale == 1 && !result.skipped && !result.bad_tensor);
        assert_true(result.lr == (double)1e-2f && result.grad_norm > 0);
        assert_string_equal(result.phase, "main");
    }
    assert_true(mpt_trainer_done(r.trainer));
    rig_deinit(&r);
}

static void test_step_when_running_then_nothing_is_allocated(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    o.switch_at = 2;
    double loss;
    rig_init(&r, &o);
    uint64_t before = mpt_ctx_memory(r.ctx).n_allocs;
    for (int i = 0; i < 4; i++)
        rig_step(&r);
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &loss));
    assert_mpt_ok(r.ctx, mpt_trainer_finish(r.trainer));
    assert_true(mpt_ctx_memory(r.ctx).n_allocs == before);
    rig_deinit(&r);
}

/* ---- equal bits ---- */

/* State after 12 steps, and the metrics, which the caller frees. */
static uint64_t run12(const rig_options *o, bool eval, char **lines) {
    rig r;
    double loss;
    rig_init(&r, o);
    for (int i = 0; i < 12; i++) {
        rig_step(&r);
        if (eval && i % 2)
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 5, &loss));
    }
    uint64_t hash = rig_state_hash(&r);
    if (lines) {
        *lines = r.lines;
        r.lines = NULL;
    }
    rig_deinit(&r);
    return hash;
}

static void test_run_when_repeated_then_weights_and_metrics_are_the_same_bytes(void **s) {
    (void)s;
    rig_options o = rig_defaults();
    char *a, *b;
    assert_true(run12(&o, false, &a) == run12(&o, false, &b));
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void test_run_when_evaluated_in_between_then_weights_are_the_same_bits(void **s) {
    (void)s;
    rig_options o = rig_defaults();
    o.switch_at = 5;
    assert_true(run12(&o, false, NULL) == run12(&o, true, NULL));
}

static void
test_run_when_loss_scale_is_a_power_of_two_then_weights_are_the_same_bits(void **s) {
    (void)s;
    rig_options o = rig_defaults();
    uint64_t plain = run12(&o, false, NULL);
    o.loss_scale = 1024;
    assert_true(run12(&o, false, NULL) == plain);
    o.loss_scale = 65536;
    assert_true(run12(&o, false, NULL) == plain);
}

static void test_run_when_ref_threads_differ_then_weights_are_the_same_bits(void **s) {
    (void)s;
    rig_options o = rig_defaults();
    o.ref = true;
    uint64_t one = run12(&o, false, NULL);
    o.n_threads = 2;
    assert_true(run12(&o, false, NULL) == one);
}

static void test_run_when_cut_into_micro_batches_then_first_losses_agree(void **s) {
    (void)s;
    double loss[2], norm[2];
    for (int k = 0; k < 2; k++) {
        rig r;
        rig_options o = rig_defaults();
        o.micro_batch = k ? 1 : 4;
        rig_init(&r, &o);
        mpt_step_result result = rig_step(&r);
        loss[k] = result.loss;
        norm[k] = result.grad_norm;
        rig_deinit(&r);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-5);
    assert_true(fabs(norm[0] / norm[1] - 1) < 1e-4);
}

/* Micro-batches with 16 and 1 targets weigh 16 to 1, as one batch of 17 would. */
static void test_step_when_targets_are_masked_then_mean_is_over_targets(void **s) {
    (void)s;
    double loss[2], norm[2];
    for (int k = 0; k < 2; k++) {
        rig r;
        rig_options o = rig_defaults();
        mpt_step_result result;
        o.micro_batch = k ? 1 : 4;
        rig_init(&r, &o);
        for (int i = 0; i < 64; i++) {
            r.trainer->tokens[i] = i % RIG_VOCAB;
            r.trainer->targets[i] = i < 17 ? (3 * i) % RIG_VOCAB : -1;
        }
        assert_mpt_ok(r.ctx, mpt_trainer_step_batch(r.trainer, &result));
        loss[k] = result.loss;
        norm[k] = result.grad_norm;
        rig_deinit(&r);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-5);
    assert_true(fabs(norm[0] / norm[1] - 1) < 1e-4);
}

/* ---- phases ---- */

static void test_phase_when_its_step_comes_then_it_begins_there_on_the_same_state(void **s) {
    (void)s;
    rig r, plain;
    rig_options o = rig_defaults();
    rig_init(&plain, &o);
    o.switch_at = 3;
    rig_init(&r, &o);
    for (int i = 0; i < 5; i++) {
        mpt_step_result a = rig_step(&r), b = rig_step(&plain);
        assert_string_equal(a.phase, i < 3 ? "main" : "settle");
        assert_true(i < 3 ? a.loss == b.loss : a.loss != b.loss);
        assert_true(fabs(a.loss - b.loss) < 0.02);
    }
    assert_non_null(strstr(r.lines, "{\"event\":\"phase\",\"step\":0,\"phase\":\"main\","));
    assert_non_null(strstr(r.lines, "{\"event\":\"phase\",\"step\":3,\"phase\":\"settle\","));
    rig_deinit(&r);
    rig_deinit(&plain);
}

/* ---- metrics, parameters, evaluation ---- */

/* Two layers and the head, in FP32. */
#define GEMMS_RAN(gemm)                                                                        \
    "{\"event\":\"gemms\",\"gemm\":\"" gemm                                                    \
    "\",\"a\":\"fp32\",\"b\":\"fp32\",\"quantized\":false,\"runs\":3}\n"

static void test_metrics_when_one_step_then_these_very_members(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    o.loss_scale = 1024;
    double loss;
    char expected[1024];
    rig_init(&r, &o);
    mpt_step_result a = rig_step(&r);
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &loss));
    assert_mpt_ok(r.ctx, mpt_trainer_finish(r.trainer));
    snprintf(
        expected, sizeof expected,
        "{\"event\":\"step\",\"step\":0,\"tokens\":64,\"loss\":%.9g,\"lr\":%.9g,"
        "\"grad_norm\":%.9g,\"loss_scale\":1024,\"skipped\":false,\"phase\":\"main\"}\n"
        "{\"event\":\"eval\",\"step\":1,\"tokens\":64,\"loss\":%.9g,\"windows\":3,"
        "\"phase\":\"main\"}\n" GEMMS_RAN("fprop") GEMMS_RAN("dgrad") GEMMS_RAN(
            "wgrad") "{\"event\":\"done\",\"step\":1,\"tokens\":64,\"applied\":1,\"skipped\":0,"
                     "\"eval_loss\":%.9g}\n",
        a.loss, a.lr, a.grad_norm, loss, loss);
    assert_string_equal(strchr(r.lines, '\n') + 1, expected);
    rig_deinit(&r);
}

static void test_metrics_when_name_has_quotes_then_escaped(void **s) {
    (void)s;
    rig r;
    memset(&r, 0, sizeof r);
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "phase");
    mpt_metrics_string(&line, "phase", "a\"b\\c\nd");
    mpt_metrics_number(&line, "x", -INFINITY);
    assert_mpt_ok(ctx, mpt_metrics_end(&line, ctx, rig_write, &r));
    assert_string_equal(r.lines,
                        "{\"event\":\"phase\",\"phase\":\"a\\\"b\\\\c\\u000ad\",\"x\":null}\n");
    free(r.lines);
    mpt_ctx_destroy(ctx);
}

static void test_param_when_asked_by_index_then_model_order_and_null_past_the_end(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    mpt_param_view view;
    rig_init(&r, &o);
    assert_true(mpt_trainer_param(r.trainer, 0, &view));
    assert_string_equal(view.name, "embeddings.weight");
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dims[0], RIG_VOCAB);
    assert_int_equal(view.dims[1], 16);
    int n = 0;
    while (mpt_trainer_param(r.trainer, n, &view))
        n++;
    assert_int_equal(n, r.phases[0]->graph->n_params);
    assert_false(mpt_trainer_param(r.trainer, -1, &view));
    rig_deinit(&r);
}

static void test_eval_when_windows_do_not_fill_a_batch_then_each_counts_once(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    double three, loss[3], sum = 0;
    rig_init(&r, &o);
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &three));
    for (int w = 0; w < 3; w++) { /* the same windows, one row at a time */
        int32_t tokens[64], targets[64];
        for (int i = 0; i < 4; i++)
            mpt_data_window(r.program.data, w * 200 / 3, tokens + 16 * i, targets + 16 * i);
        mpt_run_env env = mpt_trainer_env(r.trainer);
        mpt_executor_run(r.trainer->executors[0], MPT_PASS_PREPARE, &env);
        mpt_runner runner = mpt_trainer_runner(r.trainer, false);
        loss[w] = mpt_runner_forward(&runner, tokens, targets, &env);
        sum += loss[w] / 3;
    }
    assert_true(fabs(three - sum) < 1e-5);
    rig_deinit(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_step_when_repeated_then_loss_falls_below_unigram_entropy),
    cmocka_unit_test(test_step_when_sgd_then_loss_falls),
    cmocka_unit_test(test_step_when_counted_then_results_and_done_agree),
    cmocka_unit_test(test_step_when_running_then_nothing_is_allocated),
    cmocka_unit_test(test_run_when_repeated_then_weights_and_metrics_are_the_same_bytes),
    cmocka_unit_test(test_run_when_evaluated_in_between_then_weights_are_the_same_bits),
    cmocka_unit_test(test_run_when_loss_scale_is_a_power_of_two_then_weights_are_the_same_bits),
    cmocka_unit_test(test_run_when_ref_threads_differ_then_weights_are_the_same_bits),
    cmocka_unit_test(test_run_when_cut_into_micro_batches_then_first_losses_agree),
    cmocka_unit_test(test_step_when_targets_are_masked_then_mean_is_over_targets),
    cmocka_unit_test(test_phase_when_its_step_comes_then_it_begins_there_on_the_same_state),
    cmocka_unit_test(test_metrics_when_one_step_then_these_very_members),
    cmocka_unit_test(test_metrics_when_name_has_quotes_then_escaped),
    cmocka_unit_test(test_param_when_asked_by_index_then_model_order_and_null_past_the_end),
    cmocka_unit_test(test_eval_when_windows_do_not_fill_a_batch_then_each_counts_once),
};

MPT_TEST_MAIN(cases)
