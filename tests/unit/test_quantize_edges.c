/* The quantizer at its edges: tiny, huge and zero tensors, values that are not finite, the
 * rotation and its padding. */
#include "quantize_case.h"

#include <math.h>

/* ---- scales at the ends of the range ---- */

static case_result run_filled(mpt_quantizer q, float value, int64_t rows, int64_t cols) {
    float *x = case_buffer((size_t)(rows * cols) * 4);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = value;
    mpt_quantize_job job = {
        .q = &q, .x = x, .rows = rows, .cols = cols, .column = true, .bf16 = true};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    free(x);
    return r;
}

static void test_fp8_when_amax_is_tiny_then_scale_is_capped_and_finite(void **state) {
    (void)state;
    assert_true(mpt_current_scale(448.0f, 1e-38f) == MPT_FLT_MAX);
    assert_true(mpt_current_scale(448.0f, 0x1p-149f) == MPT_FLT_MAX);
    assert_true(mpt_current_scale(448.0f, 0.0f) == 1.0f);
    assert_true(mpt_current_scale(448.0f, MPT_FLT_MAX) > 0);
    case_result r = run_filled(case_fp8(MPT_DTYPE_E4M3), 1e-38f, 16, 16);
    assert_true(mpt_is_finite(r.factor) && r.factor > 0);
    for (int i = 0; i < 256; i++) {
        assert_true(mpt_is_finite(r.decoded[i] * r.factor));
        assert_true(fabsf(r.decoded[i] * r.factor - 1e-38f) < 0.07e-38f);
    }
    case_free(&r);
}

static void test_any_when_all_zero_then_zeros_and_finite_factor(void **state) {
    (void)state;
    mpt_quantizer qs[] = {case_nvfp4(1), case_nvfp4(16), case_fp8(MPT_DTYPE_E4M3),
                          case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED),
                          case_stochastic(case_nvfp4(1))};
    for (size_t i = 0; i < MPT_COUNT(qs); i++) {
        case_result r = run_filled(qs[i], 0.0f, 32, 64);
        assert_true(mpt_is_finite(r.factor));
        assert_true(r.amax == 0);
        for (int j = 0; j < 32 * 64; j++)
            assert_true(r.decoded[j] == 0);
        case_free(&r);
    }
    assert_true(mpt_outer_scale_of(6.0f, 448.0f, 0.0f).encode == 1.0f);
}

static void test_nvfp4_when_amax_is_tiny_or_huge_then_decoded_is_finite(void **state) {
    (void)state;
    static const float value[] = {0x1p-149f, 1e-38f, 0x1p-126f, 0x1.fep127f, MPT_FLT_MAX};
    for (size_t i = 0; i < MPT_COUNT(value); i++) {
        case_result r = run_filled(case_nvfp4(1), value[i], 16, 16);
        assert_true(r.factor == value[i]);
        for (int j = 0; j < 256; j++)
            assert_true(mpt_is_finite(r.decoded[j]));
        case_free(&r);
    }
}

/* amax 256, not 255.9: it is taken on what is quantized. */
static void test_amax_when_operand_is_bf16_then_after_rounding(void **state) {
    (void)state;
    float x[16] = {0};
    mpt_quantizer q = case_rotated(case_nvfp4(1), 16, MPT_SIGNS_NONE);
    x[0] = 4 * 255.0f;
    x[1] = 4 * 0.9f; /* the rotated sum is 255.9 */
    mpt_quantize_job job = {
        .q = &q, .x = x, .rows = 16, .cols = 1, .column = true, .bf16 = true};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    assert_true(r.amax == 256.0f);
    case_free(&r);
    job.bf16 = false;
    r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    assert_true(fabsf(r.amax - 255.9f) < 1e-3f);
    case_free(&r);
}

/* ---- NaN and Inf stay visible ---- */

static void test_nvfp4_when_a_block_has_nan_or_inf_then_only_its_scale_is_nan(void **state) {
    (void)state;
    static const uint32_t bad[] = {0x7FC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800000u,
                                   0xFF800000u};
    mpt_quantizer q = case_nvfp4(1);
    for (size_t b = 0; b < MPT_COUNT(bad); b++)
        for (int column = 0; column < 2; column++)
            for (int backend = 0; backend < 2; backend++) {
                float x[32 * 32];
                case_fill(x, 32 * 32, 0, 9);
                x[5 * 32 + 20] = mpt_bits_float(bad[b]);
                mpt_quantize_job job = {
                    .q = &q, .x = x, .rows = 32, .cols = 32, .column = column};
                case_result r =
                    case_run(backend ? mpt_quantize_operand : mpt_ref_quantize_operand, job,
                             CASE_DECODED | CASE_CODES);
                assert_true(mpt_is_finite(r.factor));
                assert_int_equal(r.scales[column ? 20 * 2 + 0 : 5 * 2 + 1], 0x7F);
                for (int i = 0; i < 32 * 32; i++) {
                    int row = i / 32, col = i % 32;
                    bool in = column ? col == 20 && row < 16 : row == 5 && col >= 16;
                    assert_true(in ? isnan(r.decoded[i]) : mpt_is_finite(r.decoded[i]));
                }
                case_free(&r);
            }
}

static void test_nvfp4_when_bad_value_is_rotated_then_its_column_is_nan(void **state) {
    (void)state;
    mpt_quantizer q = case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED);
    float x[32 * 16];
    case_fill(x, 32 * 16, 0, 9);
    mpt_ref_round_to(MPT_DTYPE_BF16, x, 32 * 16);
    x[3 * 16 + 4] = mpt_bits_float(MPT_INF_BITS);
    mpt_quantize_job job = {
        .q = &q, .x = x, .rows = 32, .cols = 16, .column = true, .bf16 = true};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    assert_true(mpt_is_finite(r.amax));
    for (int i = 0; i < 32 * 16; i++)
        assert_int_equal(!mpt_is_finite(r.decoded[i]), i % 16 == 4 && i / 16 < 16);
    case_free(&r);
}

