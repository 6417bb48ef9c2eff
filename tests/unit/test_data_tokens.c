/* Token files and batches as data: the same windows as text gives, lengths, vocabularies. */
#include <math.h>

#include "allowance.h"
#include "token_file.h"
#include "train/data.h"

/* Bytes of no pattern, as text, and as ids in each format. */
enum { N = 4000, SEQUENCE = 32 };

static void fill(unsigned char bytes[N]) {
    uint32_t x = 12345;
    for (int i = 0; i < N; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(x >> 24);
    }
}

static void write_tokens(const folder *f, const char *name, mpt_token_format format) {
    mpt_ctx *ctx = mpt_test_ctx();
    unsigned char bytes[N];
    int32_t ids[N];
    mpt_token_writer *w;
    mpt_token_spec spec = {.format = format, .n = N, .vocab = 256};
    fill(bytes);
    for (int i = 0; i < N; i++)
        ids[i] = bytes[i];
    assert_mpt_ok(ctx, mpt_tokens_create(ctx, path_in(f, name).text, &spec, &w));
    assert_mpt_ok(ctx, mpt_tokens_put(w, 0, N, ids));
    assert_mpt_ok(ctx, mpt_tokens_commit(w));
    mpt_ctx_destroy(ctx);
}

static mpt_status open_data(mpt_ctx *ctx, mpt_data_kind kind, const char *path, int64_t vocab,
                            mpt_data **out) {
    mpt_data_spec spec = {.kind = kind, .path = path, .words = vocab, .where = {"r.lua", 7}};
    return mpt_data_open(ctx, &spec, NULL, NULL, out);
}

/* What a run tells its data: rows of `sequence` tokens, so many a step. */
static mpt_status settle(mpt_data *data, int64_t sequence, int64_t batch) {
    mpt_train train = {.steps = 1, .batch = batch, .micro_batch = 1, .sequence = sequence};
    return mpt_data_settle(data, &train);
}

static void test_tokens_when_they_are_bytes_then_all_windows_are_those_of_the_text(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    unsigned char bytes[N];
    mpt_data *text, *data;
    int32_t a[2][SEQUENCE], b[2][SEQUENCE];
    fill(bytes);
    bytes_write(f.file, bytes, N);
    assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TEXT, f.file, 0, &text));
    assert_mpt_ok(ctx, settle(text, SEQUENCE, 3));
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        path_text p = path_in(&f, "x.bin");
        write_tokens(&f, "x.bin", format);
        assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TOKENS, p.text, 256, &data));
        assert_mpt_ok(ctx, settle(data, SEQUENCE, 3));
        assert_int_equal(mpt_data_vocab(data), 256);
        assert_true(mpt_data_states_vocab(data));
        assert_true(mpt_data_unigram_entropy(data) == mpt_data_unigram_entropy(text));
        assert_true(isnan(mpt_data_entropy(data)));
        for (int64_t step = 0; step < 20; step++) {
            mpt_data_train(text, 3, step, step % 3, a[0], a[1]);
            mpt_data_train(data, 3, step, step % 3, b[0], b[1]);
            assert_memory_equal(a, b, sizeof a);
        }
        int64_t n = mpt_data_n_windows(text);
        assert_int_equal(mpt_data_n_windows(data), n);
        for (int64_t w = 0; w < n; w++) {
            mpt_data_window(text, w, a[0], a[1]);
            mpt_data_window(data, w, b[0], b[1]);
            assert_memory_equal(a, b, sizeof a);
        }
        mpt_data_close(data);
        unlink(p.text);
        unlink(path_in(&f, "x.idx").text);
    }
    mpt_data_close(text);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* P80: nothing is drawn from data shorter than one window; counts are compared with their sign.
 */
