/* Phases in time: where they start and what is counted, the rule that `use` stands for, and the
 * histories that one phase records for the next. */
#include "mpt_test.h"

#include <math.h>

#include "lua_test.h"
#include "models.h"
#include "train_rig.h"

/* ---- where phases start ---- */

#define TRAIN                                                                                  \
    "allow = { 'no-warmup' }, train = { steps = 100, batch = 2, sequence = 8, lr = constant "  \
    "{ peak = 1e-3 } },\n"

static void test_phases_when_starts_are_written_differently_then_steps_are_the_same(void **s) {
    (void)s;
    static const char *const starts[] = {"from = 25", "steps = 25", "from = 0.25",
                                         "tokens = 400", "tokens = 385"};
    mpt_ctx *ctx = mpt_test_ctx();
    for (size_t i = 0; i < MPT_COUNT(starts); i++) {
        char fields[512];
        mpt_program *program;
        snprintf(fields, sizeof fields, TRAIN "phases = { phase { 'a' }, phase { 'b', %s } }",
                 starts[i]);
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
        assert_int_equal(program->phase_start[1], 25);
        assert_false(mpt_program_by_applied(program, 1));
        mpt_program_destroy(program);
        mpt_recipe_destroy(r);
    }
    mpt_ctx_destroy(ctx);
}

static void test_freeze_when_starts_are_wrong_then_the_way_out_is_named(void **s) {
    (void)s;
    static const struct {
        const char *phases, *message;
    } cases[] = {
        {"phase { 'a' }, phase { 'b', from = 0.5, tokens = 80 }",
         "r.lua:6: phases[2]: from and tokens both say where 'b' starts; give one of them"},
        {"phase { 'a' }, phase { 'b', steps = 5, tokens = 80 }",
         "r.lua:6: phases[2]: steps and tokens both say where 'b' starts; give one of them"},
        {"phase { 'a', tokens = 80 }", "r.lua:6: phases[1].tokens: the first phase starts with "
                                       "the run; leave its tokens out"},
        {"phase { 'a' }, phase { 'b', tokens = 80 }, phase { 'c', steps = 5 }",
         "r.lua:6: phases[3].steps: 'c' does not start after 'b'; list phases in the order in "
         "which they start"},
        {"phase { 'a' }, phase { 'b', tokens = 80 }, phase { 'c', tokens = 79 }",
         "r.lua:6: phases[3].tokens: 'c' does not start after 'b'; list phases in the order in "
         "which they start"},
        {"phase { 'a' }, phase { 'b', steps = 0 }",
         "r.lua:6: phases[2].steps: 'b' does not start after 'a'; list phases in the order in "
         "which they start"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        char fields[512];
        mpt_ctx *ctx = mpt_test_ctx();
        snprintf(fields, sizeof fields, TRAIN "phases = { %s }", cases[i].phases);
        mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
        assert_int_equal(mpt_recipe_freeze(r), MPT_INVALID);
        assert_string_equal(mpt_ctx_error(ctx)->message, cases[i].message);
        mpt_lua_finish(ctx, r);
    }
}

static void test_lua_when_a_field_is_wrong_then_refused_at_its_line(void **s) {
    (void)s;
    mpt_lua_refuse_fields("phases = { phase { 'a', by = 'aplied' } }",
                          "r.lua:5: phases[1].by: no value 'aplied'; did you mean 'applied'?");
    mpt_lua_refuse_fields("phases = { phase { 'a', warm_histories = 1 } }",
                          "r.lua:5: phases[1].warm_histories: cannot be 1; give true or false");
    mpt_lua_refuse_fields("phases = { phase { 'a', use = 'bf16' } }",
                          "r.lua:5: phases[1].use: cannot be a text; formats are values: write "
                          "bf16 without quotes");
    mpt_lua_refuse_fields(
        "phases = { phase { 'a', steps = -1 } }",
        "r.lua:5: phases[1].steps: out of range: -1; give a whole number of 0 "
        "or more");
}

/* ---- what is counted ---- */

static void skip_one(rig *r) {
    int64_t n;
    float *weight = rig_weights(r, "lm_head.weight", &n), kept = weight[0];
    weight[0] = INFINITY;
    assert_true(rig_step(r).skipped);
    weight[0] = kept;
}

static void test_phase_when_by_applied_then_skipped_steps_put_it_off(void **s) {
    (void)s;
    for (int by_applied = 0; by_applied < 2; by_applied++) {
        rig r;
        rig_options o = rig_defaults();
        o.switch_at = 3;
        o.by_applied = by_applied;
        rig_init(&r, &o);
        rig_step(&r);
        skip_one(&r);
        skip_one(&r);
        for (int step = 3; step < 6; step++) {
            mpt_step_result result = rig_step(&r);
            bool settled = step >= (by_applied ? 5 : 3);
            assert_int_equal(result.step, step);
            assert_string_equal(result.phase, settled ? "settle" : "main");
        }
        assert_non_null(strstr(
            r.lines, by_applied ? "{\"event\":\"phase\",\"step\":5,\"phase\":\"settle\""
                                : "{\"event\":\"phase\",\"step\":3,\"phase\":\"settle\""));
        rig_deinit(&r);
    }
}

/* The third phase's step comes while the second waits for applied ones: the last due one runs.
 */
static void test_phase_when_put_off_past_the_next_then_the_next_runs(void **s) {
    (void)s;
    rig r;
    rig_options o = rig_defaults();
    o.switch_at = 2;
    o.switch_again = 3;
    o.by_applied = true;
    rig_init(&r, &o);
    r.applied[2] = false;
    rig_step(&r);
    skip_one(&r);
    skip_one(&r);
    assert_string_equal(rig_step(&r).phase, "end");
    assert_null(strstr(r.lines, "settle"));
    rig_deinit(&r);
}

static bool keep(void *ud, const char *text, size_t length) {
    mpt_str_append(ud, text, length);
    return true;
}

/* What mptrun plan prints of a recipe of these fields, in one form; the caller frees it. */
static mpt_str print(mpt_ctx *ctx, const char *fields, mpt_print what, const char *arg) {
    mpt_recipe *r = mpt_lua_load_fields(ctx, fields);
    mpt_program *program;
    mpt_str out;
    mpt_str_init(&out, ctx);
    assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
    assert_mpt_ok(ctx, mpt_program_print(program, what, arg, keep, &out));
    mpt_program_destroy(program);
    mpt_recipe_destroy(r);
    return out;
}

static void expect_print(const char *fields, mpt_print what, const char *arg,
                         const char *text) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str out = print(ctx, fields, what, arg);
    if (!strstr(out.data, text))
        fail_msg("no '%s' in:\n%s", text, out.data);
    mpt_str_deinit(&out);
    mpt_ctx_destroy(ctx);
}

