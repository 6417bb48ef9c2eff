/* Quantizers by name, their comparison, and which combinations of fields exist.
 *
 * mpt_quantizer_validate is the one gate between what can be written down and what the kernels
 * compute; a new combination of fields is let through here and nowhere else. */
#include "recipe/schema.h"

#include <string.h>

/* What a bare name means. */
static const mpt_quantizer presets[] = {
    {.name = "fp32", .format = MPT_DTYPE_FP32},
    {.name = "bf16", .format = MPT_DTYPE_BF16},
    {.name = "fp16", .format = MPT_DTYPE_FP16},
    {.name = "e4m3", .format = MPT_DTYPE_E4M3, .scale.kind = MPT_SCALING_CURRENT},
    {.name = "e5m2", .format = MPT_DTYPE_E5M2, .scale.kind = MPT_SCALING_CURRENT},
    {.name = "nvfp4",
     .format = MPT_DTYPE_E2M1,
     .block_rows = 1,
     .block_cols = 16,
     .scale.kind = MPT_SCALING_CURRENT,
     .scale_format = MPT_SCALE_E4M3,
     .outer = MPT_OUTER_TENSOR},
};
static const char *const names[] = {"fp32", "bf16", "fp16", "e4m3", "e5m2", "nvfp4"};
_Static_assert(MPT_COUNT(presets) == MPT_COUNT(names), "each preset has its name in the list");

bool mpt_quantizer_by_name(const char *name, mpt_quantizer *out) {
    for (size_t i = 0; i < MPT_COUNT(presets); i++) {
        if (strcmp(presets[i].name, name) == 0) {
            *out = presets[i];
            return true;
        }
    }
    return false;
}

const char *const *mpt_format_names(int *out_n) {
    *out_n = (int)MPT_COUNT(names);
    return names;
}

const char *mpt_scale_format_name(mpt_scale_format format) {
    static const char *const words[] = {"fp32", "pow2", "e8m0", "e4m3"};
    return (unsigned)format < MPT_COUNT(words) ? words[format] : "?";
}

/* Fields that were never said are 0 and read as 1. */
static double factor(double x) {
    return x > 0 ? x : 1;
}

static bool equal_sources(const mpt_scale_source *a, const mpt_scale_source *b) {
    if (a->kind != b->kind)
        return false;
    if (a->kind == MPT_SCALING_STATIC)
        return a->value == b->value;
    return a->kind != MPT_SCALING_DELAYED ||
           (a->history == b->history && a->algo == b->algo && a->margin == b->margin &&
            a->reduce_amax == b->reduce_amax && factor(a->headroom) == factor(b->headroom));
}

static bool equal_rules(const mpt_scale_rule *a, const mpt_scale_rule *b) {
    return a->kind == b->kind && (a->kind != MPT_RULE_FOUR_OVER_SIX ||
                                  (a->error == b->error && a->bound == b->bound));
}

bool mpt_hadamard_equal(const mpt_hadamard *a, const mpt_hadamard *b) {
    if (a->size != b->size || (a->size > 0 && a->signs != b->signs))
        return false;
    return a->size == 0 || a->signs != MPT_SIGNS_RANDOM ||
           (a->scope == b->scope && a->redraw == b->redraw && a->seed == b->seed);
}

bool mpt_quantizer_equal(const mpt_quantizer *a, const mpt_quantizer *b) {
    return a->format == b->format && a->block_rows == b->block_rows &&
           a->block_cols == b->block_cols && equal_sources(&a->scale, &b->scale) &&
           a->scale_format == b->scale_format && equal_rules(&a->scale_rule, &b->scale_rule) &&
           a->outer == b->outer && factor(a->headroom) == factor(b->headroom) &&
           a->rounding == b->rounding && mpt_hadamard_equal(&a->hadamard, &b->hadamard) &&
           a->nonfinite == b->nonfinite && a->source == b->source;
}

bool mpt_quantizer_is_cast(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_NONE && q->hadamard.size == 0 &&
           q->rounding == MPT_ROUNDING_NEAREST;
}

bool mpt_quantizer_is_one_scale(const mpt_quantizer *q) {
    return q->scale.kind == MPT_SCALING_NONE ||
           (q->block_rows == 0 && q->block_cols == 0 && q->scale_format <= MPT_SCALE_POW2);
}

/* ---- combinations ---- */

static bool is_wide(mpt_dtype format) {
    return format == MPT_DTYPE_FP32 || format == MPT_DTYPE_BF16 || format == MPT_DTYPE_FP16;
}

/* A field that the format has no use for, by name; NULL where there is none. */
static const char *stray_of_wide(const mpt_quantizer *q) {
    return q->block_rows || q->block_cols        ? "block"
           : q->scale.kind != MPT_SCALING_NONE   ? "scale"
           : q->scale_format != MPT_SCALE_FP32   ? "scale_format"
           : q->outer != MPT_OUTER_NONE          ? "outer"
           : q->rounding != MPT_ROUNDING_NEAREST ? "rounding"
           : q->hadamard.size                    ? "hadamard"
                                                 : NULL;
}

static mpt_status validate_fp8(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                               mpt_where where) {
    const char *field = q->block_rows || q->block_cols         ? "block"
                        : q->scale.kind != MPT_SCALING_CURRENT ? "scale"
                        : q->scale_format != MPT_SCALE_FP32    ? "scale_format"
                        : q->outer != MPT_OUTER_NONE           ? "outer"
                                                               : NULL;
    if (!field)
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s.%s: %s does not go with it", path,
                                 field, q->name);
    mpt_hint(ctx, "%s has one current fp32 scale a tensor: block = \"tensor\", no outer scale",
             q->name);
    return status;
}

static mpt_status validate_fp4(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                               mpt_where where) {
    bool block = q->block_cols == 16 && (q->block_rows == 1 || q->block_rows == 16);
    const char *field = !block                                 ? "block"
                        : q->scale.kind != MPT_SCALING_CURRENT ? "scale"
                        : q->scale_format != MPT_SCALE_E4M3    ? "scale_format"
                        : q->outer != MPT_OUTER_TENSOR         ? "outer"
                                                               : NULL;
    if (!field)
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s.%s: %s does not go with it", path,
                                 field, q->name);
    mpt_hint(ctx, "%s has blocks of {1, 16} or {16, 16}, e4m3 scales and outer = \"tensor\"",
             q->name);
    return status;
}

mpt_status mpt_quantizer_validate(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                                  mpt_where where) {
    if (is_wide(q->format)) {
        const char *field = stray_of_wide(q);
        if (!field)
            return MPT_OK;
        mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where, "%s.%s: %s has no %s", path,
                                     field, q->name, field);
        mpt_hint(ctx, "%s holds values as they are; take e4m3, e5m2 or nvfp4 to quantize",
                 q->name);
        return status;
    }
    if (q->format == MPT_DTYPE_E4M3 || q->format == MPT_DTYPE_E5M2)
        return validate_fp8(ctx, q, path, where);
    if (q->format == MPT_DTYPE_E2M1)
        return validate_fp4(ctx, q, path, where);
    mpt_status status = MPT_FAIL(ctx, MPT_UNSUPPORTED, where, "%s: no kernel quantizes to %s",
                                 path, mpt_dtype_name(q->format));
    mpt_hint(ctx, "take fp32, bf16, fp16, e4m3, e5m2 or nvfp4");
    return status;
}
