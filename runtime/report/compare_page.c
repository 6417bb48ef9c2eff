/* A comparison as a page: the verdict, all curves on one plot, the difference over time with
 * its noise, what ran, and the reports of the runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/text.h"
#include "report/compare.h"
#include "report/page.h"

/* ---- curves ---- */

/* More lines than this tell nothing apart. */
enum { MOST_DRAWN = 16 };

/* Places in the order, the most telling first: the base, of a sweep BF16 everywhere, what broke
 * off, then by the size of the difference. */
static double weight_of(const mpt_comparison *c, int place) {
    const mpt_compared *r = &c->recipes[c->order[place]];
    if (place == 0 || (place == 1 && c->options.sweep))
        return (double)INFINITY;
    if (r->n_broke > 0)
        return 1e300;
    return isnan(r->row.relative_difference) ? -1 : fabs(r->row.relative_difference);
}

static bool is_drawn(const mpt_comparison *c, int place) {
    int before = 0;
    double own = weight_of(c, place);
    for (int i = 0; i < c->n; i++)
        before += weight_of(c, i) > own || (weight_of(c, i) == own && i < place);
    return before < MOST_DRAWN;
}

/* One line, its values times a factor. */
static mpt_status make_series(mpt_comparison *c, const mpt_compared *r, const mpt_band *band,
                              double factor, mpt_series *out) {
    size_t n = (size_t)band->n;
    bool banded = c->n_seeds > 1;
    double *y = mpt_arena_alloc(&c->arena, mpt_size_mul(n + 1, 3 * sizeof *y));
    if (!y)
        return MPT_OUT_OF_MEMORY;
    for (size_t k = 0; k < n; k++) {
        double spread = isnan(band->spread[k]) ? 0 : band->spread[k];
        y[k] = factor * band->mean[k];
        y[n + k] = factor * (band->mean[k] - spread);
        y[2 * n + k] = factor * (band->mean[k] + spread);
    }
    *out = (mpt_series){.name = r->row.recipe,
                        .n = band->n,
                        .x = band->tokens,
                        .y = y,
                        .low = banded ? y + n : NULL,
                        .high = banded ? y + 2 * n : NULL,
                        .dots = band->n < 40,
                        .aside = r->aside};
    return MPT_OK;
}

/* One line a recipe; the bands lie in the comparison. */
static mpt_status plot_bands(mpt_comparison *c, mpt_page *page, const mpt_plot *like,
                             bool evals, bool apart) {
    mpt_plot plot = *like;
    bool any = false;
    mpt_series *series = mpt_arena_alloc(&c->arena, mpt_size_mul((size_t)c->n, sizeof *series));
    if (!series)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < c->n; i++) {
        const mpt_compared *r = &c->recipes[c->order[i]];
        const mpt_band *band = apart   ? evals ? &r->eval_difference : &r->difference
                               : evals ? &r->eval_loss
                                       : &r->loss;
        if (r->row.n_runs == 0 || !is_drawn(c, i))
            continue;
        MPT_TRY(make_series(c, r, band, apart ? 100 : 1, &series[plot.n_series++]));
        any = any || band->n > 0; /* one without points keeps its colour for itself */
    }
    plot.series = series;
    if (any)
        mpt_page_plot(page, &plot);
    return MPT_OK;
}

/* What the plots do not show. */
static void note_left_out(const mpt_comparison *c, mpt_page *page) {
    mpt_words names = {.len = 0};
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (c->recipes[c->order[i]].aside)
            mpt_words_add(&names, "%s%s", n++ ? ", " : "", c->recipes[c->order[i]].row.recipe);
    if (n > 0 && n < c->n)
        mpt_page_note(page, MPT_PAGE_PLAIN,
                      "Broke off or came to more than twice the loss of the base: %s. The axes "
                      "of losses fit the others.",
                      names.data);
    if (c->n > MOST_DRAWN)
        mpt_page_note(page, MPT_PAGE_PLAIN,
                      "The plots have %d of %d recipes: the base, and those that end furthest "
                      "from it. The table has all.",
                      (int)MOST_DRAWN, c->n);
}

