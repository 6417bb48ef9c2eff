/* Curves of a run over its tokens, with its phases and what happened in it as marks. */
#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TICKS = 400 };

mpt_status mpt_run_make_marks(mpt_run_data *data, mpt_run_marks *out) {
    size_t bytes = mpt_size_mul((size_t)data->n_events + 1, sizeof *out->at);
    int every = data->n_events / MOST_TICKS + 1, seen = 0;
    *out = (mpt_run_marks){mpt_arena_alloc(&data->arena, bytes), 0};
    if (!out->at)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < data->n_events; i++) {
        const mpt_run_event *e = &data->events[i];
        bool phase = e->kind == MPT_RUN_PHASE && data->of_kind[MPT_RUN_PHASE] > 1;
        bool rolled = e->kind == MPT_RUN_ROLLBACK;
        bool tick = e->kind == MPT_RUN_SKIP || e->kind == MPT_RUN_SPIKE;
        bool saved = e->kind == MPT_RUN_CHECKPOINT;
        if (!(phase || rolled || saved || tick) || (!phase && !rolled && seen++ % every != 0))
            continue;
        double first = data->tokens.at[0]; /* where the curves begin */
        out->at[out->n++] = (mpt_mark){.x = e->tokens < first ? first : e->tokens,
                                       .label = phase    ? e->text
                                                : rolled ? "rollback"
                                                         : NULL,
                                       .tone = rolled || tick ? MPT_PAGE_BAD
                                               : saved        ? MPT_PAGE_GOOD
                                                              : MPT_PAGE_PLAIN};
    }
    return MPT_OK;
}

static void put_curve(mpt_page *page, const mpt_run_data *data, const mpt_run_marks *m,
                      const char *title, const mpt_numbers *y) {
    mpt_series series = {.name = title, .n = y->n, .x = data->tokens.at, .y = y->at};
    if (y == &data->tokens_per_s)
        series.x = data->timed_tokens.at;
    mpt_plot plot = {.title = title,
                     .x_name = "tokens",
                     .y_name = "",
                     .log_y = y == &data->grad_norm || y == &data->loss_scale,
                     .series = &series,
                     .n_series = 1,
                     .marks = m->at,
                     .n_marks = m->n};
    mpt_page_plot(page, &plot);
}

/* Where a loss runs over more than this factor, only a logarithmic axis shows its lower part.
 */
static const double widest_linear = 30;

static bool is_wide(const mpt_numbers *loss) {
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < loss->n; i++) {
        if (!isfinite(loss->at[i]))
            continue;
        low = fmin(low, loss->at[i]);
        high = fmax(high, loss->at[i]);
    }
    return low > 0 && high > widest_linear * low;
}

enum { LEAST_TO_SMOOTH = 20, SMOOTH_SHARE = 25, SMOOTH_LEAST = 8, SMOOTH_MOST = 200 };

/* The losses of the last steps, in rising order beside the order in which they came. */
typedef struct window {
    double sorted[SMOOTH_MOST], came[SMOOTH_MOST];
    int n, oldest;
} window;

static int place_of(const window *w, double x) {
    int at = 0;
    while (at < w->n && w->sorted[at] < x)
        at++;
    return at;
}

static void take(window *w, int most, double x) {
    if (w->n == most) {
        int at = place_of(w, w->came[w->oldest]);
        w->n--;
        memmove(w->sorted + at, w->sorted + at + 1, (size_t)(w->n - at) * sizeof *w->sorted);
    }
    int at = place_of(w, x);
    memmove(w->sorted + at + 1, w->sorted + at, (size_t)(w->n - at) * sizeof *w->sorted);
    w->sorted[at] = x;
    w->n++;
    w->came[w->oldest] = x;
    w->oldest = (w->oldest + 1) % most;
}

/* A running median, which a spike does not lift as it would a mean. Steps without a loss are
 * left out. */
static mpt_status smooth(mpt_run_data *data, mpt_numbers *out, int *out_span) {
    const mpt_numbers *loss = &data->loss;
    int span = loss->n / SMOOTH_SHARE;
    window w = {.n = 0};
    span = span < SMOOTH_LEAST ? SMOOTH_LEAST : span > SMOOTH_MOST ? SMOOTH_MOST : span;
    *out_span = span;
    for (int i = 0; i < loss->n && loss->n >= LEAST_TO_SMOOTH; i++) {
        if (isfinite(loss->at[i]))
            take(&w, span, loss->at[i]);
        double median =
            w.n > 0 ? (w.sorted[(w.n - 1) / 2] + w.sorted[w.n / 2]) / 2 : (double)NAN;
        MPT_TRY(mpt_numbers_add(data, out, isfinite(loss->at[i]) ? median : (double)NAN));
    }
    return MPT_OK;
}

