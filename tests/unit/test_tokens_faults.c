/* Malformed token files: each is refused in a line that names file and fault, and nothing
 * leaks. */
#include "token_file.h"

static void refuse(const char *path, mpt_token_format headerless, int64_t vocab,
                   mpt_status expected, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_tokens *t = NULL;
    mpt_status status = mpt_tokens_open(ctx, (mpt_where){"r.lua", 4}, path, headerless, &t);
    if (status == MPT_OK)
        status = mpt_tokens_check(t, vocab);
    const char *got = mpt_ctx_error(ctx)->message;
    if (status != expected || !strstr(got, message))
        fail_msg("%s: %s, not: %s", mpt_status_name(status), got, message);
    assert_memory_equal(got, "r.lua:4: ", 9);
    assert_true(*mpt_ctx_error(ctx)->hint);
    mpt_tokens_close(t);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_shard_when_header_lies_then_refused(void **s) {
    (void)s;
    static const int64_t ids[] = {1, 2, 3};
    static const struct {
        uint32_t magic, version, counted;
        const char *message;
    } rows[] = {
        {20240520, 2, 3,
         "version 2 of an llm.c shard with magic 20240520, which has version 1"},
        {20240520, 7, 3, "version 7 of an llm.c shard"},
        {20240801, 1, 3,
         "version 1 of an llm.c shard with magic 20240801, which has version 7"},
        {20240520, 1, 4, "counts 4 tokens, which take 1032 bytes, and the file has 1030"},
        {20240520, 1, 2, "counts 2 tokens, which take 1028 bytes, and the file has 1030"},
        {20240520, 1, 0x7fffffff, "counts 2147483647 tokens"},
        {20240520, 1, 0xffffffff, "counts fewer than 0 tokens"},
        {20240520, 1, 0x80000000, "counts fewer than 0 tokens"},
        {20240801, 7, 6, "counts 6 tokens, which take 1048 bytes, and the file has 1036"},
        {20240326, 3, 3, "is a GPT-2 checkpoint of llm.c"},
        {20240803, 3, 3, "is a LLaMA-3 checkpoint of llm.c"},
        {20240522, 1, 3, "is an evaluation set of llm.c"},
        {20240527, 1, 3, "is an optimizer's state of llm.c"},
        {20240327, 2, 3, "is a recorded forward pass of llm.c"},
        {20240328, 2, 3, "is a tokenizer of llm.c"},
    };
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        raw r = raw_shard(rows[i].magic, rows[i].version, rows[i].counted, ids, 3);
        bytes_write(f.file, r.data, r.n);
        refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA, rows[i].message);
    }
    folder_remove(&f);
}

static void test_shard_when_cut_off_then_refused(void **s) {
    (void)s;
    static const size_t lengths[] = {4, 8, 11, 12, 1023, 1024, 1025, 1029};
    folder f = folder_make();
    raw r = raw_shard(20240520, 1, 3, (int64_t[]){1, 2, 3}, 3);
    for (size_t i = 0; i < MPT_COUNT(lengths); i++) {
        bytes_write(f.file, r.data, lengths[i]);
        refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA,
               lengths[i] < 1024 ? "fewer than 1024 bytes" : "counts 3 tokens");
    }
    folder_remove(&f);
}

/* P80: an odd number of bytes is a file that was cut off. */
static void test_p80_nanogpt_when_bytes_are_odd_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    bytes_write(f.file, "\1\0\2\0\3", 5);
    refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA,
           "5 bytes are no whole number of uint16 tokens");
    bytes_write(f.file, "\1", 1);
    refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "1 bytes are no whole number");
    folder_remove(&f);
}

static void test_nanogpt_when_it_is_something_else_then_named(void **s) {
    (void)s;
    folder f = folder_make();
    char text[600];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "to be, or \xc3\xa4 not "[i % 16];
    bytes_write(f.file, text, sizeof text);
    refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "is text, and no token file");
    header_write(f.file, "{}", 0);
    refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "is a safetensors file, and no token file");
    refuse(f.file, MPT_TOKENS_TEXT, 0, MPT_DATA, "is a safetensors file");
    refuse(f.path, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "not a regular file");
    folder_remove(&f);
}

/* One number of a sound index is changed. */
typedef struct index_fault {
    size_t at, bytes;
    uint64_t value;
    const char *message;
} index_fault;