static mpt_status put_curves(mpt_comparison *c, mpt_page *page) {
    const mpt_level bound = {100 * c->options.within, "the bound"};
    mpt_plot loss = {.title = "Training loss, smoothed",
                     .x_name = "tokens",
                     .y_name = "nats a token",
                     .log_y = true,
                     .wide = true};
    mpt_plot apart = {.title = "Difference of training loss, smoothed",
                      .x_name = "tokens",
                      .y_name = "% of the base",
                      .wide = true,
                      .levels = &bound,
                      .n_levels = c->options.within >= 0};
    MPT_TRY(plot_bands(c, page, &loss, false, false));
    MPT_TRY(plot_bands(c, page, &apart, false, true));
    loss.title = "Validation loss";
    apart.title = "Difference of validation loss";
    loss.wide = apart.wide = false;
    MPT_TRY(plot_bands(c, page, &loss, true, false));
    MPT_TRY(plot_bands(c, page, &apart, true, true));
    mpt_page_note(
        page, MPT_PAGE_PLAIN,
        "Each point is a mean over the seeds, of runs that saw the same data from the "
        "same weights; training losses are means over %lld step%s.%s",
        (long long)c->window, c->window == 1 ? "" : "s",
        c->n_seeds > 1 ? " Bands are one standard deviation over the seeds." : "");
    note_left_out(c, page);
    return MPT_OK;
}

/* ---- tables ---- */

static void cell(mpt_page *page, double x, int digits, const char *unit) {
    if (isnan(x))
        mpt_page_cell(page, "-");
    else
        mpt_page_cell(page, "%.*f%s", digits, x, unit);
}

static void cell_percent(mpt_page *page, double x, bool sign) {
    char words[MPT_COMPARE_PERCENT];
    mpt_compare_percent(x, sign, words);
    mpt_page_cell(page, "%s", words);
}

static const char *outcome_words(mpt_compare_outcome outcome) {
    static const char *const words[] = {"base",     "within the bound", "beyond the bound",
                                        "measured", "broke off",        "not finished"};
    return words[outcome];
}

static void put_result(const mpt_comparison *c, mpt_page *page) {
    bool sweep = c->options.sweep, devices = mpt_compare_devices_differ(c);
    mpt_page_column columns[9] = {
        {"recipe", false},  {"final loss", true}, {"difference", true}, {"noise", true},
        {"outcome", false}, {"tokens/s", true},   {"memory, MB", true}};
    int n_columns = 7;
    if (sweep)
        columns[n_columns++] = (mpt_page_column){"share", true};
    if (devices)
        columns[n_columns++] = (mpt_page_column){"device", false};
    mpt_page_begin_table(page, NULL, columns, n_columns);
    for (int i = 0; i < c->n; i++) {
        const mpt_comparison_row *row = &c->recipes[c->order[i]].row;
        mpt_page_cell(page, "%s", row->recipe);
        cell(page, row->final_loss, 4, "");
        cell_percent(page, i == 0 ? (double)NAN : row->relative_difference, true);
        cell_percent(page, i == 0 ? (double)NAN : row->noise, false);
        mpt_page_cell(page, "%s", outcome_words(row->outcome));
        cell(page, row->tokens_per_s, 0, "");
        cell(page, row->n_runs > 0 ? (double)row->bytes * 1e-6 : (double)NAN, 1, "");
        if (sweep)
            cell(page, 100 * row->share, 0, " %");
        if (devices)
            mpt_page_cell(page, "%s", *row->device ? row->device : "-");
    }
    mpt_page_end_table(page);
    if (mpt_compare_device(c))
        mpt_page_note(page, MPT_PAGE_PLAIN, "All of it was computed on %s.",
                      mpt_compare_device(c));
}

