/* The rows of a quantizer: element format, blocks, scales, rounding, rotation.
 *
 * One row a word, as in schema_precision.c. What a bare format means stands in quantizer.c,
 * which values go together in quantizer_check.c; kernels/numerics_scale.h has the formulas. */
#include "recipe/schema_rows.h"

#include <float.h>

/* ---- choices ---- */

static const mpt_choice elements[] = {
    {"e4m3", MPT_DTYPE_E4M3, ""}, {"e5m2", MPT_DTYPE_E5M2, ""},
    {"e5m6", MPT_DTYPE_E5M6, ""}, {"e3m2", MPT_DTYPE_E3M2, ""},
    {"e2m3", MPT_DTYPE_E2M3, ""}, {"e2m1", MPT_DTYPE_E2M1, ""},
    {"int8", MPT_DTYPE_INT8, ""}, {NULL, 0, NULL}};
static const mpt_choice blocks[] = {
    {"tensor", BLOCK_VALUE(0, 0), "one scale for the whole tensor"},
    {"row", BLOCK_VALUE(1, 0), "one a row, along the whole dot product"},
    {"1x16", BLOCK_VALUE(1, 16), "16 elements along the dot product, as in NVFP4"},
    {"1x32", BLOCK_VALUE(1, 32), "32 of them, as in the Microscaling formats"},
    {"1x128", BLOCK_VALUE(1, 128), "128 of them, as in DeepSeek-V3"},
    {"16x16", BLOCK_VALUE(16, 16), "a square, so that a weight and its transpose agree"},
    {"32x32", BLOCK_VALUE(32, 32), "a larger one"},
    {"128x128", BLOCK_VALUE(128, 128), "that of DeepSeek-V3's weights"},
    {NULL, 0, NULL}};
static const mpt_choice scale_formats[] = {
    {"fp32", MPT_SCALE_FP32, "the decode scale, unrounded"},
    {"pow2", MPT_SCALE_POW2, "FP32 that holds a power of two"},
    {"e8m0", MPT_SCALE_E8M0, "one byte: a power of two"},
    {"e4m3", MPT_SCALE_E4M3, "one byte, under an outer FP32 scale or none"},
    {NULL, 0, NULL}};
static const mpt_choice rules[] = {
    {"nearest", MPT_RULE_NEAREST, "FP32 as it comes, E4M3 to nearest even"},
    {"up", MPT_RULE_UP, "so that nothing saturates"},
    {"floor", MPT_RULE_FLOOR, "the exponent of the largest element, as in OCP Microscaling"},
    {"ceil", MPT_RULE_CEIL, "that exponent rounded up"},
    {"even", MPT_RULE_EVEN, "that exponent after rounding to the element's precision"},
    {NULL, 0, NULL}};
static const mpt_choice outers[] = {
    {"none", MPT_OUTER_NONE, "no second level"},
    {"tensor", MPT_OUTER_TENSOR, "one FP32 scale a tensor over the block scales"},
    {"row", MPT_OUTER_ROW, "one FP32 scale a row over the block scales"},
    {NULL, 0, NULL}};
static const mpt_choice roundings[] = {
    {"nearest", MPT_ROUNDING_NEAREST, "ties to even"},
    {"stochastic", MPT_ROUNDING_STOCHASTIC, "up or down in proportion to the distance"},
    {"toward_zero", MPT_ROUNDING_TOWARD_ZERO, "what does not fit is cut off"},
    {"half_away", MPT_ROUNDING_HALF_AWAY, "to nearest, ties away from zero"},
    {NULL, 0, NULL}};
static const mpt_choice nonfinites[] = {
    {"propagate", MPT_NONFINITE_PROPAGATE, "they make their block's scale NaN, so they show"},
    {"saturate", MPT_NONFINITE_SATURATE,
     "the codes and scales of Transformer Engine: Inf becomes the largest value, as NaN does "
     "in formats without NaN, and stays NaN in e4m3, e5m2 and e5m6; the scale of a block with "
     "Inf is the largest, so that its decoded values can still overflow"},
    {NULL, 0, NULL}};