static void test_p80_tokens_when_shorter_than_a_window_then_needed_and_present(void **s) {
    (void)s;
    static const int lengths[] = {0, 1, 10, 31, 32};
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        for (size_t i = 0; i < MPT_COUNT(lengths); i++) {
            mpt_ctx *ctx = mpt_test_ctx();
            folder f = folder_make();
            mpt_token_writer *w;
            mpt_data *data;
            char message[96];
            int32_t ids[32] = {0};
            mpt_token_spec spec = {.format = format, .n = lengths[i], .vocab = 9};
            assert_mpt_ok(ctx, mpt_tokens_create(ctx, path_in(&f, "x.bin").text, &spec, &w));
            assert_mpt_ok(ctx, mpt_tokens_put(w, 0, lengths[i], ids));
            assert_mpt_ok(ctx, mpt_tokens_commit(w));
            assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TOKENS, path_in(&f, "x.bin").text,
                                         i % 2 ? 9 : 0, &data));
            assert_int_equal(settle(data, 32, 3), MPT_DATA);
            snprintf(message, sizeof message,
                     "x.bin: needs 33 tokens, has %d; use a longer file", lengths[i]);
            assert_non_null(strstr(mpt_ctx_error(ctx)->message, message));
            assert_memory_equal(mpt_ctx_error(ctx)->message, "r.lua:7: ", 9);
            assert_int_equal(mpt_data_n_windows(data), 0);
            assert_int_equal(settle(data, INT64_C(1) << 24, 1), MPT_DATA);
            mpt_data_close(data);
            folder_remove(&f);
            mpt_ctx_destroy(ctx);
        }
    }
}

/* 33 tokens are one window: the only draw there is. */
static void test_p80_tokens_when_one_window_then_it_is_drawn(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    raw r = {.n = 0};
    int32_t tokens[32], targets[32];
    for (int i = 0; i < 33; i++)
        raw_put(&r, (uint64_t)i, 2);
    raw_write(&f, "x.bin", &r);
    assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TOKENS, path_in(&f, "x.bin").text, 33, &data));
    assert_mpt_ok(ctx, settle(data, 32, 3));
    mpt_data_train(data, 1, 99, 3, tokens, targets);
    assert_int_equal(tokens[0], 0);
    assert_int_equal(targets[31], 32);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void
test_tokens_when_the_vocabulary_is_not_stated_then_only_a_model_can_say_it(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    raw r = raw_ids((int64_t[]){1, 50256, 3}, 3, 2);
    raw_write(&f, "x.bin", &r);
    path_text p = path_in(&f, "x.bin");
    assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TOKENS, p.text, 0, &data));
    assert_false(mpt_data_states_vocab(data));
    assert_int_equal(mpt_data_vocab(data), 50257);
    assert_mpt_ok(ctx, mpt_data_check_model(data, 50257));
    assert_mpt_ok(ctx, mpt_data_check_model(data, 65536));
    assert_int_equal(mpt_data_check_model(data, 128256), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "x.bin: its ids end at 65535, and the model's vocabulary has 128256 "
                           "words"));
    mpt_data_close(data);
    assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_TOKENS, p.text, 50257, &data));
    assert_mpt_ok(ctx,
                  mpt_data_check_model(data, 128256)); /* said: the tokenizer has no more */
    mpt_data_close(data);
    assert_int_equal(open_data(ctx, MPT_DATA_TOKENS, p.text, 50256, &data), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "x.bin: token 1 is 50256"));
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* ---- --data ---- */

static void test_override_when_content_differs_then_it_decides(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    static const char *const starts[] = {"bytes of ", "4,000 uint16 tokens of ",
                                         "4,000 uint16 tokens of "};
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .vocab = 128};
    unsigned char bytes[N];
    fill(bytes);
    bytes_write(path_in(&f, "x0").text, bytes, N);
    write_tokens(&f, "x1", MPT_TOKENS_LLMC);
    write_tokens(&f, "x2", MPT_TOKENS_MEGATRON);
    for (size_t i = 0; i < MPT_COUNT(starts); i++) {
        char name[] = {'x', (char)('0' + (int)i), 0};
        mpt_data *data;
        assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, path_in(&f, name).text, NULL, &data));
        assert_memory_equal(mpt_data_describe(data), starts[i], strlen(starts[i]));
        assert_int_equal(mpt_data_states_vocab(data), i == 0);
        mpt_data_close(data);
    }
    spec = (mpt_data_spec){.kind = MPT_DATA_TOKENS, .path = "no/such.bin", .words = 300};
    mpt_data *data;
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, path_in(&f, "x1").text, NULL, &data));
    assert_int_equal(mpt_data_vocab(data), 300);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* What is read as text and seems to be none: the doubt names what may be meant. */
