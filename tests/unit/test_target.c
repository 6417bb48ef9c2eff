/* recipe/target.c: what GPUs multiply by themselves, at which rate, and what operands take
 * there. */
#include "mpt_test.h"

#include <math.h>

#include "recipe/schema.h"
#include "recipe/target.h"

static mpt_quantizer q_of(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

/* Of 64 x 64 x 128, which every device's instructions divide. */
static mpt_product product(const mpt_quantizer *a, const mpt_quantizer *b) {
    return (mpt_product){.a = a, .b = b, .rows = 64, .cols = 64, .k = 128};
}

/* One letter a GPU, for sm80, sm90 and sm100: n is native, e emulated. */
static void expect_pair(const mpt_quantizer *a, const mpt_quantizer *b, const char *letters) {
    mpt_product p = product(a, b);
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++) {
        char why[MPT_TARGET_WHY];
        bool native = mpt_target_multiplies((mpt_target)t, &p, why);
        if (native != (letters[t - 1] == 'n'))
            fail_msg("%s with %s on %s: %s", a->name, b->name, mpt_target_name((mpt_target)t),
                     native ? "native" : why);
        assert_int_equal(*why == 0, native);
    }
}

static void expect(const char *a, const char *b, const char *letters) {
    mpt_quantizer left = q_of(a), right = q_of(b);
    expect_pair(&left, &right, letters);
    expect_pair(&right, &left, letters);
}

static void test_native_when_formats_vary_then_as_the_tensor_cores_have_them(void **state) {
    (void)state;
    expect("fp32", "fp32", "nnn");
    expect("tf32", "tf32", "nnn");
    expect("bf16", "bf16", "nnn");
    expect("fp16", "fp16", "nnn");
    expect("int8", "int8", "eee");
    expect("e4m3", "e4m3", "enn");
    expect("e4m3", "e5m2", "enn");
    expect("e5m2", "e5m2", "eee");
    expect("e5m6", "e5m6", "eee");
    expect("e3m2", "e2m3", "enn"); /* as e4m3 */
    expect("e2m1", "e2m1", "enn");
    expect("fp8_block", "fp8_block", "ene");
    expect("mxfp8", "mxfp8", "een");
    expect("mxfp6", "mxfp6", "een");
    expect("mxfp4", "mxfp4", "een");
    expect("mxfp4", "mxfp8", "een");
    expect("nvfp4", "nvfp4", "een");
}

static void test_native_when_operands_do_not_go_together_then_emulated(void **state) {
    (void)state;
    expect("bf16", "fp16", "eee");
    expect("bf16", "e4m3", "eee");
    expect("nvfp4", "bf16", "eee");
    expect("nvfp4", "mxfp4", "eee");
    expect("nvfp4", "e4m3", "eee");
    expect("mxfp8", "e4m3", "eee");
    expect("fp8_block", "e4m3", "eee");
}

static void test_native_when_blocks_vary_then_only_those_of_the_device(void **state) {
    (void)state;
    mpt_quantizer row = q_of("fp8_block"), square = row, odd = row, int8 = q_of("int8");
    square.block_rows = 128;
    expect_pair(&row, &square, "ene");
    expect_pair(&square, &row, "ene");
    expect_pair(&square, &square, "eee");
    odd.block_cols = 64;
    expect_pair(&odd, &odd, "eee");
    mpt_quantizer nvfp4 = q_of("nvfp4"), weight = nvfp4;
    weight.block_rows = 16;
    expect_pair(&nvfp4, &weight, "een");
    weight.block_rows = 32;
    expect_pair(&nvfp4, &weight, "eee");
    mpt_quantizer mx = q_of("mxfp8"), square_mx = mx;
    square_mx.block_rows = 32;
    expect_pair(&mx, &square_mx, "een");
    mpt_quantizer rows = q_of("e4m3");
    rows.block_rows = 1; /* a scale a row is a factor of the result */
    expect_pair(&rows, &rows, "enn");
    int8.block_rows = 1;
    int8.block_cols = 32;
    int8.scale_format = MPT_SCALE_E8M0;
    expect_pair(&int8, &int8, "eee");
}

