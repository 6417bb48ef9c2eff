/* train.eval.use: evaluation in a precision of its own, which training does not feel. */
#include "mpt_test.h"

#include <math.h>

#include "lua_test.h"
#include "train_rig.h"

static void choose_delayed(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    (void)ud;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            policies[i].slot[slot] =
                (mpt_quantizer){.name = "e4m3",
                                .format = MPT_DTYPE_E4M3,
                                .scale = {.kind = MPT_SCALING_DELAYED, .history = 4 + phase}};
}

static void choose_four_bit(const void *ud, const mpt_graph *graph, int phase,
                            mpt_policy *policies) {
    (void)ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++)
        for (int slot = 0; slot <= MPT_SLOT_FPROP_W; slot++)
            assert_true(mpt_quantizer_by_name("mxfp4", &policies[i].slot[slot]));
}

typedef struct outcome {
    uint64_t state;
    double loss; /* of the last evaluation */
    char steps[16384];
} outcome;

/* Six steps over two phases, an evaluation after each. */
static void run(rig_choose_fn eval, bool evaluate, int n_threads, outcome *out) {
    rig r;
    rig_options o = rig_defaults();
    mpt_scale_view view;
    o.choose = choose_delayed;
    o.choose_eval = eval;
    o.n_threads = n_threads;
    o.micro_batch = 2;
    o.switch_at = 3;
    rig_init(&r, &o);
    for (int i = 0; i < 6; i++) {
        (void)rig_step(&r);
        if (evaluate)
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 3, &out->loss));
    }
    out->state = rig_state_hash(&r);
    for (int i = 0; mpt_trainer_scale(r.trainer, i, &view); i++)
        out->state = out->state * 31 + mpt_hash(&view.scale, sizeof view.scale) +
                     mpt_hash(view.amax_history, (size_t)view.n_history * sizeof(float));
    out->steps[0] = 0;
    for (char *line = strtok(r.lines, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, "\"event\":\"eval\""))
            strncat(out->steps, line, sizeof out->steps - strlen(out->steps) - 1);
    rig_deinit(&r);
}

static void test_eval_when_it_has_a_precision_then_training_is_the_same_bits(void **s) {
    (void)s;
    outcome plain, own, never;
    run(NULL, true, 1, &plain);
    run(choose_four_bit, true, 1, &own);
    run(NULL, false, 1, &never);
    assert_true(plain.state == own.state && plain.state == never.state);
    assert_string_equal(plain.steps, own.steps);
    assert_string_equal(plain.steps, never.steps);
    assert_true(own.loss != plain.loss && fabs(own.loss - plain.loss) < 0.5);
}

static void test_eval_when_threads_differ_then_its_loss_is_the_same_bits(void **s) {
    (void)s;
    outcome one, two;
    run(choose_four_bit, true, 1, &one);
    run(choose_four_bit, true, 2, &two);
    assert_true(one.loss == two.loss);
}

static void choose_wide(const void *ud, const mpt_graph *graph, int phase,
                        mpt_policy *policies) {
    (void)ud;
    (void)graph;
    (void)phase;
    (void)policies; /* BF16 as they are */
}

/* With the precision that training has anyway, an evaluation gives the very same loss. */
static void test_eval_when_its_precision_is_that_of_training_then_the_same_loss(void **s) {
    (void)s;
    double loss[2];
    for (int own = 0; own < 2; own++) {
        rig r;
        rig_options o = rig_defaults();
        o.choose = choose_wide;
        o.choose_eval = own ? choose_wide : NULL;
        rig_init(&r, &o);
        (void)rig_step(&r);
        assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 5, &loss[own]));
        rig_deinit(&r);
    }
    assert_true(loss[0] == loss[1]);
}

/* ---- the words ---- */

#define MODEL                                                                                  \
    "local m = model { name = 'm', sizes = { s = { w = 16 } }, graph = function(nn, size)\n"   \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  x = nn.block(0, function() return nn.linear { 'up', x, out = size.w } end)\n"           \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"       \
    "return recipe { model = m 's', proxy = m 's', allow = { 'no-warmup' },\n"                 \
    "precision = { rules = { rule { 'linear', use = nvfp4 } } },\n"

