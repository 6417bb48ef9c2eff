/* The plan for a target: packed bytes, what is native, bounds, the warning not-native; and what
 * falls back. */
#include "mpt_test.h"

#include <jansson.h>
#include <math.h>

#include "kernels/numerics_scale.h"
#include "plan/plan.h"

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_str text;
} fixture;

/* One block of a linear layer of 64 to 96 features and one back, and 64 tokens. */
#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { w = 64 } }, graph = function(nn, size)\n"   \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  nn.block(0, function()\n"                                                               \
    "    local h = nn.linear { 'up', nn.rmsnorm { 'norm', x }, out = 96 }\n"                   \
    "    x = nn.add(x, nn.linear { 'down', nn.relu2(h), out = size.w }) end)\n"                \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

static void compile(fixture *f, const char *text, mpt_device device, mpt_target target) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *f = (fixture){.ctx = mpt_test_ctx()};
    assert_mpt_ok(
        f->ctx, mpt_recipe_load_string(f->ctx, "r.lua", text, strlen(text), NULL, &f->recipe));
    options.model = MPT_MODEL_FULL;
    options.device = device;
    options.target = target;
    options.n_threads = 1;
    assert_mpt_ok(f->ctx, mpt_compile(f->recipe, &options, &f->program));
    mpt_str_init(&f->text, f->ctx);
}

/* A recipe of the model above, `use` for its linear layers, fields after `more`. */
static void setup(fixture *f, const char *use, const char *more, mpt_target target) {
    char text[2048];
    snprintf(text, sizeof text,
             MODEL "return recipe { version = 1, name = 'r', model = m 's', %s\n"
                   "  precision = { rules = { rule { 'linear', use = %s } } },\n"
                   "  data = synthetic { vocab = 32 },\n"
                   "  train = { steps = 10, batch = 4, micro_batch = 2, sequence = 32,\n"
                   "            lr = constant { peak = 1e-3, warmup = 2 } } }\n",
             more, use);
    compile(f, text, MPT_DEVICE_CPU, target);
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

/* "bytes.master": a number by its path. */
static double number_at(const json_t *json, const char *path) {
    char name[64];
    for (const char *p = path; *p; p += strlen(name) + (p[strlen(name)] == '.')) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "."), p);
        json = json_object_get(json, name);
    }
    if (!json_is_number(json))
        fail_msg("%s is no number", path);
    return json_number_value(json);
}

/* ---- bytes ---- */

enum { UP = 96 * 64, EMBEDDING = 32 * 64, HEAD = EMBEDDING };

/* Weights of `up` and `down` as codes and scales: NVFP4 has them twice on SM100, each with a
 * scale for 16, and the head once in BF16, which is read along both sides. */
static void test_bytes_when_nvfp4_on_sm100_then_both_layouts_packed(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4 { block = {16, 16} }", "", MPT_TARGET_SM100);
    json_t *plan = plan_of(&f);
    double copy = UP / 2 + UP / 16, factor = 4;
    assert_true(number_at(plan, "bytes_by_format.working_weights.rows.nvfp4") == 2 * copy);
    assert_true(number_at(plan, "bytes_by_format.working_weights.columns.nvfp4") == 2 * copy);
    assert_true(number_at(plan, "bytes_by_format.working_weights.rows.bf16") == HEAD * 2);
    assert_true(number_at(plan, "bytes.working_weights") == 4 * copy + HEAD * 2 + 2 * factor);
    assert_true(number_at(plan, "bytes.workspace") == 32 << 20);
    assert_true(number_at(plan, "bytes.master") == 4 * number_at(plan, "parameters"));
    json_decref(plan);
    teardown(&f);
}

/* What is emulated is read decoded, so it is kept once, and the workspace holds the decoded
 * operands of the largest product: y = x W^T of `down`, 64 tokens, 96 to 64 features. */
static void test_bytes_when_nvfp4_on_sm90_then_one_layout_and_decoding(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4 { block = {16, 16} }", "", MPT_TARGET_SM90);
    json_t *plan = plan_of(&f);
    double copy = UP / 2 + UP / 256;
    assert_true(number_at(plan, "bytes_by_format.working_weights.rows.nvfp4") == 2 * copy);
    assert_int_equal(
        json_object_size(json_object_get(
            json_object_get(json_object_get(plan, "bytes_by_format"), "working_weights"),
            "columns")),
        0);
    assert_true(number_at(plan, "bytes.workspace") == (32 << 20) + 2 * (64 * 96 + 96 * 64));
    json_decref(plan);
    teardown(&f);
}

