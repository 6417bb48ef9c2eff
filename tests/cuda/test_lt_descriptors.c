/* kernels/cuda/lt_descriptors.c: what cuBLASLt is told, read back from the library itself.
 * Needs the toolkit, but neither a driver nor a GPU. */
#include "mpt_test.h"

#include "kernels/cuda/lt.h"
#include "kernels/cuda/lt_descriptors.h"

/* 24 rows, 48 columns, 256 elements; pointers are numbers that are only carried. */
static mpt_gpu_gemm gemm(mpt_dtype a, mpt_dtype b, mpt_lt_scaling scaling, mpt_dtype d) {
    static const char bytes[4] = {0};
    mpt_gpu_gemm g = {.rows = 24, .cols = 48, .k = 256, .d_format = d, .alpha = 1};
    bool scaled = scaling > MPT_LT_TENSOR;
    g.a = (mpt_gemm_side){&bytes[0], scaled ? &bytes[1] : NULL, {a, scaling, false, 256}};
    g.b = (mpt_gemm_side){&bytes[2], scaled ? &bytes[3] : NULL, {b, scaling, false, 256}};
    return g;
}

static int64_t attribute(cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t which,
                         size_t size) {
    int64_t value = 0;
    size_t written = 0;
    assert_int_equal(cublasLtMatmulDescGetAttribute(matmul, which, &value, size, &written),
                     CUBLAS_STATUS_SUCCESS);
    assert_int_equal(written, size);
    return value;
}

static int64_t of_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                         size_t size) {
    int64_t value = 0;
    size_t written = 0;
    assert_int_equal(cublasLtMatrixLayoutGetAttribute(layout, which, &value, size, &written),
                     CUBLAS_STATUS_SUCCESS);
    return value;
}

static void expect_layout(cublasLtMatrixLayout_t layout, int type, int64_t rows, int64_t cols,
                          int64_t ld) {
    assert_int_equal(of_layout(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, 4), type);
    assert_int_equal(of_layout(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, 8), rows);
    assert_int_equal(of_layout(layout, CUBLASLT_MATRIX_LAYOUT_COLS, 8), cols);
    assert_int_equal(of_layout(layout, CUBLASLT_MATRIX_LAYOUT_LD, 8), ld);
    assert_int_equal(of_layout(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, 4), CUBLASLT_ORDER_COL);
}

static void test_modes_when_scales_vary_then_each_has_the_librarys(void **state) {
    (void)state;
    static const struct {
        mpt_dtype a, b;
        mpt_lt_scaling scaling;
        int mode, type_a, type_b; /* of the library's A and B, which are b and a */
    } rows[] = {
        {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_LT_TENSOR, 0, CUDA_R_8F_E5M2, CUDA_R_8F_E4M3},
        {MPT_DTYPE_E4M3, MPT_DTYPE_E4M3, MPT_LT_ROWS, 3, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3},
        {MPT_DTYPE_E4M3, MPT_DTYPE_E4M3, MPT_LT_1X128, 4, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3},
        {MPT_DTYPE_E4M3, MPT_DTYPE_E4M3, MPT_LT_MX, 2, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3},
        {MPT_DTYPE_E2M1, MPT_DTYPE_E2M1, MPT_LT_NVFP4, 1, CUDA_R_4F_E2M1, CUDA_R_4F_E2M1},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_gpu_gemm g = gemm(rows[i].a, rows[i].b, rows[i].scaling, MPT_DTYPE_BF16);
        mpt_lt_descriptors d;
        assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
        assert_int_equal(mpt_lt_point(&g, &d), CUBLAS_STATUS_SUCCESS);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4),
                         rows[i].mode);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4),
                         rows[i].mode);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8),
                         (int64_t)(intptr_t)g.b.scales);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8),
                         (int64_t)(intptr_t)g.a.scales);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1), 0);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_TRANSA, 4), CUBLAS_OP_T);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_TRANSB, 4), CUBLAS_OP_N);
        expect_layout(d.a, rows[i].type_a, 256, 48, 256);
        expect_layout(d.b, rows[i].type_b, 256, 24, 256);
        expect_layout(d.d, CUDA_R_16BF, 48, 24, 48);
        mpt_lt_descriptors_destroy(&d);
        assert_null(d.matmul);
    }
}

static void test_modes_when_blocks_are_128_on_both_sides_then_each_sides_own(void **state) {
    (void)state;
    mpt_gpu_gemm g = gemm(MPT_DTYPE_E4M3, MPT_DTYPE_E4M3, MPT_LT_1X128, MPT_DTYPE_FP32);
    mpt_lt_descriptors d;
    g.b.as.scaling = MPT_LT_128X128;
    assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4), 5);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4), 4);
    mpt_lt_descriptors_destroy(&d);
}

