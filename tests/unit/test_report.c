/* The report of a run folder: its first line, its curves, and what it makes of files that are
 * torn, missing or hostile. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "allowance.h"
#include "report_run.h"

static const char whole[] = WHOLE;

/* ---- the first line ---- */

/* The verdict of a run with these metrics. */
static void assert_verdict(const char *metrics, const char *tone, const char *text) {
    char wanted[512];
    run_folder r = run_make(metrics);
    char *page = run_page(&r);
    snprintf(wanted, sizeof wanted, "<p class=\"verdict %s\">%s</p>", tone, text);
    assert_has(page, wanted);
    assert_true(strstr(page, "<p ") == strstr(page, "<p class=\"verdict")); /* the first */
    free(page);
    run_free(&r);
}

static void test_verdict_when_a_run_ends_then_it_says_how(void **s) {
    (void)s;
    assert_verdict(whole, "good",
                   "Done after 4 steps: validation loss 2.7500 nats a token, 1.25 above the "
                   "floor of the data (1.50).");
    assert_verdict(
        PHASE STEP(0, 32, 4.5, false) STEP(1, 64, 4, true) SKIP(1) DONE(2), "plain",
        "Stopped early after 2 of 4 steps: training loss of the last step 4.0000 "
        "nats a token, 2.50 above the floor of the data (1.50). 1 step was skipped.");
    assert_verdict(PHASE STEP(0, 32, 4.5, false) STEP(1, 64, 1.25, false), "plain",
                   "No end is recorded: 2 of 4 steps so far, training loss of the last step "
                   "1.2500 nats a token, 0.25 below the floor of the data (1.50).");
    assert_verdict("", "plain", "No step is recorded yet.");
}

static void test_verdict_when_a_run_goes_wrong_then_it_has_diverged(void **s) {
    (void)s;
    assert_verdict(
        PHASE STEP(0, 32, 4, false) STEP(1, 64, null, true) STEP(2, 96, null, true)
            STEP(3, 128, null, true) EVAL(4, 128, 4) DONE(4),
        "bad",
        "Diverged after 4 steps: validation loss 4.0000 nats a token, 2.50 above the "
        "floor of the data (1.50). 3 steps were skipped.");
    assert_verdict(PHASE STEP(0, 32, 4, true) DONE(1), "bad",
                   "Diverged after 1 step: training loss of the last step 4.0000 nats a token, "
                   "2.50 above the floor of the data (1.50). 1 step was skipped.");
    assert_verdict(PHASE STEP(0, 32, 4, false) STEP(1, 64, 3, false) EVAL(2, 64, null), "bad",
                   "Diverged after 2 steps: validation loss not finite.");
    assert_verdict(
        PHASE STEP(0, 32, 4, false) "{\"event\":\"diagnosis\",\"step\":0,\"reason\":"
                                    "\"max_skips\",\"advice\":\"x\"}\n",
        "bad",
        "Diverged after 1 step: too many steps in a row were skipped; training loss of the "
        "last step 4.0000 nats a token, 2.50 above the floor of the data (1.50).");
    assert_verdict(
        PHASE STEP(0, 32, 4, false) EVAL(1, 32, 3.5) STEP(1, 64, 4, true)
            STEP(2, 96, 4, true) "{\"event\":\"diagnosis\",\"step\":2,\"reason\":"
                                 "\"max_skips\",\"text\":\"2 steps in a row were "
                                 "skipped\"}\n",
        "bad",
        "Diverged after 3 steps: 2 steps in a row were skipped; validation loss after "
        "1 step 3.5000 nats a token, 2.00 above the floor of the data (1.50).");
}

#define SCALED(n, loss_scale, skipped)                                                         \
    "{\"event\":\"step\",\"step\":" #n ",\"tokens\":64,\"loss\":4,\"loss_scale\":" #loss_scale \
    ",\"skipped\":" #skipped "}\n"

static void test_verdict_when_a_loss_scale_finds_its_place_then_that_is_no_fault(void **s) {
    (void)s;
    assert_verdict(SCALED(0, 64, true) SCALED(1, 32, true) SCALED(2, 16, true)
                       SCALED(3, 8, false) EVAL(4, 128, 4) DONE(4),
                   "good",
                   "Done after 4 steps: validation loss 4.0000 nats a token, 2.50 above the "
                   "floor of the data (1.50). 3 steps were skipped.");
    assert_verdict(
        SCALED(0, 8, true) SCALED(1, 8, true) SCALED(2, 8, true) SCALED(3, 8, false)
            EVAL(4, 128, 4) DONE(4),
        "bad",
        "Diverged after 4 steps: validation loss 4.0000 nats a token, 2.50 above the "
        "floor of the data (1.50). 3 steps were skipped.");
}

