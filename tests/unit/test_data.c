/* Text as data: paths, lengths, windows, draws. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/data.h"

/* A folder of its own with one file in it. */
typedef struct place {
    char folder[64], file[96];
} place;

static place make_file(const void *bytes, size_t n) {
    place p = {"/tmp/mpt_test_data_XXXXXX", ""};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.file, sizeof p.file, "%s/text.txt", p.folder);
    FILE *f = fopen(p.file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return p;
}

static void remove_file(const place *p) {
    assert_int_equal(remove(p->file), 0);
    assert_int_equal(rmdir(p->folder), 0);
}

/* A file of n bytes that counts 0 ... 250 and starts again. */
static place make_counting_file(size_t n) {
    unsigned char *bytes = malloc(n + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i % 251);
    place p = make_file(bytes, n);
    free(bytes);
    return p;
}

/* What a run tells its data: rows of `sequence` tokens, so many a step. */
static mpt_status settle(mpt_data *data, int64_t sequence, int64_t batch) {
    mpt_train train = {.steps = 1, .batch = batch, .micro_batch = 1, .sequence = sequence};
    return mpt_data_settle(data, &train);
}

static mpt_status open_text(mpt_ctx *ctx, const char *path, const char *recipe,
                            mpt_data **out) {
    mpt_data_spec spec = {.kind = MPT_DATA_TEXT, .path = path, .where = {"r.lua", 7}};
    return mpt_data_open(ctx, &spec, NULL, recipe, out);
}

static void test_text_when_file_is_missing_then_error_names_path_and_line(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    assert_int_equal(open_text(ctx, "no/such.txt", "r.lua", &data), MPT_NOT_FOUND);
    assert_null(data);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "r.lua:7: no/such.txt: No such file or directory; a path starts at the "
                        "working directory or at the recipe's folder");
    mpt_ctx_destroy(ctx);
}

static void test_text_when_file_is_empty_then_refused(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    place p = make_file("", 0);
    assert_int_equal(open_text(ctx, p.file, NULL, &data), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "text.txt: is empty"));
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_path_is_a_folder_then_refused(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    assert_int_equal(open_text(ctx, "/tmp", NULL, &data), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "/tmp: not a regular file"));
    mpt_ctx_destroy(ctx);
}

