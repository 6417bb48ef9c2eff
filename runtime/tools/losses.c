/* Values that do not come back as numbers: counted, and told. See losses.h. */
#include "tools/losses.h"

#include <string.h>

#include "plan/text.h"

static bool is_finite_bits(uint32_t magnitude) {
    return magnitude < MPT_INF_BITS;
}

/* The magnitude's bits of a value as FP32. */
static uint32_t magnitude_at(const mpt_tool_values *values, int64_t i) {
    return values->x ? mpt_abs_bits(values->x[i]) : ((uint32_t)values->bf16[i] & 0x7FFFu) << 16;
}

/* Doubles that are finite and that FP32 has only as Inf. */
static uint64_t count_beyond(const mpt_stored_tensor *tensor) {
    static const uint64_t exponent = UINT64_C(0x7FF) << 52;
    const unsigned char *data = tensor->data;
    uint64_t n = 0;
    for (int64_t i = 0; i < tensor->elements; i++) {
        uint64_t bits;
        float x;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        mpt_stored_tensor_floats(tensor, i, 1, &x);
        n += (bits & exponent) != exponent && !is_finite_bits(mpt_abs_bits(x));
    }
    return n;
}

mpt_tool_losses mpt_tool_losses_of(const mpt_stored_tensor *tensor,
                                   const mpt_tool_values *values, const float *decoded) {
    uint64_t nonfinite = 0, became = 0;
#pragma omp parallel for schedule(static) reduction(+ : nonfinite, became)
    for (int64_t i = 0; i < tensor->elements; i++) {
        bool was = is_finite_bits(magnitude_at(values, i));
        nonfinite += !was;
        became += was && !is_finite_bits(mpt_abs_bits(decoded[i]));
    }
    mpt_tool_losses losses = {.nonfinite = nonfinite, .became = became};
    if (nonfinite && tensor->type == MPT_TENSOR_F64)
        losses.beyond = count_beyond(tensor);
    return losses;
}

static const char *are(uint64_t n) {
    return n == 1 ? "is" : "are";
}

void mpt_tool_losses_note(mpt_ctx *ctx, const mpt_stored_tensor *tensor,
                          const mpt_tool_losses *losses, float amax, bool scaled) {
    char name[512];
    mpt_words words = {.len = 0};
    uint64_t stored = losses->nonfinite - losses->beyond;
    if (!losses->nonfinite && !losses->became)
        return;
    mpt_plain(name, sizeof name, tensor->name);
    if (stored)
        mpt_words_add(&words, "%llu of its values %s NaN or Inf", (unsigned long long)stored,
                      are(stored));
    if (losses->beyond)
        mpt_words_add(&words, "%s%llu of its values %s finite, but beyond FP32: Inf",
                      stored ? "; " : "", (unsigned long long)losses->beyond,
                      are(losses->beyond));
    if (losses->nonfinite && losses->became)
        mpt_words_add(&words, "; %llu more became NaN or Inf with their blocks",
                      (unsigned long long)losses->became);
    else if (losses->became)
        mpt_words_add(&words,
                      scaled
                          ? "%llu of its values %s finite, but NaN or Inf as decoded: beside "
                            "its largest value, %.3g, the product of code and scales leaves "
                            "FP32"
                          : "%llu of its values %s finite, but Inf as rounded: its largest "
                            "value, %.3g, is beyond the format",
                      (unsigned long long)losses->became, are(losses->became), (double)amax);
    mpt_log(ctx, MPT_LOG_WARNING, "tensor '%s': %s", name, words.data);
}
