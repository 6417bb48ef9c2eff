/* Products by cuBLASLt: plans that are made once and kept, and their calls. */
#include "kernels/cuda/lt.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "kernels/cuda/lt_descriptors.h"
#include "recipe/target.h"

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == MPT_LT_ALGO_BYTES, "as the record has it");

typedef struct lt_plan {
    mpt_gpu_gemm gemm; /* what it is for; its pointers only say what is there */
    mpt_lt_descriptors descriptors;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
} lt_plan;

enum { FAULT_TEXT = 320 };

struct mpt_lt {
    mpt_ctx *ctx;
    cublasLtHandle_t handle;
    lt_plan *plans;
    int n, cap;
    bool failed;
    char fault[FAULT_TEXT];
};

/* ---- the handle ---- */

mpt_status mpt_lt_create(mpt_ctx *ctx, mpt_lt **out) {
    mpt_lt *lt = mpt_alloc(ctx, sizeof *lt);
    *out = NULL;
    if (!lt)
        return mpt_fail_memory(ctx, sizeof *lt);
    *lt = (mpt_lt){.ctx = ctx};
    cublasStatus_t status = cublasLtCreate(&lt->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        mpt_free(ctx, lt);
        return MPT_FAIL(ctx, MPT_UNSUPPORTED, MPT_NOWHERE, "cuBLASLt does not start: %s",
                        cublasLtGetStatusString(status));
    }
    *out = lt;
    return MPT_OK;
}

void mpt_lt_destroy(mpt_lt *lt) {
    if (!lt)
        return;
    for (int i = 0; i < lt->n; i++)
        mpt_lt_descriptors_destroy(&lt->plans[i].descriptors);
    cublasLtDestroy(lt->handle);
    mpt_free(lt->ctx, lt->plans);
    mpt_free(lt->ctx, lt);
}

size_t mpt_lt_version(void) {
    return cublasLtGetVersion();
}

const char *mpt_lt_fault(const mpt_lt *lt) {
    return lt->failed ? lt->fault : NULL;
}

bool mpt_lt_choice_at(const mpt_lt *lt, int i, mpt_lt_choice *out) {
    if (i < 0 || i >= lt->n)
        return false;
    *out = (mpt_lt_choice){.gemm = lt->plans[i].gemm, .workspace = lt->plans[i].workspace};
    memcpy(out->algo, &lt->plans[i].algo, sizeof out->algo);
    return true;
}

/* ---- faults ---- */

/* "e4m3 times e5m2, 64x128x256: ..." */
static void fail(mpt_lt *lt, const mpt_gpu_gemm *g, const char *text) {
    if (lt->failed)
        return;
    lt->failed = true;
    snprintf(lt->fault, sizeof lt->fault, "cuBLASLt: %s times %s to %s, %lldx%lldx%lld: %s",
             mpt_dtype_name(g->a.as.format), mpt_dtype_name(g->b.as.format),
             mpt_dtype_name(g->d_format), (long long)g->rows, (long long)g->cols,
             (long long)g->k, text);
}

static bool is_ok(mpt_lt *lt, const mpt_gpu_gemm *g, cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS)
        fail(lt, g, cublasLtGetStatusString(status));
    return status == CUBLAS_STATUS_SUCCESS;
}

/* ---- plans ---- */

static bool same_side(const mpt_lt_operand *a, const mpt_lt_operand *b) {
    return a->format == b->format && a->scaling == b->scaling && a->across == b->across &&
           a->ld == b->ld;
}

static bool same_plan(const mpt_gpu_gemm *a, const mpt_gpu_gemm *b) {
    bool shape = a->rows == b->rows && a->cols == b->cols && a->k == b->k;
    bool bias = !a->bias == !b->bias && (!a->bias || a->bias_format == b->bias_format);
    return shape && bias && same_side(&a->a.as, &b->a.as) && same_side(&a->b.as, &b->b.as) &&
           a->d_format == b->d_format && !a->scalars == !b->scalars;
}

