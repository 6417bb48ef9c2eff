/* Linear nodes on the tensor cores' side: every kind of operand, as the host quantizes it and
 * packs it, through decode, repack, the library's stand-in and what follows it, against ref. */
#include "packed_case.h"

#include <math.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/lt.h"

typedef struct side_case {
    const char *name; /* of the quantizer; NULL: not quantized */
    int block_rows;   /* other than the name's, or -1 */
    mpt_dtype format; /* other than the name's, or FP32 */
    mpt_storage plain;
    bool across; /* the copy of the other side is read across */
} side_case;

#define Q(name)                                                                                \
    { name, -1, MPT_DTYPE_FP32, MPT_STORAGE_HOST, false }
#define ROWS(name, n)                                                                          \
    { name, n, MPT_DTYPE_FP32, MPT_STORAGE_HOST, false }
#define ACROSS(name, n)                                                                        \
    { name, n, MPT_DTYPE_FP32, MPT_STORAGE_HOST, true }
#define OF(name, id)                                                                           \
    { name, -1, MPT_DTYPE_##id, MPT_STORAGE_HOST, false }
#define PLAIN(storage)                                                                         \
    { NULL, -1, MPT_DTYPE_FP32, MPT_STORAGE_##storage, false }

typedef struct linear_case {
    mpt_op op;
    mpt_target target;
    side_case side[2];
    mpt_way way; /* expected */
    int64_t rows, cols, k;
    mpt_storage out;
    bool bias, turned;
} linear_case;

typedef struct built {
    mpt_tensor device[MPT_MAX_IN], host[MPT_MAX_IN], y, expected;
    packed_copy copy[2];
    float *x[2];
    void *values[2];
    float bias[512];
} built;

/* Whether operand i's dot products run along the rows of its matrix. */
static bool by_rows(mpt_op op, int i) {
    return op == MPT_OP_linear_wgrad || (op == MPT_OP_linear_dgrad && i == 1);
}

/* Magnitudes differ by block and by row, so that no two scales are mixed up unseen. */
static float *random_matrix(int64_t rows, int64_t cols, uint64_t seed) {
    float *x = op_calloc((size_t)(rows * cols), sizeof *x);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = (float)((op_random(&seed) - 0.5) *
                       exp2((double)(i / cols % 3 + i % cols / 16 % 4 + i / cols / 16 % 3)));
    return x;
}

static mpt_tensor plain_tensor(const side_case *s, built *b, int i, int64_t rows,
                               int64_t cols) {
    size_t n = (size_t)(rows * cols);
    mpt_dtype dtype = s->plain == MPT_STORAGE_BF16   ? MPT_DTYPE_BF16
                      : s->plain == MPT_STORAGE_FP16 ? MPT_DTYPE_FP16
                                                     : MPT_DTYPE_FP32;
    mpt_ref_round_to(dtype, b->x[i], n);
    b->values[i] = op_calloc(n, sizeof(float));
    mpt_pack(s->plain, b->x[i], (int64_t)n, b->values[i]);
    return (mpt_tensor){.data = b->values[i],
                        .dtype = dtype,
                        .rank = 2,
                        .dims = {rows, cols},
                        .storage = s->plain};
}

static void build_side(const linear_case *c, built *b, int i) {
    const side_case *s = &c->side[i];
    bool along_rows = by_rows(c->op, i);
    int64_t outer = i == 0 ? c->rows : c->cols;
    int64_t rows = along_rows ? c->k : outer, cols = along_rows ? outer : c->k;
    b->x[i] = random_matrix(rows, cols, 77 + (uint64_t)i);
    if (!s->name) {
        b->device[i] = b->host[i] = plain_tensor(s, b, i, rows, cols);
        b->host[i].data = b->x[i];
        b->host[i].storage = MPT_STORAGE_HOST;
        return;
    }
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(s->name, &q));
    q.block_rows = s->block_rows >= 0 ? s->block_rows : q.block_rows;
    q.format = s->format != MPT_DTYPE_FP32 ? s->format : q.format;
    b->copy[i] = packed_make(&q, along_rows != s->across, b->x[i], rows, cols, c->turned);
    b->device[i] = packed_tensor(&b->copy[i], true);
    b->host[i] = packed_tensor(&b->copy[i], false);
    b->device[3 + i] = b->host[3 + i] = packed_factor(&b->copy[i]);
}

static void build(const linear_case *c, built *b) {
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 2; i++)
        build_side(c, b, i);
    size_t n = (size_t)(c->rows * c->cols);
    b->y = (mpt_tensor){.data = op_calloc(n, sizeof(float)),
                        .dtype = c->out == MPT_STORAGE_BF16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP32,
                        .rank = 2,
                        .dims = {c->rows, c->cols},
                        .storage = c->out};
    b->expected = b->y;
    b->expected.storage = MPT_STORAGE_HOST;
    b->expected.data = op_calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        ((float *)b->expected.data)[i] = 0.25f; /* exact in BF16: what wgrad adds to */
    mpt_pack(c->out, b->expected.data, (int64_t)n, b->y.data);
    for (int64_t i = 0; c->bias && i < c->cols; i++)
        b->bias[i] = (float)(i % 13) - 6.0f;
    if (c->bias)
        b->device[2] = b->host[2] = (mpt_tensor){
            .data = b->bias, .dtype = MPT_DTYPE_FP32, .rank = 1, .dims = {c->cols}};
}

