/* A comparison's life: the runs are read, checked against each other, summed up, judged. The
 * calls of mpt/compare.h. */
#include "report/compare.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- the caller's list ---- */

static mpt_status check_run(mpt_ctx *ctx, const mpt_compare_run *runs, int i, int n) {
    if (!runs[i].folder || runs[i].recipe < 0 || runs[i].recipe >= n)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_comparison_create: runs[%d] has no folder, or recipe %d is not "
                        "from 0 to %d",
                        i, runs[i].recipe, n - 1);
    if (runs[i].not_begun && !runs[i].name)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_comparison_create: runs[%d] is not begun and has no name", i);
    return MPT_OK;
}

/* With recipes that are found in the plans, all but the folders is found there. */
static mpt_status check_runs(mpt_ctx *ctx, const mpt_compare_run *runs, int n, bool find,
                             int *out_n) {
    int most = -1;
    for (int i = 0; i < n; i++) {
        MPT_TRY(check_run(ctx, runs, i, n));
        if (find && runs[i].not_begun)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                            "mpt_comparison_create: runs[%d] is not begun, so that its recipe "
                            "cannot be found in its plan",
                            i);
        most = runs[i].recipe > most ? runs[i].recipe : most;
        for (int k = 0; k < i && !find; k++)
            if (runs[k].recipe == runs[i].recipe && runs[k].seed == runs[i].seed)
                return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                                "mpt_comparison_create: runs[%d] and runs[%d] are of the same "
                                "recipe and seed",
                                k, i);
    }
    if (find)
        return MPT_OK;
    for (int r = 0; r <= most; r++) {
        bool there = false;
        for (int i = 0; i < n; i++)
            there = there || runs[i].recipe == r;
        if (!there)
            return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                            "mpt_comparison_create: no run is of recipe %d", r);
    }
    *out_n = most + 1;
    return MPT_OK;
}

/* ---- life ---- */

/* What a run left without a step may have been killed before its first one. */
static void look_begun(const mpt_comparison *c, mpt_compared_run *run) {
    if (c->opened && run->steps.n == 0 && !run->ended)
        run->begun = false;
}

static mpt_status fill(mpt_comparison *c, const mpt_compare_run *runs) {
    c->runs = mpt_arena_alloc(&c->arena, mpt_size_mul((size_t)c->n_runs, sizeof *c->runs));
    if (!c->runs)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_runs; i++) {
        MPT_TRY(mpt_compare_read(c->ctx, &c->arena, &runs[i], &c->runs[i]));
        look_begun(c, &c->runs[i]);
    }
    if (c->options.find_recipes)
        MPT_TRY(mpt_compare_find(c));
    c->recipes = mpt_arena_alloc(&c->arena, mpt_size_mul((size_t)c->n, sizeof *c->recipes));
    c->order = mpt_arena_alloc(&c->arena, mpt_size_mul((size_t)c->n, sizeof *c->order));
    if (!c->recipes || !c->order)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_compare_check(c));
    MPT_TRY(mpt_compare_sum(c));
    return mpt_compare_judge(c);
}

mpt_status mpt_comparison_make(mpt_ctx *ctx, const mpt_compare_run *runs, int n_runs,
                               const mpt_compare_options *options, bool opened,
                               mpt_comparison **out) {
    int n = n_runs;
    MPT_TRY(check_runs(ctx, runs, n_runs, options->find_recipes, &n));
    mpt_comparison *c = mpt_alloc(ctx, sizeof *c);
    if (!c)
        return mpt_fail_memory(ctx, sizeof *c);
    c->ctx = ctx;
    c->options = *options;
    c->opened = opened;
    c->n_runs = n_runs;
    c->n = n;
    mpt_arena_init(&c->arena, ctx);
    mpt_status status = fill(c, runs);
    if (status == MPT_OK)
        *out = c;
    else
        mpt_comparison_destroy(c);
    return status;
}

mpt_status mpt_comparison_create(mpt_ctx *ctx, const mpt_compare_run *runs, int n_runs,
                                 const mpt_compare_options *options, mpt_comparison **out) {
    mpt_compare_options o = MPT_COMPARE_OPTIONS_INIT;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, runs);
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    if (n_runs < 1 || n_runs > INT_MAX / 2)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: n_runs is %d, expected 1 or more",
                        __func__, n_runs);
    if (isnan(o.within))
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: options.within is no number",
                        __func__);
    return mpt_comparison_make(ctx, runs, n_runs, &o, false, out);
}

void mpt_comparison_destroy(mpt_comparison *comparison) {
    if (!comparison)
        return;
    mpt_arena_deinit(&comparison->arena);
    mpt_free(comparison->ctx, comparison);
}

/* ---- what is asked of it ---- */

bool mpt_comparison_get(const mpt_comparison *comparison, int index, mpt_comparison_row *out) {
    if (!comparison || !out || index < 0 || index >= comparison->n)
        return false;
    *out = comparison->recipes[comparison->order[index]].row;
    return true;
}

const char *mpt_comparison_verdict(const mpt_comparison *comparison) {
    return comparison ? comparison->verdict : NULL;
}

mpt_status mpt_comparison_print(const mpt_comparison *comparison, bool json, mpt_write_fn write,
                                void *ud) {
    mpt_str text;
    MPT_REQUIRE_OBJECT(comparison);
    MPT_REQUIRE(comparison->ctx, write);
    mpt_ctx *ctx = comparison->ctx;
    mpt_status status = MPT_OK;
    mpt_str_init(&text, ctx);
    if (json)
        status = mpt_compare_json(comparison, &text);
    else
        mpt_compare_text(comparison, &text);
    if (status == MPT_OK && text.failed)
        status = mpt_fail_memory(ctx, text.cap);
    if (status == MPT_OK && !write(ud, text.data, text.len))
        status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&text);
    return status;
}
