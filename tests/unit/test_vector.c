/* kernels/cpu/vector.h: the exponential and its kin, against libm in double precision. */
#include <math.h>

#include "mpt_test.h"
#include "kernels/cpu/vector.h"

/* Error in units of the last place of the result; tiny ones in units of 2^-149. */
static double ulps(float got, double expected) {
    int exponent;
    frexp(expected, &exponent);
    return fabs((double)got - expected) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static void test_exponential_when_compared_with_libm_then_within_2_ulp(void **state) {
    (void)state;
    for (float x = -103.9f; x < 88.7f; x += 0.00173f)
        if (!(ulps(mpt_expf(x), exp((double)x)) <= 2))
            fail_msg("exp(%.9g) = %.9g", (double)x, (double)mpt_expf(x));
    assert_true(mpt_expf(0) == 1);
    assert_true(mpt_expf(-1e30f) == 0);
    assert_true(isinf(mpt_expf(89.0f)) && isinf(mpt_expf(INFINITY)));
    assert_true(mpt_expf(-INFINITY) == 0 && isnan(mpt_expf(NAN)));
}

static void test_softplus_when_compared_with_libm_then_within_4_ulp(void **state) {
    (void)state;
    for (float e = 0; e <= 1; e += 0.00037f)
        assert_true(ulps(mpt_log1pf_unit(e), log1p((double)e)) <= 2);
    for (float x = -80; x < 80; x += 0.0071f) {
        double expected = x > 0 ? (double)x + log1p(exp(-(double)x)) : log1p(exp((double)x));
        assert_true(ulps(mpt_softplusf(x), expected) <= 4);
    }
    assert_true(isnan(mpt_softplusf(NAN)));
}

static void test_largest_when_tail_or_nan_then_found(void **state) {
    (void)state;
    float x[21] = {0};
    for (int at = 0; at < 21; at++) {
        x[at] = 3;
        assert_true(mpt_largest(x, 21, -INFINITY) == 3);
        x[at] = NAN;
        assert_true(mpt_largest(x, 21, -1) == (at < 20 ? 0.0f : -1.0f));
    }
    assert_true(mpt_largest(x, 0, 5) == 5);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_exponential_when_compared_with_libm_then_within_2_ulp),
    cmocka_unit_test(test_softplus_when_compared_with_libm_then_within_4_ulp),
    cmocka_unit_test(test_largest_when_tail_or_nan_then_found),
};

MPT_TEST_MAIN(cases)
