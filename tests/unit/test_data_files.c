/* Several files as one corpus: globs, weights, mixed formats, orders, and what is held back. */
#include <math.h>
#include <stdlib.h>

#include "allowance.h"
#include "token_file.h"
#include "train/data.h"

enum { SEQUENCE = 8, BATCH = 4, MOST = 64 };

/* A file whose every token says where it is: file `mark` of 16, and place / 8 in it. Windows
 * that start at a multiple of 8 have one number. */
static void write_marked(const folder *f, const char *name, int mark, int n) {
    static int32_t ids[4096];
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_token_writer *w;
    mpt_token_spec spec = {.format = MPT_TOKENS_NANOGPT, .n = n, .vocab = 8192};
    assert_true(n <= (int)MPT_COUNT(ids));
    for (int i = 0; i < n; i++)
        ids[i] = mark * 512 + i / SEQUENCE;
    assert_mpt_ok(ctx, mpt_tokens_create(ctx, path_in(f, name).text, &spec, &w));
    assert_mpt_ok(ctx, mpt_tokens_put(w, 0, n, ids));
    assert_mpt_ok(ctx, mpt_tokens_commit(w));
    mpt_ctx_destroy(ctx);
}

static mpt_status settle(mpt_data *data, int64_t steps) {
    mpt_train train = {.steps = steps, .batch = BATCH, .micro_batch = 1, .sequence = SEQUENCE};
    return mpt_data_settle(data, &train);
}

/* Opens the files, NULL past the last, in this order. Nothing is held back. */
typedef struct wanted {
    const char *files[4];
    double weights[4];
    mpt_data_order order;
    mpt_remainder remainder;
    double share;
    const char *held;
} wanted;

static mpt_status open_wanted(mpt_ctx *ctx, const folder *f, const wanted *w, mpt_data **out) {
    mpt_data_file files[4];
    path_text paths[4], held;
    int n = 0;
    for (; n < 4 && w->files[n]; n++) {
        paths[n] = path_in(f, w->files[n]);
        double weight = w->weights[n] > 0 ? w->weights[n] : 1;
        files[n] = (mpt_data_file){
            .path = paths[n].text, .weight = weight, .where = {"r.lua", 10 + n}};
    }
    if (w->held)
        held = path_in(f, w->held);
    mpt_data_spec spec = {.kind = MPT_DATA_TOKENS,
                          .files = files,
                          .n_files = n,
                          .order = w->order,
                          .remainder = w->remainder,
                          .words = 8192,
                          .validation = {w->share, w->held ? held.text : NULL},
                          .set = UINT64_MAX,
                          .where = {"r.lua", 7}};
    return mpt_data_open(ctx, &spec, NULL, NULL, out);
}

static mpt_data *open_good(mpt_ctx *ctx, const folder *f, const wanted *w) {
    mpt_data *data;
    assert_mpt_ok(ctx, open_wanted(ctx, f, w, &data));
    assert_mpt_ok(ctx, settle(data, 100));
    return data;
}