/* Sequences of 3 and 2 tokens: lengths at 34, offsets at 42, boundaries at 58, end at 82. */
static const index_fault index_faults[] = {
    {9, 8, 0, "version 0 of an index, where 1 is known"},
    {9, 8, 2, "version 2 of an index"},
    {17, 1, 9, "code 9 of a type"},
    {18, 8, 1, "1 sequences and 3 boundaries of documents do not make 82 bytes"},
    {18, 8, 3, "3 sequences and 3 boundaries"},
    {18, 8, UINT64_MAX, "18446744073709551615 sequences and 3 boundaries"},
    {18, 8, UINT64_MAX / 12 + 3, "sequences and 3 boundaries"},
    {26, 8, 0, "2 sequences and 0 boundaries"},
    {26, 8, 4, "2 sequences and 4 boundaries"},
    {26, 8, (UINT64_C(1) << 61) + 3, "boundaries of documents do not make 82 bytes"},
    {34, 4, 0xffffffff, "sequence 0 has -1 tokens"},
    {38, 4, 0x80000000, "sequence 1 has -2147483648 tokens"},
    {34, 4, 4, "sequence 1 starts at byte 6 of the tokens, and those before it end at 8"},
    {42, 8, 2, "sequence 0 starts at byte 2 of the tokens, and those before it end at 0"},
    {50, 8, 0, "sequence 1 starts at byte 0"},
    {50, 8, UINT64_MAX, "sequence 1 starts at byte -1"},
    {58, 8, 1, "document 0 starts at sequence 1 of 2"},
    {66, 8, 3, "document 1 starts at sequence 3 of 2"},
    {66, 8, UINT64_MAX, "document 1 starts at sequence -1 of 2"},
    {74, 8, 1, "its documents end at sequence 1, and it has 2"},
    {74, 8, 3, "document 2 starts at sequence 3 of 2"},
    {74, 8, 0, "document 2 starts at sequence 0 of 2, and the one before it at 1"},
    {0, 1, 'N', NULL}, /* no index any more: its own file is then tokens without a header */
};

static void test_index_when_a_number_is_wrong_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    raw sound = raw_index(8, 2, (int32_t[]){3, 2}, 2), data = {.n = 10};
    path_text index = path_in(&f, "x.idx");
    raw_write(&f, "x.bin", &data);
    for (size_t i = 0; i < MPT_COUNT(index_faults); i++) {
        const index_fault *fault = &index_faults[i];
        raw r = sound;
        r.n = fault->at;
        raw_put(&r, fault->value, (int)fault->bytes);
        r.n = sound.n;
        raw_write(&f, "x.idx", &r);
        if (fault->message)
            refuse(index.text, MPT_TOKENS_NANOGPT, 0, MPT_DATA, fault->message);
        else
            assert_int_equal(mpt_content_of(index.text), MPT_CONTENT_OTHER);
    }
    folder_remove(&f);
}

static void test_index_when_cut_off_or_too_long_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    raw r = raw_index(8, 2, (int32_t[]){3, 2}, 2), data = {.n = 10};
    path_text index = path_in(&f, "x.idx");
    raw_write(&f, "x.bin", &data);
    for (size_t n = 9; n < 90; n++) {
        if (n == r.n || n == r.n + 2) /* whole; with a mode a sequence */
            continue;
        bytes_write(index.text, r.data, n);
        refuse(index.text, MPT_TOKENS_NANOGPT, 0, MPT_DATA,
               n < 34 ? "are too few for an index" : "2 sequences and 3 boundaries");
    }
    r.data[r.n] = 0;
    r.data[r.n + 1] = 1;
    bytes_write(index.text, r.data, r.n + 2);
    refuse(index.text, MPT_TOKENS_NANOGPT, 0, MPT_UNSUPPORTED, "sequence 1 has mode 1");
    folder_remove(&f);
}

static void test_index_when_its_ids_are_missing_or_short_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    raw r = raw_index(8, 2, (int32_t[]){3, 2}, 2), data = {.n = 9};
    raw_write(&f, "x.idx", &r);
    refuse(path_in(&f, "x.idx").text, MPT_TOKENS_NANOGPT, 0, MPT_NOT_FOUND, "x.bin");
    refuse(path_in(&f, "x").text, MPT_TOKENS_NANOGPT, 0, MPT_NOT_FOUND,
           "both files are needed");
    raw_write(&f, "x.bin", &data);
    refuse(path_in(&f, "x.bin").text, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "has 9 bytes, and ");
    folder_remove(&f);
}

/* Sums of lengths beyond 64 bits need more sequences than a test can write; the largest that a
 * small index claims must be compared with its file. */
static void test_index_when_it_claims_much_then_the_file_is_asked(void **s) {
    (void)s;
    folder f = folder_make();
    raw r = raw_index(5, 8, (int32_t[]){INT32_MAX, INT32_MAX}, 2), data = {.n = 16};
    raw_write(&f, "x.idx", &r);
    raw_write(&f, "x.bin", &data);
    refuse(path_in(&f, "x.idx").text, MPT_TOKENS_NANOGPT, 0, MPT_DATA,
           "counts 4294967294 tokens of int64, which take 34359738352");
    folder_remove(&f);
}

