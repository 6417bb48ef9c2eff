/* safetensors: every allocation of reading and of writing fails once; nothing is lost, neither
 * memory nor a file, and nothing but "out of memory" is said. */
#include "mpt_test.h"

#include "allowance.h"
#include "io/safetensors.h"
#include "safetensors_file.h"

typedef mpt_status action(mpt_ctx *ctx, const folder *f);

/* Runs the action with 0, 1, 2 ... allocations allowed until it succeeds; gives that number. A
 * failure must leave `files` files in the folder. */
static long sweep(action *run, const folder *f, int files) {
    for (long n = 0;; n++) {
        allowance a;
        mpt_ctx *ctx = allowance_context(&a, 1);
        a.left = n;
        mpt_status status = run(ctx, f);
        assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
        if (status != MPT_OK) {
            assert_int_equal(status, MPT_OUT_OF_MEMORY);
            assert_int_equal(mpt_ctx_error(ctx)->code, MPT_OUT_OF_MEMORY);
            assert_int_equal(folder_count(f), files);
        }
        mpt_ctx_destroy(ctx);
        assert_int_equal(a.live, 0);
        if (status == MPT_OK)
            return n;
    }
}

enum { N_TENSORS = 300, NAME_BYTES = 200 };

static mpt_status write_many(mpt_ctx *ctx, const folder *f) {
    static const char *const metadata[] = {"format", "pt", "b", "c", NULL};
    static mpt_tensor_spec specs[N_TENSORS];
    static char names[N_TENSORS][NAME_BYTES];
    mpt_safetensors_writer *w;
    for (int i = 0; i < N_TENSORS; i++) {
        snprintf(names[i], NAME_BYTES, "%0*d", NAME_BYTES - 1, i);
        specs[i] = (mpt_tensor_spec){.name = names[i], .type = MPT_TENSOR_U8};
    }
    MPT_TRY(mpt_safetensors_create(ctx, f->file, specs, N_TENSORS, metadata, &w));
    return mpt_safetensors_commit(w);
}

static mpt_status read_many(mpt_ctx *ctx, const folder *f) {
    mpt_safetensors *file;
    MPT_TRY(mpt_safetensors_open(ctx, f->path, &file));
    assert_int_equal(mpt_safetensors_count(file), N_TENSORS);
    mpt_safetensors_close(file);
    return MPT_OK;
}

static void test_write_when_any_allocation_fails_then_no_file_and_no_leak(void **s) {
    (void)s;
    folder f = folder_make();
    assert_true(sweep(write_many, &f, 0) > 8);
    folder_remove(&f);
}

static void test_open_when_any_allocation_fails_then_clean(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    assert_mpt_ok(ctx, write_many(ctx, &f));
    assert_true(sweep(read_many, &f, 1) > 6);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* The same through an index, whose shard is the file. */
static mpt_status read_index(mpt_ctx *ctx, const folder *f) {
    mpt_safetensors *file;
    char index[256];
    snprintf(index, sizeof index, "%s/index.json", f->path);
    MPT_TRY(mpt_safetensors_open(ctx, index, &file));
    assert_int_equal(mpt_safetensors_count(file), N_TENSORS);
    mpt_safetensors_close(file);
    return MPT_OK;
}

static void test_open_when_any_allocation_of_an_index_fails_then_clean(void **s) {
    (void)s;
    static char text[N_TENSORS * (NAME_BYTES + 32)] = "{\"weight_map\":{";
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    char path[256];
    size_t n = strlen(text);
    assert_mpt_ok(ctx, write_many(ctx, &f));
    for (int i = 0; i < N_TENSORS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%0*d\":\"model.safetensors\"",
                              i ? "," : "", NAME_BYTES - 1, i);
    n += (size_t)snprintf(text + n, sizeof text - n, "}}");
    snprintf(path, sizeof path, "%s/index.json", f.path);
    bytes_write(path, text, n);
    assert_true(sweep(read_index, &f, 2) > 7);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_write_when_any_allocation_fails_then_no_file_and_no_leak),
    cmocka_unit_test(test_open_when_any_allocation_fails_then_clean),
    cmocka_unit_test(test_open_when_any_allocation_of_an_index_fails_then_clean),
};

MPT_TEST_MAIN(cases)
