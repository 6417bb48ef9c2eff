/* What two runs have in common and what not, as their folders say it; comparisons that are
 * opened again from their list of runs; what the page shows of many recipes. */
#include "mpt_test.h"

#include <jansson.h>

#include "compare_case.h"
#include "report/compare.h"
#include "writers.h"

static const char low[] = "\"train.lr.peak\":\"0.001\",\"train.seed\":\"1\"",
                  high[] = "\"train.lr.peak\":\"0.01\",\"train.seed\":\"2\"";

static case_run run_of(const char *name, int recipe, double loss) {
    return (case_run){
        .name = name, .recipe = recipe, .loss = loss, .eval = loss, .steps = 20, .fields = low};
}

static void print(const mpt_comparison *comparison, bool json, mpt_str *out, mpt_ctx *ctx) {
    mpt_str_init(out, ctx);
    assert_mpt_ok(ctx, mpt_comparison_print(comparison, json, keep, out));
}

/* The page as text; to be freed. */
static file_bytes page_of(compare_case *c, const mpt_comparison *comparison) {
    char path[160];
    snprintf(path, sizeof path, "%s/compare.html", c->root);
    assert_mpt_ok(c->ctx, mpt_comparison_write_page(comparison, path));
    file_bytes page = bytes_read(path);
    page.data[page.size] = 0;
    return page;
}

/* ---- the same computation, or not ---- */