static void test_fp8_when_values_are_not_finite_then_they_stay_so(void **state) {
    (void)state;
    static const float inf = INFINITY;
    float x[64];
    case_fill(x, 64, 0, 3);
    x[1] = inf;
    x[2] = -inf;
    x[3] = NAN;
    x[4] = -20.0f;
    for (int backend = 0; backend < 2; backend++)
        for (int f = 0; f < 2; f++) {
            mpt_quantizer q = case_fp8(f ? MPT_DTYPE_E5M2 : MPT_DTYPE_E4M3);
            mpt_quantize_job job = {.q = &q, .x = x, .rows = 4, .cols = 16};
            case_result r = case_run(backend ? mpt_quantize_operand : mpt_ref_quantize_operand,
                                     job, CASE_DECODED);
            assert_true(r.amax == 20.0f);
            assert_true(f ? r.decoded[1] == inf : isnan(r.decoded[1]));
            assert_true(f ? r.decoded[2] == -inf : isnan(r.decoded[2]));
            assert_true(isnan(r.decoded[3]));
            assert_true(mpt_is_finite(r.decoded[0]) && mpt_is_finite(r.decoded[4]));
            case_free(&r);
        }
}

static void test_e2m1_when_one_scale_has_nan_then_the_factor_is_nan(void **state) {
    (void)state;
    mpt_quantizer q = case_fp8(MPT_DTYPE_E2M1);
    float x[32] = {1, 2, 3};
    mpt_quantize_job job = {.q = &q, .x = x, .rows = 2, .cols = 16};
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    assert_true(r.factor == 0.5f);
    assert_true(r.decoded[2] == 6.0f);
    case_free(&r);
    x[20] = NAN;
    r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    assert_true(isnan(r.factor));
    case_free(&r);
}

/* ---- the rotation ---- */

static void test_hadamard_when_any_size_then_orthonormal_and_sylvester(void **state) {
    (void)state;
    uint32_t signs[4];
    mpt_fixed_signs(signs);
    for (int n = 2; n <= MPT_HADAMARD_MAX; n *= 2) {
        float h[MPT_HADAMARD_MAX][MPT_HADAMARD_MAX];
        for (int i = 0; i < n; i++) {
            memset(h[i], 0, sizeof h[i]);
            h[i][i] = 1;
            mpt_hadamard_rotate(h[i], n, signs);
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                double dot = 0;
                for (int k = 0; k < n; k++)
                    dot += (double)h[i][k] * (double)h[j][k];
                assert_true(fabs(dot - (i == j)) < 1.3e-7);
                bool odd = __builtin_parity((unsigned)(i & j)) != 0;
                bool flipped = (MPT_HADAMARD_SIGNS >> (i % 16) & 1u) != 0;
                assert_true((h[i][j] < 0) == (odd != flipped));
            }
    }
    float x[16] = {0};
    x[3] = 1;
    mpt_hadamard_rotate(x, 16, signs);
    assert_true(x[0] == -0.25f && x[1] == 0.25f && x[2] == 0.25f && x[4] == -0.25f);
}

/* 40 tokens become 48, and the product over them is the one without the rotation. */
static void test_rotation_when_padded_then_products_stay(void **state) {
    (void)state;
    enum { T = 40, A = 6, B = 5 };
    mpt_quantizer q = case_rotated(case_cast(MPT_DTYPE_FP32), 16, MPT_SIGNS_FIXED);
    float x[T * A], y[T * B];
    case_fill(x, T * A, 0, 1);
    case_fill(y, T * B, 0, 2);
    mpt_quantize_job job = {.q = &q, .x = x, .rows = T, .cols = A, .column = true};
    assert_int_equal(mpt_quantizer_extent(&q, T), 48);
    case_result a = case_run(mpt_quantize_operand, job, CASE_DECODED);
    job.x = y;
    job.cols = B;
    case_result b = case_run(mpt_quantize_operand, job, CASE_DECODED);
    for (int i = 0; i < A; i++)
        for (int j = 0; j < B; j++) {
            double plain = 0, rotated = 0;
            for (int t = 0; t < T; t++)
                plain += (double)x[t * A + i] * (double)y[t * B + j];
            for (int t = 0; t < 48; t++)
                rotated += (double)a.decoded[t * A + i] * (double)b.decoded[t * B + j];
            assert_true(fabs(plain - rotated) < 1e-4);
        }
    case_free(&a);
    case_free(&b);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_fp8_when_amax_is_tiny_then_scale_is_capped_and_finite),
    cmocka_unit_test(test_any_when_all_zero_then_zeros_and_finite_factor),
    cmocka_unit_test(test_nvfp4_when_amax_is_tiny_or_huge_then_decoded_is_finite),
    cmocka_unit_test(test_amax_when_operand_is_bf16_then_after_rounding),
    cmocka_unit_test(test_nvfp4_when_a_block_has_nan_or_inf_then_only_its_scale_is_nan),
    cmocka_unit_test(test_nvfp4_when_bad_value_is_rotated_then_its_column_is_nan),
    cmocka_unit_test(test_fp8_when_values_are_not_finite_then_they_stay_so),
    cmocka_unit_test(test_e2m1_when_one_scale_has_nan_then_the_factor_is_nan),
    cmocka_unit_test(test_hadamard_when_any_size_then_orthonormal_and_sylvester),
    cmocka_unit_test(test_rotation_when_padded_then_products_stay),
};

MPT_TEST_MAIN(cases)