static void expect(const folder *f, const wanted *w, mpt_status wanted_status,
                   const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    mpt_status status = open_wanted(ctx, f, w, &data);
    if (status == MPT_OK)
        status = settle(data, 1);
    assert_int_equal(status, wanted_status);
    if (!strstr(mpt_ctx_error(ctx)->message, message))
        fail_msg("%s", mpt_ctx_error(ctx)->message);
    mpt_data_close(data);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* The first token of a row. */
static int32_t first_of(const mpt_data *data, uint64_t seed, int64_t step, int64_t row) {
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    mpt_data_train(data, seed, step, row, tokens, targets);
    return tokens[0];
}

/* ---- names ---- */

static void test_glob_when_it_matches_then_one_corpus_in_the_order_of_names(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    write_marked(&f, "s_b.bin", 1, 8 * 3 + 1);
    write_marked(&f, "s_a.bin", 0, 8 * 2 + 1);
    write_marked(&f, "s_c.bin", 2, 8 * 1 + 1);
    write_marked(&f, "other.bin", 3, 8 * 1 + 1);
    mpt_data *data =
        open_good(ctx, &f, &(wanted){.files = {"s_?.bin"}, .order = MPT_ORDER_SEQUENTIAL});
    static const int32_t order[] = {0, 1, 512, 513, 514, 1024};
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(first_of(data, 1, i / BATCH, i % BATCH), order[i % 6]);
    assert_non_null(strstr(mpt_data_describe(data), "51 tokens of 3 files, "));
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* The two files of a pair are one corpus, and a name that is there is no glob. */
static void test_glob_when_pairs_and_plain_names_then_each_is_taken_once(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    static const int32_t length[] = {17};
    raw ids = {.n = 0}, index = raw_index(8, 2, length, 1);
    for (int i = 0; i < 17; i++)
        raw_put(&ids, 7, 2);
    raw_write(&f, "p1.bin", &ids);
    raw_write(&f, "p1.idx", &index);
    raw_write(&f, "p2.bin", &ids);
    raw_write(&f, "p2.idx", &index);
    raw_write(&f, "p[1].bin", &ids);
    mpt_data *data =
        open_good(ctx, &f, &(wanted){.files = {"p?.*"}, .order = MPT_ORDER_SHUFFLE});
    assert_non_null(strstr(mpt_data_describe(data), "34 tokens of 2 files"));
    mpt_data_close(data);
    data = open_good(ctx, &f, &(wanted){.files = {"p[1].bin"}});
    assert_non_null(strstr(mpt_data_describe(data), "p[1].bin (nanoGPT)"));
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_glob_when_nothing_matches_then_the_nearest_name(void **s) {
    (void)s;
    folder f = folder_make();
    write_marked(&f, "train_0.bin", 0, 100);
    expect(&f, &(wanted){.files = {"train_?.bni"}}, MPT_NOT_FOUND,
           "train_?.bni: matches no file; did you mean '");
    expect(&f, &(wanted){.files = {"trian_0.bin"}}, MPT_NOT_FOUND, "train_0.bin'?");
    expect(&f, &(wanted){.files = {"train_0.bin", "none/*.bin"}}, MPT_NOT_FOUND,
           "none/*.bin: matches no file; a path starts at the working directory");
    folder_remove(&f);
}

/* Beside the recipe, whose folder may have the characters of a glob in its own name. */
static void test_glob_when_beside_the_recipe_then_found(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    bool made;
    path_text inner = path_in(&f, "a[b]*"), recipe = path_in(&f, "a[b]*/r.lua");
    assert_mpt_ok(ctx, mpt_file_make_folder(ctx, inner.text, &made));
    write_marked(&f, "a[b]*/x1.bin", 0, 100);
    mpt_data_spec spec = {.kind = MPT_DATA_TOKENS, .path = "x?.bin", .words = 8192};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, recipe.text, &data));
    mpt_data_close(data);
    unlink(path_in(&f, "a[b]*/x1.bin").text);
    rmdir(inner.text);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_list_when_a_file_comes_twice_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    write_marked(&f, "a.bin", 0, 100);
    expect(&f, &(wanted){.files = {"a.bin", "*.bin"}}, MPT_DATA,
           "a.bin: is among the files already; give it a weight");
    expect(&f, &(wanted){.files = {"a.bin", "./a.bin"}}, MPT_DATA,
           "./a.bin: is among the files already; give it a weight");
    assert_int_equal(symlink("a.bin", path_in(&f, "b.bin").text), 0);
    expect(&f, &(wanted){.files = {"a.bin", "b.bin"}}, MPT_DATA,
           "b.bin: is among the files already; give it a weight");
    expect(&f, &(wanted){.files = {"a.bin"}, .held = "a.bin"}, MPT_DATA,
           "validation wants tokens that training does not read");
    folder_remove(&f);
}

/* ---- what is wrong in one of them ---- */

/* P80 of a list: the short file is named at its own line, whatever the others have. */
static void test_p80_list_when_one_file_is_short_then_named(void **s) {
    (void)s;
    folder f = folder_make();
    write_marked(&f, "long.bin", 0, 1000);
    write_marked(&f, "short.bin", 1, 8);
    write_marked(&f, "empty.bin", 1, 0);
    bytes_write(path_in(&f, "odd.bin").text, "\1\0\2", 3);
    expect(&f, &(wanted){.files = {"long.bin", "short.bin"}}, MPT_DATA,
           "short.bin: needs 9 tokens, has 8; use a longer file");
    expect(&f, &(wanted){.files = {"long.bin", "short.bin"}}, MPT_DATA, "r.lua:11: ");
    expect(&f, &(wanted){.files = {"empty.bin", "long.bin"}}, MPT_DATA,
           "empty.bin: needs 9 tokens, has 0");
    expect(&f, &(wanted){.files = {"long.bin", "odd.bin"}}, MPT_DATA,
           "odd.bin: 3 bytes are no whole number of uint16 tokens");
    expect(&f, &(wanted){.files = {"long.bin"}, .held = "short.bin"}, MPT_DATA,
           "short.bin: needs 9 tokens, has 8");
    folder_remove(&f);
}

/* P79 and P81 of a list: every file's ids are checked, and its type against the vocabulary. */
static void test_p79_list_when_an_id_is_too_large_then_file_and_position(void **s) {
    (void)s;
    folder f = folder_make();
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    raw r = raw_ids((int64_t[]){1, 2, 8192, 3}, 4, 2);
    write_marked(&f, "a.bin", 0, 100);
    raw_write(&f, "b.bin", &r);
    expect(&f, &(wanted){.files = {"a.bin", "b.bin"}}, MPT_DATA,
           "b.bin: token 2 is 8192, and the vocabulary's ids run from 0 to 8191");
    mpt_data_file files[] = {{.path = path_in(&f, "a.bin").text, .weight = 1}};
    path_text p = path_in(&f, "a.bin");
    files[0].path = p.text;
    mpt_data_spec spec = {
        .kind = MPT_DATA_TOKENS, .files = files, .n_files = 1, .words = 128256};
    assert_int_equal(mpt_data_open(ctx, &spec, NULL, NULL, &data), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "a.bin: holds uint16, whose ids end"));
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Formats may differ: nanoGPT's uint16 and llm.c's uint32. The narrowest type bounds a model.
 */
static void test_p81_list_when_formats_are_mixed_then_the_narrowest_bounds_the_model(void **s) {
    (void)s;
    folder f = folder_make();
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_data *data;
    raw wide = raw_shard(20240801, 7, 3, (int64_t[]){1, 70000, 2}, 3);
    raw_write(&f, "wide.bin", &wide);
    write_marked(&f, "narrow.bin", 0, 100);
    path_text p[2] = {path_in(&f, "wide.bin"), path_in(&f, "narrow.bin")};
    mpt_data_file files[] = {{.path = p[0].text, .weight = 1},
                             {.path = p[1].text, .weight = 1}};
    mpt_data_spec spec = {.kind = MPT_DATA_TOKENS, .files = files, .n_files = 2};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, NULL, &data));
    assert_int_equal(mpt_data_vocab(data), 70001);
    assert_int_equal(mpt_data_check_model(data, 70001), MPT_DATA);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "narrow.bin: its ids end at 65535"));
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- orders ---- */

