/* recipe/quantizer_text.c: everything that decides a byte is in the text and in the hash of a
 * schedule; people read what differs from the name. */
#include "recipe_fixture.h"

#include "lua/bind/expression.h"
#include "sched/program.h"

static mpt_quantizer read(const char *expression) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_quantizer q;
    assert_mpt_ok(ctx, mpt_quantizer_from_text(ctx, expression, &q));
    mpt_ctx_destroy(ctx);
    return q;
}

/* The hash of a graph that is one quantize node. */
static void hash_of(const mpt_quantizer *q, bool column, char out[17]) {
    mpt_graph graph;
    mpt_node node = mpt_node_make(MPT_OP_quantize, MPT_PASS_FORWARD, -1);
    memset(&graph, 0, sizeof graph);
    node.attrs.has_row = !column;
    node.attrs.has_col = column;
    node.attrs.row = node.attrs.col = *q;
    graph.nodes = &node;
    graph.n_nodes = 1;
    mpt_schedule_hash(&graph, out);
}

/* Each changes one thing of the one before its group: no two quantize alike. */
static const char *const different[] = {
    "e4m3",
    "e5m2",
    "e5m6",
    "e3m2",
    "e2m3",
    "e2m1",
    "int8",
    "mxfp8",
    "mxfp8 { format = e5m2 }",
    "mxfp6",
    "mxfp6 { format = e2m3 }",
    "mxfp4",
    "nvfp4",
    "fp8_block",
    "e4m3 { block = 'row' }",
    "e4m3 { block = {1, 16} }",
    "e4m3 { block = {128, 128} }",
    "e4m3 { scale_format = 'pow2' }",
    "e4m3 { scale_format = e8m0 }",
    "e4m3 { headroom = 0.5 }",
    "e4m3 { headroom = 16 / 17 }",
    "e4m3 { rounding = 'stochastic' }",
    "e4m3 { rounding = 'toward_zero' }",
    "e4m3 { rounding = 'half_away' }",
    "e4m3 { nonfinite = 'saturate' }",
    "e4m3 { source = 'dequantized' }",
    "e4m3 { pad = 'bf16' }",
    "e4m3 { pad = 'error' }",
    "e4m3 { scale = static(1) }",
    "e4m3 { scale = static(0.1) }",
    "e4m3 { scale = delayed {} }",
    "e4m3 { scale = delayed { history = 16 } }",
    "e4m3 { scale = delayed { algo = 'most_recent' } }",
    "e4m3 { scale = delayed { margin = 1 } }",
    "e4m3 { scale = delayed { headroom = 2 } }",
    "e4m3 { scale = delayed { reduce_amax = false } }",
    "mxfp8 { scale_rule = 'floor' }",
    "mxfp8 { scale_rule = 'ceil' }",
    "mxfp8 { scale_rule = 'even' }",
    "nvfp4 { scale_rule = 'four_over_six' }",
    "nvfp4 { scale_rule = four_over_six { error = 'mse' } }",
    "nvfp4 { scale_rule = four_over_six { bound = 448 } }",
    "nvfp4 { outer = 'row' }",
    "nvfp4 { outer = 'none' }",
    "nvfp4 { hadamard = hadamard {} }",
    "nvfp4 { hadamard = hadamard { size = 32 } }",
    "nvfp4 { hadamard = hadamard { signs = 'none' } }",
    "nvfp4 { hadamard = hadamard { signs = 'random' } }",
    "nvfp4 { hadamard = hadamard { signs = 'random', seed = 0 } }",
    "nvfp4 { hadamard = hadamard { signs = 'random', seed = 1 } }",
    "nvfp4 { hadamard = hadamard { signs = 'random', scope = 'layer' } }",
    "nvfp4 { hadamard = hadamard { signs = 'random', redraw = 'step' } }",
};

