/* The host code of the CUDA backend where CUDA refuses: every call of its libraries fails once,
 * and every allocation of the host. Each has to be told by one text, and all that was made has
 * to be given back. Needs the toolkit's headers, but none of its libraries. */
#include "allowance.h"
#include "fake_cuda.h"

#include "kernels/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/lt.h"
#include "kernels/module.h"

const mpt_kernel mpt_kernels_cuda[] = {{0, NULL, NULL, NULL, NULL}}; /* only a GPU runs them */

const mpt_module *mpt_cuda_module(void);

enum { KINDS = 20 }; /* of products: more than a table of plans begins with */

/* Pointers are numbers that are only carried. */
static mpt_gpu_gemm product(int kind) {
    static const char bytes[4] = {0};
    mpt_gpu_gemm g = {.rows = 16, .cols = 48, .k = 256, .d_format = MPT_DTYPE_BF16, .alpha = 1};
    g.rows *= kind + 1;
    g.a = (mpt_gemm_side){&bytes[0], &bytes[1], {MPT_DTYPE_E4M3, MPT_LT_TENSOR, false, 256}};
    g.b = (mpt_gemm_side){&bytes[2], &bytes[3], {MPT_DTYPE_E4M3, MPT_LT_TENSOR, false, 256}};
    return g;
}

static void run_products(const mpt_gpu *gpu) {
    for (int kind = 0; kind < KINDS; kind++) {
        mpt_gpu_gemm g = product(kind);
        mpt_gemm_run(gpu, &g);
    }
}

static bool run_recorded(const mpt_device_ops *ops, mpt_gpu *gpu) {
    if (!ops->record(gpu))
        return false;
    run_products(gpu);
    void *recording = ops->recorded(gpu);
    bool ran = recording && ops->replay(gpu, recording) && ops->wait(gpu);
    ops->forget(gpu, recording);
    return ran;
}

static bool run_marked(const mpt_device_ops *ops, mpt_gpu *gpu) {
    double seconds = -1;
    void *from = ops->mark_create(gpu), *to = from ? ops->mark_create(gpu) : NULL;
    bool marked = to && ops->mark(gpu, from) && ops->mark(gpu, to) &&
                  ops->between(gpu, from, to, &seconds);
    if (to)
        assert_true(marked ? seconds == (double)2e-3f || seconds > 1.9e-3 : seconds <= 0);
    ops->mark_destroy(gpu, from);
    ops->mark_destroy(gpu, to);
    return marked;
}

/* What a run asks of a device, to the first refusal. */
static bool use(const mpt_device_ops *ops, mpt_ctx *ctx, mpt_gpu *gpu) {
    char host[4] = {0};
    void *memory = NULL;
    bool all = ops->open(ctx, gpu) && (memory = ops->alloc(gpu, 4)) &&
               ops->zero(gpu, memory, 4) && ops->write(gpu, memory, host, 4);
    if (all) {
        run_products(gpu);
        all = ops->wait(gpu) && run_recorded(ops, gpu) && run_marked(ops, gpu) &&
              ops->read(gpu, host, memory, 4);
    }
    if (memory)
        ops->free(gpu, memory);
    ops->close(gpu);
    return all;
}

/* A refused allocation is none of the device's failures: the caller says how much there is. */
static bool is_told(const mpt_gpu *gpu, cudaError_t error) {
    bool memory = error == cudaErrorMemoryAllocation && strcmp(fake.who, "cudaMalloc") == 0;
    return gpu->error || memory;
}

static void sweep_calls(cudaError_t error) {
    mpt_ctx *ctx = mpt_test_ctx();
    long n = 0;
    for (bool all = false; !all; n++) {
        mpt_gpu gpu = {0};
        fake_reset(n);
        fake.error = error;
        all = use(mpt_backend_cuda.device, ctx, &gpu) && !fake.n_failed;
        if (!all && !is_told(&gpu, error))
            fail_msg("call %ld (%s) failed, and nothing says so", n, fake.who);
        if (fake.live != 0 || fake.captured)
            fail_msg("call %ld (%s) failed, and %ld objects were not given back", n, fake.who,
                     fake.live);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    }
    assert_true(n > 100);
    assert_int_equal(fake.n_matmuls, 2 * KINDS);
    mpt_ctx_destroy(ctx);
}

