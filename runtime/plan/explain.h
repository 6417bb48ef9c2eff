/* Why layers compute as they do: every value, and the line and the rule that decided it.
 *
 * explain.c asks the cascade of each phase and puts beside it what was compiled; explain_text.c
 * writes it for a person, explain_json.c for a program. The public call is in explain.c. */
#ifndef MPT_PLAN_EXPLAIN_H
#define MPT_PLAN_EXPLAIN_H

#include "plan/layer_set.h"
#include "plan/plan.h"
#include "recipe/explain.h"

/* One phase that is told of. */
typedef struct mpt_explained_phase {
    const char *name;
    int index;
    int64_t from;
    mpt_cascade cascade;
    mpt_explanation *layers; /* one a layer of the graph; those that are not asked for are 0 */
} mpt_explained_phase;

typedef struct mpt_explained {
    const mpt_program *program;
    const mpt_graph *graph; /* of the first phase told of: all have the same layers */
    mpt_layer_set set;
    int n_phases;
    mpt_explained_phase *phases;
    bool color;
} mpt_explained;

/* The words of an origin. at: "file:line", "host" for a rule without a file, "--set", or
 * "default". by: "precision.rules[2]", with what it goes with: "nvfp4 of precision.rules[2]".
 */
enum { MPT_ORIGIN_TEXT = 512 };
typedef struct mpt_origin_text {
    char at[MPT_ORIGIN_TEXT], by[MPT_ORIGIN_TEXT];
} mpt_origin_text;
void mpt_origin_words(const mpt_explained_phase *phase, const mpt_origin *origin,
                      const char *format, const char *fallback, mpt_origin_text *out);

/* What decides the format of a layer without products where nothing is said of it. */
const char *mpt_compute_default(const mpt_recipe *recipe, mpt_layer_kind kind);

/* Whether a value of an origin is worth a look: a rule says it, in its own words. */
bool mpt_origin_is_said(const mpt_origin *origin);

/* The place of a rule, "host" where it has none. */
void mpt_rule_place(const mpt_rule *rule, char out[MPT_ORIGIN_TEXT]);

void mpt_explain_text(const mpt_explained *explained, mpt_str *out);
mpt_status mpt_explain_json(const mpt_explained *explained, mpt_str *out);

#endif
