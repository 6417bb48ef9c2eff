/* The trainer when something is wrong: bad numbers, bad tokens, no memory, no writer. */
#include "mpt_test.h"

#include <math.h>

#include "train_rig.h"

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
    for (int i = 0; i < RIG_MAX_SKIPS - 1; i++)
        assert_true(rig_step(&r).skipped);
    assert_int_equal(mpt_trainer_step(r.trainer, NULL, &result), MPT_STOPPED);
    const char *message = mpt_ctx_error(r.ctx)->message;
    assert_string_equal(message,
                        "step 19: 20 steps in a row were skipped; first bad tensor: NaN "
                        "in the weights lm_head.weight; go back to a checkpoint, or to "
                        "weights, from before");
    assert_null(strstr(message, "loss scale"));
    rig_deinit(&r);
}

/* Steps by a pattern, 'x' with a weight that is NaN; what finishing gives. */
static mpt_status finish_after(const char *steps, char message[256]) {
    rig r;
    rig_options o = rig_defaults();
    int64_t n;
    rig_init(&r, &o);
    float *weight = rig_weights(&r, "lm_head.weight", &n);
    for (; *steps; steps++) {
        float before = weight[0];
        if (*steps == 'x')
            weight[0] = NAN;
        assert_int_equal(rig_step(&r).skipped, *steps == 'x');
        if (*steps == 'x')
            weight[0] = before;
    }
    mpt_status status = mpt_trainer_finish(r.trainer);
    snprintf(message, 256, "%s", status == MPT_OK ? "" : mpt_ctx_error(r.ctx)->message);
    rig_deinit(&r);
    return status;
}

static void test_finish_when_most_or_the_last_steps_were_skipped_then_stopped(void **s) {
    (void)s;
    char message[256];
    assert_int_equal(finish_after(".x.x..", message), MPT_OK);
    assert_int_equal(finish_after("....xx", message), MPT_OK);
    assert_int_equal(finish_after("xxx...", message), MPT_OK);
    assert_int_equal(finish_after("...xxx", message), MPT_STOPPED);
    assert_non_null(strstr(message, "the last 3 steps were skipped: training has diverged"));
    assert_int_equal(finish_after("xx.xx.", message), MPT_STOPPED);
    assert_non_null(strstr(message, "4 of 6 steps were skipped: training has diverged"));
    assert_non_null(strstr(message, "lower the learning rate"));
}

static void test_finish_when_all_steps_were_skipped_then_training_has_stopped_itself(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    int64_t n;
    rig_init(&r, &o);
    rig_weights(&r, "lm_head.weight", &n)[0] = NAN;
    for (int i = 0; i < 3; i++)
        assert_true(rig_step(&r).skipped);
    assert_int_equal(mpt_trainer_finish(r.trainer), MPT_STOPPED);
    assert_string_equal(
        mpt_ctx_error(r.ctx)->message,
        "all 3 steps were skipped, so nothing was trained; the metrics name the "
        "first bad tensor of each: keep its layer in a wider format, or lower "
        "the learning rate");
    assert_non_null(strstr(r.lines, "\"applied\":0,\"skipped\":3,\"eval_loss\":null}\n"));
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

/* ---- memory ---- */

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

/* Delayed scaling everywhere, with a window of its own in each phase: all kinds of state. */
static void choose_delayed(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    (void)ud;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            policies[i].slot[slot] =
                (mpt_quantizer){.name = "e4m3",
                                .format = MPT_DTYPE_E4M3,
                                .scale = {.kind = MPT_SCALING_DELAYED, .history = phase + 1}};
}

static void test_create_when_any_allocation_fails_then_clean_and_nothing_leaks(void **s) {
    (void)s;
    static const char *const faults[] = {"grad:model.lm_head.weight=inf@9",
                                         "act:model.layers.0.up=1@9"};
    int left = -1;
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    options.alloc = failing_alloc;
    options.alloc_ud = &left;
    mpt_ctx *ctx;
    rig r;
    rig_options o = rig_defaults();
    o.switch_at = 3;
    o.choose = o.choose_eval = choose_delayed;
    o.warm = true;
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    rig_compile(&r, ctx, &o);
    r.inject = faults;
    r.n_inject = 2;
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
    assert_true(n_failed >= 9); /* trainer, batch, state, list, four executors with a block */
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
    cmocka_unit_test(test_step_when_a_weight_is_nan_then_skipped_named_and_nothing_changes),
    cmocka_unit_test(test_update_when_one_gradient_is_bad_then_its_row_says_so),
    cmocka_unit_test(test_step_when_20_in_a_row_are_skipped_then_training_stops_and_says_why),
    cmocka_unit_test(test_finish_when_most_or_the_last_steps_were_skipped_then_stopped),
    cmocka_unit_test(test_finish_when_all_steps_were_skipped_then_training_has_stopped_itself),
    cmocka_unit_test(test_step_when_tokens_are_out_of_range_then_refused_and_nothing_changes),
    cmocka_unit_test(test_step_when_tokens_are_the_callers_then_they_are_trained_on),
    cmocka_unit_test(test_step_when_the_writer_refuses_then_io_error),
    cmocka_unit_test(test_create_when_any_allocation_fails_then_clean_and_nothing_leaks),
    cmocka_unit_test(test_create_when_the_machine_is_too_small_then_refused_untouched),
};

MPT_TEST_MAIN(cases)
