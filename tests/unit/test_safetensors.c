/* Reading safetensors: what a sound file gives, and its values as floats. */
#include "mpt_test.h"

#include <math.h>

#include "io/safetensors.h"
#include "safetensors.h"
#include "safetensors_file.h"

/* Opens a file with this header, data bytes 0, 1, 2 ... behind it. */
static mpt_safetensors *open_header(mpt_ctx *ctx, const folder *f, const char *header,
                                    size_t data_bytes) {
    mpt_safetensors *file = NULL;
    header_write(f->file, header, data_bytes);
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, f->file, &file));
    return file;
}

static void close_all(mpt_ctx *ctx, const folder *f, mpt_safetensors *file) {
    mpt_safetensors_close(file);
    folder_remove(f);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

/* One tensor against the entry that an independent reader has of it. */
static void check_entry(const mpt_stored_tensor *t, const json_t *entry, const char *data) {
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t elements = 1;
    assert_string_equal(mpt_tensor_type_name(t->type),
                        json_string_value(json_object_get(entry, "dtype")));
    assert_int_equal(t->rank, json_array_size(shape));
    for (int i = 0; i < t->rank; i++) {
        assert_int_equal(t->dims[i], json_integer_value(json_array_get(shape, (size_t)i)));
        elements *= t->dims[i];
    }
    assert_int_equal(t->elements, elements);
    assert_int_equal(t->bytes, json_integer_value(json_array_get(offsets, 1)) - begin);
    assert_memory_equal(t->data, data + begin, t->bytes);
}

static void test_open_when_a_file_is_sound_then_tensors_are_those_of_another_reader(void **s) {
    (void)s;
    static const char path[] = MPT_TESTS_DIR "/golden/nvfp4_2d.safetensors";
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_safetensors *file;
    golden_file golden = golden_open_path(path);
    const char *name;
    json_t *entry;
    int n = 0;
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, path, &file));
    json_object_foreach(golden.header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
        assert_non_null(t);
        assert_string_equal(t->name, name);
        assert_string_equal(t->file, path);
        check_entry(t, entry, golden.data);
        n++;
    }
    assert_int_equal(mpt_safetensors_count(file), n);
    golden_close(&golden);
    mpt_safetensors_close(file);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_open_when_tensors_stand_in_any_order_then_they_come_by_name(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors *file = open_header(
        ctx, &f,
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
        "\"c\":{\"dtype\":\"I16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[6,7],\"note\":[1,{}]}}",
        7);
    static const char *const names[] = {"a", "b", "c"};
    static const unsigned char first[] = {6, 4, 0};
    assert_int_equal(mpt_safetensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const mpt_stored_tensor *t = mpt_safetensors_at(file, i);
        assert_string_equal(t->name, names[i]);
        assert_ptr_equal(mpt_safetensors_find(file, names[i]), t);
        assert_int_equal(*(const unsigned char *)t->data, first[i]);
    }
    assert_null(mpt_safetensors_at(file, 3));
    assert_null(mpt_safetensors_at(file, -1));
    assert_null(mpt_safetensors_find(file, "aa"));
    assert_null(mpt_safetensors_find(file, ""));
    close_all(ctx, &f, file);
}

static void test_open_when_a_tensor_is_empty_or_a_scalar_then_legal(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors *file =
        open_header(ctx, &f,
                    "{\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                    "\"between\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
                    "\"start\":{\"dtype\":\"F4\",\"shape\":[0],\"data_offsets\":[0,0]},"
                    "\"half\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[4,7]},"
                    "\"end\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[7,7]}}",
                    7);
    assert_int_equal(mpt_safetensors_count(file), 5);
    const mpt_stored_tensor *scalar = mpt_safetensors_find(file, "scalar");
    const mpt_stored_tensor *between = mpt_safetensors_find(file, "between");
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(scalar->elements, 1);
    assert_int_equal(scalar->bytes, 4);
    assert_int_equal(between->elements, 0);
    assert_int_equal(between->bytes, 0);
    assert_int_equal(mpt_safetensors_find(file, "half")->bytes, 3);
    close_all(ctx, &f, file);
}

