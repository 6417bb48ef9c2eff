/* Sums of products: what is promised bit for bit, and how far implementations may differ. */
#include "gemm_bound.h"
#include "op_case.h"

#include "kernels/kernel.h"

/* y = x w^T of one row each by a backend's kernel, in FP32. */
static float dot_by(const mpt_kernel *table, const float *a, const float *b, int64_t n) {
    op_case c = {.op = MPT_OP_linear, .attrs = {.alpha = 1}};
    float y;
    op_in(&c, OP_REAL, 1, n, 0, 0);
    op_in(&c, OP_REAL, 1, n, 0, 0);
    for (int i = 0; i < 3; i++)
        c.in[c.n_in++] = (op_tensor){.kind = OP_ABSENT};
    op_out(&c, OP_REAL, 1, 1);
    op_fill(&c, 1);
    for (int64_t i = 0; i < n; i++) {
        c.in[0].data[i] = (double)a[i];
        c.in[1].data[i] = (double)b[i];
    }
    op_run(&c, op_selected(table, &c), false, 1);
    y = (float)c.out[0].data[0];
    op_free(&c);
    return y;
}

/* The hosts give the exact sum; a device is held to the certificate, which this sum has: 14
 * bits would be seen, and are not hidden by a tolerance. */
static void test_P84_when_fp8_sums_span_many_bits_then_exact_on_the_hosts(void **state) {
    (void)state;
    enum { K = 256 };
    float a[K] = {448.0f, 7.5f}, b[K] = {1.0f, 1.0f};
    for (int i = 0; i < 2; i++) /* both are numbers of E4M3 */
        assert_true(mpt_round(MPT_DTYPE_E4M3, a[i]) == a[i]);
    assert_true(dot_by(mpt_kernels_ref, a, b, K) == 455.5f);
    assert_true(dot_by(mpt_kernels_cpu, a, b, K) == 455.5f);
    dot_bound d = dot_bound_of(a, 1, b, 1, K);
    assert_true(d.certified);
    assert_true(d.exact == 455.5 && d.magnitude == 455.5);
    assert_true(dot_allowed(&d, 1, MPT_DTYPE_FP32, false) == 0);
    assert_true(dot_allowed(&d, 1, MPT_DTYPE_BF16, false) == 1); /* half of 2 */
    assert_true(dot_allowed(&d, 1, MPT_DTYPE_FP32, true) > 2);
}

/* ---- models of accumulators ---- */

static float sum_in_order(const float *a, const float *b, const int *order, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[order[i]] * b[order[i]];
    return sum;
}

/* Groups of `group` products are aligned with the largest of them and the sum so far, and cut
 * to `bits`. */
static float sum_aligned(const float *a, const float *b, int n, int group, int bits) {
    double sum = 0;
    for (int from = 0; from < n; from += group) {
        int most = -1000, exponent;
        double part = 0;
        frexp(sum, &exponent);
        most = sum != 0 ? exponent : most;
        for (int i = from; i < from + group && i < n; i++) {
            double p = (double)a[i] * (double)b[i];
            frexp(p, &exponent);
            most = p != 0 && exponent > most ? exponent : most;
        }
        double unit = ldexp(1, most - bits);
        for (int i = from; i < from + group && i < n; i++)
            part += trunc((double)a[i] * (double)b[i] / unit) * unit;
        sum = trunc(sum / unit) * unit + part;
    }
    return (float)sum;
}

static void shuffle(int *order, int n, uint64_t *seed) {
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)(op_random(seed) * (i + 1)), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
}

enum { N = 1024 };

/* Numbers of a format, of magnitudes up to `most`, some of them much larger. */
static void fill(float *x, mpt_dtype format, double most, double outlier, uint64_t *seed) {
    for (int i = 0; i < N; i++) {
        double v = (op_random(seed) * 2 - 1) * most;
        x[i] = mpt_round(format, (float)(op_random(seed) < 0.01 ? v * outlier : v));
    }
}

