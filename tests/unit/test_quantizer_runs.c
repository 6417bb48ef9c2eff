/* From the words of a recipe to steps of training: every kind of quantizer through the whole
 * pipeline, and what pad and random signs make of the program. */
#include "lua_test.h"

#include <math.h>

#include "kernels/numerics.h"
#include "pipeline.h"
#include "writers.h"

/* Two blocks of one linear layer, 24 to 40 features: no multiple of any block but 8. */
#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { w = 24 } }, graph = function(nn, size)\n"   \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  for i = 0, 1 do nn.block(i, function()\n"                                               \
    "    local h = nn.linear { 'up', nn.rmsnorm { 'norm', x }, out = 40 }\n"                   \
    "    x = nn.add(x, nn.linear { 'down', nn.relu2(h), out = size.w }) end) end\n"            \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

#define RECIPE(use)                                                                            \
    MODEL "return recipe { version = 1, name = 'r', model = m 's',\n"                          \
          "  precision = { rules = {\n"                                                        \
          "    rule { 'linear', use = " use " } } },\n"                                        \
          "  data = synthetic { vocab = 32 },\n"                                               \
          "  train = { steps = 10, batch = 2, micro_batch = 1, sequence = 20,\n"               \
          "            lr = constant { peak = 1e-3 } } }\n"

enum { RULE_LINE = 9 };

typedef struct run {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} run;

static mpt_status compile(run *r, const char *text, mpt_device device) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.device = device;
    options.n_threads = 1;
    *r = (run){.ctx = mpt_test_ctx()};
    r->recipe = mpt_lua_load(r->ctx, text);
    return mpt_compile(r->recipe, &options, &r->program);
}

static void finish(run *r) {
    mpt_program_destroy(r->program);
    mpt_lua_finish(r->ctx, r->recipe);
}

/* Losses of the first two steps. */
static void train(const char *text, mpt_device device, double losses[2]) {
    run r;
    mpt_trainer *trainer;
    mpt_step_result result;
    mpt_status status = compile(&r, text, device);
    if (status != MPT_OK)
        fail_msg("%s\n%s", mpt_ctx_error(r.ctx)->message, text);
    assert_mpt_ok(r.ctx, mpt_trainer_create(r.program, NULL, &trainer));
    for (int i = 0; i < 2; i++) {
        assert_mpt_ok(r.ctx, mpt_trainer_step(trainer, NULL, &result));
        if (!isfinite(result.loss) || result.skipped)
            fail_msg("loss %g at step %d of\n%s", result.loss, i, text);
        losses[i] = result.loss;
    }
    mpt_trainer_destroy(trainer);
    finish(&r);
}

static const char *const runs[] = {
    RECIPE("e4m3"),
    RECIPE("e4m3 { scale = delayed { history = 4, margin = 1 } }"),
    RECIPE("e5m2 { scale = delayed { history = 2, algo = 'most_recent' }, scale_format = "
           "'pow2' }"),
    RECIPE("e4m3 { scale = static(16) }"),
    RECIPE("e4m3 { block = 'row' }"),
    RECIPE("nvfp4 { outer = 'row' }"),
    RECIPE("nvfp4 { outer = 'none' }"),
    RECIPE("nvfp4 { scale_rule = 'four_over_six' }"),
    RECIPE("nvfp4 { headroom = 0.75, rounding = 'toward_zero' }"),
    RECIPE("gemm { weight = nvfp4 { block = {16, 16} }, activation = nvfp4,\n"
           "  gradient = nvfp4 { rounding = 'stochastic' }, wgrad = { hadamard =\n"
           "  hadamard { size = 16, signs = 'random', redraw = 'step' } } }"),
    RECIPE("mxfp8 { source = 'dequantized' }"),
    RECIPE("mxfp8 { scale_rule = 'floor' }"),
    RECIPE("mxfp6 { scale_rule = 'even', nonfinite = 'saturate' }"),
    RECIPE("mxfp4 { rounding = 'half_away' }"),
    RECIPE("gemm { weight = fp8_block { block = {128, 128} }, activation = fp8_block,\n"
           "  gradient = fp8_block { scale_format = 'pow2' } }"),
    RECIPE("int8 { block = {1, 32}, scale_format = e8m0 }"),
    RECIPE("e5m6"),
    RECIPE("tf32"),
    RECIPE("fp16"),
    RECIPE("nvfp4 { pad = 'bf16' }"),
};