static void test_plan_when_by_applied_then_it_says_about(void **s) {
    (void)s;
    static const char fields[] =
        TRAIN "phases = { phase { 'a' }, phase { 'b', from = 0.25, by = 'applied' } }";
    expect_print(fields, MPT_PRINT_PLAN, NULL,
                 "b: after 25 applied steps, at the step given where none is skipped");
    expect_print(fields, MPT_PRINT_PLAN, NULL, "about 25");
    expect_print(fields, MPT_PRINT_SCHEDULE, NULL, "phase b from about step 25, schedule ");
    expect_print(fields, MPT_PRINT_STAGE, "order", "phase b from about step 25, schedule ");
    expect_print(fields, MPT_PRINT_JSON, NULL, "\"by\": \"applied\"");
}

/* ---- use ---- */

#define BLOCKS                                                                                 \
    "local m = model { name = 'm', sizes = { s = { w = 16 } }, graph = function(nn, size)\n"   \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  x = nn.block(0, function() return nn.linear { 'up', x, out = size.w } end)\n"           \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"       \
    "return recipe { model = m 's',\n"

static mpt_recipe *load_blocks(mpt_ctx *ctx, const char *fields) {
    char text[4096];
    snprintf(text, sizeof text, BLOCKS TRAIN "%s }", fields);
    return mpt_lua_load(ctx, text);
}

