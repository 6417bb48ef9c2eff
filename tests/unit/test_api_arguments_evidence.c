/* Wrong arguments of a host to the calls of mpt/evidence.h: MPT_INVALID, and the argument is
 * named. The header is read, so a new call without a row here fails. */
#include "mpt_test.h"

#include "mpt/evidence.h"
#include "safetensors_file.h"

static void refused(const mpt_ctx *ctx, mpt_status status, const char *named) {
    const char *message = mpt_ctx_error(ctx)->message;
    if (status != MPT_INVALID || !strstr(message, named))
        fail_msg("expected MPT_INVALID naming '%s', got %s: %s", named, mpt_status_name(status),
                 message);
}

/* Each call stands in this text, for the test of the header below. */
static const char rows[] =
    " mpt_events_create mpt_events_destroy mpt_events_scalar mpt_events_flush mpt_events_step"
    " mpt_events_eval mpt_events_operands mpt_telemetry_every mpt_report_run ";

static void test_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_events *events;
    const mpt_step_result step = {0};
    assert_int_equal(mpt_events_create(NULL, f.path, &events), MPT_INVALID);
    refused(ctx, mpt_events_create(ctx, NULL, &events), "mpt_events_create: folder is NULL");
    assert_null(events);
    refused(ctx, mpt_events_create(ctx, f.path, NULL), "mpt_events_create: out is NULL");
    assert_int_equal(folder_count(&f), 0);
    assert_mpt_ok(ctx, mpt_events_create(ctx, f.path, &events));
    assert_int_equal(mpt_events_scalar(NULL, "x", 0, 1), MPT_INVALID);
    refused(ctx, mpt_events_scalar(events, NULL, 0, 1), "mpt_events_scalar: tag is NULL");
    assert_int_equal(mpt_events_flush(NULL), MPT_INVALID);
    assert_int_equal(mpt_events_step(NULL, &step), MPT_INVALID);
    assert_int_equal(mpt_events_step(events, NULL), MPT_INVALID);
    assert_int_equal(mpt_events_eval(NULL, 0, 1), MPT_INVALID);
    assert_int_equal(mpt_events_operands(NULL, NULL, 0), MPT_INVALID);
    assert_int_equal(mpt_events_operands(events, NULL, 0), MPT_INVALID);
    assert_int_equal(mpt_report_run(NULL, f.path), MPT_INVALID);
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
    file_bytes header = bytes_read(MPT_SOURCE_DIR "/runtime/include/mpt/evidence.h");
    char word[80];
    int n = 0;
    header.data[header.size] = 0;
    for (char *at = (char *)header.data; (at = strstr(at, "\nMPT_API ")); n++) {
        const char *end = strchr(++at, '('), *name = end;
        assert_non_null(end);
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        snprintf(word, sizeof word, " %.*s ", (int)(end - name), name);
        if (!strstr(rows, word))
            fail_msg("%s has no row in this test", word);
    }
    assert_in_range(n, 9, 100);
    bytes_free(&header);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};

MPT_TEST_MAIN(cases)
