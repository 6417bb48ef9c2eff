/* Which layers a rule speaks of: kinds, globs on paths, blocks, predicates.
 *
 * Between freeze.c, which checks what needs no model, and resolve.c, which asks for the layers
 * of one. */
#ifndef MPT_RECIPE_SELECT_H
#define MPT_RECIPE_SELECT_H

#include "recipe/recipe.h"

/* One rule of a cascade and its name in messages: "precision.rules[2]", "phases[1].rules[3]".
 */
typedef struct mpt_cascade_rule {
    mpt_rule *rule;
    int phase; /* -1: the recipe's own */
    int index; /* from 0 in its list; -1: a phase's, or the evaluation's, `use`; -2: a lift */
} mpt_cascade_rule;

/* Rule `i` of those that a phase holds, whose `use` is none of its rules by number. */
mpt_cascade_rule mpt_phase_rule(const mpt_recipe *recipe, int phase, int i);

enum { MPT_RULE_PATH = 64 };
void mpt_rule_path(const mpt_cascade_rule *rule, char out[MPT_RULE_PATH]);

/* The recipe's rules, then the phase's, then the lifts, in order, with room for one more. NULL
 * when out of memory. */
mpt_cascade_rule *mpt_cascade_list(mpt_recipe *recipe, int phase, mpt_arena *arena, int *out_n);

/* The model a cascade is applied to. */
typedef struct mpt_layer_list {
    const mpt_layer *layers;
    int n, n_blocks;
} mpt_layer_list;

/* mpt_recipe_resolve with one more rule laid over all others, as evaluation does; NULL: none.
 */
mpt_status mpt_recipe_resolve_under(mpt_recipe *recipe, int phase, mpt_layer_list model,
                                    mpt_rule *over, mpt_policy *policies);

/* The kind a selector names; MPT_LAYER_KIND_COUNT where it is a glob. */
mpt_layer_kind mpt_selector_kind(const char *selector);

/* Checks the numbers of a blocks selector that need no model: n >= 1, a <= b. */
mpt_status mpt_blocks_check(mpt_ctx *ctx, const mpt_blocks *blocks, const char *path,
                            mpt_where where);

/* "all blocks", "first 2", "range 3 7": as a host writes them. */
void mpt_blocks_print(const mpt_blocks *blocks, mpt_str *out);

/* The path of one part of a fused layer: "layers.8.mixer.q_proj" for its "...qkv_proj". */
void mpt_layer_part_path(const mpt_layer *layer, int part, char *out, size_t size);

/* Sets match[i] for each layer that the rule speaks of. Errors: blocks beyond the model, a glob
 * without any layer or on a part of a fused one, and a rule that matches nothing at all. */
mpt_status mpt_rule_match(mpt_recipe *recipe, const mpt_cascade_rule *rule,
                          const mpt_layer_list *model, bool *match);

/* Errors where first(n) and last(m) of the same layers overlap. */
mpt_status mpt_cascade_overlaps(mpt_ctx *ctx, const mpt_cascade_rule *rules, int n,
                                int n_blocks);

#endif