static const mpt_choice sources[] = {
    {"original", MPT_SOURCE_ORIGINAL, "the values before quantizing"},
    {"dequantized", MPT_SOURCE_DEQUANTIZED, "the first copy, decoded"},
    {NULL, 0, NULL}};
static const mpt_choice pads[] = {
    {"zero", MPT_PAD_ZERO, "the last block is shorter, as if filled with zeros"},
    {"bf16", MPT_PAD_BF16, "the operand stays in BF16"},
    {"error", MPT_PAD_ERROR, "the recipe is refused"},
    {NULL, 0, NULL}};

/* ---- scale ---- */

static const mpt_choice algos[] = {
    {"max", MPT_AMAX_MAX, "the largest of the window"},
    {"most_recent", MPT_AMAX_MOST_RECENT, "that of the step before"},
    {NULL, 0, NULL}};

const mpt_record mpt_record_current = {"current",
                                       "A scale from the tensor at hand.",
                                       NULL,
                                       0,
                                       SIZE_MAX,
                                       sizeof(mpt_scale_source),
                                       MPT_SCALING_CURRENT};

static const mpt_field delayed_fields[] = {
    {"history", MPT_FIELD_INT, MEMBER(mpt_scale_source, history), 1, 65536,
     .by_default = "1024", .doc = "Steps whose largest magnitudes are kept.",
     .source = "Transformer Engine"},
    {"algo", MPT_FIELD_CHOICE, MEMBER(mpt_scale_source, algo), .choices = algos,
     .by_default = "max", .doc = "Which of the kept magnitudes the scale is made from.",
     .source = "Transformer Engine"},
    {"margin", MPT_FIELD_INT, MEMBER(mpt_scale_source, margin), -64, 64, .by_default = "0",
     .doc = "The scale is divided by 2^margin.", .source = "Transformer Engine"},
    {"headroom", MPT_FIELD_NUMBER, MEMBER(mpt_scale_source, headroom), 0x1p-16, 65536,
     .by_default = "1", .doc = "The scale is divided by it: a margin that is a factor.",
     .source = ""},
    {"reduce_amax", MPT_FIELD_BOOL, MEMBER(mpt_scale_source, reduce_amax), .by_default = "true",
     .doc = "Ranks share the largest of their magnitudes.", .source = "Transformer Engine"},
};
const mpt_record mpt_record_delayed = {
    "delayed",
    "A scale from the magnitudes of earlier steps. The first step, which has none, takes its "
    "own.",
    delayed_fields,
    MPT_COUNT(delayed_fields),
    offsetof(mpt_scale_source, set),
    sizeof(mpt_scale_source),
    MPT_SCALING_DELAYED};

static const mpt_field fixed_fields[] = {
    {"value", MPT_FIELD_NUMBER, MEMBER(mpt_scale_source, value), ABOVE_ZERO, FLT_MAX,
     .by_default = "required", .doc = "What values are multiplied by before they are rounded.",
     .source = "Transformer Engine"},
};
const mpt_record mpt_record_fixed_scale = {
    "static",
    "A quantizer's scale that stays as it is. `e4m3 { scale = static(1) }` is the plain cast.",
    fixed_fields,
    MPT_COUNT(fixed_fields),
    SIZE_MAX,
    sizeof(mpt_scale_source),
    MPT_SCALING_STATIC};

static const mpt_record *const scales[] = {&mpt_record_current, &mpt_record_delayed,
                                           &mpt_record_fixed_scale, NULL};

/* ---- scale_rule ---- */

static const mpt_choice errors[] = {{"mae", MPT_ERROR_MAE, "the sum of magnitudes"},
                                    {"mse", MPT_ERROR_MSE, "the sum of squares"},
                                    {NULL, 0, NULL}};
static const mpt_choice bounds[] = {
    {"256", 256, "the larger scale still fits"}, {"448", 448, ""}, {NULL, 0, NULL}};

