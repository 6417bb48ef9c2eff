/* The ways of target.h: what the library takes as it is, else how it is brought to something
 * that the library takes.
 *
 * Whether decoding is exact is told by significant bits: those of an element and those of the
 * scale that its block is multiplied by. BF16 and TF32 have FP32's range, so that nothing is
 * lost there but under block scales below 2^-117. */
#include "recipe/target.h"

#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "kernels/numerics_cast.h"

const char *mpt_target_name(mpt_target target) {
    static const char *const names[] = {"host", "sm80", "sm90", "sm100"};
    return (unsigned)target < MPT_TARGET_COUNT ? names[target] : "?";
}

int mpt_target_capability(mpt_target target) {
    static const int capabilities[] = {0, 80, 90, 100};
    return (unsigned)target < MPT_TARGET_COUNT ? capabilities[target] : 0;
}

const char *mpt_way_name(mpt_way way) {
    static const char *const names[] = {"plain", "fp32", "tf32",  "fp16",
                                        "bf16",  "e4m3", "native"};
    _Static_assert(MPT_COUNT(names) == MPT_WAY_COUNT, "each way has a name");
    return (unsigned)way < MPT_WAY_COUNT ? names[way] : "?";
}

mpt_dtype mpt_way_format(mpt_way way, const mpt_quantizer *q) {
    switch (way) {
    case MPT_WAY_TF32:
        return MPT_DTYPE_TF32;
    case MPT_WAY_FP16:
        return MPT_DTYPE_FP16;
    case MPT_WAY_BF16:
        return MPT_DTYPE_BF16;
    case MPT_WAY_E4M3:
        return q->format == MPT_DTYPE_E5M2 ? MPT_DTYPE_E5M2 : MPT_DTYPE_E4M3;
    case MPT_WAY_NATIVE:
        return q->format;
    default:
        return MPT_DTYPE_FP32;
    }
}

static bool is_fp8(mpt_dtype format) {
    return format == MPT_DTYPE_E4M3 || format == MPT_DTYPE_E5M2;
}

static bool is_fp6(mpt_dtype format) {
    return format == MPT_DTYPE_E3M2 || format == MPT_DTYPE_E2M3;
}

static bool is_fp4(mpt_dtype format) {
    return format == MPT_DTYPE_E2M1;
}

static bool is_small(mpt_dtype format) {
    return is_fp8(format) || is_fp6(format) || is_fp4(format);
}

/* Whether no scale changes along the dot product. */
static bool scales_are_factors(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_NONE ||
           (q->block_rows <= 1 && q->block_cols == 0 && q->scale_format <= MPT_SCALE_POW2);
}

/* ---- the library's own modes ---- */

/* The library's scales for an operand's codes; false where it has none such. */
static bool scaling_of(const mpt_quantizer *q, bool rows, mpt_lt_scaling *out) {
    bool fp32_scales = q->scale_format <= MPT_SCALE_POW2, wide = mpt_is_wide(q->format);
    int32_t high = q->block_rows, along = q->block_cols;
    bool in_rows = rows && q->scale.kind != MPT_SCALING_NONE && high == 1;
    bool known = true;
    if (wide || scales_are_factors(q))
        *out = wide ? MPT_LT_UNSCALED : in_rows ? MPT_LT_ROWS : MPT_LT_TENSOR;
    else if (fp32_scales && along == 128 && (high == 1 || high == 128))
        *out = high == 1 ? MPT_LT_1X128 : MPT_LT_128X128;
    else if (q->scale_format == MPT_SCALE_E8M0 && along == 32 && (high == 1 || high == 32))
        *out = MPT_LT_MX;
    else if (q->scale_format == MPT_SCALE_E4M3 && along == 16 && (high == 1 || high == 16) &&
             is_fp4(q->format))
        *out = MPT_LT_NVFP4;
    else
        known = false;
    return known;
}