static void release(built *b) {
    for (int i = 0; i < 2; i++) {
        packed_free(&b->copy[i]);
        free(b->x[i]);
        free(b->values[i]);
    }
    free(b->y.data);
    free(b->expected.data);
}

static const mpt_kernel *row_named(const mpt_kernel *table, const char *name) {
    for (; table->run; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* Runs the tensor cores' kernel in exactly the scratch that its plan asks for. */
static void run_device(const linear_case *c, built *b, const mpt_node *node) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_gpu gpu = {.target = c->target, .n_multiprocessors = 2};
    mpt_run_env env = {.n_threads = 1};
    linear_view v = {.op = c->op, .target = c->target, .attrs = &node->attrs, .out = b->y};
    linear_plan plan;
    char why[MPT_TARGET_WHY];
    memcpy(v.in, b->device, sizeof v.in);
    if (!mpt_linear_plan(&v, &plan, why))
        fail_msg("%s with %s: %s", c->side[0].name, c->side[1].name, why);
    if (plan.way != c->way)
        fail_msg("%s with %s: %s, not %s", c->side[0].name, c->side[1].name,
                 mpt_way_name(plan.way), mpt_way_name(c->way));
    unsigned char *scratch = op_calloc(plan.bytes + 64, 1);
    memset(scratch, 0xff, plan.bytes + 64);
    assert_mpt_ok(ctx, mpt_lt_create(ctx, &gpu.lt));
    mpt_kernel_args args = {node, b->device, &b->y, scratch, &env, &gpu};
    mpt_cuda_linear(&args);
    if (mpt_lt_fault(gpu.lt))
        fail_msg("%s", mpt_lt_fault(gpu.lt));
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[plan.bytes + (size_t)i], 0xff);
    free(scratch);
    mpt_lt_destroy(gpu.lt);
    mpt_ctx_destroy(ctx);
}

/* FP32 sums in another order than ref's; BF16 outputs are rounded once more. */
static void compare_outputs(const linear_case *c, const built *b) {
    int64_t n = c->rows * c->cols;
    const float *expected = b->expected.data;
    float *got = op_calloc((size_t)n, sizeof *got), most = 0;
    mpt_unpack(c->out, NULL, b->y.data, n, got);
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(expected[i]));
    assert_true(most > 0);
    for (int64_t i = 0; i < n; i++) {
        float bound = 2e-6f * most;
        bound += c->out == MPT_STORAGE_BF16 ? fabsf(expected[i]) * 0x1p-8f : 0;
        if (!(fabsf(got[i] - expected[i]) <= bound))
            fail_msg("%s of %s with %s on %s: element %d is %.9g, not %.9g",
                     mpt_op_get(c->op)->name, c->side[0].name, c->side[1].name,
                     mpt_target_name(c->target), (int)i, (double)got[i], (double)expected[i]);
    }
    free(got);
}

static void check(const linear_case *c) {
    static built b;
    mpt_run_env env = {.n_threads = 1};
    build(c, &b);
    mpt_node node = mpt_node_make(c->op, MPT_PASS_FORWARD, -1);
    node.n_in = 5;
    node.n_out = 1;
    node.attrs.alpha = 1;
    for (int i = 0; i < 2; i++)
        if (c->side[i].name)
            node.attrs.alpha *= mpt_quantizer_constant(&b.copy[i].packed.q);
    mpt_kernel_args args = {&node, b.host, &b.expected, NULL, &env, NULL};
    const mpt_kernel *ref = op_kernel(mpt_kernels_ref, c->op);
    ref->run(&args);
    run_device(c, &b, &node);
    compare_outputs(c, &b);
    release(&b);
}

