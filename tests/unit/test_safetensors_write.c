/* Writing safetensors: the bytes of the format, and a file that is whole or not there. */
#include "mpt_test.h"

#include <sys/stat.h>

#include "io/safetensors.h"
#include "safetensors.h"
#include "safetensors_file.h"

static float read_float(mpt_ctx *ctx, const char *path) {
    mpt_safetensors *file;
    float value = 0.0f;
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, path, &file));
    const mpt_stored_tensor *t = mpt_safetensors_find(file, "x");
    assert_non_null(t);
    assert_true(mpt_stored_tensor_floats(t, 0, 1, &value));
    mpt_safetensors_close(file);
    return value;
}

/* ---- the bytes ---- */

/* The example of the format's description: 184 bytes, an I64 before an F32, though its name and
 * its spec come later. */
static void
test_write_when_the_example_is_written_then_every_byte_is_the_reference_s(void **s) {
    (void)s;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"np\"},\"a\":{\"dtype\":\"I64\",\"shape\":[3],"
        "\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,"
        "32]}}   ";
    static const mpt_tensor_spec specs[] = {
        {.name = "b", .type = MPT_TENSOR_F32, .rank = 1, .dims = {2}},
        {.name = "a", .type = MPT_TENSOR_I64, .rank = 1, .dims = {3}},
    };
    static const char *const metadata[] = {"format", "np", NULL};
    const int64_t a[3] = {1, -2, 3};
    const float b[2] = {0.5f, -4.0f};
    unsigned char expected[184] = {0x90};
    memcpy(expected + 8, header, sizeof header - 1);
    memcpy(expected + 152, a, sizeof a);
    memcpy(expected + 176, b, sizeof b);

    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, specs, 2, metadata, &w));
    memcpy(mpt_safetensors_data(w, 0), b, sizeof b);
    memcpy(mpt_safetensors_data(w, 1), a, sizeof a);
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
    file_bytes got = bytes_read(f.file);
    assert_int_equal(got.size, sizeof expected);
    assert_memory_equal(got.data, expected, sizeof expected);
    bytes_free(&got);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* Two tensors of each type that the reference writer takes, names in no order, with a quote and
 * a letter outside of ASCII; each filled with its number: 8 elements take as many bytes as an
 * element has bits. */
static void test_write_when_types_are_many_then_the_file_is_the_reference_s(void **s) {
    (void)s;
    static const char *const metadata[] = {"format", "pt", NULL};
    mpt_tensor_spec specs[2 * MPT_TENSOR_TYPE_COUNT];
    char names[2 * MPT_TENSOR_TYPE_COUNT][16];
    int n = 0;
    for (int type = 0; type < MPT_TENSOR_TYPE_COUNT; type++) {
        if (type == MPT_TENSOR_F6_E2M3 || type == MPT_TENSOR_F6_E3M2)
            continue;
        for (int k = 0; k < 2; k++, n++) {
            snprintf(names[n], sizeof names[n], "%c%d\xc3\xa9\"", 'a' + (type * 7 + k * 3) % 26,
                     type);
            specs[n] = (mpt_tensor_spec){
                .name = names[n], .type = (mpt_tensor_type)type, .rank = 1 + k};
            specs[n].dims[0] = k ? 4 : 8;
            specs[n].dims[1] = k ? 2 : 0;
        }
    }
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, specs, n, metadata, &w));
    for (int i = 0; i < n; i++)
        memset(mpt_safetensors_data(w, i), i + 1, (size_t)mpt_tensor_type_bits(specs[i].type));
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
    file_bytes got = bytes_read(f.file);
    file_bytes reference =
        bytes_read(MPT_TESTS_DIR "/golden/safetensors_reference.safetensors");
    assert_int_equal(got.size, reference.size);
    assert_memory_equal(got.data, reference.data, got.size);
    bytes_free(&got);
    bytes_free(&reference);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_nothing_is_in_it_then_the_shortest_file(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, NULL, 0, NULL, &w));
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
    file_bytes got = bytes_read(f.file);
    assert_int_equal(got.size, 16);
    assert_memory_equal(got.data, "\10\0\0\0\0\0\0\0{}      ", 16);
    bytes_free(&got);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* One tensor of each type, with names that need escapes; shapes of each rank, empty ones too.
 */
