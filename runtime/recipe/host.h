/* Between host.c (rules, phases) and host_model.c (the model, what calls back into the host).
 */
#ifndef MPT_RECIPE_HOST_H
#define MPT_RECIPE_HOST_H

#include "recipe/recipe.h"

/* Fails where the recipe was compiled already; `what` is to be changed. */
mpt_status mpt_host_check_open(mpt_recipe *recipe, const char *what);

/* Gives the rule the function of its description, which has one. */
mpt_status mpt_host_add_predicate(mpt_recipe *recipe, const mpt_rule_desc *desc,
                                  mpt_rule *rule);

#endif
