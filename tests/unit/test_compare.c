/* Comparisons of run folders: what is paired with what, the noise band, and what is said of
 * runs that are not whole. */
#include "mpt_test.h"

#include "compare_case.h"
#include "report/compare.h"
#include "writers.h"

/* Two recipes and `n` seeds; the other's final losses are above the base's by these shares. */
static mpt_comparison *compare_pairs(compare_case *c, const double *above, int n,
                                     double within) {
    case_open(c);
    for (int s = 0; s < n; s++) {
        double base = 2 + 0.1 * s;
        case_add_run(c, (case_run){.name = "gpt_bf16",
                                   .recipe = 0,
                                   .seed = (uint64_t)s,
                                   .loss = base,
                                   .eval = base,
                                   .steps = 40});
        case_add_run(c, (case_run){.name = "gpt_fp8",
                                   .recipe = 1,
                                   .seed = (uint64_t)s,
                                   .loss = base * (1 + above[s]),
                                   .eval = base * (1 + above[s]),
                                   .steps = 40,
                                   .a = "e4m3"});
    }
    return case_compare(c, within);
}

/* ---- figures ---- */

static void test_difference_when_three_seeds_then_paired_by_seed_with_their_spread(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison =
        compare_pairs(&c, (const double[]){0.006, 0.007, 0.008}, 3, 0.01);
    mpt_comparison_row base = case_row(comparison, 0), other = case_row(comparison, 1);
    assert_near(base.final_loss, 2.1);
    assert_near(base.relative_difference, 0);
    assert_near(base.noise, 0.1 / 2.1);
    /* The seeds themselves spread by 5 %; their pairs by 0.1 %. */
    assert_near(other.relative_difference, 0.007);
    assert_near(other.noise, 0.001);
    assert_int_equal(other.outcome, MPT_COMPARE_WITHIN);
    assert_int_equal(other.n_whole, 3);
    assert_string_equal(mpt_comparison_verdict(comparison),
                        "gpt_fp8 is within 1 % of gpt_bf16 (+0.70 % +- 0.10 %)");
    assert_false(mpt_comparison_get(comparison, 2, &other));
    case_end(&c, comparison);
}

static void
test_row_when_made_then_counts_speed_memory_and_hashes_are_those_of_the_runs(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = compare_pairs(&c, (const double[]){0.01, 0.01}, 2, -1);
    mpt_comparison_row row = case_row(comparison, 1);
    assert_int_equal(row.gemms, 2 * 40 * 4);
    assert_int_equal(row.quantized_gemms, 2 * 40 * 3);
    assert_true(fabs(row.tokens_per_s - CASE_TOKENS * 1e3 / 11) < 1);
    assert_int_equal(row.bytes, 1001);
    assert_string_equal(row.recipe_hash, "hash_of_gpt_fp8");
    assert_string_equal(row.schedule_hash, "gpt_fp8"); /* phases without steps have no part */
    assert_int_equal(row.outcome, MPT_COMPARE_MEASURED);
    case_end(&c, comparison);
}

