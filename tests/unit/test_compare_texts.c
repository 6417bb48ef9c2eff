/* Comparisons as they are told: what really ran beside what a name says (P45), JSON,
 * the page; folders that cannot be read; memory that runs out. */
#include "mpt_test.h"

#include <jansson.h>

#include "allowance.h"
#include "compare_case.h"
#include "writers.h"

static void add(compare_case *c, const char *name, int recipe, double loss, const char *a) {
    case_add_run(
        c,
        (case_run){
            .name = name, .recipe = recipe, .loss = loss, .eval = loss, .steps = 20, .a = a});
}

/* ---- labels ---- */

static void test_P45_when_a_recipe_named_fp8_ran_in_bf16_then_told_with_both_hashes(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    add(&c, "gpt2_bf16", 0, 2, NULL);
    add(&c, "gpt2_fp8", 1, 2, NULL);
    mpt_comparison *comparison = case_compare(&c, 0.01);
    assert_int_equal(case_row(comparison, 1).quantized_gemms, 0);
    assert_string_equal(mpt_comparison_verdict(comparison),
                        "gpt2_fp8 is within 1 % of gpt2_bf16 (+0.00 %), but 0 quantized GEMMs "
                        "ran");
    mpt_str_init(&text, c.ctx);
    assert_mpt_ok(c.ctx, mpt_comparison_print(comparison, false, keep, &text));
    has(text.data, "gpt2_fp8: its name says fp8, but 0 quantized GEMMs ran: bf16 100.0 %");
    has(text.data, "hash_of_gpt2_fp8");
    has(text.data, "hash_of_gpt2_bf16");
    mpt_str_deinit(&text);
    case_end(&c, comparison);
}

static void test_label_when_it_holds_or_promises_nothing_then_nothing_is_flagged(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    add(&c, "gpt2_bf16", 0, 2, NULL);
    add(&c, "gpt2_fp8", 1, 2, "e4m3");
    add(&c, "other", 2, 2, NULL);
    mpt_comparison *comparison = case_compare(&c, 0.01);
    mpt_str_init(&text, c.ctx);
    assert_mpt_ok(c.ctx, mpt_comparison_print(comparison, false, keep, &text));
    assert_null(strstr(text.data, "its name says"));
    has(text.data, "other: 0 quantized GEMMs ran, all in the formats of gpt2_bf16");
    has(text.data, "e4m3 75.0 %, bf16 25.0 %");
    mpt_str_deinit(&text);
    case_end(&c, comparison);
}

/* ---- JSON and the page ---- */

static void test_json_when_printed_then_the_names_of_the_manual(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    double loss;
    json_int_t n;
    const char *name, *hash;
    case_open(&c);
    add(&c, "a", 0, 2, NULL);
    add(&c, "b", 1, 2.5, "nvfp4");
    c.runs[1].name = "b \"quoted\" <i>";
    mpt_comparison *comparison = case_compare(&c, 0.01);
    mpt_str_init(&text, c.ctx);
    assert_mpt_ok(c.ctx, mpt_comparison_print(comparison, true, keep, &text));
    json_t *rows = json_loads(text.data, 0, NULL);
    assert_int_equal(json_array_size(rows), 2);
    double difference, speed;
    assert_int_equal(json_unpack(json_array_get(rows, 1),
                                 "{s:s, s:s, s:I, s:f, s:f, s:n, s:f, s:{s:I, s:I}}", "recipe",
                                 &name, "schedule_hash", &hash, "quantized_gemms", &n,
                                 "final_loss", &loss, "relative_difference", &difference,
                                 "noise", "tokens_per_s", &speed, "gemms_by_format", "nvfp4",
                                 &n, "bf16", &n),
                     0);
    assert_string_equal(name, "b \"quoted\" <i>");
    assert_near(difference, 0.25);
    json_decref(rows);
    mpt_str_deinit(&text);
    case_end(&c, comparison);
}

