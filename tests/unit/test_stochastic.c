/* Stochastic rounding: the rule counted over all random bits, the keyed stream against
 * committed vectors, and what changes it. Means and independence over many draws are in
 * test_stochastic_statistics.c. */
#include "quantize_case.h"

#include <math.h>

/* ---- the rule ---- */

/* Of all random words, as many round x up as its place between two codes says: at/of of the
 * way. The other sign mirrors it. */
static void check_share(mpt_dtype dtype, uint32_t low_code, uint32_t at, uint32_t of) {
    uint32_t words = mpt_takes_one_byte(dtype) ? 256 : 65536, up = 0;
    float low = mpt_decode(dtype, low_code), high = mpt_decode(dtype, low_code + 1);
    float x = low + (high - low) * ((float)at / (float)of); /* exact for all that is asked */
    for (uint32_t w = 0; w < words; w++) {
        uint32_t bits = w * (65536u / words);
        uint32_t code = mpt_encode_stochastic(dtype, x, bits);
        float mirrored = mpt_decode(dtype, mpt_encode_stochastic(dtype, -x, bits));
        assert_true(mirrored == -mpt_decode(dtype, code));
        assert_true(code == low_code || code == low_code + 1);
        up += code == low_code + 1;
    }
    if (up != words / of * at)
        fail_msg("%s between codes %u and the next, at %u/%u: %u of %u up",
                 mpt_dtype_name(dtype), low_code, at, of, up, words);
}

static void test_rule_when_all_bytes_then_share_is_the_fraction_to_1_in_256(void **state) {
    (void)state;
    static const mpt_dtype dtype[] = {MPT_DTYPE_E2M1, MPT_DTYPE_E3M2, MPT_DTYPE_E2M3};
    for (size_t d = 0; d < MPT_COUNT(dtype); d++)
        for (uint32_t code = 0; code < mpt_format_of(dtype[d]).max_code; code++)
            for (uint32_t at = 0; at <= 256; at++)
                check_share(dtype[d], code, at, 256);
}

static void test_rule_when_all_words_then_share_is_the_fraction(void **state) {
    (void)state;
    static const struct {
        mpt_dtype dtype;
        uint32_t code[8];
    } row[] = {{MPT_DTYPE_E4M3, {0, 1, 6, 7, 8, 50, 0x7D}},
               {MPT_DTYPE_E5M2, {0, 2, 3, 4, 60, 0x7A}},
               {MPT_DTYPE_E5M6, {0, 1, 62, 63, 64, 900, 0x7BE}},
               {MPT_DTYPE_INT8, {0, 1, 63, 64, 100, 126}},
               {MPT_DTYPE_BF16, {0x3F80, 0x7F7E, 1}},
               {MPT_DTYPE_FP16, {0, 0x3C01, 1, 0x7BFE}}};
    for (size_t i = 0; i < MPT_COUNT(row); i++)
        for (size_t j = 0; j < MPT_COUNT(row[i].code); j++) {
            if (j && row[i].code[j] == 0)
                break;
            check_share(row[i].dtype, row[i].code[j], 1, 8);
            check_share(row[i].dtype, row[i].code[j], 13, 16);
            check_share(row[i].dtype, row[i].code[j], 128, 256);
            check_share(row[i].dtype, row[i].code[j], 1, 4096);
        }
}

static void test_rule_when_value_is_a_code_then_it_never_moves(void **state) {
    (void)state;
    static const mpt_dtype dtype[] = {MPT_DTYPE_E2M1, MPT_DTYPE_E3M2, MPT_DTYPE_E2M3,
                                      MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6,
                                      MPT_DTYPE_INT8};
    for (size_t d = 0; d < MPT_COUNT(dtype); d++)
        for (uint32_t c = 0; c <= mpt_format_of(dtype[d]).max_code; c++)
            for (uint32_t bits = 0; bits < 65536; bits += 13107)
                assert_int_equal(mpt_encode_stochastic(dtype[d], mpt_decode(dtype[d], c), bits),
                                 c);
}