/* ---- curves ---- */

static double point(const json_t *plot, size_t series, const char *axis, size_t i) {
    const json_t *s = json_array_get(json_object_get(plot, "series"), series);
    return json_number_value(json_array_get(json_object_get(s, axis), i));
}

static void test_curves_when_a_run_is_whole_then_they_hold_its_numbers(void **s) {
    (void)s;
    static const char *const titles[] = {"Loss", "Learning rate",
                                         "Gradient norm, before the clip", "Tokens a second"};
    run_folder r = run_make(whole);
    char *page = run_page(&r);
    for (size_t i = 0; i < MPT_COUNT(titles); i++) {
        json_t *plot = page_drawing(page, (int)i);
        assert_non_null(plot);
        assert_string_equal(json_string_value(json_object_get(plot, "title")), titles[i]);
        if (i == 0) {
            assert_true(point(plot, 0, "x", 2) == 96 && point(plot, 0, "y", 2) == 3.5);
            assert_true(point(plot, 1, "x", 0) == 128 && point(plot, 1, "y", 0) == 2.75);
            assert_true(json_number_value(json_object_get(
                            json_array_get(json_object_get(plot, "levels"), 0), "y")) == 1.5);
        }
        if (i == 3)
            assert_true(point(plot, 0, "x", 1) == 64 && point(plot, 0, "y", 1) == 640);
        json_decref(plot);
    }
    assert_null(page_drawing(page, (int)MPT_COUNT(titles))); /* a loss scale of 1 is no curve */
    free(page);
    run_free(&r);
}

static void test_curves_when_things_happened_then_they_are_marked_and_listed(void **s) {
    (void)s;
    run_folder r = run_make(PHASE STEP(
        0, 32, 4, false) "{\"event\":\"phase\",\"step\":1,\"phase\":\"settle\"}\n" STEP(1, 64,
                                                                                        3, true)
                                SKIP(1) "{\"event\":\"spike\",\"step\":1,\"what\":\"loss\","
                                        "\"value\":9,\"median\":3,\"z\":12,"
                                        "\"action\":\"rollback\"}\n"
                                        "{\"event\":\"rollback\",\"step\":1,\"to\":0}\n"
                                        "{\"event\":\"checkpoint\",\"step\":2}\n"
                                        "{\"event\":\"of a later mpt\",\"step\":2}\n");
    char *page = run_page(&r);
    json_t *plot = page_drawing(page, 0);
    const json_t *marks = json_object_get(plot, "marks");
    assert_int_equal(json_array_size(marks), 6); /* two phases, three faults, a checkpoint */
    const json_t *settle = json_array_get(marks, 1);
    assert_string_equal(json_string_value(json_object_get(settle, "label")), "settle");
    assert_true(json_number_value(json_object_get(settle, "x")) == 32);
    json_decref(plot);
    assert_has(page, "<td>NaN in the gradient of h.0.w</td>");
    assert_has(page, "<td>loss 9, median 3, z 12; rollback</td>");
    assert_has(page, "<td>back to step 0</td>");
    assert_has(page, "<dt>checkpoints</dt><dd>1</dd>");
    free(page);
    run_free(&r);
}

/* ---- operands ---- */

#define OPERAND(step, name, sqnr, zeros)                                                       \
    "{\"step\":" #step ",\"operand\":\"" name "\",\"format\":\"nvfp4\",\"amax\":2,"            \
    "\"overflow\":0.25,\"underflow\":0,\"zeros\":" #zeros ",\"nonfinite\":0,\"capped\":0,"     \
    "\"sqnr\":" #sqnr ",\"scale\":null}\n"

