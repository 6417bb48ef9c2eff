/* Comparisons and devices: runs of one recipe on two of them do not compute the same, are one
 * recipe to no mean, and every output says where each ran. And whether two runs are the same is
 * read off their losses. */
#include "mpt_test.h"

#include "compare_case.h"
#include "report/compare.h"
#include "writers.h"

/* Of one recipe and one schedule, whatever its name. */
static case_run run_on(const char *device, const char *name, int recipe, double loss) {
    return (case_run){.name = name,
                      .recipe = recipe,
                      .loss = loss,
                      .eval = loss,
                      .steps = 20,
                      .hash = "one_schedule",
                      .recipe_hash = "one_hash",
                      .fields = "\"train.lr.peak\":\"0.001\"",
                      .device = device};
}

enum { TEXT, JSON, PAGE, OUTPUTS };

/* Each output as text; to be freed. */
static void tell(compare_case *c, const mpt_comparison *comparison, char *out[OUTPUTS]) {
    char path[160];
    for (int json = 0; json < 2; json++) {
        mpt_str text;
        mpt_str_init(&text, c->ctx);
        assert_mpt_ok(c->ctx, mpt_comparison_print(comparison, json, keep, &text));
        out[json] = strdup(text.data);
        mpt_str_deinit(&text);
    }
    snprintf(path, sizeof path, "%s/compare.html", c->root);
    assert_mpt_ok(c->ctx, mpt_comparison_write_page(comparison, path));
    file_bytes page = bytes_read(path);
    page.data[page.size] = 0;
    out[PAGE] = strdup((const char *)page.data);
    bytes_free(&page);
}

static void forget(char *out[OUTPUTS]) {
    for (int i = 0; i < OUTPUTS; i++)
        free(out[i]);
}

static mpt_comparison *compare_two(compare_case *c, case_run a, case_run b,
                                   char *out[OUTPUTS]) {
    case_open(c);
    case_add_run(c, a);
    case_add_run(c, b);
    mpt_comparison *comparison = case_compare(c, -1);
    tell(c, comparison, out);
    return comparison;
}

static void test_devices_when_they_differ_then_all_outputs_tell_them(void **state) {
    (void)state;
    compare_case c;
    char *out[OUTPUTS];
    mpt_comparison *comparison =
        compare_two(&c, run_on("cpu", "la", 0, 2), run_on("ref", "lb", 1, 2.001), out);
    has(mpt_comparison_verdict(comparison), ", not of precision: the device differs");
    has(out[TEXT], "  device\n");
    lacks(out[TEXT], ", on cpu");
    has(out[JSON], "\"device\": \"cpu\"");
    has(out[JSON], "\"device\": \"ref\"");
    has(out[PAGE], ">device<");
    lacks(out[PAGE], "All of it was computed");
    for (int i = 0; i < OUTPUTS; i++) {
        has(out[i], "what differs is the device (cpu in la, ref here)");
        lacks(out[i], "every loss");
    }
    assert_string_equal(case_row(comparison, 1).device, "ref");
    forget(out);
    case_end(&c, comparison);
}

static void test_devices_when_all_are_alike_then_one_word(void **state) {
    (void)state;
    compare_case c;
    char *out[OUTPUTS];
    mpt_comparison *comparison =
        compare_two(&c, run_on("cpu", "la", 0, 2), run_on("cpu", "lb", 1, 2), out);
    has(out[TEXT], "mean over 1 seed, on cpu\n");
    lacks(out[TEXT], "  device\n");
    has(out[PAGE], "All of it was computed on cpu.");
    lacks(out[PAGE], ">device<");
    for (int i = 0; i < OUTPUTS; i++)
        has(out[i], "lb: has recipe hash, schedule and every loss of la");
    forget(out);
    case_end(&c, comparison);
}

/* A plan of an older build does not say it: nothing is made up, and nothing is claimed. */
static void test_devices_when_unknown_then_neither_column_nor_word(void **state) {
    (void)state;
    compare_case c;
    char *out[OUTPUTS];
    mpt_comparison *comparison =
        compare_two(&c, run_on(NULL, "la", 0, 2), run_on(NULL, "lb", 1, 2), out);
    lacks(out[TEXT], "device");
    has(out[JSON], "\"device\": null");
    lacks(out[PAGE], "All of it was computed");
    forget(out);
    case_end(&c, comparison);
}

