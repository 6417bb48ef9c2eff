/* The builder of pages: text is text, drawings are data, long series keep their spikes. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "allowance.h"
#include "report/page.h"
#include "report_page.h"

static const char hostile[] = "</script><script>alert(1)</script>&\"'<b>\x01";

/* A page with one of everything, whose texts are all hostile. */
static mpt_status write_hostile(mpt_ctx *ctx, const char *path) {
    static const double x[] = {0, 1, 2}, y[] = {3, NAN, 4}, low[] = {2, 2, 2},
                        high[] = {5, 5, 5};
    static const double values[] = {1, NAN, INFINITY, -INFINITY, 2, 3};
    const char *const rows[] = {hostile, "row"};
    const mpt_series series = {hostile, 3, x, y, low, high, true, false, false};
    const mpt_mark mark = {1, hostile, MPT_PAGE_BAD};
    const mpt_level level = {3.5, hostile};
    const mpt_page_column columns[] = {{hostile, false}, {"n", true}};
    mpt_page page;
    mpt_page_begin(&page, ctx, hostile, MPT_PAGE_GOOD, hostile);
    mpt_page_begin_facts(&page);
    mpt_page_fact(&page, hostile, "%s", hostile);
    mpt_page_end_facts(&page);
    mpt_page_section(&page, hostile);
    mpt_page_note(&page, MPT_PAGE_BAD, "%s", hostile);
    mpt_page_begin_table(&page, hostile, columns, 2);
    for (int i = 0; i < 3; i++) /* the last row is left half */
        mpt_page_cell(&page, "%s", hostile);
    mpt_page_end_table(&page);
    mpt_page_text(&page, hostile, hostile);
    mpt_page_plot(&page, &(mpt_plot){.title = hostile,
                                     .x_name = hostile,
                                     .y_name = hostile,
                                     .series = &series,
                                     .n_series = 1,
                                     .marks = &mark,
                                     .n_marks = 1,
                                     .levels = &level,
                                     .n_levels = 1});
    mpt_page_heat(&page, &(mpt_heat){.title = hostile,
                                     .x_name = hostile,
                                     .value_name = hostile,
                                     .rows = rows,
                                     .n_rows = 2,
                                     .x = x,
                                     .n_columns = 3,
                                     .values = values,
                                     .low = NAN,
                                     .high = NAN});
    return mpt_page_write(&page, path);
}