/* Hopper reads FP8 along the dot product only, Blackwell along either side. */
static void test_bytes_when_fp8_then_sm90_turns_weights_and_sm100_does_not(void **state) {
    (void)state;
    for (mpt_target target = MPT_TARGET_SM90; target <= MPT_TARGET_SM100; target++) {
        fixture f;
        setup(&f, "e4m3", "", target);
        json_t *plan = plan_of(&f);
        double both = target == MPT_TARGET_SM90 ? 2 : 1;
        assert_true(number_at(plan, "bytes.working_weights") >= both * 2 * UP + HEAD * 2);
        assert_true(number_at(plan, "bytes.working_weights") < both * 2 * UP + HEAD * 2 + 64);
        json_decref(plan);
        teardown(&f);
    }
}

static void test_bytes_when_packed_then_less_than_on_the_host(void **state) {
    (void)state;
    double host[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        fixture f;
        setup(&f, "mxfp8", "", gpu ? MPT_TARGET_SM100 : MPT_TARGET_HOST);
        json_t *plan = plan_of(&f);
        double working = number_at(plan, "bytes.working_weights");
        double activations = number_at(plan, "bytes.activations");
        if (gpu) {
            assert_true(working < 0.55 * host[0]);
            assert_true(activations < 0.8 * host[1]);
        }
        host[0] = working;
        host[1] = activations;
        json_decref(plan);
        teardown(&f);
    }
}

/* ---- what is native ---- */

static void test_native_when_a_target_is_named_then_each_gemm_has_a_flag(void **state) {
    (void)state;
    fixture f;
    setup(&f,
          "gemm { activation = e4m3, weight = e4m3, gradient = e5m2, fprop = { w = bf16 } }",
          "", MPT_TARGET_SM90);
    json_t *plan = plan_of(&f);
    json_t *layer = json_array_get(json_object_get(plan, "layers"), 0);
    json_t *fprop = json_object_get(layer, "fprop"), *wgrad = json_object_get(layer, "wgrad");
    assert_true(json_is_false(json_object_get(fprop, "native")));
    assert_string_equal(json_string_value(json_object_get(fprop, "why")),
                        "e4m3 and bf16 are no pair of operands");
    assert_string_equal(json_string_value(json_object_get(fprop, "as")), "bf16");
    assert_true(json_is_true(json_object_get(wgrad, "native")));
    assert_string_equal(json_string_value(json_object_get(wgrad, "as")), "native");
    assert_true(json_is_null(json_object_get(wgrad, "why")));
    /* Two linear layers and the head. */
    assert_true(number_at(plan, "hardware.sm80.native") == 3);
    assert_true(number_at(plan, "hardware.sm90.native") == 7);
    assert_true(number_at(plan, "hardware.sm90.emulated") == 2);
    json_decref(plan);
    teardown(&f);
}

static void test_text_when_a_target_emulates_then_reasons_are_counted(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4", "", MPT_TARGET_SM90);
    mpt_plan_print(f.program, &f.text);
    assert_non_null(strstr(f.text.data, "emulated on sm90\n"));
    assert_non_null(
        strstr(f.text.data, "      2      2      2  bf16  sm90 multiplies no fp4\n"));
    assert_non_null(strstr(f.text.data, "native GEMMs out of 9: sm80 3, sm90 3, sm100 9\n"));
    teardown(&f);
}

/* What a plan promises of a GPU must hold in every phase. */
static void test_native_when_a_later_phase_has_fewer_then_it_counts(void **state) {
    (void)state;
    fixture f;
    setup(&f, "bf16", "phases = { phase { 'a' }, phase { 'b', steps = 5, use = nvfp4 } },",
          MPT_TARGET_SM90);
    json_t *plan = plan_of(&f);
    assert_true(number_at(plan, "hardware.sm90.native") == 3);
    assert_true(number_at(plan, "hardware.sm90.emulated") == 6);
    assert_true(number_at(plan, "hardware.sm100.native") == 9);
    json_decref(plan);
    teardown(&f);
}

static int count_not_native(const fixture *f, mpt_warning_view *out) {
    int n = 0;
    mpt_warning_view warning;
    for (int i = 0; mpt_program_warning(f->program, i, &warning); i++)
        if (strcmp(warning.name, "not-native") == 0) {
            *out = warning;
            n++;
        }
    return n;
}