static void test_map_when_there_is_telemetry_then_rows_are_operands_by_layer(void **s) {
    (void)s;
    run_folder r = run_make(whole);
    put(&r, "telemetry.jsonl",
        OPERAND(0, "h.0.a.fprop.w", 20, 0) OPERAND(0, "h.1.a.fprop.x", 18, 0)
            OPERAND(0, "h.0.a.fprop.x", null, 1) OPERAND(2, "h.0.a.fprop.w", 12, 0)
                OPERAND(2, "h.1.a.fprop.x", null, 0));
    char *page = run_page(&r);
    json_t *heat = page_drawing(page, 4);
    static const char *const names[] = {"h.0.a.fprop.x", "h.0.a.fprop.w", "h.1.a.fprop.x"};
    for (size_t i = 0; i < MPT_COUNT(names); i++)
        assert_string_equal(json_string_value(json_object_get(
                                json_array_get(json_object_get(heat, "rows"), i), "name")),
                            names[i]);
    json_decref(heat);
    assert_has(page, "\"x_low\":32,\"x_high\":128"); /* the axis of the curves */
    assert_has(page, "\"x\":[32,96]");
    assert_has(page, "\"v\":[null,null]"); /* no signal, then not counted */
    assert_has(page, "\"v\":[20,12]");
    assert_has(page, "\"v\":[18,\"inf\"]"); /* nothing was lost */
    const char *first = strstr(page, "lowest SQNR"), *worst = strstr(first, "<td>");
    assert_true(strncmp(worst, "<td>h.0.a.fprop.w</td><td>nvfp4</td><td class=\"number\">12.0",
                        58) == 0);
    assert_has(page, "25 %");
    free(page);
    run_free(&r);
}

/* ---- the plan ---- */

static void test_plan_when_there_is_one_then_the_page_sums_it_up(void **s) {
    (void)s;
    run_folder r = run_make(whole);
    char *page = run_page(&r);
    assert_has(page, "<dd>00ff</dd>");
    assert_has(page, "small.lua:3: all-fp4: no layer is kept");
    assert_has(page, "<td>nvfp4</td><td class=\"number\">3</td><td class=\"number\">900</td>");
    assert_has(page, "<td>abcd</td>");
    assert_has(page, "5.00 MB");
    assert_has(page, "return recipe { } -- a &lt; b\n");
    free(page);
    run_free(&r);
}

/* ---- files that are not as they should be ---- */

static void test_report_when_the_last_line_is_torn_then_it_is_left_out_in_silence(void **s) {
    (void)s;
    run_folder r = run_make(PHASE STEP(0, 32, 4, false) "{\"event\":\"step\",\"st");
    char *page = run_page(&r);
    assert_has(page, "1 of 4 steps");
    assert_null(strstr(page, "cannot be understood"));
    free(page);
    run_free(&r);
}

static void test_report_when_lines_make_no_sense_then_they_are_counted(void **s) {
    (void)s;
    run_folder r = run_make(
        PHASE STEP(0, 32, 4, false) "nonsense\n[1,2]\n"
                                    "{\"event\":7}\n{\"step\":1}\n" STEP(1, 64, 3, false));
    put(&r, "timing.jsonl",
        "{\"step\":\"x\"}\n{}\nnull\n{\"step\":5e300,\"tokens_per_s\":1}\n");
    put(&r, "telemetry.jsonl", "{\"operand\":\"no.step\"}\n{\"step\":0,\"operand\":\"w\"}\n");
    put(&r, "plan.json",
        "{\"phases\":7,\"layers\":{\"a\":1},\"bytes\":[1],\"coverage\":\"x\"}");
    char *page = run_page(&r);
    assert_has(page, "metrics.jsonl: 2 of 7 lines cannot be understood and are left out; the "
                     "first is line 3.");
    assert_has(page, "2 of 2 steps"); /* what the plan would say is not known */
    free(page);
    run_free(&r);
}

static void test_report_when_files_are_missing_then_the_rest_is_drawn(void **s) {
    (void)s;
    static const char *const names[] = {"timing.jsonl", "telemetry.jsonl", "plan.json",
                                        "recipe.lua"};
    char path[256];
    run_folder r = run_make(whole);
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", r.f.path, names[i]);
        assert_int_equal(remove(path), 0);
    }
    char *page = run_page(&r);
    assert_has(page, "timing.jsonl cannot be read");
    assert_has(page, "telemetry.jsonl cannot be read");
    assert_has(page, "plan.json cannot be read");
    assert_has(page, "Done after 4 steps: validation loss 2.7500 nats a token.");
    free(page);
    run_free(&r);
}

static void expect_refusal(const run_folder *r, const char *path, mpt_status status,
                           const char *message) {
    assert_int_equal(mpt_report_run(r->ctx, path), status);
    if (!strstr(mpt_ctx_error(r->ctx)->message, message))
        fail_msg("expected '%s': %s", message, mpt_ctx_error(r->ctx)->message);
}