static void test_rule_when_beyond_the_range_then_as_the_nearest_cast(void **state) {
    (void)state;
    static const mpt_dtype dtype[] = {MPT_DTYPE_E2M1, MPT_DTYPE_E3M2, MPT_DTYPE_E2M3,
                                      MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6,
                                      MPT_DTYPE_INT8, MPT_DTYPE_FP16, MPT_DTYPE_BF16};
    for (size_t d = 0; d < MPT_COUNT(dtype); d++) {
        float x[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
        for (size_t i = 0; i < MPT_COUNT(x); i++)
            for (uint32_t bits = 0; bits < 65536; bits += 65535)
                assert_int_equal(mpt_encode_stochastic(dtype[d], x[i], bits),
                                 mpt_encode(dtype[d], x[i]));
        assert_int_equal(mpt_encode_stochastic(dtype[d], 0x1p-149f, 0), 0);
    }
    assert_int_equal(mpt_encode_stochastic(MPT_DTYPE_E4M3, 1e6f, 0), 0x7E);
    assert_int_equal(mpt_encode_stochastic(MPT_DTYPE_E2M1, 6.5f, 0xFFFF), 7);
}

/* ---- the stream ---- */

/* Made by a second implementation; these bytes are for good. */
static void test_stream_when_keyed_then_the_committed_bytes(void **state) {
    (void)state;
    static const uint8_t want[3][16] = {{0xfd, 0xc0, 0xd2, 0x0b, 0x9c, 0x14, 0x5f, 0x2b, 0x77,
                                         0x56, 0x45, 0xa3, 0xfb, 0xe7, 0x13, 0xdf},
                                        {0xd3, 0x55, 0x5e, 0x43, 0xb0, 0xde, 0xd3, 0xbc, 0x5f,
                                         0x5c, 0x38, 0x62, 0x14, 0x1a, 0xeb, 0xb0},
                                        {0xf8, 0x4a, 0x2d, 0x9c, 0xe5, 0xa0, 0xca, 0xb8, 0xf2,
                                         0x27, 0x54, 0xee, 0x0c, 0x83, 0xcd, 0xf0}};
    mpt_random_key key = {0x0123456789abcdefu, 0x1234567, 89, 0};
    uint8_t got[16];
    mpt_random_bytes(&key, 0, 0, got);
    assert_memory_equal(got, want[0], 16);
    mpt_random_bytes(&key, 0x100000002u, 0, got);
    assert_memory_equal(got, want[1], 16);
    mpt_random_bytes(&key, 0, MPT_RANDOM_LOW, got);
    assert_memory_equal(got, want[2], 16);
    key.first_group = 0x100000000u;
    mpt_random_bytes(&key, 2, 0, got);
    assert_memory_equal(got, want[1], 16);
}

static void test_stream_when_a_matrix_is_quantized_then_the_committed_codes(void **state) {
    (void)state;
    static const char *const want[] = {"ffffffeeeeeeddddffff", "ffeeeddcb90134456777",
                                       "45455566677777777777"};
    static const uint8_t scales[] = {0x7e, 0x75, 0x71, 0x70, 0x7c, 0x7e};
    float x[60];
    for (int i = 0; i < 60; i++)
        x[i] = (float)(i - 30) / 8.0f;
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 3, .cols = 20};
    job.key = (mpt_random_key){0x0123456789abcdefu, 77, 5, 2 * 3 * 2};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED | CASE_CODES);
    assert_memory_equal(r.scales, scales, 6);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 20; k++)
            assert_int_equal("0123456789abcdef"[r.codes[i * 10 + k / 2] >> 4 * (k % 2) & 15],
                             want[i][k]);
    case_free(&r);
}

static float *quantized(mpt_random_key key) {
    static float x[16 * 64];
    case_fill(x, 16 * 64, 0, 8);
    mpt_quantizer q = case_stochastic(case_nvfp4(1));
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 16, .cols = 64, .key = key};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    float *decoded = r.decoded;
    r.decoded = NULL;
    case_free(&r);
    return decoded;
}

static void test_stream_when_any_part_of_the_key_changes_then_other_bits(void **state) {
    (void)state;
    mpt_random_key base = {1, 2, 3, 0}, other[5];
    for (int i = 0; i < 5; i++)
        other[i] = base;
    other[0].seed = 2;
    other[1].seed |= 1ull << 32;
    other[2].operand = 4;
    other[3].step = 4;
    other[4].first_group = 64;
    float *a = quantized(base), *again = quantized(base);
    assert_memory_equal(a, again, 16 * 64 * 4);
    for (int i = 0; i < 5; i++) {
        float *b = quantized(other[i]);
        assert_memory_not_equal(a, b, 16 * 64 * 4);
        free(b);
    }
    free(a);
    free(again);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_rule_when_all_bytes_then_share_is_the_fraction_to_1_in_256),
    cmocka_unit_test(test_rule_when_all_words_then_share_is_the_fraction),
    cmocka_unit_test(test_rule_when_value_is_a_code_then_it_never_moves),
    cmocka_unit_test(test_rule_when_beyond_the_range_then_as_the_nearest_cast),
    cmocka_unit_test(test_stream_when_keyed_then_the_committed_bytes),
    cmocka_unit_test(test_stream_when_a_matrix_is_quantized_then_the_committed_codes),
    cmocka_unit_test(test_stream_when_any_part_of_the_key_changes_then_other_bits),
};

MPT_TEST_MAIN(cases)
