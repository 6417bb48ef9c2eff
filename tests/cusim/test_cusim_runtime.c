/* The simulated device: memory, stream, recordings, and that it is as strict as a GPU. */
#include "mpt_test.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/sim/runtime_sim.h"

enum { N = 64 };

typedef struct fixture {
    mpt_gpu gpu;
    float *x, *y; /* on the device */
} fixture;

static void setup(fixture *f) {
    *f = (fixture){.x = NULL};
    assert_true(mpt_gpu_open(&f->gpu));
    f->x = mpt_gpu_alloc(&f->gpu, N * sizeof(float));
    f->y = mpt_gpu_alloc(&f->gpu, N * sizeof(float));
    assert_non_null(f->x);
    assert_non_null(f->y);
}

static void teardown(fixture *f) {
    mpt_gpu_free(&f->gpu, f->x);
    mpt_gpu_free(&f->gpu, f->y);
    mpt_gpu_close(&f->gpu);
}

static float first_of(fixture *f, const float *at) {
    float value;
    assert_true(mpt_gpu_read(&f->gpu, &value, at, sizeof value));
    return value;
}

/* y = y + x, as a kernel of the device. */
static void add(const mpt_kernel_args *args) {
    const float *x = args->in[0].data;
    float *y = args->out[0].data;
    for (int i = 0; i < N; i++)
        y[i] += x[i];
}

static void launch_add(fixture *f) {
    static const mpt_node node = {.op = MPT_OP_add, .n_in = 1, .n_out = 1};
    mpt_tensor in = {.data = f->x}, out = {.data = f->y};
    mpt_kernel_args args = {.node = &node, .in = &in, .out = &out, .gpu = &f->gpu};
    cusim_launch_call(&args, add);
}

static void write_first(fixture *f, float *to, float value) {
    float all[N] = {value};
    assert_true(mpt_gpu_write(&f->gpu, to, all, sizeof all));
}

static void test_write_when_the_source_changes_later_then_what_it_was(void **state) {
    (void)state;
    fixture f;
    float value = 1;
    setup(&f);
    assert_true(mpt_gpu_write(&f.gpu, f.x, &value, sizeof value));
    value = 2;
    assert_true(first_of(&f, f.x) == 1);
    teardown(&f);
}

static void test_alloc_when_not_written_then_nan(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    assert_true(isnan(first_of(&f, f.x)));
    assert_true(mpt_gpu_zero(&f.gpu, f.x, N * sizeof(float)));
    assert_true(first_of(&f, f.x) == 0);
    teardown(&f);
}

static void test_alloc_when_more_than_there_is_then_null_and_no_fault(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    assert_null(mpt_gpu_alloc(&f.gpu, f.gpu.memory_bytes));
    assert_null(mpt_gpu_alloc(&f.gpu, SIZE_MAX));
    assert_null(f.gpu.error);
    teardown(&f);
}

static void test_replay_when_memory_changed_then_on_what_is_there_now(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    write_first(&f, f.x, 1);
    write_first(&f, f.y, 10);
    assert_true(mpt_gpu_record(&f.gpu));
    launch_add(&f);
    void *recording = mpt_gpu_recorded(&f.gpu);
    assert_non_null(recording);
    assert_true(first_of(&f, f.y) == 10); /* recorded, not run */
    assert_true(mpt_gpu_replay(&f.gpu, recording));
    write_first(&f, f.x, 5);
    assert_true(mpt_gpu_replay(&f.gpu, recording));
    assert_true(first_of(&f, f.y) == 16);
    mpt_gpu_forget(&f.gpu, recording);
    teardown(&f);
}

static void test_record_when_something_is_read_then_the_device_has_failed(void **state) {
    (void)state;
    fixture f;
    float value;
    setup(&f);
    assert_true(mpt_gpu_record(&f.gpu));
    assert_false(mpt_gpu_read(&f.gpu, &value, f.x, sizeof value));
    assert_string_equal(f.gpu.error, "the stream is waited for while it is recorded");
    mpt_gpu_forget(&f.gpu, mpt_gpu_recorded(&f.gpu));
    assert_false(mpt_gpu_write(&f.gpu, f.x, &value, sizeof value)); /* it stays so */
    teardown(&f);
}

