/* runtime/plan: the plans of the shipped recipes as golden texts, the JSON's shape and figures,
 * labels of mixed formats, the lists, and numbers as people read them. */
#include "mpt_test.h"

#include <jansson.h>
#include <math.h>

#include "golden_text.h"
#include "plan/plan.h"
#include "plan/text.h"
#include "writers.h"

/* ---- a shipped recipe, compiled ---- */

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_str text;
} fixture;

/* One thread, because scratch memory is counted in the plan. */
static void setup(fixture *f, const char *name, mpt_model_choice model) {
    char path[512];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *f = (fixture){.ctx = mpt_test_ctx()};
    snprintf(path, sizeof path, "%s/recipes/%s.lua", MPT_SOURCE_DIR, name);
    assert_mpt_ok(f->ctx, mpt_recipe_load_file(f->ctx, path, NULL, &f->recipe));
    options.model = model;
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

static json_t *plan_of(fixture *f) {
    json_error_t error;
    assert_mpt_ok(f->ctx, mpt_plan_json(f->program, &f->text));
    json_t *plan = json_loads(f->text.data, JSON_REJECT_DUPLICATES, &error);
    if (!plan)
        fail_msg("line %d: %s", error.line, error.text);
    return plan;
}

/* ---- golden texts ---- */

static void check_golden(const char *name, mpt_model_choice model, const char *golden) {
    fixture f;
    setup(&f, name, model);
    mpt_plan_print(f.program, &f.text);
    assert_golden(&f.text, golden);
    teardown(&f);
}

static void test_text_when_nvfp4_12b_then_golden(void **state) {
    (void)state;
    check_golden("nvfp4_12b", MPT_MODEL_FULL, "plan_nvfp4_12b.txt");
}

static void test_text_when_proxy_of_12b_then_golden(void **state) {
    (void)state;
    check_golden("nvfp4_12b", MPT_MODEL_PROXY, "plan_nvfp4_12b_proxy.txt");
}

static void test_text_when_gpt2_fp32_then_golden(void **state) {
    (void)state;
    check_golden("gpt2_fp32", MPT_MODEL_FULL, "plan_gpt2_fp32.txt");
}

static void test_text_when_gpt2_bf16_then_golden(void **state) {
    (void)state;
    check_golden("gpt2_bf16", MPT_MODEL_FULL, "plan_gpt2_bf16.txt");
}

static void test_text_when_gpt2_fp16_then_golden(void **state) {
    (void)state;
    check_golden("gpt2_fp16", MPT_MODEL_FULL, "plan_gpt2_fp16.txt");
}

static void test_text_when_gpt2_fp8_then_golden(void **state) {
    (void)state;
    check_golden("gpt2_fp8", MPT_MODEL_FULL, "plan_gpt2_fp8.txt");
}

static void test_text_when_gpt2_nvfp4_then_golden(void **state) {
    (void)state;
    check_golden("gpt2_nvfp4", MPT_MODEL_FULL, "plan_gpt2_nvfp4.txt");
}

/* ---- JSON ---- */

static json_int_t integer_at(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static void assert_keys(const json_t *object, const char *const *keys, size_t n) {
    assert_true(json_is_object(object));
    for (size_t i = 0; i < n; i++)
        if (!json_object_get(object, keys[i]))
            fail_msg("no member %s", keys[i]);
    assert_int_equal(json_object_size(object), n);
}
#define KEYS(object, ...)                                                                      \
    assert_keys((object), (const char *const[]){__VA_ARGS__},                                  \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_json_when_12b_then_counts_are_those_of_the_paper(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_FULL);
    json_t *plan = plan_of(&f), *coverage = json_object_get(plan, "coverage");
    KEYS(plan, "recipe", "model", "recipe_hash", "backend", "target", "parameters",
         "active_parameters", "blocks", "linear_layers", "coverage", "coverage_parameters",
         "bytes", "recompute", "bytes_by_format", "flops_per_token", "flops_per_step",
         "speedup_bound", "hardware", "phases", "defaults", "fallbacks", "layers", "warnings",
         "evaluation", "data", "train");
    assert_string_equal(json_string_value(json_object_get(plan, "model")), "nemotron_h 12b");
    assert_true(integer_at(plan, "parameters") == 12310001152);
    assert_true(integer_at(plan, "active_parameters") == 12310001152);
    assert_int_equal(integer_at(plan, "blocks"), 62);
    assert_int_equal(integer_at(plan, "linear_layers"), 124);
    KEYS(coverage, "nvfp4", "bf16");
    assert_int_equal(integer_at(coverage, "nvfp4"), 104);
    assert_int_equal(integer_at(coverage, "bf16"), 20);
    json_t *weights = json_object_get(plan, "coverage_parameters");
    double nvfp4 = (double)integer_at(weights, "nvfp4"),
           bf16 = (double)integer_at(weights, "bf16");
    assert_true(fabs(bf16 / (nvfp4 + bf16) - 0.172) < 0.0005);
    json_decref(plan);
    teardown(&f);
}

static void test_json_when_bytes_then_total_is_the_sum_and_masters_are_fp32(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_FULL);
    json_t *plan = plan_of(&f), *bytes = json_object_get(plan, "bytes");
    KEYS(bytes, "master", "gradient", "optimizer", "working_weights", "activations",
         "workspace", "total");
    json_int_t sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach(bytes, key, value) sum += json_integer_value(value);
    assert_true(sum == 2 * integer_at(bytes, "total"));
    assert_true(integer_at(bytes, "master") >= 4 * integer_at(plan, "parameters"));
    assert_true(integer_at(bytes, "optimizer") >= 8 * integer_at(plan, "parameters"));
    json_decref(plan);
    teardown(&f);
}

static void check_operand(const json_t *q) {
    KEYS(q, "format", "block", "scale", "scale_format", "scale_rule", "outer", "rounding",
         "hadamard", "elements", "delayed", "static", "headroom", "nonfinite", "source", "pad",
         "text");
    assert_int_equal(json_array_size(json_object_get(q, "block")), 2);
    json_t *hadamard = json_object_get(q, "hadamard");
    if (!json_is_null(hadamard))
        KEYS(hadamard, "size", "signs", "scope", "redraw", "seed");
}

static void check_gemm(const json_t *layer, const char *gemm, const char *a, const char *b) {
    json_t *object = json_object_get(layer, gemm);
    KEYS(object, a, b, "native", "as", "why");
    check_operand(json_object_get(object, a));
    check_operand(json_object_get(object, b));
}

/* "...lua:20" */
static void check_place(const json_t *place) {
    const char *text = json_string_value(place), *at = text ? strstr(text, ".lua:") : NULL;
    assert_non_null(at);
    assert_true(at[5] >= '1' && at[5] <= '9');
}

static void test_json_when_layers_then_all_operands_have_all_fields(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_FULL);
    json_t *plan = plan_of(&f), *layers = json_object_get(plan, "layers"), *layer;
    size_t i;
    assert_int_equal(json_array_size(layers), 124);
    json_array_foreach(layers, i, layer) {
        KEYS(layer, "path", "block", "kind", "in_features", "out_features", "fprop", "dgrad",
             "wgrad", "sums", "output", "decided_by");
        check_gemm(layer, "fprop", "x", "w");
        check_gemm(layer, "dgrad", "dy", "w");
        check_gemm(layer, "wgrad", "dy", "x");
        assert_true(json_array_size(json_object_get(layer, "decided_by")) > 0);
        check_place(json_array_get(json_object_get(layer, "decided_by"), 0));
    }
    json_decref(plan);
    teardown(&f);
}