static lt_plan *find_plan(const mpt_lt *lt, const mpt_gpu_gemm *gemm) {
    for (int i = 0; i < lt->n; i++)
        if (same_plan(&lt->plans[i].gemm, gemm))
            return &lt->plans[i];
    return NULL;
}

/* All sums are reduced in FP32, never in the output's format. */
static cublasStatus_t limit(cublasLtMatmulPreference_t preference, size_t workspace) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, aligned = 16;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
            sizeof reductions);
    for (size_t i = 0; status == CUBLAS_STATUS_SUCCESS && i < MPT_COUNT(alignments); i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &aligned,
                                                      sizeof aligned);
    return status;
}

/* The library's first choice. */
static bool choose(mpt_lt *lt, lt_plan *plan, size_t workspace) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    const mpt_lt_descriptors *d = &plan->descriptors;
    int n = 0;
    if (!is_ok(lt, &plan->gemm, cublasLtMatmulPreferenceCreate(&preference)))
        return false;
    cublasStatus_t status = limit(preference, workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(lt->handle, d->matmul, d->a, d->b, d->d, d->d,
                                                preference, 1, &result, &n);
    cublasLtMatmulPreferenceDestroy(preference);
    if (!is_ok(lt, &plan->gemm, status))
        return false;
    if (n == 0) {
        fail(lt, &plan->gemm, "it has no algorithm");
        return false;
    }
    plan->algo = result.algo;
    plan->workspace = result.workspaceSize;
    return true;
}

static lt_plan *room(mpt_lt *lt) {
    if (lt->n < lt->cap)
        return &lt->plans[lt->n];
    int cap = lt->cap > 0 ? 2 * lt->cap : 16;
    lt_plan *grown = mpt_alloc(lt->ctx, mpt_size_mul((size_t)cap, sizeof *grown));
    if (!grown)
        return NULL;
    if (lt->n > 0)
        memcpy(grown, lt->plans, (size_t)lt->n * sizeof *grown);
    mpt_free(lt->ctx, lt->plans);
    lt->plans = grown;
    lt->cap = cap;
    return &lt->plans[lt->n];
}

static lt_plan *make_plan(mpt_lt *lt, const mpt_gpu *gpu, const mpt_gpu_gemm *gemm) {
    char why[MPT_LT_WHY];
    mpt_lt_query query = mpt_gemm_query(gemm, mpt_target_capability(gpu->target));
    lt_plan *plan = room(lt);
    if (!plan)
        fail(lt, gemm, "out of memory");
    else if (!mpt_lt_supported(&query, why))
        fail(lt, gemm, why);
    if (lt->failed)
        return NULL;
    *plan = (lt_plan){.gemm = *gemm};
    if (!is_ok(lt, gemm, mpt_lt_describe(gemm, &plan->descriptors)))
        return NULL;
    if (!is_ok(lt, gemm, mpt_lt_point(gemm, &plan->descriptors)) ||
        !choose(lt, plan, gpu->workspace_bytes)) {
        mpt_lt_descriptors_destroy(&plan->descriptors);
        return NULL;
    }
    lt->n++;
    return plan;
}

/* ---- the call ---- */

void mpt_gemm_run(const mpt_gpu *gpu, const mpt_gpu_gemm *g) {
    mpt_lt *lt = gpu->lt;
    if (lt->failed)
        return;
    lt_plan *plan = find_plan(lt, g);
    if (!plan)
        plan = make_plan(lt, gpu, g);
    if (!plan || !is_ok(lt, g, mpt_lt_point(g, &plan->descriptors)))
        return;
    const mpt_lt_descriptors *d = &plan->descriptors;
    const float *alpha = g->scalars ? g->scalars : &g->alpha;
    const float *beta = g->scalars ? g->scalars + 1 : &g->beta;
    is_ok(lt, g,
          cublasLtMatmul(lt->handle, d->matmul, alpha, g->b.data, d->a, g->a.data, d->b, beta,
                         g->d, d->d, g->d, d->d, &plan->algo, gpu->workspace,
                         gpu->workspace_bytes, (cudaStream_t)gpu->stream));
}
