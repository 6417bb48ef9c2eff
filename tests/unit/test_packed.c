/* The layout of quantized copies in a device's memory: sizes, places of scales, and the way
 * back to floats, against arithmetic of its own. */
#include "kernels/packed.h"

#include <stdlib.h>

#include "kernels/quantize.h"
#include "quantize_case.h"

static mpt_quantizer blocks_of(mpt_dtype format, int32_t rows, int32_t cols,
                               mpt_scale_format scales) {
    mpt_quantizer q = case_fp8(format);
    q.block_rows = rows;
    q.block_cols = cols;
    q.scale_format = scales;
    return q;
}

static void test_codes_when_rows_are_odd_then_whole_bytes(void **state) {
    (void)state;
    static const struct {
        mpt_dtype format;
        int64_t k, bytes;
    } rows[] = {{MPT_DTYPE_E2M1, 7, 4},  {MPT_DTYPE_E2M1, 8, 4},  {MPT_DTYPE_E3M2, 7, 7},
                {MPT_DTYPE_E4M3, 7, 7},  {MPT_DTYPE_E5M6, 7, 14}, {MPT_DTYPE_INT8, 7, 7},
                {MPT_DTYPE_BF16, 7, 14}, {MPT_DTYPE_FP32, 7, 28}, {MPT_DTYPE_TF32, 7, 28}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++) {
        mpt_quantizer q = case_fp8(rows[i].format);
        mpt_packed p = mpt_packed_of(&q, false, 5, rows[i].k, false);
        assert_int_equal(p.code_row, rows[i].bytes);
        assert_int_equal(p.bytes, 5 * rows[i].bytes);
        assert_int_equal(p.scales, 0);
        assert_int_equal(p.turned, 0);
    }
}

static void test_column_copy_when_rotated_then_its_rows_are_padded(void **state) {
    (void)state;
    mpt_quantizer q = case_rotated(case_nvfp4(1), 16, MPT_SIGNS_FIXED);
    mpt_packed p = mpt_packed_of(&q, true, 40, 24, false);
    assert_int_equal(p.rows, 24);
    assert_int_equal(p.k, 48);
    assert_int_equal(p.blocks_k, 3);
    assert_int_equal(p.code_row, 24);
    assert_int_equal(p.scales, 768); /* 24 * 24 bytes, up to 256 */
    assert_int_equal(p.bytes, 768 + 512);
}

/* cuBLASLt 13, "128x4 layout": tiles of 128 rows by 4 columns, 16 bytes a row of 32. */
static size_t place_in_tiles(int64_t r, int64_t b, int64_t blocks_k) {
    size_t tiles_a_row = (size_t)(blocks_k + 3) / 4;
    size_t tile = (size_t)(r / 128) * tiles_a_row + (size_t)(b / 4);
    return tile * 512 + (size_t)(r % 32) * 16 + (size_t)(r / 32 % 4) * 4 + (size_t)(b % 4);
}

static void test_byte_scales_when_placed_then_in_tiles(void **state) {
    (void)state;
    static const int32_t block_rows[] = {1, 16};
    for (int i = 0; i < 2; i++) {
        mpt_quantizer q = case_nvfp4(block_rows[i]);
        mpt_packed p = mpt_packed_of(&q, false, 130, 88, false);
        assert_int_equal(p.blocks_k, 6);
        assert_int_equal(p.bytes - p.scales, 2 * 2 * 512);
        assert_int_equal(p.scales % 256, 0);
        for (int64_t r = 0; r < 130; r++)
            for (int64_t b = 0; b < 6; b++)
                assert_int_equal(mpt_packed_scale(&p, r, b), place_in_tiles(r, b, 6));
    }
    mpt_quantizer rows = blocks_of(MPT_DTYPE_E4M3, 1, 0, MPT_SCALE_E8M0);
    mpt_packed p = mpt_packed_of(&rows, false, 130, 88, false);
    assert_int_equal(p.blocks_k, 1);
    assert_int_equal(mpt_packed_scale(&p, 129, 0), 512 + 16);
}

/* 1 x 128: [blocks along k][rows padded to 4]; 128 x 128: [rows of blocks][blocks padded]. */
static void test_fp32_scales_when_placed_then_as_products_read_them(void **state) {
    (void)state;
    mpt_quantizer line = blocks_of(MPT_DTYPE_E4M3, 1, 128, MPT_SCALE_FP32);
    mpt_quantizer square = blocks_of(MPT_DTYPE_E4M3, 128, 128, MPT_SCALE_POW2);
    mpt_packed p = mpt_packed_of(&line, false, 130, 300, false);
    assert_int_equal(p.bytes - p.scales, 3 * 132 * 4);
    assert_int_equal(mpt_packed_scale(&p, 129, 2), 2 * 132 + 129);
    p = mpt_packed_of(&square, false, 130, 700, false);
    assert_int_equal(p.bytes - p.scales, 2 * 8 * 4);
    assert_int_equal(mpt_packed_scale(&p, 127, 5), 5);
    assert_int_equal(mpt_packed_scale(&p, 128, 5), 8 + 5);
    mpt_quantizer rows = blocks_of(MPT_DTYPE_E4M3, 1, 0, MPT_SCALE_FP32);
    p = mpt_packed_of(&rows, true, 130, 7, false);
    assert_int_equal(p.bytes - p.scales, 8 * 4);
    assert_int_equal(mpt_packed_scale(&p, 6, 0), 6);
}