static void expect_why(mpt_target target, const mpt_product *p, const char *expected) {
    char why[MPT_TARGET_WHY];
    assert_false(mpt_target_multiplies(target, p, why));
    assert_string_equal(why, expected);
}

static void test_why_when_emulated_then_what_is_lacking_is_named(void **state) {
    (void)state;
    mpt_quantizer nvfp4 = q_of("nvfp4"), e4m3 = q_of("e4m3"), bf16 = q_of("bf16");
    mpt_quantizer mx = q_of("mxfp8"), block = q_of("fp8_block"), odd = mx;
    mpt_product p = product(&nvfp4, &nvfp4);
    expect_why(MPT_TARGET_SM90, &p, "sm90 multiplies no fp4");
    p.k = 48;
    expect_why(MPT_TARGET_SM100, &p, "a dot product of 48 is no multiple of 32");
    p.k = 64;
    p.cols = 20;
    expect_why(MPT_TARGET_SM100, &p, "20 columns are no multiple of 8");
    p = product(&e4m3, &bf16);
    expect_why(MPT_TARGET_SM80, &p, "sm80 multiplies no fp8");
    expect_why(MPT_TARGET_SM90, &p, "e4m3 and bf16 are no pair of operands");
    p = product(&mx, &mx);
    expect_why(MPT_TARGET_SM90, &p, "sm90 takes no e8m0 scales");
    p = product(&block, &block);
    expect_why(MPT_TARGET_SM100, &p, "fp32 scales for blocks of 1x128 are sm90's alone");
    odd.block_cols = 16;
    p = product(&odd, &odd);
    expect_why(MPT_TARGET_SM100, &p,
               "no tensor core takes e4m3 in blocks of 1x16 with e8m0 scales");
}

static void test_native_when_bf16_then_no_shape_is_refused(void **state) {
    (void)state;
    mpt_quantizer bf16 = q_of("bf16");
    mpt_product p = {.a = &bf16, .b = &bf16, .rows = 1, .cols = 3, .k = 5};
    char why[MPT_TARGET_WHY];
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++)
        assert_true(mpt_target_multiplies((mpt_target)t, &p, why));
}

/* ---- ways ---- */

static void expect_way(mpt_target target, const mpt_quantizer *a, const mpt_quantizer *b,
                       mpt_way expected) {
    mpt_product p = product(a, b);
    char why[MPT_TARGET_WHY];
    mpt_way way = mpt_target_way(target, &p, why);
    if (way != expected)
        fail_msg("%s with %s on %s: %s, not %s", a->name, b->name, mpt_target_name(target),
                 mpt_way_name(way), mpt_way_name(expected));
}

/* By significant bits: an element's and, inside a dot product, its scale's. */
static void
test_way_when_emulated_then_the_narrowest_format_that_holds_the_numbers(void **state) {
    (void)state;
    static const struct {
        mpt_target target;
        const char *a, *b;
        mpt_way way;
    } rows[] = {
        {MPT_TARGET_SM80, "e4m3", "e5m2", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "e5m2", "e5m2", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "nvfp4", "nvfp4", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "mxfp8", "mxfp4", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "nvfp4", "bf16", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "nvfp4", "fp16", MPT_WAY_FP16},
        {MPT_TARGET_SM90, "e5m6", "int8", MPT_WAY_BF16},
        {MPT_TARGET_SM90, "mxfp8", "fp16", MPT_WAY_TF32}, /* its scales are beyond fp16 */
        {MPT_TARGET_SM90, "fp16", "bf16", MPT_WAY_TF32},
        {MPT_TARGET_SM90, "fp32", "e4m3", MPT_WAY_FP32},
        {MPT_TARGET_SM90, "fp8_block", "fp8_block", MPT_WAY_NATIVE},
        {MPT_TARGET_SM100, "fp8_block", "fp8_block", MPT_WAY_FP32},
        {MPT_TARGET_SM80, "fp8_block", "fp8_block", MPT_WAY_FP32},
        {MPT_TARGET_SM100, "mxfp6", "mxfp4", MPT_WAY_E4M3},
        {MPT_TARGET_SM100, "mxfp8", "mxfp8", MPT_WAY_NATIVE},
        {MPT_TARGET_SM100, "nvfp4", "mxfp4", MPT_WAY_BF16},
    };
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_quantizer a = q_of(rows[i].a), b = q_of(rows[i].b);
        expect_way(rows[i].target, &a, &b, rows[i].way);
        expect_way(rows[i].target, &b, &a, rows[i].way);
    }
}

