/* All 2^32 floats through the casts: to E4M3, E5M2 and E2M1 by mpt_encode and by what the cpu
 * backend quantizes with, to FP16, BF16 and TF32 by what it rounds with. `ctest -L slow` runs
 * it: about two minutes on two quiet cores.
 *
 * The wanted codes are intervals: code c holds from one threshold to the next, which the table
 * of values tells exactly (cast_oracle.h). Within an interval only equality is left to check.
 */
#include "cast_oracle.h"
#include "quantize_case.h"

/* CHUNKS of them are the finite floats of one sign; one with its results stays in the cache. */
enum { CHUNK = 1 << 14, CHUNKS = MPT_INF_BITS / CHUNK };

/* start[c]: bits of the first float that becomes code c, for c up to n; there the largest value
 * ends, where the format overflows. start[n + 1] is past the finite floats. */
static uint32_t *thresholds(const oracle *o) {
    uint32_t *start = case_buffer(sizeof *start * ((size_t)o->n + 2));
    start[0] = 0;
    for (int c = 1; c <= o->n; c++) {
        double middle = (o->value[c - 1] + (c < o->n ? o->value[c] : o->limit)) / 2;
        float x = (float)middle;
        assert_true((double)x == middle);
        start[c] = mpt_float_bits(x) + (c % 2 ? 1u : 0u); /* a tie goes to the even code */
    }
    if (o->f->saturates)
        start[o->n] = MPT_INF_BITS;
    start[o->n + 1] = MPT_INF_BITS;
    return start;
}

/* The wanted codes of the floats from bits u on; n is the largest code there may be. */
static void wanted(const uint32_t *start, int n, uint32_t u, uint32_t *codes) {
    uint32_t c = 0, end = (uint32_t)n + 1; /* start[c] <= u < start[end] */
    while (end - c > 1) {
        uint32_t middle = (c + end) / 2;
        if (start[middle] <= u)
            c = middle;
        else
            end = middle;
    }
    for (uint32_t i = 0; i < CHUNK; i++) {
        if (u + i == start[c + 1])
            c++;
        codes[i] = c;
    }
}

static oracle oracle_of(mpt_dtype dtype) {
    for (size_t i = 0; i < MPT_COUNT(cast_formats); i++)
        if (cast_formats[i].dtype == dtype)
            return oracle_make(&cast_formats[i]);
    fail();
    return (oracle){0};
}

/* ---- chunks on every thread ---- */

/* The floats from some bits on, then the same with a sign, and what they must become. */
typedef struct chunk {
    const oracle *o;
    uint32_t want[CHUNK];
    float x[2 * CHUNK], y[2 * CHUNK];
} chunk;

/* Gives how many are wrong. */
typedef uint64_t (*check_fn)(chunk *c);

static uint64_t check_chunk(const oracle *o, const uint32_t *start, uint32_t u,
                            check_fn check) {
    chunk *c = malloc(sizeof *c);
    if (!c)
        return 1;
    c->o = o;
    wanted(start, o->n, u, c->want);
    for (uint32_t i = 0; i < CHUNK; i++) {
        c->x[i] = mpt_bits_float(u + i);
        c->x[CHUNK + i] = -c->x[i];
    }
    uint64_t wrong = check(c);
    free(c);
    return wrong;
}

static void check_all(mpt_dtype dtype, check_fn check) {
    oracle o = oracle_of(dtype);
    uint32_t *start = thresholds(&o);
    uint64_t wrong = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : wrong)
    for (uint32_t i = 0; i < CHUNKS; i++)
        wrong += check_chunk(&o, start, i * CHUNK, check);
    free(start);
    oracle_free(&o);
    if (wrong)
        fail_msg("%s: %llu floats", mpt_dtype_name(dtype), (unsigned long long)wrong);
}

/* ---- narrow formats ---- */

static const mpt_dtype narrow[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E2M1};

static inline uint64_t wrong_encodes_of(mpt_dtype dtype, const chunk *c) {
    mpt_format f = mpt_format_of(dtype);
    uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < CHUNK; i++) {
        wrong += mpt_encode_as(dtype, &f, c->x[i], MPT_ROUND_EVEN) != c->want[i];
        wrong +=
            mpt_encode_as(dtype, &f, c->x[CHUNK + i], MPT_ROUND_EVEN) != (c->want[i] | sign);
    }
    return wrong;
}

/* One loop a format, so that the compiler knows its constants. */
static uint64_t wrong_encodes(chunk *c) {
    switch (c->o->f->dtype) {
    case MPT_DTYPE_E4M3:
        return wrong_encodes_of(MPT_DTYPE_E4M3, c);
    case MPT_DTYPE_E5M2:
        return wrong_encodes_of(MPT_DTYPE_E5M2, c);
    default:
        return wrong_encodes_of(MPT_DTYPE_E2M1, c);
    }
}

static void test_encode_when_every_finite_float_then_as_the_table_says(void **state) {
    (void)state;
    for (size_t d = 0; d < MPT_COUNT(narrow); d++)
        check_all(narrow[d], wrong_encodes);
}

static void test_encode_when_every_nan_then_the_one_code(void **state) {
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
        oracle_free(&o);
    }
}

/* The cpu's own words: a static scale of 1 is the plain cast. */
static uint64_t wrong_quantized(chunk *c) {
    mpt_dtype dtype = c->o->f->dtype;
    mpt_quantizer q = case_fp8(dtype);
    q.scale.kind = MPT_SCALING_STATIC;
    q.scale.value = 1.0;
    uint8_t *codes = (uint8_t *)c->y;
    mpt_quantize_job job = {.q = &q, .x = c->x, .rows = 128, .cols = 2 * CHUNK / 128};
    job.codes = codes;
    mpt_quantize_operand(&job);
    mpt_format f = mpt_format_of(dtype);
    uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < 2 * CHUNK; i++) {
        uint32_t packed = codes[i / 2] >> 4 * (i % 2) & 15u;
        uint32_t want = c->want[i % CHUNK] | (i / CHUNK) * sign;
        wrong += (dtype == MPT_DTYPE_E2M1 ? packed : codes[i]) != want;
    }
    return wrong;
}

static void test_cpu_when_every_finite_float_then_as_the_table_says(void **state) {
    (void)state;
    for (size_t d = 0; d < MPT_COUNT(narrow); d++)
        check_all(narrow[d], wrong_quantized);
}

/* ---- wide formats ---- */

static uint64_t wrong_rounded(chunk *c) {
    mpt_round_copy(c->o->f->dtype, c->x, c->y, 2 * CHUNK);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < CHUNK; i++) {
        bool inf = c->want[i] == (uint32_t)c->o->n;
        float want = inf ? INFINITY : (float)c->o->value[c->want[i]];
        wrong += mpt_float_bits(c->y[i]) != mpt_float_bits(want);
        wrong += mpt_float_bits(c->y[CHUNK + i]) != mpt_float_bits(-want);
    }
    return wrong;
}

static void test_round_when_every_finite_float_then_as_the_table_says(void **state) {
    (void)state;
    check_all(MPT_DTYPE_FP16, wrong_rounded);
    check_all(MPT_DTYPE_BF16, wrong_rounded);
    check_all(MPT_DTYPE_TF32, wrong_rounded);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_encode_when_every_finite_float_then_as_the_table_says),
    cmocka_unit_test(test_encode_when_every_nan_then_the_one_code),
    cmocka_unit_test(test_cpu_when_every_finite_float_then_as_the_table_says),
    cmocka_unit_test(test_round_when_every_finite_float_then_as_the_table_says),
};

MPT_TEST_MAIN(cases)
