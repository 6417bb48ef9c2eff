/* Token files: what the other tools write is read, whatever it is called. */
#include "token_file.h"

static mpt_tokens *open_checked(mpt_ctx *ctx, const char *path, mpt_token_format headerless) {
    mpt_tokens *t = NULL;
    assert_mpt_ok(ctx, mpt_tokens_open(ctx, MPT_NOWHERE, path, headerless, &t));
    assert_mpt_ok(ctx, mpt_tokens_check(t, 0));
    return t;
}

/* The file holds these ids, in this format and type. */
static void expect(const char *path, mpt_token_format format, mpt_token_type type,
                   const int64_t *ids, int n) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_tokens *t = open_checked(ctx, path, MPT_TOKENS_NANOGPT);
    int32_t got[64];
    int64_t largest = -1;
    assert_int_equal(t->format, format);
    assert_int_equal(t->type, type);
    assert_int_equal(t->n, n);
    mpt_tokens_read(t, 0, n, got);
    for (int i = 0; i < n; i++) {
        assert_int_equal(got[i], ids[i]);
        largest = ids[i] > largest ? ids[i] : largest;
    }
    assert_int_equal(t->largest, largest);
    if (n > 2) {
        mpt_tokens_read(t, 1, n - 2, got); /* from an odd place */
        assert_int_equal(got[0], ids[1]);
    }
    mpt_tokens_close(t);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_nanogpt_wrote_it_then_golden_bytes_are_read(void **s) {
    (void)s;
    static const unsigned char golden[] = {0x50, 0xc4, 1, 0, 2, 0, 3, 0};
    folder f = folder_make();
    bytes_write(f.file, golden, sizeof golden);
    expect(f.file, MPT_TOKENS_NANOGPT, MPT_TOKEN_U16, (int64_t[]){50256, 1, 2, 3}, 4);
    folder_remove(&f);
}

static void test_open_when_llmc_wrote_it_then_golden_bytes_are_read(void **s) {
    (void)s;
    static const int64_t ids[] = {50256, 1, 2, 3, 65535};
    folder f = folder_make();
    raw r = raw_shard(20240520, 1, 5, ids, 5);
    bytes_write(f.file, r.data, r.n);
    assert_int_equal(r.n, 1034);
    assert_hex(f.file, 0, "88d83401 01000000 05000000 00000000");
    assert_hex(f.file, 1024, "50c4 0100 0200 0300 ffff");
    expect(f.file, MPT_TOKENS_LLMC, MPT_TOKEN_U16, ids, 5);
    folder_remove(&f);
}

static void test_open_when_llama3_shard_then_its_32_bits_are_read(void **s) {
    (void)s;
    static const int64_t ids[] = {128000, 65536, 0};
    folder f = folder_make();
    raw r = raw_shard(20240801, 7, 3, ids, 3);
    bytes_write(f.file, r.data, r.n);
    expect(f.file, MPT_TOKENS_LLMC32, MPT_TOKEN_U32, ids, 3);
    folder_remove(&f);
}

static void test_open_when_megatron_wrote_it_then_golden_bytes_are_read(void **s) {
    (void)s;
    static const int64_t ids[] = {7, 8, 9, 65535, 11};
    folder f = folder_make();
    raw index = raw_index(8, 2, (int32_t[]){3, 2}, 2), data = raw_ids(ids, 5, 2);
    raw_write(&f, "x.idx", &index);
    raw_write(&f, "x.bin", &data);
    assert_int_equal(index.n, 82);
    assert_hex(path_in(&f, "x.idx").text, 0,
               "4d4d494449445800 00 0100000000000000 08 0200000000000000 0300000000000000 "
               "03000000 02000000 0000000000000000 0600000000000000 0000000000000000 "
               "0100000000000000 0200000000000000");
    static const char *const names[] = {"x.idx", "x.bin", "x"};
    for (size_t i = 0; i < MPT_COUNT(names); i++)
        expect(path_in(&f, names[i]).text, MPT_TOKENS_MEGATRON, MPT_TOKEN_U16, ids, 5);
    assert_true(mpt_tokens_exist(path_in(&f, "x").text));
    assert_false(mpt_tokens_exist(path_in(&f, "y").text));
    folder_remove(&f);
}

