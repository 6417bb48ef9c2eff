/* Every field of a quantizer, written in Lua and as a host's text: both give the same struct.
 */
#include "recipe_fixture.h"

#include "lua/bind/expression.h"

/* A quantizer as a host writes it, in all six slots. */
static void read_host(const char *text, mpt_quantizer *out) {
    fixture f;
    fixture_open(&f);
    fixture_rule(&f, 5, .selector = "linear", .use = text);
    *out = f.recipe->rules[0].use.slot[MPT_SLOT_WGRAD_X].q;
    fixture_close(&f);
}

static void read_lua(const char *expression, mpt_quantizer *out) {
    mpt_ctx *ctx = mpt_test_ctx();
    assert_mpt_ok(ctx, mpt_quantizer_from_text(ctx, expression, out));
    mpt_ctx_destroy(ctx);
}

static mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

static void assert_same(const char *what, const mpt_quantizer *got,
                        const mpt_quantizer *expected) {
    char left[MPT_QUANTIZER_TEXT], right[MPT_QUANTIZER_TEXT];
    mpt_quantizer_text(got, left);
    mpt_quantizer_text(expected, right);
    if (!mpt_quantizer_equal(got, expected))
        fail_msg("%s:\n  is       %s\n  expected %s", what, left, right);
    assert_string_equal(left, right);
}

/* Both ways of writing, against `expected`. */
static void check(const char *lua, const char *host, const mpt_quantizer *expected) {
    mpt_quantizer q;
    read_lua(lua, &q);
    assert_same(lua, &q, expected);
    read_host(host, &q);
    assert_same(host, &q, expected);
    assert_string_equal(q.name, expected->name);
}

/* Changes one member of a named quantizer and compares. */
#define CHECK(lua, host, base, member, value)                                                  \
    do {                                                                                       \
        mpt_quantizer wanted = named(base);                                                    \
        wanted.member = (value);                                                               \
        check((lua), (host), &wanted);                                                         \
    } while (0)

static void test_names_when_bare_then_each_is_a_word_of_both(void **state) {
    (void)state;
    int n;
    const char *const *names = mpt_format_names(&n);
    assert_int_equal(n, 16);
    for (int i = 0; i < n; i++) {
        mpt_quantizer q = named(names[i]);
        check(names[i], names[i], &q);
    }
}

static void test_presets_when_bare_then_they_mean_what_papers_say(void **state) {
    (void)state;
    mpt_quantizer q = named("mxfp6");
    assert_int_equal(q.format, MPT_DTYPE_E3M2);
    assert_true(q.block_rows == 1 && q.block_cols == 32);
    assert_int_equal(q.scale_format, MPT_SCALE_E8M0);
    assert_int_equal(q.scale_rule.kind, MPT_RULE_UP);
    q = named("fp8_block");
    assert_true(q.block_rows == 1 && q.block_cols == 128);
    assert_int_equal(q.scale_format, MPT_SCALE_FP32);
    assert_int_equal(q.scale_rule.kind, MPT_RULE_NEAREST);
    q = named("int8");
    assert_true(q.block_rows == 0 && q.block_cols == 0 && q.headroom == 1);
    assert_int_equal(q.scale.kind, MPT_SCALING_CURRENT);
    q = named("tf32");
    assert_true(mpt_quantizer_is_cast(&q));
}

static void test_format_when_a_preset_has_a_choice_then_taken(void **state) {
    (void)state;
    CHECK("mxfp8 { format = e5m2 }", "mxfp8 format=e5m2", "mxfp8", format, MPT_DTYPE_E5M2);
    CHECK("mxfp6 { format = e2m3 }", "mxfp6 format=e2m3", "mxfp6", format, MPT_DTYPE_E2M3);
    CHECK("fp8_block { format = 'e5m2' }", "fp8_block format=e5m2", "fp8_block", format,
          MPT_DTYPE_E5M2);
}

static void test_block_when_each_of_the_list_then_taken(void **state) {
    (void)state;
    static const struct {
        const char *lua, *host;
        int32_t rows, cols;
    } rows[] = {{"'tensor'", "tensor", 0, 0},  {"'row'", "row", 1, 0},
                {"{1, 16}", "1x16", 1, 16},    {"{1, 32}", "1x32", 1, 32},
                {"{1, 128}", "1x128", 1, 128}, {"{16, 16}", "16x16", 16, 16},
                {"{32, 32}", "32x32", 32, 32}, {"{128, 128}", "128x128", 128, 128}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char lua[64], host[64];
        mpt_quantizer q = named("e5m2");
        q.block_rows = rows[i].rows;
        q.block_cols = rows[i].cols;
        snprintf(lua, sizeof lua, "e5m2 { block = %s }", rows[i].lua);
        snprintf(host, sizeof host, "e5m2 block=%s", rows[i].host);
        check(lua, host, &q);
    }
}

