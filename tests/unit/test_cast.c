/* numerics_cast.h, ref.cast and cpu.cast: every format and rounding against an oracle that
 * searches (cast_oracle.h). All 2^32 inputs of the narrow formats: test_cast_slow.c. */
#include "cast_oracle.h"
#include "kernels/quantize.h"

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* Random bits for stochastic rounding: the ends, the middle and some between. */
static const uint32_t draws[] = {0, 1, 0x100, 0x7FFF, 0x8000, 0xA5C3, 0xFEFF, 0xFFFF};

static void check_one(const oracle *o, float x, mpt_rounding rounding, uint32_t bits) {
    uint32_t want = oracle_encode(o, x, rounding, bits);
    uint32_t got = cast_encode(o->f->dtype, x, rounding, bits);
    if (got != want)
        fail_msg("%s of %a, rounding %d, bits %x: code 0x%x, not 0x%x",
                 mpt_dtype_name(o->f->dtype), (double)x, rounding, bits, got, want);
}

static void check_all_roundings(const oracle *o, float x) {
    check_one(o, x, MPT_ROUNDING_NEAREST, 0);
    check_one(o, x, MPT_ROUNDING_TOWARD_ZERO, 0);
    check_one(o, x, MPT_ROUNDING_HALF_AWAY, 0);
    for (size_t i = 0; i < MPT_COUNT(draws); i++)
        check_one(o, x, MPT_ROUNDING_STOCHASTIC, draws[i]);
    bool beyond = isfinite(x)
                      ? oracle_round(o, fabs((double)x), MPT_ROUNDING_NEAREST, 0) == o->n
                      : isinf(x) != 0;
    mpt_format format = mpt_format_of(o->f->dtype);
    assert_int_equal(mpt_overflows(&format, x) != 0, beyond);
}

/* A value with its two neighbours, of both signs. */
static void check_around(const oracle *o, double x) {
    float mid = (float)x;
    assert_true((double)mid == x);
    for (int s = 0; s < 2; s++, mid = -mid) {
        check_all_roundings(o, mid);
        check_all_roundings(o, mpt_bits_float(mpt_float_bits(mid) + 1));
        if (mid != 0)
            check_all_roundings(o, mpt_bits_float(mpt_float_bits(mid) - 1));
    }
}

/* ---- every code ---- */

static void test_decode_when_every_code_then_the_value_of_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        oracle o = oracle_make(&cast_formats[i]);
        mpt_dtype dtype = o.f->dtype;
        for (int c = 0; c < o.n; c++)
            for (int negative = 0; negative < 2; negative++) {
                float x = mpt_decode(dtype, oracle_code(&o, c, negative));
                assert_true(fabs((double)x) == o.value[c]);
                bool one_zero = dtype == MPT_DTYPE_INT8 && c == 0;
                assert_int_equal(signbit(x) != 0, negative && !one_zero);
            }
        oracle_free(&o);
    }
    assert_true(mpt_decode(MPT_DTYPE_INT8, 0x80) == -2.0f);
    assert_true(mpt_decode(MPT_DTYPE_FP32, 0x80000001u) == -0x1p-149f);
}

static void
test_encode_when_a_value_of_the_format_then_its_code_in_every_rounding(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        oracle o = oracle_make(&cast_formats[i]);
        for (int c = 0; c < o.n; c++)
            for (int negative = 0; negative < 2; negative++) {
                uint32_t code = oracle_code(&o, c, negative);
                float x = mpt_decode(o.f->dtype, code);
                for (int r = MPT_ROUNDING_NEAREST; r <= MPT_ROUNDING_HALF_AWAY; r++)
                    for (uint32_t bits = 0; bits < 65536; bits += 21845)
                        assert_int_equal(cast_encode(o.f->dtype, x, (mpt_rounding)r, bits),
                                         code);
            }
        oracle_free(&o);
    }
    for (uint32_t u = 0; u < MPT_INF_BITS; u += 7919)
        assert_int_equal(mpt_encode(MPT_DTYPE_FP32, mpt_bits_float(u)), u);
}