static const char *field(const json_t *layer, const char *gemm, const char *operand,
                         const char *name) {
    json_t *q = json_object_get(json_object_get(layer, gemm), operand);
    return json_string_value(json_object_get(q, name));
}

static void test_json_when_a_late_nvfp4_layer_then_the_recipe_as_written(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_FULL);
    json_t *plan = plan_of(&f), *layer = json_array_get(json_object_get(plan, "layers"), 50);
    json_t *w = json_object_get(json_object_get(layer, "fprop"), "w");
    json_t *x = json_object_get(json_object_get(layer, "wgrad"), "x");
    assert_string_equal(field(layer, "fprop", "x", "format"), "nvfp4");
    assert_string_equal(field(layer, "fprop", "x", "rounding"), "nearest");
    assert_string_equal(field(layer, "dgrad", "dy", "rounding"), "stochastic");
    assert_string_equal(field(layer, "fprop", "w", "outer"), "tensor");
    assert_string_equal(field(layer, "fprop", "w", "scale_format"), "e4m3");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(w, "block"), 0)), 16);
    assert_true(json_is_null(json_object_get(w, "hadamard")));
    assert_int_equal(integer_at(json_object_get(x, "hadamard"), "size"), 16);
    layer = json_array_get(json_object_get(plan, "layers"), 0);
    assert_string_equal(field(layer, "wgrad", "dy", "format"), "bf16");
    assert_string_equal(field(layer, "wgrad", "dy", "scale"), "none");
    assert_string_equal(field(layer, "wgrad", "dy", "scale_format"), "none");
    json_decref(plan);
    teardown(&f);
}

