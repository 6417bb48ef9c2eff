/* What a plan says of masters, gradients and optimizer against what a run allocates for them:
 * equal to the byte on the host, where every number takes four; and what the formats take on a
 * device, where FP16 or BF16 with AdamW in FP32 is 16 bytes a parameter (P78 for the state). */
#include "mpt_test.h"

#include "lua_test.h"
#include "plan/plan.h"
#include "runtime/pipeline.h"
#include "train/state.h"

static mpt_program *compile(mpt_ctx *ctx, const char *precision, const char *optimizer,
                            mpt_target target, mpt_recipe **recipe) {
    char text[1024];
    mpt_program *program;
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.target = target;
    snprintf(
        text, sizeof text,
        "return recipe { name = 'm', model = require 'models.gpt2' { n_layer = 2, n_embd = "
        "64, n_head = 4, n_positions = 32, vocab_size = 256 }, precision = { %s }, train "
        "= { steps = 4, batch = 4, sequence = 32, optimizer = %s, clip = 1.0, lr = "
        "constant { peak = 1e-3 } }, allow = { 'lost-update', 'no-effect' } }",
        precision, optimizer);
    assert_mpt_ok(ctx, mpt_recipe_load_string(ctx, "m.lua", text, strlen(text), NULL, recipe));
    assert_mpt_ok(ctx, mpt_compile(*recipe, &options, &program));
    return program;
}

/* Bytes of the state's buffers by class, as they were allocated, padding left out. */
static void allocated(const mpt_program *program, size_t bytes[3]) {
    mpt_trainer *trainer;
    mpt_param_view view;
    assert_mpt_ok(program->ctx, mpt_trainer_create(program, NULL, &trainer));
    const mpt_graph *graph = program->phases[0]->graph;
    memset(bytes, 0, 3 * sizeof *bytes);
    for (int p = 0; mpt_trainer_param(trainer, p, &view); p++) {
        size_t n =
            sizeof(float) * (size_t)mpt_value_elements(&graph->values[graph->params[p].value]);
        bytes[0] += n;
        bytes[1] += n;
        for (int m = 0; m < 2; m++)
            bytes[2] += graph->params[p].moment[m] >= 0 ? n : 0;
    }
    mpt_scale_view scale;
    for (int i = 0; mpt_trainer_scale(trainer, i, &scale); i++)
        bytes[2] += sizeof(float) * (size_t)(1 + scale.n_history);
    mpt_trainer_destroy(trainer);
}

typedef struct memory_row {
    const char *precision, *optimizer;
    double host, device; /* bytes a parameter */
} memory_row;

static const memory_row rows[] = {
    {"base = fp32", "adamw { }", 16, 16},
    {"base = bf16", "adamw { }", 16, 16},
    {"base = fp16, loss_scale = dynamic { }", "adamw { }", 16, 16},
    {"base = bf16", "sgd { momentum = 0 }", 8, 8},
    {"base = bf16", "sgd { momentum = 0.9 }", 12, 12},
    {"base = bf16, state = { adam_m = bf16, adam_v = bf16 }", "adamw { }", 16, 12},
    {"base = bf16, state = { master = bf16 { rounding = 'stochastic' }, gradient = bf16, "
     "adam_m "
     "= bf16, adam_v = bf16 }",
     "adamw { }", 16, 8},
    {"base = bf16, state = { master = fp16 { scale = current {} }, adam_m = e4m3, adam_v = "
     "fp16 "
     "{ scale = current {} } }",
     "adamw { }", 16, 9},
    {"base = bf16, state = { adam_m = e4m3 { block = {1, 128} }, adam_v = e5m2 { block = {1, "
     "128} } }",
     "adamw { }", 16, 10},
};

static const mpt_memory_class classes[] = {MPT_MEMORY_MASTER, MPT_MEMORY_GRADIENT,
                                           MPT_MEMORY_OPTIMIZER};

static void test_plan_when_a_run_allocates_then_it_is_what_was_planned(void **s) {
    (void)s;
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe;
        mpt_program *program =
            compile(ctx, rows[i].precision, rows[i].optimizer, MPT_TARGET_HOST, &recipe);
        size_t bytes[3], whole = 0;
        double n = (double)mpt_program_get_info(program).parameters;
        allocated(program, bytes);
        for (size_t c = 0; c < MPT_COUNT(classes); c++) {
            assert_int_equal(program->phases[0]->bytes[classes[c]], bytes[c]);
            whole += bytes[c];
        }
        assert_true((double)whole == rows[i].host * n);
        /* Each buffer begins on a line of its own: 64 bytes are lost on one, at most. */
        size_t block = mpt_state_bytes((mpt_phase_list){program->phases, program->n_phases});
        assert_true(block >= whole);
        assert_true(block < whole + 64 * 4 * (size_t)program->phases[0]->graph->n_params);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

/* Delayed scales and their histories are the optimizer's too. */
static void test_plan_when_scales_are_delayed_then_their_histories_are_counted(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program = compile(
        ctx, "rules = { rule { 'linear', use = e4m3 { scale = delayed { history = 16 } } } }",
        "adamw { }", MPT_TARGET_HOST, &recipe);
    size_t bytes[3];
    allocated(program, bytes);
    assert_int_equal(program->phases[0]->bytes[MPT_MEMORY_OPTIMIZER], bytes[2]);
    assert_true(bytes[2] > 2 * bytes[0]);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
}

static double device_bytes(const memory_row *row) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *recipe;
    mpt_program *program =
        compile(ctx, row->precision, row->optimizer, MPT_TARGET_SM90, &recipe);
    mpt_plan plan;
    mpt_arena arena;
    size_t whole = 0;
    mpt_arena_init(&arena, ctx);
    memset(&plan, 0, sizeof plan);
    plan.program = program;
    assert_mpt_ok(ctx, mpt_plan_sum_bytes(program, &plan));
    for (size_t c = 0; c < MPT_COUNT(classes); c++)
        whole += plan.bytes.of[classes[c]];
    double share = (double)whole / (double)mpt_program_get_info(program).parameters;
    mpt_arena_deinit(&arena);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return share;
}

/* Scales add a little: four bytes a block or a tensor. */
static void test_plan_when_for_a_device_then_16_bytes_a_parameter_and_less_in_less(void **s) {
    (void)s;
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        double got = device_bytes(&rows[i]);
        bool blocks = strstr(rows[i].precision, "block") != NULL;
        bool scales = blocks || strstr(rows[i].precision, "e4m3") != NULL;
        if (!(got >= rows[i].device &&
              got <= rows[i].device + (scales ? blocks ? 0.2 : 0.02 : 0)))
            fail_msg("%s: %.4f bytes a parameter, not %g", rows[i].precision, got,
                     rows[i].device);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_plan_when_a_run_allocates_then_it_is_what_was_planned),
    cmocka_unit_test(test_plan_when_scales_are_delayed_then_their_histories_are_counted),
    cmocka_unit_test(test_plan_when_for_a_device_then_16_bytes_a_parameter_and_less_in_less),
};

MPT_TEST_MAIN(cases)
