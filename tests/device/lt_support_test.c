/* mpt_lt_support_test: the table of lt_support.h against what cuBLASLt itself takes on this
 * device, cell by cell, and how fast its products and a copy are.
 *
 * The library is asked by its heuristic, which runs nothing. A cell that the table has and the
 * library refuses is a fault; one that the library takes beyond the table is told, because the
 * table keeps to what the documentation says. Exit status 77: there is no device. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "recipe/lt_support.h"

enum { WORKSPACE = 32 << 20, SCALES = 8 << 20, SHOWN = 60 };

typedef struct lab {
    cublasLtHandle_t handle;
    int capability;
    char *memory; /* what descriptors point to: scales near 1 */
    void *workspace;
    long long cells, faults, beyond, shown;
} lab;

/* ---- descriptors of a query: columns first, so b is the library's A ---- */

typedef struct product {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c, d;
} product;

static bool type_of(mpt_dtype format, cudaDataType_t *out) {
    switch (format) {
    case MPT_DTYPE_FP32:
    case MPT_DTYPE_TF32:
        *out = CUDA_R_32F;
        return true;
    case MPT_DTYPE_BF16:
        *out = CUDA_R_16BF;
        return true;
    case MPT_DTYPE_FP16:
        *out = CUDA_R_16F;
        return true;
    case MPT_DTYPE_E4M3:
        *out = CUDA_R_8F_E4M3;
        return true;
    case MPT_DTYPE_E5M2:
        *out = CUDA_R_8F_E5M2;
        return true;
    case MPT_DTYPE_E2M1:
        *out = CUDA_R_4F_E2M1;
        return true;
    default:
        return false;
    }
}

static int32_t mode_of(mpt_lt_scaling scaling) {
    static const int32_t modes[] = {[MPT_LT_TENSOR] = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                                    [MPT_LT_ROWS] = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                                    [MPT_LT_1X128] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                                    [MPT_LT_128X128] =
                                        CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
                                    [MPT_LT_MX] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
                                    [MPT_LT_NVFP4] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3};
    return modes[scaling];
}

static bool set(product *p, cublasLtMatmulDescAttributes_t what, const void *value,
                size_t bytes) {
    return cublasLtMatmulDescSetAttribute(p->how, what, value, bytes) == CUBLAS_STATUS_SUCCESS;
}

/* The library's A is operand b, and the other way round. */
static bool set_scales(product *p, const lab *l, const mpt_lt_query *q) {
    void *scales = l->memory;
    int32_t a = mode_of(q->b.scaling), b = mode_of(q->a.scaling);
    bool ok = true;
    if (q->b.scaling != MPT_LT_UNSCALED)
        ok = set(p, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &a, sizeof a) &&
             set(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scales, sizeof scales);
    if (ok && q->a.scaling != MPT_LT_UNSCALED)
        ok = set(p, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &b, sizeof b) &&
             set(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scales, sizeof scales);
    return ok;
}

static bool set_bias(product *p, const lab *l, const mpt_lt_query *q) {
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    void *bias = l->memory;
    cudaDataType_t type;
    if (!q->has_bias)
        return true;
    if (!type_of(q->bias, &type))
        return false;
    int32_t code = (int32_t)type;
    return set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
           set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias) &&
           set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &code, sizeof code);
}

static bool layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, int64_t rows, int64_t cols,
                   int64_t batch) {
    int32_t count = (int32_t)(batch > 1 ? batch : 1);
    int64_t stride = rows * cols;
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols, rows) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                            sizeof count) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &stride, sizeof stride) == CUBLAS_STATUS_SUCCESS;
}

