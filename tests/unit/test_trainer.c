/* The trainer: falling loss, equal bits, skips, phases, evaluation, the host's tokens. */
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

/* ---- faults ---- */

static void test_step_when_a_weight_is_nan_then_skipped_named_and_nothing_changes(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    int64_t n;
    rig_init(&r, &o);
    rig_step(&r);
    float *w = rig_weights(&r, "layers.0.up.weight", &n), kept = w[3];
    w[3] = NAN;
    uint64_t before = rig_state_hash(&r);
    mpt_step_result result = rig_step(&r);
    assert_true(result.skipped && isnan(result.loss));
    assert_string_equal(result.bad_tensor,
                        "lm_head.weight"); /* the first that backward makes */
    assert_true(rig_state_hash(&r) == before);
    assert_non_null(strstr(r.lines,
                           "{\"event\":\"skip\",\"step\":1,\"tensor\":\"lm_head.weight\","
                           "\"fault\":\"NaN\"}\n"));
    assert_non_null(strstr(r.lines, "\"loss\":null,"));
    w[3] = kept;
    result = rig_step(&r);
    assert_false(result.skipped);
    assert_int_equal(result.step, 2);
    assert_int_equal(r.trainer->applied, 2);
    assert_int_equal(r.trainer->data, 3);
    rig_deinit(&r);
}

/* The rows of the norms stand in the order in which backward finishes the gradients. */
static void test_update_when_one_gradient_is_bad_then_its_row_says_so(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    rig_init(&r, &o);
    const mpt_graph *graph = r.phases[0]->graph;
    mpt_executor *executor = r.trainer->executors[0];
    mpt_run_env env = mpt_trainer_env(r.trainer);
    int n_rows = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->op != MPT_OP_grad_norm)
            continue;
        assert_int_equal(node->attrs.row_index, n_rows);
        mpt_executor_run(executor, MPT_PASS_PREPARE, &env);
        uint64_t before = rig_state_hash(&r);
        r.trainer->state->grad[graph->values[node->in[0]].param][1] = INFINITY;
        mpt_executor_run(executor, MPT_PASS_UPDATE, &env);
        const int32_t *bad = mpt_executor_tensor(executor, graph->finite)->data;
        assert_int_equal(*bad, n_rows++);
        assert_true(rig_state_hash(&r) == before);
    }
    assert_int_equal(n_rows, graph->n_params);
    rig_deinit(&r);
}

static void test_step_when_20_in_a_row_are_skipped_then_training_stops_and_says_why(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    int64_t n;
    mpt_step_result result;
    rig_init(&r, &o);
    rig_weights(&r, "lm_head.weight", &n)[0] = NAN;
    for (int i = 0; i < MPT_MAX_SKIPS - 1; i++)
        assert_true(rig_step(&r).skipped);
    assert_int_equal(mpt_trainer_step(r.trainer, NULL, &result), MPT_STOPPED);
    const char *message = mpt_ctx_error(r.ctx)->message;
    assert_string_equal(message,
                        "step 19: 20 steps in a row were skipped; first bad tensor: NaN "
                        "in the gradient of lm_head.weight; the loss itself is NaN: look "
                        "for the weights that hold it");
    assert_null(strstr(message, "loss scale"));
    rig_deinit(&r);
}

static void test_step_when_tokens_are_out_of_range_then_refused_and_nothing_changes(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    mpt_step_result result;
    int32_t tokens[4][17] = {{0}};
    rig_init(&r, &o);
    uint64_t before = rig_state_hash(&r);
    tokens[2][16] = RIG_VOCAB;
    assert_int_equal(mpt_trainer_step(r.trainer, tokens[0], &result), MPT_DATA);
    assert_string_equal(mpt_ctx_error(r.ctx)->message,
                        "tokens[2][16]: 32 is no token of this model; ids run from 0 to 31");
    tokens[2][16] = -1;
    assert_int_equal(mpt_trainer_step(r.trainer, tokens[0], &result), MPT_DATA);
    assert_true(rig_state_hash(&r) == before);
    assert_null(r.lines);
    rig_deinit(&r);
}

static void test_step_when_tokens_are_the_callers_then_they_are_trained_on(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    mpt_step_result result;
    int32_t tokens[4][17];
    for (int i = 0; i < 4 * 17; i++)
        tokens[i / 17][i % 17] = i % 17 % 2 ? 5 : 9;
    rig_init(&r, &o);
    for (int i = 0; i < 60; i++)
        assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, tokens[0], &result));
    assert_true(result.loss < 0.1);
    assert_int_equal(r.trainer->data, 0); /* the recipe's data did not move on */
    rig_deinit(&r);
}

static bool refuse_write(void *ud, const char *text, size_t length) {
    (void)ud;
    (void)text;
    (void)length;
    return false;
}