/* Codes that stand for no number. */
static void test_decode_when_the_code_is_nan_or_inf_then_so(void **state) {
    (void)state;
    static const mpt_dtype ieee[] = {MPT_DTYPE_E5M2, MPT_DTYPE_E5M6, MPT_DTYPE_FP16,
                                     MPT_DTYPE_BF16};
    for (size_t i = 0; i < MPT_COUNT(ieee); i++) {
        mpt_format f = mpt_format_of(ieee[i]);
        uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits), inf = f.max_code + 1;
        assert_true(mpt_decode(ieee[i], inf) == INFINITY);
        assert_true(mpt_decode(ieee[i], inf | sign) == -INFINITY);
        for (uint32_t c = inf + 1; c < sign; c++)
            assert_true(isnan(mpt_decode(ieee[i], c)) && isnan(mpt_decode(ieee[i], c | sign)));
    }
    assert_true(isnan(mpt_decode(MPT_DTYPE_E4M3, 0x7F)));
    assert_true(isnan(mpt_decode(MPT_DTYPE_E4M3, 0xFF)));
    assert_true(isnan(mpt_decode(MPT_DTYPE_E8M0, 0xFF)));
}

static void test_e8m0_when_every_code_then_a_power_of_two_and_back(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 255; c++) {
        assert_true((double)mpt_decode(MPT_DTYPE_E8M0, c) == ldexp(1, (int)c - 127));
        assert_true((double)mpt_e8m0_reciprocal(c) == ldexp(1, 127 - (int)c));
        assert_int_equal(mpt_e8m0_at_least(mpt_float_bits(mpt_decode_e8m0(c))), c);
    }
    assert_true(isnan(mpt_e8m0_reciprocal(0xFF)));
}

/* ---- inputs ---- */

static void test_encode_when_midpoints_and_neighbours_then_as_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        oracle o = oracle_make(&cast_formats[i]);
        int stride = o.n > 1 << 16   ? 37
                     : o.n > 1 << 14 ? 3
                                     : 1; /* all of them: the slow test */
        for (int c = 0; c + 1 < o.n; c += stride) {
            check_around(&o, o.value[c]);
            check_around(&o, (o.value[c] + o.value[c + 1]) / 2);
        }
        check_around(&o, o.value[o.n - 1]);
        if (o.limit < 0x1p127) {
            check_around(&o, (o.value[o.n - 1] + o.limit) / 2);
            check_around(&o, o.limit);
        }
        oracle_free(&o);
    }
}

static void test_encode_when_every_bf16_then_as_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        oracle o = oracle_make(&cast_formats[i]);
        for (uint32_t u = 0; u < 1u << 16; u++)
            check_all_roundings(&o, mpt_bits_float(u << 16));
        oracle_free(&o);
    }
}

static void test_encode_when_random_floats_then_as_oracle(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        oracle o = oracle_make(&cast_formats[i]);
        bool wide = o.f->eb == 8;
        for (int k = 0; k < 20000; k++) {
            /* exponents around the format's range, so that most inputs matter */
            uint32_t u = next_random(&seed);
            uint32_t e = (wide ? 1u : 97u) + next_random(&seed) % (wide ? 254u : 50u);
            check_all_roundings(&o, mpt_bits_float((u & 0x807FFFFFu) | e << 23));
        }
        oracle_free(&o);
    }
}

static void test_encode_when_inputs_grow_then_so_do_codes(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++)
        for (int r = MPT_ROUNDING_NEAREST; r <= MPT_ROUNDING_HALF_AWAY; r++)
            for (uint32_t bits = 0; bits < 65536; bits += 65535) {
                uint32_t last = 0;
                for (uint32_t u = 0; u <= MPT_INF_BITS; u += 0x3331) {
                    float x = mpt_bits_float(u);
                    uint32_t code =
                        cast_encode(cast_formats[i].dtype, x, (mpt_rounding)r, bits);
                    assert_true(code >= last);
                    last = code;
                }
            }
}

static void test_encode_when_nan_inf_or_huge_then_as_documented(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++) {
        const cast_format *f = &cast_formats[i];
        uint32_t sign = 1u << (f->dtype == MPT_DTYPE_TF32 ? 31 : f->eb + f->mb);
        bool twos = f->dtype == MPT_DTYPE_INT8;
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0x7FC00000u)), f->nan);
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0xFF800001u)), f->nan);
        assert_int_equal(mpt_encode(f->dtype, INFINITY), f->inf);
        assert_int_equal(mpt_encode(f->dtype, -INFINITY), twos ? 0x81 : f->inf | sign);
        assert_int_equal(mpt_encode(f->dtype, MPT_FLT_MAX), f->inf);
        assert_int_equal(mpt_encode(f->dtype, -0.0f), twos ? 0 : sign);
        assert_int_equal(mpt_encode(f->dtype, 0x1p-149f), 0);
        assert_int_equal(mpt_has_nan(f->dtype), isnan(mpt_decode(f->dtype, f->nan)) != 0);
    }
}

