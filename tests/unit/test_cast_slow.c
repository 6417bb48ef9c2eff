/* All 2^32 floats through the casts to E4M3, E5M2 and E2M1: mpt_encode, and what the cpu
 * backend quantizes with. `ctest -L slow` runs it; two minutes on two cores.
 *
 * The wanted codes are intervals: code c holds from one threshold to the next, which the table
 * of values tells exactly (cast_oracle.h). Within an interval only equality is left to check.
 */
#include "cast_oracle.h"
#include "quantize_case.h"

enum { CHUNK = 1 << 20, CHUNKS = MPT_INF_BITS / CHUNK }; /* finite floats of one sign */

/* start[c]: bits of the first float that becomes code c; start[n] is past the finite ones. */
static uint32_t *thresholds(const oracle *o) {
    uint32_t *start = case_buffer(sizeof *start * ((size_t)o->n + 1));
    start[0] = 0;
    for (int c = 1; c < o->n; c++) {
        double middle = (o->value[c - 1] + o->value[c]) / 2;
        float x = (float)middle;
        assert_true((double)x == middle);
        start[c] = mpt_float_bits(x) + (c % 2 ? 1u : 0u); /* a tie goes to the even code */
    }
    start[o->n] = MPT_INF_BITS;
    return start;
}

/* The wanted codes of the floats from bits u on. */
static void wanted(const uint32_t *start, int n, uint32_t u, uint32_t count, uint8_t *codes) {
    int c = 0;
    while (c + 1 < n && start[c + 1] <= u)
        c++;
    for (uint32_t i = 0; i < count; i++) {
        if (u + i == start[c + 1])
            c++;
        codes[i] = (uint8_t)c;
    }
}

static const mpt_dtype narrow[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E2M1};

static oracle oracle_of(mpt_dtype dtype) {
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++)
        if (cast_formats[i].dtype == dtype)
            return oracle_make(&cast_formats[i]);
    fail();
    return (oracle){0};
}

/* How many of the floats from bits u on, of both signs, are cast to something else. */
static uint64_t wrong_encodes(mpt_dtype dtype, const uint8_t *want, uint32_t u) {
    mpt_format f = mpt_format_of(dtype);
    uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < CHUNK; i++) {
        wrong += mpt_encode_as(dtype, &f, mpt_bits_float(u + i), MPT_ROUND_EVEN) != want[i];
        wrong += mpt_encode_as(dtype, &f, mpt_bits_float(~MPT_ABS_BITS | (u + i)),
                               MPT_ROUND_EVEN) != (want[i] | sign);
    }
    return wrong;
}

static void test_encode_when_every_finite_float_then_as_the_table_says(void **state) {
    (void)state;
    for (size_t d = 0; d < MPT_COUNT(narrow); d++) {
        oracle o = oracle_of(narrow[d]);
        uint32_t *start = thresholds(&o);
        uint64_t wrong = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : wrong)
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
            uint8_t *want = malloc(CHUNK);
            if (!want) {
                wrong++;
                continue;
            }
            wanted(start, o.n, chunk * CHUNK, CHUNK, want);
            wrong += wrong_encodes(narrow[d], want, chunk * CHUNK);
            free(want);
        }
        if (wrong)
            fail_msg("%s: %llu codes", mpt_dtype_name(narrow[d]), (unsigned long long)wrong);
        free(start);
        oracle_free(&o);
    }
}

static void test_encode_when_every_float_is_not_finite_then_nan_or_the_largest(void **state) {
    (void)state;
    for (size_t d = 0; d < MPT_COUNT(narrow); d++) {
        oracle o = oracle_of(narrow[d]);
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
            for (uint32_t u = MPT_INF_BITS + 1; u <= MPT_ABS_BITS; u++)
                wrong += mpt_encode(narrow[d], mpt_bits_float(u | sign << 31)) != o.f->nan;
            assert_int_equal(wrong, 0);
        }
        assert_int_equal(mpt_encode(narrow[d], INFINITY), o.f->inf);
        oracle_free(&o);
    }
}

/* The cpu's own words: a static scale of 1 is the plain cast. */
static void check_chunk(const mpt_quantizer *q, const uint32_t *start, int n, uint32_t u,
                        bool negative) {
    static float x[CHUNK];
    static uint8_t codes[CHUNK], want[CHUNK];
    uint32_t sign = negative ? ~MPT_ABS_BITS : 0u;
    wanted(start, n, u, CHUNK, want);
    for (uint32_t i = 0; i < CHUNK; i++)
        x[i] = mpt_bits_float(sign | (u + i));
    mpt_quantize_job job = {.q = q, .x = x, .rows = 1024, .cols = CHUNK / 1024, .codes = codes};
    mpt_quantize_operand(&job);
    mpt_format f = mpt_format_of(q->format);
    uint8_t bit = (uint8_t)(negative ? 1u << (f.exponent_bits + f.mantissa_bits) : 0u);
    for (uint32_t i = 0; i < CHUNK; i++) {
        uint8_t code = codes[i];
        if (q->format == MPT_DTYPE_E2M1)
            code = codes[i / 2] >> 4 * (i % 2) & 15;
        if (code != (want[i] | bit))
            fail_msg("%s of %a: %x", q->name, (double)x[i], code);
    }
}

static void test_cpu_when_every_finite_float_then_as_the_table_says(void **state) {
    (void)state;
    for (size_t d = 0; d < MPT_COUNT(narrow); d++) {
        oracle o = oracle_of(narrow[d]);
        uint32_t *start = thresholds(&o);
        mpt_quantizer q = case_fp8(narrow[d]);
        q.name = mpt_dtype_name(narrow[d]);
        q.scale.kind = MPT_SCALING_STATIC;
        q.scale.value = 1.0;
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            for (int negative = 0; negative < 2; negative++)
                check_chunk(&q, start, o.n, chunk * CHUNK, negative);
        free(start);
        oracle_free(&o);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_encode_when_every_finite_float_then_as_the_table_says),
    cmocka_unit_test(test_encode_when_every_float_is_not_finite_then_nan_or_the_largest),
    cmocka_unit_test(test_cpu_when_every_finite_float_then_as_the_table_says),
};

MPT_TEST_MAIN(cases)
