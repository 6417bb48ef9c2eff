/* Descriptors of cuBLASLt, from the description of a product. */
#include "kernels/cuda/lt_descriptors.h"

#include "base/base.h"
#include "kernels/numerics_cast.h"

#define TRY(call)                                                                              \
    do {                                                                                       \
        cublasStatus_t status_ = (call);                                                       \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                  \
            return status_;                                                                    \
    } while (0)
#define SET(matmul, attribute, value)                                                          \
    TRY(cublasLtMatmulDescSetAttribute((matmul), (attribute), &(value), sizeof(value)))

/* FP32 is what mpt_lt_supported leaves beside these, TF32 included. */
static cudaDataType_t type_of(mpt_dtype format) {
    switch (format) {
    case MPT_DTYPE_BF16:
        return CUDA_R_16BF;
    case MPT_DTYPE_FP16:
        return CUDA_R_16F;
    case MPT_DTYPE_E4M3:
        return CUDA_R_8F_E4M3;
    case MPT_DTYPE_E5M2:
        return CUDA_R_8F_E5M2;
    case MPT_DTYPE_E2M1:
        return CUDA_R_4F_E2M1;
    default:
        return CUDA_R_32F;
    }
}

static int32_t mode_of(mpt_lt_scaling scaling) {
    static const int32_t modes[] = {
        CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,     CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
        CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,  CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
        CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
        CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3};
    _Static_assert(MPT_COUNT(modes) == MPT_LT_SCALING_COUNT, "each scaling has its mode");
    return modes[scaling];
}

/* Sums in FP32, promoted out of the tensor cores' shorter ones where those have such: without
 * FAST_ACCUM. */
static cublasStatus_t set_narrow(const mpt_gpu_gemm *g, cublasLtMatmulDesc_t matmul) {
    int32_t mode_a = mode_of(g->b.as.scaling), mode_b = mode_of(g->a.as.scaling);
    int8_t fast = 0;
    SET(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_a);
    SET(matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_b);
    SET(matmul, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_matmul(const mpt_gpu_gemm *g, cublasLtMatmulDesc_t matmul) {
    cublasOperation_t op_a = g->b.as.across ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasOperation_t op_b = g->a.as.across ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtPointerMode_t pointers =
        g->scalars ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
    cublasLtEpilogue_t epilogue = g->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    SET(matmul, CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    SET(matmul, CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    SET(matmul, CUBLASLT_MATMUL_DESC_POINTER_MODE, pointers);
    SET(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (g->bias) {
        int32_t type = (int32_t)type_of(g->bias_format);
        SET(matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    }
    return mpt_is_wide(g->a.as.format) ? CUBLAS_STATUS_SUCCESS : set_narrow(g, matmul);
}

/* Rows that we store are the library's columns. */
static cublasStatus_t layout_of(const mpt_gemm_side *s, int64_t outer, int64_t k,
                                cublasLtMatrixLayout_t *out) {
    int64_t stored = s->as.across ? k : outer, along = s->as.across ? outer : k;
    return cublasLtMatrixLayoutCreate(out, type_of(s->as.format), (uint64_t)along,
                                      (uint64_t)stored, s->as.ld);
}

static cublasStatus_t describe(const mpt_gpu_gemm *g, mpt_lt_descriptors *out) {
    cublasComputeType_t compute =
        g->a.as.format == MPT_DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    TRY(cublasLtMatmulDescCreate(&out->matmul, compute, CUDA_R_32F));
    TRY(set_matmul(g, out->matmul));
    TRY(layout_of(&g->b, g->cols, g->k, &out->a));
    TRY(layout_of(&g->a, g->rows, g->k, &out->b));
    return cublasLtMatrixLayoutCreate(&out->d, type_of(g->d_format), (uint64_t)g->cols,
                                      (uint64_t)g->rows, g->cols);
}

cublasStatus_t mpt_lt_describe(const mpt_gpu_gemm *gemm, mpt_lt_descriptors *out) {
    *out = (mpt_lt_descriptors){0};
    cublasStatus_t status = describe(gemm, out);
    if (status != CUBLAS_STATUS_SUCCESS)
        mpt_lt_descriptors_destroy(out);
    return status;
}

void mpt_lt_descriptors_destroy(mpt_lt_descriptors *d) {
    if (d->matmul)
        cublasLtMatmulDescDestroy(d->matmul);
    if (d->a)
        cublasLtMatrixLayoutDestroy(d->a);
    if (d->b)
        cublasLtMatrixLayoutDestroy(d->b);
    if (d->d)
        cublasLtMatrixLayoutDestroy(d->d);
    *d = (mpt_lt_descriptors){0};
}

cublasStatus_t mpt_lt_point(const mpt_gpu_gemm *g, const mpt_lt_descriptors *d) {
    if (!mpt_is_wide(g->a.as.format)) {
        SET(d->matmul, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g->b.scales);
        SET(d->matmul, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g->a.scales);
    }
    if (g->bias)
        SET(d->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g->bias);
    return CUBLAS_STATUS_SUCCESS;
}