static void test_warning_when_a_gpu_emulates_then_given_there_only(void **state) {
    (void)state;
    static const int expected[] = {0, 1, 1, 0};
    for (int t = 0; t < MPT_TARGET_COUNT; t++) {
        fixture f;
        mpt_warning_view warning = {.name = NULL};
        setup(&f, "nvfp4", "", (mpt_target)t);
        assert_int_equal(count_not_native(&f, &warning), expected[t]);
        if (t == MPT_TARGET_SM90) {
            assert_string_equal(warning.file, "r.lua");
            assert_int_equal(warning.line, 8);
            assert_string_equal(warning.text, "sm90 emulates 6 GEMMs, first layers.0.up.fprop: "
                                              "sm90 multiplies no fp4");
        }
        teardown(&f);
    }
}

static void test_warning_when_allowed_then_silent(void **state) {
    (void)state;
    fixture f;
    mpt_warning_view warning;
    setup(&f, "nvfp4", "allow = { 'not-native' },", MPT_TARGET_SM90);
    assert_int_equal(count_not_native(&f, &warning), 0);
    teardown(&f);
}

/* ---- the bound ---- */

/* FLOPs of the linear layers are 2 * UP a token and pass, of the head HEAD: at four times the
 * rate of BF16 what is 12288 takes 3072. */
static void test_bound_when_fp4_then_amdahl_over_gemms(void **state) {
    (void)state;
    static const struct {
        const char *use;
        mpt_target target;
        double time; /* of the linear layers against BF16 */
    } rows[] = {
        {"bf16", MPT_TARGET_HOST, 1},
        {"e4m3", MPT_TARGET_HOST, 1.0 / 2},
        {"nvfp4", MPT_TARGET_HOST, 1.0 / 4},
        {"nvfp4", MPT_TARGET_SM90, 1},
        {"nvfp4", MPT_TARGET_SM100, 1.0 / 4},
        {"gemm { activation = nvfp4, weight = nvfp4, gradient = nvfp4, fprop = { x = e4m3 } }",
         MPT_TARGET_HOST, (1.0 / 2 + 1.0 / 4 + 1.0 / 4) / 3},
        {"gemm { weight = nvfp4 }", MPT_TARGET_HOST, 1},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        setup(&f, rows[i].use, "", rows[i].target);
        json_t *plan = plan_of(&f);
        double linear = 2 * UP, head = HEAD;
        double bound = (linear + head) / (linear * rows[i].time + head);
        if (!(fabs(number_at(plan, "speedup_bound") - bound) < 1e-9))
            fail_msg("%s: %g, not %g", rows[i].use, number_at(plan, "speedup_bound"), bound);
        json_decref(plan);
        teardown(&f);
    }
}

/* Half of the steps in NVFP4 and half in BF16: times add up, rates do not. */
static void test_bound_when_two_phases_then_of_the_run(void **state) {
    (void)state;
    fixture f;
    setup(&f, "nvfp4",
          "phases = { phase { 'a' }, phase { 'b', from = 0.5, rules = { rule { 'linear', use = "
          "bf16 } } } },",
          MPT_TARGET_HOST);
    json_t *plan = plan_of(&f);
    double linear = 2 * UP, head = HEAD, bf16 = linear + head, fp4 = linear / 4 + head;
    assert_true(fabs(number_at(plan, "speedup_bound") - 2 * bf16 / (bf16 + fp4)) < 1e-9);
    json_t *phases = json_object_get(plan, "phases");
    assert_true(fabs(number_at(json_array_get(phases, 0), "speedup_bound") - bf16 / fp4) <
                1e-9);
    assert_true(fabs(number_at(json_array_get(phases, 1), "speedup_bound") - 1) < 1e-9);
    json_decref(plan);
    teardown(&f);
}

/* ---- P38: the kind of scale is a field, and the plan tells it ---- */