static bool set_layouts(product *p, const mpt_lt_query *q) {
    cublasOperation_t a = q->b.across ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasOperation_t b = q->a.across ? CUBLAS_OP_T : CUBLAS_OP_N;
    bool fp8 = q->d == MPT_DTYPE_E4M3 || q->d == MPT_DTYPE_E5M2;
    cudaDataType_t a_type, b_type, d_type;
    if (!type_of(q->b.format, &a_type) || !type_of(q->a.format, &b_type) ||
        !type_of(q->d, &d_type))
        return false;
    return set(p, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a) &&
           set(p, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b) &&
           layout(&p->a, a_type, q->b.across ? q->cols : q->k, q->b.across ? q->k : q->cols,
                  q->batch) &&
           layout(&p->b, b_type, q->a.across ? q->rows : q->k, q->a.across ? q->k : q->rows,
                  q->batch) &&
           layout(&p->c, fp8 ? CUDA_R_16BF : d_type, q->cols, q->rows, q->batch) &&
           layout(&p->d, d_type, q->cols, q->rows, q->batch);
}

static void product_free(product *p) {
    if (p->how)
        cublasLtMatmulDescDestroy(p->how);
    cublasLtMatrixLayout_t all[] = {p->a, p->b, p->c, p->d};
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        if (all[i])
            cublasLtMatrixLayoutDestroy(all[i]);
}