static void test_texts_when_any_field_differs_then_text_hash_and_equality_do(void **state) {
    (void)state;
    enum { N = MPT_COUNT(different) };
    static mpt_quantizer q[N];
    static char texts[N][MPT_QUANTIZER_TEXT], briefs[N][MPT_QUANTIZER_TEXT];
    static char rows[N][17], columns[N][17];
    for (size_t i = 0; i < N; i++) {
        q[i] = read(different[i]);
        mpt_quantizer_text(&q[i], texts[i]);
        mpt_quantizer_brief(&q[i], briefs[i]);
        hash_of(&q[i], false, rows[i]);
        hash_of(&q[i], true, columns[i]);
        for (size_t k = 0; k < i; k++) {
            bool equal = mpt_quantizer_equal(&q[i], &q[k]) && q[i].pad == q[k].pad;
            if (equal || strcmp(texts[i], texts[k]) == 0 || strcmp(briefs[i], briefs[k]) == 0 ||
                strcmp(rows[i], rows[k]) == 0 || strcmp(columns[i], columns[k]) == 0)
                fail_msg("%s and %s are not told apart", different[i], different[k]);
        }
    }
}

/* What is written twice, or by another name, is the same. */
static void test_texts_when_only_the_writing_differs_then_they_are_equal(void **state) {
    (void)state;
    static const char *const same[][2] = {
        {"e4m3", "e4m3 { block = 'tensor', scale = current {}, rounding = 'nearest' }"},
        {"mxfp8", "e4m3 { block = {1, 32}, scale_format = e8m0 }"},
        {"mxfp8 { format = e5m2 }", "e5m2 { block = {1, 32}, scale_format = e8m0 }"},
        {"nvfp4", "e2m1 { block = {1, 16}, scale_format = e4m3, outer = 'tensor' }"},
        {"fp8_block { scale_format = 'pow2' }",
         "e4m3 { block = {1, 128}, scale_format = 'pow2', scale_rule = 'up' }"},
        {"nvfp4 { scale_rule = 'four_over_six' }",
         "nvfp4 { scale_rule = four_over_six { error = 'mae', bound = 256 } }"},
        {"e4m3 { scale = 'delayed' }",
         "e4m3 { scale = delayed { history = 1024, margin = 0 } }"},
        {"e4m3", "e4m3 { hadamard = 'none' }"},
    };
    for (size_t i = 0; i < MPT_COUNT(same); i++) {
        char left[MPT_QUANTIZER_TEXT], right[MPT_QUANTIZER_TEXT], one[17], two[17];
        mpt_quantizer a = read(same[i][0]), b = read(same[i][1]);
        mpt_quantizer_text(&a, left);
        mpt_quantizer_text(&b, right);
        hash_of(&a, false, one);
        hash_of(&b, false, two);
        assert_string_equal(left, right);
        assert_string_equal(one, two);
        assert_true(mpt_quantizer_equal(&a, &b));
    }
}

/* The whole text is one that a host may write. */
static void test_text_when_read_again_then_the_same_quantizer(void **state) {
    (void)state;
    for (size_t i = 0; i < MPT_COUNT(different); i++) {
        char text[MPT_QUANTIZER_TEXT];
        fixture f;
        mpt_quantizer q = read(different[i]);
        mpt_quantizer_text(&q, text);
        fixture_open(&f);
        fixture_rule(&f, 5, .selector = "linear", .use = text);
        if (!mpt_quantizer_equal(&q, &f.recipe->rules[0].use.slot[0].q))
            fail_msg("%s: '%s' reads as something else", different[i], text);
        fixture_close(&f);
    }
}

