/* recipe/lt_support.c: the table of what cuBLASLt multiplies, cell by cell. */
#include "mpt_test.h"

#include "recipe/lt_support.h"

enum { N_DEVICES = 4 };
static const int capabilities[N_DEVICES] = {80, 89, 90, 100};

static mpt_lt_query query(mpt_dtype a, mpt_dtype b, mpt_lt_scaling scaling, mpt_dtype d) {
    return (mpt_lt_query){.capability = 90,
                          .rows = 256,
                          .cols = 128,
                          .k = 512,
                          .a = {.format = a, .scaling = scaling},
                          .b = {.format = b, .scaling = scaling},
                          .d = d};
}

/* One letter a device, 8.0, 8.9, 9.0, 10.0: y is taken, - is not. */
static void expect(mpt_lt_query q, const char *letters) {
    for (int i = 0; i < N_DEVICES; i++) {
        char why[MPT_LT_WHY];
        q.capability = capabilities[i];
        bool yes = mpt_lt_supported(&q, why);
        if (yes != (letters[i] == 'y'))
            fail_msg("%s %s, %s %s to %s on sm%d: %s", mpt_lt_scaling_name(q.a.scaling),
                     mpt_dtype_name(q.a.format), mpt_lt_scaling_name(q.b.scaling),
                     mpt_dtype_name(q.b.format), mpt_dtype_name(q.d), q.capability,
                     yes ? "taken" : why);
        assert_int_equal(*why == 0, yes);
    }
}

#define E4M3 MPT_DTYPE_E4M3
#define E5M2 MPT_DTYPE_E5M2
#define E2M1 MPT_DTYPE_E2M1
#define BF16 MPT_DTYPE_BF16
#define FP16 MPT_DTYPE_FP16
#define FP32 MPT_DTYPE_FP32
#define TF32 MPT_DTYPE_TF32

static void test_table_when_formats_are_wide_then_everywhere_without_scales(void **state) {
    (void)state;
    expect(query(BF16, BF16, MPT_LT_UNSCALED, BF16), "yyyy");
    expect(query(BF16, BF16, MPT_LT_UNSCALED, FP32), "yyyy");
    expect(query(FP16, FP16, MPT_LT_UNSCALED, FP16), "yyyy");
    expect(query(FP16, FP16, MPT_LT_UNSCALED, FP32), "yyyy");
    expect(query(FP32, FP32, MPT_LT_UNSCALED, FP32), "yyyy");
    expect(query(TF32, TF32, MPT_LT_UNSCALED, FP32), "yyyy");
    expect(query(BF16, BF16, MPT_LT_UNSCALED, FP16), "----");
    expect(query(FP32, FP32, MPT_LT_UNSCALED, BF16), "----");
    expect(query(BF16, FP16, MPT_LT_UNSCALED, FP32), "----");
    expect(query(FP32, TF32, MPT_LT_UNSCALED, FP32), "----");
    expect(query(BF16, BF16, MPT_LT_TENSOR, BF16), "----");
}

static void test_table_when_fp8_has_scales_of_tensors_then_from_ada_on(void **state) {
    (void)state;
    static const mpt_dtype wide[] = {BF16, FP16, FP32};
    for (size_t i = 0; i < MPT_COUNT(wide); i++) {
        expect(query(E4M3, E4M3, MPT_LT_TENSOR, wide[i]), "-yyy");
        expect(query(E4M3, E5M2, MPT_LT_TENSOR, wide[i]), "-yyy");
        expect(query(E5M2, E4M3, MPT_LT_TENSOR, wide[i]), "-yyy");
        expect(query(E5M2, E5M2, MPT_LT_TENSOR, wide[i]), "----");
    }
    expect(query(E4M3, E4M3, MPT_LT_TENSOR, E4M3), "-yyy");
    expect(query(E4M3, E4M3, MPT_LT_TENSOR, E5M2), "----");
    expect(query(E4M3, E5M2, MPT_LT_TENSOR, E5M2), "-yyy");
    expect(query(E4M3, E4M3, MPT_LT_UNSCALED, BF16), "----");
}

