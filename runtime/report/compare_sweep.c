/* What a sweep comes to: lifts in the order of what they give back, shares where there is more
 * than noise, and the line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "report/compare.h"

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

/* Whether a difference is more than the noise of its seeds; with one seed none is known to be.
 */
static bool is_clear(const mpt_comparison_row *row) {
    return fabs(row->relative_difference) > row->noise;
}

/* The recipe first, then BF16 everywhere, then the lifts. */
static void order_sweep(mpt_comparison *c) {
    const mpt_comparison_row *all = &c->recipes[c->n - 1].row;
    double gap = all->relative_difference;
    rank_lifts(c);
    memmove(c->order + 2, c->order + 1, (size_t)(c->n - 2) * sizeof *c->order);
    c->order[1] = c->n - 1;
    for (int i = 1; i < c->n; i++) {
        mpt_comparison_row *row = &c->recipes[i].row;
        bool clear = gap < 0 && is_clear(all) && is_clear(row);
        row->share = clear ? fmax(-1, fmin(1, row->relative_difference / gap)) : (double)NAN;
    }
}

static void say_broken(mpt_comparison *c, mpt_words *line) {
    int n = 0, lifts = 0;
    mpt_words_add(line, "the sweep of %s ranks nothing: ", c->recipes[0].row.recipe);
    for (int i = 0; i < c->n; i += c->n - 1) {
        const mpt_compared *r = &c->recipes[i];
        if (r->n_broke > 0)
            mpt_words_add(line, "%s%s broke off after %lld of %lld steps", n++ ? ", " : "",
                          r->row.recipe, (long long)r->stopped_at, (long long)c->planned);
    }
    for (int i = 1; i < c->n - 1; i++)
        lifts += c->recipes[i].n_broke > 0;
    if (lifts > 0)
        mpt_words_add(line, ", and so did %d of the %d lifts", lifts, c->n - 2);
}

static void say_unfinished(mpt_comparison *c, mpt_words *line) {
    int n = 0;
    for (int i = 0; i < c->n; i++)
        n += c->recipes[i].row.n_whole;
    mpt_words_add(line,
                  "the sweep of %s is not finished: %d of %d runs are trained to the end, and "
                  "nothing can be ranked yet",
                  c->recipes[0].row.recipe, n, c->n_runs);
}

/* Others that are no further from the best than the noise of both. */
static int count_rivals(const mpt_comparison *c, const mpt_comparison_row *best) {
    int n = 0;
    for (int i = 3; i < c->n; i++) {
        const mpt_comparison_row *row = &c->recipes[c->order[i]].row;
        n += row->relative_difference - best->relative_difference <=
             hypot(row->noise, best->noise);
    }
    return n;
}

static void say_best(const mpt_comparison *c, const char *loss, mpt_words *line) {
    const char *recipe = c->recipes[0].row.recipe;
    const mpt_comparison_row *best = &c->recipes[c->order[2]].row;
    int n = count_rivals(c, best);
    mpt_words_add(
        line, "%s in BF16 gives back most, %.0f %% of what %s loses to BF16 everywhere (%s)",
        best->recipe, 100 * best->share, recipe, loss);
    if (n > 0)
        mpt_words_add(line, "; %d other%s no further from it than noise", n,
                      n == 1 ? " is" : "s are");
}

static void say_one_seed(const mpt_comparison *c, const char *loss, mpt_words *line) {
    const char *recipe = c->recipes[0].row.recipe;
    const mpt_comparison_row *best = &c->recipes[c->order[c->n > 2 ? 2 : 1]].row;
    char words[MPT_COMPARE_PERCENT];
    mpt_compare_percent(best->relative_difference, true, words);
    mpt_words_add(line, "%s ends %s from BF16 everywhere", recipe, loss);
    if (c->n > 2 && !isnan(best->relative_difference))
        mpt_words_add(line, "; with %s in BF16 it ends lowest, %s from %s", best->recipe, words,
                      recipe);
    mpt_words_add(line, "; one seed cannot tell what of this is noise");
}

static void say_sweep(mpt_comparison *c) {
    const mpt_comparison_row *recipe = &c->recipes[0].row, *all = &c->recipes[c->n - 1].row;
    double gap = -all->relative_difference / (1 + all->relative_difference);
    bool some = c->n > 2 && !isnan(c->recipes[c->order[2]].row.share) &&
                c->recipes[c->order[2]].row.share > 0;
    char loss[MPT_COMPARE_WORDS];
    mpt_words line = {.len = 0};
    mpt_compare_words(gap, all->noise, loss);
    if (isnan(gap) && (c->recipes[0].n_broke > 0 || c->recipes[c->n - 1].n_broke > 0))
        say_broken(c, &line);
    else if (isnan(gap))
        say_unfinished(c, &line);
    else if (isnan(all->noise))
        say_one_seed(c, loss, &line);
    else if (isnan(all->share))
        mpt_words_add(&line,
                      "%s loses nothing to BF16 everywhere that is more than noise (%s), so no "
                      "lift is ranked above another",
                      recipe->recipe, loss);
    else if (!some)
        mpt_words_add(&line,
                      "nothing alone in BF16 gives back more than noise of what %s loses to "
                      "BF16 everywhere (%s)",
                      recipe->recipe, loss);
    else
        say_best(c, loss, &line);
    snprintf(c->verdict, sizeof c->verdict, "%s", line.data);
}

void mpt_compare_judge_sweep(mpt_comparison *c) {
    order_sweep(c);
    say_sweep(c);
}
