/* Which quantizers may be written: the generator of the property tests against the gate of the
 * recipe, in both directions. */
#include "any_quantizer.h"

#include "recipe/schema.h"

static bool accepted(mpt_ctx *ctx, const mpt_quantizer *q) {
    return mpt_quantizer_validate(ctx, q, "use.weight", (mpt_where){0}) == MPT_OK;
}

static void test_generator_when_it_draws_then_the_recipe_takes_it(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        mpt_quantizer q = any_quantizer(&random);
        char text[256];
        if (!accepted(ctx, &q))
            fail_msg("%s: %s", any_text(&q, text, sizeof text), mpt_ctx_error(ctx)->message);
    }
    mpt_ctx_destroy(ctx);
}

/* Any combination of fields, sensible or not. */
static mpt_quantizer drawn_from_all(uint64_t *random) {
    static const int32_t block[][2] = {{0, 0},   {1, 0},   {1, 16},  {1, 32},
                                       {1, 128}, {16, 16}, {32, 32}, {128, 128}};
    mpt_quantizer q = {.name = "any", .format = any_narrow(random)};
    uint32_t b = any_below(random, MPT_COUNT(block));
    q.block_rows = block[b][0];
    q.block_cols = block[b][1];
    q.scale.kind =
        (mpt_scaling)(any_below(random, 4) ? MPT_SCALING_CURRENT : (int)any_below(random, 4));
    q.scale.value = 1;
    q.scale_format = (mpt_scale_format)any_below(random, 4);
    q.scale_rule.kind = (mpt_scale_rule_kind)any_below(random, 6);
    q.outer = (mpt_outer)(any_below(random, 2) ? any_below(random, 3) : 0);
    q.headroom = any_below(random, 4) ? 1 : 0.75;
    q.rounding = (mpt_rounding)(any_below(random, 2) ? any_below(random, 4) : 0);
    q.hadamard = (mpt_hadamard){.size = any_below(random, 4) ? 0 : 16, .seed = -1};
    return q;
}

/* The table of what goes together, one line a scale format. */
static bool goes_together(const mpt_quantizer *q) {
    bool tensor = q->block_rows == 0 && q->block_cols == 0;
    mpt_scale_rule_kind rule = q->scale_rule.kind;
    if (q->scale.kind == MPT_SCALING_NONE)
        return false;
    if (q->scale.kind != MPT_SCALING_CURRENT && (!tensor || q->scale_format > MPT_SCALE_POW2))
        return false;
    if (q->scale_format != MPT_SCALE_E4M3 && q->outer != MPT_OUTER_NONE)
        return false;
    switch (q->scale_format) {
    case MPT_SCALE_FP32:
        return rule == MPT_RULE_NEAREST;
    case MPT_SCALE_POW2:
        return rule == MPT_RULE_UP;
    case MPT_SCALE_E8M0:
        return rule >= MPT_RULE_UP && rule <= MPT_RULE_EVEN;
    case MPT_SCALE_E4M3:
        break;
    }
    if (tensor || (q->outer == MPT_OUTER_ROW && q->block_rows != 1))
        return false;
    return rule == MPT_RULE_NEAREST ||
           (rule == MPT_RULE_FOUR_OVER_SIX && q->format == MPT_DTYPE_E2M1 &&
            q->outer != MPT_OUTER_NONE && q->rounding == MPT_ROUNDING_NEAREST &&
            q->hadamard.size == 0 && q->headroom == 1);
}

static void test_recipe_when_any_combination_then_taken_as_the_table_says(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    uint64_t random = 2;
    int taken = 0, chosen = 0;
    for (int i = 0; i < 60000; i++) {
        mpt_quantizer q = drawn_from_all(&random);
        char text[256];
        if (accepted(ctx, &q) != goes_together(&q))
            fail_msg("%s: the recipe and the table do not agree",
                     any_text(&q, text, sizeof text));
        taken += goes_together(&q);
        chosen += goes_together(&q) && q.scale_rule.kind == MPT_RULE_FOUR_OVER_SIX;
    }
    assert_true(taken > 3000 && taken < 57000 && chosen > 20);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_generator_when_it_draws_then_the_recipe_takes_it),
    cmocka_unit_test(test_recipe_when_any_combination_then_taken_as_the_table_says),
};

MPT_TEST_MAIN(cases)
