/* Writing safetensors where it cannot be done: an error that says why, and nothing left behind.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "mpt_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "safetensors_file.h"

static void refuse(const char *path, mpt_status expected, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_status status = write_float(ctx, path, 1.0f);
    const char *got = mpt_ctx_error(ctx)->message;
    if (status != expected)
        fail_msg("%s: %s", mpt_status_name(status), got);
    assert_memory_equal(got, path, strlen(path));
    assert_string_equal(got + strlen(path), message);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_the_path_cannot_be_written_then_the_way_out_is_named(void **s) {
    (void)s;
    static const char no_file[] =
        ": is there and is no regular file; name a file to write, not a folder or a device";
    static const char no_folder[] = "; the folder must exist and let files be made in it";
    char message[256];
    folder f = folder_make();
    snprintf(message, sizeof message, ": No such file or directory%s", no_folder);
    refuse("/no/such/folder/x.safetensors", MPT_NOT_FOUND, message);
    snprintf(message, sizeof message, ": Not a directory%s", no_folder);
    refuse("/dev/null/x.safetensors", MPT_NOT_FOUND, message);
    refuse(f.path, MPT_INVALID, no_file);
    refuse("/dev/full", MPT_INVALID, no_file);
    refuse("/dev/null", MPT_INVALID, no_file);
    folder_remove(&f);
}

/* The limit's signal would end the process: it must be asked for before the file grows. */
static void test_write_when_the_file_is_too_large_for_the_process_then_no_signal(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    mpt_tensor_spec spec = one_float;
    struct rlimit kept, small;
    spec.dims[0] = 1000;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    small = (struct rlimit){.rlim_cur = 4000, .rlim_max = kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    mpt_status status = mpt_safetensors_create(ctx, f.file, &spec, 1, NULL, &w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    assert_int_equal(status, MPT_IO);
    assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file),
                        ": File too large; it takes 4072 bytes: make room or write elsewhere");
    assert_int_equal(folder_clear(&f), 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_write_when_the_disk_is_too_small_then_an_error_and_nothing_is_left(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    mpt_tensor_spec spec = one_float;
    spec.dims[0] = INT64_C(1) << 56; /* 256 PiB: more than any disk, less than a file may be */
    assert_int_equal(mpt_safetensors_create(ctx, f.file, &spec, 1, NULL, &w), MPT_IO);
    assert_null(w);
    assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file),
                        ": No space left on device; it takes 288230376151711840 bytes: make "
                        "room or write elsewhere");
    assert_int_equal(folder_clear(&f), 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* What stands there is hardly meant, unless it is a safetensors file or an empty one. */
static void test_write_when_another_kind_of_file_is_there_then_it_is_not_replaced(void **s) {
    (void)s;
    static const char *const kept[] = {"{}", "{\n  \"hidden_size\": 64\n}",
                                       "PK\3\4, a zip file"};
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(kept); i++) {
        bytes_write(f.file, kept[i], strlen(kept[i]));
        refuse(f.file, MPT_INVALID,
               ": is there and is no safetensors file, so it is not replaced; name another "
               "output, or remove the file first");
        file_bytes after = bytes_read(f.file);
        assert_int_equal(after.size, strlen(kept[i]));
        assert_memory_equal(after.data, kept[i], after.size);
        bytes_free(&after);
    }
    mpt_ctx *ctx = mpt_test_ctx();
    bytes_write(f.file, "", 0);
    assert_mpt_ok(ctx, write_float(ctx, f.file, 1.0f)); /* over an empty file */
    assert_mpt_ok(ctx, write_float(ctx, f.file, 2.0f)); /* over one of its own kind */
    mpt_ctx_destroy(ctx);
    folder_remove(&f);
}

/* Nothing can be left behind where nothing has a name. The folder is one of a file system that
 * knows files without a name, or the test does not apply. */
static void test_write_when_it_is_under_way_then_the_folder_is_empty(void **s) {
    (void)s;
    folder f = folder_make();
    int fd = open(f.path, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd >= 0) {
        mpt_ctx *ctx = mpt_test_ctx();
        mpt_safetensors_writer *w;
        close(fd);
        assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, &one_float, 1, NULL, &w));
        assert_int_equal(folder_count(&f), 0);
        assert_mpt_ok(ctx, mpt_safetensors_commit(w));
        assert_int_equal(folder_count(&f), 1);
        mpt_ctx_destroy(ctx);
    }
    folder_remove(&f);
    if (fd < 0)
        skip();
}

