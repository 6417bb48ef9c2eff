/* The facts of target.h.
 *
 * Every operand is of one family, by its elements and by the scales that change along its dot
 * product; a product is native where both operands are of one family that the device has, and
 * the shape fits its instructions. */
#include "recipe/target.h"

#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "kernels/numerics_cast.h"

typedef enum family {
    FAMILY_PLAIN,  /* wide formats, and narrow ones whose scale is a factor of the result */
    FAMILY_BLOCK,  /* FP8 under FP32 scales, 1x128 or 128x128 */
    FAMILY_MX,     /* FP8, FP6 or FP4 under an E8M0 scale for 32 elements */
    FAMILY_NVFP4,  /* FP4 under an E4M3 scale for 16 elements */
    FAMILY_UNKNOWN /* scales or blocks of no tensor core */
} family;

const char *mpt_target_name(mpt_target target) {
    static const char *const names[] = {"host", "sm80", "sm90", "sm100"};
    return (unsigned)target < MPT_TARGET_COUNT ? names[target] : "?";
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
    return q->scale.kind == MPT_SCALING_NONE || (q->block_rows <= 1 && q->block_cols == 0);
}

static family family_of(const mpt_quantizer *q) {
    bool fp32_scales = q->scale_format <= MPT_SCALE_POW2;
    int32_t rows = q->block_rows, cols = q->block_cols;
    if (mpt_is_wide(q->format) || (scales_are_factors(q) && fp32_scales))
        return FAMILY_PLAIN;
    if (is_fp8(q->format) && fp32_scales && cols == 128 && (rows == 1 || rows == 128))
        return FAMILY_BLOCK;
    if (q->scale_format == MPT_SCALE_E8M0 && cols == 32 && (rows == 1 || rows == 32) &&
        is_small(q->format))
        return FAMILY_MX;
    if (q->scale_format == MPT_SCALE_E4M3 && is_fp4(q->format) && cols == 16 &&
        (rows == 1 || rows == 16))
        return FAMILY_NVFP4;
    return FAMILY_UNKNOWN;
}

/* ---- what a device lacks ---- */

/* A number format that no instruction of the device takes, in words; NULL where it has it. */
static const char *missing_format(mpt_target target, mpt_dtype format) {
    if (format == MPT_DTYPE_E5M6)
        return "e5m6";
    if (is_fp8(format) && target < MPT_TARGET_SM90)
        return "fp8";
    if (is_fp6(format) && target < MPT_TARGET_SM100)
        return "fp6";
    if (is_fp4(format) && target < MPT_TARGET_SM100)
        return "fp4";
    return NULL;
}

static bool lacks_family(mpt_target target, const mpt_quantizer *q, char why[MPT_TARGET_WHY]) {
    const char *device = mpt_target_name(target);
    family f = family_of(q);
    const char *format = missing_format(target, q->format);
    if (format)
        snprintf(why, MPT_TARGET_WHY, "%s multiplies no %s", device, format);
    else if (f == FAMILY_UNKNOWN)
        snprintf(why, MPT_TARGET_WHY,
                 "no tensor core takes %s in blocks of %dx%d with %s scales",
                 mpt_dtype_name(q->format), (int)q->block_rows, (int)q->block_cols,
                 mpt_scale_format_name(q->scale_format));
    else if (f == FAMILY_BLOCK && target != MPT_TARGET_SM90)
        snprintf(why, MPT_TARGET_WHY, "fp32 scales for blocks of %dx128 are sm90's alone",
                 (int)q->block_rows);
    else if (f == FAMILY_MX && target < MPT_TARGET_SM100)
        snprintf(why, MPT_TARGET_WHY, "%s takes no e8m0 scales", device);
    else
        return false;
    return true;
}

/* Two operands that the device has each by itself, but not together. */
static bool lacks_pair(mpt_target target, const mpt_product *p, char why[MPT_TARGET_WHY]) {
    mpt_dtype a = p->a->format, b = p->b->format;
    family f = family_of(p->a), g = family_of(p->b);
    bool small = is_small(a) && is_small(b); /* FP8, FP6 and FP4 mix, where they are at all */
    if (f != g || (a != b && !small))
        snprintf(why, MPT_TARGET_WHY, "%s and %s are no pair of operands",
                 p->a->name ? p->a->name : mpt_dtype_name(a),
                 p->b->name ? p->b->name : mpt_dtype_name(b));
    else if (a == MPT_DTYPE_E5M2 && b == MPT_DTYPE_E5M2 && f != FAMILY_MX)
        snprintf(why, MPT_TARGET_WHY, "cuBLASLt on %s has no e5m2 with e5m2",
                 mpt_target_name(target));
    else if (f == FAMILY_BLOCK && p->a->block_rows == 128 && p->b->block_rows == 128)
        snprintf(why, MPT_TARGET_WHY, "sm90 takes blocks of 128x128 on one side only");
    else
        return false;
    return true;
}

/* Rows of operands are whole vectors of 16 bytes, and so are those of the result in BF16. */
static bool lacks_shape(const mpt_product *p, char why[MPT_TARGET_WHY]) {
    int64_t k = is_fp4(p->a->format) || is_fp4(p->b->format) ? 32 : 16, cols = 8;
    if (mpt_is_wide(p->a->format))
        return false;
    if (p->k % k)
        snprintf(why, MPT_TARGET_WHY, "a dot product of %lld is no multiple of %d",
                 (long long)p->k, (int)k);
    else if (p->cols % cols)
        snprintf(why, MPT_TARGET_WHY, "%lld columns are no multiple of %d", (long long)p->cols,
                 (int)cols);
    else
        return false;
    return true;
}

bool mpt_target_multiplies(mpt_target target, const mpt_product *product,
                           char why[MPT_TARGET_WHY]) {
    why[0] = 0;
    return !lacks_family(target, product->a, why) && !lacks_family(target, product->b, why) &&
           !lacks_pair(target, product, why) && !lacks_shape(product, why);
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
    bool native = target == MPT_TARGET_HOST || mpt_target_multiplies(target, product, why);
    return native ? rate : fmin(rate, 1);
}

/* ---- bytes ---- */

/* SM90 reads FP8 along the dot product only, SM100 reads NVFP4 so. */
bool mpt_target_wants_both(mpt_target target, const mpt_quantizer *q) {
    if (target == MPT_TARGET_SM90)
        return is_fp8(q->format);
    return target == MPT_TARGET_SM100 && family_of(q) == FAMILY_NVFP4;
}

static double blocks_along(int64_t extent, int32_t block) {
    return block > 0 ? ceil((double)extent / block) : 1;
}

/* SM100 reads one scale for each row of a square block. */
double mpt_target_bytes(mpt_target target, const mpt_quantizer *q, int64_t rows, int64_t cols) {
    double codes = (double)rows * (double)cols * mpt_dtype_bits(q->format) / 8;
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
