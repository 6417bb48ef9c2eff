/* The scan of the cpu backend by chunks and token by token, on states large enough for both.
 *
 * Small states are cases of test_conformance.c and test_kernels.c. Here: lengths that are no
 * multiple of a chunk, decays whose exponents a chunk adds up to thousands, states that one
 * kernel keeps and the other goes on from, NaN, and which of the two is taken. */
#include "ref64.h"

#include <omp.h>

#include "op_cases.h"

enum { OUT_Y, OUT_STATES, IN_DT = 3, IN_A_LOG, IN_STATES = 7 };

/* batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk */
static const op_sizes sizes[] = {
    {1, 1, 1, 1, 2, 1, 64, 1, 64, 1, 64},    {2, 33, 1, 1, 4, 1, 64, 2, 64, 1, 16},
    {1, 101, 1, 1, 2, 1, 80, 2, 128, 1, 64}, {1, 130, 1, 1, 3, 1, 33, 1, 125, 1, 128},
    {1, 64, 1, 1, 2, 1, 64, 1, 64, 1, 64},
};

static const op_row *scan_row(void) {
    const op_row *row = op_rows;
    while (row->op != MPT_OP_ssm_scan)
        row++;
    return row;
}

static op_case twin_of(const op_case *c) {
    op_case twin = *c;
    for (int i = 0; i < c->n_out; i++)
        twin.out[i] = op_tensor_copy(&c->out[i]);
    return twin;
}

static void twin_free(op_case *twin) {
    for (int i = 0; i < twin->n_out; i++)
        free(twin->out[i].data);
}

static void run_with(op_case *c, const mpt_kernel *kernel, int n_threads) {
    omp_set_num_threads(n_threads);
    op_run(c, kernel, false, n_threads);
}

/* The bound of test_conformance.c, sums being over tokens, columns of the state and rows. */
static void compare(const op_case *got, const op_case *expected, const char *name) {
    double tolerance = (16 + 4 * sqrt(160.0)) * 0x1p-24;
    for (int o = 0; o < got->n_out; o++) {
        double most = 1e-3;
        for (int64_t i = 0; i < op_elements(&got->out[o]); i++)
            most = fmax(most, fabs(expected->out[o].data[i]));
        for (int64_t i = 0; i < op_elements(&got->out[o]); i++) {
            double a = got->out[o].data[i], b = expected->out[o].data[i];
            if (!(fabs(a - b) <= tolerance * most))
                fail_msg("%s, %d tokens: output %d, element %d is %.9g, not %.9g (of %.3g)",
                         name, (int)got->attrs.sequence, o, (int)i, a, b, most);
        }
    }
}

/* Each cpu row against ref in double, with the same bits for 1, 2 and 3 threads. */
static void check_rows(const op_case *expected) {
    op_case one = twin_of(expected), many = twin_of(expected);
    for (const mpt_kernel *row = mpt_kernels_cpu; row->run; row++) {
        if (row->op != expected->op)
            continue;
        run_with(&one, row, 1);
        compare(&one, expected, row->name);
        for (int n = 2; n <= 3; n++) {
            run_with(&many, row, n);
            for (int o = 0; o < one.n_out; o++)
                assert_memory_equal(one.out[o].data, many.out[o].data,
                                    (size_t)op_elements(&one.out[o]) * sizeof(double));
        }
    }
    twin_free(&one);
    twin_free(&many);
}

static op_case gradient_of(const op_case *forward, op_tensor *dy) {
    const op_row *row = scan_row();
    op_fill_dy(row, forward, dy);
    return op_backward(row, &row->gradients[0], forward, dy);
}

/* Forward and backward of a case whose inputs stand. */
static void check_both(op_case *forward) {
    op_tensor dy[MPT_MAX_OUT] = {0};
    op_run(forward, op_kernel(ref64_kernels, forward->op), true, 1);
    check_rows(forward);
    op_case c = gradient_of(forward, dy);
    op_run(&c, op_kernel(ref64_kernels, c.op), true, 1);
    check_rows(&c);
    op_free(&c);
    free(dy[0].data);
}

static void test_scan_when_states_are_large_then_within_bound(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(sizes); i++) {
        op_case c = op_forward(scan_row(), &sizes[i], 5);
        check_both(&c);
        op_free(&c);
    }
}

/* Steps of up to 8 and A down to -55: exponents add up to thousands within a chunk, and what a
 * sum of that size misses must not reach the small differences. */
