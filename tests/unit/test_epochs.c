/* Runs in epochs: their length, what the end of one does to a step, and the words for it, from
 * recipes, from --set and from a host. */
#include <math.h>
#include <stdlib.h>

#include "lua_test.h"
#include "graph/op.h"
#include "runtime/pipeline.h"
#include "safetensors_file.h"
#include "train/trainer.h"

enum { SEQUENCE = 16, WINDOWS = 10 };

/* Ten windows of text, whatever they say. */
static folder make_text(void) {
    folder f = folder_make();
    unsigned char text[WINDOWS * SEQUENCE + 1];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)('a' + (i * i + i / 7) % 23);
    bytes_write(f.file, text, sizeof text);
    return f;
}

/* A recipe on it, with these words of data and train. */
static mpt_recipe *load(mpt_ctx *ctx, const folder *f, const char *data, const char *train) {
    char text[2048];
    snprintf(text, sizeof text,
             "local gpt2 = require 'models.gpt2'\n"
             "return recipe { version = 1, name = 'e',\n"
             "  model = gpt2 { n_layer = 1, n_head = 2, n_embd = 16, n_positions = 16 },\n"
             "  data = text { '%s', validation = 0, %s },\n"
             "  precision = derive(presets.fp16, { loss_scale = dynamic { init = 1024 } }),\n"
             "  train = { micro_batch = 1, sequence = 16, lr = constant { peak = 1e-30 }, "
             "clip = 0, %s } }",
             f->file, data, train);
    return mpt_lua_load(ctx, text);
}

typedef struct run {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
} run;

static run start(const folder *f, const char *data, const char *train) {
    run r = {.ctx = mpt_test_ctx()};
    r.recipe = load(r.ctx, f, data, train);
    assert_mpt_ok(r.ctx, mpt_compile(r.recipe, NULL, &r.program));
    assert_mpt_ok(r.ctx, mpt_trainer_create(r.program, NULL, &r.trainer));
    return r;
}

static void finish(run *r) {
    mpt_trainer_destroy(r->trainer);
    mpt_program_destroy(r->program);
    mpt_lua_finish(r->ctx, r->recipe);
}

/* ---- P01 ---- */

/* Nodes of the step that make the one factor on all gradients, which takes the loss scale out.
 */
static int count_unscales(const mpt_phase_program *phase) {
    int n = 0;
    for (int s = phase->segment[MPT_PASS_UPDATE]; s < phase->segment[MPT_PASS_UPDATE + 1]; s++)
        n += phase->graph->nodes[phase->steps[s].node].op == MPT_OP_clip_factor;
    return n;
}

/* 10 micro-batches an epoch, 4 a step, 2 epochs, FP16 with a dynamic loss scale. */
static void
test_p01_run_when_an_accumulation_spans_an_epochs_end_then_5_6_4_steps_of_one_unscale(
    void **s) {
    (void)s;
    static const struct {
        const char *remainder;
        int64_t steps, tokens;
    } rows[] = {{"", 5, 20},
                {"remainder = 'carry'", 5, 20},
                {"remainder = 'step'", 6, 20},
                {"remainder = 'drop'", 4, 16}};
    folder f = make_text();
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        char data[96];
        mpt_step_result result;
        snprintf(data, sizeof data, "order = 'shuffle', %s", rows[i].remainder);
        run r = start(&f, data, "epochs = 2, batch = 4");
        assert_int_equal(mpt_program_get_info(r.program).steps, rows[i].steps);
        assert_true(mpt_program_get_info(r.program).epochs == 2);
        assert_int_equal(count_unscales(r.program->phases[0]), 1);
        while (!mpt_trainer_done(r.trainer)) {
            assert_mpt_ok(r.ctx, mpt_trainer_step(r.trainer, NULL, &result));
            assert_false(result.skipped);
        }
        assert_int_equal(result.step, rows[i].steps - 1);
        assert_true(result.tokens == (double)(rows[i].tokens * SEQUENCE));
        finish(&r);
    }
    folder_remove(&f);
}

/* The short step is the mean of its two rows: loss and norm are those of a batch of two. At a
 * learning rate of nothing the weights are the same at each step. */