static bool product_of(const lab *l, const mpt_lt_query *q, product *out) {
    bool tf32 = q->a.format == MPT_DTYPE_TF32 || q->b.format == MPT_DTYPE_TF32;
    *out = (product){0};
    return cublasLtMatmulDescCreate(&out->how,
                                    tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                    CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           set_scales(out, l, q) && set_bias(out, l, q) && set_layouts(out, q);
}

/* ---- the question ---- */

static bool library_takes(const lab *l, const mpt_lt_query *q,
                          cublasLtMatmulHeuristicResult_t *best) {
    product p;
    cublasLtMatmulPreference_t preference = NULL;
    size_t workspace = WORKSPACE;
    int found = 0;
    bool made = product_of(l, q, &p) &&
                cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS &&
                cublasLtMatmulPreferenceSetAttribute(
                    preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                    sizeof workspace) == CUBLAS_STATUS_SUCCESS;
    bool takes =
        made &&
        cublasLtMatmulAlgoGetHeuristic(l->handle, p.how, p.a, p.b, p.c, p.d, preference, 1,
                                       best, &found) == CUBLAS_STATUS_SUCCESS &&
        found > 0;
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    product_free(&p);
    return takes;
}

static void say(const mpt_lt_query *q, const char *verdict, const char *why) {
    printf("%s: %s %s%s by %s %s%s -> %s, %lldx%lldx%lld, %lld at once%s%s%s%s\n", verdict,
           mpt_lt_scaling_name(q->a.scaling), mpt_dtype_name(q->a.format),
           q->a.across ? " across" : "", mpt_lt_scaling_name(q->b.scaling),
           mpt_dtype_name(q->b.format), q->b.across ? " across" : "", mpt_dtype_name(q->d),
           (long long)q->rows, (long long)q->cols, (long long)q->k,
           (long long)(q->batch ? q->batch : 1), q->has_bias ? ", bias " : "",
           q->has_bias ? mpt_dtype_name(q->bias) : "", why[0] ? ": " : "", why);
}

/* Compares one cell; true where the table has it. */
static bool compare(lab *l, const mpt_lt_query *q) {
    char why[MPT_LT_WHY];
    cublasLtMatmulHeuristicResult_t best;
    bool table = mpt_lt_supported(q, why), library = library_takes(l, q, &best);
    l->cells++;
    if (table && !library) {
        l->faults++;
        say(q, "FAULT, the table has it, the library does not", "");
    }
    if (library && !table && ++l->beyond && l->shown++ < SHOWN)
        say(q, "beyond the table", why);
    return table;
}

/* ---- all cells ---- */

/* Sizes off the grid, batches and biases: of pairs that the table has. */
static void compare_shapes(lab *l, const mpt_lt_query *base) {
    static const int64_t k[] = {528, 520, 544, 509}, rows[] = {509, 510, 516, 520};
    static const mpt_dtype biases[] = {MPT_DTYPE_FP32, MPT_DTYPE_BF16, MPT_DTYPE_FP16};
    for (size_t i = 0; i < MPT_COUNT(k); i++) {
        mpt_lt_query longer = *base, taller = *base, wider = *base;
        longer.k = k[i];
        taller.rows = rows[i];
        wider.cols = rows[i];
        compare(l, &longer);
        compare(l, &taller);
        compare(l, &wider);
    }
    for (size_t i = 0; i < MPT_COUNT(biases); i++) {
        mpt_lt_query biased = *base;
        biased.has_bias = true;
        biased.bias = biases[i];
        compare(l, &biased);
    }
    mpt_lt_query batched = *base;
    batched.batch = 16;
    compare(l, &batched);
}

static void compare_results(lab *l, mpt_lt_operand a, mpt_lt_operand b) {
    static const mpt_dtype results[] = {MPT_DTYPE_FP32, MPT_DTYPE_BF16, MPT_DTYPE_FP16,
                                        MPT_DTYPE_E4M3, MPT_DTYPE_E5M2};
    for (size_t d = 0; d < MPT_COUNT(results); d++)
        for (int layouts = 0; layouts < 4; layouts++) {
            mpt_lt_query q = {.capability = l->capability, .rows = 512, .cols = 512, .k = 512};
            q.a = a;
            q.b = b;
            q.a.across = layouts & 1;
            q.b.across = layouts & 2;
            q.d = results[d];
            if (compare(l, &q))
                compare_shapes(l, &q);
        }
}

static void compare_all(lab *l) {
    static const mpt_dtype formats[] = {MPT_DTYPE_FP32, MPT_DTYPE_TF32, MPT_DTYPE_BF16,
                                        MPT_DTYPE_FP16, MPT_DTYPE_E4M3, MPT_DTYPE_E5M2,
                                        MPT_DTYPE_E2M1};
    for (size_t f = 0; f < MPT_COUNT(formats); f++)
        for (size_t g = 0; g < MPT_COUNT(formats); g++)
            for (int s = 0; s < MPT_LT_SCALING_COUNT; s++)
                for (int t = 0; t < MPT_LT_SCALING_COUNT; t++)
                    compare_results(
                        l, (mpt_lt_operand){.format = formats[f], .scaling = (mpt_lt_scaling)s},
                        (mpt_lt_operand){.format = formats[g], .scaling = (mpt_lt_scaling)t});
}

/* ---- speeds ---- */

/* Milliseconds of one of `times` launches; 0: it does not run. */
static double time_product(const lab *l, const mpt_lt_query *q, char *a, char *b, char *d,
                           int times) {
    cublasLtMatmulHeuristicResult_t best;
    product p;
    cudaEvent_t began, ended;
    float alpha = 1, beta = 0, ms = 0;
    bool ok = library_takes(l, q, &best) && product_of(l, q, &p);
    cudaEventCreate(&began);
    cudaEventCreate(&ended);
    for (int i = -2; ok && i < times; i++) {
        if (i == 0)
            cudaEventRecord(began, 0);
        ok = cublasLtMatmul(l->handle, p.how, &alpha, b, p.a, a, p.b, &beta, d, p.c, d, p.d,
                            &best.algo, l->workspace, WORKSPACE, 0) == CUBLAS_STATUS_SUCCESS;
    }
    cudaEventRecord(ended, 0);
    ok = cudaEventSynchronize(ended) == cudaSuccess && ok &&
         cudaEventElapsedTime(&ms, began, ended) == cudaSuccess;
    cudaEventDestroy(began);
    cudaEventDestroy(ended);
    return ok ? (double)ms / times : 0;
}

static double copy_speed(char *from, char *to, size_t bytes) {
    cudaEvent_t began, ended;
    float ms = 0;
    cudaEventCreate(&began);
    cudaEventCreate(&ended);
    for (int i = -1; i < 20; i++) {
        if (i == 0)
            cudaEventRecord(began, 0);
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, 0);
    }
    cudaEventRecord(ended, 0);
    cudaEventSynchronize(ended);
    cudaEventElapsedTime(&ms, began, ended);
    return 20 * 2e-6 * (double)bytes / (double)ms;
}

