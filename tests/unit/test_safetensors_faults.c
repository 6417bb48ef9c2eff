/* Reading safetensors that break a rule: each is refused, and the message says which rule. */
#include "mpt_test.h"

#include <errno.h>

#include <sys/stat.h>

#include "io/file.h"
#include "io/safetensors.h"
#include "safetensors_file.h"

#define DAMAGED "; the file is damaged or was cut off: copy or download it again"
#define WRITER  "; the program that wrote the file broke the format: write it anew"

/* A header with one tensor 'a' and these fields. */
#define TENSOR(dtype, shape, offsets)                                                          \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
/* One F32 of a list of tensors. */
#define FLOAT(name, offsets)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" offsets "}"

/* The file must be refused with the status; gives the message after the path. */
static const char *refuse(mpt_ctx *ctx, const folder *f, mpt_status expected) {
    mpt_safetensors *file;
    mpt_status status = mpt_safetensors_open(ctx, f->file, &file);
    const char *message = mpt_ctx_error(ctx)->message;
    size_t n = strlen(f->file);
    if (status != expected)
        fail_msg("%s, not %s: %s", mpt_status_name(status), mpt_status_name(expected), message);
    assert_null(file);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    assert_memory_equal(message, f->file, n);
    return message + n;
}

typedef struct fault {
    const char *header;
    size_t data_bytes;
    const char *message;
} fault;

