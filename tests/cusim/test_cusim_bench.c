/* mpt_bench_program on a device: it times kernels and not their launches, leaves the timed
 * steps as they are in training, and tells of the device's memory. */
#include "toy_device.h"

#include <jansson.h>
#include <time.h>

#include "mpt/tools.h"
#include "runtime/pipeline.h"
#include "writers.h"

/* ---- a device on which one op is slow, and that counts ---- */

static struct {
    size_t bytes;        /* that were taken */
    int replays, n_slow; /* recordings run; kernels that were slow */
    int marks;           /* that live */
    long left;           /* marks until one is refused */
    void (*run)(const mpt_kernel_args *args);
} seen;

enum { SLOW_MS = 3 };

static void be_slow(const mpt_kernel_args *args) {
    struct timespec t = {.tv_nsec = SLOW_MS * 1000000};
    (void)args;
    nanosleep(&t, NULL);
    seen.n_slow++;
}

static void run_slow(const mpt_kernel_args *args) {
    seen.run(args);
    cusim_launch_call(args, be_slow);
}

static void *alloc_counting(struct mpt_gpu *gpu, size_t bytes) {
    seen.bytes += bytes;
    return mpt_backend_cuda.device->alloc(gpu, bytes);
}

static bool replay_counting(struct mpt_gpu *gpu, void *recording) {
    seen.replays++;
    return mpt_backend_cuda.device->replay(gpu, recording);
}

static void *mark_create_some(struct mpt_gpu *gpu) {
    void *mark = seen.left-- == 0 ? NULL : mpt_backend_cuda.device->mark_create(gpu);
    seen.marks += mark != NULL;
    return mark;
}

static void mark_destroy_counting(struct mpt_gpu *gpu, void *mark) {
    seen.marks--;
    mpt_backend_cuda.device->mark_destroy(gpu, mark);
}

static void make(toy_device *toy, mpt_op slow) {
    toy_make(toy);
    toy->ops.alloc = alloc_counting;
    toy->ops.replay = replay_counting;
    toy->ops.mark_create = mark_create_some;
    toy->ops.mark_destroy = mark_destroy_counting;
    memset(&seen, 0, sizeof seen);
    seen.left = -1;
    for (mpt_kernel *row = toy->rows; row->run; row++)
        if (row->op == slow) {
            seen.run = row->run;
            row->run = run_slow;
        }
}

/* ---- a program on it ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} fixture;

static fixture begin(const mpt_backend *backend) {
    static const char text[] =
        "return recipe { name = 'b', model = require 'models.gpt2' { n_layer = 1, n_embd = 16, "
        "n_head = 2, n_positions = 16 }, allow = { 'no-warmup' }, precision = { base = bf16 }, "
        "train = { steps = 20, batch = 2, micro_batch = 1, sequence = 8, lr = constant { peak "
        "= "
        "1e-2 } } }";
    fixture f = {.ctx = mpt_test_ctx()};
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    f.ctx->device_backend = backend;
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    options.device = MPT_DEVICE_CUDA;
    options.target = MPT_TARGET_SM90; /* the simulator's */
    assert_mpt_ok(f.ctx, mpt_recipe_load_string(f.ctx, MPT_SOURCE_DIR "/recipes/b.lua", text,
                                                strlen(text), NULL, &f.recipe));
    assert_mpt_ok(f.ctx, mpt_compile(f.recipe, &options, &f.program));
    return f;
}

static void end(fixture *f) {
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static mpt_status bench(const fixture *f, bool json, mpt_str *out) {
    mpt_bench_program_options o = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    o.json = json;
    o.steps = 2;
    return mpt_bench_program(f->program, &o, keep, out);
}

static json_t *bench_json(const fixture *f) {
    mpt_str text;
    mpt_str_init(&text, f->ctx);
    assert_mpt_ok(f->ctx, bench(f, true, &text));
    json_t *json = json_loads(text.data, 0, NULL);
    assert_non_null(json);
    mpt_str_deinit(&text);
    return json;
}

static const json_t *op_of(const json_t *json, const char *name) {
    const json_t *ops = json_object_get(json, "single_ops");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        if (strcmp(json_string_value(json_object_get(op, "op")), name) == 0)
            return op;
    }
    fail_msg("nothing is said of %s", name);
    return NULL;
}

static double number(const json_t *object, const char *name) {
    assert_true(json_is_number(json_object_get(object, name)));
    return json_number_value(json_object_get(object, name));
}

