/* What a comparison comes to, in words: outcomes, the one line, and what a reader must know
 * before he believes it.
 *
 * The bound has one side: a recipe that ends below the base loses nothing. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"
#include "report/compare.h"

enum { MOST_NAMED = 4 };

/* ---- words ---- */

/* Two digits that count, one to four of them behind the point: "+12.3 %", "+0.74 %". Nothing
 * but zero is told as zero. */
static void percent(double x, char out[32]) {
    double size = fabs(100 * x);
    int digits = size >= 0.995 ? 1 : size >= 0.0995 || size == 0 ? 2 : size >= 0.00995 ? 3 : 4;
    snprintf(out, 32, "%+.*f %%", digits, 100 * x);
}

void mpt_compare_words(double difference, double noise, char out[MPT_COMPARE_WORDS]) {
    char one[32], other[32] = "";
    percent(difference, one);
    if (!isnan(noise)) {
        percent(noise, other);
        other[0] = ' '; /* its sign */
    }
    snprintf(out, MPT_COMPARE_WORDS, "%s%s%s", one, *other ? " +-" : "", other);
}

/* A share or a bound without a sign: "1 %", "0.5 %". */
static void bare_percent(double x, char out[32]) {
    snprintf(out, 32, "%.3g %%", 100 * x);
}

/* ---- what ran ---- */

static void pair_name(const mpt_gemms_ran *row, char out[64]) {
    snprintf(out, 64, "%s%s%s", row->a, strcmp(row->a, row->b) ? " x " : "",
             strcmp(row->a, row->b) ? row->b : "");
}

bool mpt_gemm_list_pair(const mpt_gemm_list *list, int index, char name[64],
                        uint64_t *out_runs) {
    char other[64];
    for (int i = 0; i < list->n; i++) {
        bool seen = false;
        pair_name(&list->of[i], name);
        for (int k = 0; k < i && !seen; k++) {
            pair_name(&list->of[k], other);
            seen = strcmp(name, other) == 0;
        }
        if (seen || index-- > 0)
            continue;
        *out_runs = 0;
        for (int k = i; k < list->n; k++) {
            pair_name(&list->of[k], other);
            *out_runs += strcmp(name, other) == 0 ? list->of[k].runs : 0;
        }
        return true;
    }
    return false;
}

void mpt_gemm_list_text(const mpt_gemm_list *list, char *out, size_t size) {
    char name[64];
    uint64_t runs, all = 0;
    size_t used = 0;
    for (int i = 0; i < list->n; i++)
        all += list->of[i].runs;
    snprintf(out, size, "%s", all > 0 ? "" : "unknown");
    for (int i = 0; mpt_gemm_list_pair(list, i, name, &runs) && used < size; i++)
        if (runs > 0 && all > 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s %.1f %%", used ? ", " : "",
                                     name, 100 * (double)runs / (double)all);
}

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

/* ---- flags ---- */

static mpt_status flag(mpt_comparison *c, int recipe, const char *text) {
    if (!text)
        return MPT_OUT_OF_MEMORY;
    c->flags[c->n_flags++] = (mpt_compare_flag){recipe, text};
    return MPT_OK;
}

static mpt_status flag_labels(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    const mpt_comparison_row *row = &r->row, *base = &c->recipes[0].row;
    char ran[256];
    if (row->gemms == 0 || row->quantized_gemms > 0)
        return MPT_OK;
    mpt_gemm_list_text(&r->gemms, ran, sizeof ran);
    if (r->said)
        return flag(c, i,
                    mpt_arena_printf(&c->arena,
                                     "%s: its name says %s, but 0 quantized GEMMs ran: %s "
                                     "(recipe hash %s, that of %s is %s)",
                                     row->recipe, r->said, ran, row->recipe_hash, base->recipe,
                                     base->recipe_hash));
    if (i == 0 || !r->as_base)
        return MPT_OK;
    return flag(c, i,
                mpt_arena_printf(&c->arena,
                                 "%s: 0 quantized GEMMs ran, all in the formats of %s: %s "
                                 "(recipe hashes %s and %s)",
                                 row->recipe, base->recipe, ran, row->recipe_hash,
                                 base->recipe_hash));
}