static void test_plan_when_p38_scales_differ_then_told_and_hashed(void **state) {
    (void)state;
    /* The largest magnitude 300 in E4M3. */
    assert_true(fabsf(mpt_current_scale(448, 300) - 1.4933333f) < 1e-6f);
    assert_true(mpt_pow2_below(mpt_current_scale(448, 300)) == 1.0f);
    fixture f[2];
    setup(&f[0], "e4m3 { scale_format = fp32 }", "", MPT_TARGET_HOST);
    setup(&f[1], "e4m3 { scale_format = 'pow2' }", "", MPT_TARGET_HOST);
    for (int i = 0; i < 2; i++) {
        mpt_plan_print(f[i].program, &f[i].text);
        assert_non_null(strstr(f[i].text.data, i ? "  tensor  pow2 " : "  tensor  fp32 "));
    }
    assert_string_not_equal(f[0].program->recipe_hash, f[1].program->recipe_hash);
    assert_string_not_equal(f[0].program->phases[0]->schedule_hash,
                            f[1].program->phases[0]->schedule_hash);
    teardown(&f[0]);
    teardown(&f[1]);
}

/* ---- P87: a backend is a field beside the recipe ---- */

static void remove_backend(json_t *plan) {
    static const char *const fields[] = {"backend",   "target",          "bytes",
                                         "recompute", "bytes_by_format", "speedup_bound"};
    for (size_t i = 0; i < MPT_COUNT(fields); i++)
        assert_int_equal(json_object_del(plan, fields[i]), 0);
    size_t k;
    json_t *item;
    json_array_foreach(json_object_get(plan, "layers"), k, item) {
        static const char *const gemms[] = {"fprop", "dgrad", "wgrad"};
        for (size_t i = 0; i < MPT_COUNT(gemms); i++) {
            json_object_del(json_object_get(item, gemms[i]), "native");
            json_object_del(json_object_get(item, gemms[i]), "as");
            json_object_del(json_object_get(item, gemms[i]), "why");
        }
    }
    json_array_foreach(json_object_get(plan, "phases"), k, item)
        json_object_del(item, "speedup_bound");
}

static void test_plan_when_p87_backends_differ_then_the_recipe_is_the_same(void **state) {
    (void)state;
    static const struct {
        mpt_device device;
        mpt_target target;
    } rows[] = {{MPT_DEVICE_REF, MPT_TARGET_HOST},
                {MPT_DEVICE_CPU, MPT_TARGET_HOST},
                {MPT_DEVICE_CPU, MPT_TARGET_SM90},
                {MPT_DEVICE_CPU, MPT_TARGET_SM100}};
    static const char *const backends[] = {"ref", "cpu", "cuda", "cuda"};
    json_t *first = NULL;
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        fixture f;
        compile(&f, "return derive(require 'recipes.gpt2_nvfp4', { allow = { 'not-native' } })",
                rows[i].device, rows[i].target);
        json_t *plan = plan_of(&f);
        assert_string_equal(json_string_value(json_object_get(plan, "backend")), backends[i]);
        remove_backend(plan);
        assert_non_null(json_object_get(plan, "recipe_hash"));
        if (first && !json_equal(first, plan))
            fail_msg("the plan of %s differs in more", backends[i]);
        if (!first)
            first = json_incref(plan);
        json_decref(plan);
        teardown(&f);
    }
    json_decref(first);
}

/* ---- P50, P53: what falls back is told ---- */

/* 712 features are no multiple of 16, 896 are; one row of tokens. */
#define ODD                                                                                    \
    "local m = model { name = 'm', sizes = { s = {} }, graph = function(nn, size)\n"           \
    "  local x = nn.embedding { 'e', nn.tokens(), out = 712 }\n"                               \
    "  nn.block(0, function()\n"                                                               \
    "    x = nn.linear { 'up', x, out = 896 } end)\n"                                          \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

static void setup_odd(fixture *f, const char *use, int sequence) {
    char text[2048];
    snprintf(text, sizeof text,
             ODD "return recipe { version = 1, name = 'r', model = m 's',\n"
                 "  precision = { rules = { rule { 'linear', use = %s } } },\n"
                 "  train = { steps = 2, batch = 1, sequence = %d,\n"
                 "            lr = constant { peak = 1e-3, warmup = 1 } } }\n",
             use, sequence);
    compile(f, text, MPT_DEVICE_CPU, MPT_TARGET_HOST);
}