static mpt_recipe *load(mpt_ctx *ctx, const char *eval, const char *rest) {
    char text[4096];
    snprintf(text, sizeof text,
             MODEL "train = { steps = 4, batch = 2, sequence = 16, lr = constant { peak = 1e-2 "
                   "},\n%s%s },\n%s }",
             *eval ? "eval = " : "", eval, rest);
    return mpt_lua_load(ctx, text);
}

static bool keep(void *ud, const char *text, size_t length) {
    mpt_str_append(ud, text, length);
    return true;
}

static void test_eval_when_use_is_said_then_the_schedule_and_the_plan_show_it(void **s) {
    (void)s;
    static const struct {
        const char *eval, *line;
    } cases[] = {
        {"{ use = bf16 }", "bf16 in fprop of all linear layers"},
        {"{ use = gemm { weight = mxfp8, output = fp32 } }",
         "fprop.w mxfp8 1x32, output fp32 in fprop of all linear layers"},
        {"{ every = 2, use = e4m3 { rounding = \"toward_zero\" } }",
         "e4m3 tensor toward_zero in fprop of all linear layers"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *r = load(ctx, cases[i].eval,
                             "phases = { phase { 'a' }, phase { 'b', from = "
                             "0.5, use = bf16 } }");
        mpt_program *program;
        mpt_str plan, order;
        mpt_str_init(&plan, ctx);
        mpt_str_init(&order, ctx);
        assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
        assert_int_equal(program->n_warnings, 0);
        assert_int_equal(program->n_evals, 2);
        assert_mpt_ok(ctx, mpt_program_print(program, MPT_PRINT_PLAN, NULL, keep, &plan));
        assert_mpt_ok(ctx, mpt_program_print(program, MPT_PRINT_STAGE, "order", keep, &order));
        if (!strstr(plan.data, cases[i].line))
            fail_msg("no '%s' in:\n%s", cases[i].line, plan.data);
        assert_non_null(strstr(order.data, "\nevaluation in phase a: "));
        const char *last = strstr(order.data, "\nevaluation in phase b: ");
        assert_non_null(last);
        assert_null(strstr(last, "linear_dgrad"));
        assert_null(strstr(last, "adamw"));
        mpt_str_deinit(&plan);
        mpt_str_deinit(&order);
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, r);
    }
}

/* Phase rules give way to it, and the head keeps what it has. */
static void test_eval_when_resolved_then_only_fprop_of_linear_layers_changes(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load(ctx, "{ use = e5m2 }",
                         "phases = { phase { 'a', rules = { rule { 'linear', use = mxfp8 },\n"
                         "rule { 'head', use = fp16 } } } }");
    mpt_program *program;
    assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
    const mpt_phase_program *eval = program->evals[0];
    for (int i = 0; i < eval->graph->n_layers; i++) {
        const mpt_layer *layer = &eval->graph->layers[i];
        const mpt_policy *policy = &eval->policies[i];
        bool linear = layer->kind == MPT_LAYER_LINEAR;
        if (!linear && layer->kind != MPT_LAYER_HEAD)
            continue;
        assert_int_equal(policy->slot[MPT_SLOT_FPROP_X].format,
                         linear ? MPT_DTYPE_E5M2 : MPT_DTYPE_FP16);
        assert_int_equal(policy->slot[MPT_SLOT_WGRAD_X].format,
                         linear ? MPT_DTYPE_E4M3 : MPT_DTYPE_FP16);
    }
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, r);
}

/* How fprop sums up is something to say of it too. */
static void test_eval_when_only_the_sums_are_said_then_it_is_taken(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r =
        load(ctx, "{ use = gemm { fprop = { promote = 16, accumulate = bf16 } } }", "");
    mpt_program *program;
    assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
    const mpt_phase_program *eval = program->evals[0];
    for (int i = 0; i < eval->graph->n_layers; i++)
        if (eval->graph->layers[i].kind == MPT_LAYER_LINEAR)
            assert_int_equal(eval->policies[i].promote[MPT_GEMM_FPROP], 16);
    mpt_program_destroy(program);
    mpt_lua_finish(ctx, r);
}