static void test_use_when_said_in_lua_or_by_calls_then_it_is_the_first_rule(void **s) {
    (void)s;
    static const char *const phases[] = {
        "phases = { phase { 'a' }, phase { 'b', from = 0.5, use = e4m3,\n"
        "  rules = { rule { 'linear', gemms = 'fprop', use = bf16 } } } }",
        "phases = { phase { 'a' }, phase { 'b', steps = 50, rules = { rule { 'linear',\n"
        "  use = e4m3 }, rule { 'linear', gemms = 'fprop', use = bf16 } } } }",
    };
    mpt_ctx *ctx = mpt_test_ctx();
    char hash[3][17];
    for (int i = 0; i < 3; i++) {
        mpt_recipe *r = load_blocks(ctx, i < 2 ? phases[i] : "");
        if (i == 2) {
            assert_mpt_ok(ctx, mpt_recipe_add_phase(r, "a", NULL));
            assert_mpt_ok(ctx, mpt_recipe_add_phase(r, "b", NULL));
            assert_mpt_ok(ctx,
                          mpt_recipe_add_rule(r, MPT_RULE(.phase = "b", .selector = "linear",
                                                          .gemms = "fprop", .use = "bf16")));
            assert_mpt_ok(ctx, mpt_recipe_set_phase(r, "b", "from", "0.5"));
            assert_mpt_ok(ctx, mpt_recipe_set_phase(r, "b", "use", "e4m3"));
        }
        if (i == 1) /* the same start, written as a step */
            assert_int_equal(mpt_phase_start(&r->phases[1], &r->train), 50);
        assert_int_equal(r->phases[1].n_rules, 2);
        assert_true(r->phases[1].rules[0].use.bare);
        assert_int_equal(r->phases[1].rules[0].use.slot[0].q.format, MPT_DTYPE_E4M3);
        assert_mpt_ok(ctx, mpt_recipe_hash(r, hash[i]));
        mpt_recipe_destroy(r);
    }
    assert_string_equal(hash[0], hash[2]);
    mpt_ctx_destroy(ctx);
}

static void test_use_when_refused_then_the_path_is_the_phases(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *r = load_blocks(ctx, "phases = { phase { 'a', use = gemm {} } }");
    assert_int_equal(mpt_recipe_freeze(r), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->text, "phases[1].use: it says nothing");
    assert_int_equal(mpt_recipe_set_phase(r, "a", "use", "nvpf4"), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->text, "phases[1].use: no format 'nvpf4'");
    assert_int_equal(mpt_recipe_set_phase(r, "b", "use", "nvfp4"), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->text, "phase: there is no phase 'b'");
    assert_int_equal(mpt_recipe_set_phase(r, "a", "form", "1"), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:5: phases[1]: no field 'form'; did you mean 'from'?");
    mpt_lua_finish(ctx, r);
}

static void test_rule_when_behind_use_then_it_is_counted_from_one(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_program *program;
    mpt_recipe *r = load_blocks(ctx, "phases = { phase { 'a', use = e4m3,\n"
                                     "rules = { rule { 'linaer', use = bf16 } } } }");
    assert_int_equal(mpt_compile(r, NULL, &program), MPT_INVALID);
    assert_string_equal(
        mpt_ctx_error(ctx)->message,
        "r.lua:8: phases[1].rules[1]: no layer matches 'linaer'; did you mean 'linear'?");
    mpt_lua_finish(ctx, r);
}

/* ---- histories ---- */

/* The quantizer of one slot of the head in each phase. */
typedef struct plan {
    mpt_slot slot;
    mpt_quantizer q[RIG_PHASES];
} plan;

static void choose_slot(const void *ud, const mpt_graph *graph, int phase,
                        mpt_policy *policies) {
    const plan *p = ud;
    policies[rig_layer(graph, "lm_head")].slot[p->slot] = p->q[phase];
}

static const mpt_quantizer wide = {.name = "bf16", .format = MPT_DTYPE_BF16};

static mpt_quantizer delayed(int32_t history) {
    return (mpt_quantizer){.name = "e4m3",
                           .format = MPT_DTYPE_E4M3,
                           .scale = {.kind = MPT_SCALING_DELAYED, .history = history}};
}

static rig_options warm_options(const plan *p, bool warm) {
    rig_options o = rig_defaults();
    o.draw = draw_lookup;
    o.choose = choose_slot;
    o.choose_ud = p;
    o.lr = 0; /* the table stays as it is written */
    o.switch_at = 3;
    o.warm = warm;
    return o;
}

/* One step on a table whose first row has this magnitude. */
static void step_with(rig *r, float most) {
    mpt_step_result result;
    int64_t n;
    float *table = rig_weights(r, "wte.weight", &n);
    for (int i = 0; i < LOOKUP_WIDTH; i++)
        table[i] = i == 3 ? -most : most / 4;
    for (int i = 0; i < 64; i++) {
        r->trainer->tokens[i] = 0;
        r->trainer->targets[i] = i % RIG_VOCAB;
    }
    assert_mpt_ok(r->ctx, mpt_trainer_step_batch(r->trainer, &result));
}

/* Scale and overflows of x in fprop at the first step of the delayed phase, whose values are
 * ten times what the phase before saw. */
static void test_histories_when_warm_then_the_first_step_takes_the_recorded_scale(void **s) {
    (void)s;
    for (int warm = 0; warm < 2; warm++)
        for (int ref = 0; ref < 2; ref++) {
            rig r;
            plan p = {MPT_SLOT_FPROP_X, {wide, delayed(4)}};
            rig_options o = warm_options(&p, warm);
            mpt_operand_view view;
            o.ref = ref;
            rig_init(&r, &o);
            step_with(&r, 2);
            step_with(&r, 8);
            step_with(&r, 4);
            assert_true(rig_scale(&r, "lm_head.fprop.x").scale == (warm ? 448.0f / 8 : 0));
            assert_false(mpt_trainer_operand(r.trainer, 0, &view));
            mpt_trainer_count_next(r.trainer);
            step_with(&r, 80);
            assert_true(mpt_trainer_operand(r.trainer, 0, &view));
            assert_string_equal(view.name, "lm_head.fprop.x");
            assert_int_equal(view.overflow, warm ? 64 * LOOKUP_WIDTH : 0);
            assert_true(rig_scale(&r, "lm_head.fprop.x").scale == 448.0f / 80);
            rig_deinit(&r);
        }
}

/* A phase that records changes no number of its own, and counts only what it quantizes. */
static void test_histories_when_recorded_then_training_is_the_same_bits(void **s) {
    (void)s;
    uint64_t hash[2];
    for (int warm = 0; warm < 2; warm++) {
        rig r;
        plan p = {MPT_SLOT_WGRAD_DY, {wide, delayed(4)}};
        rig_options o = warm_options(&p, warm);
        mpt_operand_view view;
        double loss;
        o.lr = 1e-2;
        o.switch_at = 6;
        rig_init(&r, &o);
        for (int i = 0; i < 5; i++) {
            mpt_trainer_count_next(r.trainer);
            (void)rig_step(&r);
            float scale = rig_scale(&r, "lm_head.wgrad.dy").scale;
            assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 2, &loss));
            assert_true(rig_scale(&r, "lm_head.wgrad.dy").amax_history[0] == 0);
            assert_true(rig_scale(&r, "lm_head.wgrad.dy").scale == scale);
            assert_true((scale > 0) == warm);
        }
        assert_false(mpt_trainer_operand(r.trainer, 0, &view));
        hash[warm] = rig_state_hash(&r);
        rig_deinit(&r);
    }
    assert_true(hash[0] == hash[1]);
}