static void test_schedule_when_same_with_another_learning_rate_then_not_the_same(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    case_run base = run_of("base", 0, 2), up = run_of("up", 1, 1.9),
             twin = run_of("twin", 2, 2);
    base.hash = up.hash = twin.hash = "one_schedule";
    up.fields = high;
    case_add_run(&c, base);
    case_add_run(&c, up);
    case_add_run(&c, twin);
    mpt_comparison *comparison = case_compare(&c, -1);
    has(mpt_comparison_verdict(comparison),
        "up ends -5.0 % from base, not of precision: train.lr.peak differs");
    lacks(mpt_comparison_verdict(comparison), "seed");
    print(comparison, false, &text, c.ctx);
    has(text.data, "note: up: compiles to the same schedule as base; what differs is "
                   "train.lr.peak (0.001 in base, 0.01 here)");
    lacks(text.data, "every loss"); /* their recipe hashes are not the same */
    mpt_str_deinit(&text);
    print(comparison, true, &text, c.ctx);
    has(text.data, "what differs is train.lr.peak");
    mpt_str_deinit(&text);
    file_bytes page = page_of(&c, comparison);
    has((const char *)page.data, "what differs is train.lr.peak");
    bytes_free(&page);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_precision_when_it_differs_beside_training_then_both_are_told(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    case_run up = run_of("up", 1, 1.9);
    up.fields = "\"train.lr.peak\":\"0.01\",\"train.seed\":\"2\",\"train.clip\":\"1\"";
    case_add_run(&c, run_of("base", 0, 2));
    case_add_run(&c, up);
    mpt_comparison *comparison = case_compare(&c, 0.01);
    has(mpt_comparison_verdict(comparison),
        "up is within 1 % of base (-5.0 %), not of precision alone: train.lr.peak and 1 more "
        "differ, too");
    print(comparison, false, &text, c.ctx);
    has(text.data, "note: up: not precision alone: train.lr.peak (0.001 in base, 0.01 here), "
                   "train.clip (none in base, 1 here) differ, too");
    mpt_str_deinit(&text);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_data_when_it_differs_then_refused_and_its_paths_may(void **s) {
    (void)s;
    static const struct {
        const char *fields, *data;
        bool same;
    } cases[] = {
        {"\"data.seed\":\"0\"", "\"source\":\"a\",\"unigram\":3.5", true},
        {"\"data.seed\":\"1\"", "\"source\":\"a\",\"unigram\":3.5", false},
        {"\"data.path\":\"/elsewhere\"", "\"source\":\"b\",\"unigram\":3.5", true},
        {"\"data.seed\":\"0\"", "\"source\":\"a\",\"unigram\":3.25", false},
        {"\"data.seed\":\"0\"", "\"source\":\"b\",\"unigram\":null", false},
        {"\"data.seed\":\"0\"", "\"windows\":\"9\",\"unigram\":3.5", false},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        compare_case c;
        mpt_comparison *comparison;
        case_open(&c);
        case_run a = run_of("a", 0, 2), b = run_of("b", 1, 2);
        a.fields = cases[0].fields;
        a.data = cases[0].data;
        b.fields = cases[i].fields;
        b.data = cases[i].data;
        case_add_run(&c, a);
        case_add_run(&c, b);
        mpt_status status = mpt_comparison_create(c.ctx, c.runs, c.n, NULL, &comparison);
        assert_int_equal(status, cases[i].same ? MPT_OK : MPT_DATA);
        if (!cases[i].same)
            has(mpt_ctx_error(c.ctx)->message, "these runs were trained on different data");
        mpt_comparison_destroy(comparison);
        case_close(&c);
    }
}

/* ---- recipes found in the plans ---- */

static void test_folders_when_recipes_are_found_then_paired_by_seed(void **s) {
    (void)s;
    compare_case c;
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    mpt_comparison *comparison;
    case_open(&c);
    for (int i = 0; i < 6; i++) {
        case_run run = run_of(i % 2 ? "b" : "a", 0, i % 2 ? 2.2 : 2);
        run.seed = (uint64_t)(i / 2);
        if (i >= 4) { /* the same name and seed as the first, with another learning rate */
            run.seed = 0;
            run.fields = high;
        }
        case_add_run(&c, run);
        c.runs[i].seed = 77;
    }
    c.n = 5;
    options.find_recipes = true;
    assert_mpt_ok(c.ctx, mpt_comparison_create(c.ctx, c.runs, c.n, &options, &comparison));
    assert_int_equal(case_row(comparison, 0).n_runs, 2);
    assert_int_equal(case_row(comparison, 1).n_runs, 2);
    assert_string_equal(case_row(comparison, 1).recipe, "b");
    assert_near(case_row(comparison, 1).relative_difference, 0.1);
    assert_near(case_row(comparison, 1).noise, 0);
    assert_string_equal(case_row(comparison, 0).recipe, c.paths[0]); /* its name is taken */
    assert_string_equal(case_row(comparison, 2).recipe, c.paths[4]);
    mpt_comparison_destroy(comparison);
    c.n = 6;
    case_close(&c);
}

/* ---- runs that are not begun, and the list of runs ---- */

static void test_runs_when_not_begun_then_told_and_no_loss_is_promised(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    mpt_comparison *comparison;
    case_open(&c);
    case_run base = run_of("base", 0, 2);
    base.steps = 7;
    base.planned = 20;
    case_add_run(&c, base);
    c.runs[1] =
        (mpt_compare_run){.folder = "nowhere", .name = "other", .recipe = 1, .not_begun = true};
    assert_mpt_ok(c.ctx, mpt_comparison_create(c.ctx, c.runs, 2, NULL, &comparison));
    assert_string_equal(mpt_comparison_verdict(comparison),
                        "base was ended after 7 of 20 steps; other was not begun");
    assert_int_equal(case_row(comparison, 1).outcome, MPT_COMPARE_UNFINISHED);
    print(comparison, false, &text, c.ctx);
    has(text.data, "no run ended after its 20 steps with a loss");
    lacks(text.data, "validation loss after");
    has(text.data, "note: other: not begun");
    mpt_str_deinit(&text);
    file_bytes page = page_of(&c, comparison);
    has((const char *)page.data, "<td>other</td>");
    lacks((const char *)page.data, "nowhere/report.html");
    bytes_free(&page);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_index_when_opened_then_the_same_verdict_and_bound(void **s) {
    (void)s;
    compare_case c;
    char path[160];
    mpt_comparison *opened;
    case_open(&c);
    snprintf(path, sizeof path, "%s/compare.json", c.root);
    case_add_run(&c, run_of("a", 0, 2));
    case_add_run(&c, run_of("b", 1, 2.5));
    c.runs[1].seed = c.runs[0].seed = UINT64_MAX;
    mpt_comparison *comparison = case_compare(&c, 0.01);
    assert_mpt_ok(c.ctx, mpt_comparison_write_index(comparison, path));
    assert_mpt_ok(c.ctx, mpt_comparison_write_index(comparison, path)); /* anew */
    assert_mpt_ok(c.ctx, mpt_comparison_open(c.ctx, path, &opened));
    assert_string_equal(mpt_comparison_verdict(opened), mpt_comparison_verdict(comparison));
    assert_int_equal(case_row(opened, 1).outcome, MPT_COMPARE_BEYOND);
    mpt_comparison_destroy(opened);
    /* A kill before the first step leaves files without lines. */
    case_file(c.paths[1], "metrics.jsonl", "");
    assert_mpt_ok(c.ctx, mpt_comparison_open(c.ctx, path, &opened));
    assert_string_equal(mpt_comparison_verdict(opened), "b was not begun");
    mpt_comparison_destroy(opened);
    /* Or not even these. */
    char plan[160];
    snprintf(plan, sizeof plan, "%s/plan.json", c.paths[1]);
    assert_int_equal(unlink(plan), 0);
    assert_mpt_ok(c.ctx, mpt_comparison_open(c.ctx, path, &opened));
    assert_string_equal(mpt_comparison_verdict(opened), "b was not begun");
    mpt_comparison_destroy(opened);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_index_when_broken_or_anothers_then_refused(void **s) {
    (void)s;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "not JSON"},
        {"{}", "no list of compared runs"},
        {"{\"comparison\":{\"runs\":[]}}", "no list of compared runs"},
        {"{\"comparison\":{\"runs\":[7]}}", "one is no run"},
        {"{\"comparison\":{\"runs\":[{\"folder\":\"x\",\"recipe\":\"a\",\"number\":1,"
         "\"seed\":1}]}}",
         "not numbered"},
        {"{\"comparison\":{\"runs\":[{\"folder\":\"x\",\"recipe\":\"a\","
         "\"number\":99999999999,\"seed\":1}]}}",
         "one is no run"},
    };
    compare_case c;
    char path[160];
    mpt_comparison *opened;
    case_open(&c);
    snprintf(path, sizeof path, "%s/compare.json", c.root);
    assert_int_equal(mpt_comparison_open(c.ctx, path, &opened), MPT_NOT_FOUND);
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        case_file(c.root, "compare.json", cases[i].text);
        assert_int_equal(mpt_comparison_open(c.ctx, path, &opened), MPT_DATA);
        assert_null(opened);
        has(mpt_ctx_error(c.ctx)->message, cases[i].part);
        has(mpt_ctx_error(c.ctx)->message, "compare.json");
    }
    case_add_run(&c, run_of("a", 0, 2));
    mpt_comparison *comparison = case_compare(&c, -1);
    case_file(c.root, "compare.json", "my own notes");
    assert_int_equal(mpt_comparison_write_index(comparison, path), MPT_INVALID);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

/* ---- labels and bounds ---- */

static void test_label_when_empty_then_the_row_says_so_and_one_hash_is_told_once(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    case_add_run(&c, run_of("m_fp8", 0, 2));
    mpt_comparison *comparison = case_compare(&c, 0.01);
    assert_true(case_row(comparison, 0).empty_label);
    has(mpt_comparison_verdict(comparison), "m_fp8 ran 0 quantized GEMMs");
    print(comparison, false, &text, c.ctx);
    has(text.data, "(recipe hash hash_of_m_fp8)");
    mpt_str_deinit(&text);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_page_when_a_label_is_empty_then_bad_only_where_the_exit_status_is(void **s) {
    (void)s;
    for (int bound = 0; bound < 2; bound++) {
        compare_case c;
        case_open(&c);
        case_add_run(&c, run_of("m_bf16", 0, 2));
        case_add_run(&c, run_of("m_fp8", 1, 2));
        mpt_comparison *comparison = case_compare(&c, bound ? 0.01 : -1);
        file_bytes page = page_of(&c, comparison);
        has((const char *)page.data, bound ? "\"verdict bad\"" : "\"verdict plain\"");
        bytes_free(&page);
        mpt_comparison_destroy(comparison);
        case_close(&c);
    }
}

/* ---- figures ---- */

static void test_figures_when_small_then_text_and_page_have_the_same_digits(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    case_open(&c);
    for (int seed = 0; seed < 2; seed++)
        for (int r = 0; r < 2; r++) {
            double loss = r == 0 ? 2 : seed == 0 ? 1.9991 : 1.9995;
            case_run run = run_of(r ? "b" : "a", r, loss);
            run.seed = (uint64_t)seed;
            case_add_run(&c, run);
        }
    mpt_comparison *comparison = case_compare(&c, -1);
    print(comparison, false, &text, c.ctx);
    file_bytes page = page_of(&c, comparison);
    has(text.data, "-0.035 %  0.014 %");
    has((const char *)page.data, ">-0.035 %</td>");
    has((const char *)page.data, ">0.014 %</td>");
    has(text.data, "noise is one standard deviation of the differences to a");
    bytes_free(&page);
    mpt_str_deinit(&text);
    print(comparison, true, &text, c.ctx);
    has(text.data, "\"tokens\": 64,");
    lacks(text.data, "\"tokens\": 64.0");
    mpt_str_deinit(&text);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

/* ---- plots ---- */

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static void test_plots_when_many_recipes_then_the_most_telling_and_the_rest_is_said(void **s) {
    (void)s;
    compare_case c;
    char names[CASE_RUNS][16];
    case_open(&c);
    for (int r = 0; r < 20; r++) {
        snprintf(names[r], sizeof names[r], "recipe-%02d", r);
        case_add_run(&c, run_of(names[r], r, 2 + 0.001 * r));
    }
    mpt_comparison *comparison = case_compare(&c, -1);
    file_bytes page = page_of(&c, comparison);
    const char *html = (const char *)page.data;
    assert_int_equal(count_of(html, "{\"name\":\"recipe-00\""), 4); /* a plot each */
    assert_int_equal(count_of(html, "{\"name\":\"recipe-19\""), 4);
    assert_int_equal(count_of(html, "{\"name\":\"recipe-04\""), 0);
    assert_int_equal(count_of(html, "{\"name\":\"recipe-05\""), 4);
    has(html, "The plots have 16 of 20 recipes");
    bytes_free(&page);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_plots_when_a_recipe_diverged_then_the_axes_fit_the_others(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    case_add_run(&c, run_of("a", 0, 2));
    case_add_run(&c, run_of("b", 1, 2.01));
    case_run wild = run_of("wild", 2, 1e8);
    wild.planned = 20;
    wild.steps = 9;
    wild.killed = true;
    case_add_run(&c, wild);
    case_add_run(&c, run_of("high", 3, 9));
    mpt_comparison *comparison = case_compare(&c, -1);
    file_bytes page = page_of(&c, comparison);
    const char *html = (const char *)page.data;
    assert_int_equal(count_of(html, "\"aside\":true"),
                     2 * 4); /* in each plot, that all have their colours */
    has(html, "{\"name\":\"wild\",\"dots\":true,\"aside\":true");
    has(html, "twice the loss of the base: wild, high. The axes of losses fit the others.");
    bytes_free(&page);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_schedule_when_same_with_another_learning_rate_then_not_the_same),
    cmocka_unit_test(test_precision_when_it_differs_beside_training_then_both_are_told),
    cmocka_unit_test(test_data_when_it_differs_then_refused_and_its_paths_may),
    cmocka_unit_test(test_folders_when_recipes_are_found_then_paired_by_seed),
    cmocka_unit_test(test_runs_when_not_begun_then_told_and_no_loss_is_promised),
    cmocka_unit_test(test_index_when_opened_then_the_same_verdict_and_bound),
    cmocka_unit_test(test_index_when_broken_or_anothers_then_refused),
    cmocka_unit_test(test_label_when_empty_then_the_row_says_so_and_one_hash_is_told_once),
    cmocka_unit_test(test_page_when_a_label_is_empty_then_bad_only_where_the_exit_status_is),
    cmocka_unit_test(test_figures_when_small_then_text_and_page_have_the_same_digits),
    cmocka_unit_test(test_plots_when_many_recipes_then_the_most_telling_and_the_rest_is_said),
    cmocka_unit_test(test_plots_when_a_recipe_diverged_then_the_axes_fit_the_others),
};

MPT_TEST_MAIN(cases)
