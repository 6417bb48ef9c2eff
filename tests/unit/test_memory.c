/* What a run takes against what its plan says: within a tenth, in every class of recipe. */
#include "mpt_test.h"

#include "lua_test.h"
#include "runtime/pipeline.h"

static double share_of_plan(const char *precision, const char *train, bool step) {
    char text[1024];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    mpt_step_result result;
    snprintf(
        text, sizeof text,
        "return recipe { name = 'm', model = require 'models.gpt2' { n_layer = 4, n_embd = "
        "256, n_head = 4, n_positions = 128, vocab_size = 512 }, precision = %s, train = { "
        "steps = 4, batch = 4, sequence = 128, optimizer = adamw { }, clip = 1.0, lr = "
        "constant { peak = 1e-3 }%s } }",
        precision, train);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, &recipe));
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    assert_mpt_ok(ctx, mpt_trainer_create(program, NULL, &trainer));
    if (step)
        assert_mpt_ok(ctx, mpt_trainer_step(trainer, NULL, &result));
    double planned = (double)mpt_program_get_info(program).bytes_total;
    double share = (double)mpt_ctx_memory(ctx).peak_bytes / planned;
    mpt_trainer_destroy(trainer);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
    return share;
}

static void test_run_when_p78_measured_then_its_peak_is_within_a_tenth_of_the_plan(void **s) {
    (void)s;
    static const char *const precisions[] = {"presets.fp32", "presets.bf16", "presets.nvfp4",
                                             "presets.fp8_delayed"};
    static const char *const trains[] = {"", ", micro_batch = 1",
                                         ", recompute = { every = 1 }"};
    for (size_t p = 0; p < MPT_COUNT(precisions); p++)
        for (size_t t = 0; t < MPT_COUNT(trains); t++) {
            double share = share_of_plan(precisions[p], trains[t], p + t == 0);
            if (!(share > 0.9 && share < 1.1))
                fail_msg("%s%s: peak is %.3f of the plan", precisions[p], trains[t], share);
        }
}

/* Bytes of working weights that a plan says, on the host. */
static size_t working_weights(const char *precision) {
    char text[512];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program;
    snprintf(
        text, sizeof text,
        "return recipe { name = 'm', model = require 'models.gpt2' { n_layer = 4, n_embd = "
        "256, n_head = 4, n_positions = 128, vocab_size = 512 }, precision = %s, train = { "
        "steps = 4, batch = 4, sequence = 128, optimizer = adamw { }, clip = 1.0, lr = "
        "constant { peak = 1e-3 } } }",
        precision);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, &recipe));
    assert_mpt_ok(ctx, mpt_compile(recipe, NULL, &program));
    size_t bytes = program->phases[0]->bytes[MPT_MEMORY_WORKING_WEIGHTS];
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return bytes;
}

/* Blocks along a row are other blocks down the columns, so that both layouts are kept; one
 * scale a tensor turns round, and one copy does. */
static void test_plan_when_p78_both_layouts_are_kept_then_weights_are_larger(void **s) {
    (void)s;
    size_t bf16 = working_weights("presets.bf16");
    size_t one = working_weights("{ rules = { rule { 'linear', use = e4m3 } } }");
    size_t both = working_weights("{ rules = { rule { 'linear', use = mxfp8 } } }");
    assert_true(both > one && both > bf16 + bf16 / 2);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_run_when_p78_measured_then_its_peak_is_within_a_tenth_of_the_plan),
    cmocka_unit_test(test_plan_when_p78_both_layouts_are_kept_then_weights_are_larger),
};

MPT_TEST_MAIN(cases)