/* One recipe on one device with other first weights, say: the hashes cannot tell, losses do. */
static void test_losses_when_they_differ_under_one_hash_then_no_sameness(void **state) {
    (void)state;
    compare_case c;
    char *out[OUTPUTS];
    case_run b = run_on("cpu", "lb", 1, 2);
    b.nan_from = 19; /* the last loss alone */
    mpt_comparison *comparison = compare_two(&c, run_on("cpu", "la", 0, 2), b, out);
    for (int i = 0; i < OUTPUTS; i++) {
        has(out[i], "lb: has recipe hash and schedule of la, and not the same losses");
        lacks(out[i], "every loss");
    }
    forget(out);
    case_end(&c, comparison);
}

static void test_device_when_a_run_went_on_elsewhere_then_both_are_its(void **state) {
    (void)state;
    compare_case c;
    char *out[OUTPUTS];
    case_run b = run_on("cpu", "lb", 1, 2);
    b.extra = "{\"event\":\"device\",\"step\":10,\"from\":\"cpu\",\"to\":\"ref\"}\n"
              "{\"event\":\"device\",\"step\":15,\"from\":\"ref\",\"to\":\"cpu\"}\n";
    mpt_comparison *comparison = compare_two(&c, run_on("cpu", "la", 0, 2), b, out);
    assert_string_equal(case_row(comparison, 1).device,
                        "cpu until step 10, then ref until step 15, then cpu");
    for (int i = 0; i < OUTPUTS; i++)
        has(out[i], "the device (cpu in la, cpu until step 10, then ref until step 15, ");
    forget(out);
    case_end(&c, comparison);
    case_open(&c);
    b.extra = "{\"event\":\"device\",\"step\":10,\"to\":\"ref\"}\n";
    case_add_run(&c, b);
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    assert_int_equal(mpt_comparison_create(c.ctx, c.runs, 1, &options, &comparison),
                     MPT_INVALID); /* its recipes are not numbered from 0 */
    c.runs[0].recipe = 0;
    assert_int_equal(mpt_comparison_create(c.ctx, c.runs, 1, &options, &comparison), MPT_DATA);
    has(mpt_ctx_error(c.ctx)->message, "metrics.jsonl:1: device: from, to or step is missing");
    case_close(&c);
}

/* Seeds are summed up in one row, so they are of one device: folders are told apart by it, and
 * where the caller has numbered them they are refused. */
static void test_seeds_when_of_two_devices_then_split_or_refused(void **state) {
    (void)state;
    compare_case c;
    mpt_comparison *comparison;
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    case_open(&c);
    for (int i = 0; i < 4; i++) {
        case_run run = run_on(i < 2 ? "cpu" : "ref", "la", 0, 2);
        run.seed = (uint64_t)(i < 2 ? i : i + 8);
        case_add_run(&c, run);
    }
    options.find_recipes = true;
    assert_mpt_ok(c.ctx, mpt_comparison_create(c.ctx, c.runs, 4, &options, &comparison));
    assert_int_equal(case_row(comparison, 0).n_runs, 2);
    assert_int_equal(case_row(comparison, 1).n_runs, 2);
    assert_string_equal(case_row(comparison, 0).device, "cpu");
    assert_string_equal(case_row(comparison, 1).device, "ref");
    mpt_comparison_destroy(comparison);
    options.find_recipes = false;
    assert_int_equal(mpt_comparison_create(c.ctx, c.runs, 4, &options, &comparison), MPT_DATA);
    has(mpt_ctx_error(c.ctx)->message,
        "these seeds of one recipe were trained on different devices, cpu and ref");
    case_close(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_devices_when_they_differ_then_all_outputs_tell_them),
    cmocka_unit_test(test_devices_when_all_are_alike_then_one_word),
    cmocka_unit_test(test_devices_when_unknown_then_neither_column_nor_word),
    cmocka_unit_test(test_losses_when_they_differ_under_one_hash_then_no_sameness),
    cmocka_unit_test(test_device_when_a_run_went_on_elsewhere_then_both_are_its),
    cmocka_unit_test(test_seeds_when_of_two_devices_then_split_or_refused),
};

MPT_TEST_MAIN(cases)
