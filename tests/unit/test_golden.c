/* Golden vectors: codes, scales, amax and decoded values of ref and cpu, bit for bit. */
#include "safetensors.h"
#include "quantize_case.h"

#include "kernels/cpu/quantize.h"
#include "kernels/cpu/simd.h"

typedef void (*quantize_fn)(const mpt_quantize_job *);
static const quantize_fn backends[] = {mpt_ref_quantize_operand, mpt_quantize_operand};

/* Calls back for each case of `inputs` that `file` has `tensor` of. */
typedef struct golden_case {
    const char *name;
    mpt_quantize_job job; /* x, rows, cols, bf16 */
} golden_case;

static golden_case case_of(const golden_file *inputs, const char *name) {
    golden_tensor x = golden_get(inputs, name, "x");
    golden_case c = {name, {.x = x.data, .rows = x.rows, .cols = x.cols}};
    c.job.bf16 = *(const uint8_t *)golden_get(inputs, name, "is_bf16").data;
    return c;
}

/* ---- nvfp4 ---- */

/* Golden scales are repeated over the rows of a block. */
static void check_scales(const golden_case *c, const case_result *r, golden_tensor want,
                         int64_t block_rows) {
    for (int64_t i = 0; i < want.rows; i++)
        if (memcmp(r->scales + i / block_rows * want.cols,
                   (const uint8_t *)want.data + i * want.cols, (size_t)want.cols))
            fail_msg("%s: scales of row %d", c->name, (int)i);
}