static void test_page_when_written_then_it_opens_on_the_verdict_and_links_the_runs(void **s) {
    (void)s;
    compare_case c;
    char path[160];
    case_open(&c);
    add(&c, "a", 0, 2, NULL);
    add(&c, "b", 1, 2.5, "nvfp4");
    mpt_comparison *comparison = case_compare(&c, 0.01);
    snprintf(path, sizeof path, "%s/compare.html", c.root);
    assert_mpt_ok(c.ctx, mpt_comparison_write_page(comparison, path));
    assert_mpt_ok(c.ctx, mpt_comparison_write_page(comparison, path)); /* anew */
    file_bytes page = bytes_read(path);
    page.data[page.size] = 0;
    const char *html = (const char *)page.data, *verdict = strstr(html, "b is not within 1 %");
    assert_non_null(verdict);
    assert_true(verdict < strstr(html, "<h1"));
    assert_true(verdict < strstr(html, "Training loss, smoothed"));
    has(html, "href=\"./1/report.html\"");
    has(html, "What really ran");
    bytes_free(&page);
    case_end(&c, comparison);
}

static void test_print_when_the_writer_refuses_then_io(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "a", 0, 2, NULL);
    mpt_comparison *comparison = case_compare(&c, -1);
    assert_int_equal(mpt_comparison_print(comparison, true, refuse, NULL), MPT_IO);
    assert_int_equal(mpt_comparison_write_page(comparison, "/nowhere/at/all.html"),
                     MPT_NOT_FOUND);
    case_end(&c, comparison);
}

/* ---- folders that do not fit ---- */

static void refused(compare_case *c, mpt_status expected, const char *part) {
    mpt_comparison *comparison;
    mpt_status status = mpt_comparison_create(c->ctx, c->runs, c->n, NULL, &comparison);
    assert_null(comparison);
    if (status != expected)
        fail_msg("%s: %s", mpt_status_name(status), mpt_ctx_error(c->ctx)->message);
    has(mpt_ctx_error(c->ctx)->message, part);
}