static void put_ran(const mpt_comparison *c, mpt_page *page) {
    static const mpt_page_column columns[] = {{"recipe", false},      {"GEMMs", true},
                                              {"quantized", true},    {"by operands", false},
                                              {"recipe hash", false}, {"schedule hash", false}};
    mpt_page_begin_table(page, NULL, columns, (int)MPT_COUNT(columns));
    for (int i = 0; i < c->n; i++) {
        const mpt_compared *r = &c->recipes[c->order[i]];
        char ran[512];
        if (r->row.n_runs == 0)
            continue;
        mpt_gemm_list_text(&r->gemms, ran, sizeof ran);
        mpt_page_cell(page, "%s", r->row.recipe);
        mpt_page_cell(page, "%llu", (unsigned long long)r->row.gemms);
        mpt_page_cell(page, "%llu", (unsigned long long)r->row.quantized_gemms);
        mpt_page_cell(page, "%s", ran);
        mpt_page_cell(page, "%s", r->row.recipe_hash);
        mpt_page_cell(page, "%s", r->row.schedule_hash);
    }
    mpt_page_end_table(page);
}

static mpt_status put_runs(mpt_comparison *c, mpt_page *page, const char *path) {
    static const mpt_page_column columns[] = {{"recipe", false},
                                              {"seed", true},
                                              {"steps", true},
                                              {"final loss", true},
                                              {"report", false}};
    mpt_page_begin_table(page, NULL, columns, (int)MPT_COUNT(columns));
    for (int i = 0; i < c->n_runs; i++) {
        const mpt_compared_run *run = &c->runs[i];
        const char *folder = mpt_compare_below(run->folder, path);
        const char *link =
            folder && run->begun ? mpt_arena_printf(&c->arena, "%s/report.html", folder) : NULL;
        if (folder && run->begun && !link)
            return MPT_OUT_OF_MEMORY;
        mpt_page_cell(page, "%s", run->name);
        mpt_page_cell(page, "%llu", (unsigned long long)run->seed);
        if (run->begun)
            mpt_page_cell(page, "%d of %lld", run->steps.n, (long long)run->planned);
        else
            mpt_page_cell(page, "not begun");
        cell(page, run->eval_loss, 4, "");
        if (link)
            mpt_page_cell_link(page, link, folder);
        else
            mpt_page_cell(page, "%s", run->folder);
    }
    mpt_page_end_table(page);
    return MPT_OK;
}

/* ---- the page ---- */

/* Bad is what the exit status is 3 for. */
static mpt_page_tone tone_of(const mpt_comparison *c) {
    mpt_page_tone tone = c->options.within >= 0 ? MPT_PAGE_GOOD : MPT_PAGE_PLAIN;
    for (int i = 0; i < c->n; i++) {
        mpt_compare_outcome outcome = c->recipes[i].row.outcome;
        bool empty = c->recipes[i].row.empty_label && c->options.within >= 0;
        if (outcome == MPT_COMPARE_BEYOND || outcome == MPT_COMPARE_BROKE || empty)
            return MPT_PAGE_BAD;
        if (outcome == MPT_COMPARE_UNFINISHED)
            tone = MPT_PAGE_PLAIN;
    }
    return tone;
}

static mpt_status fill(mpt_comparison *c, mpt_page *page, const char *path) {
    MPT_TRY(put_curves(c, page));
    mpt_page_section(page, "Result");
    put_result(c, page);
    for (int i = 0; i < c->n_flags; i++)
        mpt_page_note(page, MPT_PAGE_PLAIN, "%s", c->flags[i].text);
    mpt_page_section(page, "What really ran");
    put_ran(c, page);
    mpt_page_note(
        page, MPT_PAGE_PLAIN,
        "GEMMs of linear layers in training steps, counted as they ran, by the formats "
        "of their two operands.");
    mpt_page_section(page, "Runs");
    return put_runs(c, page, path);
}

mpt_status mpt_comparison_write_page(const mpt_comparison *comparison, const char *path) {
    MPT_REQUIRE_OBJECT(comparison);
    MPT_REQUIRE(comparison->ctx, path);
    mpt_page page;
    mpt_comparison own = *comparison; /* its figures, with an arena for this page alone */
    mpt_arena_init(&own.arena, comparison->ctx);
    mpt_page_begin(&page, own.ctx, own.options.sweep ? "Sweep" : "Comparison", tone_of(&own),
                   own.verdict);
    mpt_status status = fill(&own, &page, path);
    if (status == MPT_OK)
        status = mpt_page_write(&page, path);
    else
        mpt_page_deinit(&page);
    mpt_arena_deinit(&own.arena);
    return status;
}
