/* Inside stage 3: what check.c shares with checks that have files of their own. */
#ifndef MPT_RECIPE_CHECK_H
#define MPT_RECIPE_CHECK_H

#include "recipe/select.h"

/* X(ENUM, "name", "what it says") in the order they are reported. */
#define MPT_WARNING_LIST(X)                                                                    \
    X(RULE_SHADOWED, "rule-shadowed", "A rule that decides nothing, because later ones do.")   \
    X(NOTHING_QUANTIZED, "nothing-quantized",                                                  \
      "Rules name narrow formats, but every linear layer ends up without one.")                \
    X(NO_EFFECT, "no-effect", "A field that changes no step of this run.")                     \
    X(SR_FORWARD, "sr-forward", "Stochastic rounding in fprop, which is known to diverge.")    \
    X(ALL_FP4, "all-fp4",                                                                      \
      "In every phase each linear layer of the last block multiplies FP4 by FP4.")             \
    X(RHT_FORWARD, "rht-forward", "A Hadamard rotation in fprop, where it costs accuracy.")    \
    X(SHORT_HISTORY, "short-history",                                                          \
      "Delayed scaling with a window under 16 steps: one quiet stretch makes scales too "      \
      "large.")                                                                                \
    X(FP8_SOFTMAX, "fp8-softmax",                                                              \
      "Attention's probabilities in 8 bits: small ones vanish, and their gradients with "      \
      "them.")                                                                                 \
    X(FP8_NORM, "fp8-norm", "What norms put out in 8 bits, under no scale.")                   \
    X(NO_CLIP, "no-clip", "Gradients are not clipped: one bad batch can ruin the weights.")    \
    X(FP16_NO_LOSS_SCALE, "fp16-no-loss-scale",                                                \
      "Something is in FP16 and no loss scale keeps small gradients from vanishing.")          \
    X(LOSS_SCALE_UNUSED, "loss-scale-unused", "A loss scale, but nothing is in FP16.")         \
    X(LOSS_SCALE_BELOW_ONE, "loss-scale-below-one",                                            \
      "A loss scale under 1, which makes small gradients smaller.")                            \
    X(LOW_PRECISION_ACCUMULATE, "low-precision-accumulate",                                    \
      "Long sums whose running value is kept in 16 bits: small terms no longer count.")        \
    X(LOST_UPDATE, "lost-update",                                                              \
      "A state of 16 bits that changes by less than half an ulp a step, and so not at all.")   \
    X(NO_WARMUP, "no-warmup", "The first steps run at the full learning rate.")                \
    X(BINARY_TEXT, "binary-text", "A file that is read as text, byte by byte, and is none.")   \
    X(NOT_NATIVE, "not-native",                                                                \
      "A GEMM that the GPU named by --target has to emulate. Given where a GPU is named.")

typedef enum mpt_warning_kind {
#define MPT_WARNING_ENUM(id, name, doc) MPT_WARNING_##id,
    MPT_WARNING_LIST(MPT_WARNING_ENUM)
#undef MPT_WARNING_ENUM
} mpt_warning_kind;

typedef struct mpt_checker {
    mpt_recipe *recipe;
    mpt_arena *arena;
    mpt_layer_list model;
    mpt_policy *const *policies; /* one list a phase */
    mpt_warning *list;
    int n, cap;
    bool failed; /* out of memory, error set */
} mpt_checker;

/* Adds a warning unless the recipe allows it. */
void mpt_checker_warn(mpt_checker *checker, mpt_warning_kind kind, mpt_where where,
                      const char *fmt, ...) MPT_PRINTF(4, 5);

/* The line of the last deciding rule that speaks of a slot at all. */
mpt_where mpt_checker_blame(mpt_checker *checker, int phase, const mpt_policy *policy,
                            int slot);

/* check_formats.c: what is known to go wrong of operands and of other operations; rules that
 * name narrow formats and leave nothing in them; FP16 and its loss scale. */
void mpt_check_formats(mpt_checker *checker);
void mpt_check_nothing_quantized(mpt_checker *checker);
void mpt_check_loss_scale(mpt_checker *checker);

/* check_effects.c: fields of quantizers that change no step of this model. */
void mpt_check_effects(mpt_checker *checker);

/* What 16 bits are too few for: states that no longer move, sums that no longer grow. */
void mpt_check_numbers(mpt_checker *checker);

#endif
