/* CUDA's runtime library and cuBLASLt, as far as the backend calls them, without a GPU: every
 * call can be made to fail, and everything that was created is counted until it is given back.
 * Included by one source of a program that links neither library. */
#ifndef MPT_TESTS_FAKE_CUDA_H
#define MPT_TESTS_FAKE_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static struct {
    long left;               /* calls until one fails; -1: none does */
    long live;               /* objects and memory not given back */
    int n_failed;            /* calls that did */
    int n_matmuls;           /* products that ran */
    const char *who;         /* the call that failed */
    cudaError_t error;       /* that a failing call of the runtime library gives */
    cudaError_t count_error; /* that cudaGetDeviceCount gives; the next two are beside it */
    int n_devices, driver, major, minor;
    bool captured;
} fake;

static inline void fake_reset(long left) {
    memset(&fake, 0, sizeof fake);
    fake.left = left;
    fake.error = cudaErrorIllegalAddress;
    fake.n_devices = 1;
    fake.driver = 13000;
    fake.major = 9;
}

static inline bool fake_fails(const char *who) {
    if (fake.left < 0 || fake.left-- > 0)
        return false;
    fake.left = -1;
    fake.n_failed++;
    fake.who = who;
    return true;
}

#define FAKE_TRY()                                                                             \
    do {                                                                                       \
        if (fake_fails(__func__))                                                              \
            return fake.error;                                                                 \
    } while (0)
#define FAKE_LT()                                                                              \
    do {                                                                                       \
        if (fake_fails(__func__))                                                              \
            return CUBLAS_STATUS_ALLOC_FAILED;                                                 \
    } while (0)

/* An object is a byte of the heap, so that the sanitizer knows of each as well. */
static inline void *fake_object(void) {
    fake.live++;
    return malloc(1);
}

static inline void fake_return(void *object) {
    fake.live--;
    free(object);
}

/* ---- the runtime library ---- */

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorIllegalAddress     ? "an illegal memory access was encountered"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "another error";
}

cudaError_t cudaGetLastError(void) {
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n) {
    *n = fake.n_devices;
    return fake.count_error;
}

cudaError_t cudaDriverGetVersion(int *version) {
    FAKE_TRY();
    *version = fake.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    FAKE_TRY();
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    FAKE_TRY();
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    (void)device;
    FAKE_TRY();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "fake");
    p->major = fake.major;
    p->minor = fake.minor;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = (size_t)1 << 30;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    FAKE_TRY();
    *free_bytes = *total = (size_t)1 << 30;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    FAKE_TRY();
    *stream = fake_object();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    fake_return(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (void)stream;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    (void)bytes;
    FAKE_TRY();
    *memory = fake_object();
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    fake_return(memory);
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream) {
    (void)at, (void)value, (void)bytes, (void)stream;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)to, (void)from, (void)bytes, (void)kind, (void)stream;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)stream, (void)mode;
    FAKE_TRY();
    fake.captured = true;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    (void)stream;
    fake.captured = false;
    FAKE_TRY();
    *graph = fake_object();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph,
                                 unsigned long long flags) {
    (void)graph, (void)flags;
    FAKE_TRY();
    *made = fake_object();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    fake_return(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    (void)made, (void)stream;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    fake_return(made);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    FAKE_TRY();
    *event = fake_object();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)event, (void)stream;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    FAKE_TRY();
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    (void)from, (void)to;
    FAKE_TRY();
    *milliseconds = 2.0f;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    fake_return(event);
    return cudaSuccess;
}

/* ---- cuBLASLt ---- */

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed" : "another";
}

size_t cublasLtGetVersion(void) {
    return 130100;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    FAKE_LT();
    *handle = fake_object();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    fake_return(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t type) {
    (void)compute, (void)type;
    FAKE_LT();
    *out = fake_object();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t size) {
    (void)matmul, (void)which, (void)value, (void)size;
    FAKE_LT();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) {
    fake_return(matmul);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    (void)type, (void)rows, (void)cols, (void)ld;
    FAKE_LT();
    *out = fake_object();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    fake_return(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    FAKE_LT();
    *out = fake_object();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t size) {
    (void)preference, (void)which, (void)value, (void)size;
    FAKE_LT();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    fake_return(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int most,
                               cublasLtMatmulHeuristicResult_t *results, int *n) {
    (void)handle, (void)matmul, (void)a, (void)b, (void)c, (void)d, (void)preference;
    (void)most;
    FAKE_LT();
    memset(results, 0, sizeof *results);
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream) {
    (void)handle, (void)matmul, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout;
    (void)beta, (void)c, (void)c_layout, (void)d, (void)d_layout, (void)algo, (void)workspace;
    (void)bytes, (void)stream;
    FAKE_LT();
    fake.n_matmuls++;
    return CUBLAS_STATUS_SUCCESS;
}

#endif