static void test_json_when_two_phases_then_each_says_what_changed(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_PROXY);
    json_t *plan = plan_of(&f), *phases = json_object_get(plan, "phases");
    assert_int_equal(json_array_size(phases), 2);
    json_t *first = json_array_get(phases, 0), *second = json_array_get(phases, 1);
    KEYS(first, "name", "from", "by", "schedule_hash", "steps", "coverage", "layers_changed",
         "histories", "speedup_bound");
    assert_int_equal(integer_at(first, "from"), 0);
    assert_int_equal(integer_at(first, "layers_changed"), 0);
    assert_int_equal(integer_at(second, "from"), integer_at(first, "steps"));
    assert_int_equal(integer_at(second, "layers_changed"), 104);
    assert_int_equal(integer_at(first, "steps") + integer_at(second, "steps"),
                     f.program->train.steps);
    assert_int_equal(integer_at(json_object_get(second, "coverage"), "bf16+nvfp4"), 104);
    json_decref(plan);
    teardown(&f);
}

static void test_json_when_flops_then_gemms_do_two_a_weight(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4_12b", MPT_MODEL_FULL);
    json_t *plan = plan_of(&f), *flops = json_object_get(plan, "flops_per_token");
    KEYS(flops, "fprop", "dgrad", "wgrad", "attention", "recompute", "other");
    json_t *weights = json_object_get(plan, "coverage_parameters");
    json_int_t head = 131072LL * 5120;
    json_int_t expected =
        2 * (integer_at(weights, "nvfp4") + integer_at(weights, "bf16") + head);
    assert_true(integer_at(flops, "fprop") == expected);
    assert_true(integer_at(flops, "dgrad") == expected);
    assert_true(integer_at(flops, "wgrad") == expected);
    assert_true(integer_at(flops, "attention") > 0);
    json_decref(plan);
    teardown(&f);
}

static void test_schedule_json_when_printed_then_a_step_for_each_step(void **state) {
    (void)state;
    fixture f;
    json_error_t error;
    setup(&f, "gpt2_nvfp4", MPT_MODEL_FULL);
    assert_mpt_ok(f.ctx, mpt_plan_schedule_json(f.program, &f.text));
    json_t *json = json_loads(f.text.data, JSON_REJECT_DUPLICATES, &error);
    json_t *phase = json_array_get(json_object_get(json, "phases"), 0), *step;
    json_t *steps = json_object_get(phase, "steps");
    size_t i, n_quantize = 0;
    assert_int_equal(json_array_size(steps), f.program->phases[0]->n_steps);
    json_array_foreach(steps, i, step) {
        assert_int_equal(integer_at(step, "step"), i);
        assert_non_null(json_string_value(json_object_get(step, "kernel")));
        bool quantize = strcmp(json_string_value(json_object_get(step, "op")), "quantize") == 0;
        n_quantize += quantize;
        assert_int_equal(json_object_get(step, "row") != NULL, quantize);
    }
    assert_true(n_quantize > 0);
    json_decref(json);
    teardown(&f);
}

/* ---- labels ---- */

static void test_label_when_formats_differ_then_joined_in_slot_order(void **state) {
    (void)state;
    mpt_policy policy = {.n_decided = 0};
    char label[MPT_PLAN_LABEL];
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        policy.slot[s].name = "nvfp4";
    mpt_plan_label(&policy, label);
    assert_string_equal(label, "nvfp4");
    policy.slot[MPT_SLOT_WGRAD_DY].name = "e5m2";
    mpt_plan_label(&policy, label);
    assert_string_equal(label, "nvfp4+e5m2");
    policy.slot[MPT_SLOT_FPROP_X].name = "bf16";
    mpt_plan_label(&policy, label);
    assert_string_equal(label, "bf16+nvfp4+e5m2");
}

static void test_label_when_names_are_long_then_cut(void **state) {
    (void)state;
    static const char *const names[] = {"a_name_of_twenty_one_", "b_name_of_twenty_one_",
                                        "c_name_of_twenty_one_", "d_name_of_twenty_one_",
                                        "e_name_of_twenty_one_", "f_name_of_twenty_one_"};
    mpt_policy policy = {.n_decided = 0};
    char label[MPT_PLAN_LABEL];
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        policy.slot[s].name = names[s];
    mpt_plan_label(&policy, label);
    assert_int_equal(strlen(label), MPT_PLAN_LABEL - 1);
}

/* ---- numbers and lines ---- */

static void assert_count(int64_t n, const char *expected) {
    mpt_words words = {.len = 0};
    mpt_words_count(&words, n);
    assert_string_equal(words.data, expected);
}

