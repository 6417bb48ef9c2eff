/* Wrong arguments of a host to the calls of mpt/compare.h: MPT_INVALID, and the argument is
 * named. */
#include "api_arguments.h"

#include "compare_case.h"
#include "lua_test.h"
#include "writers.h"

static const char *const rows[] = {
    "mpt_comparison_create mpt_comparison_destroy mpt_comparison_get mpt_comparison_verdict "
    "mpt_comparison_print mpt_comparison_write_page mpt_program_comparable mpt_program_lift "
    "mpt_comparison_write_index mpt_comparison_open"};

static void wrong_create(compare_case *c) {
    mpt_comparison *out = NULL;
    mpt_compare_options half = {.size = 4}, nan = MPT_COMPARE_OPTIONS_INIT, find = nan;
    mpt_compare_run runs[2] = {c->runs[0], c->runs[0]};
    nan.within = (double)NAN;
    BARE(mpt_comparison_create(NULL, c->runs, 1, NULL, &out));
    refused(c->ctx, mpt_comparison_create(c->ctx, c->runs, 1, NULL, NULL), "out is NULL");
    refused(c->ctx, mpt_comparison_create(c->ctx, NULL, 1, NULL, &out), "runs is NULL");
    refused(c->ctx, mpt_comparison_create(c->ctx, c->runs, 0, NULL, &out), "n_runs is 0");
    refused(c->ctx, mpt_comparison_create(c->ctx, c->runs, 1, &half, &out),
            "the options have size 4");
    refused(c->ctx, mpt_comparison_create(c->ctx, c->runs, 1, &nan, &out),
            "options.within is no number");
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, NULL, &out),
            "runs[0] and runs[1] are of the same recipe and seed");
    runs[1].recipe = 2;
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, NULL, &out),
            "runs[1] has no folder");
    runs[1].recipe = -1;
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, NULL, &out), "recipe -1 is not");
    runs[0].recipe = 1;
    runs[1] = (mpt_compare_run){.folder = c->runs[0].folder, .recipe = 1, .seed = 9};
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, NULL, &out),
            "no run is of recipe 0");
    runs[0].recipe = 0;
    runs[1] = (mpt_compare_run){.folder = "x", .recipe = 1, .not_begun = true};
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, NULL, &out),
            "runs[1] is not begun and has no name");
    find.find_recipes = true;
    runs[1].name = "x";
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 2, &find, &out),
            "its recipe cannot be found");
    runs[0].folder = NULL;
    refused(c->ctx, mpt_comparison_create(c->ctx, runs, 1, NULL, &out), "has no folder");
    assert_null(out);
}

static void test_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison, *opened = NULL;
    mpt_comparison_row row;
    mpt_lift_view lift;
    case_open(&c);
    case_add_run(&c, (case_run){.name = "a", .loss = 2, .eval = 2, .steps = 4});
    wrong_create(&c);
    comparison = case_compare(&c, -1);
    mpt_comparison_destroy(NULL);
    assert_false(mpt_comparison_get(NULL, 0, &row));
    assert_false(mpt_comparison_get(comparison, 0, NULL));
    assert_false(mpt_comparison_get(comparison, -1, &row));
    assert_null(mpt_comparison_verdict(NULL));
    BARE(mpt_comparison_print(NULL, true, keep, NULL));
    refused(c.ctx, mpt_comparison_print(comparison, true, NULL, NULL), "write is NULL");
    BARE(mpt_comparison_write_page(NULL, "x"));
    refused(c.ctx, mpt_comparison_write_page(comparison, NULL), "path is NULL");
    BARE(mpt_comparison_write_index(NULL, "x"));
    refused(c.ctx, mpt_comparison_write_index(comparison, NULL), "path is NULL");
    BARE(mpt_comparison_open(NULL, "x", &opened));
    refused(c.ctx, mpt_comparison_open(c.ctx, NULL, &opened), "path is NULL");
    refused(c.ctx, mpt_comparison_open(c.ctx, "x", NULL), "out is NULL");
    assert_null(opened);
    assert_false(mpt_program_lift(NULL, MPT_LIFT_GEMMS, 0, &lift));
    case_end(&c, comparison);
}

static void test_program_call_when_arguments_are_wrong_then_they_are_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_program *program;
    mpt_lift_view lift;
    mpt_recipe *recipe = mpt_lua_load_fields(
        ctx, "train = { steps = 2, batch = 2, sequence = 8, lr = constant { peak = 1 } }");
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    BARE(mpt_program_comparable(NULL, program, keep, NULL));
    refused(ctx, mpt_program_comparable(program, NULL, keep, NULL), "other is NULL");
    refused(ctx, mpt_program_comparable(program, program, NULL, NULL), "note is NULL");
    assert_false(mpt_program_lift(program, MPT_LIFT_GEMMS, -1, &lift));
    assert_false(mpt_program_lift(program, MPT_LIFT_GEMMS, 0, NULL));
    assert_false(mpt_program_lift(program, (mpt_lift_kind)7, 0, &lift));
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, recipe);
}

static void test_header_when_a_call_is_public_then_it_has_a_row(void **s) {
    (void)s;
    assert_header("compare.h", rows);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_program_call_when_arguments_are_wrong_then_they_are_named),
    cmocka_unit_test(test_header_when_a_call_is_public_then_it_has_a_row),
};

MPT_TEST_MAIN(cases)
