/* GEMMs that really ran: counted by the executor as training steps run, over phases, products
 * and formats, and by nothing else. */
#include "mpt_test.h"

#include "lua_test.h"
#include "models.h"
#include "train/trainer.h"
#include "writers.h"

/* Two linear layers in a block, and the head. */
#define MODEL                                                                                  \
    "local m = model { name = 'm', root = 'layers', sizes = { s = { w = 16 } },\n"             \
    "  graph = function(nn, size)\n"                                                           \
    "  local x = nn.embedding { 'e', nn.tokens(), out = size.w }\n"                            \
    "  x = nn.block(0, function()\n"                                                           \
    "    local h = nn.relu2 { nn.linear { 'up', x, out = 32 } }\n"                             \
    "    return nn.add(x, nn.linear { 'down', h, out = size.w }) end)\n"                       \
    "  nn.cross_entropy(nn.linear { 'head', x, out = nn.vocab(), head = true }) end }\n"

typedef struct run {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    mpt_str metrics;
} run;

static void open_run(run *r, const char *fields) {
    char text[4096];
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    r->ctx = mpt_test_ctx();
    mpt_str_init(&r->metrics, r->ctx);
    snprintf(text, sizeof text,
             MODEL "return recipe { model = m 's', %s train = { steps = 4, batch = 4, "
                   "micro_batch = 2, sequence = 16, lr = constant { peak = 1e-3 } },\n"
                   "data = synthetic { vocab = 32 }, allow = { 'no-warmup', 'all-fp4' } }",
             fields);
    r->recipe = mpt_lua_load(r->ctx, text);
    assert_mpt_ok(r->ctx, mpt_compile(r->recipe, NULL, &r->program));
    options.metrics = keep;
    options.metrics_ud = &r->metrics;
    assert_mpt_ok(r->ctx, mpt_trainer_create(r->program, &options, &r->trainer));
}

static void close_run(run *r) {
    mpt_trainer_destroy(r->trainer);
    mpt_program_destroy(r->program);
    mpt_recipe_destroy(r->recipe);
    mpt_str_deinit(&r->metrics);
    assert_int_equal(mpt_ctx_memory(r->ctx).live_bytes, 0);
    mpt_ctx_destroy(r->ctx);
}

static void take_steps(run *r, int n) {
    mpt_step_result result;
    for (int i = 0; i < n; i++)
        assert_mpt_ok(r->ctx, mpt_trainer_step(r->trainer, NULL, &result));
}

/* Runs of one product with one pair of operands; 0 where there is no such row. */
static uint64_t runs_of(const run *r, const char *gemm, const char *a, const char *b) {
    mpt_gemm_view view;
    for (int i = 0; mpt_trainer_gemm(r->trainer, i, &view); i++)
        if (strcmp(view.gemm, gemm) == 0 && strcmp(view.a, a) == 0 && strcmp(view.b, b) == 0)
            return view.runs;
    return 0;
}

static uint64_t all_runs(const run *r, bool quantized_only) {
    mpt_gemm_view view;
    uint64_t n = 0;
    for (int i = 0; mpt_trainer_gemm(r->trainer, i, &view); i++)
        n += view.quantized || !quantized_only ? view.runs : 0;
    return n;
}

#define FP8                                                                                    \
    "precision = { rules = { rule { 'linear', use = gemm { weight = e4m3, activation = e4m3, " \
    "gradient = e5m2 } } } },"

static void test_counts_when_steps_ran_then_layers_times_micro_batches(void **s) {
    (void)s;
    run r;
    open_run(&r, FP8);
    mpt_gemm_view view;
    assert_false(mpt_trainer_gemm(r.trainer, -1, &view));
    assert_int_equal(all_runs(&r, false), 0);
    take_steps(&r, 3);
    /* Three steps of two micro-batches: two layers in FP8, the head in BF16. */
    assert_int_equal(runs_of(&r, "fprop", "e4m3", "e4m3"), 3 * 2 * 2);
    assert_int_equal(runs_of(&r, "dgrad", "e5m2", "e4m3"), 3 * 2 * 2);
    assert_int_equal(runs_of(&r, "wgrad", "e5m2", "e4m3"), 3 * 2 * 2);
    assert_int_equal(runs_of(&r, "fprop", "bf16", "bf16"), 3 * 2);
    assert_int_equal(all_runs(&r, false), 3 * 2 * 3 * 3);
    assert_int_equal(all_runs(&r, true), 3 * 2 * 2 * 3);
    close_run(&r);
}

static void test_counts_when_phases_change_then_each_counts_what_it_ran(void **s) {
    (void)s;
    run r;
    open_run(&r, "phases = { phase { 'wide' }, phase { 'narrow', from = 3, use = nvfp4 } },");
    take_steps(&r, 3);
    assert_int_equal(all_runs(&r, true), 0);
    take_steps(&r, 1);
    assert_int_equal(all_runs(&r, true), 2 * 2 * 3);
    assert_int_equal(runs_of(&r, "fprop", "bf16", "bf16"), 2 * (3 * 3 + 1));
    close_run(&r);
}

static void test_counts_when_evaluated_or_asked_forward_then_unchanged(void **s) {
    (void)s;
    run r;
    double loss;
    static int32_t tokens[2 * 16], targets[2 * 16];
    mpt_forward_options forward = MPT_FORWARD_OPTIONS_INIT;
    forward.tokens = tokens;
    forward.targets = targets;
    forward.gradients = true;
    open_run(&r, FP8);
    take_steps(&r, 1);
    uint64_t before = all_runs(&r, false);
    assert_mpt_ok(r.ctx, mpt_trainer_eval(r.trainer, 2, &loss));
    assert_mpt_ok(r.ctx, mpt_trainer_forward(r.trainer, &forward, NULL, &loss));
    assert_int_equal(all_runs(&r, false), before);
    close_run(&r);
}

