/* The CUDA quantizers against the definition, run by the simulator: any quantizer over any
 * values, bit for bit, one copy or both. */
#include "device_quantize.h"

#include <stdlib.h>

/* A case keyed as a node has it, and its outputs that both sides have. */
static mpt_quantize_job keyed_job(any_case *c) {
    mpt_quantize_job job = any_job(c);
    device_key(&job, c->seed * 77, (uint32_t)c->seed, (uint32_t)c->seed % 5,
               (uint32_t)c->seed % 3);
    if (job.fp16)
        mpt_ref_round_to(MPT_DTYPE_FP16, c->x, c->n);
    return job;
}

static void check_run(any_case *c, mpt_quantize_job job, bool counted) {
    any_outputs want = any_run_with(mpt_ref_quantize_operand, job, counted);
    any_outputs got = any_run_with(device_operand, job, counted);
    /* These are no outputs of a device. */
    if (job.q->outer == MPT_OUTER_NONE)
        memcpy(got.amax.data, want.amax.data, want.amax.bytes);
    memcpy(got.stands_for.data, want.stands_for.data, got.stands_for.bytes);
    const char *what = any_difference(&want, &got);
    if (what)
        any_fail(c, what);
    if (counted && !case_same_counts(&want.counts, &got.counts, false))
        any_fail(c, "counts");
    any_free(&want);
    any_free(&got);
}

static void check_seeds(uint64_t first, uint64_t n, bool counted) {
    for (uint64_t seed = first; seed < first + n; seed++) {
        any_case c = any_case_of(seed, false);
        check_run(&c, keyed_job(&c), counted);
        any_case_free(&c);
    }
}

static void test_device_when_any_quantizer_then_ref(void **state) {
    (void)state;
    check_seeds(1, 300, false);
}

static void test_device_when_counted_then_ref(void **state) {
    (void)state;
    check_seeds(1000, 200, true);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_device_when_any_quantizer_then_ref),
    cmocka_unit_test(test_device_when_counted_then_ref),
};

MPT_TEST_MAIN(cases)