static bool find_scaling(const mpt_quantizer *q, bool rows, mpt_lt_operand *out, char *why) {
    out->format = q->format;
    if (scaling_of(q, rows, &out->scaling))
        return true;
    snprintf(why, MPT_TARGET_WHY, "no tensor core takes %s in blocks of %dx%d with %s scales",
             mpt_dtype_name(q->format), (int)q->block_rows, (int)q->block_cols,
             mpt_scale_format_name(q->scale_format));
    return false;
}

/* Scales of rows are the library's where both operands have them, else factors of the result.
 */
bool mpt_target_has_row_scales(const mpt_quantizer *q) {
    return q->block_rows == 1 && scales_are_factors(q) && q->scale.kind != MPT_SCALING_NONE;
}

/* Operands lie along the dot product: where they do not, they are kept or turned so. */
static bool query_of(mpt_target target, const mpt_product *p, mpt_lt_query *out, char *why) {
    bool rows = target == MPT_TARGET_SM90 && mpt_target_has_row_scales(p->a) &&
                mpt_target_has_row_scales(p->b);
    mpt_dtype format = p->a->format;
    *out = (mpt_lt_query){.capability = mpt_target_capability(target),
                          .rows = p->rows,
                          .cols = p->cols,
                          .k = p->k};
    out->d = format == MPT_DTYPE_FP32 || format == MPT_DTYPE_TF32 ? MPT_DTYPE_FP32
             : format == MPT_DTYPE_FP16                           ? MPT_DTYPE_FP16
                                                                  : MPT_DTYPE_BF16;
    return find_scaling(p->a, rows, &out->a, why) && find_scaling(p->b, rows, &out->b, why);
}

/* A format of 4 or 6 bits is a part of E4M3, and so it is multiplied where E4M3 is. */
static void rewrite(mpt_lt_operand *o) {
    if (is_small(o->format) && !is_fp8(o->format) && o->scaling != MPT_LT_NVFP4)
        o->format = MPT_DTYPE_E4M3;
}

/* ---- decoding ---- */

static int significant_bits(const mpt_quantizer *q) {
    int bits = mpt_format_of(q->format).mantissa_bits + 1;
    if (scales_are_factors(q) || q->scale_format == MPT_SCALE_POW2 ||
        q->scale_format == MPT_SCALE_E8M0)
        return bits;
    return q->scale_format == MPT_SCALE_E4M3 ? bits + 4 : 24;
}

/* FP16 has the range of the narrow formats, but not that of most scales. */
static bool in_range_of_fp16(const mpt_quantizer *q) {
    if (scales_are_factors(q))
        return q->format == MPT_DTYPE_FP16 || !mpt_is_wide(q->format);
    return q->scale_format == MPT_SCALE_E4M3 && (is_fp4(q->format) || is_fp6(q->format));
}

static bool holds(mpt_dtype wide, const mpt_quantizer *q) {
    return significant_bits(q) <= mpt_format_of(wide).mantissa_bits + 1 &&
           (wide != MPT_DTYPE_FP16 || in_range_of_fp16(q));
}

mpt_way mpt_target_way_to_decode(const mpt_product *p) {
    static const mpt_way ways[] = {MPT_WAY_BF16, MPT_WAY_FP16, MPT_WAY_TF32};
    for (size_t i = 0; i < MPT_COUNT(ways); i++) {
        mpt_dtype wide = mpt_way_format(ways[i], p->a);
        if (holds(wide, p->a) && holds(wide, p->b))
            return ways[i];
    }
    return MPT_WAY_FP32;
}

/* ---- the choice ---- */

/* What no mode of the library does. */
static bool is_plain(const mpt_product *p, char *why) {
    if (p->grouped)
        snprintf(why, MPT_TARGET_WHY,
                 "cuBLASLt takes no rows of experts that the device picks");
    else if (p->accumulate != MPT_DTYPE_FP32)
        snprintf(why, MPT_TARGET_WHY, "tensor cores sum in fp32, not in %s",
                 mpt_dtype_name(p->accumulate));
    return why[0] != 0;
}

