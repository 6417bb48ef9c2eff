/* Which fields of a quantizer go together.
 *
 * mpt_quantizer_validate is the one gate between what can be written down and what the kernels
 * compute: a new combination of fields is let through here and nowhere else. */
#include "recipe/schema.h"

#include <float.h>
#include <string.h>

#include "kernels/numerics_cast.h"

/* What every check needs to name a fault. */
typedef struct checked {
    mpt_ctx *ctx;
    const mpt_quantizer *q;
    const char *path, *dot;
    mpt_where where;
} checked;

/* Fails with the field, the fault and the way out, each a text or a format of one. */
#define REFUSE(c, field, fault, hint)                                                          \
    do {                                                                                       \
        mpt_status refused = MPT_FAIL((c)->ctx, MPT_INVALID, (c)->where, "%s%s%s: %s",         \
                                      (c)->path, (c)->dot, (field), (fault));                  \
        mpt_hint((c)->ctx, "%s", (hint));                                                      \
        return refused;                                                                        \
    } while (0)

/* ---- formats ---- */

/* A field that a wide format has no use for, by name; NULL where there is none. */
static const char *stray_of_wide(const mpt_quantizer *q) {
    return q->block_rows || q->block_cols            ? "block"
           : q->scale.kind != MPT_SCALING_NONE       ? "scale"
           : q->scale_format != MPT_SCALE_FP32       ? "scale_format"
           : q->scale_rule.kind != MPT_RULE_NEAREST  ? "scale_rule"
           : q->outer != MPT_OUTER_NONE              ? "outer"
           : q->headroom != 0 && q->headroom != 1    ? "headroom"
           : q->rounding != MPT_ROUNDING_NEAREST     ? "rounding"
           : q->hadamard.size                        ? "hadamard"
           : q->nonfinite != MPT_NONFINITE_PROPAGATE ? "nonfinite"
           : q->source != MPT_SOURCE_ORIGINAL        ? "source"
           : q->pad != MPT_PAD_ZERO                  ? "pad"
                                                     : NULL;
}

static mpt_status check_wide(const checked *c) {
    const char *field = stray_of_wide(c->q);
    if (!field)
        return MPT_OK;
    mpt_status status = MPT_FAIL(c->ctx, MPT_INVALID, c->where, "%s%s%s: %s has no %s", c->path,
                                 c->dot, field, c->q->name, field);
    mpt_hint(c->ctx, "%s holds values as they are; take e4m3, mxfp8 or nvfp4 to quantize",
             c->q->name);
    return status;
}

/* A name keeps its promise: e4m3 is e4m3, mxfp6 has six bits. */
static mpt_status check_format(const checked *c) {
    static const struct {
        const char *name;
        mpt_dtype choice[2];
        const char *hint;
    } families[] = {
        {"mxfp8", {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2}, "mxfp8 has elements of e4m3 or e5m2"},
        {"fp8_block", {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2}, "fp8_block has e4m3 or e5m2"},
        {"mxfp6", {MPT_DTYPE_E3M2, MPT_DTYPE_E2M3}, "mxfp6 has elements of e3m2 or e2m3"},
    };
    const mpt_quantizer *q = c->q;
    mpt_quantizer bare;
    if (!q->name || !mpt_quantizer_by_name(q->name, &bare) || q->format == bare.format)
        return MPT_OK;
    const char *hint = NULL;
    for (size_t i = 0; i < MPT_COUNT(families); i++) {
        if (strcmp(q->name, families[i].name) != 0)
            continue;
        if (q->format == families[i].choice[0] || q->format == families[i].choice[1])
            return MPT_OK;
        hint = families[i].hint;
    }
    mpt_status status =
        MPT_FAIL(c->ctx, MPT_INVALID, c->where, "%s%sformat: %s does not have elements of %s",
                 c->path, c->dot, q->name, mpt_dtype_name(q->format));
    if (hint)
        mpt_hint(c->ctx, "%s", hint);
    else
        mpt_hint(c->ctx, "begin with that format instead: %s { ... }",
                 mpt_dtype_name(q->format));
    return status;
}

/* ---- scales ---- */

/* A scale from elsewhere than the tensor at hand. */
static mpt_status check_given_scale(const checked *c) {
    const mpt_quantizer *q = c->q;
    bool fixed = q->scale.kind == MPT_SCALING_STATIC;
    if (q->block_rows || q->block_cols)
        REFUSE(c, "block",
               fixed ? "a static scale is one for the whole tensor"
                     : "a delayed scale is one for the whole tensor",
               "add block = \"tensor\", or take scale = current {}");
    if (q->scale_format > MPT_SCALE_POW2)
        REFUSE(c, "scale_format",
               fixed ? "a static scale is stored as fp32" : "a delayed scale is stored as fp32",
               "take scale_format = fp32 or \"pow2\", or scale = current {}");
    if (!fixed)
        return MPT_OK;
    if (!(q->scale.value > 0))
        REFUSE(c, "scale", "static says no value", "write static(1)");
    if ((float)q->scale.value < 1.0f / FLT_MAX)
        REFUSE(c, "scale", "what is divided by so small a scale is past float32",
               "take a scale above 1e-38");
    return MPT_OK;
}

