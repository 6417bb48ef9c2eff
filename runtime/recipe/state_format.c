/* Formats of states that are more than a word: bf16 { rounding = "stochastic" },
 * e4m3 { block = {1, 128} }.
 *
 * A state is kept as an operand is quantized, by the same fields; what a state cannot have is
 * refused here. The one gate between what can be written down of a state and what
 * quantize_state does. */
#include <stdio.h>
#include <string.h>

#include "kernels/numerics_cast.h"
#include "recipe/schema_store.h"
#include "recipe/use.h"

enum { WORD_MAX = 64 };

mpt_quantizer *mpt_field_refined(const mpt_field *field, void *member) {
    return field->refined ? (void *)((char *)member - offsetof(mpt_quantizer, format)) : NULL;
}

/* ---- what goes together ---- */

/* A field that no state has, by name; NULL where there is none. */
static const char *stray(const mpt_quantizer *q) {
    return q->hadamard.size                          ? "hadamard"
           : q->nonfinite != MPT_NONFINITE_PROPAGATE ? "nonfinite"
           : q->source != MPT_SOURCE_ORIGINAL        ? "source"
           : q->pad != MPT_PAD_ZERO                  ? "pad"
           : q->outer != MPT_OUTER_NONE              ? "outer"
           : q->scale_format == MPT_SCALE_E4M3       ? "scale_format"
           : q->rounding != MPT_ROUNDING_NEAREST && q->rounding != MPT_ROUNDING_STOCHASTIC
               ? "rounding"
               : NULL;
}

/* FP32 is as it is; BF16 has its range and needs no scale; FP16 may have one a tensor. */
static const char *stray_of_wide(const mpt_quantizer *q) {
    bool fp32 = q->format == MPT_DTYPE_FP32;
    bool scaled = q->scale.kind != MPT_SCALING_NONE;
    return fp32 && q->rounding != MPT_ROUNDING_NEAREST ? "rounding"
           : scaled && q->format != MPT_DTYPE_FP16     ? "scale"
           : q->block_rows || q->block_cols            ? "block"
           : q->scale_format > MPT_SCALE_POW2 || (!scaled && q->scale_format != MPT_SCALE_FP32)
               ? "scale_format"
           : q->headroom != 0 && q->headroom != 1 ? "headroom"
                                                  : NULL;
}

static mpt_status refuse(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                         const char *field, mpt_where where) {
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, where,
                                 "%s.%s: a state in %s does not have it", path, field, q->name);
    if (mpt_is_wide(q->format) && q->format == MPT_DTYPE_FP32)
        mpt_hint(ctx, "fp32 holds states as they are; take bf16, fp16 or e4m3");
    else if (strcmp(field, "rounding") == 0)
        mpt_hint(ctx, "take \"nearest\" or \"stochastic\"");
    else
        mpt_hint(ctx, "leave it out; states take rounding%s",
                 mpt_is_wide(q->format) ? ", and fp16 scale = current {}"
                                        : ", block, scale_format, scale_rule and headroom");
    return status;
}

mpt_status mpt_state_format_validate(mpt_ctx *ctx, const mpt_quantizer *q, const char *path,
                                     mpt_where where) {
    bool wide = mpt_is_wide(q->format);
    const char *field = wide ? stray_of_wide(q) : NULL;
    field = field ? field : stray(q);
    if (field)
        return refuse(ctx, q, path, field, where);
    if (q->scale.kind == MPT_SCALING_DELAYED || q->scale.kind == MPT_SCALING_STATIC) {
        mpt_status status =
            MPT_FAIL(ctx, MPT_INVALID, where,
                     "%s.scale: a state is scaled by its own largest element", path);
        mpt_hint(ctx, "take scale = current {}");
        return status;
    }
    return wide ? MPT_OK : mpt_quantizer_validate(ctx, q, path, where);
}

/* ---- text ---- */

/* Copies the next word; false at the end. A word that is too long is cut, and no name. */
static bool next_word(const char **text, char word[WORD_MAX]) {
    const char *from = *text + strspn(*text, " ");
    size_t n = strcspn(from, " ");
    snprintf(word, WORD_MAX, "%.*s", (int)(n < WORD_MAX ? n : WORD_MAX), from);
    *text = from + n;
    return n > 0;
}

/* "rounding=stochastic" into the quantizer. */
static mpt_status set_word(mpt_ctx *ctx, mpt_arena *arena, mpt_slot_use *use, const char *path,
                           char *word, mpt_where where) {
    char *equals = strchr(word, '=');
    if (!equals) {
        mpt_status status =
            MPT_FAIL(ctx, MPT_INVALID, where, "%s: '%s' has no value", path, word);
        mpt_hint(ctx, "write bf16 rounding=stochastic");
        return status;
    }
    *equals = 0;
    mpt_text_setting setting = {path, word, equals + 1, where};
    return mpt_record_set_under(ctx, arena, &mpt_record_quantizer, use, &setting);
}

mpt_status mpt_state_format_parse(mpt_ctx *ctx, mpt_arena *arena, const mpt_field *field,
                                  void *member, const char *path, const mpt_setting *value,
                                  mpt_where where) {
    char word[WORD_MAX], whole[256];
    const char *rest = value->string;
    mpt_setting first = *value;
    mpt_quantizer *q = mpt_field_refined(field, member);
    snprintf(whole, sizeof whole, "%s%s%s", path, *path ? "." : "", field->name);
    (void)next_word(&rest, word);
    first.string = word;
    mpt_dtype format = MPT_DTYPE_FP32;
    mpt_problem problem = mpt_field_store(&(mpt_field){.type = MPT_FIELD_CHOICE,
                                                       .choices = field->choices,
                                                       .bytes = sizeof format},
                                          &format, &first);
    if (problem)
        return mpt_schema_fail_value(ctx, field, problem, path, &first, where);
    mpt_slot_use use;
    (void)mpt_slot_use_by_name(word, &use);
    while (next_word(&rest, word))
        MPT_TRY(set_word(ctx, arena, &use, whole, word, where));
    mpt_slot_use_settle(&use);
    MPT_TRY(mpt_state_format_validate(ctx, &use.q, whole, where));
    *q = use.q;
    return MPT_OK;
}
