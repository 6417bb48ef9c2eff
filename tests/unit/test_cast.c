/* numerics_cast.h, ref.cast and cpu.cast: every format against an oracle that searches. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/numerics.h"
#include "kernels/quantize.h"

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* ---- an oracle that knows only the row of formats.h: values in double, nearest by search */

typedef struct oracle {
    int n; /* finite non-negative values, ascending: value[i] has code i */
    double *value;
    double limit; /* one step beyond the largest: where IEEE rounding would go next */
} oracle;

static oracle oracle_make(int eb, int mb, int bias, double max) {
    oracle o = {0, NULL, 0};
    int n = 1 << (eb + mb);
    o.value = malloc(sizeof(double) * (size_t)n);
    assert_non_null(o.value);
    for (int c = 0; c < n; c++) {
        int e = c >> mb, m = c & ((1 << mb) - 1);
        double v = e ? ldexp(1.0 + ldexp(m, -mb), e - bias) : ldexp(m, 1 - bias - mb);
        if (v > max) {
            o.limit = v;
            break;
        }
        o.value[o.n++] = v;
    }
    if (o.limit == 0) /* the last code is the largest value */
        o.limit = 2 * o.value[o.n - 1] - o.value[o.n - 2];
    return o;
}

/* The code of finite |x|, ties to the even code; n means overflow. */
static int oracle_code(const oracle *o, double x) {
    int lo = 0, hi = o->n; /* value[lo] <= x < value[hi], value[n] = limit */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (o->value[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    double above = hi == o->n ? o->limit : o->value[hi];
    double down = x - o->value[lo], up = above - x;
    if (down < up)
        return lo;
    return up < down || lo % 2 ? lo + 1 : lo;
}

typedef struct format_case {
    mpt_dtype dtype;
    int eb, mb, bias;
    double max;
    int saturates;
    uint32_t nan, inf; /* what NaN and Inf become */
} format_case;

static const format_case formats[] = {
    {MPT_DTYPE_E4M3, 4, 3, 7, 448, 1, 0x7F, 0x7E},
    {MPT_DTYPE_E5M2, 5, 2, 15, 57344, 1, 0x7F, 0x7B},
    {MPT_DTYPE_E2M1, 2, 1, 1, 6, 1, 7, 7},
    {MPT_DTYPE_FP16, 5, 10, 15, 65504, 0, 0x7FFF, 0x7C00},
    {MPT_DTYPE_BF16, 8, 7, 127, 0x1.fep127, 0, 0x7FFF, 0x7F80},
};

static void check_one(const format_case *f, const oracle *o, float x) {
    int code = oracle_code(o, fabs((double)x));
    uint32_t want = (uint32_t)(code == o->n && f->saturates ? o->n - 1 : code);
    want |= (signbit(x) ? 1u : 0u) << (f->eb + f->mb);
    uint32_t got = mpt_encode(f->dtype, x);
    if (got != want)
        fail_msg("%s of %a: code 0x%x, not 0x%x", mpt_dtype_name(f->dtype), (double)x, got,
                 want);
}

static void check_around(const format_case *f, const oracle *o, double x) {
    float mid = (float)x;
    for (int s = 0; s < 2; s++, mid = -mid) {
        check_one(f, o, mid);
        check_one(f, o, mpt_bits_float(mpt_float_bits(mid) + 1));
        if (mid != 0)
            check_one(f, o, mpt_bits_float(mpt_float_bits(mid) - 1));
    }
}

static void test_encode_when_all_values_midpoints_and_neighbours_then_as_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        const format_case *f = &formats[i];
        oracle o = oracle_make(f->eb, f->mb, f->bias, f->max);
        for (int c = 0; c + 1 < o.n; c++) {
            check_around(f, &o, o.value[c]);
            check_around(f, &o, (o.value[c] + o.value[c + 1]) / 2);
        }
        check_around(f, &o, o.value[o.n - 1]);
        if ((o.value[o.n - 1] + o.limit) / 2 < 0x1p127)
            check_around(f, &o, (o.value[o.n - 1] + o.limit) / 2);
        free(o.value);
    }
}

static void test_encode_when_every_bf16_and_random_floats_then_as_oracle(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        const format_case *f = &formats[i];
        oracle o = oracle_make(f->eb, f->mb, f->bias, f->max);
        for (uint32_t u = 0; u < 1u << 16; u++)
            if (mpt_is_finite(mpt_bits_float(u << 16)))
                check_one(f, &o, mpt_bits_float(u << 16));
        for (int k = 0; k < 300000; k++) {
            /* exponents around the format's range, so that most inputs matter */
            uint32_t u = next_random(&seed);
            uint32_t e = 127 - (uint32_t)(f->eb == 8 ? 126 : 30) +
                         next_random(&seed) % (f->eb == 8 ? 254 : 50);
            check_one(f, &o, mpt_bits_float((u & 0x807FFFFFu) | e << 23));
        }
        free(o.value);
    }
}

