/* graph/precision_pad.c: operands that their blocks do not divide, by what pad says. */
#include "mpt_test.h"

#include "recipe/schema.h"
#include "small_net.h"

enum { MANY_LAYERS = 8 };

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_graph *graph;
    mpt_policy policies[MANY_LAYERS];
    mpt_policy *up; /* of layers.0.up: `width` to `hidden` features */
} fixture;

static mpt_quantizer blocks(int32_t rows, int32_t cols, mpt_pad pad) {
    return (mpt_quantizer){.name = "nvfp4",
                           .format = MPT_DTYPE_E2M1,
                           .block_rows = rows,
                           .block_cols = cols,
                           .scale.kind = MPT_SCALING_CURRENT,
                           .scale_format = MPT_SCALE_E4M3,
                           .outer = MPT_OUTER_TENSOR,
                           .pad = pad};
}

/* All slots of `up` have that quantizer; everything else is BF16. */
static void setup(fixture *f, int64_t tokens, int64_t width, int64_t hidden, mpt_quantizer q) {
    small_net net = {
        .width = width, .hidden = hidden, .vocab = 32, .n_blocks = 1, .n_readers = 1};
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    f->graph = small_graph(f->ctx, &net, 1, tokens, true);
    assert_true(f->graph->n_layers <= MANY_LAYERS);
    for (int i = 0; i < f->graph->n_layers; i++) {
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            assert_true(mpt_quantizer_by_name("bf16", &f->policies[i].slot[s]));
        if (strcmp(f->graph->layers[i].path, "layers.0.up") == 0)
            f->up = &f->policies[i];
    }
    assert_non_null(f->up);
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        f->up->slot[s] = q;
    f->up->n_decided = 1;
    f->up->decided_by[0] = (mpt_where){"r.lua", 7};
}

static void teardown(fixture *f) {
    mpt_graph_destroy(f->graph);
    mpt_ctx_destroy(f->ctx);
}

/* Which slots of `up` are BF16 casts afterwards, one bit a slot. */
static unsigned cast_slots(fixture *f) {
    unsigned casts = 0;
    assert_mpt_ok(f->ctx, mpt_graph_settle_pads(f->graph, f->policies));
    for (int s = 0; s < MPT_SLOT_COUNT; s++)
        if (mpt_quantizer_is_cast(&f->up->slot[s])) {
            assert_int_equal(f->up->slot[s].format, MPT_DTYPE_BF16);
            casts |= 1u << s;
        }
    return casts;
}

#define BIT(slot) (1u << MPT_SLOT_##slot)

static void test_pad_when_zero_then_every_operand_keeps_its_format(void **s) {
    (void)s;
    fixture f;
    setup(&f, 40, 40, 72, blocks(1, 16, MPT_PAD_ZERO));
    assert_int_equal(cast_slots(&f), 0);
    teardown(&f);
}

static void test_pad_when_bf16_then_operands_that_fit_stay(void **s) {
    (void)s;
    fixture f;
    setup(&f, 40, 64, 32, blocks(1, 16, MPT_PAD_BF16)); /* only the tokens do not fit */
    assert_int_equal(cast_slots(&f), BIT(WGRAD_DY) | BIT(WGRAD_X));
    teardown(&f);
    setup(&f, 32, 40, 32, blocks(1, 16, MPT_PAD_BF16)); /* in features are fprop's alone */
    assert_int_equal(cast_slots(&f), BIT(FPROP_X) | BIT(FPROP_W));
    teardown(&f);
    setup(&f, 32, 32, 40, blocks(1, 16, MPT_PAD_BF16)); /* out features are dgrad's */
    assert_int_equal(cast_slots(&f), BIT(DGRAD_DY) | BIT(DGRAD_W));
    teardown(&f);
}

