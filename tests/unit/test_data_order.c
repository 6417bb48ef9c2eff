/* Epochs and orders by arithmetic: permutations without a table, and what an epoch's end does.
 */
#include "mpt_test.h"

#include <stdlib.h>

#include "train/data_order.h"

/* ---- permutations ---- */

static void assert_permutation(uint64_t seed, int64_t epoch, uint32_t list, int64_t n) {
    unsigned char *seen = calloc((size_t)n, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = mpt_permuted(seed, epoch, list, n, i);
        assert_in_range(at, 0, (uintmax_t)n - 1);
        assert_int_equal(seen[at]++, 0);
    }
    free(seen);
}

static void test_permuted_when_any_length_then_each_place_once(void **s) {
    (void)s;
    for (int64_t n = 1; n <= 130; n++)
        assert_permutation(1234, n % 3, 0, n);
    assert_permutation(0, 0, 0, 1000003 / 50);
    assert_permutation(UINT64_MAX, INT64_MAX, 7, 4096);
    assert_permutation(5, 1, 1, 4097);
}

static int64_t fixed_between(uint64_t seed, int64_t epoch, uint32_t list) {
    int64_t same = 0;
    for (int64_t i = 0; i < 1000; i++)
        same += mpt_permuted(1, 0, 0, 1000, i) == mpt_permuted(seed, epoch, list, 1000, i);
    return same;
}

/* Two orders of no relation share one place in the mean; 8 or more are seen once in 10^5. */
static void test_permuted_when_seed_epoch_or_list_differ_then_orders_differ(void **s) {
    (void)s;
    assert_int_equal(fixed_between(1, 0, 0), 1000);
    assert_true(fixed_between(2, 0, 0) < 8);
    assert_true(fixed_between(1, 1, 0) < 8);
    assert_true(fixed_between(1, 0, 1) < 8);
    int64_t in_place = 0, follows = 0;
    for (int64_t i = 0; i + 1 < 1000; i++) {
        int64_t at = mpt_permuted(1, 0, 0, 1000, i);
        in_place += at == i;
        follows += mpt_permuted(1, 0, 0, 1000, i + 1) == at + 1;
    }
    assert_true(in_place < 8 && follows < 8);
}

/* Over many epochs every window comes at every place alike, also where there are few: of 20,000
 * draws over 5 places each has 4,000, give or take 5 deviations of 57. */
static void test_permuted_when_few_windows_then_each_place_is_as_likely(void **s) {
    (void)s;
    for (int64_t n = 2; n <= 5; n++) {
        int64_t count[5][5] = {0}, epochs = 4000 * n;
        for (int64_t epoch = 0; epoch < epochs; epoch++)
            for (int64_t i = 0; i < n; i++)
                count[i][mpt_permuted(9, epoch, 0, n, i)]++;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++)
                assert_in_range(count[i][k], 4000 - 285, 4000 + 285);
    }
}

static void test_permuted_when_huge_then_ends_and_stays_inside(void **s) {
    (void)s;
    const int64_t n = (INT64_C(1) << 60) + 1;
    for (int64_t i = 0; i < 100; i++) {
        int64_t a = mpt_permuted(3, 1, 0, n, i), b = mpt_permuted(3, 1, 0, n, n - 1 - i);
        assert_true(a >= 0 && a < n && b >= 0 && b < n && a != b);
    }
}

/* ---- epochs ---- */

static mpt_epochs epochs_of(int64_t windows, int64_t batch, mpt_remainder remainder) {
    return (mpt_epochs){windows, batch, remainder};
}

/* P01's figures: 10 windows an epoch, 4 a step, 2 epochs. */
static void test_p01_steps_when_a_window_is_left_at_an_epochs_end_then_5_6_4(void **s) {
    (void)s;
    mpt_epochs e = epochs_of(10, 4, MPT_REMAINDER_CARRY);
    assert_int_equal(mpt_epochs_steps(&e, 2), 5);
    e.remainder = MPT_REMAINDER_STEP;
    assert_int_equal(mpt_epochs_steps(&e, 2), 6);
    e.remainder = MPT_REMAINDER_DROP;
    assert_int_equal(mpt_epochs_steps(&e, 2), 4);
}