static void test_scale_when_current_or_static_then_taken(void **state) {
    (void)state;
    mpt_quantizer q = named("e4m3");
    check("e4m3 { scale = current {} }", "e4m3 scale=current", &q);
    check("e4m3 { scale = 'current' }", "e4m3", &q);
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_STATIC, .value = 0.25};
    check("e4m3 { scale = static(0.25) }", "e4m3 scale=static scale.value=0.25", &q);
}

static void test_scale_when_delayed_then_all_its_fields_arrive(void **state) {
    (void)state;
    mpt_quantizer q = named("e4m3");
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED,
                                 .history = 1024,
                                 .algo = MPT_AMAX_MAX,
                                 .reduce_amax = true,
                                 .headroom = 1};
    check("e4m3 { scale = delayed {} }", "e4m3 scale=delayed", &q);
    check("e4m3 { scale = 'delayed' }", "e4m3 scale=delayed", &q);
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED,
                                 .history = 16,
                                 .algo = MPT_AMAX_MOST_RECENT,
                                 .margin = -2,
                                 .headroom = 1.5};
    check("e4m3 { scale = delayed { history = 16, algo = 'most_recent', margin = -2,\n"
          "  headroom = 1.5, reduce_amax = false } }",
          "e4m3 scale=delayed scale.history=16 scale.algo=most_recent scale.margin=-2 "
          "scale.headroom=1.5 scale.reduce_amax=false",
          &q);
}

static void test_scale_format_when_refined_then_rule_and_outer_follow(void **state) {
    (void)state;
    mpt_quantizer q = named("fp8_block");
    q.scale_format = MPT_SCALE_POW2;
    q.scale_rule.kind = MPT_RULE_UP;
    check("fp8_block { scale_format = 'pow2' }", "fp8_block scale_format=pow2", &q);
    q = named("e4m3");
    q.block_rows = 1;
    q.block_cols = 32;
    q.scale_format = MPT_SCALE_E8M0;
    q.scale_rule.kind = MPT_RULE_UP;
    check("e4m3 { block = {1, 32}, scale_format = e8m0 }", "e4m3 block=1x32 scale_format=e8m0",
          &q);
    q = named("nvfp4");
    q.scale_format = MPT_SCALE_FP32;
    q.outer = MPT_OUTER_NONE;
    check("nvfp4 { scale_format = fp32 }", "nvfp4 scale_format=fp32", &q);
    q = named("mxfp4");
    q.scale_format = MPT_SCALE_E4M3;
    q.scale_rule.kind = MPT_RULE_NEAREST;
    check("mxfp4 { scale_format = e4m3 }", "mxfp4 scale_format=e4m3", &q);
}

static void test_scale_rule_when_each_then_taken(void **state) {
    (void)state;
    CHECK("mxfp4 { scale_rule = 'up' }", "mxfp4 scale_rule=up", "mxfp4", scale_rule.kind,
          MPT_RULE_UP);
    CHECK("mxfp4 { scale_rule = 'floor' }", "mxfp4 scale_rule=floor", "mxfp4", scale_rule.kind,
          MPT_RULE_FLOOR);
    CHECK("mxfp4 { scale_rule = 'ceil' }", "mxfp4 scale_rule=ceil", "mxfp4", scale_rule.kind,
          MPT_RULE_CEIL);
    CHECK("mxfp4 { scale_rule = 'even' }", "mxfp4 scale_rule=even", "mxfp4", scale_rule.kind,
          MPT_RULE_EVEN);
    CHECK("nvfp4 { scale_rule = 'nearest' }", "nvfp4 scale_rule=nearest", "nvfp4",
          scale_rule.kind, MPT_RULE_NEAREST);
    mpt_quantizer q = named("nvfp4");
    q.scale_rule = (mpt_scale_rule){MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MAE, 256};
    check("nvfp4 { scale_rule = 'four_over_six' }", "nvfp4 scale_rule=four_over_six", &q);
    check("nvfp4 { scale_rule = four_over_six {} }", "nvfp4 scale_rule.error=mae", &q);
    q.scale_rule = (mpt_scale_rule){MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MSE, 448};
    check("nvfp4 { scale_rule = four_over_six { error = 'mse', bound = 448 } }",
          "nvfp4 scale_rule=four_over_six scale_rule.error=mse scale_rule.bound=448", &q);
}

static void test_outer_when_each_then_taken(void **state) {
    (void)state;
    CHECK("nvfp4 { outer = 'row' }", "nvfp4 outer=row", "nvfp4", outer, MPT_OUTER_ROW);
    CHECK("nvfp4 { outer = 'none' }", "nvfp4 outer=none", "nvfp4", outer, MPT_OUTER_NONE);
    CHECK("nvfp4 { outer = 'tensor' }", "nvfp4 outer=tensor", "nvfp4", outer, MPT_OUTER_TENSOR);
}