/* P50: 712 features divide by 8, not by 16; one row of tokens. */
static void test_pad_when_p50_one_row_of_712_then_only_896_stays(void **s) {
    (void)s;
    fixture f;
    setup(&f, 1, 712, 896, blocks(1, 16, MPT_PAD_BF16));
    assert_int_equal(cast_slots(&f),
                     BIT(FPROP_X) | BIT(FPROP_W) | BIT(WGRAD_DY) | BIT(WGRAD_X));
    teardown(&f);
}

static void test_pad_when_blocks_are_square_then_both_extents_count(void **s) {
    (void)s;
    fixture f;
    setup(&f, 32, 32, 40, blocks(1, 16, MPT_PAD_ZERO));
    f.up->slot[MPT_SLOT_FPROP_W] = blocks(16, 16, MPT_PAD_BF16);
    assert_int_equal(cast_slots(&f), BIT(FPROP_W));
    teardown(&f);
}

/* A rotation of one operand alone would not cancel, so the other one leaves it too. */
static void test_pad_when_rotated_then_both_operands_fall_back_together(void **s) {
    (void)s;
    fixture f;
    setup(&f, 48, 32, 32, blocks(1, 16, MPT_PAD_BF16));
    f.up->slot[MPT_SLOT_WGRAD_DY].hadamard.size = f.up->slot[MPT_SLOT_WGRAD_X].hadamard.size =
        16;
    f.up->slot[MPT_SLOT_WGRAD_X].block_cols = 32; /* which 48 is no multiple of */
    assert_int_equal(cast_slots(&f), BIT(WGRAD_DY) | BIT(WGRAD_X));
    teardown(&f);
}

static void refused(fixture *f, const char *message) {
    assert_int_equal(mpt_graph_settle_pads(f->graph, f->policies), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(f->ctx)->message, message);
    teardown(f);
}

static void test_pad_when_error_then_layer_extent_block_and_rule_are_named(void **s) {
    (void)s;
    fixture f;
    setup(&f, 1, 712, 896, blocks(1, 16, MPT_PAD_ERROR));
    refused(&f, "r.lua:7: layers.0.up.fprop.x.pad: 712 in features are no multiple of 16; take "
                "pad = \"zero\" or pad = \"bf16\", or in features that are a multiple of 16");
    setup(&f, 32, 32, 40, blocks(16, 16, MPT_PAD_ERROR));
    refused(&f, "r.lua:7: layers.0.up.fprop.w.pad: 40 out features are no multiple of 16; take "
                "pad = \"zero\" or pad = \"bf16\", or out features that are a multiple of 16");
}

/* P53: 40 tokens under a rotation of 16 along the tokens. */
static void test_pad_when_p53_tokens_do_not_divide_by_the_rotation_then_named(void **s) {
    (void)s;
    fixture f;
    setup(&f, 40, 32, 32, blocks(1, 8, MPT_PAD_ERROR));
    f.up->slot[MPT_SLOT_WGRAD_DY].hadamard.size = f.up->slot[MPT_SLOT_WGRAD_X].hadamard.size =
        16;
    refused(&f,
            "r.lua:7: layers.0.up.wgrad.dy.pad: 40 tokens are no multiple of 16; take pad = "
            "\"zero\" or pad = \"bf16\", or tokens that are a multiple of 16");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_pad_when_zero_then_every_operand_keeps_its_format),
    cmocka_unit_test(test_pad_when_bf16_then_operands_that_fit_stay),
    cmocka_unit_test(test_pad_when_p50_one_row_of_712_then_only_896_stays),
    cmocka_unit_test(test_pad_when_blocks_are_square_then_both_extents_count),
    cmocka_unit_test(test_pad_when_rotated_then_both_operands_fall_back_together),
    cmocka_unit_test(test_pad_when_error_then_layer_extent_block_and_rule_are_named),
    cmocka_unit_test(test_pad_when_p53_tokens_do_not_divide_by_the_rotation_then_named),
};

MPT_TEST_MAIN(cases)