enum { N_MIXED = MPT_TENSOR_TYPE_COUNT };

typedef struct mixed {
    mpt_tensor_spec specs[N_MIXED];
    char names[N_MIXED][32];
} mixed;

static void mixed_make(mixed *m) {
    static const char *const ends[] = {"", "\"\\", "\n\t\x7f", "\xe2\x82\xac", "/"};
    for (int i = 0; i < N_MIXED; i++) {
        snprintf(m->names[i], sizeof m->names[i], "t%d%s", i * 7 % N_MIXED,
                 ends[i % (int)MPT_COUNT(ends)]);
        m->specs[i] =
            (mpt_tensor_spec){.name = m->names[i], .type = (mpt_tensor_type)i, .rank = i % 17};
        for (int d = 0; d < i % 17; d++)
            m->specs[i].dims[d] = d == 0 ? 8 : i == 12 ? 0 : 1 + (i + d) % 2;
    }
}

/* Bytes that tell tensors and places apart. */
static unsigned char byte_at(int tensor, size_t at) {
    return (unsigned char)((size_t)tensor * 37 + at * 11 + 5);
}

static void mixed_write(mpt_ctx *ctx, const char *path, const mixed *m) {
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, path, m->specs, N_MIXED, NULL, &w));
    for (int i = 0; i < N_MIXED; i++) {
        size_t bits = (size_t)mpt_tensor_type_bits(m->specs[i].type);
        unsigned char *data = mpt_safetensors_data(w, i);
        for (int d = 0; d < m->specs[i].rank; d++)
            bits *= (size_t)m->specs[i].dims[d];
        for (size_t at = 0; at < bits / 8; at++) {
            assert_int_equal(data[at], 0); /* new files are zeroed */
            data[at] = byte_at(i, at);
        }
    }
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
}

static void test_write_when_every_type_is_written_then_two_readers_read_it_back(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors *file;
    mixed m;
    mixed_make(&m);
    mixed_write(ctx, f.file, &m);
    golden_file golden = golden_open_path(f.file);
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, f.file, &file));
    assert_int_equal(mpt_safetensors_count(file), N_MIXED);
    assert_int_equal(json_object_size(golden.header), N_MIXED);
    for (int i = 0; i < N_MIXED; i++) {
        const mpt_stored_tensor *t = mpt_safetensors_find(file, m.names[i]);
        const json_t *entry = json_object_get(golden.header, m.names[i]);
        assert_non_null(t);
        assert_non_null(entry);
        json_int_t begin =
            json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
        assert_int_equal(t->type, m.specs[i].type);
        assert_int_equal(t->rank, m.specs[i].rank);
        assert_memory_equal(t->dims, m.specs[i].dims, (size_t)t->rank * sizeof t->dims[0]);
        for (size_t at = 0; at < t->bytes; at++)
            assert_int_equal(((const unsigned char *)t->data)[at], byte_at(i, at));
        assert_memory_equal(t->data, golden.data + begin, t->bytes);
    }
    golden_close(&golden);
    mpt_safetensors_close(file);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Larger types first, so each tensor lies at a multiple of its element; within a type by name.
 */
