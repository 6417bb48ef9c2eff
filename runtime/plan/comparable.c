/* Whether two programs can be held against each other: all that a comparison of precision must
 * not change is the same. What differs of the rest is told, and does not hinder. */
#include <stdio.h>
#include <string.h>

#include "mpt/compare.h"
#include "plan/diff.h"

/* What can be set for both on a command line is said; a model cannot. */
static void hint(mpt_ctx *ctx, const char *name) {
    static const char lead[] =
        "recipes are compared that differ in precision alone: derive both "
        "from one recipe";
    if (strncmp(name, "train.", strlen("train.")) == 0 ||
        strncmp(name, "data.", strlen("data.")) == 0)
        mpt_hint(ctx, "%s, or set it for both by --set %s=...", lead, name);
    else if (strcmp(name, "data") == 0)
        mpt_hint(ctx, "%s, or give both the same file by --data", lead);
    else
        mpt_hint(ctx, "%s, which says the model of both", lead);
}

static mpt_status fail(const mpt_program *base, const mpt_program *other, const char *name,
                       const char *a, const char *b) {
    mpt_status status =
        MPT_FAIL(base->ctx, MPT_INVALID, other->recipe->where,
                 "%s: %s of %s cannot be compared with %s of %s", name, b ? b : "none",
                 other->recipe->name, a ? a : "none", base->recipe->name);
    hint(base->ctx, name);
    return status;
}

static mpt_status fail_count(const mpt_program *base, const mpt_program *other,
                             const char *name, int64_t a, int64_t b) {
    char one[32], two[32];
    snprintf(one, sizeof one, "%lld", (long long)a);
    snprintf(two, sizeof two, "%lld", (long long)b);
    return fail(base, other, name, one, two);
}

/* Initial weights are keyed by seed and name, and follow from shape and distribution. */
static mpt_status check_params(const mpt_program *base, const mpt_program *other) {
    const mpt_graph *a = base->phases[0]->graph, *b = other->phases[0]->graph;
    if (a->n_params != b->n_params)
        return fail_count(base, other, "number of parameters", a->n_params, b->n_params);
    for (int i = 0; i < a->n_params; i++) {
        const mpt_param *p = &a->params[i], *q = &b->params[i];
        const mpt_value *v = &a->values[p->value], *w = &b->values[q->value];
        bool same = v->rank == w->rank;
        for (int d = 0; same && d < v->rank; d++)
            same = v->dims[d] == w->dims[d];
        if (strcmp(p->name, q->name) != 0)
            return fail(base, other, "parameters", p->name, q->name);
        if (!same)
            return fail(base, other, "shape of a parameter", p->name, q->name);
        if (p->init.kind != q->init.kind || p->init.a != q->init.a || p->init.b != q->init.b)
            return fail(base, other, "initial values", p->name, q->name);
    }
    return MPT_OK;
}

static mpt_status check_training(const mpt_program *base, const mpt_program *other) {
    const mpt_train *a = &base->train, *b = &other->train;
    if (a->batch != b->batch)
        return fail_count(base, other, "train.batch", a->batch, b->batch);
    if (a->sequence != b->sequence)
        return fail_count(base, other, "train.sequence", a->sequence, b->sequence);
    if (a->steps != b->steps)
        return fail_count(base, other, "train.steps", a->steps, b->steps);
    const char *data = mpt_program_get_info(base).data,
               *same = mpt_program_get_info(other).data;
    return strcmp(data, same) == 0 ? MPT_OK : fail(base, other, "data", data, same);
}

static bool is_data(const mpt_diff_row *row) {
    return strncmp(row->name, "data", strlen("data")) == 0;
}

/* Data that a host gave takes the place of what the recipes say of theirs. */
static mpt_status check_rows(const mpt_diff *diff) {
    const mpt_program *a = diff->side[0], *b = diff->side[1];
    if (diff->model.n > 0)
        return fail(a, b, diff->model.rows[0].name, diff->model.rows[0].a,
                    diff->model.rows[0].b);
    for (int i = 0; i < diff->training.n; i++) {
        const mpt_diff_row *row = &diff->training.rows[i];
        if (is_data(row) && !(a->data_given && b->data_given))
            return fail(a, b, row->name, row->a, row->b);
    }
    return MPT_OK;
}

static mpt_status tell(const mpt_diff *diff, mpt_write_fn note, void *ud) {
    for (int i = 0; i < diff->training.n; i++) {
        const mpt_diff_row *row = &diff->training.rows[i];
        if (is_data(row) || strcmp(row->name, "train.seed") == 0)
            continue;
        const char *line =
            mpt_arena_printf(diff->arena, "%s differs, too: %s in %s, %s in %s\n", row->name,
                             row->a ? row->a : "none", diff->side[0]->recipe->name,
                             row->b ? row->b : "none", diff->side[1]->recipe->name);
        if (!line)
            return MPT_OUT_OF_MEMORY;
        if (!note(ud, line, strlen(line)))
            return MPT_FAIL(diff->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    }
    return MPT_OK;
}

static mpt_status compare(mpt_diff *diff, mpt_write_fn note, void *ud) {
    MPT_TRY(check_training(diff->side[0], diff->side[1]));
    MPT_TRY(mpt_diff_collect(diff));
    MPT_TRY(check_rows(diff));
    MPT_TRY(check_params(diff->side[0], diff->side[1]));
    return tell(diff, note, ud);
}

mpt_status mpt_program_comparable(const mpt_program *base, const mpt_program *other,
                                  mpt_write_fn note, void *ud) {
    mpt_arena arena;
    MPT_REQUIRE_OBJECT(base);
    MPT_REQUIRE(base->ctx, other);
    MPT_REQUIRE(base->ctx, note);
    mpt_arena_init(&arena, base->ctx);
    mpt_diff diff = {.ctx = base->ctx, .arena = &arena, .side = {base, other}};
    mpt_status status = compare(&diff, note, ud);
    mpt_arena_deinit(&arena);
    return status;
}
