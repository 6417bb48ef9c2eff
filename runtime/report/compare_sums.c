/* From runs to figures: each run is held against the base's run of the same seed, step by step.
 *
 * Both saw the same data, so the noise of the batches is in both losses and goes out in their
 * ratio. Training losses are summed over a trailing window, of the steps at which both are
 * finite, before they are divided; both curves lag alike. Spreads are standard deviations over
 * the seeds, with n - 1. */
#include <math.h>
#include <stdlib.h>

#include "report/compare.h"

enum { MOST_POINTS = 200, WINDOWS = 20 };

/* ---- means ---- */

typedef struct mpt_moments {
    int n;
    double sum, squares; /* of what was added, less the first, so that no digits are lost */
    double first;
} moments;

static void add(moments *m, double x) {
    if (m->n++ == 0)
        m->first = x;
    m->sum += x - m->first;
    m->squares += (x - m->first) * (x - m->first);
}

static double mean_of(const moments *m) {
    return m->n > 0 ? m->first + m->sum / m->n : (double)NAN;
}

static double spread_of(const moments *m) {
    if (m->n < 2)
        return (double)NAN;
    double variance = (m->squares - m->sum * m->sum / m->n) / (m->n - 1);
    return variance > 0 ? sqrt(variance) : 0;
}

/* ---- points of curves ---- */