static void test_open_when_megatron_then_documents_are_counted(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    raw index = raw_index(8, 2, (int32_t[]){3, 0, 2}, 3), data = {.n = 12};
    index.data[index.n] = index.data[index.n + 1] = index.data[index.n + 2] = 0;
    index.n += 3; /* modes, which are all text */
    raw_write(&f, "x.idx", &index);
    raw_write(&f, "x.bin", &data); /* longer than the index says, which Megatron takes */
    mpt_tokens *t = open_checked(ctx, path_in(&f, "x").text, MPT_TOKENS_TEXT);
    assert_int_equal(t->n, 5);
    assert_int_equal(t->n_sequences, 3);
    assert_int_equal(t->n_documents, 3);
    mpt_tokens_close(t);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* P81: the threshold of Megatron's uint16 is 65,500, so a vocabulary of 65,520 is int32. */
static void test_p81_index_when_codes_differ_then_the_type_byte_is_believed(void **s) {
    (void)s;
    static const struct {
        uint8_t code;
        int bytes;
        mpt_token_type type;
        int64_t ids[3];
    } rows[] = {
        {1, 1, MPT_TOKEN_U8, {0, 255, 3}},        {2, 1, MPT_TOKEN_I8, {0, 127, 3}},
        {3, 2, MPT_TOKEN_I16, {0, 32767, 3}},     {4, 4, MPT_TOKEN_I32, {65519, 65500, 0}},
        {5, 8, MPT_TOKEN_I64, {65519, 1, 2}},     {8, 2, MPT_TOKEN_U16, {65519, 65500, 0}},
        {4, 4, MPT_TOKEN_I32, {128255, 70000, 1}}};
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        raw index = raw_index(rows[i].code, rows[i].bytes, (int32_t[]){2, 1}, 2);
        raw data = raw_ids(rows[i].ids, 3, rows[i].bytes);
        raw_write(&f, "x.idx", &index);
        raw_write(&f, "x.bin", &data);
        expect(path_in(&f, "x.bin").text, MPT_TOKENS_MEGATRON, rows[i].type, rows[i].ids, 3);
    }
    folder_remove(&f);
}

static void test_p81_index_when_code_is_unknown_then_refused(void **s) {
    (void)s;
    static const uint8_t codes[] = {0, 6, 7, 9, 255};
    folder f = folder_make();
    raw data = {.n = 8};
    raw_write(&f, "x.bin", &data);
    for (size_t i = 0; i < MPT_COUNT(codes); i++) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_tokens *t;
        raw index = raw_index(codes[i], 2, (int32_t[]){4}, 1);
        raw_write(&f, "x.idx", &index);
        assert_int_equal(mpt_tokens_open(ctx, MPT_NOWHERE, path_in(&f, "x.bin").text,
                                         MPT_TOKENS_NANOGPT, &t),
                         MPT_DATA);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, codes[i] == 6 || codes[i] == 7
                                                                ? "floating numbers, no tokens"
                                                                : "where 1 to 8 are known"));
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        mpt_ctx_destroy(ctx);
    }
    folder_remove(&f);
}

/* Any name, any format: the first bytes decide. */
static void test_content_when_names_lie_then_bytes_decide(void **s) {
    (void)s;
    static const char *const names[] = {"x.bin", "x.txt", "x.safetensors", "x.idx", "x"};
    raw shard = raw_shard(20240520, 1, 1, (int64_t[]){5}, 1);
    raw index = raw_index(8, 2, (int32_t[]){1}, 1);
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        folder f = folder_make();
        path_text p = path_in(&f, names[i]);
        raw_write(&f, names[i], &shard);
        assert_int_equal(mpt_content_of(p.text), MPT_CONTENT_TOKENS);
        expect(p.text, MPT_TOKENS_LLMC, MPT_TOKEN_U16, (int64_t[]){5}, 1);
        raw_write(&f, names[i], &index);
        assert_int_equal(mpt_content_of(p.text), MPT_CONTENT_TOKENS);
        bytes_write(p.text, "To be, or not", 13);
        assert_int_equal(mpt_content_of(p.text), MPT_CONTENT_OTHER);
        header_write(p.text, "{}", 0);
        assert_int_equal(mpt_content_of(p.text), MPT_CONTENT_SAFETENSORS);
        bytes_write(p.text, "", 0);
        assert_int_equal(mpt_content_of(p.text), MPT_CONTENT_OTHER);
        folder_remove(&f);
    }
    assert_int_equal(mpt_content_of("/no/such/file"), MPT_CONTENT_OTHER);
    assert_int_equal(mpt_content_of("/"), MPT_CONTENT_OTHER);
}

