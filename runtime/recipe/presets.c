/* The presets' fields and rules, in the words that hosts write: see presets.h. */
#include "recipe/presets.h"

#include <string.h>

#include "recipe/schema_store.h"

#define FIELDS(...)                                                                            \
    (const mpt_set[]) {                                                                        \
        __VA_ARGS__, {                                                                         \
            NULL, NULL                                                                         \
        }                                                                                      \
    }

/* E4M3 forward, E5M2 for gradients, all under scales of one kind. */
#define HYBRID(fields)                                                                         \
    FIELDS({"weight", "e4m3" fields}, {"activation", "e4m3" fields},                           \
           {"gradient", "e5m2" fields})

/* Squares for weights, stochastic gradients, a rotation in wgrad. */
#define FOUR_BIT(format, edge)                                                                 \
    FIELDS({"weight", format " block=" edge "x" edge}, {"activation", format},                 \
           {"gradient", format " rounding=stochastic"},                                        \
           {"wgrad", "hadamard.size=" edge " hadamard.signs=fixed"})

/* A preset's rule has no line; in messages it stands as presets.NAME. */
#define PRESET(word, text, ...)                                                                \
    { .name = (word), .place = "presets." word, .doc = (text), __VA_ARGS__ }

static const mpt_preset presets[] = {
    PRESET("fp32", "Everything in single precision: norms and the residual stream too.",
           .sets = FIELDS({"base", "fp32"})),
    PRESET("tf32", "Operands of linear layers rounded to TF32, all else in single precision.",
           .sets = FIELDS({"base", "tf32"})),
    PRESET("fp16",
           "FP16 over FP32 master weights, under a loss scale that finds itself (arXiv "
           "1710.03740).",
           .sets = FIELDS({"base", "fp16"}, {"loss_scale", "dynamic"})),
    PRESET("bf16", "BF16 over FP32 master weights and gradients (arXiv 1905.12322).",
           .sets = FIELDS({"base", "bf16"})),
    PRESET("fp8_delayed",
           "E4M3 forward, E5M2 for gradients, scales from the steps before (DelayedScaling of "
           "Transformer Engine).",
           .words = HYBRID(" scale=delayed scale.history=1024 scale.algo=max scale.margin=0")),
    PRESET("fp8_current",
           "E4M3 forward, E5M2 for gradients, one current scale a tensor "
           "(Float8CurrentScaling of Transformer Engine).",
           .words = HYBRID(" scale=current")),
    PRESET("deepseek_v3",
           "E4M3 everywhere, a scale for each 128 elements and 128x128 weights, sums promoted "
           "every 128 products, moments in BF16 (arXiv 2412.19437).",
           .sets = FIELDS({"state.adam_m", "bf16"}, {"state.adam_v", "bf16"}),
           .words = FIELDS({"weight", "fp8_block block=128x128"}, {"activation", "fp8_block"},
                           {"gradient", "fp8_block"}, {"promote", "128"})),
    PRESET("mxfp8", "MXFP8 in all three products, E4M3 for gradients too (arXiv 2506.08027).",
           .use = "mxfp8"),
    PRESET("mxfp4",
           "MXFP4 in all three products: 32x32 weights, stochastic gradients, wgrad rotated by "
           "32 (the counterpart in arXiv 2509.25149).",
           .words = FOUR_BIT("mxfp4", "32")),
    PRESET("nvfp4",
           "NVFP4 in all three products: 16x16 weights, stochastic gradients, wgrad rotated by "
           "16 (arXiv 2509.25149). No block is kept higher.",
           .words = FOUR_BIT("nvfp4", "16")),
};

const mpt_preset *mpt_preset_all(int *out_n) {
    *out_n = (int)MPT_COUNT(presets);
    return presets;
}

/* Gives every field of a record, and of the records that are views of it, the value that it has
 * in another struct. */
static void copy_fields(const mpt_record *record, void *to, const void *from) {
    for (int i = 0; i < record->n_fields; i++) {
        const mpt_field *field = &record->fields[i];
        if (field->offset == SIZE_MAX)
            continue;
        if (field->bytes == 0)
            copy_fields(field->record, to, from);
        else
            memcpy((char *)to + field->offset, (const char *)from + field->offset,
                   field->bytes);
    }
}

/* The precision of a recipe that says nothing of it. */
static mpt_status forget_precision(mpt_recipe *recipe) {
    mpt_recipe *fresh;
    MPT_TRY(mpt_recipe_new(recipe->ctx, "fresh", NULL, &fresh));
    copy_fields(&mpt_record_precision, recipe, fresh);
    mpt_recipe_destroy(fresh);
    recipe->n_rules = 0;
    recipe->base_where = MPT_NOWHERE;
    return MPT_OK;
}

static mpt_status apply(mpt_recipe *recipe, const mpt_preset *preset) {
    for (const mpt_set *set = preset->sets; set && set->path; set++)
        MPT_TRY(mpt_record_set_path(recipe->ctx, &recipe->arena, &mpt_record_precision, recipe,
                                    set->path, set->value, MPT_NOWHERE));
    mpt_rule_desc rule = {.size = sizeof rule,
                          .file = preset->place,
                          .selector = "linear",
                          .use = preset->use,
                          .words = preset->words};
    while (rule.words && rule.words[rule.n_words].path)
        rule.n_words++;
    return rule.use || rule.words ? mpt_recipe_add_rule(recipe, &rule) : MPT_OK;
}

mpt_status mpt_recipe_use_preset(mpt_recipe *recipe, const char *name, mpt_where where) {
    const char *names[MPT_COUNT(presets)];
    for (size_t i = 0; i < MPT_COUNT(presets); i++) {
        names[i] = presets[i].name;
        if (strcmp(name, names[i]) != 0)
            continue;
        MPT_TRY(forget_precision(recipe));
        return apply(recipe, &presets[i]);
    }
    mpt_status status =
        MPT_FAIL(recipe->ctx, MPT_INVALID, where, "precision: no preset '%.100s'", name);
    const char *near = mpt_nearest(name, names, (int)MPT_COUNT(names));
    mpt_hint(recipe->ctx, near ? "did you mean '%s'?" : "for instance '%s'",
             near ? near : "nvfp4");
    return status;
}