mpt_way mpt_target_way(mpt_target target, const mpt_product *product,
                       char why[MPT_TARGET_WHY]) {
    mpt_lt_query query;
    why[0] = 0;
    if (is_plain(product, why))
        return MPT_WAY_PLAIN;
    if (!query_of(target, product, &query, why))
        return mpt_target_way_to_decode(product);
    if (mpt_lt_supported(&query, why))
        return MPT_WAY_NATIVE;
    char other[MPT_TARGET_WHY];
    mpt_lt_query rewritten = query;
    rewrite(&rewritten.a);
    rewrite(&rewritten.b);
    bool changed = rewritten.a.format != query.a.format || rewritten.b.format != query.b.format;
    if (!changed || !mpt_lt_supported(&rewritten, other))
        return mpt_target_way_to_decode(product);
    why[0] = 0;
    return MPT_WAY_E4M3;
}

void mpt_target_operands(mpt_target target, const mpt_product *product, mpt_way way,
                         mpt_lt_operand out[2]) {
    mpt_lt_query query;
    char why[MPT_TARGET_WHY];
    (void)query_of(target, product, &query, why);
    if (way == MPT_WAY_E4M3) {
        rewrite(&query.a);
        rewrite(&query.b);
    }
    if (way < MPT_WAY_E4M3)
        query.a = query.b = (mpt_lt_operand){.format = mpt_way_format(way, product->a)};
    out[0] = query.a;
    out[1] = query.b;
}

bool mpt_target_multiplies(mpt_target target, const mpt_product *product,
                           char why[MPT_TARGET_WHY]) {
    return mpt_target_way(target, product, why) >= MPT_WAY_E4M3;
}

/* ---- rates ---- */

static double rate_of(mpt_dtype format) {
    if (is_fp4(format))
        return 4;
    if (is_fp8(format) || is_fp6(format) || format == MPT_DTYPE_INT8)
        return 2;
    return format == MPT_DTYPE_FP32 ? 1.0 / 16 : format == MPT_DTYPE_TF32 ? 0.5 : 1;
}

double mpt_target_rate(mpt_target target, const mpt_product *product) {
    char why[MPT_TARGET_WHY];
    double rate = fmin(rate_of(product->a->format), rate_of(product->b->format));
    if (target == MPT_TARGET_HOST)
        return rate;
    mpt_way way = mpt_target_way(target, product, why);
    return way == MPT_WAY_NATIVE ? rate : fmin(rate, rate_of(mpt_way_format(way, product->a)));
}

/* ---- bytes ---- */

/* SM90 reads FP8 along the dot product only, SM100 reads NVFP4 so. */
bool mpt_target_wants_both(mpt_target target, const mpt_quantizer *q) {
    if (target == MPT_TARGET_SM90)
        return is_fp8(q->format);
    return target == MPT_TARGET_SM100 && is_fp4(q->format) && q->scale_format == MPT_SCALE_E4M3;
}

static double blocks_along(int64_t extent, int32_t block) {
    return block > 0 ? ceil((double)extent / block) : 1;
}

/* SM100 reads one scale for each row of a square block. */
double mpt_target_bytes(mpt_target target, const mpt_quantizer *q, int64_t rows, int64_t cols) {
    double codes = (double)rows * (double)cols * mpt_code_bits(q->format) / 8;
    bool spread = target == MPT_TARGET_SM100 && q->scale_format >= MPT_SCALE_E8M0;
    if (q->scale.kind == MPT_SCALING_NONE)
        return codes;
    double scales = blocks_along(rows, spread && q->block_rows > 1 ? 1 : q->block_rows) *
                    blocks_along(cols, q->block_cols);
    return codes + scales * (q->scale_format <= MPT_SCALE_POW2 ? 4 : 1);
}

size_t mpt_target_workspace(mpt_target target) {
    static const size_t mega = 1 << 20;
    return target == MPT_TARGET_HOST ? 0 : target == MPT_TARGET_SM80 ? 4 * mega : 32 * mega;
}
