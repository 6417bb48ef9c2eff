/* Writing safetensors: the bytes of the format, and a file that is whole or not there. */
#include "mpt_test.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "safetensors_file.h"

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
    bytes got = bytes_read(f.file);
    assert_int_equal(got.size, sizeof expected);
    assert_memory_equal(got.data, expected, sizeof expected);
    bytes_free(&got);
    folder_remove(&f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_write_when_the_example_is_written_then_every_byte_is_the_reference_s),
};

MPT_TEST_MAIN(cases)