static void test_ids_when_negative_or_too_large_then_file_and_position_are_named(void **s) {
    (void)s;
    static const struct {
        uint8_t code;
        int bytes;
        int64_t id;
        const char *message;
    } rows[] = {
        {2, 1, -1, "x.bin: token 2 is -1, and ids run from 0"},
        {3, 2, -32768, "x.bin: token 2 is -32768"},
        {4, 4, INT32_MIN, "x.bin: token 2 is -2147483648"},
        {4, 4, INT32_MAX, "token 2 is 2147483647, and ids run from 0 to at most 2147483646"},
        {5, 8, INT64_MIN, "token 2 is -9223372036854775808"},
        {5, 8, INT64_MAX, "token 2 is 9223372036854775807"},
        {5, 8, INT64_C(1) << 32, "token 2 is 4294967296"},
    };
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        raw index = raw_index(rows[i].code, rows[i].bytes, (int32_t[]){4}, 1);
        raw data = raw_ids((int64_t[]){0, 1, rows[i].id, 3}, 4, rows[i].bytes);
        raw_write(&f, "x.idx", &index);
        raw_write(&f, "x.bin", &data);
        refuse(path_in(&f, "x.bin").text, MPT_TOKENS_NANOGPT, 0, MPT_DATA, rows[i].message);
    }
    raw shard = raw_shard(20240801, 7, 2, (int64_t[]){0, 0xffffffff}, 2);
    bytes_write(f.file, shard.data, shard.n);
    refuse(f.file, MPT_TOKENS_NANOGPT, 0, MPT_DATA, "token 1 is 4294967295");
    folder_remove(&f);
}

/* P79: an id that the vocabulary lacks names file and position; a type that cannot hold the
 * vocabulary is refused, because larger ids have wrapped when they were written. */
static void test_p79_ids_when_beyond_the_vocabulary_then_file_and_position_are_named(void **s) {
    (void)s;
    folder f = folder_make();
    raw r = raw_ids((int64_t[]){1, 2, 50257, 4}, 4, 2);
    raw_write(&f, "x.bin", &r);
    refuse(path_in(&f, "x.bin").text, MPT_TOKENS_NANOGPT, 50257, MPT_DATA,
           "x.bin: token 2 is 50257, and the vocabulary's ids run from 0 to 50256");
    refuse(path_in(&f, "x.bin").text, MPT_TOKENS_NANOGPT, 1, MPT_DATA,
           "x.bin: token 0 is 1, and the vocabulary's ids run from 0 to 0");
    folder_remove(&f);
}

static void test_p79_type_when_the_vocabulary_is_larger_then_refused(void **s) {
    (void)s;
    static const int64_t wrapped[] = {4464, 0, 62464}; /* of 70000, 65536, 128000 */
    static const int64_t vocabs[] = {65537, 70000, 128256};
    folder f = folder_make();
    raw headerless = raw_ids(wrapped, 3, 2), shard = raw_shard(20240520, 1, 3, wrapped, 3);
    raw index = raw_index(8, 2, (int32_t[]){3}, 1);
    raw_write(&f, "a.bin", &headerless);
    raw_write(&f, "b.bin", &shard);
    raw_write(&f, "c.bin", &headerless);
    raw_write(&f, "c.idx", &index);
    for (size_t i = 0; i < 3 * MPT_COUNT(vocabs); i++) {
        char name[] = {(char)('a' + i % 3), '.', 'b', 'i', 'n', 0}, message[96];
        snprintf(message, sizeof message,
                 "holds uint16, whose ids end at 65535, and the vocabulary has %lld",
                 (long long)vocabs[i / 3]);
        refuse(path_in(&f, name).text, MPT_TOKENS_NANOGPT, vocabs[i / 3], MPT_DATA, message);
    }
    bytes_write(f.file, "abc", 3);
    refuse(f.file, MPT_TOKENS_TEXT, 50257, MPT_DATA, "bytes are a vocabulary of 256 words");
    folder_remove(&f);
}

/* As many words as the type has codes are sound. */
static void test_p79_type_when_the_vocabulary_just_fits_then_read(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_tokens *t;
    raw r = raw_ids((int64_t[]){65535, 0}, 2, 2);
    raw_write(&f, "a.bin", &r);
    assert_mpt_ok(ctx, mpt_tokens_open(ctx, MPT_NOWHERE, path_in(&f, "a.bin").text,
                                       MPT_TOKENS_NANOGPT, &t));
    assert_mpt_ok(ctx, mpt_tokens_check(t, 65536));
    mpt_tokens_close(t);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_shard_when_header_lies_then_refused),
    cmocka_unit_test(test_shard_when_cut_off_then_refused),
    cmocka_unit_test(test_p80_nanogpt_when_bytes_are_odd_then_refused),
    cmocka_unit_test(test_nanogpt_when_it_is_something_else_then_named),
    cmocka_unit_test(test_index_when_a_number_is_wrong_then_refused),
    cmocka_unit_test(test_index_when_cut_off_or_too_long_then_refused),
    cmocka_unit_test(test_index_when_its_ids_are_missing_or_short_then_refused),
    cmocka_unit_test(test_index_when_it_claims_much_then_the_file_is_asked),
    cmocka_unit_test(test_ids_when_negative_or_too_large_then_file_and_position_are_named),
    cmocka_unit_test(test_p79_ids_when_beyond_the_vocabulary_then_file_and_position_are_named),
    cmocka_unit_test(test_p79_type_when_the_vocabulary_is_larger_then_refused),
    cmocka_unit_test(test_p79_type_when_the_vocabulary_just_fits_then_read),
};

MPT_TEST_MAIN(cases)