static void test_turned_codes_when_one_scale_then_behind_the_others(void **state) {
    (void)state;
    mpt_quantizer q = case_fp8(MPT_DTYPE_E4M3), blocks = case_nvfp4(1);
    mpt_packed p = mpt_packed_of(&q, false, 9, 33, true);
    assert_int_equal(p.turned, 512); /* 9 * 33 bytes, up to 256 */
    assert_int_equal(p.bytes, 512 + 33 * 9);
    q.format = MPT_DTYPE_E2M1;
    p = mpt_packed_of(&q, false, 9, 33, true);
    assert_int_equal(p.bytes, 256 + 33 * 5);
    p = mpt_packed_of(&blocks, false, 9, 33, true);
    assert_int_equal(p.turned, 0);
}

/* Every format's codes, every sort of scale: a copy made by hand from a job's outputs is
 * decoded to what the job has decoded. */
static void check_unpack(const mpt_quantizer *q, bool column) {
    enum { ROWS = 35, COLS = 70 };
    float x[ROWS * COLS], got[128 * 128];
    case_fill(x, ROWS * COLS, 0, 7);
    mpt_quantize_job job = {.q = q, .x = x, .rows = ROWS, .cols = COLS, .column = column};
    case_result r = case_run(mpt_ref_quantize_operand, job, CASE_DECODED | CASE_CODES);
    mpt_packed p = mpt_packed_of(q, column, ROWS, COLS, true);
    uint8_t *bytes = calloc(p.bytes, 1);
    assert_non_null(bytes);
    memcpy(bytes, r.codes, r.codes_bytes);
    size_t size = q->scale_format <= MPT_SCALE_POW2 ? 4 : 1;
    for (int64_t i = 0; p.scales && i < p.rows; i++)
        for (int64_t b = 0; b < p.blocks_k; b++) {
            int64_t at = i / (q->block_rows ? q->block_rows : p.rows) * p.blocks_k + b;
            memcpy(bytes + p.scales + (size_t)mpt_packed_scale(&p, i, b) * size,
                   r.scales + (size_t)at * size, size);
        }
    mpt_unpack(MPT_STORAGE_PACKED, &p, bytes, p.rows * p.k, got);
    assert_memory_equal(got, r.decoded, r.decoded_bytes);
    free(bytes);
    case_free(&r);
}

static void test_unpack_when_any_format_then_decoded_values(void **state) {
    (void)state;
    for (int column = 0; column < 2; column++) {
        for (mpt_dtype f = MPT_DTYPE_E4M3; f <= MPT_DTYPE_INT8; f++) {
            mpt_quantizer one = case_fp8(f), mx = blocks_of(f, 1, 32, MPT_SCALE_E8M0);
            mx.scale_rule.kind = MPT_RULE_UP;
            mpt_quantizer fine = blocks_of(f, 1, 16, MPT_SCALE_FP32);
            mpt_quantizer square = blocks_of(f, 32, 32, MPT_SCALE_FP32);
            check_unpack(&one, column);
            check_unpack(&mx, column);
            check_unpack(&fine, column);
            check_unpack(&square, column);
        }
        for (mpt_dtype f = MPT_DTYPE_FP32; f <= MPT_DTYPE_FP16; f++) {
            mpt_quantizer wide = case_cast(f);
            check_unpack(&wide, column);
        }
        mpt_quantizer nvfp4 = case_rotated(case_nvfp4(1), 32, MPT_SIGNS_FIXED);
        mpt_quantizer square = case_nvfp4(16);
        check_unpack(&nvfp4, column);
        check_unpack(&square, column);
    }
}

static void test_pack_when_two_bytes_a_value_then_rounded_and_back(void **state) {
    (void)state;
    float x[64], y[64], want[64];
    uint16_t codes[64];
    case_fill(x, 64, 1, 3);
    static const mpt_dtype formats[] = {MPT_DTYPE_BF16, MPT_DTYPE_FP16};
    static const mpt_storage storages[] = {MPT_STORAGE_BF16, MPT_STORAGE_FP16};
    for (int i = 0; i < 2; i++) {
        mpt_pack(storages[i], x, 64, codes);
        mpt_unpack(storages[i], NULL, codes, 64, y);
        mpt_ref_round_copy(formats[i], x, want, 64);
        assert_memory_equal(y, want, sizeof y);
    }
    mpt_pack(MPT_STORAGE_HOST, x, 64, want);
    assert_memory_equal(want, x, sizeof x);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_codes_when_rows_are_odd_then_whole_bytes),
    cmocka_unit_test(test_column_copy_when_rotated_then_its_rows_are_padded),
    cmocka_unit_test(test_byte_scales_when_placed_then_in_tiles),
    cmocka_unit_test(test_fp32_scales_when_placed_then_as_products_read_them),
    cmocka_unit_test(test_turned_codes_when_one_scale_then_behind_the_others),
    cmocka_unit_test(test_unpack_when_any_format_then_decoded_values),
    cmocka_unit_test(test_pack_when_two_bytes_a_value_then_rounded_and_back),
};

MPT_TEST_MAIN(cases)
