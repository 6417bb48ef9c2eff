/* numerics_scale.h: E8M0, power-of-two and FP32 scales over magnitudes of all sizes, against
 * what their definitions say in double, with exact logarithms. */
#include "cast_oracle.h"

/* floor(log2 v) of v > 0, exact. */
static int floor_log2(double v) {
    int e;
    frexp(v, &e);
    return e - 1;
}

static int ceil_log2(double v) {
    int e = floor_log2(v);
    return ldexp(1, e) == v ? e : e + 1;
}

static uint32_t code_of(int exponent) {
    int e = exponent < -127 ? -127 : exponent > 127 ? 127 : exponent;
    return (uint32_t)(e + 127);
}

/* Every exponent with mantissas at both ends, and magnitudes between at odd distances. */
typedef void (*check_fn)(const cast_format *f, float amax);

static void for_magnitudes(const cast_format *f, check_fn check) {
    for (uint32_t e = 0; e < 255; e++)
        for (int i = -3; i <= 3; i++) {
            int64_t u = (int64_t)e * 0x800000 + i;
            if (u > 0)
                check(f, mpt_bits_float((uint32_t)u));
            check(f, mpt_bits_float(e << 23 | (uint32_t)(0x400000 + i)));
        }
    for (uint32_t u = 1; u < MPT_INF_BITS; u += 60013)
        check(f, mpt_bits_float(u));
    /* Where max times a power of two lies, scales change. */
    for (int e = -160; e < 120; e++)
        for (int i = -3; i <= 3; i++) {
            uint32_t edge = mpt_float_bits((float)ldexp(f->max, e));
            if (edge > 3 && edge < MPT_INF_BITS - 3)
                check(f, mpt_bits_float(edge + (uint32_t)i));
        }
}

static void for_narrow(check_fn check) {
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++)
        if (cast_formats[i].saturates)
            for_magnitudes(&cast_formats[i], check);
}

static void expect(const cast_format *f, const char *what, float amax, uint32_t got,
                   uint32_t want) {
    if (got != want)
        fail_msg("%s, %s of %a: %u, not %u", mpt_dtype_name(f->dtype), what, (double)amax, got,
                 want);
}

/* ---- E8M0 ---- */

static void check_up(const cast_format *f, float amax) {
    float max = (float)f->max, v = amax * (1.0f / max);
    uint32_t code = mpt_e8m0_up(max, amax);
    expect(f, "up", amax, code, v > 0 ? code_of(ceil_log2((double)v)) : 0);
    /* Nothing is cut: the largest element is within the range, but for the last bit of
     * amax/max. */
    if (code < 254 && amax > 0x1p-100f)
        assert_true((double)amax <= ldexp(f->max, (int)code - 127) * (1 + 0x1p-22));
}

static void check_by_exponent(const cast_format *f, float amax) {
    mpt_format format = mpt_format_of(f->dtype);
    int emax = floor_log2(f->max), low = floor_log2((double)amax);
    /* Below 2^-127 there is one code only: where the logarithm lies does not matter. */
    int high = ceil_log2((double)amax) < -127 ? -127 : ceil_log2((double)amax);
    low = low < -127 ? -127 : low;
    expect(f, "floor", amax, mpt_e8m0_floor(&format, amax), code_of(low - emax));
    expect(f, "ceil", amax, mpt_e8m0_ceil(&format, amax), code_of(high - emax));
    /* Half a step of the element's mantissa is added, in the amax's own binade; of subnormals,
     * in the one of 2^-126. */
    int binade = low < -126 ? -126 : low;
    double even = (double)amax + ldexp(1, binade - f->mb - 1);
    int exponent = floor_log2(even) < -126 && low < -126 ? -127 : floor_log2(even);
    expect(f, "even", amax, mpt_e8m0_even(&format, amax), code_of(exponent - emax));
}

static void test_e8m0_when_rounded_up_then_the_smallest_that_holds_the_amax(void **state) {
    (void)state;
    for_narrow(check_up);
}

static void test_e8m0_when_by_the_exponent_then_as_its_logarithm_says(void **state) {
    (void)state;
    for_narrow(check_by_exponent);
}

