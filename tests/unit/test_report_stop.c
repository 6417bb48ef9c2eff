/* The report of a run that stopped itself, or whose numbers a plain page would hide: why it
 * stopped, which axis the loss has, what is told of operands that nobody counted; and files of
 * the folder that are no files. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "report_run.h"

/* ---- why it stopped ---- */

#define DIAGNOSIS                                                                              \
    "{\"event\":\"diagnosis\",\"step\":25,\"reason\":\"max_skips\",\"tensor\":\"h.0.mlp\","    \
    "\"op\":\"linear\",\"pass\":\"backward\",\"format\":\"fp16\",\"fault\":\"Inf\",\"nan\":2," \
    "\"inf\":3,\"elements\":64,\"amax\":60000,\"input_amax\":512,\"gradient\":\"h.0.w\","      \
    "\"gradient_fault\":\"NaN\",\"gradient_amax\":7.5,\"loss\":4.25,\"loss_scale\":1,"         \
    "\"loss_scales\":[[0,65536],[20,32768]],\"text\":\"20 steps in a row were skipped\","      \
    "\"advice\":\"lower the learning rate\"}\n"

static void test_page_when_a_run_stopped_itself_then_the_diagnosis_stands_first(void **s) {
    (void)s;
    static const char *const texts[] = {
        "What to try: lower the learning rate.",
        "<td>at step 25: 20 steps in a row were skipped</td>",
        "<td>Inf in h.0.mlp (linear, fp16), in the backward pass</td>",
        "<td>2 of 64 NaN, 3 Inf; amax of the others 6e+04</td>",
        "<td>512</td>",
        "<td>NaN in h.0.w; amax of its finite elements 7.5</td>",
        "<td>65536 from step 0, 32768 from step 20</td>",
    };
    char checkpoint[512];
    run_folder r = run_make(PHASE STEP(0, 32, 4, false) STEP(1, 64, 4, true) DIAGNOSIS);
    char *page = run_page(&r);
    for (size_t i = 0; i < MPT_COUNT(texts); i++)
        assert_has(page, texts[i]);
    assert_true(strstr(page, "<h2>Why it stopped") < strstr(page, "<h2>Curves"));
    assert_null(strstr(page, "max_skips"));
    assert_null(strstr(page, "no good checkpoint"));
    free(page);

    /* The state that was saved at the stop is told as what it is. */
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints", r.f.path);
    assert_int_equal(mkdir(checkpoint, 0777), 0);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-2", r.f.path);
    assert_int_equal(mkdir(checkpoint, 0777), 0);
    page = run_page(&r);
    assert_has(page, "<td>checkpoints/step-2, which is no good checkpoint</td>");
    free(page);
    assert_int_equal(remove(checkpoint), 0);
    *strrchr(checkpoint, '/') = 0;
    assert_int_equal(remove(checkpoint), 0);
    run_free(&r);
}

/* Members that are missing or of another type are no fault of the page. */
static void test_page_when_a_diagnosis_says_nothing_then_there_is_a_page(void **s) {
    (void)s;
    run_folder r = run_make(PHASE STEP(
        0, 32, 4, true) "{\"event\":\"diagnosis\"}\n"
                        "{\"event\":\"diagnosis\",\"reason\":7,\"tensor\":[],\"op\":1,"
                        "\"loss_scales\":[1,[2],{}],\"advice\":\"\"}\n");
    char *page = run_page(&r);
    assert_has(page, "Diverged after 1 step: it stopped itself; ");
    free(page);
    run_free(&r);
}

/* ---- curves ---- */

static json_t *loss_of(const char *metrics, size_t *out_series) {
    run_folder r = run_make(metrics);
    char *page = run_page(&r);
    json_t *plot = page_drawing(page, 0);
    *out_series = json_array_size(json_object_get(plot, "series"));
    free(page);
    run_free(&r);
    return plot;
}

static void test_loss_when_it_runs_over_decades_then_its_axis_is_logarithmic(void **s) {
    (void)s;
    size_t n;
    json_t *plot = loss_of(PHASE STEP(0, 32, 4, false) STEP(1, 64, 8e8, false), &n);
    assert_true(json_is_true(json_object_get(plot, "log")));
    json_decref(plot);
    plot = loss_of(PHASE STEP(0, 32, 9, false) STEP(1, 64, 3, false), &n);
    assert_true(json_is_false(json_object_get(plot, "log")));
    json_decref(plot);
    plot = loss_of(PHASE STEP(0, 32, 0, false) STEP(1, 64, 3000, false), &n); /* 0 has no log */
    assert_true(json_is_false(json_object_get(plot, "log")));
    json_decref(plot);
}

