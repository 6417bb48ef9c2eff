/* The public calls on tensors: their quantizers are read as in a recipe, every allocation may
 * fail once without a loss, and the bench measures every line. */
#include "tools_fixture.h"

#include <jansson.h>

#include "allowance.h"
#include "writers.h"

typedef mpt_status (*public_call)(mpt_ctx *ctx, const folder *f);

/* Runs a call with ever more memory until it passes: before, it must say that memory is short,
 * and leave nothing behind. Gives how often it failed. */
static long sweep(public_call call, const folder *f) {
    for (long n = 0;; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        a.left = n;
        mpt_status status = call(ctx, f);
        if (status != MPT_OK && status != MPT_OUT_OF_MEMORY)
            fail_msg("after %ld allocations: %s", n, mpt_ctx_error(ctx)->message);
        const mpt_error *error = mpt_ctx_error(ctx); /* of a writer's memory: MPT_IO */
        if (status != MPT_OK && error->code == MPT_OUT_OF_MEMORY &&
            (!strstr(error->message, "; free memory, or ") || strstr(error->message, "batch")))
            fail_msg("this is no way out here: %s", error->message);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (status == MPT_OK)
            return n;
    }
}

static mpt_status call_quantize(mpt_ctx *ctx, const folder *f) {
    char out[96];
    mpt_quantize_options o = MPT_QUANTIZE_OPTIONS_INIT;
    snprintf(out, sizeof out, "%s/out.safetensors", f->path);
    o.n_threads = 1;
    mpt_status status = mpt_quantize_file(ctx, "nvfp4 { hadamard = hadamard { size = 16 } }",
                                          f->file, out, &o, NULL);
    assert_int_equal(access(out, F_OK) == 0, status == MPT_OK);
    return status;
}

static mpt_status call_probe(mpt_ctx *ctx, const folder *f) {
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    mpt_str text;
    o.formats = "nvfp4 { block = {16, 16} }, e4m3";
    o.n_threads = 1;
    mpt_str_init(&text, ctx);
    mpt_status status = mpt_probe_file(ctx, f->file, &o, keep, &text);
    if (status == MPT_IO && text.failed) /* the writer's own memory */
        status = MPT_OUT_OF_MEMORY;
    mpt_str_deinit(&text);
    return status;
}

static bool swallow(void *ud, const char *text, size_t length) {
    (void)ud, (void)text, (void)length;
    return true;
}

static mpt_status call_bench(mpt_ctx *ctx, const folder *f) {
    mpt_bench_options o = MPT_BENCH_OPTIONS_INIT;
    (void)f;
    o.rows = 3;
    o.cols = 20;
    o.n_threads = 1;
    return mpt_bench_quantizers(ctx, &o, swallow, NULL);
}

static void test_call_when_allocations_fail_then_nothing_leaks(void **s) {
    (void)s;
    folder f = folder_make();
    mpt_ctx *ctx = mpt_test_ctx();
    checkpoint_make(ctx, f.file);
    mpt_ctx_destroy(ctx);
    assert_true(sweep(call_quantize, &f) > 100);
    assert_true(sweep(call_probe, &f) > 100);
    assert_true(sweep(call_bench, &f) > 30);
    folder_remove(&f);
}

static void test_call_when_a_quantizer_is_no_quantizer_then_the_way_out_is_said(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    assert_int_equal(mpt_quantize_file(r.ctx, "nvfp5", r.folder.file, r.out, NULL, NULL),
                     MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "did you mean 'nvfp4'"));
    assert_int_equal(access(r.out, F_OK), -1);
    o.formats = "e4m3, nvfp4 { blok = {16, 16} }";
    assert_int_equal(mpt_probe_file(r.ctx, r.folder.file, &o, swallow, NULL), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "did you mean 'block'"));
    rig_end(&r);
}

static void test_call_when_the_writer_refuses_then_it_is_an_io_error(void **s) {
    (void)s;
    rig r = rig_make();
    mpt_probe_options o = MPT_PROBE_OPTIONS_INIT;
    o.formats = "e4m3";
    assert_int_equal(mpt_probe_file(r.ctx, r.folder.file, &o, refuse, NULL), MPT_IO);
    rig_end(&r);
}

static void test_bench_when_json_then_every_line_has_rates(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_bench_options o = MPT_BENCH_OPTIONS_INIT;
    mpt_str text;
    o.json = true;
    o.rows = 48;
    o.cols = 64;
    o.n_threads = 1;
    mpt_str_init(&text, ctx);
    assert_mpt_ok(ctx, mpt_bench_quantizers(ctx, &o, keep, &text));
    json_t *list = json_loads(text.data, 0, NULL);
    assert_in_range(json_array_size(list), 25, 60);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *line = json_array_get(list, i);
        assert_true(json_is_string(json_object_get(line, "name")));
        assert_true(json_number_value(json_object_get(line, "melem_per_s")) > 0);
        assert_true(json_number_value(json_object_get(line, "gb_per_s")) > 0);
        assert_true(json_number_value(json_object_get(line, "fraction_of_copy")) > 0);
    }
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")),
                        "copy");
    json_decref(list);
    mpt_str_deinit(&text);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_call_when_allocations_fail_then_nothing_leaks),
    cmocka_unit_test(test_call_when_a_quantizer_is_no_quantizer_then_the_way_out_is_said),
    cmocka_unit_test(test_call_when_the_writer_refuses_then_it_is_an_io_error),
    cmocka_unit_test(test_bench_when_json_then_every_line_has_rates),
};

MPT_TEST_MAIN(cases)
