/* The synthetic language: its stated entropies against long samples, and how rows are keyed. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "train/data.h"
#include "train/language.h"

enum { LONG = 2000000 };

static mpt_data *open_language(mpt_ctx *ctx, uint64_t seed, int32_t vocab) {
    mpt_data *data = NULL;
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .seed = seed, .vocab = vocab};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, NULL, &data));
    return data;
}

static void settle(mpt_data *data, int64_t sequence) {
    mpt_train train = {.steps = 1, .batch = 1, .micro_batch = 1, .sequence = sequence};
    assert_int_equal(mpt_data_settle(data, &train), MPT_OK);
}

static int32_t *long_sample(mpt_data *data, int64_t row) {
    int32_t *tokens = malloc(LONG * sizeof *tokens), *targets = malloc(LONG * sizeof *targets);
    assert_non_null(tokens);
    assert_non_null(targets);
    settle(data, LONG);
    mpt_data_train(data, 5, 0, row, tokens, targets);
    for (int i = 0; i + 1 < LONG; i++)
        assert_int_equal(targets[i], tokens[i + 1]);
    free(targets);
    return tokens;
}

/* ---- the true model, written a second time: probability of each token given the past ---- */

typedef struct reader {
    mpt_language l;
    int32_t *class_of; /* by token */
    double *p_word;    /* of the token within its class */
    int32_t state;
    int64_t sentence, copy_from;
} reader;

static void reader_init(reader *r, mpt_arena *arena, uint64_t seed, int32_t vocab) {
    assert_int_equal(mpt_language_init(&r->l, arena, seed, vocab), MPT_OK);
    r->class_of = calloc((size_t)vocab, sizeof *r->class_of);
    r->p_word = calloc((size_t)vocab, sizeof *r->p_word);
    for (int32_t c = 0; c < r->l.n_classes; c++) {
        uint64_t before = 0;
        for (int32_t i = r->l.first_word[c]; i < r->l.first_word[c + 1]; i++) {
            r->class_of[r->l.word[i]] = c;
            r->p_word[r->l.word[i]] = (double)(r->l.below[i] - before) / 0x1p32;
            before = r->l.below[i];
        }
        assert_true(before == (uint64_t)1 << 32);
    }
    r->state = r->l.n_classes;
    r->sentence = 0;
    r->copy_from = -1;
}

static double grammar_probability(reader *r, int32_t token) {
    const mpt_follow *f = &r->l.follow[r->state];
    if (token == MPT_LANGUAGE_STOP) {
        r->state = r->l.n_classes;
        return (double)f->stop / 0x1p32;
    }
    double p = 0;
    for (int k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++)
        if (f->to[k] == r->class_of[token])
            p += (double)(f->below[k] - (k ? f->below[k - 1] : f->stop)) / 0x1p32;
    r->state = r->class_of[token];
    return p * r->p_word[token];
}

static double probability(reader *r, const int32_t *tokens, int64_t i) {
    double again = (double)r->l.again / 0x1p32, p = 1;
    if (i > 0 && tokens[i - 1] == MPT_LANGUAGE_STOP) {
        if (tokens[i] == MPT_LANGUAGE_AGAIN) {
            r->copy_from = r->sentence;
            r->sentence = i + 1;
            return again;
        }
        r->sentence = i;
        r->copy_from = -1;
        p = 1 - again;
    }
    if (r->copy_from >= 0)
        return tokens[i] == tokens[r->copy_from++] ? 1 : 0;
    return p * grammar_probability(r, tokens[i]);
}

static void check_entropy(uint64_t seed, int32_t vocab) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    reader r;
    reader_init(&r, &arena, seed, vocab);
    mpt_data *data = open_language(ctx, seed, vocab);
    int32_t *tokens = long_sample(data, 0);
    double loss = 0;
    for (int64_t i = 0; i < LONG; i++) {
        double p = probability(&r, tokens, i);
        assert_true(p > 0);
        loss -= log(p) / LONG;
    }
    print_message("vocab %d: entropy %.4f, sample %.4f, unigram %.4f\n", vocab,
                  mpt_data_entropy(data), loss, mpt_data_unigram_entropy(data));
    assert_true(fabs(loss / mpt_data_entropy(data) - 1) < 0.005);
    free(tokens);
    free(r.class_of);
    free(r.p_word);
    mpt_data_close(data);
    mpt_arena_deinit(&arena);
    mpt_ctx_destroy(ctx);
}

static void test_entropy_when_vocab_is_128_then_log_loss_of_the_true_model_agrees(void **s) {
    (void)s;
    check_entropy(0, 128);
}

static void test_entropy_when_seed_differs_then_it_still_agrees(void **s) {
    (void)s;
    check_entropy(99, 128);
}

static void test_entropy_when_vocab_is_smallest_or_large_then_it_still_agrees(void **s) {
    (void)s;
    check_entropy(0, MPT_LANGUAGE_MIN_VOCAB);
    check_entropy(0, 50257);
}

static void test_unigram_entropy_when_tokens_are_counted_then_it_agrees(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data = open_language(ctx, 0, 128);
    int32_t *tokens = long_sample(data, 1), count[128] = {0};
    double h = 0;
    for (int i = 0; i < LONG; i++)
        count[tokens[i]]++;
    for (int v = 0; v < 128; v++) {
        assert_true(count[v] > 0); /* every word is used */
        h -= (double)count[v] / LONG * log((double)count[v] / LONG);
    }
    assert_true(fabs(h - mpt_data_unigram_entropy(data)) < 0.005);
    free(tokens);
    mpt_data_close(data);
    mpt_ctx_destroy(ctx);
}

