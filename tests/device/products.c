/* Products of linear layers: the GPU's sums against exact ones.
 *
 * The bound is that of gemm_bound.h: where a sum is exact in every order, equal results. Case
 * P84 (an accumulator of 14 bits) lies 100 times beyond the bound of the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "../gemm_bound.h"

/* Both operands of one product; a wide format is stored as it is. */
typedef struct kind {
    const char *name;
    mpt_dtype wide; /* COUNT: by the quantizers */
    mpt_storage storage;
    mpt_quantizer a, b;
} kind;

#define NARROW      .wide = MPT_DTYPE_COUNT
#define FP8(f)      .format = MPT_DTYPE_##f, .scale.kind = MPT_SCALING_CURRENT
#define BLOCK(r, c) .block_rows = (r), .block_cols = (c)
#define BY_128(r)                                                                              \
    { FP8(E4M3), BLOCK(r, 128) }
#define MX(f)                                                                                  \
    { FP8(f), BLOCK(1, 32), .scale_format = MPT_SCALE_E8M0, .scale_rule.kind = MPT_RULE_UP }
#define NVFP4(r)                                                                               \
    { FP8(E2M1), BLOCK(r, 16), .scale_format = MPT_SCALE_E4M3, .outer = MPT_OUTER_TENSOR }
#define UNIT(f)                                                                                \
    {                                                                                          \
        .format = MPT_DTYPE_##f, .scale = {.kind = MPT_SCALING_STATIC, .value = 1 }            \
    }

static const kind kinds[] = {
    {.name = "fp32", .wide = MPT_DTYPE_FP32, .storage = MPT_STORAGE_HOST},
    {.name = "bf16", .wide = MPT_DTYPE_BF16, .storage = MPT_STORAGE_BF16},
    {.name = "fp16", .wide = MPT_DTYPE_FP16, .storage = MPT_STORAGE_FP16},
    {.name = "e4m3, scale 1", NARROW, .a = UNIT(E4M3), .b = UNIT(E4M3)},
    {.name = "e4m3 tensor", NARROW, .a = {FP8(E4M3)}, .b = {FP8(E4M3)}},
    {.name = "e5m2 by e4m3 tensor", NARROW, .a = {FP8(E5M2)}, .b = {FP8(E4M3)}},
    {.name = "e4m3 rows", NARROW, .a = {FP8(E4M3), BLOCK(1, 0)}, .b = {FP8(E4M3), BLOCK(1, 0)}},
    {.name = "fp8 1x128 by 128x128", NARROW, .a = BY_128(1), .b = BY_128(128)},
    {.name = "fp8 1x128 by 1x128", NARROW, .a = BY_128(1), .b = BY_128(1)},
    {.name = "mxfp8", NARROW, .a = MX(E4M3), .b = MX(E4M3)},
    {.name = "mxfp6", NARROW, .a = MX(E3M2), .b = MX(E2M3)},
    {.name = "mxfp4", NARROW, .a = MX(E2M1), .b = MX(E2M1)},
    {.name = "nvfp4", NARROW, .a = NVFP4(1), .b = NVFP4(16)},
};

/* ---- operands ---- */

/* One operand: m dot products of k numbers, as they lie in x. */
typedef struct operand {
    int64_t m, k;
    bool column; /* x is [k, m] */
    float *x;
    copy quantized;
    rig_tensor wide;
    const float *decoded; /* what the product multiplies: in the layout of x */
    float constant;       /* that its factor is still to be divided by */
} operand;

/* Whole numbers up to 4 keep most sums exact; the others spread over eight binades. */
static void fill(float *x, int64_t n, bool whole, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        int32_t u = (int32_t)(case_random(&seed) >> 8) - (1 << 23);
        float spread = mpt_bits_float((123u + case_random(&seed) % 8) << 23);
        x[i] = whole ? (float)(u % 5) : (float)u * 0x1p-23f * spread;
    }
}

static operand operand_of(rig *r, const kind *type, const mpt_quantizer *q, int64_t m,
                          int64_t k, bool column, bool whole, uint64_t seed) {
    operand o = {.m = m, .k = k, .column = column, .constant = 1};
    int64_t rows = column ? k : m, cols = column ? m : k;
    o.x = rig_host((size_t)(m * k) * sizeof *o.x);
    fill(o.x, m * k, whole, seed);
    o.decoded = o.x;
    if (type->wide != MPT_DTYPE_COUNT) {
        mpt_round_to(type->wide, o.x, (size_t)(m * k));
        o.wide = rig_tensor_of(r, type->wide, type->storage, rows, cols, o.x);
        return o;
    }
    mpt_quantize_job job = {.q = q, .x = o.x, .rows = rows, .cols = cols};
    o.quantized = copy_of(r, &job, column);
    o.quantized.job.scratch = case_buffer(mpt_quantize_scratch(&o.quantized.job));
    mpt_quantize_operand(&o.quantized.job);
    free(o.quantized.job.scratch);
    uint8_t *image = rig_host(o.quantized.data.bytes);
    copy_image(&o.quantized, image);
    rig_write(r, o.quantized.data.at.data, image, o.quantized.data.bytes);
    rig_write(r, o.quantized.factor.at.data, o.quantized.expected.row_factor,
              o.quantized.factor.bytes);
    free(image);
    o.decoded = o.quantized.expected.decoded;
    o.constant = mpt_quantizer_constant(q);
    return o;
}

