/* What is kept in BF16 over all rules, for a layer on its way through the cascade (resolve.c).
 */
#ifndef MPT_RECIPE_LIFT_H
#define MPT_RECIPE_LIFT_H

#include "recipe/resolve.h"

/* `text` is words: layers as rules select them, products ("wgrad"), operands ("fprop.x").
 * Without layers all of them are meant, without products and operands all six operands. */
mpt_status mpt_recipe_append_lift(mpt_recipe *recipe, const char *text, mpt_where where);

/* Lays a lift over the layer; `rule` is its index in the cascade. */
void mpt_lift_apply(const mpt_rule *lift, int rule, mpt_layer_state *state);

#endif
