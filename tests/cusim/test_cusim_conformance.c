/* The CUDA kernels against the definition, run by the simulator: the whole conformance table.
 */
#include "conformance.h"

#include "kernels/cuda/cuda.h"

static void check_node(op_case *expected, const shape *sh) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2};
    const mpt_kernel *row = op_selected(mpt_kernels_cuda, expected);
    if (!row)
        fail_msg("cuda has no kernel for %s", mpt_op_get(expected->op)->name);
    op_case got = twin_of(expected);
    got.gpu = &gpu;
    op_run(&got, row, false, 1);
    compare(&got, expected, tolerance_of(&sh->sizes), row->name, sh->name);
    twin_free(&got);
}

CONFORMANCE_OPS(CONFORMANCE_CASE)

static const struct CMUnitTest cases[] = {
#define CASE(op) cmocka_unit_test(test_conformance_when_##op##_then_within_bound),
    CONFORMANCE_OPS(CASE)};

MPT_TEST_MAIN(cases)
