/* The rows of precision: gemm, rules, phases, state, and the recipe itself. Those of a
 * quantizer stand in schema_quantizer.c.
 *
 * One row a word. Setter, checks, suggestions, --set and the reference come from the rows, so a
 * row whose value changed nothing in a run would be a lie: only what works stands here. */
#include "recipe/schema_rows.h"

#define PROMOTE_MAX 0x1p30

/* ---- choices ---- */

#define WIDE_FORMATS                                                                           \
    {"fp32", MPT_DTYPE_FP32, "IEEE single"}, {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},      \
        {"fp16", MPT_DTYPE_FP16, "IEEE half"}, {                                               \
        NULL, 0, NULL                                                                          \
    }

static const mpt_choice wide_formats[] = {WIDE_FORMATS};
static const mpt_choice moment_formats[] = {
    {"fp32", MPT_DTYPE_FP32, "IEEE single"}, {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},
    {"fp16", MPT_DTYPE_FP16, "IEEE half"},   {"e4m3", MPT_DTYPE_E4M3, "8 bits"},
    {"e5m2", MPT_DTYPE_E5M2, "8 bits"},      {NULL, 0, NULL}};
static const mpt_choice saved_formats[] = {{"fp32", MPT_DTYPE_FP32, "IEEE single"},
                                           {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},
                                           {"fp16", MPT_DTYPE_FP16, "IEEE half"},
                                           {"e5m6", MPT_DTYPE_E5M6, "12 bits, as DeepSeek-V3"},
                                           {"e4m3", MPT_DTYPE_E4M3, "8 bits"},
                                           {"e5m2", MPT_DTYPE_E5M2, "8 bits"},
                                           {NULL, 0, NULL}};
static const mpt_choice base_formats[] = {{"fp32", MPT_DTYPE_FP32, "IEEE single"},
                                          {"tf32", MPT_DTYPE_TF32, "10 mantissa bits"},
                                          {"bf16", MPT_DTYPE_BF16, "8 exponent bits"},
                                          {"fp16", MPT_DTYPE_FP16, "IEEE half"},
                                          {NULL, 0, NULL}};
/* ---- gemm ---- */

#define SLOT_ROW(word, values, text)                                                           \
    {                                                                                          \
        word, MPT_FIELD_SPECIAL, NO_MEMBER, .by_default = "as the rules before say",           \
                                            .doc = text, .source = "", .takes = values         \
    }
#define OPERAND_ROW(word, text) SLOT_ROW(word, "a format, or a table of quantizer fields", text)
#define PRODUCT_ROW(word, text) SLOT_ROW(word, "a table of the fields of " word, text)
#define OUTPUT_ROW(text)                                                                       \
    {                                                                                          \
        "output", MPT_FIELD_FORMAT, NO_MEMBER,                                                 \
            .choices = wide_formats,                                                           \
            .by_default = "precision.base; fp32 for the head's logits", .doc = text,           \
            .source = ""                                                                       \
    }
#define ACCUMULATE_ROW(text)                                                                   \
    {                                                                                          \
        "accumulate", MPT_FIELD_FORMAT, NO_MEMBER,                                             \
            .choices = wide_formats, .by_default = "fp32",                                     \
            .doc = "The format of " text                                                       \
                   ": rounded to nearest even after each 16 products along the dot product.",  \
            .source = "arXiv 2412.19437, section 3.3.2"                                        \
    }
#define PROMOTE_ROW(text)                                                                      \
    {                                                                                          \
        "promote", MPT_FIELD_INT, NO_MEMBER,                                                   \
            .min = MPT_SUM_GROUP, .max = PROMOTE_MAX, .by_default = "none",                    \
            .doc = "Products, a multiple of 16, after which " text                             \
                   " is added to a total in FP32 and starts again from zero.",                 \
            .source = "DeepSeek-V3, arXiv 2412.19437: 128"                                     \
    }
