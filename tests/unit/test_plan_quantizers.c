/* runtime/plan: how plans, JSON and lists tell the formats and fields of operands. */
#include "mpt_test.h"

#include <jansson.h>

#include "golden_text.h"
#include "plan/plan.h"
#include "writers.h"

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_str text;
} fixture;

/* A small GPT-2 whose linear layers use this expression. One thread, because scratch memory is
 * counted in the plan. */
static void setup(fixture *f, const char *use) {
    char text[1024];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *f = (fixture){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text,
             "return derive(require 'recipes.gpt2_base', { name = 'planned',\n"
             "precision = { rules = { rule { 'linear', use = %s } } } })",
             use);
    assert_mpt_ok(f->ctx, mpt_recipe_load_string(f->ctx, "planned.lua", text, strlen(text),
                                                 NULL, &f->recipe));
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    assert_mpt_ok(f->ctx, mpt_compile(f->recipe, &options, &f->program));
    mpt_str_init(&f->text, f->ctx);
}

static void teardown(fixture *f) {
    mpt_str_deinit(&f->text);
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* ---- the text ---- */

/* The plan has this line, of one group of operands. */
static void expect_line(const char *use, const char *line) {
    fixture f;
    setup(&f, use);
    mpt_plan_print(f.program, &f.text);
    if (!strstr(f.text.data, line))
        fail_msg("'%s' is missing in\n%s", line, f.text.data);
    teardown(&f);
}

static void test_text_when_formats_vary_then_each_operand_is_told(void **state) {
    (void)state;
    expect_line("mxfp8 { format = e5m2 }",
                "  all six  mxfp8 of e5m2  1x32   e8m0 up  -      nearest   -\n");
    expect_line("fp8_block { block = {128, 128}, scale_format = 'pow2' }",
                "  all six  fp8_block  128x128  pow2   -      nearest   -\n");
    expect_line("e4m3 { block = 'row', rounding = 'half_away' }",
                "  all six  e4m3    row    fp32   -      half_away  -\n");
    expect_line("gemm { weight = nvfp4, activation = nvfp4, fprop = { w = mxfp4 } }",
                "  fprop.x dgrad.w wgrad.x  nvfp4   1x16   e4m3     tensor  nearest   -\n");
    expect_line("tf32", "tf32");
}

static void test_text_when_fields_have_no_column_then_they_stand_below(void **state) {
    (void)state;
    expect_line("nvfp4 { outer = 'row', nonfinite = 'saturate',\n"
                "scale_rule = four_over_six { bound = 448 } }",
                "  nvfp4: scale_rule=four_over_six bound=448 nonfinite=saturate\n");
    expect_line("e4m3 { scale = static(0.5), headroom = 0.75 }",
                "  e4m3: static value=0.5 headroom=0.75\n");
}

/* P39: defaults of delayed scaling differ from tool to tool, so each value is told, and whether
 * anyone said it. */
static void test_text_when_p39_scaling_is_delayed_then_values_and_defaults(void **state) {
    (void)state;
    static const char use[] =
        "gemm { weight = e4m3, activation = e4m3 { scale = delayed {} },\n"
        "gradient = e5m2 { scale = delayed { history = 16, margin = 2,\n"
        "algo = 'most_recent', headroom = 1.5, reduce_amax = false } } }";
    expect_line(use, "e5m2    tensor  fp32 delayed  -      nearest   -\n");
    expect_line(use, "e4m3    tensor  fp32          -      nearest   -\n");
    expect_line(use,
                "  delayed: history 1024 (default), algo max (default), margin 0 (default); "
                "current scales at the first step\n");
    expect_line(use,
                "  delayed: history 16, algo most_recent, margin 2, headroom 1.5, each rank "
                "its own; current scales at the first step\n");
    expect_line("e4m3 { scale = delayed { history = 1024, margin = 0 } }",
                "  delayed: history 1024, algo max (default), margin 0; current scales at the "
                "first step\n");
}

static void test_text_when_signs_are_random_then_what_they_are_drawn_from_is_told(void **s) {
    (void)s;
    expect_line("gemm { weight = nvfp4, activation = nvfp4, gradient = nvfp4, wgrad = { "
                "hadamard = hadamard {\n"
                "signs = 'random', scope = 'layer', redraw = 'step', seed = 7 } } }",
                "  random signs: each layer its own, drawn at each step, seed 7\n");
    expect_line("gemm { weight = nvfp4, activation = nvfp4, gradient = nvfp4, wgrad = {\n"
                "hadamard = hadamard { signs = 'random' } } }",
                "  random signs: the same in all layers, drawn once, the run's seed\n");
}

/* ---- JSON ---- */

static const json_t *operand_of(fixture *f, json_t **out_plan) {
    json_error_t error;
    assert_mpt_ok(f->ctx, mpt_plan_json(f->program, &f->text));
    *out_plan = json_loads(f->text.data, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(*out_plan);
    json_t *layer = json_array_get(json_object_get(*out_plan, "layers"), 0);
    return json_object_get(json_object_get(layer, "wgrad"), "dy");
}

static const char *word(const json_t *q, const char *field) {
    const char *text = json_string_value(json_object_get(q, field));
    return text ? text : "(none)";
}

static void test_json_when_delayed_then_its_fields_are_told(void **state) {
    (void)state;
    fixture f;
    json_t *plan;
    setup(&f, "fp8_block { format = e5m2, block = 'tensor', headroom = 0.75,\n"
              "scale = delayed { history = 16, algo = 'most_recent', margin = -1 } }");
    const json_t *q = operand_of(&f, &plan), *delayed = json_object_get(q, "delayed");
    assert_string_equal(word(q, "format"), "fp8_block");
    assert_string_equal(word(q, "elements"), "e5m2");
    assert_string_equal(word(q, "scale"), "delayed");
    assert_string_equal(word(q, "scale_format"), "fp32");
    assert_string_equal(word(q, "scale_rule"), "nearest");
    assert_true(json_real_value(json_object_get(q, "headroom")) == 0.75);
    assert_true(json_is_null(json_object_get(q, "static")));
    assert_int_equal(json_integer_value(json_object_get(delayed, "history")), 16);
    assert_string_equal(word(delayed, "algo"), "most_recent");
    assert_int_equal(json_integer_value(json_object_get(delayed, "margin")), -1);
    assert_true(json_real_value(json_object_get(delayed, "headroom")) == 1);
    assert_true(json_is_true(json_object_get(delayed, "reduce_amax")));
    json_decref(plan);
    teardown(&f);
}

static void test_json_when_signs_are_random_then_what_they_are_drawn_from_is_told(void **s) {
    (void)s;
    fixture f;
    json_t *plan;
    setup(&f, "gemm { weight = nvfp4, activation = nvfp4, gradient = nvfp4, wgrad = {\n"
              "hadamard = hadamard { signs = 'random', redraw = 'step', seed = 7 } } }");
    const json_t *h = json_object_get(operand_of(&f, &plan), "hadamard");
    assert_int_equal(json_integer_value(json_object_get(h, "size")), 16);
    assert_string_equal(word(h, "signs"), "random");
    assert_string_equal(word(h, "scope"), "shared");
    assert_string_equal(word(h, "redraw"), "step");
    assert_int_equal(json_integer_value(json_object_get(h, "seed")), 7);
    json_decref(plan);
    teardown(&f);
}

/* The schedule as JSON tells the masks that its text tells. */
static void test_schedule_when_signs_are_random_then_their_masks_are_told(void **s) {
    (void)s;
    fixture f;
    mpt_str schedule;
    setup(&f, "gemm { weight = nvfp4, activation = nvfp4, gradient = nvfp4, wgrad = {\n"
              "hadamard = hadamard { signs = 'random', seed = 7 } } }");
    mpt_str_init(&schedule, f.ctx);
    mpt_schedule_print(f.program->phases[0], &schedule);
    const char *mask = strstr(schedule.data, " 0x");
    assert_non_null(mask);
    char want[64];
    snprintf(want, sizeof want, "\"column_signs\": \"%.6s\"", mask + 1);
    assert_mpt_ok(f.ctx, mpt_plan_schedule_json(f.program, &f.text));
    assert_non_null(strstr(f.text.data, want));
    mpt_str_deinit(&schedule);
    teardown(&f);
}

static void test_json_when_static_or_plain_then_no_delayed_fields(void **state) {
    (void)state;
    fixture f;
    json_t *plan;
    setup(&f, "e4m3 { scale = static(4), rounding = 'toward_zero', pad = 'error' }");
    const json_t *q = operand_of(&f, &plan);
    assert_string_equal(word(q, "scale"), "static");
    assert_string_equal(word(q, "rounding"), "toward_zero");
    assert_string_equal(word(q, "pad"), "error");
    assert_true(json_real_value(json_object_get(q, "static")) == 4);
    assert_true(json_is_null(json_object_get(q, "delayed")));
    json_decref(plan);
    teardown(&f);
    setup(&f, "tf32");
    q = operand_of(&f, &plan);
    assert_string_equal(word(q, "format"), "tf32");
    assert_string_equal(word(q, "scale"), "none");
    assert_string_equal(word(q, "scale_format"), "none");
    assert_string_equal(word(q, "text"), "tf32");
    json_decref(plan);
    teardown(&f);
}

static void test_json_when_signs_are_random_then_told(void **state) {
    (void)state;
    fixture f;
    json_t *plan;
    setup(&f, "gemm { activation = mxfp8, gradient = mxfp8, weight = mxfp8,\n"
              "wgrad = { hadamard = hadamard { size = 32, signs = 'random' } } }");
    const json_t *hadamard = json_object_get(operand_of(&f, &plan), "hadamard");
    assert_int_equal(json_integer_value(json_object_get(hadamard, "size")), 32);
    assert_string_equal(word(hadamard, "signs"), "random");
    json_decref(plan);
    teardown(&f);
}

/* ---- the list of formats ---- */

static void test_list_when_formats_then_facts_and_presets(void **state) {
    (void)state;
    static const char *const lines[] = {
        "e4m3              8         4         3             448             2^-6       2^-9  "
        "NaN       saturates\n",
        "e5m6             12         5         6           65024            2^-14      2^-20  "
        "NaN, Inf  saturates\n",
        "int8              8         1         6        1.984375             2^-6          -  "
        "none      saturates\n",
        "tf32             32         8        10  3.40116213e+38           2^-126     2^-136  "
        "NaN, Inf  Inf\n",
        "nvfp4         4  e2m1      1x16    current  e4m3          nearest     tensor\n",
        "mxfp6         6  e3m2      1x32    current  e8m0          up          none\n",
    };
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_list(ctx, MPT_LIST_FORMATS, keep, &out));
    for (size_t i = 0; i < MPT_COUNT(lines); i++)
        if (!strstr(out.data, lines[i]))
            fail_msg("'%s' is missing in\n%s", lines[i], out.data);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_text_when_formats_vary_then_each_operand_is_told),
    cmocka_unit_test(test_text_when_fields_have_no_column_then_they_stand_below),
    cmocka_unit_test(test_text_when_p39_scaling_is_delayed_then_values_and_defaults),
    cmocka_unit_test(test_json_when_delayed_then_its_fields_are_told),
    cmocka_unit_test(test_text_when_signs_are_random_then_what_they_are_drawn_from_is_told),
    cmocka_unit_test(test_json_when_signs_are_random_then_what_they_are_drawn_from_is_told),
    cmocka_unit_test(test_schedule_when_signs_are_random_then_their_masks_are_told),
    cmocka_unit_test(test_json_when_static_or_plain_then_no_delayed_fields),
    cmocka_unit_test(test_json_when_signs_are_random_then_told),
    cmocka_unit_test(test_list_when_formats_then_facts_and_presets),
};
MPT_TEST_MAIN(cases)