static void test_write_when_types_are_mixed_then_alignment_falls_and_names_rise(void **s) {
    (void)s;
    static const mpt_tensor_spec specs[] = {
        {.name = "u8", .type = MPT_TENSOR_U8, .rank = 1, .dims = {3}},
        {.name = "z", .type = MPT_TENSOR_F16, .rank = 1, .dims = {1}},
        {.name = "f4", .type = MPT_TENSOR_F4, .rank = 1, .dims = {2}},
        {.name = "bf16", .type = MPT_TENSOR_BF16, .rank = 1, .dims = {1}},
        {.name = "f64", .type = MPT_TENSOR_F64, .rank = 0},
        {.name = "a", .type = MPT_TENSOR_F16, .rank = 1, .dims = {1}},
        {.name = "f32", .type = MPT_TENSOR_F32, .rank = 0},
    };
    static const size_t places[] = {18, 16, 21, 12, 0, 14, 8};
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, specs, 7, NULL, &w));
    const char *start = mpt_safetensors_data(w, 4);
    assert_int_equal((uintptr_t)start % 8, 0);
    for (int i = 0; i < 7; i++)
        assert_int_equal((const char *)mpt_safetensors_data(w, i) - start, places[i]);
    mpt_safetensors_abandon(w);
    assert_int_equal(folder_clear(&f), 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- whole or not there ---- */

static void test_write_when_a_file_is_there_then_it_stays_until_the_commit(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    const float two = 2.0f;
    assert_mpt_ok(ctx, write_float(ctx, f.file, 1.0f));
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, &one_float, 1, NULL, &w));
    memcpy(mpt_safetensors_data(w, 0), &two, sizeof two);
    assert_true(read_float(ctx, f.file) == 1.0f);
    mpt_safetensors_abandon(w);
    assert_true(read_float(ctx, f.file) == 1.0f);
    assert_mpt_ok(ctx, write_float(ctx, f.file, two));
    assert_true(read_float(ctx, f.file) == 2.0f);
    assert_int_equal(folder_clear(&f), 1); /* no temporary file is left */
    folder_remove(&f);
    mpt_safetensors_abandon(NULL);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_the_umask_is_set_then_the_file_has_the_usual_permissions(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    struct stat st;
    mode_t kept = umask(027);
    mpt_status status = write_float(ctx, f.file, 1.0f);
    umask(kept);
    assert_mpt_ok(ctx, status);
    assert_int_equal(stat(f.file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_the_path_is_a_link_then_its_file_is_replaced(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make(), other = folder_make();
    struct stat st;
    assert_mpt_ok(ctx, write_float(ctx, other.file, 1.0f));
    assert_int_equal(symlink(other.file, f.file), 0);
    assert_mpt_ok(ctx, write_float(ctx, f.file, 2.0f));
    assert_int_equal(lstat(f.file, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_true(read_float(ctx, other.file) == 2.0f);
    folder_remove(&other); /* now the link leads nowhere */
    assert_int_equal(write_float(ctx, f.file, 3.0f), MPT_NOT_FOUND);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_two_writers_have_one_path_then_the_last_commit_stays(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *first, *last;
    const float one = 1.0f, two = 2.0f;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, &one_float, 1, NULL, &first));
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, &one_float, 1, NULL, &last));
    memcpy(mpt_safetensors_data(first, 0), &one, sizeof one);
    memcpy(mpt_safetensors_data(last, 0), &two, sizeof two);
    assert_mpt_ok(ctx, mpt_safetensors_commit(first));
    assert_true(read_float(ctx, f.file) == 1.0f);
    assert_mpt_ok(ctx, mpt_safetensors_commit(last));
    assert_true(read_float(ctx, f.file) == 2.0f);
    assert_int_equal(folder_clear(&f), 1);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_write_when_the_example_is_written_then_every_byte_is_the_reference_s),
    cmocka_unit_test(test_write_when_types_are_many_then_the_file_is_the_reference_s),
    cmocka_unit_test(test_write_when_nothing_is_in_it_then_the_shortest_file),
    cmocka_unit_test(test_write_when_every_type_is_written_then_two_readers_read_it_back),
    cmocka_unit_test(test_write_when_types_are_mixed_then_alignment_falls_and_names_rise),
    cmocka_unit_test(test_write_when_a_file_is_there_then_it_stays_until_the_commit),
    cmocka_unit_test(test_write_when_the_umask_is_set_then_the_file_has_the_usual_permissions),
    cmocka_unit_test(test_write_when_the_path_is_a_link_then_its_file_is_replaced),
    cmocka_unit_test(test_write_when_two_writers_have_one_path_then_the_last_commit_stays),
};

MPT_TEST_MAIN(cases)