static void test_open_when_no_tensor_is_in_it_then_count_is_0(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors *file = open_header(ctx, &f, "{}      ", 0);
    assert_int_equal(mpt_safetensors_count(file), 0);
    assert_null(mpt_safetensors_at(file, 0));
    assert_null(mpt_safetensors_find(file, "a"));
    assert_null(mpt_safetensors_metadata(file, "format"));
    close_all(ctx, &f, file);
}

static void test_open_when_names_are_escaped_then_they_are_utf_8(void **s) {
    (void)s;
    mpt_ctx *ctx = mpt_test_ctx();
    folder f = folder_make();
    mpt_safetensors *file = open_header(
        ctx, &f,
        "{\"__metadata__\":{\"format\":\"pt\",\"\\u00fc\":\"\\ud83d\\ude00\"},"
        "\"a\\\"\\\\\\n\\u20ac\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
        2);
    assert_non_null(mpt_safetensors_find(file, "a\"\\\n\xe2\x82\xac"));
    assert_string_equal(mpt_safetensors_at(file, 0)->name, "");
    assert_string_equal(mpt_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(mpt_safetensors_metadata(file, "\xc3\xbc"), "\xf0\x9f\x98\x80");
    assert_null(mpt_safetensors_metadata(file, "pt"));
    close_all(ctx, &f, file);
}

/* ---- values ---- */

/* A value worked out from its bits alone, in doubles: sign, exponent, mantissa of IEEE 754. */
static double ieee_value(uint32_t code, int exponent_bits, int mantissa_bits) {
    int top = (1 << exponent_bits) - 1, bias = top >> 1;
    int e = (int)(code >> mantissa_bits) & top;
    double m = (double)(code & ((1u << mantissa_bits) - 1u));
    double sign = code >> (exponent_bits + mantissa_bits) & 1u ? -1.0 : 1.0;
    if (e == top)
        return m == 0.0 ? sign * (double)INFINITY : (double)NAN;
    if (e > 0)
        m += (double)(1u << mantissa_bits);
    return sign * ldexp(m, (e ? e : 1) - bias - mantissa_bits);
}

static void check_value(float got, double expected) {
    if (isnan(expected)) {
        assert_true(isnan(got));
    } else {
        float want = (float)expected;
        assert_true((double)want == expected); /* every code is a float32 */
        assert_memory_equal(&got, &want, sizeof got);
    }
}

static void check_halves(mpt_tensor_type type, int exponent_bits) {
    static uint16_t codes[65536];
    static float values[65536];
    for (uint32_t i = 0; i < 65536; i++)
        codes[i] = (uint16_t)i;
    mpt_stored_tensor t = {.type = type, .data = codes, .elements = 65536};
    assert_true(mpt_stored_tensor_floats(&t, 0, 65536, values));
    for (uint32_t i = 0; i < 65536; i++)
        check_value(values[i], ieee_value(i, exponent_bits, 15 - exponent_bits));
}

static void test_floats_when_every_16_bit_code_is_read_then_exact(void **s) {
    (void)s;
    check_halves(MPT_TENSOR_F16, 5);
    check_halves(MPT_TENSOR_BF16, 8);
}

/* E4M3 has no Inf: all of the top exponent but the last code are numbers. */
static void test_floats_when_every_8_bit_code_is_read_then_exact(void **s) {
    (void)s;
    unsigned char codes[256];
    float e5m2[256], e4m3[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (unsigned char)i;
    mpt_stored_tensor t = {.type = MPT_TENSOR_F8_E5M2, .data = codes, .elements = 256};
    assert_true(mpt_stored_tensor_floats(&t, 0, 256, e5m2));
    t.type = MPT_TENSOR_F8_E4M3;
    assert_true(mpt_stored_tensor_floats(&t, 0, 256, e4m3));
    for (uint32_t i = 0; i < 256; i++) {
        check_value(e5m2[i], ieee_value(i, 5, 2));
        double wide = (i & 0x7F) == 0x7F ? (double)NAN : ieee_value(i, 4, 3);
        if ((i & 0x78) == 0x78 && (i & 0x7F) != 0x7F)
            wide = (i & 0x80 ? -1.0 : 1.0) * ldexp(8.0 + (double)(i & 7), 5);
        check_value(e4m3[i], wide);
    }
}

static void
test_floats_when_wide_types_are_read_then_f32_is_kept_and_f64_rounded_once(void **s) {
    (void)s;
    static const uint32_t bits[] = {0u,          0x80000000u, 1u,          0x807FFFFFu,
                                    0x7F800000u, 0xFF800000u, 0x7FC12345u, 0x7F7FFFFFu};
    /* Ties go to even, the rest to the nearest; below float32's range into its subnormals. */
    static const double doubles[] = {1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 0x1.000001000001p0, 1e300,
                                     -0x1p-149,     0x1p-150,        0x1.8p-150,         -0.0};
    static const float rounded[] = {
        1.0f, 1.0f + 0x1p-22f, 1.0f + 0x1p-23f, INFINITY, -0x1p-149f, 0.0f, 0x1p-149f, -0.0f};
    uint32_t kept[8];
    float out[8];
    mpt_stored_tensor t = {.type = MPT_TENSOR_F32, .data = bits, .elements = 8};
    assert_true(mpt_stored_tensor_floats(&t, 0, 8, (float *)(void *)kept));
    assert_memory_equal(kept, bits, sizeof bits);
    t.type = MPT_TENSOR_F64;
    t.data = doubles;
    assert_true(mpt_stored_tensor_floats(&t, 0, 8, out));
    assert_memory_equal(out, rounded, sizeof rounded);
}

static void
test_floats_when_a_part_is_read_at_an_odd_address_then_those_elements_come(void **s) {
    (void)s;
    unsigned char bytes[1 + 4 * sizeof(double)] = {0};
    const double doubles[] = {1.0, 2.0, 3.0, 4.0};
    const uint16_t halves[] = {0x3F80, 0x4000, 0x4040, 0x4080};
    float out[2];
    mpt_stored_tensor t = {.type = MPT_TENSOR_F64, .data = bytes + 1, .elements = 4};
    memcpy(bytes + 1, doubles, sizeof doubles);
    assert_true(mpt_stored_tensor_floats(&t, 2, 2, out));
    assert_true(out[0] == 3.0f && out[1] == 4.0f);
    memcpy(bytes + 1, halves, sizeof halves);
    t.type = MPT_TENSOR_BF16;
    assert_true(mpt_stored_tensor_floats(&t, 1, 2, out));
    assert_true(out[0] == 2.0f && out[1] == 3.0f);
}

static void test_floats_when_the_type_is_no_float_of_these_then_refused(void **s) {
    (void)s;
    static const mpt_tensor_type floats[] = {MPT_TENSOR_F64,     MPT_TENSOR_F32,
                                             MPT_TENSOR_F16,     MPT_TENSOR_BF16,
                                             MPT_TENSOR_F8_E4M3, MPT_TENSOR_F8_E5M2};
    const double data[1] = {0};
    float out[1];
    for (int type = 0; type < MPT_TENSOR_TYPE_COUNT; type++) {
        mpt_stored_tensor t = {.type = (mpt_tensor_type)type, .data = data, .elements = 1};
        bool is_float = false;
        for (size_t i = 0; i < MPT_COUNT(floats); i++)
            is_float |= floats[i] == t.type;
        assert_int_equal(mpt_stored_tensor_floats(&t, 0, 1, out), is_float);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_open_when_a_file_is_sound_then_tensors_are_those_of_another_reader),
    cmocka_unit_test(test_open_when_tensors_stand_in_any_order_then_they_come_by_name),
    cmocka_unit_test(test_open_when_a_tensor_is_empty_or_a_scalar_then_legal),
    cmocka_unit_test(test_open_when_no_tensor_is_in_it_then_count_is_0),
    cmocka_unit_test(test_open_when_names_are_escaped_then_they_are_utf_8),
    cmocka_unit_test(test_floats_when_every_16_bit_code_is_read_then_exact),
    cmocka_unit_test(test_floats_when_every_8_bit_code_is_read_then_exact),
    cmocka_unit_test(
        test_floats_when_wide_types_are_read_then_f32_is_kept_and_f64_rounded_once),
    cmocka_unit_test(
        test_floats_when_a_part_is_read_at_an_odd_address_then_those_elements_come),
    cmocka_unit_test(test_floats_when_the_type_is_no_float_of_these_then_refused),
};

MPT_TEST_MAIN(cases)