static void refuse_each(const fault *faults, size_t n, mpt_status status) {
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    for (size_t i = 0; i < n; i++) {
        header_write(f.file, faults[i].header, faults[i].data_bytes);
        assert_string_equal(refuse(ctx, &f, status), faults[i].message);
    }
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- the frame ---- */

static void test_open_when_the_frame_is_broken_then_the_message_says_how(void **s) {
    (void)s;
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } files[] = {
        {"", 0, ": has 0 bytes; the length of the header alone takes 8" DAMAGED},
        {"\2\0\0\0\0\0\0", 7, ": has 7 bytes; the length of the header alone takes 8" DAMAGED},
        {"\0\0\0\0\0\0\0\0", 8, ": the header is empty" WRITER},
        {"\1\0\0\0\0\0\0\0", 8, ": the header has 1 bytes, but only 0 follow" DAMAGED},
        {"\3\0\0\0\0\0\0\0{}", 10, ": the header has 3 bytes, but only 2 follow" DAMAGED},
        {"\0\xe1\xf5\5\0\0\0\0{}", 10,
         ": the header has 100000000 bytes, but only 2 follow" DAMAGED},
        {"\1\xe1\xf5\5\0\0\0\0{}", 10,
         ": no safetensors file: its header would have 100000001 bytes, and 100000000 are "
         "allowed" DAMAGED},
        {"\xf8\xff\xff\xff\xff\xff\xff\xff{}", 10,
         ": no safetensors file: its header would have 18446744073709551608 bytes, and "
         "100000000 are allowed" DAMAGED},
        {"\2\0\0\0\0\0\0\0[]", 10, ": the header starts with byte 0x5b, not with '{'" WRITER},
        {"\3\0\0\0\0\0\0\0 {}", 11, ": the header starts with byte 0x20, not with '{'" WRITER},
        {"version https://git-lfs.github.com/spec/v1\n", 43,
         ": no safetensors file: its header would have 2336927755350992246 bytes, and "
         "100000000 are allowed; this is the pointer that Git LFS leaves: fetch the file by "
         "`git lfs pull`"},
        {"PK\3\4\24\0\6\0\10\0", 10,
         ": no safetensors file: its header would have 1688935826934608 bytes, and 100000000 "
         "are allowed; this is a zip file, as torch.save writes it: convert it to safetensors"},
        {"GGUF\3\0\0\0\0\0", 10,
         ": no safetensors file: its header would have 14064895815 bytes, and 100000000 are "
         "allowed; this is a GGUF file: take the model's safetensors files"},
    };
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    for (size_t i = 0; i < MPT_COUNT(files); i++) {
        bytes_write(f.file, files[i].bytes, files[i].size);
        assert_string_equal(refuse(ctx, &f, MPT_DATA), files[i].message);
    }
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_a_sound_file_is_cut_anywhere_then_refused(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    header_write(f.file, "{" FLOAT("a", "[0,4]") "," FLOAT("b", "[4,8]") "}  ", 8);
    file_bytes whole = bytes_read(f.file);
    for (size_t n = 0; n < whole.size; n++) {
        bytes_write(f.file, whole.data, n);
        refuse(ctx, &f, MPT_DATA);
    }
    bytes_free(&whole);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- the JSON ---- */

static void test_open_when_the_header_is_no_sound_json_then_its_place_is_named(void **s) {
    (void)s;
    static const fault faults[] = {
        {"{\"a\":", 0, ": JSON at byte 13: unexpected token near end of file" DAMAGED},
        {"{}x", 0, ": JSON at byte 11: end of file expected near 'x'" DAMAGED},
        {"{}{}", 0, ": JSON at byte 11: end of file expected near '{'" DAMAGED},
        {"{'a':1}", 0, ": JSON at byte 10: string or '}' expected near '''" DAMAGED},
        {"{" FLOAT("a", "[0,4]") ",}", 4,
         ": JSON at byte 63: string or '}' expected near '}'" DAMAGED},
        {"{\"\xff\":1}", 0, ": JSON at byte 10: unable to decode byte 0xff near '\"'" DAMAGED},
        {"{\"\xc0\x80\":1}", 0,
         ": JSON at byte 10: unable to decode byte 0xc0 near '\"'" DAMAGED},
        {"{\"a\\u0000b\":1}", 0,
         ": JSON at byte 19: NUL byte in object key not supported near "
         "'\"a\\u0000b\"'" DAMAGED},
        {"{\"\\ud800\":1}", 0,
         ": JSON at byte 17: invalid Unicode '\\uD800' near '\"\\ud800\"'" DAMAGED},
        {"{\"a\nb\":1}", 0, ": JSON at byte 11: unexpected newline near '\"a'" DAMAGED},
        {TENSOR("\"F32\"", "[01]", "[0,4]"), 4,
         ": JSON at byte 38: invalid token near '0'" DAMAGED},
        {TENSOR("\"F32\"", "[9223372036854775808]", "[0,4]"), 4,
         ": JSON at byte 56: too big integer near '9223372036854775808'" DAMAGED},
        {"{" FLOAT("a", "[0,4]") "," FLOAT("a", "[4,8]") "}", 8,
         ": JSON at byte 65: duplicate object key near '\"a\"'" WRITER},
        {"{" FLOAT("a", "[0,4]") "," FLOAT("\\u0061", "[4,8]") "}", 8,
         ": JSON at byte 70: duplicate object key near '\"\\u0061\"'" WRITER},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\"}}", 0,
         ": JSON at byte 35: duplicate object key near '\"dtype\"'" WRITER},
    };
    refuse_each(faults, MPT_COUNT(faults), MPT_DATA);
}

static void test_open_when_a_zero_byte_lies_in_the_header_then_refused(void **s) {
    (void)s;
    static const char in_name[] = "\7\0\0\0\0\0\0\0{\"\0\":1}",
                      behind[] = "\3\0\0\0\0\0\0\0{}\0";
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    bytes_write(f.file, in_name, sizeof in_name - 1);
    assert_string_equal(refuse(ctx, &f, MPT_DATA),
                        ": JSON at byte 10: control character 0x0 near '\"'" DAMAGED);
    bytes_write(f.file, behind, sizeof behind - 1);
    refuse(ctx, &f, MPT_DATA);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- one tensor ---- */

static void test_open_when_a_tensor_is_wrong_then_name_and_field_are_said(void **s) {
    (void)s;
    static const fault faults[] = {
        {"{\"a\":1}", 0, ": tensor 'a': no object with dtype, shape and data_offsets" WRITER},
        {"{\"a\":{}}", 0, ": tensor 'a': dtype: is missing or no string" WRITER},
        {TENSOR("32", "[1]", "[0,4]"), 4,
         ": tensor 'a': dtype: is missing or no string" WRITER},
        {TENSOR("\"F33\"", "[1]", "[0,4]"), 4,
         ": tensor 'a': dtype: no type 'F33'; did you mean 'F32'?"},
        {TENSOR("\"f32\"", "[1]", "[0,4]"), 4,
         ": tensor 'a': dtype: no type 'f32'; did you mean 'F32'?"},
        {TENSOR("\"float\"", "[1]", "[0,4]"), 4,
         ": tensor 'a': dtype: no type 'float'; types are F64, F32, F16, BF16, F8_E4M3, "
         "F8_E5M2, F8_E8M0, F4, I64 ... U8, BOOL"},
        {TENSOR("\"F32\"", "1", "[0,4]"), 4,
         ": tensor 'a': shape: is missing or no array" WRITER},
        {TENSOR("\"F32\"", "[1,-1]", "[0,4]"), 4, ": tensor 'a': shape[1]: is -1" WRITER},
        {TENSOR("\"F32\"", "[1.0]", "[0,4]"), 4,
         ": tensor 'a': shape[0]: no whole number" WRITER},
        {TENSOR("\"F32\"", "[\"1\"]", "[0,4]"), 4,
         ": tensor 'a': shape[0]: no whole number" WRITER},
        {TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0,
         ": tensor 'a': shape: more elements than can be counted" WRITER},
        {TENSOR("\"U8\"", "[9223372036854775807]", "[0,8]"), 8,
         ": tensor 'a': shape: more bits than can be counted" WRITER},
        {TENSOR("\"U8\"", "[0,9223372036854775807,2]", "[0,0]"), 0,
         ": tensor 'a': shape: more elements than can be counted" WRITER},
        {TENSOR("\"F4\"", "[3]", "[0,2]"), 2,
         ": tensor 'a': shape: no whole number of bytes" WRITER},
        {TENSOR("\"F6_E3M2\"", "[2]", "[0,2]"), 2,
         ": tensor 'a': shape: no whole number of bytes" WRITER},
        {TENSOR("\"F32\"", "[1]", "[0]"), 4,
         ": tensor 'a': data_offsets: is missing or not two whole numbers" WRITER},
        {TENSOR("\"F32\"", "[1]", "[0,4,4]"), 4,
         ": tensor 'a': data_offsets: is missing or not two whole numbers" WRITER},
        {TENSOR("\"F32\"", "[1]", "[0,4.0]"), 4,
         ": tensor 'a': data_offsets: is missing or not two whole numbers" WRITER},
        {TENSOR("\"F32\"", "[1]", "[-4,0]"), 4,
         ": tensor 'a': data_offsets: from -4 to 0 is no range" WRITER},
        {TENSOR("\"F32\"", "[1]", "[4,0]"), 4,
         ": tensor 'a': data_offsets: from 4 to 0 is no range" WRITER},
        {TENSOR("\"F32\"", "[1]", "[4,8]"), 4,
         ": tensor 'a': data_offsets: ends at 8, but the data has 4 bytes" DAMAGED},
        {TENSOR("\"F32\"", "[1]", "[0,9223372036854775807]"), 4,
         ": tensor 'a': data_offsets: ends at 9223372036854775807, but the data has 4 "
         "bytes" DAMAGED},
        {TENSOR("\"F32\"", "[1]", "[0,3]"), 4,
         ": tensor 'a': data_offsets: 3 bytes, but its shape and dtype F32 take 4" WRITER},
        {TENSOR("\"F32\"", "[0]", "[0,4]"), 4,
         ": tensor 'a': data_offsets: 4 bytes, but its shape and dtype F32 take 0" WRITER},
    };
    refuse_each(faults, MPT_COUNT(faults), MPT_DATA);
}

static void test_open_when_the_rank_is_above_16_then_unsupported(void **s) {
    (void)s;
    static const fault faults[] = {
        {TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4,
         ": tensor 'a': shape: 17 dimensions, and at most 16 can be read; save it with fewer "
         "dimensions"},
    };
    refuse_each(faults, MPT_COUNT(faults), MPT_UNSUPPORTED);
}

static void test_open_when_a_name_is_long_then_the_message_still_says_the_fault(void **s) {
    (void)s;
    static char header[8192] = "{\"";
    size_t n = 2;
    for (int i = 0; i < 2000; i++, n += 3)
        memcpy(header + n, "\xe2\x82\xac", 4); /* the euro sign, three bytes */
    strcpy(header + n, "\":1}");
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    header_write(f.file, header, 0);
    const char *message = refuse(ctx, &f, MPT_DATA);
    assert_non_null(strstr(
        message, "\xe2\x82\xac...': no object with dtype, shape and data_offsets" WRITER));
    assert_true(strlen(message) < 400);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* ---- all tensors, and the metadata ---- */

static void test_open_when_tensors_do_not_tile_the_data_then_refused(void **s) {
    (void)s;
    static const fault faults[] = {
        {"{}", 4, ": the data has 4 bytes, but its tensors end at 0" DAMAGED},
        {"{" FLOAT("a", "[0,4]") "}", 8,
         ": the data has 8 bytes, but its tensors end at 4" DAMAGED},
        {"{" FLOAT("a", "[4,8]") "}", 8,
         ": tensor 'a': data_offsets: starts at 4, but the bytes from 0 on belong to no "
         "tensor" WRITER},
        {"{" FLOAT("a", "[0,4]") "," FLOAT("b", "[8,12]") "}", 12,
         ": tensor 'b': data_offsets: starts at 8, but the bytes from 4 on belong to no "
         "tensor" WRITER},
        {"{" FLOAT("a", "[2,6]") "," FLOAT("b", "[0,4]") "}", 8,
         ": tensor 'a': data_offsets: starts at 2, inside of tensor 'b', which ends at "
         "4" WRITER},
        {"{" FLOAT("a", "[0,4]") "," FLOAT("b", "[0,4]") "}", 4,
         ": tensor 'b': data_offsets: starts at 0, inside of tensor 'a', which ends at "
         "4" WRITER},
        {"{" FLOAT("a",
                   "[0,4]") ",\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         4,
         ": tensor 'e': data_offsets: starts at 2, inside of tensor 'a', which ends at "
         "4" WRITER},
    };
    refuse_each(faults, MPT_COUNT(faults), MPT_DATA);
}

static void test_open_when_metadata_is_not_text_to_text_then_refused(void **s) {
    (void)s;
    static const fault faults[] = {
        {"{\"__metadata__\":null}", 0, ": __metadata__: no object of strings" WRITER},
        {"{\"__metadata__\":[]}", 0, ": __metadata__: no object of strings" WRITER},
        {"{\"__metadata__\":{\"k\":1}}", 0,
         ": __metadata__: the value of 'k' is no string" WRITER},
        {"{\"__metadata__\":{\"k\":{\"l\":\"m\"}}}", 0,
         ": __metadata__: the value of 'k' is no string" WRITER},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0,
         ": JSON at byte 36: duplicate object key near '\"k\"'" WRITER},
    };
    refuse_each(faults, MPT_COUNT(faults), MPT_DATA);
}

/* ---- files made to hurt ---- */

/* A list of arrays in arrays ends at the parser's limit, not at that of the stack. */
static void test_open_when_arrays_nest_without_end_then_refused(void **s) {
    (void)s;
    enum { DEPTH = 1000000 };
    char *header = malloc(DEPTH + 8);
    assert_non_null(header);
    strcpy(header, "{\"a\":");
    memset(header + 5, '[', DEPTH);
    header[5 + DEPTH] = 0;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    header_write(f.file, header, 0);
    assert_string_equal(refuse(ctx, &f, MPT_DATA),
                        ": JSON at byte 2061: maximum parsing depth reached near '['" DAMAGED);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
    free(header);
}

/* Tens of thousands of tensors that share one range: read in full they would be much more than
 * the file. */
static void test_open_when_many_tensors_share_their_bytes_then_refused(void **s) {
    (void)s;
    enum { TENSORS = 20000, ROW = 96 };
    char *header = malloc((size_t)TENSORS * ROW + 8), *at = header;
    assert_non_null(header);
    *at++ = '{';
    for (int i = 0; i < TENSORS; i++)
        at += snprintf(at, ROW,
                       "%s\"weight_%05d\":{\"dtype\":\"F32\",\"shape\":[200,200],"
                       "\"data_offsets\":[0,160000]}",
                       i ? "," : "", i);
    strcpy(at, "}");
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    header_write(f.file, header, 160000);
    assert_string_equal(refuse(ctx, &f, MPT_DATA),
                        ": tensor 'weight_00001': data_offsets: starts at 0, inside of tensor "
                        "'weight_00000', which ends at 160000" WRITER);
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
    free(header);
}

/* ---- what the system does not give ---- */

static void
test_open_when_there_is_no_file_to_map_then_the_system_s_word_is_passed_on(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    assert_string_equal(refuse(ctx, &f, MPT_NOT_FOUND),
                        ": No such file or directory; name a safetensors file, an index of "
                        "shards, or the folder of a model");
    assert_int_equal(symlink("model.safetensors", f.file), 0);
    assert_string_equal(refuse(ctx, &f, MPT_NOT_FOUND),
                        ": Too many levels of symbolic links; name a safetensors file, an "
                        "index of shards, or the folder of a model");
    folder_clear(&f);
    assert_int_equal(mkfifo(f.file, 0600), 0); /* must not wait for a writer */
    assert_string_equal(refuse(ctx, &f, MPT_DATA),
                        ": not a regular file; name a file, not a folder, a pipe or a device");
    folder_remove(&f);
    mpt_ctx_destroy(ctx);
}

/* A map takes addresses, not memory, so the way out is another one than elsewhere. */
static void test_open_when_no_addresses_are_left_then_the_way_out_is_named(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_int_equal(mpt_file_fail(ctx, MPT_NOWHERE, "big.safetensors", ENOMEM), MPT_IO);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "big.safetensors: Cannot allocate memory; the file finds no room among "
                        "the addresses of the process: raise its limit (ulimit -v) or "
                        "vm.max_map_count, or end what else is mapped");
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_open_when_no_addresses_are_left_then_the_way_out_is_named),
    cmocka_unit_test(test_open_when_the_frame_is_broken_then_the_message_says_how),
    cmocka_unit_test(test_open_when_a_sound_file_is_cut_anywhere_then_refused),
    cmocka_unit_test(test_open_when_the_header_is_no_sound_json_then_its_place_is_named),
    cmocka_unit_test(test_open_when_a_zero_byte_lies_in_the_header_then_refused),
    cmocka_unit_test(test_open_when_a_tensor_is_wrong_then_name_and_field_are_said),
    cmocka_unit_test(test_open_when_the_rank_is_above_16_then_unsupported),
    cmocka_unit_test(test_open_when_a_name_is_long_then_the_message_still_says_the_fault),
    cmocka_unit_test(test_open_when_tensors_do_not_tile_the_data_then_refused),
    cmocka_unit_test(test_open_when_metadata_is_not_text_to_text_then_refused),
    cmocka_unit_test(test_open_when_arrays_nest_without_end_then_refused),
    cmocka_unit_test(test_open_when_many_tensors_share_their_bytes_then_refused),
    cmocka_unit_test(
        test_open_when_there_is_no_file_to_map_then_the_system_s_word_is_passed_on),
};

MPT_TEST_MAIN(cases)
