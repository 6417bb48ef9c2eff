/* Wrong arguments of a host to the calls of mpt/evidence.h: MPT_INVALID, and the argument is
 * named. */
#include "api_arguments.h"

#include "mpt/evidence.h"
#include "safetensors_file.h"

static const char *const rows[] = {
    "mpt_events_create mpt_events_destroy mpt_events_scalar mpt_events_flush mpt_events_step "
    "mpt_events_eval mpt_events_operands mpt_telemetry_every mpt_report_run"};

static void test_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events;
    const mpt_step_result step = {0};
    BARE(mpt_events_create(NULL, f.path, &events));
    refused(ctx, mpt_events_create(ctx, NULL, &events), "mpt_events_create: folder is NULL");
    assert_null(events);
    refused(ctx, mpt_events_create(ctx, f.path, NULL), "mpt_events_create: out is NULL");
    assert_int_equal(folder_count(&f), 0);
    assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events));
    BARE(mpt_events_scalar(NULL, "x", 0, 1));
    refused(ctx, mpt_events_scalar(events, NULL, 0, 1), "mpt_events_scalar: tag is NULL");
    BARE(mpt_events_flush(NULL));
    BARE(mpt_events_step(NULL, &step));
    BARE(mpt_events_step(events, NULL));
    BARE(mpt_events_eval(NULL, 0, 1));
    BARE(mpt_events_operands(NULL, NULL, 0));
    BARE(mpt_events_operands(events, NULL, 0));
    BARE(mpt_report_run(NULL, f.path));
    refused(ctx, mpt_report_run(ctx, NULL), "mpt_report_run: folder is NULL");
    assert_int_equal(mpt_telemetry_every(-5, -5), 10);
    mpt_events_destroy(NULL);
    mpt_events_destroy(events);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **s) {
    (void)s;
    assert_header("evidence.h", rows);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};

MPT_TEST_MAIN(cases)