static void test_way_when_scales_are_powers_of_two_then_bf16_holds_them(void **state) {
    (void)state;
    mpt_quantizer block = q_of("fp8_block");
    block.scale_format = MPT_SCALE_POW2;
    expect_way(MPT_TARGET_SM100, &block, &block, MPT_WAY_BF16);
}

static void test_way_when_a_scale_is_a_rows_then_it_stays_out_of_the_product(void **state) {
    (void)state;
    mpt_quantizer rows = q_of("e4m3"), tensor = rows;
    rows.block_rows = 1;
    expect_way(MPT_TARGET_SM80, &rows, &rows, MPT_WAY_BF16);
    expect_way(MPT_TARGET_SM90, &rows, &tensor, MPT_WAY_NATIVE);
    expect_way(MPT_TARGET_SM100, &rows, &rows, MPT_WAY_NATIVE);
}

/* Neither has a mode of the library: they run without tensor cores on any GPU. */
static void test_way_when_experts_or_other_sums_then_plain(void **state) {
    (void)state;
    mpt_quantizer bf16 = q_of("bf16");
    mpt_product grouped = product(&bf16, &bf16), sums = grouped;
    char why[MPT_TARGET_WHY];
    grouped.grouped = true;
    sums.accumulate = MPT_DTYPE_BF16;
    for (int t = MPT_TARGET_SM80; t < MPT_TARGET_COUNT; t++) {
        assert_int_equal(mpt_target_way((mpt_target)t, &grouped, why), MPT_WAY_PLAIN);
        assert_string_equal(why, "cuBLASLt takes no rows of experts that the device picks");
        assert_int_equal(mpt_target_way((mpt_target)t, &sums, why), MPT_WAY_PLAIN);
        assert_string_equal(why, "tensor cores sum in fp32, not in bf16");
    }
}

static void expect_rate(mpt_target target, const char *a, const char *b, double rate) {
    mpt_quantizer left = q_of(a), right = q_of(b);
    mpt_product p = product(&left, &right);
    if (mpt_target_rate(target, &p) != rate)
        fail_msg("%s with %s on %s: %g", a, b, mpt_target_name(target),
                 mpt_target_rate(target, &p));
}

static void test_rate_when_operands_differ_then_the_wider_ones(void **state) {
    (void)state;
    expect_rate(MPT_TARGET_HOST, "nvfp4", "nvfp4", 4);
    expect_rate(MPT_TARGET_HOST, "nvfp4", "e4m3", 2);
    expect_rate(MPT_TARGET_HOST, "nvfp4", "bf16", 1);
    expect_rate(MPT_TARGET_HOST, "mxfp6", "mxfp4", 2);
    expect_rate(MPT_TARGET_HOST, "int8", "int8", 2);
    expect_rate(MPT_TARGET_HOST, "tf32", "tf32", 0.5);
    expect_rate(MPT_TARGET_HOST, "fp32", "bf16", 0.0625);
}