/* One row for each format of scales, so that rules and levels stand side by side. */
static mpt_status check_rule(const checked *c) {
    const mpt_scale_rule_kind rule = c->q->scale_rule.kind;
    switch (c->q->scale_format) {
    case MPT_SCALE_FP32:
        if (rule != MPT_RULE_NEAREST)
            REFUSE(c, "scale_rule", "scales in fp32 are kept as they come",
                   "leave it out, or take scale_format = \"pow2\" or e8m0");
        break;
    case MPT_SCALE_POW2:
        if (rule != MPT_RULE_UP)
            REFUSE(c, "scale_rule", "scales in \"pow2\" are rounded up",
                   "leave it out, or take scale_format = e8m0 for other rules");
        break;
    case MPT_SCALE_E8M0:
        if (rule == MPT_RULE_NEAREST || rule == MPT_RULE_FOUR_OVER_SIX)
            REFUSE(c, "scale_rule", "scales in e8m0 are powers of two, which it does not give",
                   "take \"up\", \"floor\", \"ceil\" or \"even\"");
        break;
    case MPT_SCALE_E4M3:
        if (rule != MPT_RULE_NEAREST && rule != MPT_RULE_FOUR_OVER_SIX)
            REFUSE(c, "scale_rule", "scales in e4m3 are rounded to nearest",
                   "take \"nearest\" or four_over_six, or scale_format = e8m0");
        break;
    }
    return MPT_OK;
}

static mpt_status check_levels(const checked *c) {
    const mpt_quantizer *q = c->q;
    if (q->scale_format != MPT_SCALE_E4M3) {
        if (q->outer != MPT_OUTER_NONE)
            REFUSE(c, "outer", "only scales in e4m3 have a second level",
                   "take outer = \"none\", or scale_format = e4m3");
        return MPT_OK;
    }
    if (q->block_rows == 0 && q->block_cols == 0)
        REFUSE(c, "block", "one e4m3 scale is too coarse for a whole tensor",
               "take block = {1, 16}, or scale_format = fp32");
    if (q->outer == MPT_OUTER_ROW && q->block_rows != 1)
        REFUSE(c, "outer", "a scale a row cannot lie over blocks of several rows",
               "take outer = \"tensor\", or block = {1, 16}");
    return MPT_OK;
}

static mpt_status check_choosing(const checked *c) {
    const mpt_quantizer *q = c->q;
    if (q->scale_rule.kind != MPT_RULE_FOUR_OVER_SIX)
        return MPT_OK;
    if (q->format != MPT_DTYPE_E2M1)
        REFUSE(c, "scale_rule", "four_over_six chooses between two ends of e2m1",
               "take nvfp4, or leave the rule out");
    if (q->outer == MPT_OUTER_NONE)
        REFUSE(c, "outer", "four_over_six chooses under an outer scale",
               "take outer = \"tensor\" or \"row\"");
    if (q->rounding != MPT_ROUNDING_NEAREST)
        REFUSE(c, "rounding", "four_over_six compares elements rounded to nearest",
               "leave rounding out, or the rule");
    if (q->hadamard.size)
        REFUSE(c, "hadamard", "four_over_six takes values that are not rotated",
               "leave hadamard out, or the rule");
    if (q->headroom != 1)
        REFUSE(c, "headroom", "four_over_six chooses its headroom itself",
               "leave headroom out, or the rule");
    return MPT_OK;
}

/* ---- the rotation ---- */

static mpt_status check_hadamard(const checked *c) {
    static const char fault[] = "only random signs have it";
    static const char hint[] = "add signs = \"random\", or leave it out";
    const mpt_hadamard *h = &c->q->hadamard;
    if (!h->size || h->signs == MPT_SIGNS_RANDOM)
        return MPT_OK;
    if (h->scope != MPT_SCOPE_SHARED)
        REFUSE(c, "hadamard.scope", fault, hint);
    if (h->redraw != MPT_REDRAW_NEVER)
        REFUSE(c, "hadamard.redraw", fault, hint);
    if (h->seed != -1)
        REFUSE(c, "hadamard.seed", fault, hint);
    return MPT_OK;
}

/* ---- the whole ---- */

static bool has_elements(mpt_dtype format) {
    return format < MPT_DTYPE_E8M0;
}

mpt_status mpt_quantizer_validate(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                                  mpt_where where) {
    checked c = {ctx, q, path, *path ? "." : "", where};
    if (!has_elements(q->format)) {
        mpt_status status =
            MPT_FAIL(ctx, MPT_UNSUPPORTED, where, "%s%sno kernel quantizes to %s", path,
                     *path ? ": " : "", mpt_dtype_name(q->format));
        mpt_hint(ctx, "take e4m3, mxfp8 or nvfp4");
        return status;
    }
    MPT_TRY(check_format(&c));
    if (mpt_is_wide(q->format))
        return check_wide(&c);
    if (q->scale.kind == MPT_SCALING_NONE)
        REFUSE(&c, "scale", "so few bits need one", "take scale = current {}, or static(1)");
    if (q->scale.kind != MPT_SCALING_CURRENT)
        MPT_TRY(check_given_scale(&c));
    MPT_TRY(check_rule(&c));
    MPT_TRY(check_levels(&c));
    MPT_TRY(check_choosing(&c));
    return check_hadamard(&c);
}