static void test_count_when_digits_vary_then_commas_by_thousands(void **state) {
    (void)state;
    assert_count(0, "0");
    assert_count(7, "7");
    assert_count(999, "999");
    assert_count(1000, "1,000");
    assert_count(-1000, "-1,000");
    assert_count(-100, "-100");
    assert_count(12310001152, "12,310,001,152");
    assert_count(INT64_MAX, "9,223,372,036,854,775,807");
    assert_count(INT64_MIN, "-9,223,372,036,854,775,808");
}

static void assert_about(double n, const char *expected) {
    mpt_words words = {.len = 0};
    mpt_words_about(&words, n);
    assert_string_equal(words.data, expected);
}

static void test_about_when_sizes_vary_then_three_digits_and_a_unit(void **state) {
    (void)state;
    assert_about(0, "0");
    assert_about(999, "999");
    assert_about(1000, "1.00 k");
    assert_about(9994, "9.99 k");
    assert_about(9996, "10.0 k");
    assert_about(99960, "100 k");
    assert_about(999600, "1.00 M");
    assert_about(1e13, "10.0 T");
    assert_about(1e22, "10000 E");
}

static void test_line_when_long_then_broken_before_the_last_column(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    char text[1000] = "";
    mpt_str_init(&out, ctx);
    for (int i = 0; i < 60; i++)
        strcat(text, i ? " word" : "word");
    mpt_text_line(&out, "name", text);
    int words = 0;
    for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1) {
        assert_true(strcspn(p, "\n") <= 96);
        assert_true(p[strcspn(p, "\n") - 1] != ' ');
    }
    for (const char *p = strstr(out.data, "word"); p; p = strstr(p + 1, "word"))
        words++;
    assert_int_equal(words, 60);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_words_when_full_then_cut_and_ended(void **state) {
    (void)state;
    mpt_words words = {.len = 0};
    for (int i = 0; i < 1000; i++)
        mpt_words_add(&words, "%s", "four");
    assert_int_equal(words.len, sizeof words.data - 1);
    assert_int_equal(strlen(words.data), words.len);
}

/* ---- lists ---- */

static void test_list_when_ops_then_one_line_each_with_a_kernel(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out;
    int lines = 0;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_list(ctx, MPT_LIST_OPS, keep, &out));
    for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1, lines++) {
        const char *ref = strstr(p, " ref.");
        if (lines > 0) /* below the titles */
            assert_true(ref && ref < p + strcspn(p, "\n"));
    }
    assert_int_equal(lines, MPT_OP_COUNT + 1);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_list_when_the_writer_refuses_then_io(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_int_equal(mpt_list(ctx, MPT_LIST_FORMATS, refuse, NULL), MPT_IO);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_text_when_nvfp4_12b_then_golden),
    cmocka_unit_test(test_text_when_proxy_of_12b_then_golden),
    cmocka_unit_test(test_text_when_gpt2_fp32_then_golden),
    cmocka_unit_test(test_text_when_gpt2_bf16_then_golden),
    cmocka_unit_test(test_text_when_gpt2_fp16_then_golden),
    cmocka_unit_test(test_text_when_gpt2_fp8_then_golden),
    cmocka_unit_test(test_text_when_gpt2_nvfp4_then_golden),
    cmocka_unit_test(test_json_when_12b_then_counts_are_those_of_the_paper),
    cmocka_unit_test(test_json_when_bytes_then_total_is_the_sum_and_masters_are_fp32),
    cmocka_unit_test(test_json_when_layers_then_all_operands_have_all_fields),
    cmocka_unit_test(test_json_when_a_late_nvfp4_layer_then_the_recipe_as_written),
    cmocka_unit_test(test_json_when_two_phases_then_each_says_what_changed),
    cmocka_unit_test(test_json_when_flops_then_gemms_do_two_a_weight),
    cmocka_unit_test(test_schedule_json_when_printed_then_a_step_for_each_step),
    cmocka_unit_test(test_label_when_formats_differ_then_joined_in_slot_order),
    cmocka_unit_test(test_label_when_names_are_long_then_cut),
    cmocka_unit_test(test_count_when_digits_vary_then_commas_by_thousands),
    cmocka_unit_test(test_about_when_sizes_vary_then_three_digits_and_a_unit),
    cmocka_unit_test(test_line_when_long_then_broken_before_the_last_column),
    cmocka_unit_test(test_words_when_full_then_cut_and_ended),
    cmocka_unit_test(test_list_when_ops_then_one_line_each_with_a_kernel),
    cmocka_unit_test(test_list_when_the_writer_refuses_then_io),
};

MPT_TEST_MAIN(cases)
