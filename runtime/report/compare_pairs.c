/* Which runs belong together: by recipe where nobody has said it, and whether they can be held
 * against each other at all. */
#include <math.h>
#include <string.h>

#include "report/compare.h"

/* ---- fields ---- */

static const char *value_of(const mpt_compared_run *run, const char *name) {
    for (int i = 0; i < run->n_fields; i++)
        if (strcmp(run->fields[i].name, name) == 0)
            return run->fields[i].value;
    return NULL;
}

static bool is_seed(const char *name) {
    return strcmp(name, "train.seed") == 0 || strcmp(name, "train.proxy.seed") == 0;
}

static bool is_data(const char *name) {
    return strncmp(name, "data", strlen("data")) == 0;
}

/* Of a run that is not begun, or that an older build has planned, nothing is known. */
static bool devices_differ(const mpt_compared_run *a, const mpt_compared_run *b) {
    return *a->device && *b->device && strcmp(a->device, b->device) != 0;
}

const char *mpt_compare_device(const mpt_comparison *c) {
    const mpt_compared_run *first = NULL;
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i];
        first = first || !*run->device ? first : run;
        if (first && devices_differ(first, run))
            return NULL;
    }
    return first ? first->device : NULL;
}

bool mpt_compare_devices_differ(const mpt_comparison *c) {
    for (int i = 0; i < c->n_runs; i++)
        if (*c->runs[i].device)
            return !mpt_compare_device(c);
    return false;
}

bool mpt_compare_differs(const mpt_compared_run *a, const mpt_compared_run *b, int *at,
                         mpt_field_pair *out) {
    if (*at == 0) {
        *at = 1;
        *out = (mpt_field_pair){"the device", a->device, b->device};
        if (devices_differ(a, b))
            return true;
    }
    if (a->n_fields == 0 || b->n_fields == 0)
        return false; /* of the one nothing is known */
    while (*at <= a->n_fields + b->n_fields) {
        int i = (*at)++ - 1;
        bool own = i < a->n_fields;
        const char *name = own ? a->fields[i].name : b->fields[i - a->n_fields].name;
        const char *one = value_of(a, name), *other = value_of(b, name);
        bool told = !own && one; /* with the fields of a */
        if (told || is_seed(name) || is_data(name) || (one && other && !strcmp(one, other)))
            continue;
        *out = (mpt_field_pair){name, one, other};
        return true;
    }
    return false;
}

/* ---- recipes that nobody has numbered ---- */

static bool is_same_recipe(const mpt_compared_run *a, const mpt_compared_run *b) {
    int at = 0;
    mpt_field_pair pair;
    return strcmp(a->name, b->name) == 0 && strcmp(a->model, b->model) == 0 &&
           strcmp(a->schedule_hash, b->schedule_hash) == 0 && a->planned == b->planned &&
           !mpt_compare_differs(a, b, &at, &pair);
}

/* The recipe of run i among those before it; one that has this seed already is another. */
static int find_recipe(const mpt_comparison *c, int i, int n_recipes) {
    for (int r = 0; r < n_recipes; r++) {
        bool fits = true;
        for (int k = 0; k < i && fits; k++)
            fits = c->runs[k].recipe != r || (c->runs[k].seed != c->runs[i].seed &&
                                              is_same_recipe(&c->runs[k], &c->runs[i]));
        if (fits)
            return r;
    }
    return n_recipes;
}

mpt_status mpt_compare_find(mpt_comparison *c) {
    c->n = 0;
    for (int i = 0; i < c->n_runs; i++) {
        c->runs[i].seed = c->runs[i].own_seed;
        c->runs[i].recipe = find_recipe(c, i, c->n);
        c->n += c->runs[i].recipe == c->n;
    }
    /* Names that two recipes have tell nothing; their folders do. */
    for (int i = 0; i < c->n_runs; i++) {
        bool taken = false;
        for (int k = 0; k < c->n_runs && !taken; k++)
            taken = c->runs[k].recipe != c->runs[i].recipe &&
                    strcmp(c->runs[k].own_name, c->runs[i].own_name) == 0;
        if (taken)
            c->runs[i].name = c->runs[i].folder;
    }
    return MPT_OK;
}

/* ---- runs that belong together ---- */

static mpt_status fail_apart(mpt_ctx *ctx, const mpt_compared_run *a, const mpt_compared_run *b,
                             const char *what) {
    mpt_status status =
        MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE, "%s and %s: %s", a->folder, b->folder, what);
    mpt_hint(ctx, "runs are compared that differ in precision alone");
    return status;
}

/* Paths may be those of other machines; what they lead to is told by its windows and by its
 * entropy. */
static bool has_same_data(const mpt_compared_run *a, const mpt_compared_run *b) {
    for (int i = 0; i < a->n_fields && b->n_fields > 0; i++) {
        const mpt_compared_field *f = &a->fields[i];
        const char *other = value_of(b, f->name);
        bool is_path = strcmp(f->name, "data.path") == 0 ||
                       strncmp(f->name, "data.files", strlen("data.files")) == 0;
        if (is_data(f->name) && !is_path && other && strcmp(f->value, other) != 0)
            return false;
    }
    if (strcmp(a->windows, b->windows) != 0)
        return false;
    return isnan(a->unigram) || isnan(b->unigram) ? strcmp(a->source, b->source) == 0
                                                  : a->unigram == b->unigram;
}

static mpt_status check_pair(mpt_ctx *ctx, const mpt_compared_run *a,
                             const mpt_compared_run *b) {
    if (strcmp(a->model, b->model) != 0 || a->parameters != b->parameters)
        return fail_apart(ctx, a, b, "these runs trained different models");
    if (a->planned != b->planned)
        return fail_apart(ctx, a, b, "these runs have different numbers of steps");
    if (!has_same_data(a, b))
        return fail_apart(ctx, a, b, "these runs were trained on different data");
    int n = a->steps.n < b->steps.n ? a->steps.n : b->steps.n;
    for (int i = 0; i < n; i++)
        if (a->steps.at[i].step == b->steps.at[i].step &&
            a->steps.at[i].tokens != b->steps.at[i].tokens)
            return fail_apart(ctx, a, b, "these runs saw different numbers of tokens a step");
    return MPT_OK;
}

/* Seeds of one recipe are one row. */
static mpt_status check_seeds(mpt_ctx *ctx, const mpt_compared_run *a,
                              const mpt_compared_run *b) {
    if (!devices_differ(a, b))
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE,
                                 "%s and %s: these seeds of one recipe were trained on "
                                 "different devices, %s and %s, so that no mean and no speed "
                                 "is of both",
                                 a->folder, b->folder, a->device, b->device);
    mpt_hint(ctx, "name the folders of the runs: mptrun compare tells their devices apart");
    return status;
}

mpt_status mpt_compare_check(const mpt_comparison *c) {
    const mpt_compared_run *first = mpt_compare_first(c, -1);
    for (int i = 0; i < c->n_runs; i++)
        if (c->runs[i].begun && &c->runs[i] != first)
            MPT_TRY(check_pair(c->ctx, first, &c->runs[i]));
    for (int i = 0; i < c->n_runs; i++)
        MPT_TRY(check_seeds(c->ctx, mpt_compare_first(c, c->runs[i].recipe), &c->runs[i]));
    return MPT_OK;
}

const mpt_compared_run *mpt_compare_first(const mpt_comparison *c, int recipe) {
    const mpt_compared_run *first = NULL;
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i];
        if ((recipe < 0 || run->recipe == recipe) && (!first || (run->begun && !first->begun)))
            first = run;
    }
    return first;
}