static void operand_free(rig *r, operand *o) {
    rig_tensor_free(r, &o->wide);
    if (o->quantized.data.at.data)
        copy_free(r, &o->quantized);
    free(o->x);
}

static double factor_of(const operand *o, int64_t i) {
    if (!o->quantized.factor.at.data)
        return 1;
    int64_t n = o->quantized.factor.at.dims[0];
    return (double)o->quantized.expected.row_factor[n > 1 ? i : 0] * (double)o->constant;
}

/* ---- one product ---- */

static dot_bound bound_of(const operand *a, int64_t i, const operand *b, int64_t j) {
    const float *x = a->decoded + i * (a->column ? 1 : a->k);
    const float *y = b->decoded + j * (b->column ? 1 : b->k);
    return dot_bound_of(x, a->column ? a->m : 1, y, b->column ? b->m : 1, a->k);
}

/* What was compared in one product. */
typedef struct tally {
    long long equal, bounded;
    double worst; /* difference, of the bound */
} tally;

static void compare_one(rig *r, const char *name, double got, const dot_bound *s, double f,
                        mpt_dtype d, tally *t) {
    double expected = f * s->exact, off = fabs(got - expected);
    double bound = dot_allowed(s, f, d, false);
    t->equal += s->certified;
    t->bounded += !s->certified;
    if (!s->certified && off / bound > t->worst)
        t->worst = off / bound;
    rig_check(r, off <= bound, "%s: %.9g, not %.9g; %sbound %.3g, sum of |a b| %.6g", name, got,
              expected, s->certified ? "the sum is exact in any order, " : "", bound,
              s->magnitude);
}

/* d = a b, of m x n results. */
static void compare_product(rig *r, const char *name, const operand *a, const operand *b,
                            rig_tensor *d) {
    int64_t n = a->m * b->m;
    void *bytes = rig_host(d->bytes);
    float *got = rig_host((size_t)n * sizeof *got);
    tally t = {0, 0, 0};
    rig_bytes(r, d, bytes, name);
    mpt_unpack(d->at.storage, NULL, bytes, n, got);
    for (int64_t i = 0; i < a->m; i++)
        for (int64_t j = 0; j < b->m; j++) {
            dot_bound s = bound_of(a, i, b, j);
            compare_one(r, name, (double)got[i * b->m + j], &s,
                        factor_of(a, i) * factor_of(b, j), d->at.dtype, &t);
        }
    fprintf(r->out, "%-44s %7lld exact, %7lld within %.3f of the bound\n", name, t.equal,
            t.bounded, t.worst);
    free(bytes);
    free(got);
}

static const char *layout_of(mpt_op op, bool *a_column, bool *b_column) {
    *a_column = op == MPT_OP_linear_wgrad;
    *b_column = op != MPT_OP_linear;
    return mpt_op_get(op)->name;
}

static void test_product(rig *r, const kind *type, mpt_op op, const int64_t dims[3],
                         bool whole) {
    bool a_column, b_column;
    const char *op_name = layout_of(op, &a_column, &b_column);
    char name[160];
    operand a = operand_of(r, type, &type->a, dims[0], dims[2], a_column, whole, 1);
    operand b = operand_of(r, type, &type->b, dims[1], dims[2], b_column, whole, 2);
    bool gradient = op == MPT_OP_linear_wgrad, narrow = type->wide == MPT_DTYPE_COUNT;
    bool bf16 = !gradient && type->wide != MPT_DTYPE_FP32 && type->wide != MPT_DTYPE_FP16;
    float *zeros = rig_host((size_t)(dims[0] * dims[1]) * sizeof *zeros);
    rig_tensor d =
        rig_tensor_of(r, bf16 ? MPT_DTYPE_BF16 : MPT_DTYPE_FP32,
                      bf16 ? MPT_STORAGE_BF16 : MPT_STORAGE_HOST, dims[0], dims[1], zeros);
    rig_call call = {.node = {.op = op, .n_in = 6, .n_out = 1}, .out = {&d}};
    call.in[0] = narrow ? &a.quantized.data : &a.wide;
    call.in[1] = narrow ? &b.quantized.data : &b.wide;
    call.in[3] = narrow ? &a.quantized.factor : NULL;
    call.in[4] = narrow ? &b.quantized.factor : NULL;
    call.node.attrs.alpha = a.constant * b.constant;
    snprintf(name, sizeof name, "%s %s %lldx%lldx%lld%s", op_name, type->name,
             (long long)dims[0], (long long)dims[1], (long long)dims[2], whole ? " whole" : "");
    if (rig_prepare(r, &call)) {
        rig_launch(r, &call);
        compare_product(r, name, &a, &b, &d);
        rig_done(r, &call);
    }
    free(zeros);
    rig_tensor_free(r, &d);
    operand_free(r, &a);
    operand_free(r, &b);
}

void rig_products(rig *r) {
    static const int64_t sizes[][3] = {
        {24, 17, 160}, {128, 256, 512}, {37, 53, 130}, {256, 128, 4096}};
    static const mpt_op ops[] = {MPT_OP_linear, MPT_OP_linear_dgrad, MPT_OP_linear_wgrad};
    int n_sizes = r->simulated ? 1 : (int)MPT_COUNT(sizes);
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (int s = 0; s < n_sizes; s++)
            for (size_t op = 0; op < MPT_COUNT(ops); op++)
                for (int whole = 0; whole < 2; whole++)
                    test_product(r, &kinds[k], ops[op], sizes[s], whole);
}