/* In a process of its own, which is to end by a signal: a read of the device's memory. */
static bool dies(const volatile float *at) {
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would make a report of it */
        _exit(*at == 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

static void test_host_when_it_reads_the_devices_memory_then_dies(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    write_first(&f, f.x, 1);
    assert_true(dies(f.x));
    assert_true(mpt_gpu_wait(&f.gpu)); /* open while the write runs, and closed again */
    assert_true(dies(f.x));
    teardown(&f);
}

/* ---- marks ---- */

/* A kernel of the device that takes two milliseconds. */
static void take_time(const mpt_kernel_args *args) {
    struct timespec two = {.tv_nsec = 2000000};
    (void)args;
    nanosleep(&two, NULL);
}

static void launch(fixture *f, void (*kernel)(const mpt_kernel_args *args)) {
    static const mpt_node node = {.op = MPT_OP_add};
    mpt_kernel_args args = {.node = &node, .gpu = &f->gpu};
    cusim_launch_call(&args, kernel);
}

/* What the host does between two marks does not count, and what the stream does, does. */
static void test_marks_when_kernels_run_between_then_their_time(void **state) {
    (void)state;
    fixture f;
    double kernel, nothing;
    setup(&f);
    void *marks[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(marks[i] = mpt_gpu_mark_create(&f.gpu));
    for (int again = 0; again < 2; again++) {
        assert_true(mpt_gpu_mark(&f.gpu, marks[0]));
        launch(&f, take_time);
        assert_true(mpt_gpu_mark(&f.gpu, marks[1]));
        take_time(NULL);
        assert_true(mpt_gpu_mark(&f.gpu, marks[2]));
        assert_true(mpt_gpu_between(&f.gpu, marks[0], marks[1], &kernel));
        assert_true(mpt_gpu_between(&f.gpu, marks[1], marks[2], &nothing));
        assert_true(kernel >= 2e-3);
        assert_true(nothing < 2e-3);
    }
    for (int i = 0; i < 3; i++)
        mpt_gpu_mark_destroy(&f.gpu, marks[i]);
    teardown(&f);
}

static void test_marks_when_not_placed_or_recorded_then_the_device_fails(void **state) {
    (void)state;
    for (int recorded = 0; recorded < 2; recorded++) {
        fixture f;
        double seconds = -1;
        setup(&f);
        void *mark = mpt_gpu_mark_create(&f.gpu);
        if (recorded) {
            assert_true(mpt_gpu_record(&f.gpu));
            assert_false(mpt_gpu_mark(&f.gpu, mark));
            mpt_gpu_forget(&f.gpu, mpt_gpu_recorded(&f.gpu));
        }
        assert_false(mpt_gpu_between(&f.gpu, mark, mark, &seconds));
        assert_true(seconds == 0);
        assert_non_null(strstr(f.gpu.error, recorded ? "while the stream is recorded"
                                                     : "that was not placed"));
        assert_null(mpt_gpu_mark_create(&f.gpu));
        mpt_gpu_mark_destroy(&f.gpu, mark);
        teardown(&f);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_marks_when_kernels_run_between_then_their_time),
    cmocka_unit_test(test_marks_when_not_placed_or_recorded_then_the_device_fails),
    cmocka_unit_test(test_write_when_the_source_changes_later_then_what_it_was),
    cmocka_unit_test(test_alloc_when_not_written_then_nan),
    cmocka_unit_test(test_alloc_when_more_than_there_is_then_null_and_no_fault),
    cmocka_unit_test(test_replay_when_memory_changed_then_on_what_is_there_now),
    cmocka_unit_test(test_record_when_something_is_read_then_the_device_has_failed),
    cmocka_unit_test(test_host_when_it_reads_the_devices_memory_then_dies),
};

MPT_TEST_MAIN(cases)