static void test_layouts_when_operands_lie_across_then_not_transposed(void **state) {
    (void)state;
    mpt_gpu_gemm g = gemm(MPT_DTYPE_BF16, MPT_DTYPE_BF16, MPT_LT_UNSCALED, MPT_DTYPE_FP32);
    mpt_lt_descriptors d;
    g.a.as = (mpt_lt_operand){MPT_DTYPE_BF16, MPT_LT_UNSCALED, true, 32};
    g.b.as = (mpt_lt_operand){MPT_DTYPE_BF16, MPT_LT_UNSCALED, true, 56};
    assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_TRANSA, 4), CUBLAS_OP_N);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_TRANSB, 4), CUBLAS_OP_T);
    expect_layout(d.a, CUDA_R_16BF, 48, 256, 56);
    expect_layout(d.b, CUDA_R_16BF, 24, 256, 32);
    expect_layout(d.d, CUDA_R_32F, 48, 24, 48);
    mpt_lt_descriptors_destroy(&d);
}

static void test_compute_when_formats_are_wide_then_fp32_and_tf32_differ(void **state) {
    (void)state;
    static const struct {
        mpt_dtype format;
        int compute, type;
    } rows[] = {{MPT_DTYPE_FP32, CUBLAS_COMPUTE_32F, CUDA_R_32F},
                {MPT_DTYPE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F},
                {MPT_DTYPE_BF16, CUBLAS_COMPUTE_32F, CUDA_R_16BF},
                {MPT_DTYPE_FP16, CUBLAS_COMPUTE_32F, CUDA_R_16F}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_gpu_gemm g = gemm(rows[i].format, rows[i].format, MPT_LT_UNSCALED, MPT_DTYPE_FP32);
        mpt_lt_descriptors d;
        assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4),
                         rows[i].compute);
        assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4), CUDA_R_32F);
        expect_layout(d.a, rows[i].type, 256, 48, 256);
        mpt_lt_descriptors_destroy(&d);
    }
}

static void test_epilogue_when_there_is_a_bias_then_with_its_format_and_pointer(void **state) {
    (void)state;
    static const char bias[2] = {0};
    static const float scalars[2] = {1, 0};
    mpt_gpu_gemm g = gemm(MPT_DTYPE_E4M3, MPT_DTYPE_E4M3, MPT_LT_TENSOR, MPT_DTYPE_FP32);
    mpt_lt_descriptors d;
    assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, 4),
                     CUBLASLT_EPILOGUE_DEFAULT);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_POINTER_MODE, 4),
                     CUBLASLT_POINTER_MODE_HOST);
    mpt_lt_descriptors_destroy(&d);
    g.bias = bias;
    g.bias_format = MPT_DTYPE_BF16;
    g.scalars = scalars;
    assert_int_equal(mpt_lt_describe(&g, &d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(mpt_lt_point(&g, &d), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, 4),
                     CUBLASLT_EPILOGUE_BIAS);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4), CUDA_R_16BF);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8),
                     (int64_t)(intptr_t)bias);
    assert_int_equal(attribute(d.matmul, CUBLASLT_MATMUL_DESC_POINTER_MODE, 4),
                     CUBLASLT_POINTER_MODE_DEVICE);
    mpt_lt_descriptors_destroy(&d);
}

/* Without a driver the handle is refused in words; with one it is made. */
static void test_create_when_there_may_be_no_driver_then_a_status_with_text(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_lt *lt;
    mpt_status status = mpt_lt_create(ctx, &lt);
    if (status == MPT_OK)
        assert_null(mpt_lt_fault(lt));
    else {
        assert_int_equal(status, MPT_UNSUPPORTED);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, "cuBLASLt does not start: "));
    }
    mpt_lt_destroy(lt);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
    assert_true(mpt_lt_version() >= 130000);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_modes_when_scales_vary_then_each_has_the_librarys),
    cmocka_unit_test(test_modes_when_blocks_are_128_on_both_sides_then_each_sides_own),
    cmocka_unit_test(test_layouts_when_operands_lie_across_then_not_transposed),
    cmocka_unit_test(test_compute_when_formats_are_wide_then_fp32_and_tf32_differ),
    cmocka_unit_test(test_epilogue_when_there_is_a_bias_then_with_its_format_and_pointer),
    cmocka_unit_test(test_create_when_there_may_be_no_driver_then_a_status_with_text),
};
MPT_TEST_MAIN(cases)