/* Of 1, 2, ... 24 the median of the last eight, at step i: the mean of i - 3 and i - 2. */
static void test_loss_when_steps_are_many_then_a_running_median_stands_beside_it(void **s) {
    (void)s;
    char metrics[8192] = PHASE;
    size_t n, at = strlen(metrics);
    for (int i = 1; i <= 24; i++)
        at += (size_t)snprintf(metrics + at, sizeof metrics - at,
                               "{\"event\":\"step\",\"step\":%d,\"tokens\":%d,\"loss\":%s%d}\n",
                               i - 1, i, i == 10 ? "null,\"x\":" : "", i);
    json_t *plot = loss_of(metrics, &n);
    assert_int_equal(n, 2);
    const json_t *y = json_object_get(json_array_get(json_object_get(plot, "series"), 1), "y");
    assert_true(json_number_value(json_array_get(y, 0)) == 1);
    assert_true(json_number_value(json_array_get(y, 7)) == 4.5);
    assert_true(json_is_null(json_array_get(y, 9)));
    assert_true(json_number_value(json_array_get(y, 23)) == 20.5);
    json_decref(plot);
}

/* ---- what happened, operands ---- */

static void test_events_when_steps_in_a_row_are_skipped_then_they_are_one_row(void **s) {
    (void)s;
    run_folder r = run_make(PHASE STEP(0, 32, 4, true) SKIP(0) STEP(1, 64, 4, true) SKIP(1)
                                STEP(2, 96, 4, true) SKIP(2) STEP(3, 128, 4, false)
                                    STEP(4, 160, 4, true) SKIP(4) DONE(5));
    char *page = run_page(&r);
    assert_has(page, "<td class=\"number\">0 to 2</td><td>skip, 3 times</td>");
    assert_has(page, "<td class=\"number\">4</td><td>skip</td>");
    free(page);
    run_free(&r);
}

static void test_operands_when_nothing_is_quantized_then_the_page_says_so(void **s) {
    (void)s;
    run_folder r = run_make(WHOLE);
    char *page = run_page(&r);
    assert_has(page, "<h2>Operands</h2>");
    assert_has(page, "There are no counts of operands: ");
    free(page);
    put(&r, "telemetry.jsonl",
        "{\"step\":0,\"operand\":\"h.fprop.x\",\"format\":\"nvfp4\",\"sqnr\":20}\n");
    page = run_page(&r);
    assert_has(page, "counted at 1 step of the run");
    assert_null(strstr(page, "There are no counts"));
    free(page);
    run_free(&r);
}

/* ---- what is no file ---- */

static void test_report_when_a_file_is_a_pipe_or_a_folder_then_it_is_refused_at_once(void **s) {
    (void)s;
    static const char *const names[] = {"metrics.jsonl", "telemetry.jsonl", "timing.jsonl",
                                        "plan.json", "recipe.lua"};
    char path[512], wanted[600];
    run_folder r = run_make(WHOLE);
    for (size_t i = 0; i < 2 * MPT_COUNT(names); i++) {
        const char *name = names[i / 2];
        snprintf(path, sizeof path, "%s/%s", r.f.path, name);
        snprintf(wanted, sizeof wanted, "%s: not a regular file", path);
        assert_int_equal(remove(path), 0);
        assert_int_equal(i % 2 ? mkdir(path, 0777) : mkfifo(path, 0666), 0);
        assert_int_equal(mpt_report_run(r.ctx, r.f.path), MPT_DATA);
        assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, wanted));
        assert_int_equal(remove(path), 0);
        put(&r, name, strcmp(name, "metrics.jsonl") == 0 ? WHOLE : "{}\n");
    }
    snprintf(path, sizeof path, "%s/plan.json", r.f.path);
    assert_int_equal(mpt_report_run(r.ctx, path), MPT_NOT_FOUND);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "is a file, and no folder of a run"));
    run_free(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_page_when_a_run_stopped_itself_then_the_diagnosis_stands_first),
    cmocka_unit_test(test_page_when_a_diagnosis_says_nothing_then_there_is_a_page),
    cmocka_unit_test(test_loss_when_it_runs_over_decades_then_its_axis_is_logarithmic),
    cmocka_unit_test(test_loss_when_steps_are_many_then_a_running_median_stands_beside_it),
    cmocka_unit_test(test_events_when_steps_in_a_row_are_skipped_then_they_are_one_row),
    cmocka_unit_test(test_operands_when_nothing_is_quantized_then_the_page_says_so),
    cmocka_unit_test(test_report_when_a_file_is_a_pipe_or_a_folder_then_it_is_refused_at_once),
};

MPT_TEST_MAIN(cases)