/* Somebody makes a folder where the file should go. */
static void test_commit_when_the_name_is_taken_then_an_error_and_nothing_is_left(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, f.file, &one_float, 1, NULL, &w));
    assert_int_equal(mkdir(f.file, 0700), 0);
    assert_int_equal(mpt_safetensors_commit(w), MPT_IO);
    assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file),
                        ": Is a directory; what had this name before is unchanged");
    assert_int_equal(rmdir(f.file), 0);
    assert_int_equal(folder_clear(&f), 0);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_create_when_a_spec_is_wrong_then_invalid_and_named(void **s) {
    (void)s;
    static const struct {
        mpt_tensor_spec spec;
        const char *message;
    } wrong[] = {
        {{.name = NULL, .type = MPT_TENSOR_F32}, ": no tensor can be named '(NULL)'"},
        {{.name = "__metadata__", .type = MPT_TENSOR_F32},
         ": no tensor can be named '__metadata__'"},
        {{.name = "a", .type = MPT_TENSOR_TYPE_COUNT}, ": tensor 'a': no such type"},
        {{.name = "a", .type = MPT_TENSOR_F32, .rank = 17},
         ": tensor 'a': its rank is not 0 to 16"},
        {{.name = "a", .type = MPT_TENSOR_F32, .rank = -1},
         ": tensor 'a': its rank is not 0 to 16"},
        {{.name = "a", .type = MPT_TENSOR_F32, .rank = 2, .dims = {1, -1}},
         ": tensor 'a': a dimension is negative"},
        {{.name = "a", .type = MPT_TENSOR_F4, .rank = 1, .dims = {3}},
         ": tensor 'a': no whole number of bytes"},
        {{.name = "a", .type = MPT_TENSOR_F32, .rank = 2, .dims = {INT64_MAX, 2}},
         ": tensor 'a': more elements than can be counted"},
        {{.name = "a\xff", .type = MPT_TENSOR_F32}, ": the name 'a\xff' is no UTF-8"},
        {{.name = "x", .type = MPT_TENSOR_U8}, ": two tensors are named 'x'"},
    };
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(wrong); i++) {
        mpt_tensor_spec specs[] = {one_float, wrong[i].spec};
        mpt_safetensors_writer *w;
        assert_int_equal(mpt_safetensors_create(ctx, f.file, specs, 2, NULL, &w), MPT_INVALID);
        assert_null(w);
        assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file), wrong[i].message);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    }
    assert_int_equal(folder_clear(&f), 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* Each could be stored alone; together they pass the largest offset. */
static void test_create_when_all_together_fit_no_file_then_invalid(void **s) {
    (void)s;
    enum { N = 16 };
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    mpt_tensor_spec specs[N];
    char names[N][4];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        specs[i] = (mpt_tensor_spec){.name = names[i], .type = MPT_TENSOR_U8, .rank = 1};
        specs[i].dims[0] = INT64_C(1) << 59;
    }
    assert_int_equal(mpt_safetensors_create(ctx, f.file, specs, N, NULL, &w), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file),
                        ": its tensors fit no file");
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_create_when_metadata_has_a_key_twice_then_invalid(void **s) {
    (void)s;
    static const char *const twice[] = {"a", "1", "b", "2", "a", "3", NULL};
    static const char *const latin[] = {"a", "\xfc", NULL};
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors_writer *w;
    assert_int_equal(mpt_safetensors_create(ctx, f.file, &one_float, 1, twice, &w),
                     MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message + strlen(f.file),
                        ": __metadata__ has two values of 'a'");
    assert_int_equal(mpt_safetensors_create(ctx, f.file, &one_float, 1, latin, &w),
                     MPT_INVALID);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_write_when_another_kind_of_file_is_there_then_it_is_not_replaced),
    cmocka_unit_test(test_write_when_it_is_under_way_then_the_folder_is_empty),
    cmocka_unit_test(test_write_when_the_path_cannot_be_written_then_the_way_out_is_named),
    cmocka_unit_test(test_write_when_the_file_is_too_large_for_the_process_then_no_signal),
    cmocka_unit_test(test_write_when_the_disk_is_too_small_then_an_error_and_nothing_is_left),
    cmocka_unit_test(test_commit_when_the_name_is_taken_then_an_error_and_nothing_is_left),
    cmocka_unit_test(test_create_when_a_spec_is_wrong_then_invalid_and_named),
    cmocka_unit_test(test_create_when_all_together_fit_no_file_then_invalid),
    cmocka_unit_test(test_create_when_metadata_has_a_key_twice_then_invalid),
};

MPT_TEST_MAIN(cases)