/* Walks two epochs as one would with counters, and compares. */
static void walk(int64_t windows, int64_t batch, mpt_remainder remainder) {
    mpt_epochs e = epochs_of(windows, batch, remainder);
    int64_t epoch = 0, index = 0, steps = mpt_epochs_steps(&e, 2);
    for (int64_t step = 0; step < steps; step++) {
        for (int64_t row = 0; row < batch; row++) {
            mpt_epoch_place p = mpt_epochs_place(&e, step, row);
            bool over = index == windows;
            if (over && remainder == MPT_REMAINDER_CARRY) {
                epoch++;
                index = 0;
                over = false;
            }
            assert_int_equal(p.epoch, epoch);
            assert_int_equal(p.index, over ? windows - 1 : index);
            assert_int_equal(p.masked, over);
            index += !over;
        }
        bool ends =
            remainder == MPT_REMAINDER_DROP ? windows - index < batch : index == windows;
        if (ends && remainder != MPT_REMAINDER_CARRY) {
            epoch++;
            index = 0;
        }
    }
    assert_true(steps == 0 || epoch >= (remainder == MPT_REMAINDER_CARRY ? 1 : 2));
}

static void test_place_when_walked_with_counters_then_the_same(void **s) {
    (void)s;
    for (int64_t windows = 1; windows <= 12; windows++)
        for (int64_t batch = 1; batch <= 13; batch++) {
            walk(windows, batch, MPT_REMAINDER_CARRY);
            walk(windows, batch, MPT_REMAINDER_STEP);
            if (windows >= batch)
                walk(windows, batch, MPT_REMAINDER_DROP);
        }
}

static void test_steps_when_lengths_are_huge_then_bounded(void **s) {
    (void)s;
    mpt_epochs e = epochs_of(INT64_C(1) << 45, 1 << 24, MPT_REMAINDER_CARRY);
    assert_int_equal(mpt_epochs_steps(&e, 1), INT64_C(1) << 21);
    assert_int_equal(mpt_epochs_steps(&e, 3), INT64_C(3) << 21);
    assert_int_equal(mpt_epochs_steps(&e, INT64_C(1) << 60), INT64_C(1) << 53);
    e.windows++;
    assert_int_equal(mpt_epochs_steps(&e, 1), (INT64_C(1) << 21) + 1);
    assert_int_equal(mpt_epochs_steps(&e, 1 << 24), e.windows);
    e.remainder = MPT_REMAINDER_DROP;
    assert_int_equal(mpt_epochs_steps(&e, 1 << 20), INT64_C(1) << 41);
    assert_int_equal(mpt_epochs_steps(&e, INT64_C(1) << 60), INT64_C(1) << 53);
    mpt_epoch_place p = mpt_epochs_place(&e, INT64_MAX, 5);
    assert_true(p.index >= 0 && p.index < e.windows);
    e.remainder = MPT_REMAINDER_CARRY;
    p = mpt_epochs_place(&e, INT64_MAX, 5);
    assert_true(p.index >= 0 && p.index < e.windows && p.epoch >= 0);
}

static void test_epochs_when_steps_are_given_then_how_many_they_are(void **s) {
    (void)s;
    mpt_epochs e = epochs_of(10, 4, MPT_REMAINDER_CARRY);
    assert_true(mpt_epochs_of(&e, 5) == 2);
    e.remainder = MPT_REMAINDER_STEP;
    assert_true(mpt_epochs_of(&e, 6) == 2);
    e.remainder = MPT_REMAINDER_DROP;
    assert_true(mpt_epochs_of(&e, 3) == 1.5);
    e.windows = 3;
    assert_true(mpt_epochs_of(&e, 3) == 0);
    e.windows = 0;
    assert_true(mpt_epochs_of(&e, 3) == 0);
    assert_int_equal(mpt_epochs_steps(&e, 3), 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_permuted_when_any_length_then_each_place_once),
    cmocka_unit_test(test_permuted_when_seed_epoch_or_list_differ_then_orders_differ),
    cmocka_unit_test(test_permuted_when_few_windows_then_each_place_is_as_likely),
    cmocka_unit_test(test_permuted_when_huge_then_ends_and_stays_inside),
    cmocka_unit_test(test_p01_steps_when_a_window_is_left_at_an_epochs_end_then_5_6_4),
    cmocka_unit_test(test_place_when_walked_with_counters_then_the_same),
    cmocka_unit_test(test_steps_when_lengths_are_huge_then_bounded),
    cmocka_unit_test(test_epochs_when_steps_are_given_then_how_many_they_are),
};

MPT_TEST_MAIN(cases)
