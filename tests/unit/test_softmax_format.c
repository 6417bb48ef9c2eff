/* Attention whose probabilities are rounded to a format: the definition on two keys, and cpu
 * against ref in both passes. */
#include <omp.h>

#include "op_cases.h"

#include "kernels/numerics_cast.h"

static const mpt_dtype formats[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP16, MPT_DTYPE_E4M3,
                                    MPT_DTYPE_E5M2};

static const op_row *attention_row(void) {
    for (size_t i = 0; i < MPT_COUNT(op_rows); i++)
        if (op_rows[i].op == MPT_OP_attention)
            return &op_rows[i];
    fail_msg("no row for attention");
    return NULL;
}

/* ---- the definition ---- */

/* One head of one number, two tokens: the second query's scores are 0 and -x, so that its
 * exponentials are 1 and e^-x. */
static op_case two_keys(double x) {
    static const op_sizes sizes = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    op_case c = op_forward(attention_row(), &sizes, 1);
    c.attrs.scale = 1;
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 2; t++)
            c.in[i].data[t] = 0;
    c.in[0].data[1] = 1;  /* q */
    c.in[1].data[1] = -x; /* k */
    c.in[2].data[1] = 1;  /* v */
    return c;
}

static void test_softmax_when_rounded_then_by_the_rows_largest_over_an_exact_sum(void **state) {
    (void)state;
    for (size_t f = 0; f < MPT_COUNT(formats); f++) {
        for (double x = 0.3; x < 9; x += 0.7) {
            double e = exp(-(double)(float)x), p = (double)mpt_round(formats[f], (float)e);
            op_case c = two_keys((double)(float)x);
            c.attrs.softmax = formats[f];
            op_run(&c, op_kernel(mpt_kernels_ref, MPT_OP_attention), false, 1);
            double o = c.out[0].data[1], expected = p / (1 + e);
            if (!(fabs(o - expected) <= 1e-6 * (expected + 1e-3)))
                fail_msg("%s, x %g: %.9g, expected %.9g", mpt_dtype_name(formats[f]), x, o,
                         expected);
            assert_true(fabs(c.out[1].data[1] - log(1 + e)) < 1e-6);
            op_free(&c);
        }
    }
}

/* dv takes the rounded probability, dq goes straight through the rounding. */
static void test_softmax_when_rounded_then_dv_has_what_forward_multiplied(void **state) {
    (void)state;
    const double x = 1.7;
    const op_row *row = attention_row();
    double e = exp(-(double)(float)x), p = (double)mpt_round(MPT_DTYPE_E4M3, (float)e);
    op_case c = two_keys((double)(float)x);
    op_tensor dy[MPT_MAX_OUT] = {0};
    c.attrs.softmax = MPT_DTYPE_E4M3;
    op_fill_dy(row, &c, dy);
    dy[0].data[0] = 0;
    dy[0].data[1] = 1;
    op_run(&c, op_kernel(mpt_kernels_ref, MPT_OP_attention), false, 1);
    op_case g = op_backward(row, &row->gradients[0], &c, dy);
    op_run(&g, op_kernel(mpt_kernels_ref, MPT_OP_attention_grad), false, 1);
    double o = p / (1 + e);
    assert_true(fabs(g.out[2].data[1] - p / (1 + e)) < 1e-6);
    assert_true(fabs(g.out[2].data[0] - 1 / (1 + e)) < 1e-6);
    /* ds of the second key is its unrounded probability times (v - o), and k is -x */
    assert_true(fabs(g.out[0].data[1] + (double)(float)x * e / (1 + e) * (1 - o)) < 1e-5);
    op_free(&g);
    op_free(&c);
    free(dy[0].data);
}

/* ---- cpu against ref ---- */

/* batch, sequence, in, out, heads, kv_heads, dim, groups, state, taps, chunk */
static const op_sizes shapes[] = {{2, 29, 1, 1, 6, 2, 3, 1, 1, 1, 1},
                                  {1, 130, 1, 1, 2, 1, 16, 1, 1, 1, 1},
                                  {2, 64, 1, 1, 2, 2, 8, 1, 1, 1, 1}};

static void run_with(op_case *c, const mpt_kernel *table, int n_threads) {
    omp_set_num_threads(n_threads);
    op_run(c, op_kernel(table, c->op), false, n_threads);
}

/* The mean square of what two cases differ in, over that of the first. */
static double distance(const op_case *a, const op_case *b, int o) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < op_elements(&a->out[o]); i++) {
        error +=
            (a->out[o].data[i] - b->out[o].data[i]) * (a->out[o].data[i] - b->out[o].data[i]);
        size += a->out[o].data[i] * a->out[o].data[i];
    }
    return error / size;
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

/* Scores differ in their last bits, so that a few exponentials fall on the other side of a tie:
 * what that moves is far below what the rounding moved. */
static void check_backends(op_case *c, mpt_dtype format) {
    op_case exact = twin_of(c), cpu = twin_of(c), two = twin_of(c);
    exact.attrs.softmax = MPT_DTYPE_FP32;
    run_with(c, mpt_kernels_ref, 1);
    run_with(&cpu, mpt_kernels_cpu, 1);
    run_with(&two, mpt_kernels_cpu, 2);
    run_with(&exact, mpt_kernels_ref, 1);
    for (int o = 0; o < c->n_out; o++) {
        assert_memory_equal(cpu.out[o].data, two.out[o].data,
                            (size_t)op_elements(&cpu.out[o]) * sizeof(double));
        double apart = distance(c, &cpu, o), rounded = distance(c, &exact, o);
        bool changes = c->op == MPT_OP_attention ? o == 0 : o == 2;
        if (!(apart <= 1e-12 || apart <= 0.05 * rounded))
            fail_msg("%s, output %d: backends %.3g apart, rounding moves %.3g",
                     mpt_dtype_name(format), o, apart, rounded);
        if (changes && !(rounded > 1e-12))
            fail_msg("%s, output %d: rounding changes nothing", mpt_dtype_name(format), o);
    }
    twin_free(&exact);
    twin_free(&cpu);
    twin_free(&two);
}

static void test_softmax_when_rounded_then_cpu_is_as_ref_in_both_passes(void **state) {
    (void)state;
    const op_row *row = attention_row();
    for (size_t f = 0; f < MPT_COUNT(formats); f++) {
        for (size_t s = 0; s < MPT_COUNT(shapes); s++) {
            op_case c = op_forward(row, &shapes[s], 7);
            op_tensor dy[MPT_MAX_OUT] = {0};
            c.attrs.softmax = formats[f];
            op_fill_dy(row, &c, dy);
            check_backends(&c, formats[f]);
            op_case g = op_backward(row, &row->gradients[0], &c, dy);
            check_backends(&g, formats[f]);
            op_free(&g);
            op_free(&c);
            free(dy[0].data);
        }
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_softmax_when_rounded_then_by_the_rows_largest_over_an_exact_sum),
    cmocka_unit_test(test_softmax_when_rounded_then_dv_has_what_forward_multiplied),
    cmocka_unit_test(test_softmax_when_rounded_then_cpu_is_as_ref_in_both_passes),
};
MPT_TEST_MAIN(cases)