/* ---- cases ---- */

/* The kernel sleeps when it runs, which is long after it was launched. Another op's time has
 * none of it: gelu_grad comes next to it in no order. */
static void test_bench_when_a_kernel_is_slow_then_its_op_has_the_time(void **state) {
    (void)state;
    toy_device toy;
    make(&toy, MPT_OP_gelu);
    fixture f = begin(&toy.backend);
    json_t *json = bench_json(&f);
    const json_t *gelu = op_of(json, "gelu");
    assert_int_equal((int)number(gelu, "calls"), 2); /* one block, two micro-batches */
    assert_true(number(gelu, "ms") >= 2 * SLOW_MS);
    const json_t *ops = json_object_get(json, "single_ops");
    double others = 0;
    for (size_t i = 0; i < json_array_size(ops); i++)
        others += json_array_get(ops, i) == gelu ? 0 : number(json_array_get(ops, i), "ms");
    double classes = 0;
    ops = json_object_get(json, "ops");
    for (size_t i = 0; i < json_array_size(ops); i++)
        classes += number(json_array_get(ops, i), "ms");
    assert_true(classes >= number(gelu, "ms") + others - 1e-6);
    assert_int_equal(seen.n_slow, 2 * (2 + 2 + 3)); /* of warm-up, timed, marked */
    assert_int_equal(seen.marks, 0);
    json_decref(json);
    end(&f);
}

/* Whoever looks on has ops launched one by one, and times that. */
static void test_bench_when_steps_are_timed_then_they_are_replayed(void **state) {
    (void)state;
    toy_device toy;
    make(&toy, MPT_OP_COUNT);
    fixture f = begin(&toy.backend);
    json_t *json = bench_json(&f);
    assert_true(seen.replays >= 2 * 2);
    json_decref(json);
    end(&f);
}

static void test_bench_when_on_a_device_then_its_memory_is_told(void **state) {
    (void)state;
    toy_device toy;
    mpt_str text;
    make(&toy, MPT_OP_COUNT);
    fixture f = begin(&toy.backend);
    json_t *json = bench_json(&f);
    size_t workspace = 4096; /* the simulator's, of products */
    assert_int_equal((size_t)number(json, "peak_bytes"), seen.bytes + workspace);
    json_decref(json);
    mpt_str_init(&text, f.ctx);
    assert_mpt_ok(f.ctx, bench(&f, false, &text));
    static const char *const wanted[] = {
        " MB taken on the device, ", "best GEMM seen: ", "whose ops were launched one by one"};
    for (size_t i = 0; i < MPT_COUNT(wanted); i++)
        if (!strstr(text.data, wanted[i]))
            fail_msg("no '%s' in:\n%s", wanted[i], text.data);
    mpt_str_deinit(&text);
    end(&f);
}

static void test_bench_when_the_device_has_no_mark_then_refused_and_given_back(void **state) {
    (void)state;
    for (long left = 0; left < 3; left++) {
        toy_device toy;
        mpt_str text;
        make(&toy, MPT_OP_COUNT);
        seen.left = left;
        fixture f = begin(&toy.backend);
        mpt_str_init(&text, f.ctx);
        assert_int_equal(bench(&f, true, &text), MPT_OUT_OF_MEMORY);
        assert_int_equal(seen.marks, 0);
        mpt_str_deinit(&text);
        end(&f);
    }
}

static void test_bench_when_peak_size_is_given_then_refused_on_a_device(void **state) {
    (void)state;
    toy_device toy;
    mpt_bench_program_options o = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    make(&toy, MPT_OP_COUNT);
    fixture f = begin(&toy.backend);
    o.peak_size = 32;
    assert_int_equal(mpt_bench_program(f.program, &o, refuse, NULL), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(f.ctx)->message, "options.peak_size is 32"));
    end(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bench_when_a_kernel_is_slow_then_its_op_has_the_time),
    cmocka_unit_test(test_bench_when_steps_are_timed_then_they_are_replayed),
    cmocka_unit_test(test_bench_when_on_a_device_then_its_memory_is_told),
    cmocka_unit_test(test_bench_when_the_device_has_no_mark_then_refused_and_given_back),
    cmocka_unit_test(test_bench_when_peak_size_is_given_then_refused_on_a_device),
};

MPT_TEST_MAIN(cases)