static void test_run_when_written_in_a_recipe_then_backends_train_alike(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(runs); i++) {
        double ref[2], cpu[2];
        train(runs[i], MPT_DEVICE_REF, ref);
        train(runs[i], MPT_DEVICE_CPU, cpu);
        for (int k = 0; k < 2; k++)
            if (!(fabs(ref[k] - cpu[k]) < 0.03))
                fail_msg("loss %g by ref and %g by cpu of\n%s", ref[k], cpu[k], runs[i]);
    }
}

/* ---- pad ---- */

static void test_compile_when_pad_is_error_then_the_rule_is_named(void **state) {
    (void)state;
    run r;
    assert_int_equal(compile(&r, RECIPE("nvfp4 { pad = 'error' }"), MPT_DEVICE_REF),
                     MPT_INVALID);
    const mpt_error *error = mpt_ctx_error(r.ctx);
    assert_int_equal(error->line, RULE_LINE);
    assert_string_equal(error->message,
                        "r.lua:9: layers.0.up.fprop.x.pad: 24 in features are no multiple of "
                        "16; take pad = \"zero\" or pad = \"bf16\", or in features that are a "
                        "multiple of 16");
    finish(&r);
}

/* A text of the program; the caller ends it. */
static mpt_str text_of(run *r, const char *recipe, mpt_print what) {
    mpt_str text;
    assert_mpt_ok(r->ctx, compile(r, recipe, MPT_DEVICE_REF));
    mpt_str_init(&text, r->ctx);
    assert_mpt_ok(r->ctx, mpt_program_print(r->program, what, NULL, keep, &text));
    return text;
}

/* The plan shows what runs: 20 tokens, 24 and 40 features divide by 16 nowhere. */
static void test_plan_when_pad_is_bf16_then_coverage_says_so(void **state) {
    (void)state;
    run r;
    mpt_str text = text_of(&r, RECIPE("nvfp4 { pad = 'bf16' }"), MPT_PRINT_JSON);
    assert_non_null(strstr(text.data, "\"coverage\": {\n  \"bf16\": 4\n }"));
    mpt_str_deinit(&text);
    finish(&r);
    text = text_of(&r, RECIPE("nvfp4"), MPT_PRINT_JSON);
    assert_non_null(strstr(text.data, "\"coverage\": {\n  \"nvfp4\": 4\n }"));
    mpt_str_deinit(&text);
    finish(&r);
}

/* ---- P63: random signs are said, and follow their seed ---- */

#define SIGNS(fields)                                                                          \
    RECIPE("gemm { activation = nvfp4, gradient = nvfp4, weight = nvfp4,\n"                    \
           "  wgrad = { hadamard = hadamard { size = 16, signs = 'random', " fields " } } }")

/* The first signs in the schedule: "0x1234". */
static void signs_of(const char *recipe, char out[7]) {
    run r;
    mpt_str text = text_of(&r, recipe, MPT_PRINT_SCHEDULE);
    const char *at = strstr(text.data, " 0x");
    assert_non_null(at);
    memcpy(out, at + 1, 6);
    out[6] = 0;
    mpt_str_deinit(&text);
    finish(&r);
}

static void test_schedule_when_p63_signs_are_random_then_they_are_printed(void **state) {
    (void)state;
    char own[7], seven[7], again[7], eight[7], layer[7], expected[7];
    uint32_t signs[4];
    signs_of(SIGNS(""), own);
    signs_of(SIGNS("seed = 7"), seven);
    signs_of(SIGNS("seed = 7"), again);
    signs_of(SIGNS("seed = 8"), eight);
    signs_of(SIGNS("seed = 7, scope = 'layer'"), layer);
    assert_string_equal(seven, again);
    assert_string_not_equal(seven, eight);
    assert_string_not_equal(seven, layer);
    assert_string_not_equal(seven, own);
    mpt_random_signs(7, 0, 0, signs);
    snprintf(expected, sizeof expected, "0x%04x", signs[0] & 0xFFFFu);
    assert_string_equal(seven, expected);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_run_when_written_in_a_recipe_then_backends_train_alike),
    cmocka_unit_test(test_compile_when_pad_is_error_then_the_rule_is_named),
    cmocka_unit_test(test_plan_when_pad_is_bf16_then_coverage_says_so),
    cmocka_unit_test(test_schedule_when_p63_signs_are_random_then_they_are_printed),
};

MPT_TEST_MAIN(cases)
