/* pipeline.c, pipeline_draw.c and pipeline_compile.c: from a recipe filled by C calls to a
 * program, its texts, the choice between full model and proxy, and no leak wherever memory is
 * refused. */
#include "mpt_test.h"

#include <stdlib.h>

#include "golden_text.h"
#include "models.h"
#include "pipeline.h"
#include "small_net.h"
#include "writers.h"

/* ---- recipes ---- */

static const small_net small = {.width = 32, .hidden = 64, .n_blocks = 4, .n_readers = 2};

typedef struct setting {
    const char *path, *value;
} setting;

static const setting base_settings[] = {
    {"train.steps", "40"},    {"train.batch", "4"},      {"train.sequence", "16"},
    {"train.lr", "constant"}, {"train.lr.peak", "1e-2"}, {"train.clip", "1"},
    {"train.seed", "3"},      {"train.lr.warmup", "4"},
};

static mpt_status set_all(mpt_recipe *recipe, const setting *settings, size_t n) {
    for (size_t i = 0; i < n; i++)
        MPT_TRY(mpt_recipe_set(recipe, settings[i].path, settings[i].value));
    return MPT_OK;
}

/* A rule with a place of its own, so that dumps do not change with this file. */
#define RULE(at, ...)                                                                          \
    (&(const mpt_rule_desc){                                                                   \
        .size = sizeof(mpt_rule_desc), .file = "host.c", .line = (at), __VA_ARGS__})

/* NVFP4 inside blocks, the last one in BF16, all BF16 from the middle on. */
static mpt_status fill_recipe(mpt_recipe *recipe, small_net *net) {
    static const mpt_set words[] = {{"weight", "nvfp4 block=16x16"},
                                    {"activation", "nvfp4"},
                                    {"gradient", "nvfp4 rounding=stochastic"},
                                    {"wgrad", "hadamard.size=16"}};
    MPT_TRY(set_all(recipe, base_settings, MPT_COUNT(base_settings)));
    MPT_TRY(mpt_recipe_set_model(recipe, "small", "4x32", small_build, net));
    MPT_TRY(mpt_recipe_add_rule(
        recipe, RULE(10, .selector = "linear", .words = words, .n_words = MPT_COUNT(words))));
    MPT_TRY(mpt_recipe_add_rule(
        recipe, RULE(11, .selector = "linear", .blocks = "last 1", .use = "bf16")));
    MPT_TRY(mpt_recipe_add_phase(recipe, "low", NULL));
    MPT_TRY(mpt_recipe_add_phase(recipe, "settle", "0.5"));
    return mpt_recipe_add_rule(
        recipe, RULE(14, .phase = "settle", .selector = "linear", .use = "bf16"));
}

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    small_net net;
} fixture;

static void setup_recipe(fixture *f) {
    memset(f, 0, sizeof *f);
    f->net = small;
    f->ctx = mpt_test_ctx();
    assert_mpt_ok(f->ctx, mpt_recipe_create(f->ctx, "test", &f->recipe));
    assert_mpt_ok(f->ctx, fill_recipe(f->recipe, &f->net));
}

static mpt_compile_options on_ref(void) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.device = MPT_DEVICE_REF;
    options.n_threads = 1;
    return options;
}

static void setup(fixture *f) {
    mpt_compile_options options = on_ref();
    setup_recipe(f);
    assert_mpt_ok(f->ctx, mpt_compile(f->recipe, &options, &f->program));
}

