/* Reading safetensors: what a sound file, an index and a folder give. */
#include "mpt_test.h"

#include "io/safetensors.h"
#include "safetensors.h"
#include "safetensors_file.h"

/* Each tensor of a golden file, as an independent reader finds it. */
static void test_open_when_a_file_is_sound_then_tensors_are_those_of_another_reader(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    golden_file golden = golden_open("nvfp4_2d");
    const char *name;
    json_t *entry;
    int n = 0;
    assert_mpt_ok(
        ctx, mpt_safetensors_open(ctx, MPT_TESTS_DIR "/golden/nvfp4_2d.safetensors", &file));
    json_object_foreach(golden.header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
        const json_t *shape = json_object_get(entry, "shape");
        const json_t *offsets = json_object_get(entry, "data_offsets");
        assert_non_null(t);
        assert_string_equal(t->name, name);
        assert_string_equal(mpt_tensor_type_name(t->type),
                            json_string_value(json_object_get(entry, "dtype")));
        assert_int_equal(t->rank, json_array_size(shape));
        for (int i = 0; i < t->rank; i++)
            assert_int_equal(t->dims[i], json_integer_value(json_array_get(shape, (size_t)i)));
        json_int_t begin = json_integer_value(json_array_get(offsets, 0));
        assert_int_equal(t->bytes, json_integer_value(json_array_get(offsets, 1)) - begin);
        assert_memory_equal(t->data, golden.data + begin, t->bytes);
        n++;
    }
    assert_int_equal(mpt_safetensors_count(file), n);
    for (int i = 1; i < n; i++)
        assert_true(strcmp(mpt_safetensors_at(file, i - 1)->name,
                           mpt_safetensors_at(file, i)->name) < 0);
    assert_null(mpt_safetensors_at(file, n));
    assert_null(mpt_safetensors_find(file, "no such tensor"));
    golden_close(&golden);
    mpt_safetensors_close(file);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_open_when_a_file_is_sound_then_tensors_are_those_of_another_reader),
};

MPT_TEST_MAIN(cases)