#define SUM_ROWS ACCUMULATE_ROW("its running sum"), PROMOTE_ROW("its running sum")
#define HADAMARD_ROW                                                                           \
    SLOT_ROW("hadamard", "hadamard { ... }, or \"none\"",                                      \
             "Rotates both operands of this GEMM, so that the product stays.")

static const mpt_field gemm_fields[] = {
    OPERAND_ROW("weight", "The weight, in fprop and in dgrad."),
    OPERAND_ROW("activation", "The input, in fprop and in wgrad."),
    OPERAND_ROW("gradient", "The gradient of the output, in dgrad and in wgrad."),
    PRODUCT_ROW("fprop", "Fields of the forward product y = x W^T alone."),
    PRODUCT_ROW("dgrad", "Fields of the input gradient dx = dy W alone."),
    PRODUCT_ROW("wgrad", "Fields of the weight gradient dW = dy^T x alone."),
    OUTPUT_ROW("The format of y and of dx; dW takes that of the gradients."),
    ACCUMULATE_ROW("the running sums of all three products"),
    PROMOTE_ROW("the running sum of each product"),
};
static const mpt_field fprop_fields[] = {
    OPERAND_ROW("x", "The activation; the dot product runs along in features."),
    OPERAND_ROW("w", "The weight."), HADAMARD_ROW, OUTPUT_ROW("The format of y."), SUM_ROWS};
static const mpt_field dgrad_fields[] = {
    OPERAND_ROW("dy", "The gradient; the dot product runs along out features."),
    OPERAND_ROW("w", "The weight."), HADAMARD_ROW, OUTPUT_ROW("The format of dx."), SUM_ROWS};
static const mpt_field wgrad_fields[] = {
    OPERAND_ROW("dy", "The gradient; the dot product runs along tokens."),
    OPERAND_ROW("x", "The activation."), HADAMARD_ROW, SUM_ROWS};

const mpt_record mpt_record_gemm = {
    "gemm",      "The precision of a linear layer: three products, two operands each.",
    gemm_fields, MPT_COUNT(gemm_fields),
    SIZE_MAX,    0,
    -1};
const mpt_record mpt_record_fprop = {
    "fprop", "The forward product.", fprop_fields, MPT_COUNT(fprop_fields), SIZE_MAX, 0, -1};
const mpt_record mpt_record_dgrad = {"dgrad",
                                     "The product that gives the input's gradient.",
                                     dgrad_fields,
                                     MPT_COUNT(dgrad_fields),
                                     SIZE_MAX,
                                     0,
                                     -1};
const mpt_record mpt_record_wgrad = {"wgrad",
                                     "The product that gives the weight's gradient.",
                                     wgrad_fields,
                                     MPT_COUNT(wgrad_fields),
                                     SIZE_MAX,
                                     0,
                                     -1};

/* ---- rules and phases ---- */

#define SPECIAL_ROW(word, fallback, values, text)                                              \
    {                                                                                          \
        word, MPT_FIELD_SPECIAL, NO_MEMBER, .by_default = fallback, .doc = text, .source = "", \
                                            .takes = values                                    \
    }

static const mpt_field rule_fields[] = {
    SPECIAL_ROW("blocks", "all", "a block selector",
                "Blocks it speaks of: first(n), last(n), range(a,b), every(k), "
                "last_fraction(f), only{...}."),
    SPECIAL_ROW("gemms", "all three", "a list of names",
                "Products it speaks of, out of fprop, dgrad, wgrad."),
    SPECIAL_ROW("where", "none", "a function of the layer",
                "A function of the layer, called once a layer."),
    SPECIAL_ROW("use", "required", "a format, or gemm { ... }",
                "A format, a gemm, or for other layers a compute format."),
};
const mpt_record mpt_record_rule = {
    "rule",      "What layers of a kind or a path use; a later rule wins over an earlier one.",
    rule_fields, MPT_COUNT(rule_fields),
    SIZE_MAX,    0,
    -1};

