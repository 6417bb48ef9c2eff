/* Wrong arguments to the calls of mpt/watch.h: false or MPT_INVALID, and no crash; a writer
 * that refuses. */
#include "api_arguments.h"
#include "checkpoint_case.h"

#include "mpt/watch.h"

static bool refuse_counted(void *ud, const char *text, size_t length) {
    (void)text;
    (void)length;
    (*(int *)ud)++;
    return false;
}

static void test_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    checkpoint_case c;
    mpt_watch_view view;
    int n = 0;
    checkpoint_begin(&c, CHECKPOINT_FP16, 1);
    assert_false(mpt_trainer_watch(NULL, &view));
    assert_false(mpt_trainer_watch(c.trainer, NULL));
    assert_true(mpt_trainer_watch(c.trainer, &view));
    assert_int_equal(view.skipped + view.spikes + view.left_out + view.rollbacks, 0);
    BARE(mpt_trainer_diagnosis(NULL, refuse_counted, &n));
    refused(c.ctx, mpt_trainer_diagnosis(c.trainer, NULL, NULL), "write is NULL");
    assert_mpt_ok(c.ctx, mpt_trainer_diagnosis(c.trainer, refuse_counted, &n));
    assert_int_equal(n, 0); /* all is well */
    checkpoint_end(&c);
}

static void test_diagnosis_when_the_writer_refuses_then_it_is_not_asked_again(void **s) {
    (void)s;
    checkpoint_case c;
    mpt_step_result step;
    int n = 0;
    checkpoint_begin_set(&c, CHECKPOINT_FP16, "train.watch.max_skips", "1");
    c.trainer->state->master[0][0] = NAN;
    assert_int_equal(mpt_trainer_step(c.trainer, NULL, &step), MPT_STOPPED);
    assert_int_equal(mpt_trainer_diagnosis(c.trainer, refuse_counted, &n), MPT_IO);
    assert_int_equal(n, 1);
    checkpoint_end(&c);
}

static const char *const rows[] = {"mpt_trainer_watch mpt_trainer_diagnosis"};

static void test_header_when_a_call_is_public_then_it_has_a_row(void **s) {
    (void)s;
    assert_header("watch.h", rows);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_diagnosis_when_the_writer_refuses_then_it_is_not_asked_again),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};
MPT_TEST_MAIN(cases)