/* How often each window of `epoch` comes; counts by the first token, which is the window's. */
static void count_epoch(const mpt_data *data, uint64_t seed, int64_t epoch, int64_t n,
                        int count[4][512]) {
    memset(count, 0, 4 * sizeof *count);
    for (int64_t i = epoch * n; i < (epoch + 1) * n; i++) {
        int32_t id = first_of(data, seed, i / BATCH, i % BATCH);
        count[id / 512][id % 512]++;
    }
}

static void test_shuffle_when_an_epoch_is_over_then_each_window_came_once(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int count[4][512];
    write_marked(&f, "a.bin", 0, 8 * 37 + 1);
    write_marked(&f, "b.bin", 1, 8 * 5 + 1);
    mpt_data *data =
        open_good(ctx, &f, &(wanted){.files = {"a.bin", "b.bin"}, .order = MPT_ORDER_SHUFFLE});
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        count_epoch(data, 7, epoch, 42, count);
        for (int i = 0; i < 512; i++) {
            assert_int_equal(count[0][i], i < 37);
            assert_int_equal(count[1][i], i < 5);
        }
    }
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Any order of asking, any number of times: a row is its own function of seed and place. */
static void test_shuffle_when_rows_are_asked_in_any_order_then_the_same(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int32_t forth[MOST], other_seed = 0, other_epoch = 0;
    write_marked(&f, "a.bin", 0, 8 * MOST + 1);
    wanted w = {.files = {"a.bin"}, .order = MPT_ORDER_SHUFFLE};
    mpt_data *data = open_good(ctx, &f, &w), *again = open_good(ctx, &f, &w);
    for (int64_t i = 0; i < MOST; i++)
        forth[i] = first_of(data, 3, i / BATCH, i % BATCH);
    for (int64_t i = MOST; i-- > 0;) {
        assert_int_equal(first_of(again, 3, i / BATCH, i % BATCH), forth[i]);
        other_seed += first_of(data, 4, i / BATCH, i % BATCH) == forth[i];
        other_epoch += first_of(data, 3, (MOST + i) / BATCH, i % BATCH) == forth[i];
    }
    assert_true(other_seed < 8 && other_epoch < 8);
    mpt_data_close(data);
    mpt_data_close(again);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* What the windows leave over is at the front in one epoch and at the back in another, so that
 * no token is never trained on. Ids are places here. */
static void test_shuffle_when_windows_leave_tokens_over_then_each_epoch_cuts_anew(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    raw r = {.n = 0};
    bool seen[8] = {false};
    for (int i = 0; i < 8 * 4 + 1 + 7; i++)
        raw_put(&r, (uint64_t)i, 2);
    raw_write(&f, "a.bin", &r);
    mpt_data *data =
        open_good(ctx, &f, &(wanted){.files = {"a.bin"}, .order = MPT_ORDER_SHUFFLE});
    for (int64_t epoch = 0; epoch < 64; epoch++) {
        int32_t offset = first_of(data, 1, epoch, 0) % 8;
        seen[offset] = true;
        for (int64_t row = 1; row < 4; row++)
            assert_int_equal(first_of(data, 1, epoch, row) % 8, offset);
    }
    for (int i = 0; i < 8; i++)
        assert_true(seen[i]);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- weights ---- */

/* An epoch has a window of weight 2 twice, and half of those of weight 0.5: another half each
 * time. */
static void test_weight_when_shuffled_then_windows_come_so_many_times(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int count[4][512], both[40] = {0}, changes = 0;
    write_marked(&f, "a.bin", 0, 8 * 40 + 1);
    write_marked(&f, "b.bin", 1, 8 * 10 + 1);
    write_marked(&f, "c.bin", 2, 8 * 30 + 1);
    mpt_data *data = open_good(ctx, &f,
                               &(wanted){.files = {"a.bin", "b.bin", "c.bin"},
                                         .weights = {0.5, 2.5, 1},
                                         .order = MPT_ORDER_SHUFFLE});
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int a = 0, b = 0;
        count_epoch(data, 5, epoch, 20 + 25 + 30, count);
        for (int i = 0; i < 40; i++) {
            assert_in_range(count[0][i], 0, 1);
            a += count[0][i];
            changes += epoch == 1 && both[i] != count[0][i];
            both[i] = count[0][i];
        }
        for (int i = 0; i < 10; i++) {
            assert_in_range(count[1][i], 2, 3);
            b += count[1][i];
        }
        for (int i = 0; i < 30; i++)
            assert_int_equal(count[2][i], 1);
        assert_int_equal(a, 20);
        assert_int_equal(b, 25);
    }
    assert_true(changes > 8);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* 1,001 tokens at weight 1 and 501 at weight 3 are drawn as 993 to 3 * 493 starts: 40.2 % of
 * 8,000 rows are 3,214, give or take 5 deviations of 44. */
static void test_weight_when_drawn_at_random_then_shares_are_size_times_weight(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int count[2] = {0}, late = 0;
    write_marked(&f, "a.bin", 0, 1001);
    write_marked(&f, "b.bin", 1, 501);
    mpt_data *data =
        open_good(ctx, &f, &(wanted){.files = {"a.bin", "b.bin"}, .weights = {1, 3}});
    for (int64_t i = 0; i < 8000; i++) {
        int32_t id = first_of(data, 1, i / BATCH, i % BATCH);
        count[id / 512]++;
        late += id >= 512 + 31; /* the second half of the second file: half of its draws */
    }
    assert_in_range(count[0], 3214 - 220, 3214 + 220);
    assert_in_range(late, count[1] / 2 - 200, count[1] / 2 + 200);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- validation ---- */

/* Marks the tokens that rows of training read, and those of validation: never the same. */
static void assert_disjoint(const wanted *w, int64_t held_windows) {
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    static bool trained[2048], held[2048];
    memset(trained, 0, sizeof trained);
    memset(held, 0, sizeof held);
    raw r = {.n = 0};
    for (int i = 0; i < 400; i++)
        raw_put(&r, (uint64_t)i, 2);
    raw_write(&f, "a.bin", &r);
    for (r.n = 0; r.n < 1000;)
        raw_put(&r, 500 + r.n / 2, 2);
    raw_write(&f, "b.bin", &r);
    for (r.n = 0; r.n < 200;)
        raw_put(&r, 1500 + r.n / 2, 2);
    raw_write(&f, "v.bin", &r);
    mpt_data *data = open_good(ctx, &f, w);
    assert_int_equal(mpt_data_n_windows(data), held_windows);
    for (int64_t i = 0; i < held_windows; i++) {
        mpt_data_window(data, i, tokens, targets);
        for (int k = 0; k < SEQUENCE; k++) {
            assert_int_equal(targets[k], tokens[k] + 1);
            assert_false(held[targets[k]]); /* no target is counted twice */
            held[targets[k]] = true;
        }
        held[tokens[0]] = true;
    }
    for (int64_t i = 0; i < 4000; i++) {
        mpt_data_train(data, 2, i / BATCH, i % BATCH, tokens, targets);
        trained[tokens[0]] = true;
        for (int k = 0; k < SEQUENCE; k++)
            trained[targets[k]] = true;
    }
    int both = 0, n = 0;
    for (int i = 0; i < 2048; i++) {
        both += trained[i] && held[i];
        n += trained[i];
    }
    assert_int_equal(both, 0);
    assert_true(n > 600);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_validation_when_held_back_then_training_never_sees_it(void **s) {
    (void)s;
    for (mpt_data_order order = MPT_ORDER_RANDOM; order <= MPT_ORDER_SEQUENTIAL; order++) {
        wanted w = {.files = {"a.bin", "b.bin"}, .order = order, .share = 0.1};
        assert_disjoint(&w, 39 / SEQUENCE + 49 / SEQUENCE);
        w.share = 0.25; /* 99 / 8 and 124 / 8 windows */
        w.weights[1] = 2;
        assert_disjoint(&w, 12 + 15);
        w.held = "v.bin";
        assert_disjoint(&w, 99 / SEQUENCE);
        w.held = NULL;
        w.share = 0;
        assert_disjoint(&w, 0);
    }
}

static void test_validation_when_a_share_holds_no_window_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    write_marked(&f, "a.bin", 0, 100);
    expect(&f, &(wanted){.files = {"a.bin"}, .share = 0.08}, MPT_DATA,
           "data.validation: a share of 0.08 holds no sequence of 8 tokens in any file");
    expect(&f, &(wanted){.files = {"a.bin"}, .held = "v.bin"}, MPT_NOT_FOUND, "v.bin");
    write_marked(&f, "b.bin", 0, 17);
    expect(&f, &(wanted){.files = {"b.bin"}, .share = 0.54}, MPT_DATA,
           "b.bin: needs 9 tokens, has 8 that are not held back for validation; use a longer "
           "file, or lower train.sequence or data.validation");
    folder_remove(&f);
}

/* ---- a run in words ---- */

static void test_run_when_settled_then_told_in_words(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int64_t steps;
    write_marked(&f, "a.bin", 0, 8 * 10 + 1);
    mpt_data *data = open_good(ctx, &f,
                               &(wanted){.files = {"a.bin"},
                                         .order = MPT_ORDER_SHUFFLE,
                                         .remainder = MPT_REMAINDER_STEP});
    assert_mpt_ok(ctx, settle(data, 9));
    assert_string_equal(mpt_data_describe_run(data),
                        "shuffled, 3 epochs of 10 windows, of which 2 fill no batch and are a "
                        "step of their own; nothing held back for validation");
    assert_mpt_ok(ctx, mpt_data_steps(data, 2, &steps));
    assert_int_equal(steps, 6);
    mpt_data_close(data);
    data = open_good(ctx, &f, &(wanted){.files = {"a.bin"}, .share = 0.25});
    assert_mpt_ok(ctx, settle(data, 14));
    assert_string_equal(mpt_data_describe_run(data),
                        "drawn at random, 8 times what there is to train on; validation on the "
                        "last 25 % of it, 2 windows");
    assert_true(mpt_data_epochs(data) == 8);
    assert_int_equal(mpt_data_steps(data, 2, &steps), MPT_INVALID);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "set data.order to shuffle"));
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_drop_when_an_epoch_fills_no_batch_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    write_marked(&f, "a.bin", 0, 8 * 3 + 1);
    expect(&f,
           &(wanted){
               .files = {"a.bin"}, .order = MPT_ORDER_SHUFFLE, .remainder = MPT_REMAINDER_DROP},
           MPT_DATA, "data.remainder: an epoch has 3 windows, which fill no batch of 4");
    folder_remove(&f);
}

/* ---- --data ---- */

static void test_override_when_a_glob_then_all_must_be_of_one_kind(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    raw shard = raw_shard(20240520, 1, 2, (int64_t[]){1, 2}, 2);
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .vocab = 128};
    bytes_write(path_in(&f, "x1").text, "one text", 8);
    bytes_write(path_in(&f, "x2").text, "another", 7);
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, path_in(&f, "x?").text, NULL, &data));
    assert_non_null(strstr(mpt_data_describe(data), "bytes of 2 files"));
    mpt_data_close(data);
    raw_write(&f, "x3", &shard);
    assert_int_equal(mpt_data_open(ctx, &spec, path_in(&f, "x?").text, NULL, &data), MPT_DATA);
    assert_non_null(
        strstr(mpt_ctx_error(ctx)->message, "x3: by their content they are not of one kind"));
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* A text of this word is read as bytes, even where its content is another format's. */
static void test_text_when_content_is_a_shard_then_its_bytes(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_data *data;
    int32_t tokens[SEQUENCE], targets[SEQUENCE];
    raw shard = raw_shard(20240520, 1, 2, (int64_t[]){1, 2}, 2);
    raw_write(&f, "x", &shard);
    path_text p = path_in(&f, "x");
    mpt_data_spec spec = {.kind = MPT_DATA_TEXT, .path = p.text, .order = MPT_ORDER_SEQUENTIAL};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, NULL, &data));
    assert_mpt_ok(ctx, settle(data, 1));
    mpt_data_train(data, 1, 0, 0, tokens, targets);
    assert_int_equal(tokens[0], 0x88);
    assert_int_equal(mpt_data_vocab(data), 256);
    mpt_data_close(data);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- every allocation fails once ---- */

