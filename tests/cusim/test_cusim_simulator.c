/* The simulator itself: it must find what is planted, and pass what is sound. */
#include "mpt_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/sim/control.h"
#include "planted.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

/* ---- faults, each in a process of its own ---- */

static void assert_ends_saying(void (*launch)(void), const char *const *texts) {
    char said[8192] = "";
    int ends[2], status = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        launch();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n + 1 < sizeof said; n += (size_t)got)
        got = read(ends[0], said + n, sizeof said - 1 - n);
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        fail_msg("the kernel ended as if nothing were wrong: %s", said);
    for (; *texts; texts++)
        if (!strstr(said, *texts))
            fail_msg("nothing says '%s' in: %s", *texts, said);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_simulator_when_barriers_differ_then_both_places_are_named(void **state) {
    (void)state;
    assert_ends_saying(planted_divergent_barrier,
                       SAYS("kernel divergent_barrier_kernel", "block (0,0,0)",
                            "thread (32,0,0)", "divergent barrier", "thread (0,0,0) waits at",
                            "planted.cu:"));
}

static void test_simulator_when_a_lane_returned_then_deadlock_names_it(void **state) {
    (void)state;
    assert_ends_saying(planted_lost_lane,
                       SAYS("kernel lost_lane_kernel, block (0,0,0): deadlock, 31 of 32",
                            "thread (0,0,0) waits for the lanes ffffffff",
                            "lane 5 has returned"));
}

static void test_simulator_when_a_warp_is_torn_then_deadlock_names_both_places(void **state) {
    (void)state;
    assert_ends_saying(planted_half_at_barrier,
                       SAYS("kernel half_at_barrier_kernel", "deadlock, 64 of 64",
                            "thread (0,0,0) waits for its block",
                            "thread (33,0,0) waits for the lanes"));
}

static void test_simulator_when_lane_is_outside_its_mask_then_fault(void **state) {
    (void)state;
    assert_ends_saying(planted_wrong_mask, SAYS("kernel wrong_mask_kernel", "thread (16,0,0)",
                                                "lane 16 is not in its mask 0000ffff"));
}

static void test_simulator_when_block_is_too_large_then_fault(void **state) {
    (void)state;
    assert_ends_saying(planted_too_many_threads, SAYS("a block of 1025 x 1 x 1 threads"));
}

static void much_shared_unasked(void) {
    if (planted_much_shared(64 << 10, true))
        _exit(0); /* which fails the test */
    (void)planted_much_shared(64 << 10, false);
}

static void test_simulator_when_much_shared_memory_is_not_asked_for_then_fault(void **state) {
    (void)state;
    assert_ends_saying(much_shared_unasked,
                       SAYS("kernel kernel: 65536 bytes of shared memory, which were not asked "
                            "for: more than 49152 have to be"));
}

/* 163 KiB are what the smallest of the GPUs has that kernels are built for. */
static void test_allow_shared_when_more_than_there_is_then_the_device_says_so(void **state) {
    (void)state;
    assert_null(planted_much_shared(48 << 10, false));
    assert_null(planted_much_shared(163 << 10, true));
    assert_string_equal(planted_much_shared((163 << 10) + 1, true),
                        "it refuses a kernel the shared memory that it needs");
}

/* Without the sanitizer nothing watches memory, so the case is not there. */
#if defined(WITH_ASAN)
static void test_simulator_when_shared_memory_is_overrun_then_sanitizer_says(void **state) {
    (void)state;
    assert_ends_saying(planted_shared_overrun,
                       SAYS("AddressSanitizer: global-buffer-overflow", "planted.cu"));
    assert_ends_saying(planted_dynamic_overrun,
                       SAYS("AddressSanitizer: heap-buffer-overflow", "planted.cu"));
}
#endif

/* ---- order ---- */

static int rotated_wrong(bool with_barrier, uint64_t seed) {
    float x[256], y[256];
    int wrong = 0;
    for (int i = 0; i < 256; i++)
        x[i] = (float)(i + 1000 * (int)seed);
    cusim_shuffle(seed);
    planted_rotate(x, y, with_barrier);
    cusim_shuffle(0);
    for (int i = 0; i < 256; i++)
        wrong += y[i] != x[(i + 255) % 256];
    return wrong;
}