static void test_elements_when_each_value_then_taken(void **state) {
    (void)state;
    CHECK("mxfp4 { headroom = 3 / 4 }", "mxfp4 headroom=0.75", "mxfp4", headroom, 0.75);
    CHECK("e4m3 { headroom = 16 }", "e4m3 headroom=16", "e4m3", headroom, 16);
    CHECK("e4m3 { rounding = 'nearest' }", "e4m3 rounding=nearest", "e4m3", rounding,
          MPT_ROUNDING_NEAREST);
    CHECK("e4m3 { rounding = 'stochastic' }", "e4m3 rounding=stochastic", "e4m3", rounding,
          MPT_ROUNDING_STOCHASTIC);
    CHECK("e4m3 { rounding = 'toward_zero' }", "e4m3 rounding=toward_zero", "e4m3", rounding,
          MPT_ROUNDING_TOWARD_ZERO);
    CHECK("e4m3 { rounding = 'half_away' }", "e4m3 rounding=half_away", "e4m3", rounding,
          MPT_ROUNDING_HALF_AWAY);
    CHECK("e4m3 { nonfinite = 'saturate' }", "e4m3 nonfinite=saturate", "e4m3", nonfinite,
          MPT_NONFINITE_SATURATE);
    CHECK("e4m3 { nonfinite = 'propagate' }", "e4m3 nonfinite=propagate", "e4m3", nonfinite,
          MPT_NONFINITE_PROPAGATE);
    CHECK("mxfp8 { source = 'dequantized' }", "mxfp8 source=dequantized", "mxfp8", source,
          MPT_SOURCE_DEQUANTIZED);
    CHECK("mxfp8 { source = 'original' }", "mxfp8 source=original", "mxfp8", source,
          MPT_SOURCE_ORIGINAL);
    CHECK("mxfp8 { pad = 'zero' }", "mxfp8 pad=zero", "mxfp8", pad, MPT_PAD_ZERO);
    CHECK("mxfp8 { pad = 'bf16' }", "mxfp8 pad=bf16", "mxfp8", pad, MPT_PAD_BF16);
    CHECK("mxfp8 { pad = 'error' }", "mxfp8 pad=error", "mxfp8", pad, MPT_PAD_ERROR);
}

static void test_hadamard_when_each_field_then_taken(void **state) {
    (void)state;
    mpt_quantizer q = named("nvfp4");
    q.hadamard = (mpt_hadamard){16, MPT_SIGNS_FIXED, MPT_SCOPE_SHARED, MPT_REDRAW_NEVER, -1};
    check("nvfp4 { hadamard = hadamard {} }", "nvfp4 hadamard.size=16", &q);
    q.hadamard.signs = MPT_SIGNS_NONE;
    check("nvfp4 { hadamard = hadamard { signs = 'none' } }", "nvfp4 hadamard.signs=none", &q);
    q.hadamard = (mpt_hadamard){64, MPT_SIGNS_RANDOM, MPT_SCOPE_LAYER, MPT_REDRAW_STEP, 7};
    check("nvfp4 { hadamard = hadamard { size = 64, signs = 'random', scope = 'layer',\n"
          "  redraw = 'step', seed = 7 } }",
          "nvfp4 hadamard.size=64 hadamard.signs=random hadamard.scope=layer "
          "hadamard.redraw=step hadamard.seed=7",
          &q);
    q = named("nvfp4");
    check("nvfp4 { hadamard = hadamard {} } { hadamard = 'none' }",
          "nvfp4 hadamard.size=16 hadamard=none", &q);
}

static void test_refined_when_refined_again_then_fields_merge(void **state) {
    (void)state;
    mpt_quantizer q = named("nvfp4");
    q.block_rows = 16;
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    check("nvfp4 { block = {16, 16} } { rounding = 'stochastic' }",
          "nvfp4 block=16x16 rounding=stochastic", &q);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_names_when_bare_then_each_is_a_word_of_both),
    cmocka_unit_test(test_presets_when_bare_then_they_mean_what_papers_say),
    cmocka_unit_test(test_format_when_a_preset_has_a_choice_then_taken),
    cmocka_unit_test(test_block_when_each_of_the_list_then_taken),
    cmocka_unit_test(test_scale_when_current_or_static_then_taken),
    cmocka_unit_test(test_scale_when_delayed_then_all_its_fields_arrive),
    cmocka_unit_test(test_scale_format_when_refined_then_rule_and_outer_follow),
    cmocka_unit_test(test_scale_rule_when_each_then_taken),
    cmocka_unit_test(test_outer_when_each_then_taken),
    cmocka_unit_test(test_elements_when_each_value_then_taken),
    cmocka_unit_test(test_hadamard_when_each_field_then_taken),
    cmocka_unit_test(test_refined_when_refined_again_then_fields_merge),
};
MPT_TEST_MAIN(cases)
