/* What the conformance table's shapes do not reach: rows longer than a warp or the registers of
 * a block hold, steps of dropout, and an evaluation. */
#include "conformance.h"

#include "kernels/cuda/cuda.h"

static op_case matrix(mpt_op op, int n_in, int64_t rows, int64_t cols) {
    op_case c = {.op = op};
    for (int i = 0; i < n_in; i++)
        op_in(&c, OP_REAL, rows, cols, -4, 4);
    op_out(&c, OP_REAL, rows, cols);
    op_fill(&c, 11);
    return c;
}

static op_case run_cuda(const op_case *c) {
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2};
    op_case got = twin_of(c);
    got.gpu = &gpu;
    op_run(&got, op_kernel(mpt_kernels_cuda, c->op), false, 1);
    got.gpu = NULL;
    return got;
}

static void check_node(op_case *expected, const shape *sh) {
    op_run(expected, op_kernel(ref64_kernels, expected->op), true, 1);
    op_case got = run_cuda(expected);
    compare(&got, expected, tolerance_of(&sh->sizes), "cuda", sh->name);
    twin_free(&got);
    op_free(expected);
}

/* One more than a warp keeps, and more than a block keeps. */
static void test_softmax_when_rows_are_long_then_within_bound(void **state) {
    (void)state;
    static const int64_t widths[] = {512, 513, 1600, 4096, 5001};
    for (size_t w = 0; w < MPT_COUNT(widths); w++) {
        shape sh = {"long rows", {.batch = 1, .sequence = 3, .in = widths[w]}};
        op_case y = matrix(MPT_OP_softmax, 1, 3, widths[w]);
        check_node(&y, &sh);
        op_case dx = matrix(MPT_OP_softmax_grad, 2, 3, widths[w]);
        check_node(&dx, &sh);
    }
}

/* A NaN must not be passed over with the largest. */
static void test_softmax_when_a_row_holds_nan_then_all_of_it_is_nan(void **state) {
    (void)state;
    op_case c = matrix(MPT_OP_softmax, 1, 2, 37);
    c.in[0].data[5] = NAN;
    op_case got = run_cuda(&c);
    for (int i = 0; i < 2 * 37; i++)
        assert_int_equal(isnan(got.out[0].data[i]) != 0, i < 37);
    twin_free(&got);
    op_free(&c);
}

static void same_as_ref(op_case *c) {
    op_case got = run_cuda(c);
    op_run(c, op_kernel(mpt_kernels_ref, c->op), false, 1);
    for (int64_t i = 0; i < op_elements(&c->out[0]); i++)
        if (memcmp(&got.out[0].data[i], &c->out[0].data[i], sizeof(double)) != 0)
            fail_msg("element %d is %a, not %a", (int)i, got.out[0].data[i], c->out[0].data[i]);
    twin_free(&got);
}

/* 5 x 7 elements end within a group of four, so that the next micro-batch starts a new one. */
static void test_dropout_when_step_moves_on_then_bits_of_the_host(void **state) {
    (void)state;
    op_case c = matrix(MPT_OP_dropout, 1, 5, 7);
    c.attrs.p = 0.3f;
    c.attrs.scope = 77;
    c.env.seed = 0x123456789ABCDEF0u;
    for (uint32_t step = 0; step < 4; step++) {
        c.env.step = step;
        c.env.micro_batch = 3 - step;
        same_as_ref(&c);
    }
    op_free(&c);
}

static void test_dropout_when_evaluating_or_never_then_nothing_is_dropped(void **state) {
    (void)state;
    op_case c = matrix(MPT_OP_dropout, 1, 5, 7);
    same_as_ref(&c);
    c.attrs.p = 0.5f;
    c.env.evaluating = true;
    same_as_ref(&c);
    assert_memory_equal(c.out[0].data, c.in[0].data, 35 * sizeof(double));
    op_free(&c);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_softmax_when_rows_are_long_then_within_bound),
    cmocka_unit_test(test_softmax_when_a_row_holds_nan_then_all_of_it_is_nan),
    cmocka_unit_test(test_dropout_when_step_moves_on_then_bits_of_the_host),
    cmocka_unit_test(test_dropout_when_evaluating_or_never_then_nothing_is_dropped),
};

MPT_TEST_MAIN(cases)