static void test_p01_step_when_two_rows_are_left_then_it_divides_by_two(void **s) {
    (void)s;
    folder f = make_text();
    run four = start(&f, "order = 'sequential', remainder = 'step'", "epochs = 1, batch = 4");
    run two = start(&f, "order = 'sequential'", "epochs = 1, batch = 2");
    mpt_step_result short_step, whole;
    for (int i = 0; i < 3; i++)
        assert_mpt_ok(four.ctx, mpt_trainer_step(four.trainer, NULL, &short_step));
    for (int i = 0; i < 5; i++)
        assert_mpt_ok(two.ctx, mpt_trainer_step(two.trainer, NULL, &whole));
    assert_true(short_step.loss == whole.loss);
    assert_true(fabs(short_step.grad_norm / whole.grad_norm - 1) < 1e-6);
    assert_true(short_step.grad_norm > 0);
    assert_true(short_step.tokens == whole.tokens);
    finish(&four);
    finish(&two);
    folder_remove(&f);
}

/* ---- a run goes on with its counter alone ---- */

static void test_run_when_it_goes_on_from_its_counter_then_the_same_batches(void **s) {
    (void)s;
    static const char *const words[] = {"order = 'random'", "order = 'shuffle'",
                                        "order = 'shuffle', remainder = 'step'",
                                        "order = 'sequential', remainder = 'drop'"};
    folder f = make_text();
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        run a = start(&f, words[i], "steps = 7, batch = 4");
        run b = start(&f, words[i], "steps = 7, batch = 4");
        mpt_step_result result;
        for (int k = 0; k < 7; k++)
            assert_mpt_ok(a.ctx, mpt_trainer_step(a.trainer, NULL, &result));
        b.trainer->data = 6;
        assert_mpt_ok(b.ctx, mpt_trainer_step(b.trainer, NULL, &result));
        size_t bytes = 4 * SEQUENCE * sizeof *a.trainer->tokens;
        assert_memory_equal(a.trainer->tokens, b.trainer->tokens, bytes);
        assert_memory_equal(a.trainer->targets, b.trainer->targets, bytes);
        finish(&a);
        finish(&b);
    }
    folder_remove(&f);
}

/* ---- words ---- */

/* Compiles with settings; gives the steps, or -1 with the error. */
static int64_t steps_of(mpt_ctx *ctx, const folder *f, const char *data, const char *train,
                        const char *const settings[][2]) {
    mpt_recipe *recipe = load(ctx, f, data, train);
    mpt_program *program = NULL;
    mpt_status status = MPT_OK;
    for (int i = 0; status == MPT_OK && settings && settings[i][0]; i++)
        status = mpt_recipe_set(recipe, settings[i][0], settings[i][1]);
    if (status == MPT_OK)
        status = mpt_compile(recipe, NULL, &program);
    int64_t steps = status == MPT_OK ? mpt_program_get_info(program).steps : -1;
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    return steps;
}

