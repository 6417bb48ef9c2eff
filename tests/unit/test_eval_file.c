/* A file of tokens in, a file of numbers out: memory that runs short, shapes that do not fit,
 * and measuring that is stopped. What the command refuses: tests/cli/test_eval.sh. */
#include "allowance.h"
#include "lua_test.h"
#include "mpt/eval.h"
#include "oracle_case.h"
#include "safetensors_file.h"

#define FORWARD_FILE MPT_TESTS_DIR "/oracle/gpt2/forward.safetensors"

static void open_gpt2(oracle_case *c, mpt_ctx *ctx, const char *train) {
    char text[1024];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    snprintf(
        text, sizeof text,
        "return recipe { name = 'o', model = %s, data = synthetic { vocab = 96 }, precision "
        "= presets.fp32, train = { steps = 1, batch = 2, micro_batch = 2, %s, lr = constant "
        "{ peak = 1e-3 } } }",
        oracle_models[0].model, train);
    *c = (oracle_case){.ctx = ctx};
    options.n_threads = 1;
    assert_mpt_ok(ctx,
                  mpt_recipe_load_string(ctx, "o.lua", text, strlen(text), NULL, &c->recipe));
    assert_mpt_ok(ctx, mpt_compile(c->recipe, &options, &c->program));
    assert_mpt_ok(ctx, mpt_trainer_create(c->program, NULL, &c->trainer));
}

static void close_gpt2(oracle_case *c) {
    mpt_trainer_destroy(c->trainer);
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

static void test_eval_file_when_any_allocation_fails_then_clean_and_no_file_is_left(void **s) {
    (void)s;
    allowance a;
    oracle_case c;
    folder f = folder_make();
    mpt_eval_options options = MPT_EVAL_OPTIONS_INIT;
    mpt_eval_result result;
    open_gpt2(&c, allowance_context(&a, -1), "sequence = 29");
    options.tokens = FORWARD_FILE;
    options.out = f.file;
    options.gradients = true;
    size_t before = mpt_ctx_memory(c.ctx).live_bytes;
    long n = 0;
    for (;; n++) {
        a.left = n;
        mpt_status status = mpt_trainer_eval_file(c.trainer, &options, &result);
        assert_int_equal(mpt_ctx_memory(c.ctx).live_bytes, before);
        if (status == MPT_OK)
            break;
        assert_int_equal(status, MPT_OUT_OF_MEMORY);
        assert_int_equal(folder_count(&f), 0);
    }
    assert_true(n > 5);
    a.left = -1;
    assert_int_equal(folder_count(&f), 1);
    assert_int_equal(result.n_targets, 58);
    close_gpt2(&c);
    folder_remove(&f);
}

static void test_eval_file_when_the_program_has_another_shape_then_both_are_named(void **s) {
    (void)s;
    oracle_case c;
    mpt_eval_options options = MPT_EVAL_OPTIONS_INIT;
    int64_t batch, sequence;
    open_gpt2(&c, mpt_test_ctx(), "sequence = 16");
    options.tokens = FORWARD_FILE;
    options.out = "/nowhere/o.safetensors";
    assert_int_equal(mpt_trainer_eval_file(c.trainer, &options, NULL), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(c.ctx)->message,
                           "holds 2 rows of 29 tokens, and the program takes 2 of 16"));
    assert_mpt_ok(c.ctx, mpt_tokens_shape(c.ctx, options.tokens, &batch, &sequence));
    assert_true(batch == 2 && sequence == 29);
    close_gpt2(&c);
}

static bool stop_at_second(void *ud, int64_t done, int64_t all) {
    int *calls = ud;
    assert_true(done <= all);
    return ++*calls < 2;
}

static void test_measure_when_stopped_or_whole_then_it_says_so(void **s) {
    (void)s;
    oracle_case c;
    mpt_eval_result result;
    double loss;
    int calls = 0;
    open_gpt2(&c, mpt_test_ctx(), "sequence = 16");
    assert_int_equal(mpt_trainer_measure(c.trainer, stop_at_second, &calls, &result),
                     MPT_INTERRUPTED);
    assert_int_equal(calls, 2);
    assert_mpt_ok(c.ctx, mpt_trainer_measure(c.trainer, NULL, NULL, &result));
    assert_mpt_ok(c.ctx, mpt_trainer_eval(c.trainer, 0, &loss));
    assert_true(result.loss == loss && result.n_targets == 16 * result.n_windows);
    assert_true(result.accuracy >= 0 && result.accuracy <= 1);
    close_gpt2(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_eval_file_when_any_allocation_fails_then_clean_and_no_file_is_left),
    cmocka_unit_test(test_eval_file_when_the_program_has_another_shape_then_both_are_named),
    cmocka_unit_test(test_measure_when_stopped_or_whole_then_it_says_so),
};

MPT_TEST_MAIN(cases)