static void test_counts_when_blocks_are_recomputed_then_their_products_ran_twice(void **s) {
    (void)s;
    run kept, again;
    open_run(&kept, FP8);
    open_run(&again, FP8);
    mpt_trainer_destroy(again.trainer);
    mpt_program_destroy(again.program);
    mpt_recipe_destroy(again.recipe);
    static const char text[] = MODEL
        "return recipe { model = m 's', " FP8
        " train = { steps = 4, batch = 4, micro_batch = 2, sequence = 16, recompute = 'block', "
        "lr = constant { peak = 1e-3 } }, data = synthetic { vocab = 32 }, allow = { "
        "'no-warmup', 'no-effect' } }";
    again.recipe = mpt_lua_load(again.ctx, text);
    assert_mpt_ok(again.ctx, mpt_compile(again.recipe, NULL, &again.program));
    assert_mpt_ok(again.ctx, mpt_trainer_create(again.program, NULL, &again.trainer));
    take_steps(&kept, 1);
    take_steps(&again, 1);
    assert_true(runs_of(&again, "fprop", "e4m3", "e4m3") >
                runs_of(&kept, "fprop", "e4m3", "e4m3"));
    assert_int_equal(runs_of(&again, "wgrad", "e5m2", "e4m3"),
                     runs_of(&kept, "wgrad", "e5m2", "e4m3"));
    close_run(&kept);
    close_run(&again);
}

/* A recipe whose first rule says FP8 and whose second one takes it back. */
static void test_P45_when_a_later_rule_shadows_fp8_then_no_quantized_gemm_ran(void **s) {
    (void)s;
    run r;
    open_run(&r, "name = 'small_fp8', precision = { rules = { rule { 'linear', use = e4m3 }, "
                 "rule { 'linear', use = bf16 } } },");
    take_steps(&r, 2);
    assert_true(all_runs(&r, false) > 0);
    assert_int_equal(all_runs(&r, true), 0);
    close_run(&r);
}

static void test_metrics_when_finished_then_the_rows_stand_before_the_last_line(void **s) {
    (void)s;
    run r;
    open_run(&r, FP8);
    take_steps(&r, 2);
    assert_mpt_ok(r.ctx, mpt_trainer_finish(r.trainer));
    const char *row = strstr(r.metrics.data, "{\"event\":\"gemms\",\"gemm\":\"fprop\",\"a\":"
                                             "\"e4m3\",\"b\":\"e4m3\",\"quantized\":true,"
                                             "\"runs\":8}\n");
    assert_non_null(row);
    assert_true(row < strstr(r.metrics.data, "{\"event\":\"done\""));
    close_run(&r);
}

/* Weights that are NaN: the steps that are skipped ran all the same. */
static void test_metrics_when_training_stops_itself_then_the_rows_are_told_too(void **s) {
    (void)s;
    run r;
    mpt_step_result result;
    mpt_status status = MPT_OK;
    open_run(&r, FP8);
    for (int i = 0; i < r.trainer->state->n_params; i++)
        r.trainer->state->master[i][0] = (float)NAN;
    int n = 0;
    for (; status == MPT_OK && n < 100; n++)
        status = mpt_trainer_step(r.trainer, NULL, &result);
    assert_int_equal(status, MPT_STOPPED);
    assert_non_null(strstr(mpt_ctx_error(r.ctx)->message, "in a row were skipped"));
    assert_non_null(strstr(r.metrics.data, "{\"event\":\"gemms\",\"gemm\":\"fprop\""));
    assert_int_equal(runs_of(&r, "fprop", "e4m3", "e4m3"), 4 * n);
    close_run(&r);
}

static void test_saved_when_listed_then_one_number_a_row_over_the_live_counts(void **s) {
    (void)s;
    run r;
    mpt_saved list;
    mpt_gemm_view view;
    open_run(&r, FP8);
    take_steps(&r, 1);
    mpt_saved_init(&list, r.ctx);
    assert_mpt_ok(r.ctx, mpt_gemms_saved(&r.trainer->gemms, &list));
    assert_int_equal(list.n, 6);
    assert_string_equal(list.rows[0].name, "gemms.fprop.e4m3.e4m3");
    *(int64_t *)list.rows[0].data = 77; /* as loading does */
    assert_true(mpt_trainer_gemm(r.trainer, 0, &view));
    assert_int_equal(view.runs, 77);
    mpt_saved_deinit(&list);
    close_run(&r);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_counts_when_steps_ran_then_layers_times_micro_batches),
    cmocka_unit_test(test_counts_when_phases_change_then_each_counts_what_it_ran),
    cmocka_unit_test(test_counts_when_evaluated_or_asked_forward_then_unchanged),
    cmocka_unit_test(test_counts_when_blocks_are_recomputed_then_their_products_ran_twice),
    cmocka_unit_test(test_P45_when_a_later_rule_shadows_fp8_then_no_quantized_gemm_ran),
    cmocka_unit_test(test_metrics_when_finished_then_the_rows_stand_before_the_last_line),
    cmocka_unit_test(test_metrics_when_training_stops_itself_then_the_rows_are_told_too),
    cmocka_unit_test(test_saved_when_listed_then_one_number_a_row_over_the_live_counts),
};

MPT_TEST_MAIN(cases)