/* Random bits that are finite in every format: exponents near the middle. */
static bool fill_codes(char *memory, size_t bytes) {
    enum { PART = 1 << 20 };
    static uint8_t part[PART];
    uint32_t h = 1;
    for (size_t i = 0; i < PART; i++) {
        h = h * 1664525u + 1013904223u;
        part[i] = (uint8_t)((h >> 24 & 0x87u) | 0x30u);
    }
    for (size_t at = 0; at < bytes; at += PART)
        if (cudaMemcpy(memory + at, part, PART, cudaMemcpyHostToDevice) != cudaSuccess)
            return false;
    return true;
}

static bool time_all(const lab *l) {
    static const struct {
        const char *name;
        mpt_dtype format;
        mpt_lt_scaling a, b;
    } rows[] = {{"bf16", MPT_DTYPE_BF16, MPT_LT_UNSCALED, MPT_LT_UNSCALED},
                {"fp8 tensor", MPT_DTYPE_E4M3, MPT_LT_TENSOR, MPT_LT_TENSOR},
                {"fp8 rows", MPT_DTYPE_E4M3, MPT_LT_ROWS, MPT_LT_ROWS},
                {"fp8 1x128 by 128x128", MPT_DTYPE_E4M3, MPT_LT_1X128, MPT_LT_128X128}};
    enum { SIDE = 8192 };
    const size_t bytes = (size_t)SIDE * SIDE * 2;
    char *a = NULL, *b = NULL, *d = NULL;
    double bf16 = 0;
    if (cudaMalloc((void **)&a, bytes) != cudaSuccess ||
        cudaMalloc((void **)&b, bytes) != cudaSuccess ||
        cudaMalloc((void **)&d, bytes) != cudaSuccess || !fill_codes(a, bytes) ||
        !fill_codes(b, bytes))
        return false;
    printf("copy %.1f GB/s\n", copy_speed(a, d, bytes));
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_lt_query q = {.rows = SIDE, .cols = SIDE, .k = SIDE, .d = MPT_DTYPE_BF16};
        q.a = (mpt_lt_operand){.format = rows[i].format, .scaling = rows[i].a};
        q.b = (mpt_lt_operand){.format = rows[i].format, .scaling = rows[i].b};
        double ms = time_product(l, &q, a, b, d, 10);
        bf16 = i == 0 ? ms : bf16;
        if (ms > 0)
            printf("gemm %d^3 %-22s %8.3f ms %8.1f TFLOP/s %5.2f of bf16\n", SIDE, rows[i].name,
                   ms, 2e-9 * SIDE * SIDE * SIDE / ms, bf16 / ms);
        else
            printf("gemm %d^3 %-22s does not run here\n", SIDE, rows[i].name);
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(d);
    return bf16 > 0;
}

/* ---- main ---- */

/* False: `why` says what is missing. */
static bool lab_open(lab *l, const char **why) {
    struct cudaDeviceProp properties;
    int devices = 0;
    *why = "there is no CUDA device";
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess)
        *why = cudaGetErrorString(error);
    if (error != cudaSuccess || devices < 1 ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
        return false;
    *why = "cuBLASLt does not start on this device";
    l->capability = 10 * properties.major + properties.minor;
    printf("%s, sm%d, %d multiprocessors, cuBLASLt %zu\n", properties.name, l->capability,
           properties.multiProcessorCount, cublasLtGetVersion());
    return cublasLtCreate(&l->handle) == CUBLAS_STATUS_SUCCESS &&
           cudaMalloc((void **)&l->memory, SCALES) == cudaSuccess &&
           cudaMemset(l->memory, 0x3f, SCALES) == cudaSuccess &&
           cudaMalloc(&l->workspace, WORKSPACE) == cudaSuccess;
}

int main(void) {
    lab l = {0};
    const char *why;
    if (!lab_open(&l, &why)) {
        printf("skipped: %s\n", why);
        return 77;
    }
    compare_all(&l);
    bool timed = time_all(&l);
    printf("support: %lld cells, %lld that the library refuses, %lld beyond the table\n",
           l.cells, l.faults, l.beyond);
    return l.faults > 0 || !timed;
}