static void test_override_when_a_text_seems_to_be_none_then_that_is_told(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .vocab = 128};
    char packed[400];
    for (size_t i = 0; i < sizeof packed; i++)
        packed[i] = (char)(1 + i * 37 % 255); /* no 0 in it */
    const struct {
        const char *bytes;
        size_t n;
        const char *doubt; /* NULL: none */
    } rows[] = {
        {"plain text\twith \033[1mcolours\r\n", 29, NULL},
        {"na\xefve caf\xe9", 10, NULL}, /* in Latin-1 */
        {"ab\0c", 4, "is read as text, byte by byte, and has bytes that are 0; nanoGPT's"},
        {"ab\0", 3, "has bytes that are 0; a file that is packed"},
        {packed, sizeof packed, "is full of control characters; a file that is packed"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_data *data;
        bytes_write(f.file, rows[i].bytes, rows[i].n);
        assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, f.file, NULL, &data));
        const char *doubt = mpt_data_doubt(data);
        if (rows[i].doubt ? !doubt || !strstr(doubt, rows[i].doubt) : doubt != NULL)
            fail_msg("row %zu: %s", i, doubt ? doubt : "no doubt");
        mpt_data_close(data);
    }
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* nanoGPT's files have no header: what speaks of tokens is the recipe's data, or a vocabulary
 * that was set. */
static void test_override_when_something_speaks_of_tokens_then_zeros_are_ids(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    write_tokens(&f, "x.bin", MPT_TOKENS_NANOGPT);
    const mpt_data_spec specs[] = {
        {.kind = MPT_DATA_TOKENS, .path = "no/such.bin", .words = 300},
        {.kind = MPT_DATA_SYNTHETIC, .vocab = 128, .words = 300, .words_set = true},
        {.kind = MPT_DATA_SYNTHETIC, .vocab = 128, .words = 256, .words_set = true},
    };
    for (size_t i = 0; i < MPT_COUNT(specs); i++) {
        mpt_data *data;
        assert_mpt_ok(ctx,
                      mpt_data_open(ctx, &specs[i], path_in(&f, "x.bin").text, NULL, &data));
        assert_int_equal(mpt_data_vocab(data), i == 2 ? 256 : 300);
        assert_int_equal(mpt_data_doubt(data) == NULL, i < 2); /* 256 words may be the bytes */
        mpt_data_close(data);
    }
    /* A text stays one, whatever the recipe's own data are. */
    mpt_data *data;
    bytes_write(f.file, "To be, or not to be", 19);
    assert_mpt_ok(ctx, mpt_data_open(ctx, &specs[0], f.file, NULL, &data));
    assert_int_equal(mpt_data_vocab(data), 256);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* A pair is found beside the recipe, also by what its names start with. */
static void test_tokens_when_a_pair_is_beside_the_recipe_then_found(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    mpt_data_spec spec = {.kind = MPT_DATA_TOKENS, .path = "corpus", .words = 256};
    write_tokens(&f, "corpus", MPT_TOKENS_MEGATRON);
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, path_in(&f, "r.lua").text, &data));
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- batches ---- */

/* Rows of 4 ids that count: row r is 10 r, 10 r + 1, ... */
static void write_batches(const folder *f, int64_t n, int64_t batch, int64_t length) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors_writer *w;
    mpt_tensor_spec spec = {
        .name = "tokens", .type = MPT_TENSOR_I32, .rank = 3, .dims = {n, batch, length}};
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f->file, &spec, 1, NULL, &w));
    int32_t *ids = mpt_safetensors_data(w, 0);
    for (int64_t i = 0; i < n * batch * length; i++)
        ids[i] = (int32_t)(10 * (i / length) + i % length);
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
    mpt_ctx_destroy(ctx);
}