/* An output, without more, with a bias, or of copies that are kept turned as well. */
#define TO(out, op, target, a, b, way, rows, cols, k)                                          \
    { op, target, {a, b}, MPT_WAY_##way, rows, cols, k, out, false, false }
#define BIASED(out, op, target, a, b, way, rows, cols, k)                                      \
    { op, target, {a, b}, MPT_WAY_##way, rows, cols, k, out, true, false }
#define TURNED(out, op, target, a, b, way, rows, cols, k)                                      \
    { op, target, {a, b}, MPT_WAY_##way, rows, cols, k, out, false, true }
#define FPROP MPT_OP_linear
#define DGRAD MPT_OP_linear_dgrad
#define WGRAD MPT_OP_linear_wgrad
#define SM80  MPT_TARGET_SM80
#define SM90  MPT_TARGET_SM90
#define SM100 MPT_TARGET_SM100
#define HOST  MPT_STORAGE_HOST
#define HALF  MPT_STORAGE_BF16

static void check_all(const linear_case *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        check(&rows[i]);
}

static void test_product_when_codes_are_native_then_refs(void **state) {
    (void)state;
    static const linear_case rows[] = {
        TO(HOST, FPROP, SM90, Q("e4m3"), Q("e4m3"), NATIVE, 20, 24, 48),
        TO(HALF, FPROP, SM90, Q("e4m3"), Q("e4m3"), NATIVE, 20, 24, 48),
        BIASED(HALF, FPROP, SM90, Q("e4m3"), Q("e4m3"), NATIVE, 20, 24, 48),
        TO(HALF, DGRAD, SM90, Q("e5m2"), Q("e4m3"), NATIVE, 20, 24, 48),
        TO(HOST, WGRAD, SM90, Q("e5m2"), Q("e4m3"), NATIVE, 20, 24, 48),
        TO(HALF, WGRAD, SM90, Q("e5m2"), Q("e4m3"), NATIVE, 20, 24, 48),
        TO(HALF, FPROP, SM90, ROWS("e4m3", 1), ROWS("e4m3", 1), NATIVE, 20, 24, 48),
        TO(HALF, FPROP, SM90, Q("fp8_block"), Q("fp8_block"), NATIVE, 24, 136, 256),
        TO(HOST, WGRAD, SM90, Q("fp8_block"), ROWS("fp8_block", 128), NATIVE, 24, 136, 256),
        TO(HOST, FPROP, SM90, ROWS("fp8_block", 128), Q("fp8_block"), NATIVE, 136, 24, 256),
        TO(HALF, FPROP, SM100, Q("mxfp8"), Q("mxfp8"), NATIVE, 20, 136, 160),
        TO(HOST, FPROP, SM100, Q("mxfp8"), ROWS("mxfp8", 32), NATIVE, 20, 136, 160),
        TO(HALF, FPROP, SM100, Q("nvfp4"), ROWS("nvfp4", 16), NATIVE, 20, 136, 96),
        TO(HOST, WGRAD, SM100, Q("nvfp4"), Q("nvfp4"), NATIVE, 136, 24, 96),
    };
    check_all(rows, MPT_COUNT(rows));
}

static void test_product_when_values_are_wide_then_no_layout_matters(void **state) {
    (void)state;
    static const linear_case rows[] = {
        TO(HALF, FPROP, SM80, PLAIN(BF16), PLAIN(BF16), NATIVE, 5, 7, 9),
        BIASED(HOST, FPROP, SM90, PLAIN(BF16), PLAIN(BF16), NATIVE, 5, 7, 9),
        TO(HALF, DGRAD, SM90, PLAIN(BF16), PLAIN(BF16), NATIVE, 5, 7, 9),
        TO(HALF, WGRAD, SM90, PLAIN(BF16), PLAIN(BF16), NATIVE, 5, 7, 9),
        TO(HALF, WGRAD, SM90, PLAIN(FP16), PLAIN(FP16), NATIVE, 5, 7, 9),
        TO(HOST, WGRAD, SM90, PLAIN(HOST), PLAIN(HOST), NATIVE, 5, 7, 9),
        TO(HALF, DGRAD, SM90, PLAIN(HOST), PLAIN(HOST), NATIVE, 5, 7, 9),
        TO(HALF, DGRAD, SM90, PLAIN(FP16), PLAIN(BF16), TF32, 5, 7, 9),
        TO(HOST, WGRAD, SM90, PLAIN(HOST), PLAIN(BF16), FP32, 5, 7, 9),
    };
    check_all(rows, MPT_COUNT(rows));
}

static void test_product_when_a_device_lacks_codes_then_decoded_and_refs(void **state) {
    (void)state;
    static const linear_case rows[] = {
        BIASED(HALF, FPROP, SM80, Q("e4m3"), Q("e5m2"), BF16, 20, 24, 48),
        TO(HALF, FPROP, SM90, Q("nvfp4"), ROWS("nvfp4", 16), BF16, 20, 24, 96),
        TO(HALF, DGRAD, SM90, Q("nvfp4"), Q("nvfp4"), BF16, 20, 24, 96),
        TO(HOST, WGRAD, SM90, Q("nvfp4"), Q("nvfp4"), BF16, 20, 24, 96),
        TO(HOST, WGRAD, SM90, Q("mxfp8"), Q("mxfp6"), BF16, 20, 24, 96),
        TO(HALF, FPROP, SM90, Q("mxfp4"), PLAIN(BF16), BF16, 20, 24, 96),
        TO(HALF, FPROP, SM90, Q("nvfp4"), PLAIN(FP16), FP16, 20, 24, 96),
        TO(HALF, FPROP, SM90, Q("e5m6"), Q("int8"), BF16, 20, 24, 96),
        TO(HALF, FPROP, SM100, Q("fp8_block"), Q("fp8_block"), FP32, 24, 24, 256),
        BIASED(HALF, FPROP, SM80, ROWS("e4m3", 1), Q("e4m3"), BF16, 20, 24, 48),
        /* A shape that the library does not take as codes. */
        BIASED(HALF, FPROP, SM90, Q("e4m3"), Q("e4m3"), BF16, 3, 5, 7),
        TO(HOST, WGRAD, SM90, Q("nvfp4"), Q("nvfp4"), BF16, 3, 5, 17),
    };
    check_all(rows, MPT_COUNT(rows));
}

/* Square blocks and one scale a tensor are kept once and read either way. */
static void test_product_when_a_copy_lies_across_then_turned_or_repacked(void **state) {
    (void)state;
    static const linear_case rows[] = {
        TURNED(HALF, DGRAD, SM90, Q("e5m2"), ACROSS("e4m3", -1), NATIVE, 20, 32, 48),
        TO(HALF, DGRAD, SM90, Q("e5m2"), ACROSS("e4m3", -1), NATIVE, 20, 32, 48),
        TO(HALF, DGRAD, SM100, Q("e5m2"), ACROSS("e4m3", -1), NATIVE, 20, 32, 48),
        TO(HOST, WGRAD, SM100, ACROSS("e5m2", -1), ACROSS("e4m3", -1), NATIVE, 32, 32, 48),
        TO(HALF, DGRAD, SM90, Q("fp8_block"), ACROSS("fp8_block", 128), NATIVE, 24, 136, 256),
        TO(HALF, DGRAD, SM100, Q("nvfp4"), ACROSS("nvfp4", 16), NATIVE, 20, 136, 96),
        TO(HALF, DGRAD, SM100, Q("mxfp8"), ACROSS("mxfp8", 32), NATIVE, 20, 136, 160),
        TO(HALF, DGRAD, SM90, Q("nvfp4"), ACROSS("nvfp4", 16), BF16, 20, 24, 96),
        TURNED(HALF, DGRAD, SM80, Q("e4m3"), ACROSS("e4m3", -1), BF16, 20, 32, 48),
    };
    check_all(rows, MPT_COUNT(rows));
}

static void test_product_when_formats_are_inside_e4m3_then_rewritten(void **state) {
    (void)state;
    static const linear_case rows[] = {
        TO(HALF, FPROP, SM100, Q("mxfp4"), Q("mxfp6"), E4M3, 20, 136, 160),
        TO(HOST, WGRAD, SM100, Q("mxfp4"), Q("mxfp8"), E4M3, 20, 136, 160),
        TO(HALF, FPROP, SM90, Q("e2m1"), Q("e3m2"), E4M3, 20, 24, 48),
        TO(HALF, FPROP, SM90, Q("fp8_block"), OF("fp8_block", E2M1), E4M3, 24, 136, 256),
        TO(HALF, FPROP, SM100, Q("mxfp8"), OF("mxfp8", E2M3), E4M3, 24, 136, 64),
        BIASED(HALF, FPROP, SM100, Q("e2m3"), ROWS("e2m1", 1), E4M3, 20, 24, 48),
    };
    check_all(rows, MPT_COUNT(rows));
}

/* Factors whose product is beyond FP32: zeros are zeros, as in ref. */
static void test_alpha_when_factors_overflow_then_zeros_stay(void **state) {
    (void)state;
    static built b;
    static const linear_case c = {
        FPROP, SM90, {Q("e4m3"), Q("e4m3")}, MPT_WAY_NATIVE, 4, 8, 16, HOST, 0, 0};
    build(&c, &b);
    mpt_node node = mpt_node_make(c.op, MPT_PASS_FORWARD, -1);
    node.n_in = 5;
    node.n_out = 1;
    node.attrs.alpha = 1;
    memset(b.copy[0].bytes, 0, (size_t)(4 * 16));
    b.copy[0].factor[0] = b.copy[1].factor[0] = 0x1p100f;
    run_device(&c, &b, &node);
    for (int i = 0; i < 4 * 8; i++)
        assert_true(((float *)b.y.data)[i] == 0);
    b.copy[0].factor[0] = NAN;
    run_device(&c, &b, &node);
    for (int i = 0; i < 4 * 8; i++)
        assert_true(isnan(((float *)b.y.data)[i]));
    release(&b);
}

/* Sums in FP16 overflow, and Inf less Inf is NaN in both. */
static bool same_number(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

/* Every case once more without tensor cores, bit for bit as ref sums. */
static void check_plain(const linear_case *c, const mpt_gemm_sum *sum) {
    static built b;
    mpt_run_env env = {.n_threads = 1};
    mpt_gpu gpu = {.target = c->target};
    char name[64];
    build(c, &b);
    mpt_node node = mpt_node_make(c->op, MPT_PASS_FORWARD, -1);
    node.n_in = 5;
    node.n_out = 1;
    node.attrs.alpha = 0.5f;
    node.attrs.sum = *sum;
    mpt_kernel_args host = {&node, b.host, &b.expected, NULL, &env, NULL};
    mpt_kernel_args device = {&node, b.device, &b.y, NULL, &env, &gpu};
    op_kernel(mpt_kernels_ref, c->op)->run(&host);
    snprintf(name, sizeof name, "cuda.%s_plain", mpt_op_get(c->op)->name);
    row_named(mpt_kernels_cuda, name)->run(&device);
    size_t n = (size_t)(c->rows * c->cols);
    for (size_t i = 0; i < n; i++)
        if (!same_number(((float *)b.y.data)[i], ((float *)b.expected.data)[i]))
            fail_msg("%s of %s with %s, sums in %s: element %d is %.9g, not %.9g", name,
                     c->side[0].name, c->side[1].name, mpt_dtype_name(sum->accumulate), (int)i,
                     (double)((float *)b.y.data)[i], (double)((float *)b.expected.data)[i]);
    release(&b);
}

static void test_plain_when_packed_then_refs_bits_for_all_sums(void **state) {
    (void)state;
    static const linear_case rows[] = {
        BIASED(HOST, FPROP, SM90, Q("e4m3"), Q("e5m2"), PLAIN, 5, 70, 45),
        TO(HOST, DGRAD, SM90, Q("nvfp4"), ACROSS("nvfp4", 16), PLAIN, 5, 7, 64),
        TO(HOST, WGRAD, SM90, Q("mxfp8"), Q("mxfp6"), PLAIN, 5, 7, 70),
        TO(HOST, WGRAD, SM90, PLAIN(BF16), Q("fp8_block"), PLAIN, 66, 7, 140),
        TURNED(HOST, DGRAD, SM90, PLAIN(FP16), ACROSS("e4m3", -1), PLAIN, 5, 7, 33),
    };
    static const mpt_gemm_sum sums[] = {
        {MPT_DTYPE_FP32, 0}, {MPT_DTYPE_FP32, 24}, {MPT_DTYPE_BF16, 0}, {MPT_DTYPE_FP16, 40}};
    for (size_t i = 0; i < MPT_COUNT(rows); i++)
        for (size_t s = 0; s < MPT_COUNT(sums); s++)
            check_plain(&rows[i], &sums[s]);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_product_when_codes_are_native_then_refs),
    cmocka_unit_test(test_product_when_values_are_wide_then_no_layout_matters),
    cmocka_unit_test(test_product_when_a_device_lacks_codes_then_decoded_and_refs),
    cmocka_unit_test(test_product_when_a_copy_lies_across_then_turned_or_repacked),
    cmocka_unit_test(test_product_when_formats_are_inside_e4m3_then_rewritten),
    cmocka_unit_test(test_alpha_when_factors_overflow_then_zeros_stay),
    cmocka_unit_test(test_plain_when_packed_then_refs_bits_for_all_sums),
};
MPT_TEST_MAIN(cases)