static void test_encode_when_nan_inf_or_huge_then_as_documented(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        const format_case *f = &formats[i];
        uint32_t sign = 1u << (f->eb + f->mb);
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0x7FC00000u)), f->nan);
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0xFF800001u)), f->nan);
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0x7F800000u)), f->inf);
        assert_int_equal(mpt_encode(f->dtype, mpt_bits_float(0xFF800000u)), f->inf | sign);
        assert_int_equal(mpt_encode(f->dtype, MPT_FLT_MAX), f->inf);
        assert_int_equal(mpt_encode(f->dtype, -0.0f), sign);
        assert_int_equal(mpt_encode(f->dtype, 0x1p-149f), 0);
    }
}

static void test_decode_when_every_code_then_encode_gives_it_back(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(formats); i++) {
        const format_case *f = &formats[i];
        oracle o = oracle_make(f->eb, f->mb, f->bias, f->max);
        uint32_t sign = 1u << (f->eb + f->mb);
        for (uint32_t c = 0; c < 2 * sign; c++) {
            float x = mpt_decode(f->dtype, c);
            if ((c & (sign - 1)) >= (uint32_t)o.n) { /* Inf or NaN */
                assert_false(mpt_is_finite(x));
                continue;
            }
            assert_true(fabs((double)x) == o.value[c & (sign - 1)]);
            assert_int_equal(mpt_encode(f->dtype, x), c);
        }
        free(o.value);
    }
    assert_int_equal(mpt_float_bits(mpt_decode(MPT_DTYPE_E5M2, 0xFC)), 0xFF800000u);
    assert_true(isnan(mpt_decode(MPT_DTYPE_E4M3, 0xFF)));
}

static void test_encode_when_tf32_then_ten_mantissa_bits_stay(void **state) {
    (void)state;
    assert_int_equal(mpt_encode(MPT_DTYPE_TF32, 0x1.002p0f), 0x3F800000u); /* tie to even */
    assert_int_equal(mpt_encode(MPT_DTYPE_TF32, 0x1.006p0f), 0x3F804000u);
    assert_int_equal(mpt_encode(MPT_DTYPE_TF32, 0x1.002002p0f), 0x3F802000u);
    assert_int_equal(mpt_encode(MPT_DTYPE_TF32, -MPT_FLT_MAX), 0xFF800000u);
    for (uint32_t u = 0; u < MPT_INF_BITS; u += 1u << 13)
        assert_int_equal(mpt_encode(MPT_DTYPE_TF32, mpt_decode(MPT_DTYPE_TF32, u)), u);
}

/* Known from the field: two roundings, ties away, lost subnormals, off by one. */
static void test_encode_when_known_slips_then_right(void **state) {
    (void)state;
    assert_int_equal(mpt_encode(MPT_DTYPE_E4M3, -431.999969f), 0xFD);
    assert_true(mpt_round(MPT_DTYPE_E4M3, 1.8131605f) == 1.875f);
    static const float x[] = {1.125f, 1.625f, 0x1p-16f, 1e-5f, -0.0f, 65504.0f};
    static const float y[] = {1.0f, 1.5f, 0x1p-16f, 0x1p-16f, -0.0f, 57344.0f};
    for (size_t i = 0; i < MPT_COUNT(x); i++)
        assert_int_equal(mpt_float_bits(mpt_round(MPT_DTYPE_E5M2, x[i])), mpt_float_bits(y[i]));
    assert_true(mpt_round(MPT_DTYPE_BF16, 255.9f) == 256.0f);
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
    cmocka_unit_test(test_encode_when_all_values_midpoints_and_neighbours_then_as_oracle),
    cmocka_unit_test(test_encode_when_every_bf16_and_random_floats_then_as_oracle),
    cmocka_unit_test(test_encode_when_nan_inf_or_huge_then_as_documented),
    cmocka_unit_test(test_decode_when_every_code_then_encode_gives_it_back),
    cmocka_unit_test(test_encode_when_tf32_then_ten_mantissa_bits_stay),
    cmocka_unit_test(test_encode_when_known_slips_then_right),
    cmocka_unit_test(test_round_when_every_high_half_and_random_low_then_cpu_is_ref),
    cmocka_unit_test(test_round_when_length_is_odd_then_the_tail_is_rounded),
};

MPT_TEST_MAIN(cases)