/* A phase's start is two members side by side, read as one span. */
_Static_assert(offsetof(mpt_phase, from_is_fraction) - offsetof(mpt_phase, from) ==
                   offsetof(mpt_span, fraction) - offsetof(mpt_span, value),
               "mpt_phase.from and from_is_fraction lie like an mpt_span");

static const mpt_choice counted_steps[] = {
    {"attempted", MPT_BY_ATTEMPTED, "all steps"},
    {"applied", MPT_BY_APPLIED, "those that changed the weights, so not the skipped ones"},
    {NULL, 0, NULL}};

static const mpt_field phase_fields[] = {
    {"from", MPT_FIELD_SPAN, .offset = offsetof(mpt_phase, from), .bytes = sizeof(mpt_span),
     .min = 0, .max = COUNT_MAX, .by_default = "0",
     .doc = "Where the phase starts: a step, or with a decimal point a fraction of the run.",
     .source = ""},
    {"steps", MPT_FIELD_INT, MEMBER(mpt_phase, steps), .min = 0, .max = COUNT_MAX,
     .by_default = "none", .doc = "Instead of from: starts after so many steps.", .source = ""},
    {"tokens", MPT_FIELD_NUMBER, MEMBER(mpt_phase, tokens), .min = 0, .max = 1e18,
     .by_default = "none",
     .doc = "Instead of from: starts after so many tokens, rounded up to steps.", .source = ""},
    {"by", MPT_FIELD_CHOICE, MEMBER(mpt_phase, by), .choices = counted_steps,
     .by_default = "attempted",
     .doc = "Which steps the start counts. Of several phases whose start has come, the last "
            "runs.",
     .source = ""},
    SPECIAL_ROW("use", "none", "a format, or gemm { ... }",
                "Short for a rule over all linear layers, in front of the phase's own."),
    SPECIAL_ROW("rules", "none", "a list of rule { ... }",
                "Rules added after the recipe's own while the phase runs."),
    {"warm_histories", MPT_FIELD_BOOL, MEMBER(mpt_phase, warm_histories), .by_default = "false",
     .doc = "Operands that enter delayed scaling here have their magnitudes recorded all "
            "through the phase before, at a pass over each of them; else they take current "
            "scales at their first step.",
     .source = ""},
};
const mpt_record mpt_record_phase = {
    "phase",
    "A part of the run with a precision of its own, over the same weights.",
    phase_fields,
    MPT_COUNT(phase_fields),
    offsetof(mpt_phase, set),
    sizeof(mpt_phase),
    -1};

/* ---- precision ---- */

#define SCALE_ROW(word, member, fallback, text, tool)                                          \
    {                                                                                          \
        word, MPT_FIELD_NUMBER, MEMBER(mpt_loss_scale, member),                                \
            .min = ABOVE_ZERO, .max = 0x1p64, .by_default = fallback, .doc = text,             \
            .source = "PyTorch"                                                                \
    }

static const mpt_field static_fields[] = {
    {"scale", MPT_FIELD_NUMBER, MEMBER(mpt_loss_scale, scale), .min = ABOVE_ZERO, .max = 0x1p64,
     .by_default = "required",
     .doc = "The loss is multiplied by it before backward, gradients divided by it after.",
     .source = "arXiv 1710.03740"},
};
const mpt_record mpt_record_static = {"static",
                                      "A loss scale that stays as it is.",
                                      static_fields,
                                      MPT_COUNT(static_fields),
                                      SIZE_MAX,
                                      sizeof(mpt_loss_scale),
                                      MPT_LOSS_SCALE_STATIC};