static void test_open_when_any_allocation_fails_then_clean(void **s) {
    (void)s;
    folder f = folder_make();
    mpt_status status = MPT_OUT_OF_MEMORY;
    long n = 0;
    write_marked(&f, "a.bin", 0, 100);
    write_marked(&f, "b1.bin", 1, 100);
    write_marked(&f, "b2.bin", 1, 100);
    write_marked(&f, "v.bin", 1, 100);
    for (; status != MPT_OK; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        mpt_data *data;
        a.left = n;
        status = open_wanted(ctx, &f,
                             &(wanted){.files = {"a.bin", "b?.bin"},
                                       .weights = {1, 2},
                                       .order = MPT_ORDER_SHUFFLE,
                                       .held = "v*.bin"},
                             &data);
        if (status == MPT_OK)
            status = settle(data, 3);
        assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
        mpt_data_close(data);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
    }
    assert_true(n > 5);
    folder_remove(&f);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_glob_when_it_matches_then_one_corpus_in_the_order_of_names),
    cmocka_unit_test(test_glob_when_pairs_and_plain_names_then_each_is_taken_once),
    cmocka_unit_test(test_glob_when_nothing_matches_then_the_nearest_name),
    cmocka_unit_test(test_glob_when_beside_the_recipe_then_found),
    cmocka_unit_test(test_list_when_a_file_comes_twice_then_refused),
    cmocka_unit_test(test_p80_list_when_one_file_is_short_then_named),
    cmocka_unit_test(test_p79_list_when_an_id_is_too_large_then_file_and_position),
    cmocka_unit_test(test_p81_list_when_formats_are_mixed_then_the_narrowest_bounds_the_model),
    cmocka_unit_test(test_shuffle_when_an_epoch_is_over_then_each_window_came_once),
    cmocka_unit_test(test_shuffle_when_rows_are_asked_in_any_order_then_the_same),
    cmocka_unit_test(test_shuffle_when_windows_leave_tokens_over_then_each_epoch_cuts_anew),
    cmocka_unit_test(test_weight_when_shuffled_then_windows_come_so_many_times),
    cmocka_unit_test(test_weight_when_drawn_at_random_then_shares_are_size_times_weight),
    cmocka_unit_test(test_validation_when_held_back_then_training_never_sees_it),
    cmocka_unit_test(test_validation_when_a_share_holds_no_window_then_refused),
    cmocka_unit_test(test_run_when_settled_then_told_in_words),
    cmocka_unit_test(test_drop_when_an_epoch_fills_no_batch_then_refused),
    cmocka_unit_test(test_override_when_a_glob_then_all_must_be_of_one_kind),
    cmocka_unit_test(test_text_when_content_is_a_shard_then_its_bytes),
    cmocka_unit_test(test_open_when_any_allocation_fails_then_clean),
};

MPT_TEST_MAIN(cases)