/* Recording gives the scales that the delayed phase itself would have had: for rotated operands
 * too, on both sides, on both backends and whatever the threads. */
static void test_histories_when_recorded_then_scales_are_those_of_quantizing(void **s) {
    (void)s;
    static const mpt_slot slots[] = {MPT_SLOT_FPROP_X, MPT_SLOT_FPROP_W, MPT_SLOT_DGRAD_DY,
                                     MPT_SLOT_WGRAD_DY};
    for (size_t i = 0; i < 2 * MPT_COUNT(slots); i++) {
        float scale[6];
        plan p = {slots[i / 2], {wide, delayed(3)}};
        const char *name = mpt_slot_name(p.slot);
        char operand[64];
        snprintf(operand, sizeof operand, "lm_head.%s", name);
        if (i % 2)
            p.q[1].hadamard = (mpt_hadamard){.size = 8, .signs = MPT_SIGNS_RANDOM, .seed = -1};
        for (int k = 0; k < 6; k++) { /* quantizing or recording; ref, one thread, two */
            rig r;
            plan own = p;
            if (k % 2 == 0)
                own.q[0] = p.q[1];
            rig_options o = warm_options(&own, true);
            o.ref = k / 2 == 0;
            o.n_threads = 1 + k / 4;
            o.micro_batch = 2;
            rig_init(&r, &o);
            (void)rig_step(&r);
            (void)rig_step(&r);
            scale[k] = rig_scale(&r, operand).scale;
            rig_deinit(&r);
        }
        for (int k = 1; k < 6; k++)
            if (scale[k] != scale[0] || !(scale[k] > 0))
                fail_msg("%s, case %zu: way %d gives %g, way 0 gives %g", operand, i, k,
                         (double)scale[k], (double)scale[0]);
    }
}

