/* What a comparison comes to, in words: outcomes and the one line.
 *
 * The bound has one side: a recipe that ends below the base loses nothing. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "report/compare.h"

enum { MOST_NAMED = 4 };

/* ---- what ran ---- */

/* Whether every kind of GEMM of one list is in the other. */
static bool covers(const mpt_gemm_list *list, const mpt_gemm_list *other) {
    for (int i = 0; i < other->n; i++) {
        bool found = false;
        for (int k = 0; k < list->n && !found; k++)
            found = strcmp(list->of[k].gemm, other->of[i].gemm) == 0 &&
                    strcmp(list->of[k].a, other->of[i].a) == 0 &&
                    strcmp(list->of[k].b, other->of[i].b) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* A format of few bits that a name speaks of: "gpt2_fp8" promises fp8. */
static const char *promise_of(const char *name) {
    static const char *const words[] = {"nvfp4", "mxfp4", "mxfp6", "mxfp8", "fp4", "fp6",
                                        "fp8",   "e4m3",  "e5m2",  "e2m1",  "int8"};
    char low[256];
    size_t n = 0;
    for (; name[n] && n < sizeof low - 1; n++)
        low[n] = (char)tolower((unsigned char)name[n]);
    low[n] = 0;
    for (size_t i = 0; i < MPT_COUNT(words); i++)
        if (strstr(low, words[i]))
            return words[i];
    return NULL;
}

/* ---- outcomes ---- */

static mpt_compare_outcome outcome_of(const mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    if (r->n_broke > 0)
        return MPT_COMPARE_BROKE;
    if (i == 0)
        return MPT_COMPARE_BASE;
    if (isnan(r->row.relative_difference))
        return MPT_COMPARE_UNFINISHED;
    if (!(c->options.within >= 0))
        return MPT_COMPARE_MEASURED;
    return r->row.relative_difference <= c->options.within ? MPT_COMPARE_WITHIN
                                                           : MPT_COMPARE_BEYOND;
}

/* "train.lr.peak and 2 more fields" */
static mpt_status find_fields(mpt_comparison *c, int i) {
    mpt_compared *r = &c->recipes[i];
    const mpt_compared_run *a = mpt_compare_first(c, 0), *b = mpt_compare_first(c, i);
    mpt_field_pair pair;
    const char *first = NULL;
    for (int at = 0; mpt_compare_differs(a, b, &at, &pair); r->n_differs++)
        first = first ? first : pair.name;
    if (r->n_differs == 0)
        return MPT_OK;
    r->differs = r->n_differs == 1
                     ? first
                     : mpt_arena_printf(&c->arena, "%s and %d more", first, r->n_differs - 1);
    return r->differs ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* Far above the base somewhere, or broken off: a scale for its losses shows no others. */
static bool is_aside(const mpt_compared *r) {
    bool aside = r->n_broke > 0;
    for (int i = 0; i < r->difference.n; i++)
        aside = aside || r->difference.mean[i] > 1;
    return aside;
}

static mpt_status judge(mpt_comparison *c, int i) {
    mpt_compared *r = &c->recipes[i], *base = &c->recipes[0];
    const mpt_compared_run *run = mpt_compare_first(c, i);
    r->said = promise_of(r->row.recipe);
    if (!r->said && run->own_name && !c->options.sweep) /* lifts have that of the recipe */
        r->said = promise_of(run->own_name);
    r->row.empty_label = r->said && r->row.gemms > 0 && r->row.quantized_gemms == 0;
    r->aside = is_aside(r);
    r->as_base = covers(&r->gemms, &base->gemms) && covers(&base->gemms, &r->gemms);
    r->same_schedule = i > 0 && *r->row.schedule_hash &&
                       strcmp(r->row.schedule_hash, base->row.schedule_hash) == 0;
    r->same_recipe = strcmp(r->row.recipe_hash, base->row.recipe_hash) == 0;
    r->row.outcome = outcome_of(c, i);
    c->order[i] = i;
    return find_fields(c, i);
}

/* ---- the line ---- */

static void say_unfinished(const mpt_comparison *c, const mpt_compared *r, mpt_words *line) {
    if (r->row.n_runs == 0)
        mpt_words_add(line, "%s was not begun", r->row.recipe);
    else if (r->row.n_whole == 0)
        mpt_words_add(line, "%s was ended after %lld of %lld steps", r->row.recipe,
                      (long long)r->reached, (long long)c->planned);
    else
        mpt_words_add(line, "%s has no run to the end of a seed that %s has one of",
                      r->row.recipe, c->recipes[0].row.recipe);
}

/* Where the bound lies in the noise, what else differs, and what did not run. */
static void say_doubts(const mpt_comparison *c, const mpt_compared *r, mpt_words *line) {
    bool near = !isnan(r->row.noise) && r->row.outcome != MPT_COMPARE_MEASURED &&
                fabs(r->row.relative_difference - c->options.within) <= r->row.noise;
    if (near)
        mpt_words_add(line, ": the bound lies in the noise");
    const char *s = r->n_differs == 1 ? "s" : "";
    if (r->differs && r->same_schedule)
        mpt_words_add(line, ", not of precision: %s differ%s", r->differs, s);
    else if (r->differs)
        mpt_words_add(line, ", not of precision alone: %s differ%s, too", r->differs, s);
    if (r->row.empty_label)
        mpt_words_add(line, ", but 0 quantized GEMMs ran");
}

static void say_recipe(const mpt_comparison *c, int i, mpt_words *line) {
    const mpt_compared *r = &c->recipes[i];
    const char *base = c->recipes[0].row.recipe;
    char words[MPT_COMPARE_WORDS], bound[MPT_COMPARE_PERCENT];
    mpt_compare_words(r->row.relative_difference, r->row.noise, words);
    mpt_compare_bound(c->options.within, bound);
    switch (r->row.outcome) {
    case MPT_COMPARE_BROKE:
        mpt_words_add(line, "%s broke off after %lld steps", r->row.recipe,
                      (long long)r->stopped_at);
        return;
    case MPT_COMPARE_UNFINISHED:
        say_unfinished(c, r, line);
        return;
    case MPT_COMPARE_WITHIN:
        mpt_words_add(line, "%s is within %s of %s (%s)", r->row.recipe, bound, base, words);
        break;
    case MPT_COMPARE_BEYOND:
        mpt_words_add(line, "%s is not within %s of %s (%s)", r->row.recipe, bound, base,
                      words);
        break;
    default:
        mpt_words_add(line, "%s ends %s from %s", r->row.recipe, words, base);
    }
    say_doubts(c, r, line);
}

/* The base, where something is wrong with it. */
static void say_base(const mpt_comparison *c, mpt_words *line) {
    const mpt_compared *base = &c->recipes[0];
    if (base->row.outcome == MPT_COMPARE_BROKE)
        say_recipe(c, 0, line);
    else if (base->row.n_whole == 0)
        say_unfinished(c, base, line);
    else if (base->row.empty_label)
        mpt_words_add(line, "%s ran 0 quantized GEMMs", base->row.recipe);
}

static bool is_wrong(const mpt_comparison_row *row) {
    return row->outcome == MPT_COMPARE_BROKE || row->outcome == MPT_COMPARE_BEYOND ||
           row->empty_label;
}

/* Where there are many, those that went wrong are named first. */
static void say(mpt_comparison *c) {
    mpt_words line = {.len = 0};
    int n = 0;
    say_base(c, &line);
    for (int wrong = 1; wrong >= 0; wrong--)
        for (int i = 1; i < c->n; i++) {
            if (is_wrong(&c->recipes[i].row) != wrong)
                continue;
            if (n++ >= MOST_NAMED)
                continue;
            mpt_words_add(&line, "%s", line.len ? "; " : "");
            say_recipe(c, i, &line);
        }
    if (n > MOST_NAMED)
        mpt_words_add(&line, "; and %d more", n - MOST_NAMED);
    if (line.len == 0)
        mpt_words_add(&line, "%s alone: there is nothing to compare it with yet",
                      c->recipes[0].row.recipe);
    snprintf(c->verdict, sizeof c->verdict, "%s", line.data);
}

mpt_status mpt_compare_judge(mpt_comparison *c) {
    for (int i = 0; i < c->n; i++)
        MPT_TRY(judge(c, i));
    MPT_TRY(mpt_compare_note(c));
    if (c->options.sweep && c->n > 1)
        mpt_compare_judge_sweep(c);
    else
        say(c);
    return MPT_OK;
}