/* What a model of pairs can reach: the gap that short runs learn must be wide. */
static void test_language_when_one_word_of_context_is_known_then_a_nat_is_gained(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data = open_language(ctx, 0, 128);
    int32_t *tokens = long_sample(data, 2);
    static double pair[128][128];
    double h = 0, from[128] = {0};
    memset(pair, 0, sizeof pair);
    for (int i = 0; i + 1 < LONG; i++) {
        pair[tokens[i]][tokens[i + 1]]++;
        from[tokens[i]]++;
    }
    for (int a = 0; a < 128; a++)
        for (int b = 0; b < 128; b++)
            if (pair[a][b] > 0)
                h -= pair[a][b] / LONG * log(pair[a][b] / from[a]);
    print_message("one word of context: %.4f\n", h);
    assert_true(h < mpt_data_unigram_entropy(data) - 1);
    assert_true(h > mpt_data_entropy(data) + 0.2); /* and more context must pay again */
    free(tokens);
    mpt_data_close(data);
    mpt_ctx_destroy(ctx);
}

static void test_rows_when_asked_alone_then_same_as_before_and_all_different(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data = open_language(ctx, 0, 128), *other = open_language(ctx, 1, 128);
    enum { S = 64 };
    int32_t a[S], b[S], t[S];
    settle(data, S);
    settle(other, S);
    mpt_data_train(data, 1, 1000000007, 3, a, t);
    mpt_data_train(data, 1, 1000000007, 3, b, t);
    assert_memory_equal(a, b, sizeof a);
    mpt_data_train(data, 1, 1000000007, 4, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(data, 1, 1000000008, 3, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(data, 2, 1000000007, 3, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(other, 1, 1000000007, 3, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_close(data);
    mpt_data_close(other);
    mpt_ctx_destroy(ctx);
}

static void test_row_when_longer_then_shorter_one_is_its_beginning(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data = open_language(ctx, 0, 128);
    int32_t a[1], b[100], t[100], u[1];
    settle(data, 1);
    mpt_data_train(data, 1, 0, 0, a, u);
    settle(data, 100);
    mpt_data_train(data, 1, 0, 0, b, t);
    assert_int_equal(a[0], b[0]);
    assert_int_equal(u[0], t[0]);
    mpt_data_close(data);
    mpt_ctx_destroy(ctx);
}

static void test_windows_when_compared_with_training_then_disjoint_streams(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data = open_language(ctx, 0, 128);
    enum { S = 32 };
    int32_t a[S], b[S], t[S];
    settle(data, S);
    assert_int_equal(mpt_data_n_windows(data), 200);
    for (int64_t w = 0; w < 200; w++) {
        mpt_data_window(data, w, a, t);
        for (int64_t step = 0; step < 200; step++) {
            mpt_data_train(data, 0, step, 0, b, t);
            assert_memory_not_equal(a, b, sizeof a);
        }
    }
    mpt_data_close(data);
    mpt_ctx_destroy(ctx);
}

static void test_vocab_when_too_small_or_large_then_refused_with_the_range(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .vocab = 7, .where = {"r.lua", 3}};
    assert_int_equal(mpt_data_open(ctx, &spec, NULL, NULL, &data), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:3: data.vocab: 7 words are no language; give 8 to 1048576");
    spec.vocab = MPT_LANGUAGE_MAX_VOCAB + 1;
    assert_int_equal(mpt_data_open(ctx, &spec, NULL, NULL, &data), MPT_INVALID);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_vocab_when_large_then_ids_stay_below_it(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    enum { S = 4096 };
    static int32_t a[S], t[S];
    for (int32_t vocab = 8; vocab <= 131072; vocab *= 4) {
        mpt_data *data = open_language(ctx, 0, vocab);
        int32_t most = 0;
        settle(data, S);
        mpt_data_train(data, 1, 0, 0, a, t);
        for (int i = 0; i < S; i++) {
            assert_in_range(a[i], 0, (uintmax_t)vocab - 1);
            most = a[i] > most ? a[i] : most;
        }
        assert_true(most > vocab / 2);
        mpt_data_close(data);
    }
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_entropy_when_vocab_is_128_then_log_loss_of_the_true_model_agrees),
    cmocka_unit_test(test_entropy_when_seed_differs_then_it_still_agrees),
    cmocka_unit_test(test_entropy_when_vocab_is_smallest_or_large_then_it_still_agrees),
    cmocka_unit_test(test_unigram_entropy_when_tokens_are_counted_then_it_agrees),
    cmocka_unit_test(test_language_when_one_word_of_context_is_known_then_a_nat_is_gained),
    cmocka_unit_test(test_rows_when_asked_alone_then_same_as_before_and_all_different),
    cmocka_unit_test(test_row_when_longer_then_shorter_one_is_its_beginning),
    cmocka_unit_test(test_windows_when_compared_with_training_then_disjoint_streams),
    cmocka_unit_test(test_vocab_when_too_small_or_large_then_refused_with_the_range),
    cmocka_unit_test(test_vocab_when_large_then_ids_stay_below_it),
};

MPT_TEST_MAIN(cases)