static const mpt_field dynamic_fields[] = {
    SCALE_ROW("init", init, "65536", "The first step's scale.", "PyTorch"),
    {"growth", MPT_FIELD_NUMBER, MEMBER(mpt_loss_scale, growth), .min = ABOVE_ONE, .max = 1e6,
     .by_default = "2", .doc = "The scale is multiplied by it after interval good steps.",
     .source = "PyTorch"},
    {"backoff", MPT_FIELD_NUMBER, MEMBER(mpt_loss_scale, backoff), .min = ABOVE_ZERO,
     .max = BELOW_ONE, .by_default = "0.5",
     .doc = "The scale is multiplied by it after a step whose gradients were not finite, which "
            "is skipped.",
     .source = "PyTorch"},
    {"interval", MPT_FIELD_INT, MEMBER(mpt_loss_scale, interval), .min = 1, .max = COUNT_MAX,
     .by_default = "2000", .doc = "Good steps in a row before the scale grows.",
     .source = "PyTorch"},
    SCALE_ROW("min", min, "1", "The scale falls no lower.", "Megatron-LM"),
    SCALE_ROW("max", max, "16777216", "The scale grows no higher.", ""),
    {"hysteresis", MPT_FIELD_INT, MEMBER(mpt_loss_scale, hysteresis), .min = 1,
     .max = COUNT_MAX, .by_default = "1",
     .doc = "The scale falls at the last of so many skipped steps, and at each one after it; a "
            "growth of the scale starts the count again.",
     .source = "Megatron-LM"},
};
const mpt_record mpt_record_dynamic = {
    "dynamic",
    "A loss scale that falls where gradients overflow and grows again where they do not.",
    dynamic_fields,
    MPT_COUNT(dynamic_fields),
    SIZE_MAX,
    sizeof(mpt_loss_scale),
    MPT_LOSS_SCALE_DYNAMIC};

static const mpt_record *const loss_scales[] = {&mpt_record_static, &mpt_record_dynamic, NULL};

#define STATE_ROW(member, from, text)                                                          \
    {                                                                                          \
#member, MPT_FIELD_FORMAT, MEMBER(mpt_recipe, state.member),                           \
            .choices = wide_formats, .by_default = "fp32", .doc = text, .source = from         \
    }
#define KEPT_ROW(member, formats, from, text)                                                  \
    {                                                                                          \
#member, MPT_FIELD_FORMAT, MEMBER(mpt_recipe, state.member.format),                    \
            .choices = formats, .by_default = "fp32", .doc = text, .source = from,             \
            .refined = true                                                                    \
    }

static const mpt_field state_fields[] = {
    KEPT_ROW(master, wide_formats, "Megatron-LM: --main-params-dtype",
             "The weights that the optimizer updates: it computes in FP32 and rounds the new "
             "weight to nearest even, or as `bf16 { rounding = \"stochastic\" }` says, which "
             "loses no update on average. `fp16 { scale = current {} }` has a scale a tensor. "
             "Initial weights are rounded too, to nearest."),
    STATE_ROW(gradient, "Megatron-LM: --main-grads-dtype",
              "Gradients: the sum over micro-batches is rounded to nearest even after each "
              "addition to it."),
    STATE_ROW(reduce, "Megatron-LM: --grad-reduce-in-bf16",
              "What a rank sends to be added up over ranks: the step's gradient is rounded to "
              "it once, before it is measured; fp32 sends it as it is."),
    KEPT_ROW(adam_m, moment_formats, "arXiv 2412.19437, 2310.18313, 2410.19313",
             "AdamW's first moments as they are kept: the step uses the new FP32 moment, then "
             "it is rounded to nearest even, or as the format's fields say: `rounding = "
             "\"stochastic\"`; of `e4m3` and `e5m2`, which have a scale of the tensor at hand, "
             "`block = {1, 128}`, `scale_format`."),
    KEPT_ROW(adam_v, moment_formats, "arXiv 2412.19437, 2310.18313, 2410.19313",
             "AdamW's second moments as they are kept, in the same way. Plain `fp16` loses "
             "squares below 3e-8; `fp16 { scale = current {} }` has a scale a tensor, as in "
             "MS-AMP."),
    {"residual", MPT_FIELD_FORMAT, MEMBER(mpt_recipe, residual), .choices = wide_formats,
     .by_default = "precision.base", .doc = "The stream between blocks.",
     .source = "Megatron-LM"},
    {"activation", MPT_FIELD_FORMAT, MEMBER(mpt_recipe, activation), .choices = saved_formats,
     .by_default = "as computed",
     .doc = "What is kept of activations for the backward pass of layers other than linear: a "
            "plain saturating cast. Linear layers keep their operands.",
     .source = "arXiv 2410.19313"},
};
const mpt_record mpt_record_state = {"state",
                                     "Formats of what lives longer than a layer.",
                                     state_fields,
                                     MPT_COUNT(state_fields),
                                     offsetof(mpt_recipe, state_set),
                                     0,
                                     -1};

