/* mpt_sample: text from a model of bytes, the same for the same seed, and what it refuses. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "allowance.h"
#include "mpt/tools.h"

enum { WINDOW = 8, TEXT_MAX = 256 };

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
} fixture;

/* A GPT-2 of one block over `vocab` words; initial weights are wide, so that bytes differ. */
static mpt_status make(fixture *f, int vocab, int micro_batch, int n_threads) {
    char text[1024];
    mpt_compile_options compile = MPT_COMPILE_OPTIONS_INIT;
    int length =
        snprintf(text, sizeof text,
                 "return recipe { version = 1, precision = presets.fp32,\n"
                 "  model = require 'models.gpt2' { n_layer = 1, n_embd = 16, n_head = 2,\n"
                 "    n_positions = 8, initializer_range = 0.5 },\n"
                 "  data = synthetic { vocab = %d },\n"
                 "  train = { steps = 4, batch = 2, micro_batch = %d, sequence = 8,\n"
                 "    optimizer = adamw {}, lr = constant { peak = 1e-3 } } }",
                 vocab, micro_batch);
    compile.n_threads = n_threads;
    MPT_TRY(mpt_recipe_load_string(f->ctx, "s.lua", text, (size_t)length, NULL, &f->recipe));
    MPT_TRY(mpt_compile(f->recipe, &compile, &f->program));
    return mpt_trainer_create(f->program, NULL, &f->trainer);
}

static fixture open_fixture(int vocab, int micro_batch, int n_threads) {
    fixture f = {.ctx = mpt_test_ctx()};
    assert_mpt_ok(f.ctx, make(&f, vocab, micro_batch, n_threads));
    return f;
}

static void drop(fixture *f) {
    mpt_trainer_destroy(f->trainer);
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

typedef struct sampled {
    char text[TEXT_MAX];
    size_t n, most; /* more than `most` is refused; 0: none is */
} sampled;

static bool keep(void *ud, const char *text, size_t n) {
    sampled *s = ud;
    if (s->most && s->n + n > s->most)
        return false;
    assert_true(s->n + n <= TEXT_MAX);
    memcpy(s->text + s->n, text, n);
    s->n += n;
    return true;
}

static mpt_sample_options options_of(const char *prompt, int64_t n_tokens, double temperature,
                                     int top_k, uint64_t seed) {
    mpt_sample_options o = MPT_SAMPLE_OPTIONS_INIT;
    o.prompt = prompt;
    o.prompt_bytes = strlen(prompt);
    o.n_tokens = n_tokens;
    o.temperature = temperature;
    o.top_k = top_k;
    o.seed = seed;
    return o;
}

static sampled take(const fixture *f, mpt_sample_options o) {
    sampled s = {.n = 0};
    assert_mpt_ok(f->ctx, mpt_sample(f->trainer, &o, keep, &s));
    assert_int_equal(s.n, o.prompt_bytes + (size_t)o.n_tokens);
    return s;
}

static bool same(const sampled *a, const sampled *b) {
    return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
}

/* ---- what is drawn ---- */

static void test_sample_when_greedy_then_it_is_the_same_for_any_threads_and_rows(void **state) {
    (void)state;
    static const int shapes[][2] = {{1, 1}, {1, 2}, {2, 1}};
    sampled first = {.n = 0};
    for (size_t i = 0; i < MPT_COUNT(shapes); i++) {
        fixture f = open_fixture(256, shapes[i][0], shapes[i][1]);
        sampled s = take(&f, options_of("ab", 24, 0, 0, i));
        assert_memory_equal(s.text, "ab", 2);
        if (i == 0)
            first = s;
        assert_true(same(&s, &first));
        sampled drawn = take(&f, options_of("ab", 24, 1, 0, 7));
        sampled again = take(&f, options_of("ab", 24, 1, 0, 7));
        assert_true(same(&drawn, &again));
        drop(&f);
    }
}

static void test_sample_when_the_seed_differs_then_the_text_does(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    sampled a = take(&f, options_of("x", 32, 1, 0, 0));
    sampled b = take(&f, options_of("x", 32, 1, 0, 1));
    sampled c = take(&f, options_of("x", 32, 1, 0, UINT64_MAX));
    assert_false(same(&a, &b));
    assert_false(same(&a, &c));
    drop(&f);
}

static void test_sample_when_one_byte_is_left_then_it_is_greedy(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    sampled greedy = take(&f, options_of("x", 32, 0, 0, 0));
    sampled one = take(&f, options_of("x", 32, 5, 1, 3));
    sampled cold = take(&f, options_of("x", 32, 1e-300, 0, 3));
    sampled most = take(&f, options_of("x", 32, 0, 9, 3));
    assert_true(same(&greedy, &one));
    assert_true(same(&greedy, &cold));
    assert_true(same(&greedy, &most));
    drop(&f);
}

static void test_sample_when_top_k_then_only_the_most_probable_come(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    bool seen[256] = {false};
    int n = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        sampled s = take(&f, options_of("x", 1, 1000, 3, seed)); /* nearly uniform */
        seen[(unsigned char)s.text[1]] = true;
    }
    for (int b = 0; b < 256; b++)
        n += seen[b];
    assert_int_equal(n, 3);
    sampled all = take(&f, options_of("x", 32, 1, 0, 5));
    sampled more = take(&f, options_of("x", 32, 1, 4000, 5));
    assert_true(same(&all, &more));
    drop(&f);
}

static void test_sample_when_the_prompt_is_long_then_its_end_decides(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    sampled whole = take(&f, options_of("what came before 12345678", 16, 1, 0, 2));
    sampled end = take(&f, options_of("12345678", 16, 1, 0, 2));
    assert_memory_equal(whole.text + whole.n - 16, end.text + end.n - 16, 16);
    drop(&f);
}