/* With one scale a tensor, NaN and Inf stay element by element where the format can say them.
 */
static void test_visible_when_values_are_not_finite_then_the_codes_say_so(void **state) {
    (void)state;
    static const struct {
        mpt_dtype dtype;
        uint32_t nan, plus, minus;
    } want[] = {
        {MPT_DTYPE_E4M3, 0x7F, 0x7F, 0x7F},    {MPT_DTYPE_E5M2, 0x7F, 0x7C, 0xFC},
        {MPT_DTYPE_E5M6, 0x7FF, 0x7C0, 0xFC0}, {MPT_DTYPE_E2M1, 7, 7, 15},
        {MPT_DTYPE_INT8, 0x7F, 0x7F, 0x81},    {MPT_DTYPE_FP16, 0x7FFF, 0x7C00, 0xFC00}};
    for (size_t i = 0; i < MPT_COUNT(want); i++) {
        const float x[] = {NAN, INFINITY, -INFINITY};
        const uint32_t codes[] = {want[i].nan, want[i].plus, want[i].minus};
        for (int k = 0; k < 3; k++)
            assert_int_equal(
                mpt_code_visible(want[i].dtype, x[k], mpt_encode(want[i].dtype, x[k])),
                codes[k]);
        assert_int_equal(mpt_code_visible(want[i].dtype, 1.0f, 5), 5);
    }
}

/* ---- the fast rounding against the definition ---- */

static void check_rounding(mpt_dtype dtype, const float *x, size_t n) {
    float *a = malloc(n * 4), *b = malloc(n * 4);
    assert_true(a && b);
    memcpy(a, x, n * 4);
    mpt_ref_round_to(dtype, a, n);
    mpt_round_copy(dtype, x, b, n);
    assert_memory_equal(a, b, n * 4);
    memcpy(b, x, n * 4);
    mpt_round_to(dtype, b, n);
    assert_memory_equal(a, b, n * 4);
    free(a);
    free(b);
}

static const mpt_dtype rounded[] = {MPT_DTYPE_FP32, MPT_DTYPE_TF32, MPT_DTYPE_BF16,
                                    MPT_DTYPE_FP16, MPT_DTYPE_E4M3, MPT_DTYPE_E5M2};

static void test_round_when_every_high_half_and_random_low_then_cpu_is_ref(void **state) {
    (void)state;
    uint64_t seed = 3;
    size_t n = 3u << 16;
    float *x = malloc(n * 4);
    assert_non_null(x);
    static const uint32_t low[] = {0, 0x1000, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (size_t i = 0; i < n; i++) {
        uint32_t r = next_random(&seed);
        uint32_t part = r % 3 ? r >> 16 : low[(r >> 8) % MPT_COUNT(low)];
        x[i] = mpt_bits_float((uint32_t)(i & 0xFFFF) << 16 | part);
    }
    for (size_t i = 0; i < MPT_COUNT(rounded); i++)
        check_rounding(rounded[i], x, n);
    free(x);
}

static void test_round_when_length_is_odd_then_the_tail_is_rounded(void **state) {
    (void)state;
    float x[70];
    for (int i = 0; i < 70; i++)
        x[i] = 1.0f + (float)i * 0x1.234p-9f;
    for (size_t n = 0; n <= 33; n++)
        for (size_t at = 0; at < 9; at++)
            check_rounding(MPT_DTYPE_BF16, x + at, n);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_decode_when_every_code_then_the_value_of_the_table),
    cmocka_unit_test(test_encode_when_a_value_of_the_format_then_its_code_in_every_rounding),
    cmocka_unit_test(test_decode_when_the_code_is_nan_or_inf_then_so),
    cmocka_unit_test(test_e8m0_when_every_code_then_a_power_of_two_and_back),
    cmocka_unit_test(test_encode_when_midpoints_and_neighbours_then_as_oracle),
    cmocka_unit_test(test_encode_when_every_bf16_then_as_oracle),
    cmocka_unit_test(test_encode_when_random_floats_then_as_oracle),
    cmocka_unit_test(test_encode_when_inputs_grow_then_so_do_codes),
    cmocka_unit_test(test_encode_when_nan_inf_or_huge_then_as_documented),
    cmocka_unit_test(test_visible_when_values_are_not_finite_then_the_codes_say_so),
    cmocka_unit_test(test_round_when_every_high_half_and_random_low_then_cpu_is_ref),
    cmocka_unit_test(test_round_when_length_is_odd_then_the_tail_is_rounded),
};

MPT_TEST_MAIN(cases)