static void test_e8m0_when_amax_is_zero_inf_or_nan_then_the_ends(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        mpt_format f = mpt_format_of(cast_formats[i].dtype);
        if (!cast_formats[i].saturates)
            continue;
        uint32_t emax = (uint32_t)floor_log2(cast_formats[i].max);
        assert_int_equal(mpt_e8m0_up(f.max, 0.0f), 0);
        assert_int_equal(mpt_e8m0_floor(&f, 0.0f) + mpt_e8m0_ceil(&f, 0.0f), 0);
        assert_int_equal(mpt_e8m0_even(&f, 0.0f), 0);
        assert_int_equal(mpt_e8m0_up(f.max, INFINITY), 254);
        assert_int_equal(mpt_e8m0_floor(&f, INFINITY), emax ? 255 - emax : 254);
        const float bad[] = {NAN, -NAN};
        for (int b = 0; b < 2; b++) {
            assert_int_equal(mpt_e8m0_up(f.max, bad[b]), 255);
            assert_int_equal(mpt_e8m0_floor(&f, bad[b]), 255);
            assert_int_equal(mpt_e8m0_ceil(&f, bad[b]), 255);
            assert_int_equal(mpt_e8m0_even(&f, bad[b]), 255);
        }
    }
}

/* ---- FP32 and powers of two ---- */

static void check_fp32(const cast_format *f, float amax) {
    double exact = f->max / (double)amax;
    float scale = mpt_current_scale((float)f->max, amax);
    /* A quotient of two floats in double is never a tie of float32, so this rounds once. */
    assert_true(scale == ((float)exact > MPT_FLT_MAX ? MPT_FLT_MAX : (float)exact));
    float capped = mpt_capped_scale((float)f->max, amax, 65504.0f);
    assert_true(capped == ((float)exact > MPT_FLT_MAX ? 65504.0f : scale));
    float pow2 = mpt_pow2_below(scale), usable = mpt_decodable_scale(scale);
    int e = floor_log2((double)scale);
    assert_true((double)pow2 == ldexp(1, e < -127 ? -127 : e));
    assert_true(mpt_is_finite(1.0f / pow2) && 1.0f / pow2 > 0);
    assert_true(mpt_is_finite(1.0f / usable) && usable >= scale);
    assert_true(usable == scale || !mpt_is_finite(1.0f / scale));
}

static void test_fp32_when_any_amax_then_the_quotient_capped_and_decodable(void **state) {
    (void)state;
    for_narrow(check_fp32);
    assert_true(mpt_current_scale(448, 0) == 1 && mpt_current_scale(448, INFINITY) == 1);
    assert_true(mpt_current_scale(448, NAN) == 1);
    assert_true(isnan(mpt_pow2_below(NAN)));
}

static void test_delayed_max_when_margin_and_headroom_then_divided_by_both(void **state) {
    (void)state;
    assert_true(mpt_delayed_max(448, 0, 1) == 448 && mpt_delayed_max(448, 0, 0) == 448);
    assert_true(mpt_delayed_max(448, 3, 1) == 56 && mpt_delayed_max(448, -1, 1) == 896);
    assert_true(mpt_delayed_max(57344, 1, 2) == 14336);
    assert_true(mpt_effective_max(6, 0) == 6 && mpt_effective_max(6, 1) == 6);
    assert_true(mpt_effective_max(6, 0.75) == 4.5f);
    assert_true(mpt_effective_max(448, 16.0 / 17.0) == (float)(448 * (16.0 / 17.0)));
}

/* ---- the rotation ---- */

static void test_rotation_when_undone_then_the_values_again(void **state) {
    (void)state;
    uint32_t signs[4] = {0xD7E8D7E8u, 0x12345678u, 0xFFFFFFFFu, 0x80000001u};
    for (int n = 2; n <= MPT_HADAMARD_MAX; n *= 2) {
        float v[MPT_HADAMARD_MAX];
        for (int i = 0; i < n; i++)
            v[i] = (float)((i * 37) % 101 - 50);
        mpt_hadamard_rotate(v, n, signs);
        mpt_hadamard_unrotate(v, n, signs);
        for (int i = 0; i < n; i++)
            assert_true(fabs((double)v[i] - ((i * 37) % 101 - 50)) < 1e-4);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_e8m0_when_rounded_up_then_the_smallest_that_holds_the_amax),
    cmocka_unit_test(test_e8m0_when_by_the_exponent_then_as_its_logarithm_says),
    cmocka_unit_test(test_e8m0_when_amax_is_zero_inf_or_nan_then_the_ends),
    cmocka_unit_test(test_fp32_when_any_amax_then_the_quotient_capped_and_decodable),
    cmocka_unit_test(test_delayed_max_when_margin_and_headroom_then_divided_by_both),
    cmocka_unit_test(test_rotation_when_undone_then_the_values_again),
};

MPT_TEST_MAIN(cases)