static const mpt_field four_over_six_fields[] = {
    {"error", MPT_FIELD_CHOICE, MEMBER(mpt_scale_rule, error), .choices = errors,
     .by_default = "mae", .doc = "What tells the better scale of a block.",
     .source = "arXiv 2512.02010"},
    {"bound", MPT_FIELD_INT, MEMBER(mpt_scale_rule, bound), 256, 448, .choices = bounds,
     .by_default = "256", .doc = "The largest block scale that the outer scale aims at.",
     .source = "Transformer Engine"},
};
const mpt_record mpt_record_four_over_six = {
    "four_over_six",
    "Each block takes the better of two scales: its largest element becomes 6, or 4.",
    four_over_six_fields,
    MPT_COUNT(four_over_six_fields),
    SIZE_MAX,
    sizeof(mpt_scale_rule),
    MPT_RULE_FOUR_OVER_SIX};

static const mpt_record *const choosing_rules[] = {&mpt_record_four_over_six, NULL};

/* ---- hadamard ---- */

static const mpt_choice hadamard_sizes[] = {
    {"2", 2, ""},   {"4", 4, ""},   {"8", 8, ""},     {"16", 16, "as in NVFP4 pretraining"},
    {"32", 32, ""}, {"64", 64, ""}, {"128", 128, ""}, {NULL, 0, NULL}};
static const mpt_choice signs[] = {
    {"fixed", MPT_SIGNS_FIXED, "one sign vector for all layers and steps"},
    {"random", MPT_SIGNS_RANDOM, "drawn from a seed"},
    {"none", MPT_SIGNS_NONE, "the plain Hadamard matrix"},
    {NULL, 0, NULL}};
static const mpt_choice scopes[] = {{"shared", MPT_SCOPE_SHARED, "all layers have the same"},
                                    {"layer", MPT_SCOPE_LAYER, "each layer has its own"},
                                    {NULL, 0, NULL}};
static const mpt_choice redraws[] = {{"never", MPT_REDRAW_NEVER, "once a run"},
                                     {"step", MPT_REDRAW_STEP, "anew at each step"},
                                     {NULL, 0, NULL}};
static const mpt_choice no_hadamard[] = {{"none", 0, "no rotation"}, {NULL, 0, NULL}};

static const mpt_field hadamard_fields[] = {
    {"size", MPT_FIELD_INT, MEMBER(mpt_hadamard, size), 2, 128, .choices = hadamard_sizes,
     .by_default = "16", .doc = "Elements rotated together, a power of two.",
     .source = "arXiv 2509.25149"},
    {"signs", MPT_FIELD_CHOICE, MEMBER(mpt_hadamard, signs), .choices = signs,
     .by_default = "fixed", .doc = "The signs that elements are multiplied by first.",
     .source = "Transformer Engine"},
    {"scope", MPT_FIELD_CHOICE, MEMBER(mpt_hadamard, scope), .choices = scopes,
     .by_default = "shared", .doc = "Which layers share random signs.", .source = ""},
    {"redraw", MPT_FIELD_CHOICE, MEMBER(mpt_hadamard, redraw), .choices = redraws,
     .by_default = "never", .doc = "When random signs are drawn.",
     .source = "arXiv 2505.14669"},
    {"seed", MPT_FIELD_INT, MEMBER(mpt_hadamard, seed), -1, COUNT_MAX, .by_default = "-1",
     .doc = "Keys random signs; -1 takes the seed of the run.", .source = ""},
};
const mpt_record mpt_record_hadamard = {
    "hadamard",
    "A rotation along the dot product before quantizing, on both operands of a GEMM.",
    hadamard_fields,
    MPT_COUNT(hadamard_fields),
    SIZE_MAX,
    sizeof(mpt_hadamard),
    -1};

/* ---- quantizer ---- */