static void test_text_when_shorter_than_a_window_then_needed_and_present_are_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    place p = make_file("0123456789", 10);
    assert_mpt_ok(ctx, open_text(ctx, p.file, NULL, &data));
    assert_int_equal(settle(data, 128, 4), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "needs 129 tokens, has 10"));
    assert_int_equal(settle(data, 10, 4), MPT_DATA);
    assert_mpt_ok(ctx, settle(data, 9, 4));
    assert_int_equal(mpt_data_n_windows(data), 0);
    int32_t tokens[9], targets[9];
    mpt_data_train(data, 1, 5, 3, tokens, targets);
    assert_int_equal(tokens[0], '0');
    assert_int_equal(targets[8], '9');
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_path_is_beside_the_recipe_then_found(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    place p = make_counting_file(1000);
    char recipe[128];
    snprintf(recipe, sizeof recipe, "%s/r.lua", p.folder);
    assert_mpt_ok(ctx, open_text(ctx, "text.txt", recipe, &data));
    assert_non_null(strstr(mpt_data_describe(data), "text.txt, 1,000 tokens"));
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_path_is_overridden_then_recipe_data_is_not_read(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    place p = make_counting_file(1000);
    mpt_data_spec spec = {.kind = MPT_DATA_TEXT, .path = "no/such.txt"};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, p.file, NULL, &data));
    assert_int_equal(mpt_data_vocab(data), 256);
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_windows_are_read_then_they_lie_in_the_last_tenth_apart(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    enum { N = 251 * 40, SEQUENCE = 10 };
    place p = make_counting_file(N);
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    assert_mpt_ok(ctx, open_text(ctx, p.file, NULL, &data));
    assert_mpt_ok(ctx, settle(data, SEQUENCE, 4));
    int64_t n = mpt_data_n_windows(data);
    assert_int_equal(n, (N / 10 - 1) / SEQUENCE);
    for (int64_t w = 0; w < n; w++) {
        mpt_data_window(data, w, tokens, targets);
        assert_int_equal(tokens[0], (N - N / 10 + w * SEQUENCE) % 251);
        assert_int_equal(targets[SEQUENCE - 1], (N - N / 10 + (w + 1) * SEQUENCE) % 251);
    }
    assert_mpt_ok(ctx, settle(data, 2, 4));
    assert_int_equal(mpt_data_n_windows(data), 200);
    mpt_data_window(data, 199, tokens, targets);
    assert_true((N - N / 10 + 2 * 199) % 251 != tokens[0]); /* spread over the tenth */
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_rows_are_drawn_then_only_the_training_part_is_used(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    enum { N = 1000, SEQUENCE = 50 };
    unsigned char bytes[N];
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i < 900 ? i / 100 : 99);
    place p = make_file(bytes, N);
    int32_t tokens[SEQUENCE], targets[SEQUENCE], first = 0, last = 0;
    assert_mpt_ok(ctx, open_text(ctx, p.file, NULL, &data));
    assert_mpt_ok(ctx, settle(data, SEQUENCE, 4));
    for (int64_t row = 0; row < 4000; row++) {
        mpt_data_train(data, 1, row / 4, row % 4, tokens, targets);
        assert_true(targets[SEQUENCE - 1] <= 8);
        first += tokens[0] == 0;
        last += targets[SEQUENCE - 1] == 8;
        for (int i = 0; i + 1 < SEQUENCE; i++)
            assert_int_equal(targets[i], tokens[i + 1]);
    }
    assert_true(first > 350 && last > 350); /* 100 of 850 starts each: 470 expected */
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_step_row_or_seed_differ_then_draws_differ(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    enum { SEQUENCE = 16 };
    place p = make_counting_file(100000);
    int32_t a[SEQUENCE], b[SEQUENCE], t[SEQUENCE];
    assert_mpt_ok(ctx, open_text(ctx, p.file, NULL, &data));
    assert_mpt_ok(ctx, settle(data, SEQUENCE, 4));
    mpt_data_train(data, 1, 10, 2, a, t);
    mpt_data_train(data, 1, 11, 2, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(data, 1, 10, 3, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(data, 2, 10, 2, b, t);
    assert_memory_not_equal(a, b, sizeof a);
    mpt_data_train(data, 1, 10, 2, b, t);
    assert_memory_equal(a, b, sizeof a);
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static void test_text_when_bytes_are_uniform_then_unigram_entropy_is_known(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    place p = make_counting_file(251 * 100);
    assert_mpt_ok(ctx, open_text(ctx, p.file, NULL, &data));
    assert_true(isnan(mpt_data_entropy(data)));
    assert_true(fabs(mpt_data_unigram_entropy(data) - log(251)) < 1e-9);
    mpt_data_close(data);
    remove_file(&p);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_text_when_file_is_missing_then_error_names_path_and_line),
    cmocka_unit_test(test_text_when_file_is_empty_then_refused),
    cmocka_unit_test(test_text_when_path_is_a_folder_then_refused),
    cmocka_unit_test(test_text_when_shorter_than_a_window_then_needed_and_present_are_named),
    cmocka_unit_test(test_text_when_path_is_beside_the_recipe_then_found),
    cmocka_unit_test(test_text_when_path_is_overridden_then_recipe_data_is_not_read),
    cmocka_unit_test(test_text_when_windows_are_read_then_they_lie_in_the_last_tenth_apart),
    cmocka_unit_test(test_text_when_rows_are_drawn_then_only_the_training_part_is_used),
    cmocka_unit_test(test_text_when_step_row_or_seed_differ_then_draws_differ),
    cmocka_unit_test(test_text_when_bytes_are_uniform_then_unigram_entropy_is_known),
};

MPT_TEST_MAIN(cases)