/* Index of the first point at or behind a step. */
static int first_at(const mpt_curve *curve, int64_t step) {
    int low = 0, high = curve->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (curve->at[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool reaches(const mpt_curve *curve, int64_t step) {
    return curve->n > 0 && curve->at[curve->n - 1].step >= step;
}

/* Sums of two curves over the steps of (step - window, step] at which both are finite. */
static int sum_pair(const mpt_curve *a, const mpt_curve *b, int64_t step, int64_t window,
                    double out[2]) {
    int i = first_at(a, step - window + 1), k = first_at(b, step - window + 1), n = 0;
    out[0] = out[1] = 0;
    while (i < a->n && k < b->n && a->at[i].step <= step && b->at[k].step <= step) {
        if (a->at[i].step != b->at[k].step) {
            *(a->at[i].step < b->at[k].step ? &i : &k) += 1;
            continue;
        }
        if (isfinite(a->at[i].loss) && isfinite(b->at[k].loss)) {
            out[0] += a->at[i].loss;
            out[1] += b->at[k].loss;
            n++;
        }
        i++;
        k++;
    }
    return n;
}

/* The mean loss of a curve over the window; NAN where the run did not get there. */
static double smooth(const mpt_curve *curve, int64_t step, int64_t window) {
    double sums[2];
    int n = reaches(curve, step) ? sum_pair(curve, curve, step, window, sums) : 0;
    return n > 0 ? sums[0] / n : (double)NAN;
}

/* The relative difference of `other` to `base` over the window. */
static double difference(const mpt_curve *base, const mpt_curve *other, int64_t step,
                         int64_t window) {
    double sums[2];
    if (!reaches(base, step) || !reaches(other, step) ||
        sum_pair(base, other, step, window, sums) == 0 || sums[0] == 0)
        return (double)NAN;
    return sums[1] / sums[0] - 1;
}

static const mpt_compared_run *base_of(const mpt_comparison *c, const mpt_compared_run *run) {
    for (int i = 0; i < c->n_runs; i++)
        if (c->runs[i].recipe == 0 && c->runs[i].seed == run->seed)
            return &c->runs[i];
    return NULL;
}

/* ---- bands ---- */

static mpt_status make_band(mpt_comparison *c, int most, mpt_band *out) {
    size_t n = (size_t)most + 1;
    *out = (mpt_band){.n = 0};
    out->tokens = mpt_arena_alloc(&c->arena, mpt_size_mul(3 * sizeof(double), n));
    if (!out->tokens)
        return MPT_OUT_OF_MEMORY;
    out->mean = out->tokens + n;
    out->spread = out->mean + n;
    return MPT_OK;
}

static void add_to_band(mpt_band *band, double tokens, const moments *m) {
    band->tokens[band->n] = tokens;
    band->mean[band->n] = mean_of(m);
    band->spread[band->n++] = spread_of(m);
}

/* Both bands at one step: losses over `window`, of steps or of evaluations. */
static void add_point(const mpt_comparison *c, int recipe, bool evals, int64_t step,
                      double tokens, mpt_band *loss, mpt_band *apart) {
    moments of_loss = {.n = 0}, of_difference = {.n = 0};
    int64_t window = evals ? 1 : c->window;
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i], *base = base_of(c, run);
        const mpt_curve *curve = evals ? &run->evals : &run->steps;
        if (run->recipe != recipe)
            continue;
        double at = smooth(curve, step, window);
        double d = base ? difference(evals ? &base->evals : &base->steps, curve, step, window)
                        : (double)NAN;
        if (isfinite(at))
            add(&of_loss, at);
        if (isfinite(d))
            add(&of_difference, d);
    }
    add_to_band(loss, tokens, &of_loss);
    add_to_band(apart, tokens, &of_difference);
}

static mpt_status make_steps(mpt_comparison *c, int recipe, double tokens_a_step) {
    mpt_compared *r = &c->recipes[recipe];
    int64_t n = c->planned < MOST_POINTS ? c->planned : MOST_POINTS;
    MPT_TRY(make_band(c, (int)n, &r->loss));
    MPT_TRY(make_band(c, (int)n, &r->difference));
    for (int64_t i = 1; i <= n; i++) {
        int64_t step = i * c->planned / n - 1;
        add_point(c, recipe, false, step, (double)(step + 1) * tokens_a_step, &r->loss,
                  &r->difference);
    }
    return MPT_OK;
}

/* At the evaluations of the recipe's longest run. */
static mpt_status make_evals(mpt_comparison *c, int recipe) {
    mpt_compared *r = &c->recipes[recipe];
    const mpt_curve *longest = NULL;
    for (int i = 0; i < c->n_runs; i++)
        if (c->runs[i].recipe == recipe && (!longest || c->runs[i].evals.n > longest->n))
            longest = &c->runs[i].evals;
    int n = longest ? longest->n : 0;
    MPT_TRY(make_band(c, n, &r->eval_loss));
    MPT_TRY(make_band(c, n, &r->eval_difference));
    for (int i = 0; i < n; i++)
        add_point(c, recipe, true, longest->at[i].step, longest->at[i].tokens, &r->eval_loss,
                  &r->eval_difference);
    return MPT_OK;
}

/* ---- figures ---- */

static bool is_whole(const mpt_compared_run *run) {
    return run->ended && run->ended_at == run->planned;
}

static double final_loss(const mpt_comparison *c, const mpt_compared_run *run) {
    if (!is_whole(run))
        return (double)NAN;
    return c->validates ? run->eval_loss : smooth(&run->steps, run->planned - 1, c->window);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Tokens a second at the median step of all runs. */
static mpt_status find_speed(mpt_comparison *c, int recipe) {
    size_t n = 0, at = 0;
    double tokens = 0;
    for (int i = 0; i < c->n_runs; i++)
        n += c->runs[i].recipe == recipe ? (size_t)c->runs[i].n_ms : 0;
    c->recipes[recipe].row.tokens_per_s = (double)NAN;
    if (n == 0)
        return MPT_OK;
    double *ms = mpt_arena_alloc(&c->arena, mpt_size_mul(n, sizeof *ms));
    if (!ms)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_runs; i++)
        for (int k = 0; c->runs[i].recipe == recipe && k < c->runs[i].n_ms; k++) {
            ms[at++] = c->runs[i].step_ms[k];
            tokens = c->runs[i].tokens_a_step;
        }
    qsort(ms, n, sizeof *ms, by_size);
    c->recipes[recipe].row.tokens_per_s = 1e3 * tokens / ms[n / 2];
    return MPT_OK;
}

static void sum_gemms(mpt_compared *r, const mpt_compared_run *run) {
    for (int i = 0; i < run->gemms.n; i++) {
        const mpt_gemms_ran *row = &run->gemms.of[i];
        if (row->runs == 0) /* of a phase that was not reached */
            continue;
        mpt_gemms_ran_add(&r->gemms, row);
        r->row.gemms += row->runs;
        r->row.quantized_gemms += row->quantized ? row->runs : 0;
    }
}

static void sum_recipe(mpt_comparison *c, int recipe) {
    mpt_compared *r = &c->recipes[recipe];
    moments loss = {.n = 0}, apart = {.n = 0};
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i], *base = base_of(c, run);
        if (run->recipe != recipe)
            continue;
        r->row.n_planned++;
        if (!run->begun)
            continue;
        double own = final_loss(c, run), other = base ? final_loss(c, base) : (double)NAN;
        bool broke = !run->ended || (is_whole(run) && !isfinite(own));
        if (broke && r->n_broke++ == 0)
            r->stopped_at = run->steps.n;
        if (!broke && !is_whole(run) && r->reached == 0)
            r->reached = run->steps.n;
        r->row.n_runs++;
        r->row.n_whole += is_whole(run);
        r->skipped += run->skipped > 0 ? run->skipped : 0;
        sum_gemms(r, run);
        if (isfinite(own))
            add(&loss, own);
        if (isfinite(own) && isfinite(other) && other != 0)
            add(&apart, own / other - 1);
    }
    r->row.final_loss = r->n_broke ? (double)NAN : mean_of(&loss);
    r->row.relative_difference = mean_of(&apart);
    r->row.noise = recipe > 0 ? spread_of(&apart) : spread_of(&loss) / mean_of(&loss);
}

