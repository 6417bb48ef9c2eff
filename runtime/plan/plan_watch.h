/* What a run saves, watches and counts, for the writers of a plan. */
#ifndef MPT_PLAN_PLAN_WATCH_H
#define MPT_PLAN_PLAN_WATCH_H

#include <jansson.h>

#include "recipe/recipe.h"

/* Three lines of text: checkpoint, watch, telemetry. */
void mpt_plan_print_watch(const mpt_train *train, mpt_str *out);

/* Whether a path of the defaults stands in those lines. */
bool mpt_plan_watch_has(const char *path);

/* Members of plan.json's train, with the values that hold; NULL: there was no memory. */
json_t *mpt_plan_checkpoint_json(const mpt_train *train);
json_t *mpt_plan_watch_json(const mpt_train *train);
json_t *mpt_plan_telemetry_json(const mpt_train *train);

#endif