static void test_runs_when_they_do_not_belong_together_then_refused(void **s) {
    (void)s;
    static const struct {
        case_run run;
        const char *part;
    } cases[] = {
        {{.model = "large", .steps = 20}, "these runs trained different models"},
        {{.steps = 19}, "these runs have different numbers of steps"},
        {{.steps = 0,
          .planned = 20,
          .killed = true,
          .extra = "{\"event\":\"step\",\"step\":0,\"tokens\":65,\"loss\":2}\n"},
         "these runs saw different numbers of tokens a step"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        compare_case c;
        case_run run = cases[i].run;
        case_open(&c);
        add(&c, "a", 0, 2, NULL);
        run.name = "b";
        run.recipe = 1;
        run.loss = run.eval = 2;
        case_add_run(&c, run);
        refused(&c, MPT_DATA, cases[i].part);
        case_close(&c);
    }
}

static void test_files_when_broken_then_named_with_their_line(void **s) {
    (void)s;
    static const struct {
        const char *file, *text;
        mpt_status status;
        const char *part;
    } cases[] = {
        {"metrics.jsonl", "{\"event\":\"step\",\"step\":0}\nhello\n", MPT_DATA,
         "metrics.jsonl:2: not a JSON object"},
        {"metrics.jsonl", "{\"loss\":1}\n", MPT_DATA, "metrics.jsonl:1: event: missing"},
        {"metrics.jsonl", "{\"event\":\"gemms\",\"runs\":-4}\n", MPT_DATA,
         "metrics.jsonl:1: gemms: runs is no count"},
        {"metrics.jsonl", NULL, MPT_NOT_FOUND, "metrics.jsonl"},
        {"timing.jsonl", "{\"step_ms\":\"fast\"}\n", MPT_DATA, "timing.jsonl:1: step_ms"},
        {"plan.json", "{\"phases\":[]}", MPT_DATA, "phases: the plan has none with steps"},
        {"plan.json", "{\"phases\":[{\"steps\":9223372036854775807}]}", MPT_DATA,
         "phases: the plan has none with steps"},
        {"plan.json", "{\"phases\":[{\"steps\":200000000000000},{\"steps\":200000000000000}]}",
         MPT_DATA, "phases: the plan has none with steps"},
        {"plan.json", "[1, 2]", MPT_DATA, "not a plan as JSON"},
        {"plan.json", "", MPT_DATA, "plan.json: not a plan as JSON"},
        {"plan.json", NULL, MPT_NOT_FOUND, "plan.json"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        compare_case c;
        char path[160];
        case_open(&c);
        add(&c, "a", 0, 2, NULL);
        snprintf(path, sizeof path, "%s/%s", c.paths[0], cases[i].file);
        if (cases[i].text)
            case_file(c.paths[0], cases[i].file, cases[i].text);
        else
            assert_int_equal(unlink(path), 0);
        refused(&c, cases[i].status, cases[i].part);
        case_close(&c);
    }
}

static void test_metrics_when_empty_then_a_run_that_broke(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "a", 0, 2, NULL);
    case_file(c.paths[0], "metrics.jsonl", "");
    case_file(c.paths[0], "timing.jsonl", "");
    mpt_comparison *comparison = case_compare(&c, -1);
    assert_int_equal(case_row(comparison, 0).outcome, MPT_COMPARE_BROKE);
    assert_true(isnan(case_row(comparison, 0).tokens_per_s));
    case_end(&c, comparison);
}

/* ---- memory ---- */

static mpt_status everything(mpt_ctx *ctx, const compare_case *c) {
    mpt_comparison *comparison, *opened = NULL;
    mpt_str text;
    char path[160];
    MPT_TRY(mpt_comparison_create(ctx, c->runs, c->n, NULL, &comparison));
    mpt_str_init(&text, ctx);
    snprintf(path, sizeof path, "%s/compare.html", c->root);
    mpt_status status = mpt_comparison_write_page(comparison, path);
    snprintf(path, sizeof path, "%s/compare.json", c->root);
    if (status == MPT_OK)
        status = mpt_comparison_write_index(comparison, path);
    if (status == MPT_OK)
        status = mpt_comparison_open(ctx, path, &opened);
    mpt_comparison_destroy(opened);
    for (int json = 0; status == MPT_OK && json < 2; json++) {
        text.len = 0;
        status = mpt_comparison_print(comparison, json, keep, &text);
        if (status == MPT_IO && text.failed) /* what keeps the text ran out as well */
            status = mpt_fail_memory(ctx, text.cap);
    }
    mpt_str_deinit(&text);
    mpt_comparison_destroy(comparison);
    return status;
}

static void test_calls_when_any_allocation_fails_then_clean(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "a", 0, 2, NULL);
    case_add_run(&c, (case_run){.name = "b",
                                .recipe = 1,
                                .loss = 2.5,
                                .eval = 2.5,
                                .steps = 20,
                                .a = "nvfp4",
                                .fields = "\"train.clip\":\"1\""});
    mpt_status status = MPT_OUT_OF_MEMORY;
    long n = 0;
    for (; status != MPT_OK; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        a.left = n;
        status = everything(ctx, &c);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        if (status != MPT_OK)
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
    }
    assert_true(n > 20);
    case_close(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_P45_when_a_recipe_named_fp8_ran_in_bf16_then_told_with_both_hashes),
    cmocka_unit_test(test_label_when_it_holds_or_promises_nothing_then_nothing_is_flagged),
    cmocka_unit_test(test_json_when_printed_then_the_names_of_the_manual),
    cmocka_unit_test(test_page_when_written_then_it_opens_on_the_verdict_and_links_the_runs),
    cmocka_unit_test(test_print_when_the_writer_refuses_then_io),
    cmocka_unit_test(test_runs_when_they_do_not_belong_together_then_refused),
    cmocka_unit_test(test_files_when_broken_then_named_with_their_line),
    cmocka_unit_test(test_metrics_when_empty_then_a_run_that_broke),
    cmocka_unit_test(test_calls_when_any_allocation_fails_then_clean),
};

MPT_TEST_MAIN(cases)