static void test_length_when_set_again_then_the_last_word_counts(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = make_text();
    static const char shuffle[] = "order = 'shuffle'";
    assert_int_equal(steps_of(ctx, &f, shuffle, "epochs = 6, batch = 4", NULL), 15);
    assert_int_equal(steps_of(ctx, &f, shuffle, "epochs = 6, batch = 4",
                              (const char *const[][2]){{"train.steps", "3"}, {NULL, NULL}}),
                     3);
    assert_int_equal(steps_of(ctx, &f, shuffle, "steps = 3, batch = 4",
                              (const char *const[][2]){{"train.epochs", "2"}, {NULL, NULL}}),
                     5);
    assert_int_equal(steps_of(ctx, &f, "", "steps = 3, batch = 4",
                              (const char *const[][2]){{"train.epochs", "2"},
                                                       {"data.order", "sequential"},
                                                       {"data.remainder", "step"},
                                                       {NULL, NULL}}),
                     6);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_epochs_when_they_make_no_sense_then_refused(void **s) {
    (void)s;
    folder f = make_text();
    static const struct {
        const char *data, *train, *message;
    } rows[] = {
        {"", "epochs = 2, batch = 4",
         "train.epochs: data.order is random, which draws windows"},
        {"order = 'shuffle'", "epochs = 2, steps = 3, batch = 4",
         "train: steps and epochs are both given"},
        {"order = 'shuffle'", "epochs = 2, tokens = 3, batch = 4",
         "train: tokens and epochs are both given"},
        {"order = 'shuffle', remainder = 'drop'", "epochs = 2, batch = 16",
         "data.remainder: an epoch has 10 windows, which fill no batch of 16"},
        {"remainder = 'drop'", "steps = 2, batch = 4",
         "data.remainder: data.order is random, which has no epochs that could end"},
        {"order = 'shuffle'",
         "epochs = 2, batch = 4, lr = wsd { peak = 1, warmup = 3, decay = 3 }",
         "train.lr: warmup and decay take 1.2 times the run's length"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        assert_int_equal(steps_of(ctx, &f, rows[i].data, rows[i].train, NULL), -1);
        if (!strstr(mpt_ctx_error(ctx)->message, rows[i].message))
            fail_msg("%s", mpt_ctx_error(ctx)->message);
        mpt_ctx_destroy(ctx);
    }
    folder_remove(&f);
}

/* Fractions of a run in epochs are fractions of its steps, once these are known. */
static void test_phases_when_a_run_is_in_epochs_then_they_start_by_its_steps(void **s) {
    (void)s;
    folder f = make_text();
    run r =
        start(&f, "order = 'shuffle'",
              "epochs = 8, batch = 4, lr = wsd { peak = 1, warmup = 0.5, decay = 0.25 } },\n"
              "  phases = { phase { 'one' }, phase { 'two', from = 0.5 }, phase { 'three', "
              "from = 15, rules = { rule { 'linear', use = fp32 } } }");
    assert_int_equal(r.program->train.steps, 20);
    assert_int_equal(r.program->phase_start[1], 10);
    assert_int_equal(r.program->phase_start[2], 15);
    assert_int_equal(mpt_span_steps(&r.program->train.lr.warmup, &r.program->train), 10);
    finish(&r);
    folder_remove(&f);
}

/* ---- the same recipe, however it is said ---- */

static void hash_of(mpt_recipe *recipe, char out[17]) {
    assert_mpt_ok(recipe->ctx, mpt_recipe_hash(recipe, out));
}

static mpt_recipe *with_data(mpt_ctx *ctx, const char *data) {
    char text[512];
    snprintf(text, sizeof text,
             "train = { steps = 2, batch = 1, sequence = 4, lr = constant { peak = 1 } },\n%s",
             data);
    return mpt_lua_load_fields(ctx, text);
}

/* A list with names and without are one recipe; so is a host's. Whatever decides numbers is in
 * the hash, and defaults are not. */
static void test_hash_when_data_is_said_another_way_then_by_what_decides_numbers(void **s) {
    (void)s;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        {"data = text { 'a', 'b' }", "data = text { files = { 'a', { path = 'b' } } }", true},
        {"data = text 'a'", "data = text { path = 'a', order = 'random', validation = 0.1 }",
         true},
        {"data = text { 'a', 'b' }", "data = text { 'b', 'a' }", false},
        {"data = text { 'a', 'b' }", "data = text { 'a', { path = 'b', weight = 2 } }", false},
        {"data = text 'a'", "data = text { 'a', order = 'shuffle' }", false},
        {"data = text { 'a', order = 'shuffle' }",
         "data = text { 'a', order = 'shuffle', remainder = 'step' }", false},
        {"data = text 'a'", "data = text { 'a', validation = 'b' }", false},
        {"data = text 'a'", "data = text { 'a', validation = 0.2 }", false},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *a = with_data(ctx, rows[i].a), *b = with_data(ctx, rows[i].b);
        char one[17], other[17];
        hash_of(a, one);
        hash_of(b, other);
        if ((strcmp(one, other) == 0) != rows[i].same)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
        mpt_recipe_destroy(a);
        mpt_lua_finish(ctx, b);
    }
}

static void test_files_when_a_host_adds_them_then_as_from_a_list(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_recipe *lua = with_data(ctx, "data = tokens { 'a', { path = 'b', weight = 2 } }");
    mpt_recipe *host = with_data(ctx, "data = tokens 'x'");
    char one[17], other[17];
    assert_int_equal(mpt_recipe_add_file(host, "a", 1), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "data.path is set, and is one file"));
    assert_mpt_ok(ctx, mpt_recipe_set(host, "data", "synthetic"));
    assert_int_equal(mpt_recipe_add_file(host, "a", 1), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "only text and tokens have several"));
    assert_mpt_ok(ctx, mpt_recipe_set(host, "data", "tokens"));
    assert_mpt_ok(ctx, mpt_recipe_add_file(host, "a", 1));
    assert_int_equal(mpt_recipe_add_file(host, "b", 0), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "data.files.weight: out of range"));
    assert_int_equal(mpt_recipe_add_file(host, "b", (double)NAN), MPT_INVALID);
    assert_mpt_ok(ctx, mpt_recipe_add_file(host, "b", 2));
    hash_of(lua, one);
    hash_of(host, other);
    assert_string_equal(one, other);
    assert_mpt_ok(ctx, mpt_recipe_set(host, "data.path", "c"));
    assert_int_equal(host->data.n_files, 0);
    mpt_recipe_destroy(lua);
    mpt_lua_finish(ctx, host);
}