/* Decoded from the golden bytes by table, in the layout of x. */
static void check_decoded(const golden_case *c, const case_result *r, golden_tensor q,
                          golden_tensor s) {
    static const float value[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    for (int64_t i = 0; i < q.rows; i++)
        for (int64_t k = 0; k < 2 * q.cols; k++) {
            uint32_t code = ((const uint8_t *)q.data)[i * q.cols + k / 2] >> 4 * (k % 2) & 15u;
            uint8_t scale = ((const uint8_t *)s.data)[i * s.cols + k / 16];
            float want = value[code & 7] * mpt_decode(MPT_DTYPE_E4M3, scale);
            want = code & 8 ? -want : want;
            float got = r->decoded[c->job.column ? k * q.rows + i : i * 2 * q.cols + k];
            if (mpt_float_bits(got) != mpt_float_bits(want))
                fail_msg("%s: decoded (%d, %d) is %a, not %a", c->name, (int)i, (int)k,
                         (double)got, (double)want);
        }
}

static golden_tensor side_of(const golden_file *file, const char *name, const char *what,
                             bool column, const char *suffix) {
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s_%s%s", what, column ? "col" : "row", suffix);
    return golden_find(file, name, tensor);
}

static void check_nvfp4(golden_case *c, const golden_file *file, const mpt_quantizer *q,
                        const char *suffix) {
    golden_tensor s = side_of(file, c->name, "s", c->job.column, suffix);
    golden_tensor amax = side_of(file, c->name, "amax", c->job.column, suffix);
    golden_tensor codes = side_of(file, c->name, "q", c->job.column, "_cuda");
    if (!codes.data || *suffix)
        codes = side_of(file, c->name, "q", c->job.column, suffix);
    assert_true(s.data && amax.data && codes.data);
    c->job.q = q;
    for (size_t b = 0; b < MPT_COUNT(backends); b++) {
        case_result r = case_run(backends[b], c->job, CASE_DECODED | CASE_CODES);
        assert_memory_equal(&r.amax, amax.data, 4);
        assert_memory_equal(&r.factor, amax.data, 4);
        assert_int_equal(r.codes_bytes, codes.bytes);
        if (memcmp(r.codes, codes.data, codes.bytes))
            fail_msg("%s: codes of backend %d", c->name, (int)b);
        check_scales(c, &r, s, q->block_rows);
        check_decoded(c, &r, codes, s);
        case_free(&r);
        r = case_run(backends[b], c->job, CASE_DECODED); /* the fast path */
        assert_memory_equal(&r.factor, amax.data, 4);
        check_decoded(c, &r, codes, s);
        case_free(&r);
    }
}

/* Every case of a file, both sides where `columns` says so; gives how many. */
static int check_nvfp4_file(const char *name, const mpt_quantizer *row,
                            const mpt_quantizer *column) {
    golden_file inputs = golden_open("inputs"), file = golden_open(name);
    const char *key;
    json_t *entry;
    int n = 0;
    json_object_foreach(inputs.header, key, entry) {
        char *slash = strstr(key, "/x"), input[128];
        if (!slash)
            continue;
        snprintf(input, sizeof input, "%.*s", (int)(slash - key), key);
        golden_case c = case_of(&inputs, input);
        if (!golden_find(&file, input, "q_row").data)
            continue;
        check_nvfp4(&c, &file, row, "");
        c.job.column = true;
        check_nvfp4(&c, &file, column, "");
        mpt_quantizer plain = *column;
        plain.hadamard.signs = MPT_SIGNS_NONE;
        if (golden_find(&file, input, "q_col_nosign").data &&
            golden_find(&file, input, "s_col_nosign").data)
            check_nvfp4(&c, &file, &plain, "_nosign");
        n++;
    }
    golden_close(&inputs);
    golden_close(&file);
    return n;
}

static void test_nvfp4_when_1x16_blocks_then_golden(void **state) {
    (void)state;
    mpt_quantizer q = case_nvfp4(1);
    assert_int_equal(check_nvfp4_file("nvfp4_1d", &q, &q), 30);
}

static void test_nvfp4_when_16x16_blocks_then_golden(void **state) {
    (void)state;
    mpt_quantizer q = case_nvfp4(16);
    assert_int_equal(check_nvfp4_file("nvfp4_2d", &q, &q), 30);
}

static void test_nvfp4_when_columns_are_rotated_then_golden(void **state) {
    (void)state;
    mpt_quantizer row = case_nvfp4(1), column = case_rotated(row, 16, MPT_SIGNS_FIXED);
    assert_int_equal(check_nvfp4_file("nvfp4_rht", &row, &column), 11);
}

/* ---- fp8 ---- */

static void check_fp8(const golden_case *c, mpt_dtype format, golden_tensor want,
                      const uint8_t *codes, const float *decoded) {
    const uint8_t *w = want.data;
    for (size_t i = 0; i < want.bytes; i++) {
        if (codes && codes[i] != w[i])
            fail_msg("%s: code %d is 0x%x, not 0x%x", c->name, (int)i, codes[i], w[i]);
        if (mpt_float_bits(decoded[i]) != mpt_float_bits(mpt_decode(format, w[i])))
            fail_msg("%s: value %d is %a", c->name, (int)i, (double)decoded[i]);
    }
}

static void check_current(const char *name, mpt_dtype format) {
    golden_file inputs = golden_open("inputs"), file = golden_open(name);
    mpt_quantizer q = case_fp8(format);
    const char *key;
    json_t *entry;
    int n = 0;
    json_object_foreach(file.header, key, entry) {
        char *slash = strstr(key, "/q"), input[128];
        if (!slash)
            continue;
        snprintf(input, sizeof input, "%.*s", (int)(slash - key), key);
        golden_case c = case_of(&inputs, input);
        c.job.q = &q;
        golden_tensor want = golden_get(&file, input, "q");
        for (size_t b = 0; b < MPT_COUNT(backends); b++)
            for (int what = CASE_DECODED; what <= (CASE_DECODED | CASE_CODES); what += 2) {
                case_result r = case_run(backends[b], c.job, what);
                assert_memory_equal(&r.amax, golden_get(&file, input, "amax").data, 4);
                assert_memory_equal(&r.factor, golden_get(&file, input, "scale_inv").data, 4);
                check_fp8(&c, format, want, what & CASE_CODES ? r.codes : NULL, r.decoded);
                case_free(&r);
            }
        n++;
    }
    assert_int_equal(n, 30);
    golden_close(&inputs);
    golden_close(&file);
}

static void test_fp8_when_scaling_is_current_then_golden(void **state) {
    (void)state;
    check_current("fp8_current_e4m3", MPT_DTYPE_E4M3);
    check_current("fp8_current_e5m2", MPT_DTYPE_E5M2);
}

/* Casts with a scale from elsewhere: products overflow and must saturate, not turn into NaN. */
static void check_cast(const char *name, mpt_dtype format) {
    golden_file inputs = golden_open("inputs"), file = golden_open(name);
    const char *key;
    json_t *entry;
    int n = 0;
    json_object_foreach(file.header, key, entry) {
        char *slash = strstr(key, "/q"), scaled[128], input[128];
        if (!slash)
            continue;
        snprintf(scaled, sizeof scaled, "%.*s", (int)(slash - key), key);
        snprintf(input, sizeof input, "%.*s", (int)(strchr(key, '@') - key), key);
        golden_case c = case_of(&inputs, input);
        golden_tensor want = golden_get(&file, scaled, "q");
        float scale, *decoded = case_buffer(want.bytes * 4);
        memcpy(&scale, golden_get(&file, scaled, "scale").data, 4);
        for (size_t i = 0; i < want.bytes; i++)
            decoded[i] = mpt_round(format, c.job.x[i] * scale);
        check_fp8(&c, format, want, NULL, decoded);
#ifdef MPT_HAS_X86
        if (mpt_cpu_has_avx2())
            mpt_avx2_scaled(format, c.job.x, decoded, want.bytes, scale);
#endif
        check_fp8(&c, format, want, NULL, decoded);
        free(decoded);
        n++;
    }
    assert_int_equal(n, 28);
    golden_close(&inputs);
    golden_close(&file);
}

static void test_fp8_when_scale_is_given_then_golden(void **state) {
    (void)state;
    check_cast("fp8_delayed_cast_e4m3", MPT_DTYPE_E4M3);
    check_cast("fp8_delayed_cast_e5m2", MPT_DTYPE_E5M2);
}

/* ---- stochastic rounding ---- */

static void test_stochastic_when_bytes_are_given_then_golden(void **state) {
    (void)state;
    golden_file file = golden_open("nvfp4_sr");
    static const char *const names[] = {"elements", "sweep"};
    for (int c = 0; c < 2; c++) {
        golden_tensor x = golden_get(&file, names[c], "x");
        const uint8_t *byte = golden_get(&file, names[c], "rbits8").data;
        const uint8_t *code = golden_get(&file, names[c], "code").data;
        for (int64_t i = 0; i < x.rows; i++)
            assert_int_equal(mpt_encode_stochastic(MPT_DTYPE_E2M1, ((const float *)x.data)[i],
                                                   (uint32_t)byte[i] << 8 | 0xFF),
                             code[i]);
    }
    golden_close(&file);
}

/* The vectors count in (seed, subsequence, offset); our group is the offset, operand and step
 * are the subsequence. */
static void test_philox_when_keyed_then_golden(void **state) {
    (void)state;
    golden_file file = golden_open("nvfp4_sr");
    for (int c = 0; c < 5; c++) {
        char name[16];
        snprintf(name, sizeof name, "philox%d", c);
        golden_tensor out = golden_get(&file, name, "out");
        const uint32_t *w = golden_get(&file, name, "seed_sub_off").data;
        mpt_random_key key = {w[0] | (uint64_t)w[1] << 32, w[2], w[3],
                              w[4] | (uint64_t)w[5] << 32};
        for (int64_t i = 0; i < out.rows; i++) {
            uint8_t bytes[16];
            mpt_random_bytes(&key, (uint64_t)i, 0, bytes);
            assert_memory_equal(bytes, (const char *)out.data + 16 * i, 16);
        }
    }
    golden_close(&file);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_nvfp4_when_1x16_blocks_then_golden),
    cmocka_unit_test(test_nvfp4_when_16x16_blocks_then_golden),
    cmocka_unit_test(test_nvfp4_when_columns_are_rotated_then_golden),
    cmocka_unit_test(test_fp8_when_scaling_is_current_then_golden),
    cmocka_unit_test(test_fp8_when_scale_is_given_then_golden),
    cmocka_unit_test(test_stochastic_when_bytes_are_given_then_golden),
    cmocka_unit_test(test_philox_when_keyed_then_golden),
};

MPT_TEST_MAIN(cases)
