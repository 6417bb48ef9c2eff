/* gemm{ accumulate, promote }: how the products of a dot product are summed up, held against
 * the definition of runtime/adr/0007 written down once more, to the bit. */
#include "mpt_test.h"

#include <math.h>
#include <omp.h>

#include "op_case.h"

static const mpt_op gemms[] = {MPT_OP_linear, MPT_OP_linear_dgrad, MPT_OP_linear_wgrad};

/* m x k times k x n: shorter than a group, of several groups, of several blocks of cpu. */
static const int64_t shapes[][3] = {{3, 7, 5}, {29, 150, 70}, {70, 33, 90}, {5, 1100, 3}};

static const mpt_gemm_sum sums[] = {
    {MPT_DTYPE_FP32, 16},  {MPT_DTYPE_FP32, 48}, {MPT_DTYPE_FP32, 128}, {MPT_DTYPE_BF16, 0},
    {MPT_DTYPE_BF16, 128}, {MPT_DTYPE_FP16, 0},  {MPT_DTYPE_FP16, 16},  {MPT_DTYPE_FP32, 0},
};

/* ---- the definition ---- */

/* To nearest even, by the size of an ulp; the numbers here are far from a format's ends. */
static float round_to(mpt_dtype dtype, float x) {
    int digits = dtype == MPT_DTYPE_BF16 ? 8 : 11, exponent;
    if (dtype == MPT_DTYPE_FP32 || x == 0)
        return x;
    (void)frexp((double)x, &exponent);
    int least = dtype == MPT_DTYPE_FP16 ? -24 : -133;
    double ulp = ldexp(1, exponent - digits > least ? exponent - digits : least);
    return (float)(nearbyint((double)x / ulp) * ulp);
}

static float dot(const mpt_gemm_sum *how, const float *products, int64_t n) {
    float total = 0, running = 0, group = 0;
    for (int64_t k = 0; k < n; k++) {
        bool narrow = how->accumulate != MPT_DTYPE_FP32;
        bool last = k == n - 1, ends = last || (k + 1) % 16 == 0;
        if (narrow)
            group += products[k];
        else
            running += products[k];
        if (narrow && ends) {
            running = round_to(how->accumulate, running + group);
            group = 0;
        }
        if (last || (how->promote && (k + 1) % how->promote == 0)) {
            total += running;
            running = 0;
        }
    }
    return total;
}

static float at(const op_tensor *t, int64_t row, int64_t col) {
    return (float)t->data[row * t->dims[1] + col];
}

/* Element (i, j) of the product of a case, by the definition. */
static float product_at(const op_case *c, int64_t i, int64_t j) {
    float products[2048];
    bool wgrad = c->op == MPT_OP_linear_wgrad;
    int64_t n = wgrad ? c->in[0].dims[0] : c->in[0].dims[1];
    for (int64_t k = 0; k < n; k++)
        products[k] = (wgrad ? at(&c->in[0], k, i) : at(&c->in[0], i, k)) *
                      (c->op == MPT_OP_linear ? at(&c->in[1], j, k) : at(&c->in[1], k, j));
    return dot(&c->attrs.sum, products, n);
}

/* ---- cases ---- */

/* With factors: of the first operand one a row where `many`, else one. */
static op_case make_case(mpt_op op, const int64_t *shape, const mpt_gemm_sum *sum, bool many) {
    int64_t m = shape[0], k = shape[1], n = shape[2];
    bool wgrad = op == MPT_OP_linear_wgrad, linear = op == MPT_OP_linear;
    op_case c = {.op = op, .attrs = {.alpha = 0.75f, .sum = *sum}};
    op_in(&c, OP_REAL, wgrad ? k : m, wgrad ? m : k, -1, 1);
    op_in(&c, OP_REAL, linear ? n : k, linear ? k : n, -1, 1);
    op_in(&c, linear ? OP_REAL : OP_ABSENT, n, 0, -1, 1);
    op_in(&c, OP_REAL, many ? m : 1, 0, 0.5, 2);
    op_in(&c, OP_REAL, 1, 0, 0.5, 2);
    op_out(&c, wgrad ? OP_SUM : OP_REAL, m, n);
    op_fill(&c, 3);
    return c;
}

/* The factor multiplies the finished sum; a bias and what the gradient held come after it. */
static float element(const op_case *c, int64_t i, int64_t j) {
    float f = (float)c->in[3].data[c->in[3].dims[0] > 1 ? i : 0] * (float)c->in[4].data[0];
    float y = f * c->attrs.alpha * product_at(c, i, j);
    if (c->op == MPT_OP_linear)
        return y + (float)c->in[2].data[j];
    return c->op == MPT_OP_linear_wgrad ? (float)op_sum_start + y : y;
}

static void run(op_case *c, const mpt_kernel *kernel, int n_threads) {
    omp_set_num_threads(n_threads);
    op_run(c, kernel, false, n_threads);
}

static void check_exact(op_case *c, const mpt_kernel *kernel, int n_threads) {
    run(c, kernel, n_threads);
    for (int64_t i = 0; i < c->out[0].dims[0]; i++)
        for (int64_t j = 0; j < c->out[0].dims[1]; j++)
            if (at(&c->out[0], i, j) != element(c, i, j))
                fail_msg("%s, %s each %d: [%d, %d] is %.9g, not %.9g", kernel->name,
                         mpt_dtype_name(c->attrs.sum.accumulate), (int)c->attrs.sum.promote,
                         (int)i, (int)j, (double)at(&c->out[0], i, j),
                         (double)element(c, i, j));
}