static void test_plan_when_p50_pad_is_bf16_then_fallbacks_are_marked(void **state) {
    (void)state;
    fixture f;
    setup_odd(&f, "nvfp4 { pad = 'bf16' }", 1);
    json_t *plan = plan_of(&f), *fallbacks = json_object_get(plan, "fallbacks");
    static const char *const slots[] = {"fprop.x", "fprop.w", "wgrad.dy", "wgrad.x"};
    assert_int_equal(json_array_size(fallbacks), MPT_COUNT(slots));
    for (size_t i = 0; i < MPT_COUNT(slots); i++) {
        json_t *item = json_array_get(fallbacks, i);
        assert_string_equal(json_string_value(json_object_get(item, "layer")), "layers.0.up");
        assert_string_equal(json_string_value(json_object_get(item, "slot")), slots[i]);
        assert_string_equal(json_string_value(json_object_get(item, "from")), "nvfp4");
        assert_string_equal(json_string_value(json_object_get(item, "to")), "bf16");
        assert_true(number_at(item, "extent") == (i < 2 ? 712 : 1));
        assert_true(number_at(item, "multiple") == 16);
    }
    json_decref(plan);
    mpt_str_deinit(&f.text);
    mpt_str_init(&f.text, f.ctx);
    mpt_plan_print(f.program, &f.text);
    assert_non_null(strstr(f.text.data, "fell back   4 operands to bf16, as pad says; first "
                                        "layers.0.up.fprop.x: 712 in features are no\n"));
    teardown(&f);
    setup_odd(&f, "nvfp4", 1);
    mpt_plan_print(f.program, &f.text);
    assert_null(strstr(f.text.data, "fell back"));
    teardown(&f);
}

/* 40 tokens are padded to 48 on both operands under a rotation of 16, or both fall back. */
static void test_plan_when_p53_tokens_do_not_divide_then_padded_or_told(void **state) {
    (void)state;
    static const char *const use =
        "gemm { activation = nvfp4, weight = nvfp4, gradient = nvfp4%s,\n"
        "wgrad = { hadamard = hadamard { size = 16 } } }";
    char text[512];
    fixture f;
    snprintf(text, sizeof text, use, "");
    setup_odd(&f, text, 40);
    const mpt_phase_program *phase = f.program->phases[0];
    int n = 0;
    for (int i = 0; i < phase->graph->n_nodes; i++) {
        mpt_gemm gemm;
        mpt_product product;
        if (mpt_plan_product(phase, &phase->graph->nodes[i], &gemm, &product) &&
            gemm == MPT_GEMM_WGRAD && product.a->hadamard.size == 16) {
            assert_int_equal(product.k, 48);
            assert_int_equal(product.b->hadamard.size, 16);
            n++;
        }
    }
    assert_int_equal(n, 1);
    teardown(&f);
    snprintf(text, sizeof text, use, " { pad = 'bf16' }");
    setup_odd(&f, text, 40);
    json_t *plan = plan_of(&f), *fallbacks = json_object_get(plan, "fallbacks");
    assert_int_equal(json_array_size(fallbacks), 2); /* the gradient, and its partner with it */
    assert_true(number_at(json_array_get(fallbacks, 0), "extent") == 40);
    assert_true(number_at(json_array_get(fallbacks, 1), "extent") == 40);
    json_decref(plan);
    teardown(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_bytes_when_nvfp4_on_sm100_then_both_layouts_packed),
    cmocka_unit_test(test_bytes_when_nvfp4_on_sm90_then_one_layout_and_decoding),
    cmocka_unit_test(test_bytes_when_fp8_then_sm90_turns_weights_and_sm100_does_not),
    cmocka_unit_test(test_bytes_when_packed_then_less_than_on_the_host),
    cmocka_unit_test(test_native_when_a_target_is_named_then_each_gemm_has_a_flag),
    cmocka_unit_test(test_text_when_a_target_emulates_then_reasons_are_counted),
    cmocka_unit_test(test_native_when_a_later_phase_has_fewer_then_it_counts),
    cmocka_unit_test(test_warning_when_a_gpu_emulates_then_given_there_only),
    cmocka_unit_test(test_warning_when_allowed_then_silent),
    cmocka_unit_test(test_bound_when_fp4_then_amdahl_over_gemms),
    cmocka_unit_test(test_bound_when_two_phases_then_of_the_run),
    cmocka_unit_test(test_plan_when_p38_scales_differ_then_told_and_hashed),
    cmocka_unit_test(test_plan_when_p87_backends_differ_then_the_recipe_is_the_same),
    cmocka_unit_test(test_plan_when_p50_pad_is_bf16_then_fallbacks_are_marked),
    cmocka_unit_test(test_plan_when_p53_tokens_do_not_divide_then_padded_or_told),
};
MPT_TEST_MAIN(cases)
