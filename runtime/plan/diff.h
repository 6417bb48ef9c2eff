/* What differs between two compiled recipes: facts, which diff_text.c and diff_json.c write.
 *
 * Training and the recipe's own fields are compared by their canonical text, so that a new
 * field is in the difference from its first day; precision is compared as it was compiled, by
 * layers where both models have the same, else by kinds of layers. The public call is in
 * diff.c. */
#ifndef MPT_PLAN_DIFF_H
#define MPT_PLAN_DIFF_H

#include "plan/layer_set.h"
#include "plan/plan.h"

/* A field and its two values, as people read them; NULL: that side has none. */
typedef struct mpt_diff_row {
    const char *name, *a, *b;
} mpt_diff_row;

typedef struct mpt_diff_rows {
    int n, cap;
    mpt_diff_row *rows;
} mpt_diff_rows;

/* Layers of both models that differ alike: operands, outputs, compute formats. */
typedef struct mpt_diff_group {
    mpt_layer_set set;
    mpt_diff_rows rows;
} mpt_diff_group;

/* Layers of one kind and one side with one precision, where the models differ. */
typedef struct mpt_diff_cover {
    int side; /* 0: a, 1: b */
    mpt_layer_kind kind;
    const char *label;
    const mpt_policy *policy;
    mpt_layer_set set;
} mpt_diff_cover;

/* A stretch of the run: the phase that each side is in. */
typedef struct mpt_diff_pair {
    int phase[2];
    int n_groups, cap_groups;
    mpt_diff_group *groups; /* by layers: same models */
    int n_covers, cap_covers;
    mpt_diff_cover *covers; /* by kinds that differ: other models */
    mpt_diff_rows where;    /* with covers: for each precision its layers in words */
    mpt_diff_rows ways;     /* with covers: operands of precisions that only one side has */
} mpt_diff_pair;

typedef struct mpt_diff {
    mpt_ctx *ctx;
    mpt_arena *arena;
    const mpt_program *side[2];
    bool same_layers; /* both models have the same layers by path and kind */
    mpt_diff_rows model, precision, training;
    int n_proxy; /* fields of the proxy's training that differ; not listed */
    int n_pairs;
    mpt_diff_pair *pairs;
    bool same_schedules;
    bool color;
} mpt_diff;

/* Fills it; ctx, arena and the sides are given. */
mpt_status mpt_diff_collect(mpt_diff *diff);

/* Whether anything is told. */
bool mpt_diff_is_empty(const mpt_diff *diff);

/* Adds a row where the texts differ; they and the name are copied. */
mpt_status mpt_diff_add(const mpt_diff *diff, mpt_diff_rows *rows, const char *name,
                        const char *a, const char *b);

/* diff_fields.c: the recipes' fields and the models. */
mpt_status mpt_diff_fields(mpt_diff *diff);
mpt_status mpt_diff_model(mpt_diff *diff);

/* diff_ops.c: operations, their attributes and initial weights, for models of equal shapes. */
mpt_status mpt_diff_operations(mpt_diff *diff);

/* diff_layers.c: precision, pair of phases by pair. */
mpt_status mpt_diff_layers(mpt_diff *diff, mpt_diff_pair *pair);

void mpt_diff_text(const mpt_diff *diff, mpt_str *out);
mpt_status mpt_diff_json(const mpt_diff *diff, mpt_str *out);

#endif