/* In order each thread finds its neighbour's number by luck; all but the first. */
static void test_simulator_when_barrier_is_missing_then_shuffling_shows_it(void **state) {
    (void)state;
    assert_int_equal(rotated_wrong(false, 0), 1);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        assert_true(rotated_wrong(false, seed) > 50);
        assert_int_equal(rotated_wrong(true, seed), 0);
    }
}

/* ---- sound kernels, in any order ---- */

static void
test_simulator_when_threads_return_early_then_barrier_counts_the_rest(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        int y[64] = {0};
        cusim_shuffle(seed);
        planted_early_return(y);
        for (int i = 0; i < 64; i++)
            assert_int_equal(y[i], i < 40 ? 20 : 0);
    }
    cusim_shuffle(0);
}

static void test_simulator_when_shuffled_then_as_cuda_defines(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        int y[64];
        cusim_shuffle(seed);
        planted_shuffles(y);
        for (int i = 0; i < 64; i++) {
            int up = i % 8 < 3 ? i : i - 3, down = i % 8 > 4 ? i : i + 3;
            int from = i / 16 * 16 + 9;
            assert_int_equal(y[i], up + 100 * down + 10000 * (i ^ 5) + 1000000 * from);
        }
    }
    cusim_shuffle(0);
}

static void test_simulator_when_voting_then_as_cuda_defines(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        unsigned y[64];
        cusim_shuffle(seed);
        planted_votes(y);
        for (unsigned i = 0; i < 64; i++) {
            unsigned third = 0;
            for (unsigned lane = i % 32 % 3; lane < 32; lane += 3)
                third |= 1u << lane;
            assert_int_equal(y[i], 0xAAAAAAAAu ^ third);
        }
    }
    cusim_shuffle(0);
}

/* 16 numbers are summed, by the lower half three times over. */
static void test_simulator_when_masks_differ_then_each_meets_by_itself(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        int y[64];
        cusim_shuffle(seed);
        planted_masks(y);
        for (int i = 0; i < 64; i++) {
            int sum = 16 * (i / 16 * 16) + 120;
            assert_int_equal(y[i], i % 32 < 16 ? sum * 256 : sum);
        }
    }
    cusim_shuffle(0);
}

/* ---- launches ---- */

static void test_simulator_when_recorded_then_runs_again_only(void **state) {
    (void)state;
    float x[1000] = {0};
    planted_add_one(x, 1000, 0);
    assert_true(x[0] == 1 && x[999] == 1);
    planted_add_one(x, 1000, 3);
    assert_true(x[0] == 4 && x[999] == 4);
}

static void test_simulator_when_nobody_waits_then_a_block_takes_two_switches(void **state) {
    (void)state;
    static float x[4096];
    cusim_counts before = cusim_counted();
    planted_add_one(x, 4096, 0);
    cusim_counts after = cusim_counted();
    assert_int_equal(after.launches - before.launches, 1);
    assert_int_equal(after.threads - before.threads, 4096);
    assert_int_equal(after.switches - before.switches, 2 * 16);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_simulator_when_barriers_differ_then_both_places_are_named),
    cmocka_unit_test(test_simulator_when_a_lane_returned_then_deadlock_names_it),
    cmocka_unit_test(test_simulator_when_a_warp_is_torn_then_deadlock_names_both_places),
    cmocka_unit_test(test_simulator_when_lane_is_outside_its_mask_then_fault),
    cmocka_unit_test(test_simulator_when_block_is_too_large_then_fault),
    cmocka_unit_test(test_simulator_when_much_shared_memory_is_not_asked_for_then_fault),
    cmocka_unit_test(test_allow_shared_when_more_than_there_is_then_the_device_says_so),
#if defined(WITH_ASAN)
    cmocka_unit_test(test_simulator_when_shared_memory_is_overrun_then_sanitizer_says),
#endif
    cmocka_unit_test(test_simulator_when_barrier_is_missing_then_shuffling_shows_it),
    cmocka_unit_test(test_simulator_when_threads_return_early_then_barrier_counts_the_rest),
    cmocka_unit_test(test_simulator_when_shuffled_then_as_cuda_defines),
    cmocka_unit_test(test_simulator_when_voting_then_as_cuda_defines),
    cmocka_unit_test(test_simulator_when_masks_differ_then_each_meets_by_itself),
    cmocka_unit_test(test_simulator_when_recorded_then_runs_again_only),
    cmocka_unit_test(test_simulator_when_nobody_waits_then_a_block_takes_two_switches),
};

MPT_TEST_MAIN(cases)
