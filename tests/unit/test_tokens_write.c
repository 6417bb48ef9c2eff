/* Token files that are written: golden bytes, ids that do not fit, and nothing left behind
 * where it cannot be done. */
#include "token_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "allowance.h"

/* Writes ids as a whole file. */
static mpt_status write_ids(mpt_ctx *ctx, const char *path, const mpt_token_spec *spec,
                            const int32_t *ids) {
    mpt_token_writer *w;
    MPT_TRY(mpt_tokens_create(ctx, path, spec, &w));
    mpt_status status = mpt_tokens_put(w, 0, spec->n, ids);
    if (status == MPT_OK)
        return mpt_tokens_commit(w);
    mpt_tokens_abandon(w);
    return status;
}

/* The same bytes as the other tools write. */
static void test_write_when_each_format_then_golden_bytes(void **s) {
    (void)s;
    static const int32_t ids[] = {50256, 1, 2, 3, 65535}, large[] = {128000, 65536, 0};
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    path_text p = path_in(&f, "x.bin");
    mpt_token_spec spec = {.format = MPT_TOKENS_NANOGPT, .n = 4, .vocab = 50257};
    assert_mpt_ok(ctx, write_ids(ctx, p.text, &spec, ids));
    assert_hex(p.text, 0, "50c4 0100 0200 0300");
    spec = (mpt_token_spec){.format = MPT_TOKENS_LLMC, .n = 5, .vocab = 65536};
    folder_clear(&f);
    assert_mpt_ok(ctx, write_ids(ctx, p.text, &spec, ids));
    assert_hex(p.text, 0, "88d83401 01000000 05000000 00000000");
    assert_hex(p.text, 1020, "00000000 50c4 0100 0200 0300 ffff");
    spec = (mpt_token_spec){.format = MPT_TOKENS_LLMC32, .n = 3, .vocab = 128256};
    assert_mpt_ok(ctx, write_ids(ctx, p.text, &spec, large)); /* in its place */
    assert_hex(p.text, 0, "a1d93401 07000000 03000000 00000000");
    assert_hex(p.text, 1024, "00f40100 00000100 00000000");
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_megatron_then_golden_bytes(void **s) {
    (void)s;
    static const int32_t ids[] = {1, 2, 3, 4, 5}, lengths[] = {3, 2};
    static const int64_t boundaries[] = {0, 1, 2};
    static const char golden[] =
        "4d4d494449445800 00 0100000000000000 08 0200000000000000 0300000000000000 03000000 "
        "02000000 0000000000000000 0600000000000000 0000000000000000 0100000000000000 "
        "0200000000000000";
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_token_spec spec = {MPT_TOKENS_MEGATRON, 5, 50257, 2, 2, lengths, boundaries};
    assert_mpt_ok(ctx, write_ids(ctx, path_in(&f, "x").text, &spec, ids));
    assert_int_equal(folder_count(&f), 2);
    assert_hex(path_in(&f, "x.idx").text, 0, golden);
    assert_hex(path_in(&f, "x.bin").text, 0, "0100 0200 0300 0400 0500");
    file_bytes b = bytes_read(path_in(&f, "x.idx").text);
    assert_int_equal(b.size, 82);
    bytes_free(&b);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* P81: Megatron's threshold. */
static void test_p81_write_when_vocabulary_reaches_65500_then_int32(void **s) {
    (void)s;
    static const struct {
        int64_t vocab;
        const char *code;
        mpt_token_type type;
    } rows[] = {{65499, "08", MPT_TOKEN_U16},
                {65500, "04", MPT_TOKEN_I32},
                {65520, "04", MPT_TOKEN_I32},
                {128256, "04", MPT_TOKEN_I32},
                {1, "08", MPT_TOKEN_U16}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        folder f = folder_make();
        mpt_tokens *t;
        int32_t id = (int32_t)rows[i].vocab - 1, got;
        mpt_token_spec spec = {.format = MPT_TOKENS_MEGATRON, .n = 1, .vocab = rows[i].vocab};
        assert_mpt_ok(ctx, write_ids(ctx, path_in(&f, "x.idx").text, &spec, &id));
        assert_hex(path_in(&f, "x.idx").text, 17, rows[i].code);
        assert_mpt_ok(
            ctx, mpt_tokens_open(ctx, MPT_NOWHERE, path_in(&f, "x").text, MPT_TOKENS_TEXT, &t));
        assert_mpt_ok(ctx, mpt_tokens_check(t, rows[i].vocab));
        assert_int_equal(t->type, rows[i].type);
        mpt_tokens_read(t, 0, 1, &got);
        assert_int_equal(got, id);
        mpt_tokens_close(t);
        folder_remove(&f);
        mpt_ctx_destroy(ctx);
    }
}

/* P79: 70000, 65536 and 128000 would have wrapped to 4464, 0 and 62464. */
static void test_p79_write_when_ids_do_not_fit_then_refused_and_nothing_is_there(void **s) {
    (void)s;
    static const struct {
        mpt_token_format format;
        int64_t vocab;
        int32_t id;
        const char *message;
    } rows[] = {
        {MPT_TOKENS_NANOGPT, 128256, 70000, "token 1 is 70000, and uint16 ends at 65535"},
        {MPT_TOKENS_NANOGPT, 128256, 65536, "token 1 is 65536, and uint16 ends at 65535"},
        {MPT_TOKENS_LLMC, 128256, 128000, "token 1 is 128000, and uint16 ends at 65535"},
        {MPT_TOKENS_LLMC, 65537, 65536, "token 1 is 65536, and uint16 ends at 65535"},
        {MPT_TOKENS_LLMC, 65536, 65536,
         "token 1 is 65536, and the vocabulary's ids run from 0 to 65535"},
        {MPT_TOKENS_LLMC32, 70000, 70000, "run from 0 to 69999"},
        {MPT_TOKENS_MEGATRON, 50257, 50257, "run from 0 to 50256"},
        {MPT_TOKENS_NANOGPT, 50257, -1, "token 1 is -1, and the vocabulary's ids"},
        {MPT_TOKENS_NANOGPT, 128256, -1, "token 1 is -1, and the vocabulary's ids"},
        {MPT_TOKENS_LLMC32, 128256, INT32_MIN, "token 1 is -2147483648"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        folder f = folder_make();
        int32_t ids[] = {0, rows[i].id, 1};
        mpt_token_spec spec = {.format = rows[i].format, .n = 3, .vocab = rows[i].vocab};
        assert_int_equal(write_ids(ctx, path_in(&f, "x.bin").text, &spec, ids), MPT_DATA);
        if (!strstr(mpt_ctx_error(ctx)->message, rows[i].message))
            fail_msg("%s", mpt_ctx_error(ctx)->message);
        assert_true(*mpt_ctx_error(ctx)->hint);
        assert_int_equal(folder_count(&f), 0);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        folder_remove(&f);
        mpt_ctx_destroy(ctx);
    }
}

/* All at once or piece by piece, a file without an id included. */
static void test_write_when_in_pieces_then_the_same_bytes(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    path_text one = path_in(&f, "a.bin"), two = path_in(&f, "b.bin");
    mpt_token_spec spec = {.format = MPT_TOKENS_LLMC, .n = 100, .vocab = 256};
    int32_t ids[100];
    mpt_token_writer *w;
    for (int i = 0; i < 100; i++)
        ids[i] = i * 2;
    assert_mpt_ok(ctx, write_ids(ctx, one.text, &spec, ids));
    assert_mpt_ok(ctx, mpt_tokens_create(ctx, two.text, &spec, &w));
    assert_mpt_ok(ctx, mpt_tokens_put(w, 37, 63, ids + 37));
    assert_mpt_ok(ctx, mpt_tokens_put(w, 0, 37, ids));
    assert_mpt_ok(ctx, mpt_tokens_put(w, 100, 0, ids));
    assert_int_equal(mpt_tokens_put(w, 100, 1, ids), MPT_INVALID);
    assert_int_equal(mpt_tokens_put(w, -1, 1, ids), MPT_INVALID);
    assert_int_equal(mpt_tokens_put(w, 0, INT64_MAX, ids), MPT_INVALID);
    assert_mpt_ok(ctx, mpt_tokens_commit(w));
    file_bytes a = bytes_read(one.text), b = bytes_read(two.text);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    bytes_free(&a);
    bytes_free(&b);
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        spec = (mpt_token_spec){.format = format, .vocab = 256};
        folder_clear(&f);
        assert_mpt_ok(ctx, write_ids(ctx, one.text, &spec, NULL));
        mpt_tokens *t;
        assert_mpt_ok(ctx, mpt_tokens_open(ctx, MPT_NOWHERE, one.text, MPT_TOKENS_NANOGPT, &t));
        assert_int_equal(t->n, 0);
        assert_int_equal(t->n_documents, 0);
        mpt_tokens_close(t);
    }
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_create_when_the_spec_is_wrong_then_refused(void **s) {
    (void)s;
    static const int32_t lengths[] = {3, 2}, negative[] = {6, -1}, long_one[] = {3, 3};
    static const int64_t right[] = {0, 1, 2}, back[] = {0, 2, 1}, late[] = {1, 1, 2},
                         early[] = {0, 1, 1}, outside[] = {0, 1, 3};
    static const mpt_token_spec wrong[] = {
        {.format = MPT_TOKENS_TEXT, .n = 1, .vocab = 2},
        {.format = MPT_TOKENS_FORMAT_COUNT, .n = 1, .vocab = 2},
        {.format = MPT_TOKENS_LLMC, .n = -1, .vocab = 2},
        {.format = MPT_TOKENS_LLMC, .n = INT64_MAX, .vocab = 2},
        {.format = MPT_TOKENS_LLMC, .n = 1, .vocab = 0},
        {.format = MPT_TOKENS_LLMC, .n = 1, .vocab = INT64_C(1) << 31},
        {.format = MPT_TOKENS_LLMC, .n = INT64_C(1) << 31, .vocab = 2},
        {.format = MPT_TOKENS_LLMC32, .n = INT64_C(1) << 31, .vocab = 2},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, negative, right},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, long_one, right},
        {MPT_TOKENS_MEGATRON, 6, 9, 2, 2, lengths, right},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, lengths, back},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, lengths, late},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, lengths, early},
        {MPT_TOKENS_MEGATRON, 5, 9, 2, 2, lengths, outside},
    };
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(wrong); i++) {
        mpt_token_writer *w;
        mpt_status status = mpt_tokens_create(ctx, path_in(&f, "x").text, &wrong[i], &w);
        if (status != MPT_INVALID && status != MPT_DATA)
            fail_msg("row %zu: %s", i, mpt_status_name(status));
        assert_null(w);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    }
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void refuse(mpt_ctx *ctx, const char *path, mpt_token_format format, mpt_status expected,
                   const char *message) {
    static const int32_t id = 1;
    mpt_token_spec spec = {.format = format, .n = 1, .vocab = 2};
    assert_int_equal(write_ids(ctx, path, &spec, &id), expected);
    if (!strstr(mpt_ctx_error(ctx)->message, message))
        fail_msg("%s", mpt_ctx_error(ctx)->message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
}

/* What stands there was hardly meant, unless it is of the kind that is written. */
static void test_create_when_something_else_is_there_then_it_is_kept(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    path_text bin = path_in(&f, "x.bin"), txt = path_in(&f, "x.txt");
    raw model = raw_shard(20240326, 3, 0, NULL, 0), index = raw_index(8, 2, (int32_t[]){1}, 1);
    raw_write(&f, "x.bin", &model);
    refuse(ctx, bin.text, MPT_TOKENS_LLMC, MPT_INVALID, "is no llm.c token shard");
    refuse(ctx, bin.text, MPT_TOKENS_NANOGPT, MPT_INVALID, "is no token file");
    bytes_write(txt.text, "letters", 7);
    refuse(ctx, txt.text, MPT_TOKENS_LLMC, MPT_INVALID, "is no llm.c token shard");
    refuse(ctx, txt.text, MPT_TOKENS_NANOGPT, MPT_INVALID, "is no token file");
    header_write(bin.text, "{}", 0);
    refuse(ctx, bin.text, MPT_TOKENS_NANOGPT, MPT_INVALID, "is no token file");
    bytes_write(bin.text, "\1\0", 2);
    refuse(ctx, bin.text, MPT_TOKENS_LLMC, MPT_INVALID, "is no llm.c token shard");
    refuse(ctx, bin.text, MPT_TOKENS_MEGATRON, MPT_INVALID, "in one step with the other");
    raw_write(&f, "x.idx", &index); /* now x.bin is one of a pair */
    refuse(ctx, bin.text, MPT_TOKENS_NANOGPT, MPT_INVALID, "is no token file");
    unlink(bin.text);
    refuse(ctx, bin.text, MPT_TOKENS_MEGATRON, MPT_INVALID, "x.idx: is there");
    assert_int_equal(folder_count(&f), 2);
    unlink(path_in(&f, "x.idx").text);
    mpt_token_spec spec = {.format = MPT_TOKENS_NANOGPT, .n = 1, .vocab = 2};
    bytes_write(bin.text, "\1\0\2\0", 4);
    assert_mpt_ok(ctx, write_ids(ctx, bin.text, &spec, (int32_t[]){1}));
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_create_when_the_disk_or_a_limit_is_too_small_then_nothing_is_left(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_token_writer *w;
    mpt_token_spec spec = {.format = MPT_TOKENS_NANOGPT, .n = INT64_C(1) << 56, .vocab = 2};
    struct rlimit kept, small;
    assert_int_equal(mpt_tokens_create(ctx, f.file, &spec, &w), MPT_IO);
    assert_non_null(strstr(mpt_ctx_error(ctx)->message, "No space left on device; it takes "));
    assert_int_equal(folder_count(&f), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    small = (struct rlimit){.rlim_cur = 100, .rlim_max = kept.rlim_max};
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        spec = (mpt_token_spec){.format = format, .n = 51, .vocab = 2};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        mpt_status status = mpt_tokens_create(ctx, f.file, &spec, &w);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
        assert_int_equal(status, MPT_IO);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, "File too large; it takes "));
        assert_int_equal(folder_count(&f), 0);
    }
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* Somebody makes a folder where the file should go. Of a pair nothing may stay alone. */
static void test_commit_when_a_name_is_taken_then_nothing_is_left(void **s) {
    (void)s;
    static const char *const taken[] = {"x.bin", "x.idx"};
    static const int32_t id = 1;
    for (size_t i = 0; i < MPT_COUNT(taken); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        folder f = folder_make();
        mpt_token_writer *w;
        path_text p = path_in(&f, taken[i]);
        mpt_token_spec spec = {.format = MPT_TOKENS_MEGATRON, .n = 1, .vocab = 2};
        assert_mpt_ok(ctx, mpt_tokens_create(ctx, path_in(&f, "x").text, &spec, &w));
        assert_mpt_ok(ctx, mpt_tokens_put(w, 0, 1, &id));
        assert_int_equal(mkdir(p.text, 0700), 0);
        assert_int_equal(mpt_tokens_commit(w), MPT_IO);
        assert_int_equal(rmdir(p.text), 0);
        assert_int_equal(folder_count(&f), 0);
        folder_remove(&f);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
}

static void test_abandon_when_half_written_then_nothing_is_left(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        mpt_token_writer *w;
        mpt_token_spec spec = {.format = format, .n = 10, .vocab = 2};
        assert_mpt_ok(ctx, mpt_tokens_create(ctx, f.file, &spec, &w));
        mpt_tokens_abandon(w);
        assert_int_equal(folder_count(&f), 0);
    }
    mpt_tokens_abandon(NULL);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* ---- every allocation fails once ---- */

static mpt_status write_and_read(mpt_ctx *ctx, const folder *f, mpt_token_format format) {
    static const int32_t ids[] = {3, 1, 2};
    mpt_token_spec spec = {.format = format, .n = 3, .vocab = 256};
    path_text p = path_in(f, "x.bin");
    mpt_tokens *t;
    MPT_TRY(write_ids(ctx, p.text, &spec, ids));
    mpt_status status = mpt_tokens_open(ctx, MPT_NOWHERE, p.text, MPT_TOKENS_NANOGPT, &t);
    if (status == MPT_OK) {
        status = mpt_tokens_check(t, 256);
        mpt_tokens_close(t);
    }
    folder_clear(f);
    return status;
}

static void test_files_when_any_allocation_fails_then_clean(void **s) {
    (void)s;
    for (mpt_token_format format = MPT_TOKENS_NANOGPT; format < MPT_TOKENS_FORMAT_COUNT;
         format++) {
        folder f = folder_make();
        mpt_status status = MPT_OUT_OF_MEMORY;
        long n = 0;
        for (; status != MPT_OK; n++) {
            allowance a;
            mpt_ctx *ctx = allowance_context(&a, 1);
            a.left = n;
            status = write_and_read(ctx, &f, format);
            assert_true(status == MPT_OK || status == MPT_OUT_OF_MEMORY);
            if (status != MPT_OK)
                assert_int_equal(mpt_ctx_error(ctx)->code, MPT_OUT_OF_MEMORY);
            assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
            assert_int_equal(folder_clear(&f), 0);
            mpt_ctx_destroy(ctx);
            assert_int_equal(a.live, 0);
        }
        assert_true(n > 4);
        folder_remove(&f);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_write_when_each_format_then_golden_bytes),
    cmocka_unit_test(test_write_when_megatron_then_golden_bytes),
    cmocka_unit_test(test_p81_write_when_vocabulary_reaches_65500_then_int32),
    cmocka_unit_test(test_p79_write_when_ids_do_not_fit_then_refused_and_nothing_is_there),
    cmocka_unit_test(test_write_when_in_pieces_then_the_same_bytes),
    cmocka_unit_test(test_create_when_the_spec_is_wrong_then_refused),
    cmocka_unit_test(test_create_when_something_else_is_there_then_it_is_kept),
    cmocka_unit_test(test_create_when_the_disk_or_a_limit_is_too_small_then_nothing_is_left),
    cmocka_unit_test(test_commit_when_a_name_is_taken_then_nothing_is_left),
    cmocka_unit_test(test_abandon_when_half_written_then_nothing_is_left),
    cmocka_unit_test(test_files_when_any_allocation_fails_then_clean),
};

MPT_TEST_MAIN(cases)
