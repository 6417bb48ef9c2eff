/* The three GEMMs of a linear layer with one factor a row or a column of the product: outer
 * scales of operands that were quantized row by row. */
#include "mpt_test.h"

#include <math.h>
#include <omp.h>

#include "op_case.h"

/* Shapes small, odd, and of several blocks of the cpu backend in both directions. */
static const int64_t shapes[][3] = {{5, 7, 3}, {29, 33, 70}, {150, 90, 1100}, {1100, 40, 60}};

static double at(const op_tensor *t, int64_t row, int64_t col) {
    return t->data[row * t->dims[1] + col];
}

/* 1 where the factor is absent; one number, or one an element. */
static double factor_at(const op_tensor *t, int64_t i) {
    return t->kind == OP_ABSENT ? 1 : t->data[t->dims[0] > 1 ? i : 0];
}

/* Element (i, j) of the bare product of a case. */
static double product_at(const op_case *c, int64_t i, int64_t j) {
    const op_tensor *a = &c->in[0], *b = &c->in[1];
    bool wgrad = c->op == MPT_OP_linear_wgrad;
    int64_t k_end = wgrad ? a->dims[0] : a->dims[1];
    double sum = 0;
    for (int64_t k = 0; k < k_end; k++)
        sum += (wgrad ? at(a, k, i) : at(a, i, k)) *
               (c->op == MPT_OP_linear ? at(b, j, k) : at(b, k, j));
    return sum;
}

/* m x k times k x n; which factors are vectors: bit 0 the first operand's, bit 1 the second's.
 */
static op_case make_case(mpt_op op, const int64_t *shape, int vectors) {
    int64_t m = shape[0], k = shape[1], n = shape[2];
    bool wgrad = op == MPT_OP_linear_wgrad, linear = op == MPT_OP_linear;
    op_case c = {.op = op, .attrs.alpha = 0.75f};
    op_in(&c, OP_REAL, wgrad ? k : m, wgrad ? m : k, -1, 1);
    op_in(&c, OP_REAL, linear ? n : k, linear ? k : n, -1, 1);
    op_in(&c, linear ? OP_REAL : OP_ABSENT, n, 0, -1, 1);
    op_in(&c, OP_REAL, vectors & 1 ? m : 1, 0, 0.5, 2);
    op_in(&c, OP_REAL, vectors & 2 ? n : 1, 0, 0.5, 2);
    op_out(&c, wgrad ? OP_SUM : OP_REAL, m, n);
    op_fill(&c, 3);
    return c;
}

/* `unit` is what the results of even rows are measured by, 1 that of the others. */
static void check_case(op_case *c, const mpt_kernel *kernel, int n_threads, double unit) {
    double start = c->out[0].kind == OP_SUM ? op_sum_start : 0;
    omp_set_num_threads(n_threads);
    op_run(c, kernel, false, n_threads);
    for (int64_t i = 0; i < c->out[0].dims[0]; i++)
        for (int64_t j = 0; j < c->out[0].dims[1]; j++) {
            double bias = c->in[2].kind == OP_ABSENT ? 0 : c->in[2].data[j];
            double f = factor_at(&c->in[3], i) * factor_at(&c->in[4], j) * 0.75;
            double expected = start + f * product_at(c, i, j) + bias;
            if (!(fabs(at(&c->out[0], i, j) - expected) <
                  2e-5 * ((i % 2 ? 1 : unit) + fabs(expected))))
                fail_msg("%s: [%d, %d] is %.9g, not %.9g", kernel->name, (int)i, (int)j,
                         at(&c->out[0], i, j), expected);
        }
}

static void check_op(mpt_op op) {
    for (size_t s = 0; s < MPT_COUNT(shapes); s++)
        for (int vectors = 1; vectors < 4; vectors++) {
            op_case c = make_case(op, shapes[s], vectors);
            size_t n = (size_t)op_elements(&c.out[0]);
            check_case(&c, op_kernel(mpt_kernels_ref, op), 1, 1);
            check_case(&c, op_kernel(mpt_kernels_cpu, op), 2, 1);
            double *two = op_calloc(n, sizeof *two);
            memcpy(two, c.out[0].data, n * sizeof *two);
            check_case(&c, op_kernel(mpt_kernels_cpu, op), 1, 1);
            assert_memory_equal(two, c.out[0].data, n * sizeof *two);
            free(two);
            op_free(&c);
        }
}

static void test_linear_when_factors_are_vectors_then_rows_and_columns_have_them(void **s) {
    (void)s;
    check_op(MPT_OP_linear);
}

static void test_dgrad_when_factors_are_vectors_then_rows_and_columns_have_them(void **s) {
    (void)s;
    check_op(MPT_OP_linear_dgrad);
}

/* The gradient is added to, so the factors must not touch what was there. */
static void test_wgrad_when_factors_are_vectors_then_the_sum_before_is_kept(void **s) {
    (void)s;
    check_op(MPT_OP_linear_wgrad);
}

/* Two factors whose product is beyond the largest number, while the results need not be: zeros
 * stay zeros, and a sum of 2^-70 is brought to 2^60. */
static void check_huge_factors(mpt_op op) {
    for (size_t s = 0; s < MPT_COUNT(shapes); s++) {
        op_case c = make_case(op, shapes[s], 0);
        op_tensor *a = &c.in[0];
        bool wgrad = op == MPT_OP_linear_wgrad;
        for (int64_t i = 0; i < op_elements(a); i++) {
            int64_t row = wgrad ? i % a->dims[1] : i / a->dims[1];
            a->data[i] *= row % 2 ? 0 : 0x1p-70;
        }
        c.in[3].data[0] = 0x1p70;
        c.in[4].data[0] = 0x1p60;
        check_case(&c, op_kernel(mpt_kernels_ref, op), 1, 0x1p60);
        check_case(&c, op_kernel(mpt_kernels_cpu, op), 2, 0x1p60);
        op_free(&c);
    }
}

static void test_linear_when_the_product_of_factors_overflows_then_results_need_not(void **s) {
    (void)s;
    check_huge_factors(MPT_OP_linear);
}

static void test_dgrad_when_the_product_of_factors_overflows_then_results_need_not(void **s) {
    (void)s;
    check_huge_factors(MPT_OP_linear_dgrad);
}

static void test_wgrad_when_the_product_of_factors_overflows_then_results_need_not(void **s) {
    (void)s;
    check_huge_factors(MPT_OP_linear_wgrad);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_linear_when_factors_are_vectors_then_rows_and_columns_have_them),
    cmocka_unit_test(test_dgrad_when_factors_are_vectors_then_rows_and_columns_have_them),
    cmocka_unit_test(test_wgrad_when_factors_are_vectors_then_the_sum_before_is_kept),
    cmocka_unit_test(test_linear_when_the_product_of_factors_overflows_then_results_need_not),
    cmocka_unit_test(test_dgrad_when_the_product_of_factors_overflows_then_results_need_not),
    cmocka_unit_test(test_wgrad_when_the_product_of_factors_overflows_then_results_need_not),
};

MPT_TEST_MAIN(cases)
