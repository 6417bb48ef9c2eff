/* Reading safetensors in shards: an index and its files are one model, or they are refused. */
#include "mpt_test.h"

#include <sys/stat.h>

#include "io/safetensors.h"
#include "safetensors_file.h"

#define FETCH "; index and shards are of different models: fetch all again"

static void write_text(const folder *f, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    bytes_write(path, text, strlen(text));
}

static void write_index(const folder *f, const char *text) {
    write_text(f, "model.safetensors.index.json", text);
}

/* A shard of two tensors of one byte. */
static void write_shard(const folder *f, const char *name, const char *first,
                        const char *second) {
    char path[256], header[512];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"from\":\"%s\"},"
             "\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
             "\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
             name, first, second);
    header_write(path, header, 2);
}

/* Shards 'one' with a and d, 'two' with b and c, and a sound index. */
static void write_model(const folder *f) {
    write_shard(f, "one.safetensors", "a", "d");
    write_shard(f, "two.safetensors", "b", "c");
    write_index(f, "{\"metadata\":{\"total_size\":4},\"weight_map\":{"
                   "\"b\":\"two.safetensors\",\"c\":\"two.safetensors\","
                   "\"a\":\"one.safetensors\",\"d\":\"one.safetensors\"}}");
}

/* The folder must be refused with the status; the message follows the folder's path. */
static void refuse(const folder *f, mpt_status expected, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    mpt_status status = mpt_safetensors_open(ctx, f->path, &file);
    const char *got = mpt_ctx_error(ctx)->message;
    if (status != expected)
        fail_msg("%s: %s", mpt_status_name(status), got);
    assert_null(file);
    assert_memory_equal(got, f->path, strlen(f->path));
    assert_string_equal(got + strlen(f->path), message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void check_model(const folder *f, const char *path) {
    static const unsigned char values[] = {0, 0, 1, 1}; /* of a, b, c, d */
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    char two[256];
    snprintf(two, sizeof two, "%s/two.safetensors", f->path);
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, path, &file));
    assert_int_equal(mpt_safetensors_count(file), 4);
    for (int i = 0; i < 4; i++) {
        const mpt_stored_tensor *t = mpt_safetensors_at(file, i);
        assert_int_equal(t->name[0], 'a' + i);
        assert_int_equal(*(const unsigned char *)t->data, values[i]);
    }
    assert_string_equal(mpt_safetensors_find(file, "c")->file, two);
    assert_string_equal(mpt_safetensors_metadata(file, "from"), "one.safetensors");
    mpt_safetensors_close(file);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_shards_agree_with_their_index_then_one_model(void **s) {
    (void)s;
    folder f = folder_make();
    char index[256];
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", f.path);
    write_model(&f);
    check_model(&f, index);
    check_model(&f, f.path);
    folder_remove(&f);
}

static void test_open_when_a_folder_holds_one_file_then_it_is_read(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    folder f = folder_make();
    write_shard(&f, "model.safetensors", "x", "y");
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, f.path, &file));
    assert_string_equal(mpt_safetensors_at(file, 1)->name, "y");
    assert_string_equal(mpt_safetensors_at(file, 1)->file, f.file);
    mpt_safetensors_close(file);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_a_folder_does_not_say_which_model_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    refuse(&f, MPT_NOT_FOUND,
           ": holds neither model.safetensors nor model.safetensors.index.json; name the file "
           "that is meant");
    write_model(&f);
    write_shard(&f, "model.safetensors", "x", "y");
    refuse(&f, MPT_DATA,
           ": holds both model.safetensors and model.safetensors.index.json; name the file "
           "that is meant");
    folder_remove(&f);
}

static void test_open_when_an_index_is_no_index_then_refused(void **s) {
    (void)s;
    static const char shape[] =
        "/model.safetensors.index.json: weight_map: is missing, empty or no object; an index "
        "of shards is {\"weight_map\": {\"tensor\": \"file\"}}";
    folder f = folder_make();
    write_index(&f, "{}");
    refuse(&f, MPT_DATA, shape);
    write_index(&f, "[1]");
    refuse(&f, MPT_DATA, shape);
    write_index(&f, "{\"weight_map\":{}}");
    refuse(&f, MPT_DATA, shape);
    write_index(&f, "{\"weight_map\":[\"one.safetensors\"]}");
    refuse(&f, MPT_DATA, shape);
    write_index(&f, "");
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: JSON at byte 0: '[' or '{' expected near end of "
           "file; the file is damaged or was cut off: copy or download it again");
    write_index(&f, "{\"weight_map\":{\"a\":\"one\",\"a\":\"two\"}}");
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: JSON at byte 28: duplicate object key near '\"a\"'; "
           "the program that wrote the file broke the format: write it anew");
    folder_remove(&f);
}