static const mpt_field precision_fields[] = {
    {"base", MPT_FIELD_FORMAT, MEMBER(mpt_recipe, base), .choices = base_formats,
     .by_default = "bf16",
     .doc = "The format where no rule speaks. With `tf32` the operands of linear layers are "
            "rounded to it; what they put out and all else is in fp32.",
     .source = "Megatron-LM"},
    SPECIAL_ROW("rules", "none", "a list of rule { ... }",
                "In order; a later rule wins over an earlier one."),
    {"state", MPT_FIELD_RECORD, .offset = 0, .bytes = 0, .record = &mpt_record_state,
     .by_default = "all fp32", .doc = "Formats of what lives longer than a layer.",
     .source = ""},
    {"ops", MPT_FIELD_RECORD, .offset = 0, .bytes = 0, .record = &mpt_record_ops,
     .by_default = "the autocast table",
     .doc = "Formats of the operations other than linear layers.", .source = "PyTorch AMP"},
    {"loss_scale", MPT_FIELD_RECORD, MEMBER(mpt_recipe, loss_scale), .variants = loss_scales,
     .by_default = "none",
     .doc = "Keeps small FP16 gradients from vanishing: static(1024) or dynamic { }.",
     .source = "arXiv 1710.03740"},
};
const mpt_record mpt_record_precision = {"precision",
                                         "Which format holds what.",
                                         precision_fields,
                                         MPT_COUNT(precision_fields),
                                         offsetof(mpt_recipe, precision_set),
                                         0,
                                         -1};

/* ---- recipe ---- */

static const mpt_field recipe_fields[] = {
    {"version", MPT_FIELD_INT, NO_MEMBER, .min = 1, .max = 1, .by_default = "1",
     .doc = "Of the recipe language.", .source = ""},
    {"name", MPT_FIELD_STRING, MEMBER(mpt_recipe, name), .by_default = "the file's name",
     .doc = "Names the run's folder.", .source = ""},
    {"description", MPT_FIELD_STRING, MEMBER(mpt_recipe, description), .by_default = "none",
     .doc = "For readers.", .source = ""},
    SPECIAL_ROW("model", "required", "a model with its size",
                "What is trained: nemotron_h \"12b\"."),
    SPECIAL_ROW("proxy", "none", "a model with its size",
                "A small model that stands for the full one on this machine."),
    {"precision", MPT_FIELD_RECORD, .offset = 0, .bytes = 0, .record = &mpt_record_precision,
     .by_default = "bf16", .doc = "Which format holds what.", .source = ""},
    SPECIAL_ROW("phases", "one", "a list of phase { ... }", "Precision over time."),
    {"train", MPT_FIELD_RECORD, MEMBER(mpt_recipe, train), .record = &mpt_record_train,
     .by_default = "required", .doc = "Length, batch, optimizer, learning rate.", .source = ""},
    {"data", MPT_FIELD_RECORD, MEMBER(mpt_recipe, data), .variants = mpt_data_records,
     .by_default = "synthetic", .doc = "Where tokens come from.", .source = ""},
    SPECIAL_ROW("allow", "none", "a list of names of warnings",
                "Names of warnings to keep quiet."),
};
const mpt_record mpt_record_recipe = {"recipe",
                                      "One training run, declared.",
                                      recipe_fields,
                                      MPT_COUNT(recipe_fields),
                                      SIZE_MAX,
                                      0,
                                      -1};