/* Each at its own line. */
static void test_list_when_it_is_wrong_then_refused_at_its_line(void **s) {
    (void)s;
    mpt_lua_refuse_fields("data = tokens { 'a',\n 3 }",
                          "r.lua:6: data[2]: cannot be a number; give paths, or { path = "
                          "\"a.bin\", weight = 2 }");
    mpt_lua_refuse_fields("data = text { files = {\n {\n path = 'b', weight = 0 } } }",
                          "r.lua:7: data.files[1].weight: out of range: 0; give a number of "
                          "0.001 or more and at most 1000");
    mpt_lua_refuse_fields("data = text { files = { a = 'b' } }",
                          "r.lua:5: data.files.a: a list has no field 'a'; give the entries "
                          "without names");
    mpt_lua_refuse_fields("data = text { files = {} }",
                          "r.lua:5: data.files: the list is empty; give paths, or { path = "
                          "\"a.bin\", weight = 2 }");
    mpt_lua_refuse_fields("data = text { files = 'a' }",
                          "r.lua:5: data.files: cannot be a text; give paths, or { path = "
                          "\"a.bin\", weight = 2 }");
    mpt_lua_refuse_fields("data = text { 'a', 'b', files = { 'c' } }",
                          "r.lua:5: data.files: files stand here with and without this name; "
                          "put all into one list");
    mpt_lua_refuse_fields("data = synthetic { order = 'shuffle' }",
                          "r.lua:5: data: no field 'order'; synthetic has seed or vocab");
}

/* Set for a file that is given later, and refused where none is. */
static void test_order_when_set_without_files_then_for_the_file_that_is_given(void **s) {
    (void)s;
    folder f = make_text();
    static const char fields[] =
        "train = { epochs = 2, batch = 5, sequence = 16, lr = constant "
        "{ peak = 1 } }";
    for (int given = 0; given < 2; given++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_recipe *recipe = mpt_lua_load_fields(ctx, fields);
        mpt_program *program = NULL;
        mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
        options.data = given ? f.file : NULL;
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, "data.order", "shuffle"));
        assert_mpt_ok(ctx, mpt_recipe_set(recipe, "data.validation", "0"));
        mpt_status status = mpt_compile(recipe, &options, &program);
        assert_int_equal(status, given ? MPT_OK : MPT_INVALID);
        if (given)
            assert_int_equal(mpt_program_get_info(program).steps, 4);
        else
            assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                                   "data.order: the synthetic language never ends"));
        mpt_program_destroy(program);
        mpt_lua_finish(ctx, recipe);
    }
    folder_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(
        test_p01_run_when_an_accumulation_spans_an_epochs_end_then_5_6_4_steps_of_one_unscale),
    cmocka_unit_test(test_p01_step_when_two_rows_are_left_then_it_divides_by_two),
    cmocka_unit_test(test_run_when_it_goes_on_from_its_counter_then_the_same_batches),
    cmocka_unit_test(test_length_when_set_again_then_the_last_word_counts),
    cmocka_unit_test(test_epochs_when_they_make_no_sense_then_refused),
    cmocka_unit_test(test_phases_when_a_run_is_in_epochs_then_they_start_by_its_steps),
    cmocka_unit_test(test_hash_when_data_is_said_another_way_then_by_what_decides_numbers),
    cmocka_unit_test(test_files_when_a_host_adds_them_then_as_from_a_list),
    cmocka_unit_test(test_list_when_it_is_wrong_then_refused_at_its_line),
    cmocka_unit_test(test_order_when_set_without_files_then_for_the_file_that_is_given),
};

MPT_TEST_MAIN(cases)