static void test_report_when_the_folder_is_none_of_a_run_then_refused(void **s) {
    (void)s;
    run_folder r = run_make("nonsense\nmore\n");
    char report[256], metrics[256];
    snprintf(report, sizeof report, "%s/report.html", r.f.path);
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", r.f.path);
    expect_refusal(&r, r.f.path, MPT_DATA,
                   "metrics.jsonl:1: no line of it is an object of JSON");
    assert_int_equal(remove(metrics), 0);
    expect_refusal(&r, r.f.path, MPT_NOT_FOUND, "name the folder of a run");
    expect_refusal(&r, "/no/such", MPT_NOT_FOUND, "/no/such: there is no such folder");
    assert_null(fopen(report, "r"));
    put(&r, "metrics.jsonl", whole);
    put(&r, "report.html", "mine");
    expect_refusal(&r, r.f.path, MPT_INVALID, "is there and is no page of a report");
    run_free(&r);
}

static void test_report_when_names_are_hostile_then_they_are_shown_and_never_run(void **s) {
    (void)s;
    run_folder r = run_make(
        "{\"event\":\"phase\",\"step\":0,\"phase\":\"</script><script>alert(1)</script>\"}\n"
        "{\"event\":\"phase\",\"step\":0,\"phase\":\"<img src=x onerror=alert(2)>\"}\n" STEP(
            0, 32, 4, false) "{\"event\":\"skip\",\"step\":0,\"tensor\":\"<script>alert(3)</"
                             "script>\",\"fault\":\"%s%n\"}\n");
    put(&r, "plan.json",
        "{\"recipe\":\"<script>alert(4)</script>\",\"layers\":[{\"path\":\"<script>\"}]}");
    put(&r, "telemetry.jsonl", OPERAND(0, "<script>alert(5)</script>.fprop.x", 1, 0));
    put(&r, "recipe.lua", "</pre><script>alert(6)</script>");
    char path[256];
    assert_mpt_ok(r.ctx, mpt_report_run(r.ctx, r.f.path));
    snprintf(path, sizeof path, "%s/report.html", r.f.path);
    char *page = page_read(path);
    assert_int_equal(page_count(page, "<script>"), 1); /* the page's own */
    assert_int_equal(page_count(page, "<img"), 0);
    assert_int_equal(page_count(page, "</pre>"), 1);
    for (int i = 0; i < 6; i++)
        json_decref(page_drawing(page, i));
    free(page);
    run_free(&r);
}

/* Every allocation of the library's own fails once. */
static void test_report_when_an_allocation_fails_then_no_page_and_no_memory_is_left(void **s) {
    (void)s;
    allowance a;
    run_folder r = run_make(PHASE STEP(0, 32, 4, false) SKIP(0) EVAL(1, 32, 4) "bad\n" DONE(1));
    put(&r, "telemetry.jsonl", OPERAND(0, "h.fprop.x", 1, 0) OPERAND(0, "h.fprop.w", 1, 0));
    mpt_ctx *ctx = allowance_context(&a, -1);
    int files = folder_count(&r.f);
    long n = 0;
    for (mpt_status status = MPT_IO; status != MPT_OK; n++) {
        long live = a.live;
        a.left = n;
        status = mpt_report_run(ctx, r.f.path);
        a.left = -1;
        assert_int_equal(a.live, live);
        assert_int_equal(folder_count(&r.f), files + (status == MPT_OK));
        if (status != MPT_OK) {
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
            assert_int_equal(mpt_ctx_error(ctx)->code, MPT_OUT_OF_MEMORY);
        }
    }
    assert_true(n > 10);
    mpt_ctx_destroy(ctx);
    run_free(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_verdict_when_a_run_ends_then_it_says_how),
    cmocka_unit_test(test_verdict_when_a_run_goes_wrong_then_it_has_diverged),
    cmocka_unit_test(test_verdict_when_a_loss_scale_finds_its_place_then_that_is_no_fault),
    cmocka_unit_test(test_curves_when_a_run_is_whole_then_they_hold_its_numbers),
    cmocka_unit_test(test_curves_when_things_happened_then_they_are_marked_and_listed),
    cmocka_unit_test(test_map_when_there_is_telemetry_then_rows_are_operands_by_layer),
    cmocka_unit_test(test_plan_when_there_is_one_then_the_page_sums_it_up),
    cmocka_unit_test(test_report_when_the_last_line_is_torn_then_it_is_left_out_in_silence),
    cmocka_unit_test(test_report_when_lines_make_no_sense_then_they_are_counted),
    cmocka_unit_test(test_report_when_files_are_missing_then_the_rest_is_drawn),
    cmocka_unit_test(test_report_when_the_folder_is_none_of_a_run_then_refused),
    cmocka_unit_test(test_report_when_names_are_hostile_then_they_are_shown_and_never_run),
    cmocka_unit_test(test_report_when_an_allocation_fails_then_no_page_and_no_memory_is_left),
};

MPT_TEST_MAIN(cases)
