/* The facts of lt_support.h, one question after the other: formats, scales, pairs, layouts,
 * results, shapes. */
#include "recipe/lt_support.h"

#include <stdio.h>

#include "base/base.h"
#include "kernels/numerics_cast.h"

enum { ALIGNED = 16, WHOLE_EIGHT = 8, BLOCK_MX = 32, BLOCK_FP32 = 128 };

#define NO(why, ...) (snprintf((why), MPT_LT_WHY, __VA_ARGS__), false)

const char *mpt_lt_scaling_name(mpt_lt_scaling scaling) {
    static const char *const names[] = {"unscaled", "tensor", "rows", "1x128",
                                        "128x128",  "mx",     "nvfp4"};
    _Static_assert(MPT_COUNT(names) == MPT_LT_SCALING_COUNT, "each scaling has a name");
    return (unsigned)scaling < MPT_LT_SCALING_COUNT ? names[scaling] : "?";
}

static bool is_fp8(mpt_dtype format) {
    return format == MPT_DTYPE_E4M3 || format == MPT_DTYPE_E5M2;
}

static bool is_narrow(mpt_dtype format) {
    return is_fp8(format) || format == MPT_DTYPE_E2M1;
}

static bool is_by_128(mpt_lt_scaling scaling) {
    return scaling == MPT_LT_1X128 || scaling == MPT_LT_128X128;
}

/* ---- one operand ---- */

static bool takes_format(const mpt_lt_query *q, mpt_dtype format, char *why) {
    if (!mpt_is_wide(format) && !is_narrow(format))
        return NO(why, "cuBLASLt multiplies no %s", mpt_dtype_name(format));
    if (is_fp8(format) && q->capability < 89)
        return NO(why, "sm%d multiplies no fp8", q->capability);
    if (format == MPT_DTYPE_E2M1 && q->capability < 100)
        return NO(why, "sm%d multiplies no fp4", q->capability);
    return true;
}

static bool takes_scaling(const mpt_lt_query *q, const mpt_lt_operand *o, char *why) {
    const char *format = mpt_dtype_name(o->format), *scaling = mpt_lt_scaling_name(o->scaling);
    bool wide = mpt_is_wide(o->format), fp4 = o->format == MPT_DTYPE_E2M1;
    if (wide != (o->scaling == MPT_LT_UNSCALED) || fp4 != (o->scaling == MPT_LT_NVFP4))
        return NO(why, "cuBLASLt has no %s scales for %s", scaling, format);
    if (o->scaling == MPT_LT_ROWS && q->capability != 90)
        return NO(why, "one scale a row is sm90's alone");
    if (is_by_128(o->scaling) && q->capability != 90)
        return NO(why, "fp32 scales for blocks of %s are sm90's alone", scaling);
    if (o->scaling == MPT_LT_MX && q->capability < 100)
        return NO(why, "sm%d takes no e8m0 scales", q->capability);
    return true;
}

/* ---- both ---- */

/* "e4m3", "mx e4m3", "nvfp4" */
static void name_operand(const mpt_lt_operand *o, char out[32]) {
    bool plain = o->scaling <= MPT_LT_TENSOR, alone = o->scaling == MPT_LT_NVFP4;
    snprintf(out, 32, "%s%s%s", plain ? "" : mpt_lt_scaling_name(o->scaling),
             plain || alone ? "" : " ", alone ? "" : mpt_dtype_name(o->format));
}

static bool takes_pair(const mpt_lt_query *q, char *why) {
    mpt_lt_scaling a = q->a.scaling, b = q->b.scaling;
    bool formats = q->a.format == q->b.format || (is_fp8(q->a.format) && is_fp8(q->b.format));
    bool scalings = a == b || (is_by_128(a) && is_by_128(b));
    char first[32], second[32];
    name_operand(&q->a, first);
    name_operand(&q->b, second);
    if (!formats || !scalings)
        return NO(why, "%s and %s are no pair of operands", first, second);
    if (q->a.format == MPT_DTYPE_E5M2 && q->b.format == MPT_DTYPE_E5M2)
        return NO(why, "cuBLASLt has no e5m2 with e5m2");
    if (a == MPT_LT_128X128 && b == MPT_LT_128X128)
        return NO(why, "sm90 takes blocks of 128x128 on one side only");
    return true;
}

/* FP8 may lie any way from 10.0 on, under the scales of tensors and of MX. */
static bool takes_layout(const mpt_lt_query *q, char *why) {
    bool any = q->capability >= 100 && is_fp8(q->a.format);
    if (is_narrow(q->a.format) && !any && (q->a.across || q->b.across))
        return NO(why, "sm%d reads %s along the dot product only", q->capability,
                  mpt_dtype_name(q->a.across ? q->a.format : q->b.format));
    return true;
}