static mpt_status flag_recipe(mpt_comparison *c, int i) {
    const mpt_compared *r = &c->recipes[i];
    MPT_TRY(flag_labels(c, i));
    if (r->same_schedule)
        MPT_TRY(flag(c, i,
                     mpt_arena_printf(&c->arena,
                                      "%s: compiles to the schedule of %s, so that it "
                                      "computes the same",
                                      r->row.recipe, c->recipes[0].row.recipe)));
    if (r->row.gemms == 0 && r->loss.n > 0)
        MPT_TRY(flag(c, i,
                     mpt_arena_printf(&c->arena,
                                      "%s: its metrics do not say which GEMMs ran, as they "
                                      "do at the end of a run",
                                      r->row.recipe)));
    if (r->skipped > 0)
        MPT_TRY(
            flag(c, i,
                 mpt_arena_printf(&c->arena, "%s: %lld step%s skipped", r->row.recipe,
                                  (long long)r->skipped, r->skipped == 1 ? " was" : "s were")));
    return MPT_OK;
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

static void judge(mpt_comparison *c, int i) {
    mpt_compared *r = &c->recipes[i], *base = &c->recipes[0];
    r->said = promise_of(r->row.recipe);
    r->as_base = covers(&r->gemms, &base->gemms) && covers(&base->gemms, &r->gemms);
    r->same_schedule = i > 0 && strcmp(r->row.schedule_hash, base->row.schedule_hash) == 0;
    r->row.outcome = outcome_of(c, i);
    c->order[i] = i;
}

/* ---- a sweep ---- */

/* Lifts by what they give back, those without a figure last; few enough for this sort. */
static void rank_lifts(mpt_comparison *c) {
    for (int i = 2; i < c->n - 1; i++)
        for (int k = i; k > 1; k--) {
            double above = c->recipes[c->order[k - 1]].row.relative_difference;
            double below = c->recipes[c->order[k]].row.relative_difference;
            if (!(below < above || (isnan(above) && !isnan(below))))
                break;
            int keep = c->order[k];
            c->order[k] = c->order[k - 1];
            c->order[k - 1] = keep;
        }
}

/* The recipe first, then BF16 everywhere, then the lifts. */
static void order_sweep(mpt_comparison *c) {
    const mpt_comparison_row *all = &c->recipes[c->n - 1].row;
    double gap = all->relative_difference;
    rank_lifts(c);
    memmove(c->order + 2, c->order + 1, (size_t)(c->n - 2) * sizeof *c->order);
    c->order[1] = c->n - 1;
    bool clear = gap < 0 && !(-gap <= all->noise);
    for (int i = 1; i < c->n; i++) {
        mpt_comparison_row *row = &c->recipes[i].row;
        row->share = clear ? row->relative_difference / gap : (double)NAN;
    }
}

static void say_sweep(mpt_comparison *c) {
    const mpt_comparison_row *recipe = &c->recipes[0].row, *all = &c->recipes[c->n - 1].row;
    const mpt_comparison_row *best = &c->recipes[c->order[c->n > 2 ? 2 : 1]].row;
    double gap = -all->relative_difference / (1 + all->relative_difference);
    char words[MPT_COMPARE_WORDS], share[32];
    mpt_compare_words(gap, all->noise, words);
    if (isnan(gap))
        snprintf(c->verdict, sizeof c->verdict,
                 "the sweep of %s is not finished: nothing can be ranked yet", recipe->recipe);
    else if (isnan(best->share))
        snprintf(c->verdict, sizeof c->verdict,
                 "%s loses nothing to BF16 everywhere that is more than noise (%s)",
                 recipe->recipe, words);
    else {
        bare_percent(best->share, share);
        snprintf(c->verdict, sizeof c->verdict,
                 "%s in BF16 gives back most, %s of what %s loses to BF16 everywhere (%s)",
                 best->recipe, share, recipe->recipe, words);
    }
}

/* ---- the line ---- */

static void say_recipe(const mpt_comparison *c, int i, mpt_words *line) {
    const mpt_compared *r = &c->recipes[i];
    const char *base = c->recipes[0].row.recipe;
    char words[MPT_COMPARE_WORDS], bound[32];
    mpt_compare_words(r->row.relative_difference, r->row.noise, words);
    bare_percent(c->options.within, bound);
    bool near = !isnan(r->row.noise) && r->row.outcome != MPT_COMPARE_MEASURED &&
                fabs(r->row.relative_difference - c->options.within) <= r->row.noise;
    const char *unsure = near ? ": the bound lies in the noise" : "";
    bool empty = r->said && r->row.gemms > 0 && r->row.quantized_gemms == 0;
    const char *but = empty ? ", but 0 quantized GEMMs ran" : "";
    switch (r->row.outcome) {
    case MPT_COMPARE_BROKE:
        mpt_words_add(line, "%s broke off after %lld steps", r->row.recipe,
                      (long long)r->stopped_at);
        return;
    case MPT_COMPARE_UNFINISHED:
        mpt_words_add(line, "%s has no run to the end beside one of %s", r->row.recipe, base);
        return;
    case MPT_COMPARE_WITHIN:
        mpt_words_add(line, "%s is within %s of %s (%s%s)%s", r->row.recipe, bound, base, words,
                      unsure, but);
        return;
    case MPT_COMPARE_BEYOND:
        mpt_words_add(line, "%s is not within %s of %s (%s%s)%s", r->row.recipe, bound, base,
                      words, unsure, but);
        return;
    default:
        mpt_words_add(line, "%s ends %s from %s%s", r->row.recipe, words, base, but);
    }
}

/* Where there are many, those that went wrong are named first. */
static void say(mpt_comparison *c) {
    mpt_words line = {.len = 0};
    int n = 0;
    bool told_base = c->recipes[0].row.outcome == MPT_COMPARE_BROKE;
    if (told_base)
        say_recipe(c, 0, &line);
    for (int wrong = 1; wrong >= 0; wrong--)
        for (int i = 1; i < c->n; i++) {
            mpt_compare_outcome o = c->recipes[i].row.outcome;
            if ((o == MPT_COMPARE_BROKE || o == MPT_COMPARE_BEYOND) != wrong)
                continue;
            if (n++ >= MOST_NAMED)
                continue;
            mpt_words_add(&line, "%s", line.len ? "; " : "");
            say_recipe(c, i, &line);
        }
    if (n > MOST_NAMED)
        mpt_words_add(&line, "; and %d more", n - MOST_NAMED);
    if (n == 0 && !told_base)
        mpt_words_add(&line, "%s alone: there is nothing to compare it with yet",
                      c->recipes[0].row.recipe);
    snprintf(c->verdict, sizeof c->verdict, "%s", line.data);
}

mpt_status mpt_compare_judge(mpt_comparison *c) {
    enum { FLAGS_A_RECIPE = 4 };
    size_t most = mpt_size_mul((size_t)c->n, FLAGS_A_RECIPE) + 1;
    c->flags = mpt_arena_alloc(&c->arena, mpt_size_mul(most, sizeof *c->flags));
    if (!c->flags)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < c->n; i++)
        judge(c, i);
    for (int i = 0; i < c->n; i++)
        MPT_TRY(flag_recipe(c, i));
    if (c->n_seeds < 2)
        MPT_TRY(flag(c, 0, "one seed says nothing of noise: --seeds 3 gives a band"));
    if (c->options.sweep && c->n > 1) {
        order_sweep(c);
        say_sweep(c);
        return MPT_OK;
    }
    say(c);
    return MPT_OK;
}
