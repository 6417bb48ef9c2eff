/* Sweeps: the order of lifts, and that nothing is said of them which their seeds do not hold.
 */
#include "mpt_test.h"

#include "compare_case.h"

/* One recipe with final losses of two seeds; a second one of 0 leaves that seed out. */
static void add(compare_case *c, const char *name, int recipe, double one, double other) {
    for (int s = 0; s < (other > 0 ? 2 : 1); s++)
        case_add_run(c, (case_run){.name = name,
                                   .recipe = recipe,
                                   .seed = (uint64_t)s,
                                   .loss = s ? other : one,
                                   .eval = s ? other : one,
                                   .steps = 20,
                                   .a = "nvfp4"});
}

static mpt_comparison *sweep(compare_case *c) {
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    mpt_comparison *comparison;
    options.sweep = true;
    assert_mpt_ok(c->ctx, mpt_comparison_create(c->ctx, c->runs, c->n, &options, &comparison));
    return comparison;
}

static void test_sweep_when_done_then_lifts_are_ranked_by_what_they_give_back(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2.2, 2.2);
    add(&c, "little", 1, 2.18, 2.18);
    add(&c, "harm", 2, 2.24, 2.24);
    add(&c, "much", 3, 2.05, 2.05);
    add(&c, "everything", 4, 2, 2);
    mpt_comparison *comparison = sweep(&c);
    static const char *const order[] = {"whole", "everything", "much", "little", "harm"};
    static const double shares[] = {0, 1, 0.75, 0.1, -0.2};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(case_row(comparison, i).recipe, order[i]);
        if (i > 0)
            assert_near(case_row(comparison, i).share, shares[i]);
    }
    assert_string_equal(mpt_comparison_verdict(comparison),
                        "much in BF16 gives back most, 75 % of what whole loses to BF16 "
                        "everywhere (+10.0 % +- 0.00 %)");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_sweep_when_one_seed_then_no_share_and_the_verdict_says_why(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2.0003, 0);
    add(&c, "one", 1, 1.9992, 0);
    add(&c, "everything", 2, 2, 0);
    mpt_comparison *comparison = sweep(&c);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(case_row(comparison, i).share));
    const char *verdict = mpt_comparison_verdict(comparison);
    has(verdict, "whole ends +0.015 % from BF16 everywhere; with one in BF16 it ends lowest, "
                 "-0.055 % from whole");
    has(verdict, "one seed cannot tell what of this is noise");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_sweep_when_the_gap_is_noise_then_nothing_is_ranked(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2, 2);
    add(&c, "one", 1, 1.9, 1.9);
    add(&c, "everything", 2, 2.01, 1.98);
    mpt_comparison *comparison = sweep(&c);
    for (int i = 0; i < 3; i++)
        assert_true(isnan(case_row(comparison, i).share));
    has(mpt_comparison_verdict(comparison),
        "whole loses nothing to BF16 everywhere that is more than noise");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_sweep_when_the_best_lift_is_noise_then_none_is_called_best(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2.2, 2.2);
    add(&c, "one", 1, 2.0, 2.39);
    add(&c, "everything", 2, 2, 2.01);
    mpt_comparison *comparison = sweep(&c);
    assert_true(isnan(case_row(comparison, 2).share));
    assert_near(case_row(comparison, 1).share, 1);
    has(mpt_comparison_verdict(comparison),
        "nothing alone in BF16 gives back more than noise of what whole loses");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_sweep_when_a_lift_gives_back_more_than_is_lost_then_all_of_it(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2.2, 2.2);
    add(&c, "more", 1, 1.8, 1.81);
    add(&c, "near", 2, 1.805, 1.82);
    add(&c, "everything", 3, 2, 2);
    mpt_comparison *comparison = sweep(&c);
    assert_near(case_row(comparison, 2).share, 1);
    has(mpt_comparison_verdict(comparison), "more in BF16 gives back most, 100 % of what");
    has(mpt_comparison_verdict(comparison), "; 1 other is no further from it than noise");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

/* ---- what is not there ---- */

static void test_sweep_when_all_runs_diverge_then_they_broke_off_and_where(void **s) {
    (void)s;
    compare_case c;
    static const char *const names[] = {"whole", "one", "other", "everything"};
    case_open(&c);
    for (int r = 0; r < 4; r++)
        case_add_run(&c, (case_run){.name = names[r],
                                    .recipe = r,
                                    .loss = 2,
                                    .steps = 7 + r,
                                    .planned = 20,
                                    .killed = true});
    mpt_comparison *comparison = sweep(&c);
    assert_string_equal(
        mpt_comparison_verdict(comparison),
        "the sweep of whole ranks nothing: whole broke off after 7 of 20 steps, "
        "everything broke off after 10 of 20 steps, and so did 2 of the 2 "
        "lifts");
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static void test_sweep_when_interrupted_then_how_many_runs_are_there(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    add(&c, "whole", 0, 2.2, 0);
    c.runs[c.n] = (mpt_compare_run){
        .folder = "nowhere", .name = "everything", .recipe = 1, .not_begun = true};
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    mpt_comparison *comparison;
    options.sweep = true;
    assert_mpt_ok(c.ctx, mpt_comparison_create(c.ctx, c.runs, c.n + 1, &options, &comparison));
    has(mpt_comparison_verdict(comparison),
        "the sweep of whole is not finished: 1 of 2 runs are trained to the end");
    assert_int_equal(case_row(comparison, 1).n_runs, 0);
    assert_int_equal(case_row(comparison, 1).n_planned, 1);
    mpt_comparison_destroy(comparison);
    case_close(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_sweep_when_done_then_lifts_are_ranked_by_what_they_give_back),
    cmocka_unit_test(test_sweep_when_one_seed_then_no_share_and_the_verdict_says_why),
    cmocka_unit_test(test_sweep_when_the_gap_is_noise_then_nothing_is_ranked),
    cmocka_unit_test(test_sweep_when_the_best_lift_is_noise_then_none_is_called_best),
    cmocka_unit_test(test_sweep_when_a_lift_gives_back_more_than_is_lost_then_all_of_it),
    cmocka_unit_test(test_sweep_when_all_runs_diverge_then_they_broke_off_and_where),
    cmocka_unit_test(test_sweep_when_interrupted_then_how_many_runs_are_there),
};

MPT_TEST_MAIN(cases)