static void test_rate_when_a_gpu_emulates_then_bf16s(void **state) {
    (void)state;
    expect_rate(MPT_TARGET_SM90, "nvfp4", "nvfp4", 1);
    expect_rate(MPT_TARGET_SM100, "nvfp4", "nvfp4", 4);
    expect_rate(MPT_TARGET_SM80, "e4m3", "e4m3", 1);
    expect_rate(MPT_TARGET_SM90, "e4m3", "e4m3", 2);
    expect_rate(MPT_TARGET_SM90, "fp32", "nvfp4", 0.0625);
    expect_rate(MPT_TARGET_SM100, "fp8_block", "fp8_block", 0.0625);
    expect_rate(MPT_TARGET_SM100, "mxfp4", "mxfp4", 2);
    expect_rate(MPT_TARGET_SM90, "fp16", "bf16", 0.5);
}

static void expect_bytes(mpt_target target, const mpt_quantizer *q, double bytes) {
    double got = mpt_target_bytes(target, q, 64, 256);
    if (got != bytes)
        fail_msg("%s on %s: %g", q->name, mpt_target_name(target), got);
}

/* 64 x 256 = 16384 elements. */
static void test_bytes_when_packed_then_codes_and_scales(void **state) {
    (void)state;
    mpt_quantizer q = q_of("bf16");
    expect_bytes(MPT_TARGET_SM90, &q, 32768);
    q = q_of("e4m3");
    expect_bytes(MPT_TARGET_SM90, &q, 16384 + 4);
    q.block_rows = 1;
    expect_bytes(MPT_TARGET_SM90, &q, 16384 + 64 * 4);
    q = q_of("fp8_block");
    expect_bytes(MPT_TARGET_SM90, &q, 16384 + 64 * 2 * 4);
    q.block_rows = 128;
    expect_bytes(MPT_TARGET_SM90, &q, 16384 + 2 * 4);
    q = q_of("mxfp6");
    expect_bytes(MPT_TARGET_SM100, &q, 16384 + 64 * 8); /* a code of 6 bits has a byte */
    q = q_of("nvfp4");
    expect_bytes(MPT_TARGET_SM100, &q, 8192 + 64 * 16);
    q.block_rows = 16; /* the product reads one scale a row */
    expect_bytes(MPT_TARGET_SM100, &q, 8192 + 64 * 16);
    expect_bytes(MPT_TARGET_SM90, &q, 8192 + 4 * 16);
}

static void test_layouts_when_a_device_reads_one_side_then_both_are_wanted(void **state) {
    (void)state;
    mpt_quantizer e4m3 = q_of("e4m3"), nvfp4 = q_of("nvfp4"), bf16 = q_of("bf16");
    assert_true(mpt_target_wants_both(MPT_TARGET_SM90, &e4m3));
    assert_false(mpt_target_wants_both(MPT_TARGET_SM100, &e4m3));
    assert_true(mpt_target_wants_both(MPT_TARGET_SM100, &nvfp4));
    assert_false(mpt_target_wants_both(MPT_TARGET_SM90, &bf16));
    assert_false(mpt_target_wants_both(MPT_TARGET_SM100, &bf16));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_native_when_formats_vary_then_as_the_tensor_cores_have_them),
    cmocka_unit_test(test_native_when_operands_do_not_go_together_then_emulated),
    cmocka_unit_test(test_native_when_blocks_vary_then_only_those_of_the_device),
    cmocka_unit_test(test_why_when_emulated_then_what_is_lacking_is_named),
    cmocka_unit_test(test_native_when_bf16_then_no_shape_is_refused),
    cmocka_unit_test(test_way_when_emulated_then_the_narrowest_format_that_holds_the_numbers),
    cmocka_unit_test(test_way_when_scales_are_powers_of_two_then_bf16_holds_them),
    cmocka_unit_test(test_way_when_a_scale_is_a_rows_then_it_stays_out_of_the_product),
    cmocka_unit_test(test_way_when_experts_or_other_sums_then_plain),
    cmocka_unit_test(test_rate_when_operands_differ_then_the_wider_ones),
    cmocka_unit_test(test_rate_when_a_gpu_emulates_then_bf16s),
    cmocka_unit_test(test_bytes_when_packed_then_codes_and_scales),
    cmocka_unit_test(test_layouts_when_a_device_reads_one_side_then_both_are_wanted),
};
MPT_TEST_MAIN(cases)