static const mpt_field quantizer_fields[] = {
    {"format", MPT_FIELD_FORMAT, MEMBER(mpt_slot_use, q.format), .choices = elements,
     .by_default = "by format",
     .doc = "The elements of a preset that has a choice: mxfp8 and fp8_block take e4m3 or "
            "e5m2, mxfp6 e3m2 or e2m3.",
     .source = "OCP Microscaling 1.0"},
    {"block", MPT_FIELD_BLOCK, .offset = offsetof(mpt_slot_use, q.block_rows),
     .bytes = 2 * sizeof(int32_t), .choices = blocks, .by_default = "by format",
     .doc = "Elements that share a scale: rows and columns, columns along the dot product.",
     .source = "arXiv 2509.25149"},
    {"scale", MPT_FIELD_RECORD, MEMBER(mpt_slot_use, q.scale), .variants = scales,
     .by_default = "by format",
     .doc = "Where the scale comes from: the tensor at hand (`current {}`), earlier steps "
            "(`delayed { ... }`), or the recipe (`static(x)`). The last two want one scale a "
            "tensor.",
     .source = "Transformer Engine"},
    {"scale_format", MPT_FIELD_FORMAT, MEMBER(mpt_slot_use, q.scale_format),
     .choices = scale_formats, .by_default = "by format",
     .doc = "How a scale is stored: `fp32`; `\"pow2\"`, FP32 that holds a power of two; "
            "`e8m0`, its exponent in one byte; `e4m3`, one byte a block, under an outer scale "
            "or none.",
     .source = "OCP Microscaling 1.0"},
    {"scale_rule", MPT_FIELD_RECORD, MEMBER(mpt_slot_use, q.scale_rule), .choices = rules,
     .variants = choosing_rules, .by_default = "by scale_format",
     .doc = "How a scale is rounded or chosen. With `fp32` scales it is nearest, with "
            "`\"pow2\"` up; `e8m0` takes up, floor, ceil or even, `e4m3` nearest or "
            "four_over_six. Where it is not said it follows scale_format: the first of these.",
     .source = "OCP Microscaling 1.0"},
    {"outer", MPT_FIELD_CHOICE, MEMBER(mpt_slot_use, q.outer), .choices = outers,
     .by_default = "by format",
     .doc = "The second level of scales over block scales in e4m3; other scales have none.",
     .source = "arXiv 2509.25149"},
    {"headroom", MPT_FIELD_NUMBER, MEMBER(mpt_slot_use, q.headroom), 0.0625, 16,
     .by_default = "1",
     .doc = "Factor on the format's largest magnitude, which the largest element is brought "
            "to: 3/4, 16/17.",
     .source = "arXiv 2502.20586"},
    {"rounding", MPT_FIELD_CHOICE, MEMBER(mpt_slot_use, q.rounding), .choices = roundings,
     .by_default = "nearest", .doc = "How elements are rounded; scales follow scale_rule.",
     .source = "arXiv 2509.25149"},
    {"hadamard", MPT_FIELD_RECORD, MEMBER(mpt_slot_use, q.hadamard), .choices = no_hadamard,
     .record = &mpt_record_hadamard, .by_default = "none",
     .doc = "Rotation along the dot product before the amax is taken.",
     .source = "arXiv 2509.25149"},
    {"nonfinite", MPT_FIELD_CHOICE, MEMBER(mpt_slot_use, q.nonfinite), .choices = nonfinites,
     .by_default = "propagate", .doc = "What NaN and Inf become.",
     .source = "Transformer Engine"},
    {"source", MPT_FIELD_CHOICE, MEMBER(mpt_slot_use, q.source), .choices = sources,
     .by_default = "original",
     .doc = "What the second, transposed copy of a tensor is quantized from.",
     .source = "Transformer Engine"},
    {"pad", MPT_FIELD_CHOICE, MEMBER(mpt_slot_use, q.pad), .choices = pads,
     .by_default = "zero", .doc = "Where a dimension is no multiple of the block.",
     .source = "Megatron-LM"},
};
const mpt_record mpt_record_quantizer = {
    "quantizer",
    "How one operand becomes low-precision codes: a format refined by a table.",
    quantizer_fields,
    MPT_COUNT(quantizer_fields),
    offsetof(mpt_slot_use, set),
    sizeof(mpt_slot_use),
    -1};