static mpt_status put_loss(mpt_page *page, mpt_run_data *data, const mpt_run_marks *m) {
    double floor = mpt_run_planned(data, "data.floor");
    mpt_level level = {floor, "floor of the data"};
    mpt_numbers median = {0};
    char median_name[64];
    int span, n = 1;
    MPT_TRY(smooth(data, &median, &span));
    snprintf(median_name, sizeof median_name, "training, median of %d steps", span);
    mpt_series series[3] = {{.name = "training",
                             .n = data->loss.n,
                             .x = data->tokens.at,
                             .y = data->loss.at,
                             .faint = data->eval_loss.n > 0 || median.n > 0}};
    if (data->eval_loss.n > 0)
        series[n++] = (mpt_series){.name = "validation",
                                   .n = data->eval_loss.n,
                                   .x = data->eval_tokens.at,
                                   .y = data->eval_loss.at,
                                   .dots = data->eval_loss.n < 60};
    if (median.n > 0)
        series[n++] = (mpt_series){
            .name = median_name, .n = median.n, .x = data->tokens.at, .y = median.at};
    bool wide = is_wide(&data->loss);
    mpt_page_plot(page, &(mpt_plot){.title = "Loss",
                                    .x_name = "tokens",
                                    .y_name = "nats a token",
                                    .log_y = wide,
                                    .wide = true,
                                    .series = series,
                                    .n_series = n,
                                    .marks = m->at,
                                    .n_marks = m->n,
                                    .levels = &level,
                                    .n_levels = isfinite(floor) ? 1 : 0});
    if (wide)
        mpt_page_note(page, MPT_PAGE_PLAIN,
                      "The loss runs over more than a factor of %.0f, so its axis is "
                      "logarithmic.",
                      widest_linear);
    return MPT_OK;
}

/* Whether the loss scale is a curve at all, and not 1 throughout. */
static bool is_flat(const mpt_numbers *numbers) {
    for (int i = 0; i < numbers->n; i++)
        if (numbers->at[i] != numbers->at[0])
            return false;
    return true;
}

mpt_status mpt_run_put_curves(mpt_page *page, mpt_run_data *data) {
    mpt_run_marks m;
    if (data->step.n == 0)
        return MPT_OK;
    MPT_TRY(mpt_run_make_marks(data, &m));
    mpt_page_section(page, "Curves");
    MPT_TRY(put_loss(page, data, &m));
    mpt_page_note(
        page, MPT_PAGE_PLAIN,
        "Ticks below the curves: steps that were skipped or stood out (red), "
        "checkpoints (green). Drag over a range to look at it, click twice to see all.");
    put_curve(page, data, &m, "Learning rate", &data->lr);
    put_curve(page, data, &m, "Gradient norm, before the clip", &data->grad_norm);
    if (data->tokens_per_s.n > 0)
        put_curve(page, data, &m, "Tokens a second", &data->tokens_per_s);
    if (!is_flat(&data->loss_scale) ||
        (data->loss_scale.at[0] != 1 && isfinite(data->loss_scale.at[0])))
        put_curve(page, data, &m, "Loss scale", &data->loss_scale);
    return MPT_OK;
}

/* ---- what happened ---- */

enum { MOST_ROWS = 100 };

/* How many events from i on are of one kind, one text and steps in a row, as skips are. */
static int alike(const mpt_run_data *data, int i) {
    const mpt_run_event *e = data->events;
    int n = 1;
    while (i + n < data->n_events && e[i + n].kind == e[i].kind &&
           e[i + n].step == e[i + n - 1].step + 1 && strcmp(e[i + n].text, e[i].text) == 0)
        n++;
    return n;
}

static void put_event(mpt_page *page, const mpt_run_event *e, int n) {
    static const char *const names[MPT_RUN_EVENT_KINDS] = {
        "phase", "skip", "spike", "rollback", "checkpoint", "range", "injected", "device"};
    if (n == 1)
        mpt_page_cell(page, "%lld", (long long)e->step);
    else
        mpt_page_cell(page, "%lld to %lld", (long long)e->step, (long long)e->step + n - 1);
    if (n == 1)
        mpt_page_cell(page, "%s", names[e->kind]);
    else
        mpt_page_cell(page, "%s, %d times", names[e->kind], n);
    mpt_page_cell(page, "%s", e->text);
}

void mpt_run_put_events(mpt_page *page, const mpt_run_data *data) {
    static const mpt_page_column columns[] = {{"step", true}, {"event", false}, {"", false}};
    int n = data->n_events - data->of_kind[MPT_RUN_CHECKPOINT], shown = 0, rows = 0;
    if (n == 0 || (n == 1 && data->of_kind[MPT_RUN_PHASE] == 1))
        return; /* every run has a phase */
    mpt_page_section(page, "What happened");
    mpt_page_begin_table(page, NULL, columns, (int)MPT_COUNT(columns));
    for (int i = 0, times; i < data->n_events && rows < MOST_ROWS; i += times) {
        times = alike(data, i);
        if (data->events[i].kind == MPT_RUN_CHECKPOINT)
            continue;
        put_event(page, &data->events[i], times);
        shown += times;
        rows++;
    }
    mpt_page_end_table(page);
    if (shown < n)
        mpt_page_note(page, MPT_PAGE_PLAIN, "The first %d of %d; metrics.jsonl has them all.",
                      shown, n);
}
