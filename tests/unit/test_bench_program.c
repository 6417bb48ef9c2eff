/* mpt_bench_program: what it prints, what it refuses, and that nothing is lost where memory is
 * refused. No time is asserted: shares, counts and rates only have to fit together. */
#include "mpt_test.h"

#include <jansson.h>
#include <math.h>

#include "allowance.h"
#include "mpt/tools.h"
#include "runtime/pipeline.h"
#include "small_net.h"
#include "tools/op_class.h"
#include "writers.h"

static small_net net = {.width = 32, .hidden = 64, .n_blocks = 2, .n_readers = 2};

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} fixture;

/* Five steps; from the third on another precision, so that two executors run. */
static mpt_status fill(mpt_recipe *recipe) {
    static const char *const sets[][2] = {
        {"train.steps", "5"},     {"train.batch", "4"},     {"train.micro_batch", "2"},
        {"train.sequence", "16"}, {"train.lr", "constant"}, {"train.lr.peak", "1e-2"}};
    for (size_t i = 0; i < MPT_COUNT(sets); i++)
        MPT_TRY(mpt_recipe_set(recipe, sets[i][0], sets[i][1]));
    MPT_TRY(mpt_recipe_set_model(recipe, "small", "2x32", small_build, &net));
    MPT_TRY(mpt_recipe_add_rule(recipe, MPT_RULE(.selector = "linear", .use = "mxfp8")));
    MPT_TRY(mpt_recipe_add_phase(recipe, "low", NULL));
    MPT_TRY(mpt_recipe_add_phase(recipe, "late", "3"));
    return mpt_recipe_add_rule(recipe,
                               MPT_RULE(.phase = "late", .selector = "linear", .use = "bf16"));
}

static mpt_status compile(mpt_ctx *ctx, fixture *f) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.model = MPT_MODEL_FULL;
    options.n_threads = 1;
    *f = (fixture){.ctx = ctx};
    MPT_TRY(mpt_recipe_create(ctx, "small", &f->recipe));
    MPT_TRY(fill(f->recipe));
    return mpt_compile(f->recipe, &options, &f->program);
}

static void end(fixture *f) {
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
}

static fixture begin(void) {
    fixture f;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_mpt_ok(ctx, compile(ctx, &f));
    return f;
}

static mpt_bench_program_options quick(bool json) {
    mpt_bench_program_options o = MPT_BENCH_PROGRAM_OPTIONS_INIT;
    o.json = json;
    o.peak_size = 32;
    o.steps = 3;
    return o;
}

static json_t *bench_json(const fixture *f) {
    mpt_bench_program_options o = quick(true);
    mpt_str text;
    mpt_str_init(&text, f->ctx);
    assert_mpt_ok(f->ctx, mpt_bench_program(f->program, &o, keep, &text));
    json_t *json = json_loads(text.data, 0, NULL);
    assert_non_null(json);
    mpt_str_deinit(&text);
    return json;
}

static double number(const json_t *object, const char *name) {
    const json_t *member = json_object_get(object, name);
    if (!json_is_number(member))
        fail_msg("%s is no number", name);
    return json_number_value(member);
}

static double sum_of(const json_t *list, const char *name) {
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += number(json_array_get(list, i), name);
    return sum;
}

static void test_bench_program_when_json_then_members_fit_together(void **state) {
    (void)state;
    fixture f = begin();
    json_t *json = bench_json(&f);
    const json_t *step = json_object_get(json, "step_ms");
    assert_true(number(step, "min") > 0);
    assert_true(number(step, "min") <= number(step, "median"));
    double tokens = number(json, "tokens_per_s") * number(step, "median") * 1e-3;
    assert_true(fabs(tokens - 64) < 1e-6);
    assert_true(number(json, "gemm_gflops") >= number(json, "step_gflops"));
    assert_true(number(json, "step_gflops") > 0);
    assert_true(number(json, "peak_gflops") > 0);
    assert_int_equal((int)number(json, "steps"), 3);
    assert_int_equal((int)number(json, "skipped"), 0);
    assert_int_equal((int)number(json, "threads"), 1);
    assert_true(number(json, "planned_bytes") > 1000);
    assert_true(json_object_get(json, "peak_bytes") != NULL);
    json_decref(json);
    end(&f);
    mpt_ctx_destroy(f.ctx);
}

static void test_bench_program_when_json_then_shares_sum_to_one(void **state) {
    (void)state;
    fixture f = begin();
    json_t *json = bench_json(&f);
    const json_t *classes = json_object_get(json, "ops");
    assert_true(fabs(sum_of(classes, "share") - 1) < 1e-6);
    for (size_t i = 1; i < json_array_size(classes); i++)
        assert_true(number(json_array_get(classes, i), "share") <=
                    number(json_array_get(classes, i - 1), "share"));
    assert_true(sum_of(json_object_get(json, "single_ops"), "share") <= 1);
    json_decref(json);
    end(&f);
    mpt_ctx_destroy(f.ctx);
}