static void test_content_when_without_header_then_zeros_and_size_tell_ids(void **s) {
    (void)s;
    folder f = folder_make();
    bytes_write(f.file, "ab\0c", 4);
    assert_true(mpt_content_looks_like_ids(f.file));
    bytes_write(f.file, "ab\0", 3);
    assert_false(mpt_content_looks_like_ids(f.file));
    bytes_write(f.file, "abcd", 4);
    assert_false(mpt_content_looks_like_ids(f.file));
    bytes_write(f.file, "", 0);
    assert_false(mpt_content_looks_like_ids(f.file));
    assert_false(mpt_content_looks_like_ids("/no/such/file"));
    folder_remove(&f);
}

static void test_open_when_text_is_asked_for_then_bytes_are_ids(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    int32_t ids[3];
    bytes_write(f.file, "a\xff\0", 3);
    mpt_tokens *t = open_checked(ctx, f.file, MPT_TOKENS_TEXT);
    assert_int_equal(t->format, MPT_TOKENS_TEXT);
    mpt_tokens_read(t, 0, 3, ids);
    assert_int_equal(ids[1], 255);
    assert_int_equal(t->largest, 255);
    mpt_tokens_close(t);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Files without an id are sound; who needs some says so. */
static void test_open_when_there_are_no_ids_then_zero_are_counted(void **s) {
    (void)s;
    folder f = folder_make();
    raw shard = raw_shard(20240520, 1, 0, NULL, 0), index = raw_index(8, 2, NULL, 0);
    raw none = {.n = 0};
    raw_write(&f, "a.bin", &shard);
    expect(path_in(&f, "a.bin").text, MPT_TOKENS_LLMC, MPT_TOKEN_U16, NULL, 0);
    raw_write(&f, "b.bin", &none);
    expect(path_in(&f, "b.bin").text, MPT_TOKENS_NANOGPT, MPT_TOKEN_U16, NULL, 0);
    raw_write(&f, "c.idx", &index);
    raw_write(&f, "c.bin", &none);
    expect(path_in(&f, "c.bin").text, MPT_TOKENS_MEGATRON, MPT_TOKEN_U16, NULL, 0);
    folder_remove(&f);
}

/* The check cuts large files in pieces: an id in any of them is seen. */
static void test_check_when_the_file_is_large_then_every_piece_is_read(void **s) {
    (void)s;
    enum { N = (1 << 20) + 12345 };
    static const int64_t places[] = {0, 1, N / 64, N / 64 + 1, N / 2, N - 2, N - 1};
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    uint16_t *ids = calloc(N, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < MPT_COUNT(places); i++) {
        mpt_tokens *t;
        char message[64];
        ids[places[i]] = 777;
        bytes_write(f.file, ids, N * sizeof *ids);
        ids[places[i]] = 0;
        t = open_checked(ctx, f.file, MPT_TOKENS_NANOGPT);
        assert_int_equal(t->largest, 777);
        assert_int_equal(mpt_tokens_check(t, 777), MPT_DATA);
        snprintf(message, sizeof message, "token %lld is 777", (long long)places[i]);
        assert_non_null(strstr(mpt_ctx_error(ctx)->message, message));
        mpt_tokens_close(t);
    }
    free(ids);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_open_when_nanogpt_wrote_it_then_golden_bytes_are_read),
    cmocka_unit_test(test_open_when_llmc_wrote_it_then_golden_bytes_are_read),
    cmocka_unit_test(test_open_when_llama3_shard_then_its_32_bits_are_read),
    cmocka_unit_test(test_open_when_megatron_wrote_it_then_golden_bytes_are_read),
    cmocka_unit_test(test_open_when_megatron_then_documents_are_counted),
    cmocka_unit_test(test_p81_index_when_codes_differ_then_the_type_byte_is_believed),
    cmocka_unit_test(test_p81_index_when_code_is_unknown_then_refused),
    cmocka_unit_test(test_content_when_names_lie_then_bytes_decide),
    cmocka_unit_test(test_content_when_without_header_then_zeros_and_size_tell_ids),
    cmocka_unit_test(test_open_when_text_is_asked_for_then_bytes_are_ids),
    cmocka_unit_test(test_open_when_there_are_no_ids_then_zero_are_counted),
    cmocka_unit_test(test_check_when_the_file_is_large_then_every_piece_is_read),
};

MPT_TEST_MAIN(cases)
