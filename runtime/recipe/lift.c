/* Lifts: what stays in BF16 whatever the rules say, for experiments that ask what a quantized
 * layer, product or operand costs.
 *
 * A lift stands in the cascade behind the rules of the recipe and of the phase. It takes
 * nothing but quantizers away: an operand that is a plain cast already stays as it is, so no
 * lift makes anything narrower. A rotation needs both operands of a product, so the other one
 * loses its own. */
#include "recipe/lift.h"

#include <stdio.h>
#include <string.h>

#include "recipe/schema_store.h"
#include "recipe/use.h"

enum { ALL_SLOTS = (1 << MPT_SLOT_COUNT) - 1 };

static uint32_t slots_of(mpt_gemm gemm) {
    mpt_slot slots[2];
    mpt_gemm_slots(gemm, slots);
    return 1U << slots[0] | 1U << slots[1];
}

/* Adds the word to the slots or to the selectors of a lift. */
static mpt_status take_word(mpt_recipe *recipe, const char *word, size_t length, mpt_rule *lift,
                            const char **selectors) {
    const char *copy = mpt_arena_printf(&recipe->arena, "%.*s", (int)length, word);
    if (!copy)
        return MPT_OUT_OF_MEMORY;
    int gemm = mpt_gemm_by_name(copy), slot = mpt_slot_by_name(copy);
    if (gemm >= 0)
        lift->lift |= slots_of((mpt_gemm)gemm);
    else if (slot >= 0)
        lift->lift |= 1U << slot;
    else
        selectors[lift->n_selectors++] = copy;
    return MPT_OK;
}

static mpt_status fail_empty(const mpt_recipe *recipe, mpt_where where) {
    mpt_status status = MPT_FAIL(recipe->ctx, MPT_INVALID, where,
                                 "precision.lift: the text is empty, so nothing is lifted");
    mpt_hint(recipe->ctx, "name layers, products or operands: '*.c_fc', 'wgrad', 'linear "
                          "fprop.x'");
    return status;
}

mpt_status mpt_recipe_append_lift(mpt_recipe *recipe, const char *text, mpt_where where) {
    static const char everything[] = "*";
    size_t most = strlen(text) / 2 + 1; /* words of a text of that length */
    mpt_rule lift = {.where = where, .predicate = -1};
    const char **selectors =
        mpt_arena_alloc(&recipe->arena, mpt_size_mul(most, sizeof(char *)));
    mpt_rule *grown = mpt_arena_grow(&recipe->arena, recipe->lifts, sizeof *grown,
                                     recipe->n_lifts, &recipe->cap_lifts);
    if (!selectors || !grown)
        return MPT_OUT_OF_MEMORY;
    recipe->lifts = grown;
    for (const char *at = text + strspn(text, " "); *at;) {
        size_t length = strcspn(at, " ");
        MPT_TRY(take_word(recipe, at, length, &lift, selectors));
        at += length + strspn(at + length, " ");
    }
    if (lift.n_selectors == 0 && lift.lift == 0)
        return fail_empty(recipe, where);
    if (lift.n_selectors == 0)
        selectors[lift.n_selectors++] = everything;
    lift.selectors = selectors;
    lift.lift = lift.lift ? lift.lift : ALL_SLOTS;
    recipe->lifts[recipe->n_lifts++] = lift;
    return MPT_OK;
}

/* A field of a slot is now decided by a rule. */
static void decide(mpt_layer_state *s, int slot, int field, int rule) {
    s->decider[slot][field] = rule;
}

static void drop_rotation(mpt_layer_state *s, int slot, const mpt_rule *lift, int rule) {
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++) {
        if (mpt_record_quantizer.fields[f].record != &mpt_record_hadamard)
            continue;
        mpt_slot_use none = {.set = UINT64_C(1) << f};
        mpt_slot_use_place(&none, lift->where);
        mpt_slot_use_merge(&s->slot[slot], &none);
        decide(s, slot, f, rule);
    }
}

static void to_bf16(mpt_layer_state *s, int slot, const mpt_rule *lift, int rule) {
    mpt_slot_use bf16 = {.has_format = false};
    (void)mpt_slot_use_by_name("bf16", &bf16);
    mpt_slot_use_place(&bf16, lift->where);
    mpt_slot_use_merge(&s->slot[slot], &bf16);
    s->format_decider[slot] = rule;
    for (int f = 0; f < mpt_record_quantizer.n_fields; f++)
        decide(s, slot, f, rule);
}

void mpt_lift_apply(const mpt_rule *lift, int rule, mpt_layer_state *s) {
    for (int g = 0; g < MPT_GEMM_COUNT; g++) {
        mpt_slot slots[2];
        mpt_gemm_slots((mpt_gemm)g, slots);
        for (int i = 0; i < 2; i++) {
            int slot = (int)slots[i], other = (int)slots[1 - i];
            if (!(lift->lift >> slot & 1) || mpt_quantizer_is_cast(&s->slot[slot].q))
                continue;
            to_bf16(s, slot, lift, rule);
            if (s->slot[other].q.hadamard.size)
                drop_rotation(s, other, lift, rule);
        }
    }
}