static void test_scan_when_decay_is_fast_then_within_bound(void **state) {
    (void)state;
    op_case c = op_forward(scan_row(), &sizes[2], 5);
    for (int64_t i = 0; i < op_elements(&c.in[IN_DT]); i++)
        c.in[IN_DT].data[i] = i % 7 == 0 ? 8 : i % 5 == 0 ? 1 : -6;
    for (int64_t i = 0; i < op_elements(&c.in[IN_A_LOG]); i++)
        c.in[IN_A_LOG].data[i] = i % 2 ? 4 : 1;
    check_both(&c);
    op_free(&c);
}

/* Each kernel of the gradient goes on from the states that each of the scan keeps. */
static void test_scan_when_kernels_are_mixed_then_gradients_are_the_same(void **state) {
    (void)state;
    op_case c = op_forward(scan_row(), &sizes[2], 7);
    op_run(&c, op_kernel(ref64_kernels, c.op), true, 1);
    op_tensor dy[MPT_MAX_OUT] = {0};
    op_case expected = gradient_of(&c, dy), got = twin_of(&expected);
    op_run(&expected, op_kernel(ref64_kernels, expected.op), true, 1);
    for (const mpt_kernel *scan = mpt_kernels_cpu; scan->run; scan++) {
        if (scan->op != MPT_OP_ssm_scan)
            continue;
        run_with(&c, scan, 2);
        memcpy(got.in[IN_STATES].data, c.out[OUT_STATES].data,
               (size_t)op_elements(&c.out[OUT_STATES]) * sizeof(double));
        for (const mpt_kernel *row = mpt_kernels_cpu; row->run; row++) {
            if (row->op != MPT_OP_ssm_scan_grad)
                continue;
            run_with(&got, row, 2);
            compare(&got, &expected, row->name);
        }
    }
    twin_free(&got);
    op_free(&expected);
    free(dy[0].data);
    op_free(&c);
}

static bool has_nan(const op_tensor *t) {
    bool found = false;
    for (int64_t i = 0; i < op_elements(t); i++)
        found |= isnan(t->data[i]) != 0;
    return found;
}

static void test_scan_when_an_input_is_nan_then_outputs_are(void **state) {
    (void)state;
    for (int input = 0; input < 7; input++) {
        op_case c = op_forward(scan_row(), &sizes[0], 5);
        op_tensor dy[MPT_MAX_OUT] = {0};
        c.in[input].data[0] = NAN;
        run_with(&c, op_selected(mpt_kernels_cpu, &c), 1);
        assert_true(has_nan(&c.out[OUT_Y]));
        op_case g = gradient_of(&c, dy);
        run_with(&g, op_selected(mpt_kernels_cpu, &g), 1);
        assert_true(has_nan(&g.out[0]) || has_nan(&g.out[1]) || has_nan(&g.out[IN_DT]));
        op_free(&g);
        free(dy[0].data);
        op_free(&c);
    }
}

static void test_scan_when_selected_then_size_decides(void **state) {
    static const struct {
        int64_t dim, n_state, chunk;
        const char *name;
    } choices[] = {
        {64, 64, 64, "cpu.ssm_scan_chunked"},  {80, 128, 128, "cpu.ssm_scan_chunked"},
        {32, 128, 16, "cpu.ssm_scan_chunked"}, {63, 65, 64, "cpu.ssm_scan"},
        {16, 16, 64, "cpu.ssm_scan"},          {64, 64, 15, "cpu.ssm_scan"},
        {64, 64, 129, "cpu.ssm_scan"},
    };
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(choices); i++) {
        op_sizes s = {
            1, 3, 1, 1, 1, 1, choices[i].dim, 1, choices[i].n_state, 1, choices[i].chunk};
        op_case c = op_forward(scan_row(), &s, 5);
        assert_string_equal(op_selected(mpt_kernels_cpu, &c)->name, choices[i].name);
        op_free(&c);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_scan_when_states_are_large_then_within_bound),
    cmocka_unit_test(test_scan_when_decay_is_fast_then_within_bound),
    cmocka_unit_test(test_scan_when_kernels_are_mixed_then_gradients_are_the_same),
    cmocka_unit_test(test_scan_when_an_input_is_nan_then_outputs_are),
    cmocka_unit_test(test_scan_when_selected_then_size_decides),
};

MPT_TEST_MAIN(cases)
