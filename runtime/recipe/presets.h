/* Whole precision methods by name, for hosts and for --set: ("precision", "nvfp4").
 *
 * lua/presets.lua says the same for recipes, where each rule has a line that people can read; a
 * test holds the two together by the recipes' hashes. */
#ifndef MPT_RECIPE_PRESETS_H
#define MPT_RECIPE_PRESETS_H

#include "recipe/recipe.h"

typedef struct mpt_preset {
    const char *name, *place, *doc; /* "nvfp4", "presets.nvfp4" */
    const mpt_set *sets;  /* fields below `precision`; ends with a NULL path; may be NULL */
    const char *use;      /* of the one rule, on "linear": a format ... */
    const mpt_set *words; /* ... or its parts, ending with a NULL path; NULL: no rule */
} mpt_preset;

const mpt_preset *mpt_preset_all(int *out_n);

/* Replaces the precision of the recipe, rules and all, by that of the preset; rules of phases
 * stay. An unknown name is an error. */
mpt_status mpt_recipe_use_preset(mpt_recipe *recipe, const char *name, mpt_where where);

#endif
