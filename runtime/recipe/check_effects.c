/* Stage 3: fields of quantizers that are said, and change no step of this model.
 *
 * `source` is about the second copy of a tensor, `pad` about sizes that blocks do not divide.
 * Each is told once, where it had no effect on any layer in any phase. */
#include "recipe/check.h"
#include "recipe/use.h"

/* Where a field was said in vain. */
typedef struct place {
    int phase, layer;
    mpt_slot slot;
    const char *why;
} place;

/* A field that was said: whether it ever did something, and where it first did not. */
typedef struct finding {
    bool works, idle;
    place first;
} finding;

static void note(finding *f, bool works, const place *at) {
    f->works = f->works || works;
    if (!works && !f->idle)
        f->first = *at;
    f->idle = f->idle || !works;
}

/* The slots that read a tensor along its rows, and along its columns. */
static void look_at_source(finding *f, const mpt_policy *policy, place at) {
    static const mpt_slot copies[3][2] = {{MPT_SLOT_FPROP_X, MPT_SLOT_WGRAD_X},
                                          {MPT_SLOT_FPROP_W, MPT_SLOT_DGRAD_W},
                                          {MPT_SLOT_DGRAD_DY, MPT_SLOT_WGRAD_DY}};
    static const char *const of_second[] = {
        "it is of the second copy of a tensor, which wgrad.x is",
        "it is of the second copy of a tensor, which dgrad.w is",
        "it is of the second copy of a tensor, which wgrad.dy is"};
    for (size_t k = 0; k < MPT_COUNT(copies); k++) {
        const mpt_quantizer *row = &policy->slot[copies[k][0]];
        const mpt_quantizer *column = &policy->slot[copies[k][1]];
        bool of_row = row->source == MPT_SOURCE_DEQUANTIZED, same = false;
        bool of_column = column->source == MPT_SOURCE_DEQUANTIZED;
        if (!of_row && !of_column)
            continue;
        at.slot = copies[k][of_column ? 1 : 0];
        if (!of_column)
            at.why = of_second[k];
        else if (mpt_quantizer_is_cast(row))
            at.why = "the first copy is not quantized";
        else if ((same = mpt_quantizer_turns(row, column)))
            at.why = "both copies of the tensor hold the same numbers";
        note(f, of_column && !same && !mpt_quantizer_is_cast(row), &at);
    }
}

static void look_at_pad(finding *f, const mpt_policy *policy, place at) {
    for (int s = 0; s < MPT_SLOT_COUNT; s++) {
        bool fell = policy->fallback[s].from != NULL;
        at.slot = (mpt_slot)s;
        at.why = "the blocks divide all sizes, so that nothing stays in bf16";
        if (fell || policy->slot[s].pad == MPT_PAD_BF16)
            note(f, fell, &at);
    }
}

static void tell(mpt_checker *c, const finding *f, const char *field) {
    const place *at = &f->first;
    if (!f->idle || f->works)
        return;
    const mpt_policy *policy = &c->policies[at->phase][at->layer];
    mpt_checker_warn(c, MPT_WARNING_NO_EFFECT,
                     mpt_checker_blame(c, at->phase, policy, (int)at->slot), "%s.%s.%s: %s",
                     c->model.layers[at->layer].path, mpt_slot_name(at->slot), field, at->why);
}

void mpt_check_effects(mpt_checker *c) {
    finding source = {.idle = false}, pad = {.idle = false};
    for (int p = 0; p < c->recipe->n_phases; p++)
        for (int i = 0; i < c->model.n; i++) {
            place at = {.phase = p, .layer = i};
            if (!mpt_layer_has_gemms(c->model.layers[i].kind))
                continue;
            look_at_source(&source, &c->policies[p][i], at);
            look_at_pad(&pad, &c->policies[p][i], at);
        }
    tell(c, &source, "source");
    tell(c, &pad, "pad");
}