static void test_table_when_scales_are_finer_then_each_has_its_device(void **state) {
    (void)state;
    static const struct {
        mpt_lt_scaling a, b;
        const char *e4m3, *mixed; /* E4M3 with E4M3, with E5M2 */
    } rows[] = {
        {MPT_LT_ROWS, MPT_LT_ROWS, "--y-", "--y-"},
        {MPT_LT_ROWS, MPT_LT_TENSOR, "----", "----"},
        {MPT_LT_1X128, MPT_LT_1X128, "--y-", "--y-"},
        {MPT_LT_1X128, MPT_LT_128X128, "--y-", "--y-"},
        {MPT_LT_128X128, MPT_LT_1X128, "--y-", "--y-"},
        {MPT_LT_128X128, MPT_LT_128X128, "----", "----"},
        {MPT_LT_1X128, MPT_LT_TENSOR, "----", "----"},
        {MPT_LT_MX, MPT_LT_MX, "---y", "---y"},
        {MPT_LT_MX, MPT_LT_TENSOR, "----", "----"},
        {MPT_LT_NVFP4, MPT_LT_NVFP4, "----", "----"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_lt_query q = query(E4M3, E4M3, rows[i].a, BF16);
        q.b.scaling = rows[i].b;
        expect(q, rows[i].e4m3);
        q.d = FP32;
        expect(q, rows[i].e4m3);
        q.b.format = E5M2;
        expect(q, rows[i].mixed);
        q.a.format = E5M2;
        expect(q, "----");
        q = query(E4M3, E4M3, rows[i].a, E4M3); /* codes come out of scales of tensors only */
        expect(q, "----");
    }
}

static void test_table_when_formats_are_below_fp8_then_nvfp4_alone(void **state) {
    (void)state;
    expect(query(E2M1, E2M1, MPT_LT_NVFP4, BF16), "---y");
    expect(query(E2M1, E2M1, MPT_LT_NVFP4, FP16), "---y");
    expect(query(E2M1, E2M1, MPT_LT_NVFP4, FP32), "---y");
    expect(query(E2M1, E2M1, MPT_LT_NVFP4, E2M1), "----");
    expect(query(E2M1, E2M1, MPT_LT_MX, BF16), "----");
    expect(query(E2M1, E2M1, MPT_LT_TENSOR, BF16), "----");
    static const mpt_dtype none[] = {MPT_DTYPE_E3M2, MPT_DTYPE_E2M3, MPT_DTYPE_E5M6,
                                     MPT_DTYPE_INT8, MPT_DTYPE_I32};
    for (size_t i = 0; i < MPT_COUNT(none); i++)
        for (int s = 0; s < MPT_LT_SCALING_COUNT; s++)
            expect(query(none[i], none[i], (mpt_lt_scaling)s, FP32), "----");
}

static void
test_table_when_an_operand_lies_across_then_wide_formats_and_fp8_of_blackwell(void **state) {
    (void)state;
    static const struct {
        mpt_dtype format;
        mpt_lt_scaling scaling;
        const char *letters;
    } rows[] = {{BF16, MPT_LT_UNSCALED, "yyyy"}, {E4M3, MPT_LT_TENSOR, "---y"},
                {E4M3, MPT_LT_ROWS, "----"},     {E4M3, MPT_LT_1X128, "----"},
                {E4M3, MPT_LT_MX, "---y"},       {E2M1, MPT_LT_NVFP4, "----"}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        for (int across = 1; across < 4; across++) {
            mpt_lt_query q = query(rows[i].format, rows[i].format, rows[i].scaling, FP32);
            q.a.across = across & 1;
            q.b.across = across >> 1;
            expect(q, rows[i].letters);
        }
}

static void test_table_when_there_is_a_bias_then_of_the_format_beside_the_result(void **state) {
    (void)state;
    static const struct {
        mpt_dtype format, d, bias;
        mpt_lt_scaling scaling;
        const char *letters;
    } rows[] = {
        {BF16, BF16, BF16, MPT_LT_UNSCALED, "yyyy"},
        {BF16, BF16, FP32, MPT_LT_UNSCALED, "----"},
        {BF16, FP32, FP32, MPT_LT_UNSCALED, "yyyy"},
        {FP32, FP32, FP32, MPT_LT_UNSCALED, "yyyy"},
        {FP16, FP16, FP16, MPT_LT_UNSCALED, "yyyy"},
        {E4M3, BF16, BF16, MPT_LT_TENSOR, "-yyy"},
        {E4M3, FP32, BF16, MPT_LT_TENSOR, "-yyy"},
        {E4M3, FP32, FP32, MPT_LT_TENSOR, "----"},
        {E4M3, FP16, FP16, MPT_LT_TENSOR, "-yyy"},
        {E4M3, BF16, BF16, MPT_LT_1X128, "--y-"},
        {E2M1, BF16, BF16, MPT_LT_NVFP4, "---y"},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_lt_query q = query(rows[i].format, rows[i].format, rows[i].scaling, rows[i].d);
        q.has_bias = true;
        q.bias = rows[i].bias;
        expect(q, rows[i].letters);
    }
}

/* ---- shapes ---- */

static void expect_why(mpt_lt_query q, const char *expected) {
    char why[MPT_LT_WHY];
    assert_false(mpt_lt_supported(&q, why));
    assert_string_equal(why, expected);
}

static void test_shape_when_wide_then_anything_that_is_not_empty(void **state) {
    (void)state;
    mpt_lt_query q = query(BF16, BF16, MPT_LT_UNSCALED, BF16);
    q.rows = 1;
    q.cols = 3;
    q.k = 5;
    q.aligned = 2;
    expect(q, "yyyy");
    q.aligned = 1;
    expect_why(q, "pointers are no multiples of 2 bytes");
    q.aligned = 0;
    q.k = 0;
    expect_why(q, "a product of 1x3x0 is empty");
}

static void test_shape_when_narrow_then_whole_vectors_of_16_bytes(void **state) {
    (void)state;
    mpt_lt_query q = query(E4M3, E4M3, MPT_LT_TENSOR, BF16);
    q.rows = 7; /* of any number */
    q.cols = 8;
    q.k = 16;
    expect(q, "-yyy");
    q.k = 24;
    expect_why(q, "a dot product of 24 is no multiple of 16");
    q.k = 16;
    q.cols = 12;
    expect_why(q, "12 columns are no multiple of 8");
    q.d = FP32;
    expect(q, "-yyy");
    q.d = E4M3;
    q.cols = 24;
    expect_why(q, "24 columns are no multiple of 16");
    q = query(E4M3, E4M3, MPT_LT_TENSOR, BF16);
    q.a.ld = 520;
    expect_why(q, "stored rows of 520 are no multiple of 16 bytes");
    q.a.ld = 528;
    expect(q, "-yyy");
    q.ldd = 132;
    expect_why(q, "rows of the result are no multiple of 16 bytes");
    q.ldd = 0;
    q.aligned = 8;
    expect_why(q, "pointers are no multiples of 16 bytes");
}

static void test_shape_when_blocks_then_whole_ones(void **state) {
    (void)state;
    mpt_lt_query q = query(E4M3, E4M3, MPT_LT_1X128, FP32);
    q.k = 576;
    expect_why(q, "a dot product of 576 is no multiple of 128");
    q.k = 512;
    q.cols = 132;
    expect_why(q, "132 columns are no multiple of 8");
    q.cols = 128;
    q.rows = 252;
    expect_why(q, "252 rows are no multiple of 8");
    q.rows = 256;
    q.batch = 2;
    expect_why(q, "2 products at once");
    q = query(E4M3, E4M3, MPT_LT_MX, BF16);
    q.capability = 100;
    q.k = 48;
    expect_why(q, "a dot product of 48 is no multiple of 32");
    q = query(E2M1, E2M1, MPT_LT_NVFP4, BF16);
    q.capability = 100;
    q.k = 48;
    expect_why(q, "a dot product of 48 is no multiple of 32");
    q.k = 32;
    q.rows = 1;
    expect(q, "---y");
}

static void test_why_when_refused_then_what_is_lacking_is_named(void **state) {
    (void)state;
    mpt_lt_query q = query(E4M3, E4M3, MPT_LT_TENSOR, BF16);
    q.capability = 80;
    expect_why(q, "sm80 multiplies no fp8");
    expect_why(query(E2M1, E2M1, MPT_LT_NVFP4, BF16), "sm90 multiplies no fp4");
    expect_why(query(E4M3, E4M3, MPT_LT_MX, BF16), "sm90 takes no e8m0 scales");
    expect_why(query(BF16, BF16, MPT_LT_ROWS, BF16), "cuBLASLt has no rows scales for bf16");
    q = query(E4M3, E4M3, MPT_LT_1X128, BF16);
    q.capability = 100;
    expect_why(q, "fp32 scales for blocks of 1x128 are sm90's alone");
    q = query(E4M3, E4M3, MPT_LT_ROWS, BF16);
    q.capability = 100;
    expect_why(q, "one scale a row is sm90's alone");
    q = query(E4M3, E4M3, MPT_LT_1X128, BF16);
    q.b.scaling = MPT_LT_TENSOR;
    expect_why(q, "1x128 e4m3 and e4m3 are no pair of operands");
    expect_why(query(E5M2, E5M2, MPT_LT_TENSOR, BF16), "cuBLASLt has no e5m2 with e5m2");
    expect_why(query(E4M3, E4M3, MPT_LT_128X128, BF16),
               "sm90 takes blocks of 128x128 on one side only");
    q = query(E4M3, E4M3, MPT_LT_TENSOR, BF16);
    q.b.across = true;
    expect_why(q, "sm90 reads e4m3 along the dot product only");
    expect_why(query(BF16, BF16, MPT_LT_UNSCALED, FP16), "bf16 times bf16 gives no fp16");
    q = query(BF16, BF16, MPT_LT_UNSCALED, BF16);
    q.has_bias = true;
    q.bias = FP32;
    expect_why(q, "the bias is in bf16, not in fp32");
    expect_why(query(MPT_DTYPE_INT8, E4M3, MPT_LT_TENSOR, BF16), "cuBLASLt multiplies no int8");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_table_when_formats_are_wide_then_everywhere_without_scales),
    cmocka_unit_test(test_table_when_fp8_has_scales_of_tensors_then_from_ada_on),
    cmocka_unit_test(test_table_when_scales_are_finer_then_each_has_its_device),
    cmocka_unit_test(test_table_when_formats_are_below_fp8_then_nvfp4_alone),
    cmocka_unit_test(
        test_table_when_an_operand_lies_across_then_wide_formats_and_fp8_of_blackwell),
    cmocka_unit_test(test_table_when_there_is_a_bias_then_of_the_format_beside_the_result),
    cmocka_unit_test(test_shape_when_wide_then_anything_that_is_not_empty),
    cmocka_unit_test(test_shape_when_narrow_then_whole_vectors_of_16_bytes),
    cmocka_unit_test(test_shape_when_blocks_then_whole_ones),
    cmocka_unit_test(test_why_when_refused_then_what_is_lacking_is_named),
};
MPT_TEST_MAIN(cases)
