/* Quantizers by name, and their comparison.
 *
 * A bare name is a number format or a preset of all fields; what a table changes of it comes
 * through the rows of schema_quantizer.c. Next: quantizer_check.c lets combinations through. */
#include "recipe/schema.h"

#include <string.h>

/* ---- names ---- */

#define WIDE(id, text)                                                                         \
    { .name = (text), .format = MPT_DTYPE_##id }

/* One current FP32 scale a tensor. */
#define NARROW(id, text)                                                                       \
    {                                                                                          \
        .name = (text), .format = MPT_DTYPE_##id, .scale.kind = MPT_SCALING_CURRENT,           \
        .headroom = 1                                                                          \
    }

/* Blocks of 32 under powers of two (OCP Microscaling 1.0). */
#define MICROSCALING(id, text)                                                                 \
    {                                                                                          \
        .name = (text), .format = MPT_DTYPE_##id, .block_rows = 1, .block_cols = 32,           \
        .scale.kind = MPT_SCALING_CURRENT, .scale_format = MPT_SCALE_E8M0,                     \
        .scale_rule.kind = MPT_RULE_UP, .headroom = 1                                          \
    }

/* What a bare name means. */
static const mpt_quantizer presets[] = {
    WIDE(FP32, "fp32"),
    WIDE(TF32, "tf32"),
    WIDE(BF16, "bf16"),
    WIDE(FP16, "fp16"),
    NARROW(E4M3, "e4m3"),
    NARROW(E5M2, "e5m2"),
    NARROW(E5M6, "e5m6"),
    NARROW(E3M2, "e3m2"),
    NARROW(E2M3, "e2m3"),
    NARROW(E2M1, "e2m1"),
    NARROW(INT8, "int8"),
    MICROSCALING(E4M3, "mxfp8"),
    MICROSCALING(E3M2, "mxfp6"),
    MICROSCALING(E2M1, "mxfp4"),
    {.name = "nvfp4",
     .format = MPT_DTYPE_E2M1,
     .block_rows = 1,
     .block_cols = 16,
     .scale.kind = MPT_SCALING_CURRENT,
     .scale_format = MPT_SCALE_E4M3,
     .outer = MPT_OUTER_TENSOR,
     .headroom = 1},
    {.name = "fp8_block",
     .format = MPT_DTYPE_E4M3,
     .block_rows = 1,
     .block_cols = 128,
     .scale.kind = MPT_SCALING_CURRENT,
     .headroom = 1},
};
static const char *const names[] = {"fp32",  "tf32",  "bf16",  "fp16",     "e4m3", "e5m2",
                                    "e5m6",  "e3m2",  "e2m3",  "e2m1",     "int8", "mxfp8",
                                    "mxfp6", "mxfp4", "nvfp4", "fp8_block"};
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

mpt_scale_rule mpt_scale_format_rule(mpt_scale_format format) {
    bool power = format == MPT_SCALE_POW2 || format == MPT_SCALE_E8M0;
    return (mpt_scale_rule){.kind = power ? MPT_RULE_UP : MPT_RULE_NEAREST};
}

/* ---- comparison ---- */

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

bool mpt_quantizer_turns(const mpt_quantizer *one, const mpt_quantizer *other) {
    mpt_quantizer turned = *other;
    turned.block_rows = other->block_cols;
    turned.block_cols = other->block_rows;
    turned.source = one->source;
    return one->rounding != MPT_ROUNDING_STOCHASTIC && one->hadamard.size == 0 &&
           mpt_quantizer_equal(one, &turned);
}