static void test_step_when_the_writer_refuses_then_io_error(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    mpt_step_result result;
    rig_init(&r, &o);
    r.trainer->metrics = refuse_write;
    assert_int_equal(mpt_trainer_step(r.trainer, NULL, &result), MPT_IO);
    rig_deinit(&r);
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

/* ---- metrics, parameters, memory ---- */

static void test_metrics_when_one_step_then_these_very_members(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    o.loss_scale = 1024;
    double loss;
    char expected[512];
    rig_init(&r, &o);
    mpt_step_result a = rig_step(&r);
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &loss));
    assert_mpt_ok(r.ctx, mpt_trainer_finish(r.trainer));
    snprintf(expected, sizeof expected,
             "{\"event\":\"step\",\"step\":0,\"tokens\":64,\"loss\":%.9g,\"lr\":%.9g,"
             "\"grad_norm\":%.9g,\"loss_scale\":1024,\"skipped\":false,\"phase\":\"main\"}\n"
             "{\"event\":\"eval\",\"step\":1,\"tokens\":64,\"loss\":%.9g,\"windows\":3,"
             "\"phase\":\"main\"}\n"
             "{\"event\":\"done\",\"step\":1,\"tokens\":64,\"applied\":1,\"skipped\":0,"
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
            mpt_data_window(r.program.data, w * 200 / 3, 16, tokens + 16 * i, targets + 16 * i);
        mpt_run_env env = mpt_trainer_env(r.trainer);
        mpt_executor_run(r.trainer->executors[0], MPT_PASS_PREPARE, &env);
        loss[w] = mpt_trainer_forward(r.trainer, tokens, targets, &env);
        sum += loss[w] / 3;
    }
    assert_true(fabs(three - sum) < 1e-5);
    rig_deinit(&r);
}

/* An allocator that refuses the n-th call. */
static void *failing_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    int *left = ud;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return *left >= 0 && (*left)-- == 0 ? NULL : realloc(ptr, new_size);
}

static void test_create_when_any_allocation_fails_then_clean_and_nothing_leaks(void **s) {
    (void)s;
    int left = -1;
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    options.alloc = failing_alloc;
    options.alloc_ud = &left;
    mpt_ctx *ctx;
    rig r;
    rig_options o = rig_defaults();
    o.switch_at = 3;
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    rig_compile(&r, ctx, &o);
    size_t before = mpt_ctx_memory(ctx).live_bytes;
    int n_failed = 0;
    for (;; n_failed++) {
        left = n_failed;
        mpt_status status = rig_create_trainer(&r);
        if (status == MPT_OK)
            break;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        assert_null(r.trainer);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, before);
    }
    assert_true(n_failed >= 7); /* trainer, batch, state, list, two executors with blocks */
    left = -1;
    rig_step(&r);
    rig_deinit(&r);
}

static void test_create_when_the_machine_is_too_small_then_refused_untouched(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    rig_compile(&r, mpt_test_ctx(), &o);
    size_t before = mpt_ctx_memory(r.ctx).live_bytes, kept = r.phases[0]->arena_bytes;
    r.phases[0]->arena_bytes = (size_t)1 << 60;
    assert_int_equal(rig_create_trainer(&r), MPT_OUT_OF_MEMORY);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "training needs 1152921504.6 GB"));
    assert_int_equal(mpt_ctx_memory(r.ctx).live_bytes, before);
    r.phases[0]->arena_bytes = kept;
    assert_mpt_ok(r.ctx, rig_create_trainer(&r));
    rig_step(&r);
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
    cmocka_unit_test(test_step_when_a_weight_is_nan_then_skipped_named_and_nothing_changes),
    cmocka_unit_test(test_update_when_one_gradient_is_bad_then_its_row_says_so),
    cmocka_unit_test(test_step_when_20_in_a_row_are_skipped_then_training_stops_and_says_why),
    cmocka_unit_test(test_step_when_tokens_are_out_of_range_then_refused_and_nothing_changes),
    cmocka_unit_test(test_step_when_tokens_are_the_callers_then_they_are_trained_on),
    cmocka_unit_test(test_step_when_the_writer_refuses_then_io_error),
    cmocka_unit_test(test_phase_when_its_step_comes_then_it_begins_there_on_the_same_state),
    cmocka_unit_test(test_metrics_when_one_step_then_these_very_members),
    cmocka_unit_test(test_metrics_when_name_has_quotes_then_escaped),
    cmocka_unit_test(test_param_when_asked_by_index_then_model_order_and_null_past_the_end),
    cmocka_unit_test(test_eval_when_windows_do_not_fill_a_batch_then_each_counts_once),
    cmocka_unit_test(test_create_when_any_allocation_fails_then_clean_and_nothing_leaks),
    cmocka_unit_test(test_create_when_the_machine_is_too_small_then_refused_untouched),
};

MPT_TEST_MAIN(cases)