static void teardown(fixture *f) {
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* ---- the program ---- */

static void test_compile_when_two_phases_then_two_schedules_over_one_state(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    const mpt_program *p = f.program;
    assert_int_equal(p->n_phases, 2);
    assert_string_equal(p->phases[1]->phase, "settle");
    assert_int_equal(p->phase_start[0], 0);
    assert_int_equal(p->phase_start[1], 20);
    assert_string_not_equal(p->phases[0]->schedule_hash, p->phases[1]->schedule_hash);
    assert_int_equal(p->phases[0]->graph->n_params, p->phases[1]->graph->n_params);
    assert_int_equal(p->phases[0]->bytes[MPT_MEMORY_MASTER],
                     p->phases[1]->bytes[MPT_MEMORY_MASTER]);
    assert_int_equal(strlen(p->recipe_hash), 16);
    teardown(&f);
}

static void test_compile_when_done_then_info_says_what_it_is(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    mpt_program_info info = mpt_program_get_info(f.program);
    int64_t vocab = info.vocab, block = 32 + 2 * 64 * 32 + 64 * 32 + 32;
    assert_string_equal(info.recipe, "test");
    assert_string_equal(info.model, "small");
    assert_string_equal(info.size_name, "4x32");
    assert_string_equal(info.device, "ref");
    assert_string_equal(info.why, "");
    assert_false(info.proxy);
    assert_true(vocab > 1);
    assert_int_equal(info.parameters, 4 * block + 2 * vocab * 32 + 32);
    assert_int_equal(info.n_blocks, 4);
    assert_int_equal(info.n_linear_layers, 12);
    assert_int_equal(info.n_phases, 2);
    assert_int_equal(info.steps, 40);
    assert_int_equal(info.batch, 4);
    assert_int_equal(info.sequence, 16);
    assert_int_equal(info.seed, 3);
    assert_true(info.bytes_total > 16 * (uint64_t)info.parameters);
    assert_true(info.floor < info.unigram);
    teardown(&f);
}

static void test_compile_when_small_without_proxy_then_micro_batch_is_the_batch(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    assert_int_equal(mpt_program_get_info(f.program).micro_batch, 4);
    assert_int_equal(f.program->phases[0]->graph->batch, 4);
    teardown(&f);
}

static void test_compile_when_micro_batch_is_given_then_it_stays(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    setup_recipe(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_set(f.recipe, "train.micro_batch", "2"));
    assert_mpt_ok(f.ctx, mpt_compile(f.recipe, &options, &f.program));
    assert_int_equal(mpt_program_get_info(f.program).micro_batch, 2);
    teardown(&f);
}

static void test_compile_when_threads_are_not_given_then_all_processors(void **state) {
    (void)state;
    fixture f;
    setup_recipe(&f);
    assert_mpt_ok(f.ctx, mpt_compile(f.recipe, NULL, &f.program));
    assert_true(f.program->n_threads >= 1);
    assert_int_equal(f.program->device, MPT_DEVICE_CPU);
    assert_string_equal(mpt_program_get_info(f.program).device, "cpu");
    teardown(&f);
}

static void test_compile_when_device_differs_then_the_schedule_hash_stays(void **state) {
    (void)state;
    fixture ref, cpu;
    setup(&ref);
    setup_recipe(&cpu);
    assert_mpt_ok(cpu.ctx, mpt_compile(cpu.recipe, NULL, &cpu.program));
    for (int p = 0; p < 2; p++)
        assert_string_equal(ref.program->phases[p]->schedule_hash,
                            cpu.program->phases[p]->schedule_hash);
    teardown(&ref);
    teardown(&cpu);
}

/* ---- refusals ---- */

static void expect_refusal(fixture *f, const mpt_compile_options *options, mpt_status status,
                           const char *message) {
    assert_int_equal(mpt_compile(f->recipe, options, &f->program), status);
    assert_null(f->program);
    assert_string_equal(mpt_ctx_error(f->ctx)->message, message);
    teardown(f);
}

static void test_compile_when_no_proxy_is_named_then_proxy_is_refused(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    options.model = MPT_MODEL_PROXY;
    setup_recipe(&f);
    expect_refusal(&f, &options, MPT_INVALID,
                   "the recipe names no proxy; add `proxy = ...` to it, or take the full "
                   "model");
}

static void test_compile_when_device_is_unknown_then_refused(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    options.device = (mpt_device)9;
    setup_recipe(&f);
    expect_refusal(&f, &options, MPT_INVALID,
                   "mpt_compile: options.device is 9, which is no device");
}

static mpt_status build_no_loss(void *ud, mpt_nn *nn, bool proxy) {
    mpt_value_id tokens;
    (void)ud;
    (void)proxy;
    return mpt_nn_tokens(nn, &tokens);
}

static void test_compile_when_the_model_has_no_loss_then_refused(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    setup_recipe(&f);
    assert_mpt_ok(f.ctx, mpt_recipe_set_model(f.recipe, "small", "4x32", build_no_loss, NULL));
    expect_refusal(&f, &options, MPT_INVALID,
                   "the model small has no loss; end its graph with nn.cross_entropy{logits}");
}

/* ---- full model or proxy ---- */

/* The 12B of the shipped recipe, or four narrow blocks. */
static mpt_status build_hybrid(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud;
    test_hybrid narrow = small_hybrid;
    narrow.vocab = nn->graph->vocab;
    return draw_nemotron(nn->graph, proxy ? &narrow : &hybrid_12b);
}

static void setup_hybrid(fixture *f) {
    static const mpt_set words[] = {{"weight", "nvfp4 block=16x16"},
                                    {"activation", "nvfp4"},
                                    {"gradient", "nvfp4 rounding=stochastic"},
                                    {"wgrad", "hadamard.size=16"}};
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    assert_mpt_ok(f->ctx, mpt_recipe_create(f->ctx, "hybrid", &f->recipe));
    assert_mpt_ok(f->ctx, set_all(f->recipe, base_settings, MPT_COUNT(base_settings)));
    assert_mpt_ok(f->ctx, mpt_recipe_set(f->recipe, "train.sequence", "8192"));
    assert_mpt_ok(f->ctx, mpt_recipe_set(f->recipe, "train.proxy.sequence", "16"));
    assert_mpt_ok(f->ctx, mpt_recipe_set_model(f->recipe, "hybrid", "12b", build_hybrid, NULL));
    f->recipe->proxy = f->recipe->model; /* a host's recipe has no call for it yet */
    assert_mpt_ok(f->ctx,
                  mpt_recipe_add_rule(f->recipe, MPT_RULE(.selector = "linear", .words = words,
                                                          .n_words = MPT_COUNT(words))));
    assert_mpt_ok(f->ctx, mpt_recipe_add_phase(f->recipe, "low", NULL));
    assert_mpt_ok(f->ctx, mpt_recipe_add_phase(f->recipe, "settle", "0.82"));
    assert_mpt_ok(
        f->ctx, mpt_recipe_add_rule(f->recipe, MPT_RULE(.phase = "settle", .selector = "linear",
                                                        .gemms = "fprop", .use = "bf16")));
}

static void test_compile_when_full_model_is_too_large_then_auto_takes_the_proxy(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    setup_hybrid(&f);
    assert_mpt_ok(f.ctx, mpt_compile(f.recipe, &options, &f.program));
    mpt_program_info info = mpt_program_get_info(f.program);
    assert_true(info.proxy);
    assert_non_null(strstr(info.why, "the full model "));
    assert_non_null(strstr(info.why, ", so the proxy is trained"));
    assert_int_equal(info.micro_batch, 4);
    assert_int_equal(info.sequence, 16);
    teardown(&f);
}

static void
test_compile_when_12b_then_all_of_it_is_planned_and_nothing_allocated(void **state) {
    (void)state;
    fixture f;
    mpt_compile_options options = on_ref();
    options.model = MPT_MODEL_FULL;
    setup_hybrid(&f);
    assert_mpt_ok(f.ctx, mpt_compile(f.recipe, &options, &f.program));
    mpt_program_info info = mpt_program_get_info(f.program);
    assert_int_equal(info.parameters, 12310001152);
    assert_int_equal(info.n_blocks, 62);
    assert_int_equal(info.n_linear_layers, 136); /* q, k and v are not fused here */
    assert_int_equal(info.micro_batch, 1);
    assert_true(info.bytes_total > 200000000000u);
    assert_true(mpt_ctx_memory(f.ctx).peak_bytes < 150000000u);
    teardown(&f);
}

/* ---- texts ---- */

static void print(const fixture *f, mpt_print what, const char *arg, mpt_str *out) {
    mpt_str_init(out, f->ctx);
    assert_mpt_ok(f->ctx, mpt_program_print(f->program, what, arg, keep, out));
    assert_true(out->len > 0);
}

static void test_stages_when_listed_then_ten_and_each_has_a_text(void **state) {
    (void)state;
    static const char *const names[] = {"load",   "freeze", "check", "grad", "precise",
                                        "select", "order",  "plan",  "run",  "train"};
    fixture f;
    mpt_str text;
    setup(&f);
    for (int i = 0; i < 10; i++) {
        char head[64];
        assert_string_equal(mpt_stage_name(i), names[i]);
        print(&f, MPT_PRINT_STAGE, names[i], &text);
        snprintf(head, sizeof head, "# stage %d, %s: ", i + 1, names[i]);
        assert_int_equal(strncmp(text.data, head, strlen(head)), 0);
        assert_true(strcspn(text.data, "\n") + 10 < text.len);
        mpt_str_deinit(&text);
    }
    assert_null(mpt_stage_name(10));
    assert_null(mpt_stage_name(-1));
    teardown(&f);
}

static void test_stage_when_misspelt_then_the_near_name_is_suggested(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    setup(&f);
    mpt_str_init(&text, f.ctx);
    assert_int_equal(mpt_program_print(f.program, MPT_PRINT_STAGE, "precice", keep, &text),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(f.ctx)->message,
                        "no stage 'precice'; did you mean 'precise'?");
    assert_int_equal(mpt_program_print(f.program, MPT_PRINT_STAGE, "link", keep, &text),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(f.ctx)->message,
                        "no stage 'link'; the stages are load, freeze, check, grad, precise, "
                        "select, order, plan, run and train");
    assert_int_equal(text.len, 0);
    teardown(&f);
}

static bool refuse_text(void *ud, const char *text, size_t length) {
    (void)ud;
    (void)text;
    (void)length;
    return false;
}

static void test_print_when_the_writer_refuses_then_io(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    assert_int_equal(mpt_program_print(f.program, MPT_PRINT_SCHEDULE, NULL, refuse_text, NULL),
                     MPT_IO);
    teardown(&f);
}

static void test_print_when_schedule_then_every_step_of_every_phase_has_a_line(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    int lines = 0;
    setup(&f);
    print(&f, MPT_PRINT_SCHEDULE, NULL, &text);
    for (const char *p = text.data; *p; p++)
        lines += *p == '\n';
    int steps = f.program->phases[0]->n_steps + f.program->phases[1]->n_steps;
    assert_int_equal(lines, steps + 2 + 2 + 1); /* headlines, titles, a blank line between */
    assert_non_null(strstr(text.data, "nvfp4 16x16"));
    assert_non_null(strstr(text.data, "nvfp4 1x16 stochastic hadamard 16 transposed"));
    assert_non_null(strstr(text.data, "host.c:10\n"));
    mpt_str_deinit(&text);
    teardown(&f);
}

static void test_dump_when_run_then_last_line_is_the_first_loss(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    mpt_trainer *trainer;
    mpt_step_result result;
    char expected[64];
    setup(&f);
    print(&f, MPT_PRINT_STAGE, "run", &text);
    assert_mpt_ok(f.ctx, mpt_trainer_create(f.program, NULL, &trainer));
    assert_mpt_ok(f.ctx, mpt_trainer_step(trainer, NULL, &result));
    snprintf(expected, sizeof expected, "\nloss %.6f\n", result.loss);
    assert_non_null(strstr(text.data, expected));
    mpt_trainer_destroy(trainer);
    mpt_str_deinit(&text);
    teardown(&f);
}

static void test_dump_when_freeze_then_policies_are_the_golden_ones(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    setup(&f);
    print(&f, MPT_PRINT_STAGE, "freeze", &text);
    assert_golden(&text, "freeze_small.txt");
    mpt_str_deinit(&text);
    teardown(&f);
}

static void test_dump_when_precise_then_graph_is_the_golden_one(void **state) {
    (void)state;
    fixture f;
    mpt_str text;
    setup(&f);
    print(&f, MPT_PRINT_STAGE, "precise", &text);
    assert_golden(&text, "precise_small.txt");
    mpt_str_deinit(&text);
    teardown(&f);
}

/* ---- memory ---- */

typedef struct failing {
    long left; /* calls that succeed before the first refusal */
    long n_live;
} failing;

static void *fail_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    failing *f = ud;
    (void)old_size;
    if (new_size == 0) {
        f->n_live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (f->left == 0)
        return NULL;
    f->left--;
    f->n_live++;
    return malloc(new_size);
}

/* Everything up to a program and its texts; MPT_OUT_OF_MEMORY where memory was refused. */
static mpt_status compile_and_print(mpt_ctx *ctx, small_net *net) {
    mpt_compile_options options = on_ref();
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_str out;
    mpt_str_init(&out, ctx);
    mpt_status status = mpt_recipe_create(ctx, "test", &recipe);
    if (status == MPT_OK)
        status = fill_recipe(recipe, net);
    if (status == MPT_OK)
        status = mpt_compile(recipe, &options, &program);
    for (int i = 0; status == MPT_OK && i < 8; i++) {
        out.len = 0;
        status = mpt_program_print(program, MPT_PRINT_STAGE, mpt_stage_name(i), keep, &out);
        if (status == MPT_IO && out.failed)
            status = MPT_OUT_OF_MEMORY;
    }
    mpt_str_deinit(&out);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    return status;
}

static void test_compile_when_any_allocation_fails_then_status_and_no_leak(void **state) {
    (void)state;
    small_net net = small;
    net.n_blocks = 1;
    mpt_status status = MPT_OUT_OF_MEMORY;
    long n = 0;
    for (; status != MPT_OK; n++) {
        failing f = {.left = n};
        mpt_ctx *ctx = NULL;
        mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
        options.alloc = fail_alloc;
        options.alloc_ud = &f;
        if (mpt_ctx_create(&options, &ctx) != MPT_OK) {
            assert_int_equal(f.n_live, 0);
            continue;
        }
        status = compile_and_print(ctx, &net);
        if (status != MPT_OK && status != MPT_OUT_OF_MEMORY)
            fail_msg("allocation %ld: %s: %s", n, mpt_status_name(status),
                     mpt_ctx_error(ctx)->message);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(f.n_live, 0);
    }
    assert_true(n > 50);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_compile_when_two_phases_then_two_schedules_over_one_state),
    cmocka_unit_test(test_compile_when_done_then_info_says_what_it_is),
    cmocka_unit_test(test_compile_when_small_without_proxy_then_micro_batch_is_the_batch),
    cmocka_unit_test(test_compile_when_micro_batch_is_given_then_it_stays),
    cmocka_unit_test(test_compile_when_threads_are_not_given_then_all_processors),
    cmocka_unit_test(test_compile_when_device_differs_then_the_schedule_hash_stays),
    cmocka_unit_test(test_compile_when_no_proxy_is_named_then_proxy_is_refused),
    cmocka_unit_test(test_compile_when_device_is_unknown_then_refused),
    cmocka_unit_test(test_compile_when_the_model_has_no_loss_then_refused),
    cmocka_unit_test(test_compile_when_full_model_is_too_large_then_auto_takes_the_proxy),
    cmocka_unit_test(test_compile_when_12b_then_all_of_it_is_planned_and_nothing_allocated),
    cmocka_unit_test(test_stages_when_listed_then_ten_and_each_has_a_text),
    cmocka_unit_test(test_stage_when_misspelt_then_the_near_name_is_suggested),
    cmocka_unit_test(test_print_when_the_writer_refuses_then_io),
    cmocka_unit_test(test_print_when_schedule_then_every_step_of_every_phase_has_a_line),
    cmocka_unit_test(test_dump_when_run_then_last_line_is_the_first_loss),
    cmocka_unit_test(test_dump_when_freeze_then_policies_are_the_golden_ones),
    cmocka_unit_test(test_dump_when_precise_then_graph_is_the_golden_one),
    cmocka_unit_test(test_compile_when_any_allocation_fails_then_status_and_no_leak),
};

MPT_TEST_MAIN(cases)