static void test_certificate_when_it_holds_then_every_order_gives_the_same_bits(void **state) {
    (void)state;
    uint64_t seed = 3;
    float a[N], b[N];
    int order[N];
    for (int round = 0; round < 20; round++) {
        fill(a, MPT_DTYPE_E2M1, 6, 1, &seed);
        fill(b, MPT_DTYPE_E2M1, 6, 1, &seed);
        dot_bound d = dot_bound_of(a, 1, b, 1, N);
        assert_true(d.certified);
        shuffle(order, N, &seed);
        assert_true(sum_in_order(a, b, order, N) == (float)d.exact);
        assert_true(sum_aligned(a, b, N, 32, 25) == (float)d.exact);
        assert_true(dot_by(mpt_kernels_cpu, a, b, N) == (float)d.exact);
    }
}

/* Wide numbers with outliers are not certified; the bound holds for FP32 and for 25 bits, and
 * tells 14 bits from them. */
static void
test_bound_when_not_certified_then_it_tells_short_sums_from_long_ones(void **state) {
    (void)state;
    uint64_t seed = 5;
    float a[N], b[N];
    int order[N], seen = 0;
    for (int round = 0; round < 20; round++) {
        fill(a, MPT_DTYPE_BF16, 1, 3000, &seed);
        fill(b, MPT_DTYPE_BF16, 1, 1, &seed);
        dot_bound d = dot_bound_of(a, 1, b, 1, N);
        assert_false(d.certified);
        double allowed = dot_allowed(&d, 1, MPT_DTYPE_FP32, false);
        shuffle(order, N, &seed);
        assert_true(fabs((double)sum_in_order(a, b, order, N) - d.exact) <= allowed);
        assert_true(fabs((double)sum_aligned(a, b, N, 32, 25) - d.exact) <= allowed);
        assert_true(fabs((double)dot_by(mpt_kernels_cpu, a, b, N) - d.exact) <= allowed);
        double fast = fabs((double)sum_aligned(a, b, N, 32, 14) - d.exact);
        assert_true(fast <= dot_allowed(&d, 1, MPT_DTYPE_FP32, true));
        seen += fast > allowed;
    }
    assert_true(seen >= 15);
}

/* A certified sum has one result; what it is multiplied by rounds, unless it is a power of two.
 */
static void test_allowed_when_certified_then_only_roundings_are(void **state) {
    (void)state;
    const float a[] = {3, 4}, b[] = {5, 0.5f};
    dot_bound d = dot_bound_of(a, 1, b, 1, 2);
    assert_true(d.certified && d.exact == 17);
    assert_true(dot_allowed(&d, 1, MPT_DTYPE_FP32, false) == 0);
    assert_true(dot_allowed(&d, -0x1p-9, MPT_DTYPE_FP32, false) == 0);
    assert_true(dot_allowed(&d, 3, MPT_DTYPE_FP32, false) == 0x1p-17);  /* two ulps of 51 */
    assert_true(dot_allowed(&d, 0.5, MPT_DTYPE_BF16, false) == 0x1p-5); /* half of one of 8.5 */
}

static void test_lowest_bit_when_numbers_vary_then_their_last_one(void **state) {
    (void)state;
    assert_true(lowest_bit(7.5) == 0.5);
    assert_true(lowest_bit(-448) == 64);
    assert_true(lowest_bit(1) == 1);
    assert_true(lowest_bit(0x1p-149) == 0x1p-149);
    assert_true(isinf(lowest_bit(0)));
    assert_true(ulp_of(MPT_DTYPE_FP32, 1) == 0x1p-23);
    assert_true(ulp_of(MPT_DTYPE_BF16, 455.5) == 2);
    assert_true(ulp_of(MPT_DTYPE_FP16, 0) == 0x1p-24);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_P84_when_fp8_sums_span_many_bits_then_exact_on_the_hosts),
    cmocka_unit_test(test_certificate_when_it_holds_then_every_order_gives_the_same_bits),
    cmocka_unit_test(test_bound_when_not_certified_then_it_tells_short_sums_from_long_ones),
    cmocka_unit_test(test_allowed_when_certified_then_only_roundings_are),
    cmocka_unit_test(test_lowest_bit_when_numbers_vary_then_their_last_one),
};
MPT_TEST_MAIN(cases)