static void test_bound_when_reached_or_passed_then_the_outcome_turns(void **s) {
    (void)s;
    static const struct {
        double above, bound;
        mpt_compare_outcome outcome;
        const char *words;
    } cases[] = {
        {0.01, 0.011, MPT_COMPARE_WITHIN, "is within 1.1 %"},
        {0.012, 0.01, MPT_COMPARE_BEYOND, "gpt_fp8 is not within 1 % of gpt_bf16 (+1.2 %)"},
        {-0.3, 0.01, MPT_COMPARE_WITHIN, "(-30.0 %)"},
        {0, 0, MPT_COMPARE_WITHIN, "is within 0 % of gpt_bf16 (+0.00 %)"},
        {0.00001, 0, MPT_COMPARE_BEYOND, "is not within 0 % of gpt_bf16 (+0.0010 %)"},
        {0.5, -1, MPT_COMPARE_MEASURED, "gpt_fp8 ends +50.0 % from gpt_bf16"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        compare_case c;
        mpt_comparison *comparison = compare_pairs(&c, &cases[i].above, 1, cases[i].bound);
        assert_int_equal(case_row(comparison, 1).outcome, cases[i].outcome);
        has(mpt_comparison_verdict(comparison), cases[i].words);
        case_end(&c, comparison);
    }
}

static void test_bound_when_inside_the_noise_then_that_is_said(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = compare_pairs(&c, (const double[]){0.004, 0.014}, 2, 0.01);
    has(mpt_comparison_verdict(comparison), "the bound lies in the noise");
    case_end(&c, comparison);
}

static void test_noise_when_one_seed_then_unknown_and_told(void **s) {
    (void)s;
    compare_case c;
    mpt_str text;
    mpt_comparison *comparison = compare_pairs(&c, (const double[]){0.004}, 1, 0.01);
    assert_true(isnan(case_row(comparison, 0).noise));
    assert_true(isnan(case_row(comparison, 1).noise));
    mpt_str_init(&text, c.ctx);
    assert_mpt_ok(c.ctx, mpt_comparison_print(comparison, false, keep, &text));
    has(text.data, "one seed says nothing of noise");
    mpt_str_deinit(&text);
    case_end(&c, comparison);
}

static void test_loss_when_no_validation_then_that_of_training(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    for (int r = 0; r < 2; r++)
        case_add_run(&c, (case_run){.name = r ? "b" : "a",
                                    .recipe = r,
                                    .loss = 2 + 0.02 * r,
                                    .steps = 40,
                                    .without_eval = true});
    mpt_comparison *comparison = case_compare(&c, -1);
    assert_near(case_row(comparison, 1).final_loss, 2.02);
    assert_near(case_row(comparison, 1).relative_difference, 0.01);
    case_end(&c, comparison);
}

/* ---- runs that are not whole ---- */

static void test_run_when_interrupted_then_compared_as_far_as_it_got(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = case_compare_with_base(
        &c, (case_run){.loss = 2.1, .eval = 9, .steps = 25, .planned = 40}, 0.01);
    mpt_comparison_row row = case_row(comparison, 1);
    assert_int_equal(row.outcome, MPT_COMPARE_UNFINISHED);
    assert_int_equal(row.n_whole, 0);
    assert_true(isnan(row.final_loss) && isnan(row.relative_difference));
    const mpt_band *band = &comparison->recipes[1].difference;
    assert_int_equal(band->n, 40);
    for (int i = 0; i < band->n; i++) {
        assert_near(band->tokens[i], (i + 1) * CASE_TOKENS);
        if (i < 25)
            assert_near(band->mean[i], 0.05);
        else
            assert_true(isnan(band->mean[i]));
    }
    case_end(&c, comparison);
}

static void test_run_when_killed_then_broke_and_its_torn_line_is_left_out(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = case_compare_with_base(
        &c,
        (case_run){
            .loss = 2, .steps = 7, .planned = 40, .killed = true, .tail = "{\"event\":\"st"},
        -1);
    assert_int_equal(case_row(comparison, 1).outcome, MPT_COMPARE_BROKE);
    assert_string_equal(mpt_comparison_verdict(comparison), "b broke off after 7 steps");
    case_end(&c, comparison);
}

static void test_base_when_broke_then_it_is_named_first(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    case_add_run(&c,
                 (case_run){.name = "a", .loss = 2, .steps = 5, .planned = 9, .killed = true});
    case_add_run(&c, (case_run){.name = "b", .recipe = 1, .loss = 2, .eval = 2, .steps = 9});
    mpt_comparison *comparison = case_compare(&c, 0.1);
    assert_int_equal(case_row(comparison, 0).outcome, MPT_COMPARE_BROKE);
    assert_int_equal(case_row(comparison, 1).outcome, MPT_COMPARE_UNFINISHED);
    has(mpt_comparison_verdict(comparison), "a broke off after 5 steps; b has no run");
    case_end(&c, comparison);
}

static void test_loss_when_nan_then_the_recipe_broke_and_steps_before_count(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = case_compare_with_base(
        &c, (case_run){.loss = 2.2, .eval = (double)NAN, .steps = 40, .nan_from = 30}, 0.5);
    mpt_comparison_row row = case_row(comparison, 1);
    const mpt_band *band = &comparison->recipes[1].difference;
    assert_int_equal(row.outcome, MPT_COMPARE_BROKE);
    assert_true(isnan(row.final_loss) && isnan(row.relative_difference));
    assert_near(band->mean[30], 0.1); /* of the window's last finite step */
    assert_true(isnan(band->mean[39]));
    case_end(&c, comparison);
}

static void test_steps_when_one_run_lacks_some_then_the_others_stay_paired(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = case_compare_with_base(
        &c, (case_run){.loss = 2.2, .eval = 2.2, .steps = 40, .hole = 5, .skipped = 3}, -1);
    const mpt_band *band = &comparison->recipes[1].difference;
    for (int i = 0; i < band->n; i++)
        assert_near(band->mean[i], 0.1);
    has(comparison->flags[1].text, "b: 3 steps were skipped");
    case_end(&c, comparison);
}

static void test_steps_when_a_resumed_run_has_them_twice_then_the_later_count(void **s) {
    (void)s;
    compare_case c;
    mpt_comparison *comparison = case_compare_with_base(
        &c,
        (case_run){.loss = 2,
                   .eval = 2,
                   .steps = 40,
                   .extra = "{\"event\":\"step\",\"step\":0,\"tokens\":64,"
                            "\"loss\":9}\n{\"event\":\"step\",\"step\":1,"
                            "\"tokens\":128,\"loss\":9}\n"},
        -1);
    assert_int_equal(comparison->runs[1].steps.n, 40);
    assert_near(comparison->recipes[1].difference.mean[0], 0);
    case_end(&c, comparison);
}

static void test_recipe_when_alone_then_there_is_nothing_to_compare_yet(void **s) {
    (void)s;
    compare_case c;
    case_open(&c);
    case_add_base(&c, 4);
    mpt_comparison *comparison = case_compare(&c, 0.01);
    has(mpt_comparison_verdict(comparison), "a alone: there is nothing to compare it with yet");
    case_end(&c, comparison);
}

static void test_verdict_when_many_recipes_then_the_wrong_ones_come_first(void **s) {
    (void)s;
    compare_case c;
    char name[CASE_RUNS][8];
    case_open(&c);
    case_add_base(&c, 4);
    for (int r = 1; r < 8; r++) {
        snprintf(name[r], sizeof name[r], "r%d", r);
        double loss = r == 7 ? 3 : 2;
        case_add_run(
            &c,
            (case_run){.name = name[r], .recipe = r, .loss = loss, .eval = loss, .steps = 4});
    }
    mpt_comparison *comparison = case_compare(&c, 0.01);
    const char *verdict = mpt_comparison_verdict(comparison);
    assert_true(strncmp(verdict, "r7 is not within", 16) == 0);
    has(verdict, "; and 3 more");
    case_end(&c, comparison);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_difference_when_three_seeds_then_paired_by_seed_with_their_spread),
    cmocka_unit_test(
        test_row_when_made_then_counts_speed_memory_and_hashes_are_those_of_the_runs),
    cmocka_unit_test(test_bound_when_reached_or_passed_then_the_outcome_turns),
    cmocka_unit_test(test_bound_when_inside_the_noise_then_that_is_said),
    cmocka_unit_test(test_noise_when_one_seed_then_unknown_and_told),
    cmocka_unit_test(test_loss_when_no_validation_then_that_of_training),
    cmocka_unit_test(test_run_when_interrupted_then_compared_as_far_as_it_got),
    cmocka_unit_test(test_run_when_killed_then_broke_and_its_torn_line_is_left_out),
    cmocka_unit_test(test_base_when_broke_then_it_is_named_first),
    cmocka_unit_test(test_loss_when_nan_then_the_recipe_broke_and_steps_before_count),
    cmocka_unit_test(test_steps_when_one_run_lacks_some_then_the_others_stay_paired),
    cmocka_unit_test(test_steps_when_a_resumed_run_has_them_twice_then_the_later_count),
    cmocka_unit_test(test_recipe_when_alone_then_there_is_nothing_to_compare_yet),
    cmocka_unit_test(test_verdict_when_many_recipes_then_the_wrong_ones_come_first),
};

MPT_TEST_MAIN(cases)