static void test_sample_when_there_is_no_prompt_then_a_newline_is_before(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    sampled nothing = take(&f, options_of("", 16, 1, 0, 2));
    sampled newline = take(&f, options_of("\n", 16, 1, 0, 2));
    assert_memory_equal(nothing.text, newline.text + 1, 16);
    mpt_sample_options o = options_of("", 0, 1, 0, 2);
    o.prompt = "\0\xff";
    o.prompt_bytes = 2;
    sampled odd = take(&f, o);
    assert_memory_equal(odd.text, "\0\xff", 2);
    drop(&f);
}

static void test_sample_when_between_steps_then_training_does_not_feel_it(void **state) {
    (void)state;
    double loss[2];
    for (int k = 0; k < 2; k++) {
        fixture f = open_fixture(256, 1, 1);
        mpt_step_result r;
        for (int i = 0; i < 3; i++) {
            if (k)
                (void)take(&f, options_of("ab", 4, 1, 0, 2));
            assert_mpt_ok(f.ctx, mpt_trainer_step(f.trainer, NULL, &r));
        }
        loss[k] = r.loss;
        drop(&f);
    }
    assert_true(loss[0] == loss[1]);
}

/* ---- what is refused ---- */

static void expect(const fixture *f, mpt_status status, mpt_status wanted, const char *text) {
    assert_int_equal(status, wanted);
    if (!strstr(mpt_ctx_error(f->ctx)->message, text))
        fail_msg("expected '%s', got '%s'", text, mpt_ctx_error(f->ctx)->message);
}

static void test_sample_when_the_vocabulary_is_not_bytes_then_it_is_refused(void **state) {
    (void)state;
    fixture f = open_fixture(128, 1, 1);
    sampled s = {.n = 0};
    mpt_sample_options o = MPT_SAMPLE_OPTIONS_INIT;
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_DATA,
           "gpt2: the vocabulary has 128 words, and is not the 256 bytes; only a model that");
    assert_int_equal(s.n, 0);
    drop(&f);
}

static void test_sample_when_logits_are_no_numbers_then_it_stops(void **state) {
    (void)state;
    static const char *const words[] = {"byte 0: the model's logits are NaN",
                                        "byte 0: the model's logits are "};
    const float values[] = {NAN, INFINITY};
    for (size_t i = 0; i < MPT_COUNT(words); i++) {
        fixture f = open_fixture(256, 1, 1);
        sampled s = {.n = 0};
        mpt_sample_options o = options_of("ab", 4, 0, 0, 0);
        mpt_param_view view;
        assert_true(mpt_trainer_param(f.trainer, 0, &view));
        for (int k = 0; k < 256 * 16; k++)
            ((float *)(uintptr_t)view.data)[k] = values[i];
        expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_STOPPED, words[i]);
        drop(&f);
    }
}

static void test_sample_when_called_wrongly_then_the_argument_is_named(void **state) {
    (void)state;
    fixture f = open_fixture(256, 1, 1);
    sampled s = {.n = 0};
    mpt_sample_options o = MPT_SAMPLE_OPTIONS_INIT;
    o.n_tokens = -1;
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_INVALID, "n_tokens is -1");
    o = options_of("a", 1, -0.5, 0, 0);
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_INVALID, "temperature is -0.5");
    o.temperature = (double)NAN;
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_INVALID, "temperature is ");
    o = options_of("a", 1, 1, -2, 0);
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_INVALID, "top_k is -2");
    o = options_of("a", 1, 1, 0, 0);
    o.prompt = NULL;
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_INVALID, "prompt is NULL");
    s = (sampled){.most = 3};
    o = options_of("ab", 9, 1, 0, 0);
    expect(&f, mpt_sample(f.trainer, &o, keep, &s), MPT_IO, "the text could not be written");
    assert_int_equal(s.n, 3);
    drop(&f);
}

static void test_sample_when_memory_ends_then_nothing_is_lost(void **state) {
    (void)state;
    allowance a;
    fixture f = {.ctx = allowance_context(&a, -1)};
    assert_mpt_ok(f.ctx, make(&f, 256, 1, 1));
    sampled s = {.n = 0};
    mpt_sample_options o = options_of("ab", 4, 0, 0, 0);
    a.left = 0;
    assert_int_equal(mpt_sample(f.trainer, &o, keep, &s), MPT_OUT_OF_MEMORY);
    a.left = 1;
    assert_mpt_ok(f.ctx, mpt_sample(f.trainer, &o, keep, &s));
    drop(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_sample_when_greedy_then_it_is_the_same_for_any_threads_and_rows),
    cmocka_unit_test(test_sample_when_the_seed_differs_then_the_text_does),
    cmocka_unit_test(test_sample_when_one_byte_is_left_then_it_is_greedy),
    cmocka_unit_test(test_sample_when_top_k_then_only_the_most_probable_come),
    cmocka_unit_test(test_sample_when_the_prompt_is_long_then_its_end_decides),
    cmocka_unit_test(test_sample_when_there_is_no_prompt_then_a_newline_is_before),
    cmocka_unit_test(test_sample_when_between_steps_then_training_does_not_feel_it),
    cmocka_unit_test(test_sample_when_the_vocabulary_is_not_bytes_then_it_is_refused),
    cmocka_unit_test(test_sample_when_logits_are_no_numbers_then_it_stops),
    cmocka_unit_test(test_sample_when_called_wrongly_then_the_argument_is_named),
    cmocka_unit_test(test_sample_when_memory_ends_then_nothing_is_lost),
};
MPT_TEST_MAIN(cases)
