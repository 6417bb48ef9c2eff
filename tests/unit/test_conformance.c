/* The host backends against the definition. Held against the double-precision reference: first
 * ref itself in float32, then every cpu row. Kernels of cpu must also give the same bits with
 * one thread and with two. */
#include "conformance.h"

#include <omp.h>

static void run_with(op_case *c, const mpt_kernel *kernel, int n_threads) {
    omp_set_num_threads(n_threads);
    op_run(c, kernel, false, n_threads);
}

/* One node, whose ref64 outputs are in `expected`, by ref and by each cpu row. */
static void check_node(op_case *expected, const shape *sh) {
    op_case ref = twin_of(expected), one = twin_of(expected), two = twin_of(expected);
    double tolerance = tolerance_of(&sh->sizes);
    const mpt_kernel *row = op_kernel(mpt_kernels_ref, expected->op);
    assert_non_null(row);
    run_with(&ref, row, 1);
    compare(&ref, expected, tolerance, row->name, sh->name);
    for (row = mpt_kernels_cpu; row->run; row++) {
        if (row->op != expected->op)
            continue;
        run_with(&one, row, 1);
        compare(&one, expected, tolerance, row->name, sh->name);
        run_with(&two, row, 2);
        for (int o = 0; o < one.n_out; o++)
            if (memcmp(one.out[o].data, two.out[o].data,
                       (size_t)op_elements(&one.out[o]) * sizeof(double)) != 0)
                fail_msg("%s, %s: other bits with two threads", row->name, sh->name);
    }
    twin_free(&ref);
    twin_free(&one);
    twin_free(&two);
}

CONFORMANCE_OPS(CONFORMANCE_CASE)

/* dw += factors dy^T x in doubles, tokens outermost: ref's order would take seconds here. */
static void sum_tokens(op_case *c) {
    const double *dy = c->in[0].data, *x = c->in[1].data;
    op_outputs_reset(c);
    int64_t n_out = c->in[0].dims[1], n_in = c->in[1].dims[1];
    double factor = (double)c->attrs.alpha * c->in[3].data[0] * c->in[4].data[0];
    for (int64_t t = 0; t < c->in[0].dims[0]; t++)
        for (int64_t o = 0; o < n_out; o++)
            for (int64_t i = 0; i < n_in; i++)
                c->out[0].data[o * n_in + i] += factor * dy[t * n_out + o] * x[t * n_in + i];
}

/* A weight gradient of few results and many tokens, which cpu cuts along the tokens. */
static void test_conformance_when_wgrad_has_many_tokens_then_within_bound(void **state) {
    static const shape tall = {"many tokens", {2, 515, 448, 640, 1, 1, 1, 1, 1, 1, 1}};
    const op_row *row = op_rows;
    op_tensor dy[MPT_MAX_OUT] = {0};
    (void)state;
    while (row->op != MPT_OP_linear)
        row++;
    op_case forward = op_forward(row, &tall.sizes, 5);
    op_fill_dy(row, &forward, dy);
    op_case c = op_backward(row, &row->gradients[1], &forward, dy);
    assert_int_equal(c.op, MPT_OP_linear_wgrad);
    op_case one = twin_of(&c), two = twin_of(&c);
    const mpt_kernel *kernel = op_kernel(mpt_kernels_cpu, c.op);
    sum_tokens(&c);
    run_with(&one, kernel, 1);
    compare(&one, &c, tolerance_of(&tall.sizes), kernel->name, tall.name);
    run_with(&two, kernel, 2);
    assert_memory_equal(one.out[0].data, two.out[0].data,
                        (size_t)op_elements(&one.out[0]) * sizeof(double));
    twin_free(&one);
    twin_free(&two);
    op_free(&c);
    free(dy[0].data);
    op_free(&forward);
}

/* A cpu row that no case reaches would be untested. */
static void test_conformance_when_cpu_row_then_some_case_runs_it(void **state) {
    (void)state;
    for (const mpt_kernel *row = mpt_kernels_cpu; row->run; row++) {
        bool found = row->op == MPT_OP_cast || row->op == MPT_OP_quantize ||
                     row->op == MPT_OP_record_amax || row->op >= MPT_OP_zero;
        for (size_t i = 0; i < MPT_COUNT(op_rows); i++) {
            found |= op_rows[i].op == row->op;
            for (int g = 0; g < 4 && op_rows[i].gradients[g].in; g++)
                found |= op_rows[i].gradients[g].op == row->op;
        }
        if (!found)
            fail_msg("%s is run by no row of tests/op_cases.h", row->name);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_conformance_when_embedding_then_within_bound),
    cmocka_unit_test(test_conformance_when_linear_then_within_bound),
    cmocka_unit_test(test_conformance_when_add_then_within_bound),
    cmocka_unit_test(test_conformance_when_mul_then_within_bound),
    cmocka_unit_test(test_conformance_when_gelu_then_within_bound),
    cmocka_unit_test(test_conformance_when_silu_then_within_bound),
    cmocka_unit_test(test_conformance_when_relu2_then_within_bound),
    cmocka_unit_test(test_conformance_when_softplus_then_within_bound),
    cmocka_unit_test(test_conformance_when_swiglu_then_within_bound),
    cmocka_unit_test(test_conformance_when_softmax_then_within_bound),
    cmocka_unit_test(test_conformance_when_scale_then_within_bound),
    cmocka_unit_test(test_conformance_when_dropout_then_within_bound),
    cmocka_unit_test(test_conformance_when_rope_then_within_bound),
    cmocka_unit_test(test_conformance_when_rmsnorm_then_within_bound),
    cmocka_unit_test(test_conformance_when_layernorm_then_within_bound),
    cmocka_unit_test(test_conformance_when_gated_rmsnorm_then_within_bound),
    cmocka_unit_test(test_conformance_when_attention_then_within_bound),
    cmocka_unit_test(test_conformance_when_conv1d_then_within_bound),
    cmocka_unit_test(test_conformance_when_ssm_scan_then_within_bound),
    cmocka_unit_test(test_conformance_when_split_then_within_bound),
    cmocka_unit_test(test_conformance_when_concat_then_within_bound),
    cmocka_unit_test(test_conformance_when_moe_route_then_within_bound),
    cmocka_unit_test(test_conformance_when_moe_dispatch_then_within_bound),
    cmocka_unit_test(test_conformance_when_moe_combine_then_within_bound),
    cmocka_unit_test(test_conformance_when_cross_entropy_then_within_bound),
    cmocka_unit_test(test_conformance_when_wgrad_has_many_tokens_then_within_bound),
    cmocka_unit_test(test_conformance_when_cpu_row_then_some_case_runs_it),
};

MPT_TEST_MAIN(cases)