#define DELAYED "e4m3 { scale = delayed { history = 16 } }"

static void test_plan_when_a_phase_enters_delayed_scaling_then_it_says_with_what(void **s) {
    (void)s;
    static const struct {
        const char *fields, *line, *word;
    } cases[] = {
        {"phases = { phase { 'a' }, phase { 'b', from = 0.5, use = " DELAYED
         ", warm_histories = true } }",
         "  b: 3 operands enter delayed scaling, by histories that 'a' records\n",
         "\"histories\": \"warm\""},
        {"phases = { phase { 'a' }, phase { 'b', from = 0.5, use = " DELAYED " } }",
         "  b: 3 operands enter delayed scaling, with current scales at the first step\n",
         "\"histories\": \"current\""},
        {"phases = { phase { 'a', use = " DELAYED " }, phase { 'b', from = 0.5,\n"
         "rules = { rule { 'linear', gemms = 'fprop', use = bf16 } } } }",
         "phases\n", "\"histories\": \"none\""},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *r = load_blocks(ctx, cases[i].fields);
        mpt_program *program;
        mpt_str out;
        mpt_str_init(&out, ctx);
        assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
        assert_mpt_ok(ctx, mpt_program_print(program, MPT_PRINT_PLAN, NULL, keep, &out));
        assert_mpt_ok(ctx, mpt_program_print(program, MPT_PRINT_JSON, NULL, keep, &out));
        if (!strstr(out.data, cases[i].line) || !strstr(out.data, cases[i].word))
            fail_msg("case %zu:\n%s", i, out.data);
        mpt_str_deinit(&out);
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, r);
    }
}

static void test_check_when_a_word_of_a_phase_changes_nothing_then_no_effect(void **s) {
    (void)s;
    static const struct {
        const char *fields, *text;
    } cases[] = {
        {"phases = { phase { 'a', by = 'applied' } }",
         "phases[1].by: the first phase starts with the run, whatever is counted"},
        {"phases = { phase { 'a', warm_histories = true } }",
         "phases[1].warm_histories: no phase before it could record them"},
        {"phases = { phase { 'a' }, phase { 'b', steps = 9, use = e4m3, warm_histories = true "
         "} "
         "}",
         "phases[2].warm_histories: no operand enters delayed scaling in 'b'"},
        {"phases = { phase { 'a' }, phase { 'b', tokens = 1600 } }",
         "phases[2]: 'b' starts after the run's 100 steps"},
    };
    for (size_t i = 0; i < MPT_COUNT(cases); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *r = load_blocks(ctx, cases[i].fields);
        mpt_program *program;
        assert_mpt_ok(ctx, mpt_compile(r, NULL, &program));
        assert_int_equal(program->n_warnings, 1);
        assert_string_equal(program->warnings[0].name, "no-effect");
        assert_string_equal(program->warnings[0].text, cases[i].text);
        assert_int_equal(program->warnings[0].where.line, 7);
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, r);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_phases_when_starts_are_written_differently_then_steps_are_the_same),
    cmocka_unit_test(test_freeze_when_starts_are_wrong_then_the_way_out_is_named),
    cmocka_unit_test(test_lua_when_a_field_is_wrong_then_refused_at_its_line),
    cmocka_unit_test(test_phase_when_by_applied_then_skipped_steps_put_it_off),
    cmocka_unit_test(test_phase_when_put_off_past_the_next_then_the_next_runs),
    cmocka_unit_test(test_plan_when_by_applied_then_it_says_about),
    cmocka_unit_test(test_use_when_said_in_lua_or_by_calls_then_it_is_the_first_rule),
    cmocka_unit_test(test_use_when_refused_then_the_path_is_the_phases),
    cmocka_unit_test(test_rule_when_behind_use_then_it_is_counted_from_one),
    cmocka_unit_test(test_histories_when_warm_then_the_first_step_takes_the_recorded_scale),
    cmocka_unit_test(test_histories_when_recorded_then_training_is_the_same_bits),
    cmocka_unit_test(test_histories_when_recorded_then_scales_are_those_of_quantizing),
    cmocka_unit_test(test_plan_when_a_phase_enters_delayed_scaling_then_it_says_with_what),
    cmocka_unit_test(test_check_when_a_word_of_a_phase_changes_nothing_then_no_effect),
};

MPT_TEST_MAIN(cases)