static bool same_number(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static bool same_curve(const mpt_curve *a, const mpt_curve *b) {
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->at[i].step == b->at[i].step && same_number(a->at[i].loss, b->at[i].loss);
    return same;
}

bool mpt_compare_same_losses(const mpt_comparison *c, int recipe) {
    int n = 0;
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i], *base = base_of(c, run);
        if (run->recipe != recipe || !base || !run->begun || !base->begun)
            continue;
        if (!same_curve(&run->steps, &base->steps) || !same_curve(&run->evals, &base->evals))
            return false;
        n++;
    }
    return n > 0;
}

/* ---- all of it ---- */

mpt_status mpt_compare_sum(mpt_comparison *c) {
    const mpt_compared_run *base = mpt_compare_first(c, 0);
    base = base->begun ? base : mpt_compare_first(c, -1);
    double tokens = base->steps.n > 0 ? base->steps.at[0].tokens : 1;
    c->planned = base->planned;
    c->window = c->planned / WINDOWS > 1 ? c->planned / WINDOWS : 1;
    for (int i = 0; i < c->n_runs; i++) {
        c->validates =
            c->validates || (c->runs[i].recipe == base->recipe && c->runs[i].validates);
        c->n_seeds += c->runs[i].recipe == 0 && c->runs[i].begun;
    }
    for (int r = 0; r < c->n; r++) {
        const mpt_compared_run *run = mpt_compare_first(c, r);
        c->recipes[r].row = (mpt_comparison_row){.recipe = run->name,
                                                 .recipe_hash = run->recipe_hash,
                                                 .schedule_hash = run->schedule_hash,
                                                 .bytes = run->bytes,
                                                 .device = run->device,
                                                 .share = (double)NAN};
        sum_recipe(c, r);
        MPT_TRY(find_speed(c, r));
        MPT_TRY(make_steps(c, r, tokens));
        MPT_TRY(make_evals(c, r));
    }
    return MPT_OK;
}
