/* The rows of precision.ops, one for each word of ops.h. */
#include "recipe/schema_rows.h"

static const mpt_choice WIDE[] = {{"fp32", MPT_DTYPE_FP32, "IEEE single"},
                                  {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},
                                  {"fp16", MPT_DTYPE_FP16, "IEEE half"},
                                  {NULL, 0, NULL}};
static const mpt_choice NARROW[] = {{"fp32", MPT_DTYPE_FP32, "IEEE single"},
                                    {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},
                                    {"fp16", MPT_DTYPE_FP16, "IEEE half"},
                                    {"e4m3", MPT_DTYPE_E4M3, "a plain saturating cast"},
                                    {"e5m2", MPT_DTYPE_E5M2, "a plain saturating cast"},
                                    {NULL, 0, NULL}};

static const mpt_field ops_fields[] = {
#define OPS_FIELD(id, word, formats, otherwise, text)                                          \
    {word,                                                                                     \
     MPT_FIELD_FORMAT,                                                                         \
     MEMBER(mpt_recipe, ops[MPT_OPS_##id].format),                                             \
     .choices = formats,                                                                       \
     .by_default = otherwise,                                                                  \
     .doc = text,                                                                              \
     .source = "PyTorch AMP"},
    MPT_OPS_WORD_LIST(OPS_FIELD)
#undef OPS_FIELD
};

const mpt_record mpt_record_ops = {
    "ops",      "Formats of the operations other than linear layers: the autocast table.",
    ops_fields, MPT_COUNT(ops_fields),
    SIZE_MAX,   0,
    -1};
