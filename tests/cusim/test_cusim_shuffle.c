/* The conformance table with blocks and threads in shuffled order: every bit as in the order of
 * their index. A kernel that lacks a barrier, or adds floats as threads come, fails here. */
#include "conformance.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sim/control.h"

enum { SEEDS = 3 };

static op_case run_shuffled(const op_case *c, const mpt_kernel *row, uint64_t seed) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2};
    op_case got = twin_of(c);
    got.gpu = &gpu;
    cusim_shuffle(seed);
    op_run(&got, row, false, 1);
    cusim_shuffle(0);
    return got;
}

static void same_bits(const op_case *a, const op_case *b, const shape *sh, uint64_t seed) {
    for (int o = 0; o < a->n_out; o++)
        for (int64_t i = 0; a->out[o].data && i < op_elements(&a->out[o]); i++)
            if (memcmp(&a->out[o].data[i], &b->out[o].data[i], sizeof(double)) != 0)
                fail_msg("%s, %s, seed %d: output %d, element %d is %a, not %a",
                         mpt_op_get(a->op)->name, sh->name, (int)seed, o, (int)i,
                         a->out[o].data[i], b->out[o].data[i]);
}

static void check_node(op_case *expected, const shape *sh) {
    if (strcmp(sh->name, "odd") != 0 && strcmp(sh->name, "one token") != 0)
        return;
    const mpt_kernel *row = op_selected(mpt_kernels_cuda, expected);
    if (!row)
        fail_msg("cuda has no kernel for %s", mpt_op_get(expected->op)->name);
    op_case in_order = run_shuffled(expected, row, 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        op_case got = run_shuffled(expected, row, seed);
        same_bits(&got, &in_order, sh, seed);
        twin_free(&got);
    }
    twin_free(&in_order);
}

CONFORMANCE_OPS(CONFORMANCE_CASE)

static const struct CMUnitTest cases[] = {
#define CASE(op) cmocka_unit_test(test_conformance_when_##op##_then_within_bound),
    CONFORMANCE_OPS(CASE)};

MPT_TEST_MAIN(cases)