static void test_eval_when_use_is_set_by_text_then_the_same_and_no_hash_changes(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    char hash[2][17];
    mpt_recipe *lua = load(ctx, "{ every = 2, use = nvfp4 { rounding = 'toward_zero' } }", "");
    mpt_recipe *host = load(ctx, "", "");
    assert_mpt_ok(ctx, mpt_recipe_set(host, "train.eval.every", "2"));
    assert_mpt_ok(ctx, mpt_recipe_set(host, "train.eval.use", "nvfp4 rounding=toward_zero"));
    for (int s_ = MPT_SLOT_FPROP_X; s_ <= MPT_SLOT_FPROP_W; s_++)
        assert_true(mpt_quantizer_equal(&lua->train.eval_use->use.slot[s_].q,
                                        &host->train.eval_use->use.slot[s_].q));
    assert_true(mpt_recipe_train(host, true).eval_use == host->train.eval_use);
    assert_mpt_ok(ctx, mpt_recipe_set(host, "train.proxy.eval.use", "bf16"));
    mpt_train proxy = mpt_recipe_train(host, true);
    assert_true(proxy.eval_use != host->train.eval_use && proxy.eval_every == 2);
    assert_mpt_ok(ctx, mpt_recipe_hash(lua, hash[0]));
    assert_mpt_ok(ctx, mpt_recipe_hash(host, hash[1]));
    assert_string_equal(hash[0], hash[1]);
    mpt_recipe_destroy(lua);
    mpt_lua_finish(ctx, host);
}

static void test_eval_when_use_is_wrong_then_the_way_out_is_named(void **s) {
    (void)s;
    static const struct {
        const char *eval, *message;
    } cases[] = {
        {"{ use = gemm { gradient = bf16 } }",
         "r.lua:8: train.eval.use: it says nothing of fprop, which is all that evaluation "
         "runs; "
         "name a format, or operands of fprop: use = bf16"},
        {"{ use = e4m3 { scale = delayed {} } }",
         "r.lua:8: train.eval.use: delayed scaling has no history in an evaluation; give scale "
         "= current {}"},
        {"{ use = gemm { fprop = { hadamard = hadamard { size = 16 } }, weight = nvfp4 { block "
         "= {16, 16} } } }",
         "r.lua:8: layers.0.up.fprop.hadamard: the weight has square blocks of 16x16; rotate "
         "wgrad only, or give the weight blocks of {1, 16}"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_program *program;
        mpt_recipe *r = load(ctx, cases[i].eval, "");
        assert_int_equal(mpt_compile(r, NULL, &program), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, cases[i].message);
        mpt_lua_finish(ctx, r);
    }
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load(ctx, "", "");
    assert_int_equal(mpt_recipe_set(r, "train.eval.use", "nvpf4"), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->text, "train.eval.use: no format 'nvpf4'");
    mpt_lua_finish(ctx, r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_eval_when_it_has_a_precision_then_training_is_the_same_bits),
    cmocka_unit_test(test_eval_when_threads_differ_then_its_loss_is_the_same_bits),
    cmocka_unit_test(test_eval_when_its_precision_is_that_of_training_then_the_same_loss),
    cmocka_unit_test(test_eval_when_use_is_said_then_the_schedule_and_the_plan_show_it),
    cmocka_unit_test(test_eval_when_resolved_then_only_fprop_of_linear_layers_changes),
    cmocka_unit_test(test_eval_when_only_the_sums_are_said_then_it_is_taken),
    cmocka_unit_test(test_eval_when_use_is_set_by_text_then_the_same_and_no_hash_changes),
    cmocka_unit_test(test_eval_when_use_is_wrong_then_the_way_out_is_named),
};

MPT_TEST_MAIN(cases)
