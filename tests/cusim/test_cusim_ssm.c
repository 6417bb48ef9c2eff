/* The chunked scan and the convolution on a device, beyond the conformance table: chunks of
 * several tiles, short last ones, states and heads wider than a tile. */
#include "tile_case.h"

/* `in` says how much is summed up for A_log: a whole state. */
static const shape scans[] = {
    {"tiles within a chunk, a short last one",
     {.batch = 2, .sequence = 120, .heads = 2, .dim = 5, .groups = 1, .state = 9, .chunk = 70}},
    {"a state of two slabs",
     {.batch = 1,
      .sequence = 10,
      .in = 980,
      .heads = 2,
      .dim = 7,
      .groups = 2,
      .state = 140,
      .chunk = 6}},
    {"a head of two slabs",
     {.batch = 1,
      .sequence = 10,
      .in = 980,
      .heads = 2,
      .dim = 140,
      .groups = 1,
      .state = 7,
      .chunk = 6}},
    {"a chunk a token",
     {.batch = 2, .sequence = 5, .heads = 2, .dim = 3, .groups = 1, .state = 4, .chunk = 1}},
};

static void test_ssm_scan_when_chunks_and_widths_are_odd_then_within_bound(void **state) {
    (void)state;
    tile_check(MPT_OP_ssm_scan, scans, MPT_COUNT(scans));
}

/* Runs of 256 tokens are summed up first: here are two, and more taps than fit one thread. */
static const shape runs[] = {
    {"two runs", {.batch = 2, .sequence = 150, .in = 5, .taps = 9}},
    {"one tap", {.batch = 1, .sequence = 3, .in = 130, .taps = 1}},
};

static void test_conv1d_when_tokens_take_several_runs_then_within_bound(void **state) {
    (void)state;
    tile_check(MPT_OP_conv1d, runs, MPT_COUNT(runs));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_ssm_scan_when_chunks_and_widths_are_odd_then_within_bound),
    cmocka_unit_test(test_conv1d_when_tokens_take_several_runs_then_within_bound),
};

MPT_TEST_MAIN(cases)