static void test_device_when_any_call_fails_then_told_and_all_is_given_back(void **state) {
    (void)state;
    sweep_calls(cudaErrorIllegalAddress);
    sweep_calls(cudaErrorMemoryAllocation);
}

static void
test_device_when_any_allocation_fails_then_told_and_all_is_given_back(void **state) {
    (void)state;
    allowance a;
    mpt_ctx *ctx = allowance_context(&a, -1);
    long live = a.live, n = 0;
    for (bool all = false; !all; n++) {
        mpt_gpu gpu = {0};
        fake_reset(-1);
        a.left = n;
        all = use(mpt_backend_cuda.device, ctx, &gpu);
        a.left = -1;
        if (!all)
            assert_non_null(
                strstr(gpu.error, n == 0 ? "the host's memory is full" : "out of memory"));
        assert_int_equal(fake.live, 0);
        assert_int_equal(a.live, live);
    }
    assert_int_equal(n, 4); /* the library's handle, and plans for 16 kinds and for 32 */
    mpt_ctx_destroy(ctx);
}

static void test_product_when_the_library_fails_then_the_text_names_it(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_gpu gpu = {0};
    fake_reset(-1);
    assert_true(mpt_backend_cuda.device->open(ctx, &gpu));
    fake.left = 0;
    run_products(&gpu);
    assert_int_equal(fake.n_matmuls, 0); /* none runs after a fault */
    assert_false(mpt_backend_cuda.device->wait(&gpu));
    assert_string_equal(gpu.error, "cuBLASLt: e4m3 times e4m3 to bf16, 16x48x256: the resource "
                                   "allocation failed");
    mpt_backend_cuda.device->close(&gpu);
    assert_int_equal(fake.live, 0);
    mpt_ctx_destroy(ctx);
}

/* ---- the module ---- */

static void test_probe_when_the_driver_refuses_then_one_sentence_says_why(void **state) {
    (void)state;
    static const struct {
        cudaError_t error;
        int n, driver, major;
        const char *why;
    } rows[] = {{cudaErrorNoDevice, 0, 13000, 9, "there is no GPU"},
                {cudaSuccess, 0, 13000, 9, "there is no GPU"},
                {cudaErrorInsufficientDriver, 0, 12040, 9,
                 "the NVIDIA driver is for CUDA 12.4, and libmpt_cuda.so needs one for 13.0"},
                {cudaErrorInsufficientDriver, 0, 0, 9, "the NVIDIA driver says: another error"},
                {cudaErrorUnknown, 1, 13000, 9, "the NVIDIA driver says: another error"},
                {cudaSuccess, 1, 13000, 7,
                 "the GPU (fake) has compute capability 7.0, and mpt needs 8.x, 9.0 or 10.0"}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_module_device device;
        char why[MPT_MODULE_WHY] = "";
        fake_reset(-1);
        fake.count_error = rows[i].error;
        fake.n_devices = rows[i].n;
        fake.driver = rows[i].driver;
        fake.major = rows[i].major;
        assert_false(mpt_cuda_module()->probe(&device, why));
        assert_string_equal(why, rows[i].why);
    }
}

static void test_probe_when_any_call_fails_then_one_sentence_says_why(void **state) {
    (void)state;
    mpt_module_device device;
    char why[MPT_MODULE_WHY] = "";
    fake_reset(0);
    assert_false(mpt_cuda_module()->probe(&device, why));
    assert_string_equal(why,
                        "the NVIDIA driver says: an illegal memory access was encountered");
    for (long n = 0; n < 2; n++) { /* of those that ask for versions */
        fake_reset(n);
        fake.count_error = cudaErrorInsufficientDriver;
        assert_false(mpt_cuda_module()->probe(&device, why));
        assert_string_equal(why, "the NVIDIA driver says: another error");
    }
    fake_reset(-1);
    assert_true(mpt_cuda_module()->probe(&device, why));
    assert_string_equal(device.name, "fake");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_device_when_any_call_fails_then_told_and_all_is_given_back),
    cmocka_unit_test(test_device_when_any_allocation_fails_then_told_and_all_is_given_back),
    cmocka_unit_test(test_product_when_the_library_fails_then_the_text_names_it),
    cmocka_unit_test(test_probe_when_the_driver_refuses_then_one_sentence_says_why),
    cmocka_unit_test(test_probe_when_any_call_fails_then_one_sentence_says_why),
};

MPT_TEST_MAIN(cases)