/* Sparse, so that the test is quick; the size alone refuses it. */
static void test_open_when_an_index_is_longer_than_any_header_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    char path[256];
    write_index(&f, "{");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", f.path);
    assert_int_equal(truncate(path, 100000001), 0);
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: has 100000001 bytes, and an index of shards at most "
           "100000000; name a safetensors file, an index of shards, or the folder of a model");
    folder_remove(&f);
}

static void test_open_when_a_shard_lies_outside_of_the_folder_then_refused(void **s) {
    (void)s;
    static const char *const names[] = {
        "/etc/passwd", "../one.safetensors", "sub/one.safetensors", "..", ".", ""};
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        char index[256], message[256];
        snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        snprintf(message, sizeof message,
                 "/model.safetensors.index.json: weight_map: tensor 'a': '%s' is no name of a "
                 "file in this folder; shards lie beside their index",
                 names[i]);
        write_index(&f, index);
        refuse(&f, MPT_DATA, message);
    }
    write_index(&f, "{\"weight_map\":{\"a\":1}}");
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: weight_map: tensor 'a': '(no string)' is no name of "
           "a file in this folder; shards lie beside their index");
    folder_remove(&f);
}

static void test_open_when_shards_and_index_differ_then_the_tensor_is_named(void **s) {
    (void)s;
    folder f = folder_make();
    write_model(&f);
    write_shard(&f, "two.safetensors", "b", "e");
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: weight_map: tensor 'c' is not in "
           "'two.safetensors'" FETCH);
    write_shard(&f, "one.safetensors", "c", "d");
    refuse(&f, MPT_DATA,
           "/model.safetensors.index.json: weight_map: tensor 'c' is not in "
           "'two.safetensors', but in one.safetensors" FETCH);
    write_model(&f);
    write_index(&f, "{\"weight_map\":{\"b\":\"two.safetensors\","
                    "\"a\":\"one.safetensors\",\"d\":\"one.safetensors\"}}");
    refuse(&f, MPT_DATA,
           "/two.safetensors: tensor 'c' is not in weight_map of "
           "model.safetensors.index.json" FETCH);
    folder_remove(&f);
}

static void test_open_when_a_tensor_stands_in_two_shards_then_refused(void **s) {
    (void)s;
    folder f = folder_make();
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    write_model(&f);
    write_shard(&f, "two.safetensors", "b", "a");
    assert_int_equal(mpt_safetensors_open(ctx, f.path, &file), MPT_DATA);
    const char *message = mpt_ctx_error(ctx)->message;
    assert_non_null(strstr(message, "/one.safetensors"));
    assert_non_null(strstr(message, "/two.safetensors"));
    assert_non_null(strstr(message, "tensor 'a' stands in"));
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_a_shard_is_missing_or_broken_then_it_is_named(void **s) {
    (void)s;
    folder f = folder_make();
    char path[256], message[512];
    write_model(&f);
    snprintf(path, sizeof path, "%s/two.safetensors", f.path);
    snprintf(message, sizeof message,
             "/two.safetensors: No such file or directory; '%s/model.safetensors.index.json' "
             "names it: all shards must be there",
             f.path);
    assert_int_equal(unlink(path), 0);
    refuse(&f, MPT_NOT_FOUND, message);
    write_text(&f, "two.safetensors", "short");
    refuse(&f, MPT_DATA,
           "/two.safetensors: has 5 bytes; the length of the header alone takes 8; the file is "
           "damaged or was cut off: copy or download it again");
    folder_remove(&f);
}

/* What a writer must not write over. */
static void test_open_when_shards_are_read_then_index_and_shards_are_known_as_read(void **st) {
    (void)st;
    static const char *const names[] = {"one.safetensors", "two.safetensors",
                                        "model.safetensors.index.json", "config.json"};
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    folder f = folder_make();
    write_model(&f);
    write_text(&f, "config.json", "{}");
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, f.path, &file));
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/./%s", f.path, names[i]);
        assert_int_equal(mpt_safetensors_reads(file, path), i < 3);
    }
    mpt_safetensors_close(file);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_open_when_shards_are_read_then_index_and_shards_are_known_as_read),
    cmocka_unit_test(test_open_when_shards_agree_with_their_index_then_one_model),
    cmocka_unit_test(test_open_when_a_folder_holds_one_file_then_it_is_read),
    cmocka_unit_test(test_open_when_a_folder_does_not_say_which_model_then_refused),
    cmocka_unit_test(test_open_when_an_index_is_no_index_then_refused),
    cmocka_unit_test(test_open_when_an_index_is_longer_than_any_header_then_refused),
    cmocka_unit_test(test_open_when_a_shard_lies_outside_of_the_folder_then_refused),
    cmocka_unit_test(test_open_when_shards_and_index_differ_then_the_tensor_is_named),
    cmocka_unit_test(test_open_when_a_tensor_stands_in_two_shards_then_refused),
    cmocka_unit_test(test_open_when_a_shard_is_missing_or_broken_then_it_is_named),
};

MPT_TEST_MAIN(cases)
