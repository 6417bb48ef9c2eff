/* Casts on a device, bit for bit: what vectors, tails and unaligned beginnings give is what
 * mpt_round gives of each number by itself. */
#include "mpt_test.h"

#include "kernels/cuda/cuda.h"
#include "kernels/packed.h"
#include "planted.h"

enum { ALL = 65536, OFFSETS = 16, FLOATS = 3 * ALL };

/* Formats that a cast node makes; the two-byte ones in their storage and as floats. */
typedef struct target {
    mpt_dtype dtype;
    mpt_storage storage;
} target;

static const target targets[] = {
    {MPT_DTYPE_FP32, MPT_STORAGE_HOST}, {MPT_DTYPE_TF32, MPT_STORAGE_HOST},
    {MPT_DTYPE_BF16, MPT_STORAGE_HOST}, {MPT_DTYPE_FP16, MPT_STORAGE_HOST},
    {MPT_DTYPE_BF16, MPT_STORAGE_BF16}, {MPT_DTYPE_FP16, MPT_STORAGE_FP16},
    {MPT_DTYPE_E4M3, MPT_STORAGE_HOST}, {MPT_DTYPE_E5M2, MPT_STORAGE_HOST},
    {MPT_DTYPE_E5M6, MPT_STORAGE_HOST}, {MPT_DTYPE_E3M2, MPT_STORAGE_HOST},
    {MPT_DTYPE_E2M3, MPT_STORAGE_HOST}, {MPT_DTYPE_E2M1, MPT_STORAGE_HOST},
    {MPT_DTYPE_INT8, MPT_STORAGE_HOST},
};

/* Room for the longest tensor at any offset, aligned for vectors. */
static _Alignas(16) unsigned char from[(FLOATS + OFFSETS) * 4], to[(FLOATS + OFFSETS) * 4];

static mpt_tensor at(unsigned char *memory, target t, int64_t offset, int64_t n) {
    return (mpt_tensor){.data = memory + (size_t)offset * mpt_storage_bytes(t.storage),
                        .dtype = t.dtype,
                        .rank = 1,
                        .dims = {n},
                        .storage = t.storage};
}

static uint32_t bits_at(const mpt_tensor *t, int64_t i) {
    if (t->storage != MPT_STORAGE_HOST)
        return ((const uint16_t *)t->data)[i];
    return mpt_float_bits(((const float *)t->data)[i]);
}

static uint32_t expected_bits(target t, float x) {
    if (t.storage != MPT_STORAGE_HOST)
        return mpt_encode(t.dtype, x);
    return mpt_float_bits(t.dtype == MPT_DTYPE_FP32 ? x : mpt_round(t.dtype, x));
}

static void cuda_cast(const mpt_tensor *x, const mpt_tensor *y) {
    mpt_node node = {.op = MPT_OP_cast, .n_in = 1, .n_out = 1};
    mpt_run_env env = {0};
    mpt_gpu gpu = {.env = &env};
    mpt_kernel_args args = {.node = &node, .in = x, .out = y, .env = &env, .gpu = &gpu};
    mpt_cuda_cast(&args);
}

static void check(const mpt_tensor *x, target out, int64_t offset, int64_t n,
                  void (*cast)(const mpt_tensor *, const mpt_tensor *)) {
    mpt_tensor y = at(to, out, offset, n);
    memset(to, 0xA5, sizeof to);
    cast(x, &y);
    for (int64_t i = 0; i < n; i++) {
        float v;
        size_t bytes = mpt_storage_bytes(x->storage);
        mpt_unpack(x->storage, NULL, (const char *)x->data + (size_t)i * bytes, 1, &v);
        uint32_t expected = expected_bits(out, v), got = bits_at(&y, i);
        if (got != expected)
            fail_msg("to format %d at offset %d, length %d: input %08x, lane %d gives %08x, "
                     "not %08x",
                     (int)out.dtype, (int)offset, (int)n, mpt_float_bits(v), (int)(i % 32), got,
                     expected);
    }
    for (int64_t i = n; i < n + 8; i++) /* nothing is written behind the end */
        assert_int_equal(bits_at(&y, i) & 0xFFFFu, 0xA5A5u);
}

static mpt_tensor all_bf16(int64_t offset, int64_t n) {
    mpt_tensor x = at(from, (target){MPT_DTYPE_BF16, MPT_STORAGE_BF16}, offset, n);
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)x.data)[i] = (uint16_t)i;
    return x;
}

/* Every format at one offset, and the formats of vectors at all. */
static void test_P68_when_all_bf16_at_every_offset_then_no_byte_differs(void **state) {
    (void)state;
    for (size_t t = 0; t < MPT_COUNT(targets); t++) {
        bool stored = targets[t].storage != MPT_STORAGE_HOST;
        for (int64_t offset = 0; offset < OFFSETS; offset++) {
            if (!stored && offset != (int64_t)t % OFFSETS && targets[t].dtype != MPT_DTYPE_FP32)
                continue;
            mpt_tensor x = all_bf16(offset, ALL);
            check(&x, targets[t], offset, ALL, cuda_cast);
        }
    }
}

/* One element after the other, but for NaN that is copied as it is. */
static void test_P68_when_all_bf16_by_put_then_no_byte_differs(void **state) {
    (void)state;
    for (int64_t offset = 0; offset < OFFSETS; offset++) {
        mpt_tensor x = all_bf16(offset, ALL);
        check(&x, targets[4], offset, ALL, planted_copy);
        check(&x, targets[5], OFFSETS - 1 - offset, ALL, planted_copy);
    }
}

static void test_P68_when_lengths_1_to_33_at_every_offset_then_no_byte_differs(void **state) {
    (void)state;
    for (size_t t = 0; t < MPT_COUNT(targets); t++)
        for (int64_t n = 1; n <= 33; n++)
            for (int64_t offset = 0; offset < OFFSETS; offset++) {
                mpt_tensor x = at(from, targets[4], offset, n);
                for (int64_t i = 0; i < n; i++) /* subnormals, where lanes once went wrong */
                    ((uint16_t *)x.data)[i] = (uint16_t)(i * 37 % 128 + (i % 3) * 0x4000);
                check(&x, targets[t], (offset * 5 + n) % OFFSETS, n, cuda_cast);
            }
}

/* Between each two neighbours of BF16: just below the middle, at it, and above. */
static void test_P68_when_fp32_is_at_boundaries_then_no_byte_differs(void **state) {
    (void)state;
    mpt_tensor x = at(from, targets[0], 0, FLOATS);
    for (int64_t i = 0; i < FLOATS; i++) {
        uint32_t bits = (uint32_t)(i / 3) << 16 | (0x7FFFu + (uint32_t)(i % 3));
        ((float *)x.data)[i] = mpt_bits_float(bits);
    }
    for (size_t t = 0; t < MPT_COUNT(targets); t++)
        check(&x, targets[t], 0, FLOATS, cuda_cast);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_P68_when_all_bf16_at_every_offset_then_no_byte_differs),
    cmocka_unit_test(test_P68_when_all_bf16_by_put_then_no_byte_differs),
    cmocka_unit_test(test_P68_when_lengths_1_to_33_at_every_offset_then_no_byte_differs),
    cmocka_unit_test(test_P68_when_fp32_is_at_boundaries_then_no_byte_differs),
};

MPT_TEST_MAIN(cases)