/* ---- the result ---- */

static bool takes_result(const mpt_lt_query *q, char *why) {
    mpt_dtype a = q->a.format, b = q->b.format, d = q->d;
    bool as_input = d == a && (d == MPT_DTYPE_BF16 || d == MPT_DTYPE_FP16);
    bool of_fp8 = q->a.scaling == MPT_LT_TENSOR &&
                  (d == MPT_DTYPE_E4M3 ||
                   (d == MPT_DTYPE_E5M2 && (a == MPT_DTYPE_E5M2 || b == MPT_DTYPE_E5M2)));
    bool wide = d == MPT_DTYPE_BF16 || d == MPT_DTYPE_FP16;
    if (d != MPT_DTYPE_FP32 && !as_input && !of_fp8 && !(is_narrow(a) && wide))
        return NO(why, "%s times %s gives no %s", mpt_dtype_name(a), mpt_dtype_name(b),
                  mpt_dtype_name(d));
    return true;
}

/* The bias is of the result's format; with narrow operands of the 16-bit one beside it. */
static bool takes_bias(const mpt_lt_query *q, char *why) {
    mpt_dtype expected = !is_narrow(q->a.format)  ? q->d
                         : q->d == MPT_DTYPE_FP16 ? MPT_DTYPE_FP16
                                                  : MPT_DTYPE_BF16;
    if (q->has_bias && q->bias != expected)
        return NO(why, "the bias is in %s, not in %s", mpt_dtype_name(expected),
                  mpt_dtype_name(q->bias));
    return true;
}

/* ---- shapes ---- */

static bool is_whole(int64_t elements, mpt_dtype format) {
    return elements * mpt_code_bits(format) / 8 % ALIGNED == 0;
}

static bool takes_k(const mpt_lt_query *q, char *why) {
    int multiple = is_by_128(q->a.scaling)         ? BLOCK_FP32
                   : q->a.scaling == MPT_LT_MX     ? BLOCK_MX
                   : q->a.format == MPT_DTYPE_E2M1 ? 2 * ALIGNED
                                                   : ALIGNED;
    if (q->k % multiple != 0)
        return NO(why, "a dot product of %lld is no multiple of %d", (long long)q->k, multiple);
    return true;
}

static bool takes_side(const mpt_lt_query *q, const mpt_lt_operand *o, int64_t outer,
                       char *why) {
    int64_t ld = o->ld ? o->ld : o->across ? outer : q->k;
    if (!is_whole(ld, o->format))
        return NO(why, "stored rows of %lld are no multiple of 16 bytes", (long long)ld);
    return true;
}

static bool takes_sides(const mpt_lt_query *q, char *why) {
    int cols = ALIGNED * 8 / mpt_code_bits(q->d);
    cols = is_by_128(q->a.scaling) && cols < WHOLE_EIGHT ? WHOLE_EIGHT : cols;
    if (q->cols % cols != 0)
        return NO(why, "%lld columns are no multiple of %d", (long long)q->cols, cols);
    if (is_by_128(q->a.scaling) && q->rows % WHOLE_EIGHT != 0)
        return NO(why, "%lld rows are no multiple of 8", (long long)q->rows);
    if (!is_whole(q->ldd ? q->ldd : q->cols, q->d))
        return NO(why, "rows of the result are no multiple of 16 bytes");
    return takes_side(q, &q->a, q->rows, why) && takes_side(q, &q->b, q->cols, why);
}

/* Wide formats take any shape; what is there has to be there. */
static bool takes_shape(const mpt_lt_query *q, char *why) {
    int32_t aligned = q->aligned ? q->aligned : 256;
    bool narrow = is_narrow(q->a.format);
    int least = narrow ? ALIGNED : mpt_code_bits(q->a.format) / 8;
    if (q->rows < 1 || q->cols < 1 || q->k < 1)
        return NO(why, "a product of %lldx%lldx%lld is empty", (long long)q->rows,
                  (long long)q->cols, (long long)q->k);
    if (q->batch < 0 || q->batch > INT32_MAX || (q->batch > 1 && is_by_128(q->a.scaling)))
        return NO(why, "%lld products at once", (long long)q->batch);
    if (aligned % least != 0)
        return NO(why, "pointers are no multiples of %d bytes", least);
    return !narrow || (takes_k(q, why) && takes_sides(q, why));
}

bool mpt_lt_supported(const mpt_lt_query *q, char why[MPT_LT_WHY]) {
    why[0] = 0;
    return takes_format(q, q->a.format, why) && takes_format(q, q->b.format, why) &&
           takes_scaling(q, &q->a, why) && takes_scaling(q, &q->b, why) && takes_pair(q, why) &&
           takes_layout(q, why) && takes_result(q, why) && takes_bias(q, why) &&
           takes_shape(q, why);
}