static void test_page_when_texts_are_hostile_then_they_are_shown_and_never_run(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    assert_mpt_ok(ctx, write_hostile(ctx, f.file));
    char *page = page_read(f.file);
    page_check(page);
    assert_int_equal(page_count(page, "<script>"), 1); /* the page's own */
    assert_int_equal(page_count(page, "<b>"), 0);
    assert_int_equal(page_count(page, "alert(1)"),
                     page_count(page, "&lt;script&gt;alert(1)") +
                         page_count(page, "\\u003cscript\\u003ealert(1)"));
    json_t *plot = page_drawing(page, 0), *heat = page_drawing(page, 1);
    assert_string_equal(json_string_value(json_object_get(plot, "title")), hostile);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(heat, "rows"), 0), "name")),
                        hostile);
    json_decref(plot);
    json_decref(heat);
    free(page);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_page_when_values_are_not_finite_then_json_says_so(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    assert_mpt_ok(ctx, write_hostile(ctx, f.file));
    char *page = page_read(f.file);
    assert_non_null(strstr(page, "\"y\":[3,null,4]"));
    assert_non_null(strstr(page, "\"v\":[1,null,\"inf\"]"));
    assert_non_null(strstr(page, "\"v\":[\"-inf\",2,3]"));
    free(page);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* A million steps, one of them a spike, one a dip, one a gap: the page stays small and has them
 * all. */
static void test_plot_when_a_series_is_long_then_its_spikes_stay(void **s) {
    (void)s;
    enum { N = 1000000, SPIKE = 123456, DIP = 654321, GAP = 999000 };
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    mpt_page page;
    assert_true(x && y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = sin(i * 0.1);
    }
    y[SPIKE] = 77;
    y[DIP] = -55;
    y[GAP] = NAN;
    const mpt_series series = {.name = "s", .n = N, .x = x, .y = y};
    mpt_page_begin(&page, ctx, "long", MPT_PAGE_PLAIN, "long");
    mpt_page_plot(
        &page,
        &(mpt_plot){
            .title = "long", .x_name = "step", .y_name = "", .series = &series, .n_series = 1});
    assert_mpt_ok(ctx, mpt_page_write(&page, f.file));
    char *text = page_read(f.file);
    json_t *plot = page_drawing(text, 0);
    const json_t *kept = json_array_get(json_object_get(plot, "series"), 0);
    const json_t *kept_x = json_object_get(kept, "x"), *kept_y = json_object_get(kept, "y");
    size_t n = json_array_size(kept_x);
    int spikes = 0, dips = 0, gaps = 0;
    assert_in_range(n, 500, 1600);
    assert_int_equal(json_array_size(kept_y), n);
    for (size_t i = 0; i < n; i++) {
        double at = json_number_value(json_array_get(kept_x, i));
        const json_t *value = json_array_get(kept_y, i);
        spikes += at == SPIKE && json_number_value(value) == 77;
        dips += at == DIP && json_number_value(value) == -55;
        gaps += at == GAP && json_is_null(value);
        if (i > 0)
            assert_true(at > json_number_value(json_array_get(kept_x, i - 1)));
    }
    assert_true(spikes == 1 && dips == 1 && gaps == 1);
    assert_true(json_number_value(json_array_get(kept_x, n - 1)) == N - 1);
    json_decref(plot);
    free(text);
    free(x);
    free(y);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Of a stretch of columns the lowest value stays: there something was lost. */
static void test_heat_when_columns_are_many_then_the_lowest_stay(void **s) {
    (void)s;
    enum { N = 5000, LOW = 3333 };
    static double x[N], values[N];
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    const char *const rows[] = {"row"};
    mpt_page page;
    for (int i = 0; i < N; i++) {
        x[i] = i;
        values[i] = 30;
    }
    values[LOW] = 2;
    mpt_page_begin(&page, ctx, "wide", MPT_PAGE_PLAIN, "wide");
    mpt_page_heat(&page, &(mpt_heat){.title = "wide",
                                     .x_name = "step",
                                     .value_name = "dB",
                                     .rows = rows,
                                     .n_rows = 1,
                                     .x = x,
                                     .n_columns = N,
                                     .values = values,
                                     .low = 0,
                                     .high = 40});
    assert_mpt_ok(ctx, mpt_page_write(&page, f.file));
    char *text = page_read(f.file);
    json_t *heat = page_drawing(text, 0);
    const json_t *row = json_object_get(json_array_get(json_object_get(heat, "rows"), 0), "v");
    double lowest = 99;
    size_t n = json_array_size(row);
    assert_in_range(n, 100, 300);
    for (size_t i = 0; i < n; i++)
        lowest = fmin(lowest, json_number_value(json_array_get(row, i)));
    assert_true(lowest == 2);
    json_decref(heat);
    free(text);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_page_when_another_file_has_the_name_then_it_is_not_replaced(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    assert_mpt_ok(ctx, write_hostile(ctx, f.file));
    assert_mpt_ok(ctx, write_hostile(ctx, f.file)); /* its own */
    bytes_write(f.file, "<!doctype html>\nmine", 20);
    assert_int_equal(write_hostile(ctx, f.file), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "is there and is no page of a report"));
    char *text = page_read(f.file);
    assert_string_equal(text, "<!doctype html>\nmine");
    free(text);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_page_when_an_allocation_fails_then_no_file_and_no_memory_is_left(void **s) {
    (void)s;
    allowance a;
    mpt_ctx *ctx = allowance_context(&a, -1);
    folder f = folder_make();
    long n = 0;
    for (mpt_status status = MPT_IO; status != MPT_OK; n++) {
        long live = a.live;
        a.left = n;
        status = write_hostile(ctx, f.file);
        a.left = -1;
        assert_int_equal(a.live, live);
        assert_int_equal(folder_count(&f), status == MPT_OK);
        if (status != MPT_OK)
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
    }
    assert_true(n > 10);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_page_when_texts_are_hostile_then_they_are_shown_and_never_run),
    cmocka_unit_test(test_page_when_values_are_not_finite_then_json_says_so),
    cmocka_unit_test(test_plot_when_a_series_is_long_then_its_spikes_stay),
    cmocka_unit_test(test_heat_when_columns_are_many_then_the_lowest_stay),
    cmocka_unit_test(test_page_when_another_file_has_the_name_then_it_is_not_replaced),
    cmocka_unit_test(test_page_when_an_allocation_fails_then_no_file_and_no_memory_is_left),
};

MPT_TEST_MAIN(cases)