/* 2 blocks of 3 linears and a head, 2 micro-batches, whichever phase had the fastest step. */
static void test_bench_program_when_phases_change_then_ops_of_one_step_are_told(void **state) {
    (void)state;
    fixture f = begin();
    json_t *json = bench_json(&f);
    const json_t *ops = json_object_get(json, "single_ops");
    double linears = 0;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        const char *name = json_string_value(json_object_get(op, "op"));
        if (strcmp(name, "linear") == 0) {
            linears = number(op, "calls");
            assert_string_equal(json_string_value(json_object_get(op, "class")), "gemm");
        }
    }
    assert_true(fabs(linears - 14) < 1e-9);
    json_decref(json);
    end(&f);
    mpt_ctx_destroy(f.ctx);
}

static void test_bench_program_when_text_then_classes_stand_in_lines(void **state) {
    (void)state;
    fixture f = begin();
    mpt_bench_program_options o = quick(false);
    mpt_str text;
    mpt_str_init(&text, f.ctx);
    assert_mpt_ok(f.ctx, mpt_bench_program(f.program, &o, keep, &text));
    static const char *const wanted[] = {
        "small: small 2x32", "3 steps of 4 x 16 tokens after 2 of warm-up",
        "cpu, 1 thread\n",   "\nstep ",
        "\ngemm ",           "\n  gemm ",
        "\n  norm ",         "\n  optimizer "};
    for (size_t i = 0; i < MPT_COUNT(wanted); i++)
        if (!strstr(text.data, wanted[i]))
            fail_msg("no '%s' in:\n%s", wanted[i], text.data);
    mpt_str_deinit(&text);
    end(&f);
    mpt_ctx_destroy(f.ctx);
}

static void test_bench_program_when_writer_refuses_then_io_error(void **state) {
    (void)state;
    fixture f = begin();
    mpt_bench_program_options o = quick(true);
    o.steps = 1;
    assert_int_equal(mpt_bench_program(f.program, &o, refuse, NULL), MPT_IO);
    end(&f);
    mpt_ctx_destroy(f.ctx);
}

/* Every allocation fails once; nothing leaks, and the way out is said. */
static void test_bench_program_when_memory_is_refused_then_nothing_is_lost(void **state) {
    (void)state;
    mpt_bench_program_options o = quick(true);
    o.steps = 1;
    allowance a;
    mpt_ctx *ctx = allowance_context(&a, -1);
    fixture f;
    assert_mpt_ok(ctx, compile(ctx, &f));
    long live = a.live, n = 0;
    for (mpt_status status = MPT_OUT_OF_MEMORY; status != MPT_OK; n++) {
        mpt_str text;
        mpt_str_init(&text, ctx);
        a.left = n;
        status = mpt_bench_program(f.program, &o, keep, &text);
        if (status != MPT_OK && status != MPT_OUT_OF_MEMORY && !text.failed)
            fail_msg("after %ld allocations: %s", n, mpt_ctx_error(ctx)->message);
        a.left = -1;
        mpt_str_deinit(&text);
        assert_int_equal(a.live, live);
    }
    assert_true(n > 10);
    end(&f);
    mpt_ctx_destroy(ctx);
    assert_int_equal(a.live, 0);
}

static void test_op_class_when_any_op_then_it_has_a_class(void **state) {
    (void)state;
    for (int op = 0; op < MPT_OP_COUNT; op++)
        if (mpt_op_class_of((mpt_op)op) == MPT_OP_CLASS_OTHER)
            fail_msg("%s has no row in runtime/tools/op_class.c", mpt_op_get((mpt_op)op)->name);
}

static void test_op_class_when_gradient_then_class_of_its_op(void **state) {
    (void)state;
    static const struct {
        mpt_op op;
        mpt_op_class class;
    } wanted[] = {{MPT_OP_linear, MPT_OP_CLASS_GEMM},
                  {MPT_OP_linear_wgrad, MPT_OP_CLASS_GEMM},
                  {MPT_OP_attention_grad, MPT_OP_CLASS_ATTENTION},
                  {MPT_OP_rmsnorm_grad, MPT_OP_CLASS_NORM},
                  {MPT_OP_bias_grad, MPT_OP_CLASS_ELEMENTWISE},
                  {MPT_OP_quantize, MPT_OP_CLASS_QUANTIZE},
                  {MPT_OP_scale_update, MPT_OP_CLASS_QUANTIZE},
                  {MPT_OP_cross_entropy_grad, MPT_OP_CLASS_LOSS},
                  {MPT_OP_adamw, MPT_OP_CLASS_OPTIMIZER}};
    for (size_t i = 0; i < MPT_COUNT(wanted); i++)
        assert_int_equal(mpt_op_class_of(wanted[i].op), wanted[i].class);
    assert_string_equal(mpt_op_class_name(MPT_OP_CLASS_ELEMENTWISE), "elementwise");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bench_program_when_json_then_members_fit_together),
    cmocka_unit_test(test_bench_program_when_json_then_shares_sum_to_one),
    cmocka_unit_test(test_bench_program_when_phases_change_then_ops_of_one_step_are_told),
    cmocka_unit_test(test_bench_program_when_text_then_classes_stand_in_lines),
    cmocka_unit_test(test_bench_program_when_writer_refuses_then_io_error),
    cmocka_unit_test(test_bench_program_when_memory_is_refused_then_nothing_is_lost),
    cmocka_unit_test(test_op_class_when_any_op_then_it_has_a_class),
    cmocka_unit_test(test_op_class_when_gradient_then_class_of_its_op),
};

MPT_TEST_MAIN(cases)
