/* The memory planner: no two lives that meet share a byte, and places are used again. */
#include "mpt_test.h"

#include "sched/program.h"

enum { MANY = 300 };

/* A small generator, so that a failure can be repeated. */
static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static bool meet(const mpt_lifetime *a, const mpt_lifetime *b) {
    bool in_time = a->first <= b->last && b->first <= a->last;
    bool in_space = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
    return in_time && in_space;
}

/* Checks every pair, every end and every alignment. */
static void check_plan(const mpt_lifetime *lives, int n, size_t peak) {
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(lives[i].offset % 64, 0);
        if (lives[i].offset + lives[i].bytes > end)
            end = lives[i].offset + lives[i].bytes;
        for (int j = 0; j < i; j++)
            if (meet(&lives[i], &lives[j]))
                fail_msg("lives %d and %d share memory", i, j);
    }
    assert_true(end <= peak);
    assert_true(peak < end + 64);
}

/* The most bytes alive at once: no plan can need less. */
static size_t most_alive(const mpt_lifetime *lives, int n, int32_t steps) {
    size_t most = 0;
    for (int32_t s = 0; s < steps; s++) {
        size_t now = 0;
        for (int i = 0; i < n; i++)
            if (lives[i].first <= s && s <= lives[i].last)
                now += (lives[i].bytes + 63) / 64 * 64;
        most = now > most ? now : most;
    }
    return most;
}

static void test_plan_when_nothing_lives_then_no_bytes(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    size_t peak = 7;
    assert_mpt_ok(ctx, mpt_memplan(ctx, NULL, 0, &peak));
    assert_int_equal(peak, 0);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_lives_follow_each_other_then_one_place(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime lives[] = {{0, 1, 1000, 0}, {2, 3, 1000, 0}, {4, 9, 900, 0}};
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 3, &peak));
    check_plan(lives, 3, peak);
    assert_int_equal(peak, 1024);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_one_ends_where_another_begins_then_they_are_apart(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime lives[] = {{0, 2, 64, 0}, {2, 4, 64, 0}}; /* step 2 reads one, writes one */
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 2, &peak));
    check_plan(lives, 2, peak);
    assert_int_equal(peak, 128);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_two_gaps_fit_then_the_smaller_is_taken(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    /* In order of size: a [0, 640), b [640, 1216), c [1216, 1728), d [1728, 2176). At step 5
     * b and d still live, a and c are done: gaps of 640 in front and 512 between. */
    mpt_lifetime lives[] = {
        {0, 4, 640, 0}, {0, 9, 576, 0}, {0, 4, 512, 0}, {0, 9, 448, 0}, {5, 9, 384, 0}};
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 5, &peak));
    check_plan(lives, 5, peak);
    assert_int_equal(lives[4].offset, 1216);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_sizes_are_odd_then_offsets_are_aligned(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime lives[] = {{0, 5, 1, 0}, {0, 5, 65, 0}, {0, 5, 4, 0}, {0, 5, 127, 0}};
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 4, &peak));
    check_plan(lives, 4, peak);
    assert_int_equal(peak, 2 * 64 + 2 * 128);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_sizes_overflow_then_the_peak_does_not_wrap(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime lives[] = {{0, 5, SIZE_MAX / 2, 0}, {0, 5, SIZE_MAX / 2, 0}, {0, 5, 999, 0}};
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 3, &peak));
    assert_true(peak >= SIZE_MAX - 128);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_lives_are_random_then_none_that_meet_overlap(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    static mpt_lifetime lives[MANY];
    uint32_t random = 1;
    for (int round = 0; round < 60; round++) {
        int n = 1 + (int)(next(&random) % MANY);
        for (int i = 0; i < n; i++) {
            int32_t first = (int32_t)(next(&random) % 100);
            lives[i] = (mpt_lifetime){.first = first,
                                      .last = first + (int32_t)(next(&random) % 30),
                                      .bytes = 1 + next(&random) % 5000};
        }
        size_t peak;
        assert_mpt_ok(ctx, mpt_memplan(ctx, lives, n, &peak));
        check_plan(lives, n, peak);
        size_t least = most_alive(lives, n, 130);
        assert_true(peak >= least);
        assert_true(peak <= least * 3 / 2);
    }
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_lives_are_nested_then_it_is_exact(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime lives[40]; /* as activations: made in forward, read in reverse in backward */
    for (int32_t i = 0; i < 40; i++)
        lives[i] = (mpt_lifetime){i, 79 - i, 64 * (size_t)(1 + i % 7), 0};
    size_t peak;
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, 40, &peak));
    check_plan(lives, 40, peak);
    assert_int_equal(peak, most_alive(lives, 40, 80));
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_memory_is_asked_for_then_it_is_given_back(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime life = {0, 1, 64, 0};
    size_t peak;
    assert_int_equal(mpt_memplan(ctx, &life, 1, &peak), MPT_OK);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* A deep model: what forward keeps, backward gives back, with short lives between. A planner
 * that compares all pairs takes minutes here, and ctest ends it. */
static void test_plan_when_there_are_very_many_lives_then_still_quick_and_tight(void **state) {
    (void)state;
    enum { LAYERS = 100000, LIVES = 4 * LAYERS };
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lifetime *lives = mpt_alloc(ctx, LIVES * sizeof *lives);
    size_t peak;
    assert_non_null(lives);
    for (int32_t i = 0; i < LAYERS; i++) {
        int32_t forward = 2 * i, backward = 4 * LAYERS - 2 * i;
        lives[4 * i] = (mpt_lifetime){forward, backward, 640, 0};
        lives[4 * i + 1] = (mpt_lifetime){forward, backward - 1, 64, 0};
        lives[4 * i + 2] = (mpt_lifetime){forward, forward + 1, 1280, 0};
        lives[4 * i + 3] = (mpt_lifetime){backward, backward + 1, 1280, 0};
    }
    assert_mpt_ok(ctx, mpt_memplan(ctx, lives, LIVES, &peak));
    assert_true(peak <= LAYERS * (size_t)704 + 4 * 1280);
    mpt_free(ctx, lives);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_plan_when_there_are_very_many_lives_then_still_quick_and_tight),
    cmocka_unit_test(test_plan_when_nothing_lives_then_no_bytes),
    cmocka_unit_test(test_plan_when_lives_follow_each_other_then_one_place),
    cmocka_unit_test(test_plan_when_one_ends_where_another_begins_then_they_are_apart),
    cmocka_unit_test(test_plan_when_two_gaps_fit_then_the_smaller_is_taken),
    cmocka_unit_test(test_plan_when_sizes_are_odd_then_offsets_are_aligned),
    cmocka_unit_test(test_plan_when_sizes_overflow_then_the_peak_does_not_wrap),
    cmocka_unit_test(test_plan_when_lives_are_random_then_none_that_meet_overlap),
    cmocka_unit_test(test_plan_when_lives_are_nested_then_it_is_exact),
    cmocka_unit_test(test_plan_when_memory_is_asked_for_then_it_is_given_back),
};

MPT_TEST_MAIN(cases)