static void test_batches_when_trained_on_then_rows_come_in_order(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    mpt_train train = {.steps = 2, .batch = 4, .micro_batch = 2, .sequence = 3};
    int32_t tokens[3], targets[3];
    write_batches(&f, 5, 2, 4);
    assert_mpt_ok(ctx, open_data(ctx, MPT_DATA_BATCHES, f.file, 0, &data));
    assert_non_null(strstr(mpt_data_describe(data), "10 rows of 3 tokens"));
    assert_mpt_ok(ctx, mpt_data_settle(data, &train));
    for (int64_t i = 0; i < 24; i++) { /* the rows of six steps: two more than there are */
        mpt_data_train(data, 7, i / 4, i % 4, tokens, targets);
        assert_int_equal(tokens[0], 10 * (i % 10));
        assert_int_equal(targets[2], 10 * (i % 10) + 3);
    }
    assert_int_equal(mpt_data_n_windows(data), 2); /* what two steps leave over */
    mpt_data_window(data, 1, tokens, targets);
    assert_int_equal(tokens[0], 90);
    train.steps = INT64_C(1) << 50;
    assert_mpt_ok(ctx, mpt_data_settle(data, &train));
    assert_int_equal(mpt_data_n_windows(data), 0);
    mpt_data_train(data, 7, INT64_MAX, 3, tokens, targets);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void expect_batches(const folder *f, int64_t vocab, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    mpt_status status = open_data(ctx, MPT_DATA_BATCHES, f->file, vocab, &data);
    if (status == MPT_OK)
        status = settle(data, 3, 2);
    assert_int_equal(status, MPT_DATA);
    if (!strstr(mpt_ctx_error(ctx)->message, message))
        fail_msg("%s", mpt_ctx_error(ctx)->message);
    mpt_data_close(data);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_batches_when_they_are_not_what_is_asked_then_named(void **s) {
    (void)s;
    folder f = folder_make();
    write_batches(&f, 5, 2, 7);
    expect_batches(&f, 0,
                   "rows have 6 tokens and a last target, and train.sequence is 3; set "
                   "train.sequence to 6");
    write_batches(&f, 5, 2, 4);
    expect_batches(&f, 93, "token 39 is 93, and the vocabulary's ids run from 0 to 92");
    write_batches(&f, 0, 2, 4);
    expect_batches(&f, 0, "holds no batch");
    write_batches(&f, 2, 2, 1);
    expect_batches(&f, 0, "its rows have no target");
    header_write(f.file, "{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    expect_batches(&f, 0, "has no tensor 'tokens'");
    header_write(f.file,
                 "{\"tokens\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    expect_batches(&f, 0, "its tensor 'tokens' is no I32");
    header_write(f.file,
                 "{\"tokens\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", 8);
    expect_batches(&f, 0, "has not three dimensions");
    bytes_write(f.file, "letters", 7);
    expect_batches(&f, 0, "");
    folder_remove(&f);
}

/* ---- whole recipes ---- */

#define TRAIN "train = { steps = 2, batch = 2, sequence = 16, lr = constant { peak = 1e-2 } }"

/* The losses of two steps, as the metrics have them; NULL with the error where it fails. */
static mpt_status run_recipe(mpt_ctx *ctx, const char *data, const char *model, float loss[2]) {
    char text[1024];
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_trainer *trainer = NULL;
    int n = snprintf(text, sizeof text,
                     "local gpt2 = require 'models.gpt2'\nreturn recipe { version = 1, name = "
                     "'t', model = gpt2 %s,\n  data = %s,\n  " TRAIN " }",
                     model, data);
    mpt_status status = mpt_recipe_load_string(ctx, "r.lua", text, (size_t)n, NULL, &recipe);
    if (status == MPT_OK)
        status = mpt_compile(recipe, NULL, &program);
    if (status == MPT_OK)
        status = mpt_trainer_create(program, NULL, &trainer);
    for (int i = 0; status == MPT_OK && i < 2; i++) {
        mpt_step_result result;
        status = mpt_trainer_step(trainer, NULL, &result);
        loss[i] = (float)result.loss;
    }
    mpt_trainer_destroy(trainer);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    return status;
}

#define SMALL "{ n_layer = 1, n_head = 2, n_embd = 16, n_positions = 16 }"
#define OWN   "{ n_layer = 1, n_head = 2, n_embd = 16, n_positions = 16, vocab_size = 300 }"

static void test_training_when_tokens_are_bytes_then_the_losses_of_the_text(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    unsigned char bytes[N];
    float text[2], tokens[2];
    char data[256];
    fill(bytes);
    bytes_write(f.file, bytes, N);
    write_tokens(&f, "x.bin", MPT_TOKENS_NANOGPT);
    snprintf(data, sizeof data, "text '%s'", f.file);
    assert_mpt_ok(ctx, run_recipe(ctx, data, SMALL, text));
    snprintf(data, sizeof data, "tokens { path = '%s', vocab = 256 }",
             path_in(&f, "x.bin").text);
    assert_mpt_ok(ctx, run_recipe(ctx, data, SMALL, tokens));
    assert_memory_equal(text, tokens, sizeof text);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_training_when_nothing_states_the_vocabulary_then_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    float loss[2];
    char data[256];
    write_tokens(&f, "x.bin", MPT_TOKENS_LLMC);
    snprintf(data, sizeof data, "tokens '%s'", path_in(&f, "x.bin").text);
    assert_int_equal(run_recipe(ctx, data, SMALL, loss), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "the model takes the data's vocabulary, which nothing states; write "
                           "data = tokens { path = ..., vocab = n }"));
    assert_mpt_ok(ctx, run_recipe(ctx, data, OWN, loss));
    snprintf(data, sizeof data, "tokens { path = '%s', vocab = 301 }",
             path_in(&f, "x.bin").text);
    assert_int_equal(run_recipe(ctx, data, OWN, loss), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message,
                           "300 rows, but the data's vocabulary has 301 tokens"));
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* Each is refused at its own line. */
static void test_recipe_when_words_are_wrong_then_refused(void **s) {
    (void)s;
    static const struct {
        const char *data, *message;
    } rows[] = {
        {"tokens {}", "data.path: there is no file"},
        {"tokens { path = 'x', vocab = 0 }", "data.vocab: out of range: 0"},
        {"tokens { path = 'x', vocab = 1.5 }", "data.vocab"},
        {"tokens { path = 'x', seed = 1 }", "data: no field 'seed'"},
        {"tokens(1)", "tokens: takes plain arguments; write tokens \"file.bin\""},
        {"batches { 'x', 'y' }", "stands here without a name"},
        {"token 'x'", "did you mean 'tokens'?"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        float loss[2];
        assert_int_equal(run_recipe(ctx, rows[i].data, SMALL, loss), MPT_INVALID);
        if (!strstr(mpt_ctx_error(ctx)->message, rows[i].message))
            fail_msg("%s", mpt_ctx_error(ctx)->message);
        assert_memory_equal(mpt_ctx_error(ctx)->message, "r.lua:", 6);
        mpt_ctx_destroy(ctx);
    }
}

/* ---- every allocation fails once ---- */

static void sweep(mpt_data_kind kind, const char *path) {
    mpt_status status = MPT_OUT_OF_MEMORY;
    long n = 0;
    for (; status != MPT_OK; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        mpt_data *data;
        a.left = n;
        status = open_data(ctx, kind, path, 0, &data);
        assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
        mpt_data_close(data);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
    }
    assert_true(n > 3);
}

static void test_open_when_any_allocation_fails_then_clean(void **s) {
    (void)s;
    folder f = folder_make();
    write_batches(&f, 5, 2, 4);
    sweep(MPT_DATA_BATCHES, f.file);
    write_tokens(&f, "x.bin", MPT_TOKENS_MEGATRON);
    sweep(MPT_DATA_TOKENS, path_in(&f, "x.bin").text);
    folder_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_tokens_when_they_are_bytes_then_all_windows_are_those_of_the_text),
    cmocka_unit_test(test_p80_tokens_when_shorter_than_a_window_then_needed_and_present),
    cmocka_unit_test(test_p80_tokens_when_one_window_then_it_is_drawn),
    cmocka_unit_test(
        test_tokens_when_the_vocabulary_is_not_stated_then_only_a_model_can_say_it),
    cmocka_unit_test(test_override_when_content_differs_then_it_decides),
    cmocka_unit_test(test_override_when_a_text_seems_to_be_none_then_that_is_told),
    cmocka_unit_test(test_override_when_something_speaks_of_tokens_then_zeros_are_ids),
    cmocka_unit_test(test_tokens_when_a_pair_is_beside_the_recipe_then_found),
    cmocka_unit_test(test_batches_when_trained_on_then_rows_come_in_order),
    cmocka_unit_test(test_batches_when_they_are_not_what_is_asked_then_named),
    cmocka_unit_test(test_training_when_tokens_are_bytes_then_the_losses_of_the_text),
    cmocka_unit_test(test_training_when_nothing_states_the_vocabulary_then_named),
    cmocka_unit_test(test_recipe_when_words_are_wrong_then_refused),
    cmocka_unit_test(test_open_when_any_allocation_fails_then_clean),
};

MPT_TEST_MAIN(cases)