static void test_text_when_whole_then_every_field_is_said(void **state) {
    (void)state;
    char text[MPT_QUANTIZER_TEXT];
    mpt_quantizer q = read("fp8_block { block = 'tensor', scale = delayed { history = 16 },\n"
                           "hadamard = hadamard { signs = 'random' }, headroom = 0.75 }");
    mpt_quantizer_text(&q, text);
    assert_string_equal(
        text, "e4m3 block=tensor scale=delayed scale.history=16 scale.algo=max scale.margin=0 "
              "scale.headroom=1 scale.reduce_amax=true scale_format=fp32 scale_rule=nearest "
              "outer=none headroom=0.75 rounding=nearest hadamard.size=16 "
              "hadamard.signs=random hadamard.scope=shared hadamard.redraw=never "
              "hadamard.seed=-1 nonfinite=propagate source=original pad=zero");
    q = read("tf32");
    mpt_quantizer_text(&q, text);
    assert_string_equal(text, "tf32");
}

static void test_brief_when_fields_are_refined_then_only_they_are_named(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"bf16", "bf16"},
        {"nvfp4", "nvfp4 1x16"},
        {"mxfp8 { format = e5m2 }", "mxfp8 e5m2 1x32"},
        {"e4m3 { block = 'row' }", "e4m3 row"},
        {"fp8_block { scale_format = 'pow2' }", "fp8_block 1x128 scale_format=pow2"},
        {"nvfp4 { scale_format = fp32 }", "nvfp4 1x16 scale_format=fp32"},
        {"e4m3 { scale = delayed { history = 16, margin = 1 } }",
         "e4m3 tensor delayed history=16 margin=1"},
        {"e4m3 { scale = static(0.5) }", "e4m3 tensor static value=0.5"},
        {"mxfp4 { scale_rule = 'floor', headroom = 0.75 }",
         "mxfp4 1x32 scale_rule=floor headroom=0.75"},
        {"nvfp4 { scale_rule = four_over_six { bound = 448 }, outer = 'row' }",
         "nvfp4 1x16 scale_rule=four_over_six bound=448 outer=row"},
        {"nvfp4 { block = {16, 16}, rounding = 'stochastic', hadamard = hadamard {} }",
         "nvfp4 16x16 stochastic hadamard 16"},
        {"nvfp4 { hadamard = hadamard { size = 32, signs = 'random', redraw = 'step' } }",
         "nvfp4 1x16 hadamard 32 random signs redraw=step"},
        {"nvfp4 { hadamard = hadamard { signs = 'none' } }", "nvfp4 1x16 hadamard 16 no signs"},
        {"e4m3 { nonfinite = 'saturate', source = 'dequantized', pad = 'error' }",
         "e4m3 tensor nonfinite=saturate source=dequantized pad=error"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char text[MPT_QUANTIZER_TEXT];
        mpt_quantizer q = read(rows[i][0]);
        mpt_quantizer_brief(&q, text);
        assert_string_equal(text, rows[i][1]);
    }
}

/* A struct that was filled in C says its headroom by leaving it 0. */
static void test_texts_when_headroom_is_zero_then_it_reads_as_one(void **state) {
    (void)state;
    char text[MPT_QUANTIZER_TEXT], zero[MPT_QUANTIZER_TEXT];
    mpt_quantizer q = read("e4m3"), other = q;
    other.headroom = 0;
    mpt_quantizer_text(&q, text);
    mpt_quantizer_text(&other, zero);
    assert_string_equal(text, zero);
    mpt_quantizer_brief(&other, zero);
    assert_string_equal(zero, "e4m3 tensor");
    assert_true(mpt_quantizer_equal(&q, &other));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_texts_when_any_field_differs_then_text_hash_and_equality_do),
    cmocka_unit_test(test_texts_when_only_the_writing_differs_then_they_are_equal),
    cmocka_unit_test(test_text_when_read_again_then_the_same_quantizer),
    cmocka_unit_test(test_text_when_whole_then_every_field_is_said),
    cmocka_unit_test(test_brief_when_fields_are_refined_then_only_they_are_named),
    cmocka_unit_test(test_texts_when_headroom_is_zero_then_it_reads_as_one),
};
MPT_TEST_MAIN(cases)