/* FP32 sums may be taken in another order inside a stretch between promotions. */
static void check_near(op_case *c, const mpt_kernel *kernel, int n_threads) {
    run(c, kernel, n_threads);
    for (int64_t i = 0; i < c->out[0].dims[0]; i++)
        for (int64_t j = 0; j < c->out[0].dims[1]; j++)
            if (!(fabsf(at(&c->out[0], i, j) - element(c, i, j)) <=
                  2e-5f * (1 + fabsf(element(c, i, j)))))
                fail_msg("%s: [%d, %d] is %.9g, not %.9g", kernel->name, (int)i, (int)j,
                         (double)at(&c->out[0], i, j), (double)element(c, i, j));
}

static void for_all(const mpt_kernel *table, int n_threads, bool exact_fp32) {
    for (size_t g = 0; g < MPT_COUNT(gemms); g++)
        for (size_t s = 0; s < MPT_COUNT(shapes); s++)
            for (size_t h = 0; h < MPT_COUNT(sums); h++) {
                op_case c = make_case(gemms[g], shapes[s], &sums[h], h % 2 == 1);
                bool exact = exact_fp32 || sums[h].accumulate != MPT_DTYPE_FP32;
                (exact ? check_exact : check_near)(&c, op_kernel(table, gemms[g]), n_threads);
                op_free(&c);
            }
}

static void test_sum_when_on_ref_then_the_definition_to_the_bit(void **state) {
    (void)state;
    for_all(mpt_kernels_ref, 1, true);
}

static void test_sum_when_on_cpu_then_narrow_ones_have_the_bits_of_ref(void **state) {
    (void)state;
    for_all(mpt_kernels_cpu, 1, false);
    for_all(mpt_kernels_cpu, 2, false);
}

static void test_sum_when_threads_differ_then_the_same_bits(void **state) {
    (void)state;
    const int64_t shape[3] = {150, 400, 1100};
    for (size_t g = 0; g < MPT_COUNT(gemms); g++)
        for (size_t h = 0; h < MPT_COUNT(sums); h++) {
            op_case c = make_case(gemms[g], shape, &sums[h], false);
            size_t bytes = (size_t)op_elements(&c.out[0]) * sizeof(double);
            double *one = malloc(bytes);
            run(&c, op_kernel(mpt_kernels_cpu, gemms[g]), 1);
            memcpy(one, c.out[0].data, bytes);
            run(&c, op_kernel(mpt_kernels_cpu, gemms[g]), 3);
            assert_memory_equal(one, c.out[0].data, bytes);
            free(one);
            op_free(&c);
        }
}

/* ---- what it is for ---- */

/* 9600 products of 1: a BF16 sum takes 16 at a time until 4096, of which 16 is half an ulp. */
static double ones(const mpt_kernel *table, const mpt_gemm_sum *sum) {
    const int64_t n = 9600;
    op_case c = {.op = MPT_OP_linear, .attrs = {.alpha = 1, .sum = *sum}};
    op_in(&c, OP_REAL, 1, n, 1, 1);
    op_in(&c, OP_REAL, 1, n, 1, 1);
    op_in(&c, OP_ABSENT, 0, 0, 0, 0);
    op_out(&c, OP_REAL, 1, 1);
    op_fill(&c, 1);
    run(&c, op_kernel(table, c.op), 1);
    double y = c.out[0].data[0];
    op_free(&c);
    return y;
}

static void test_sum_when_long_then_bf16_stops_and_promotion_does_not(void **state) {
    (void)state;
    const mpt_kernel *const tables[] = {mpt_kernels_ref, mpt_kernels_cpu};
    for (size_t t = 0; t < MPT_COUNT(tables); t++) {
        assert_true(ones(tables[t], &(mpt_gemm_sum){MPT_DTYPE_BF16, 0}) == 4096);
        assert_true(ones(tables[t], &(mpt_gemm_sum){MPT_DTYPE_BF16, 128}) == 9600);
        assert_true(ones(tables[t], &(mpt_gemm_sum){MPT_DTYPE_FP16, 0}) == 9600);
        assert_true(ones(tables[t], &(mpt_gemm_sum){MPT_DTYPE_FP32, 0}) == 9600);
    }
}

/* The running sum passes FP16's largest number, and what the total holds is then Inf. */
static void test_sum_when_fp16_overflows_then_it_shows(void **state) {
    (void)state;
    const mpt_kernel *const tables[] = {mpt_kernels_ref, mpt_kernels_cpu};
    for (size_t t = 0; t < MPT_COUNT(tables); t++) {
        op_case c = {.op = MPT_OP_linear, .attrs = {.alpha = 1, .sum = {MPT_DTYPE_FP16, 0}}};
        op_in(&c, OP_REAL, 1, 32, 64, 64);
        op_in(&c, OP_REAL, 1, 32, 64, 64);
        op_in(&c, OP_ABSENT, 0, 0, 0, 0);
        op_out(&c, OP_REAL, 1, 1);
        op_fill(&c, 1);
        run(&c, op_kernel(tables[t], c.op), 1);
        assert_true(isinf(c.out[0].data[0]));
        op_free(&c);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_sum_when_on_ref_then_the_definition_to_the_bit),
    cmocka_unit_test(test_sum_when_on_cpu_then_narrow_ones_have_the_bits_of_ref),
    cmocka_unit_test(test_sum_when_threads_differ_then_the_same_bits),
    cmocka_unit_test(test_sum_when_long_then_bf16_stops_and_promotion_does_not),
    cmocka_unit_test(test_sum_when_fp16_overflows_then_it_shows),
};

MPT_TEST_MAIN(cases)
