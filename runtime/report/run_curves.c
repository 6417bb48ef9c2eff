/* Curves of a run over its tokens, with its phases and what happened in it as marks. */
#include "report/run.h"

#include <math.h>
#include <string.h>

enum { MOST_TICKS = 400 };

/* Phases with their names, where there are several or the first does not begin the run; skips,
 * spikes and rollbacks as ticks. */
typedef struct marks {
    mpt_mark *at;
    int n;
} marks;

static mpt_status make_marks(mpt_run_data *data, marks *out) {
    size_t bytes = mpt_size_mul((size_t)data->n_events + 1, sizeof *out->at);
    int every = data->n_events / MOST_TICKS + 1, seen = 0;
    *out = (marks){mpt_arena_alloc(&data->arena, bytes), 0};
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
        out->at[out->n++] = (mpt_mark){.x = e->tokens,
                                       .label = phase    ? e->text
                                                : rolled ? "rollback"
                                                         : NULL,
                                       .tone = rolled || tick ? MPT_PAGE_BAD
                                               : saved        ? MPT_PAGE_GOOD
                                                              : MPT_PAGE_PLAIN};
    }
    return MPT_OK;
}

static void put_curve(mpt_page *page, const mpt_run_data *data, const marks *m,
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

static void put_loss(mpt_page *page, const mpt_run_data *data, const marks *m) {
    double floor = mpt_run_planned(data, "data.floor");
    mpt_level level = {floor, "floor of the data"};
    const mpt_series series[] = {{.name = "training",
                                  .n = data->loss.n,
                                  .x = data->tokens.at,
                                  .y = data->loss.at,
                                  .faint = data->eval_loss.n > 0},
                                 {.name = "validation",
                                  .n = data->eval_loss.n,
                                  .x = data->eval_tokens.at,
                                  .y = data->eval_loss.at,
                                  .dots = data->eval_loss.n < 60}};
    mpt_page_plot(page, &(mpt_plot){.title = "Loss",
                                    .x_name = "tokens",
                                    .y_name = "nats a token",
                                    .wide = true,
                                    .series = series,
                                    .n_series = data->eval_loss.n > 0 ? 2 : 1,
                                    .marks = m->at,
                                    .n_marks = m->n,
                                    .levels = &level,
                                    .n_levels = isfinite(floor) ? 1 : 0});
}

/* Whether the loss scale is a curve at all, and not 1 throughout. */
static bool is_flat(const mpt_numbers *numbers) {
    for (int i = 0; i < numbers->n; i++)
        if (numbers->at[i] != numbers->at[0])
            return false;
    return true;
}

mpt_status mpt_run_put_curves(mpt_page *page, mpt_run_data *data) {
    marks m;
    if (data->step.n == 0)
        return MPT_OK;
    MPT_TRY(make_marks(data, &m));
    mpt_page_section(page, "Curves");
    put_loss(page, data, &m);
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

enum { MOST_EVENTS = 200 };

void mpt_run_put_events(mpt_page *page, const mpt_run_data *data) {
    static const char *const names[] = {"phase",      "skip",  "spike",   "rollback",
                                        "checkpoint", "range", "injected"};
    static const mpt_page_column columns[] = {{"step", true}, {"event", false}, {"", false}};
    int n = data->n_events - data->of_kind[MPT_RUN_CHECKPOINT], shown = 0;
    if (n == 0)
        return;
    mpt_page_section(page, "What happened");
    mpt_page_begin_table(page, NULL, columns, (int)MPT_COUNT(columns));
    for (int i = 0; i < data->n_events && shown < MOST_EVENTS; i++) {
        const mpt_run_event *e = &data->events[i];
        if (e->kind == MPT_RUN_CHECKPOINT)
            continue;
        shown++;
        mpt_page_cell(page, "%lld", (long long)e->step);
        mpt_page_cell(page, "%s", names[e->kind]);
        mpt_page_cell(page, "%s", e->text);
    }
    mpt_page_end_table(page);
    if (shown < n)
        mpt_page_note(page, MPT_PAGE_PLAIN, "The first %d of %d; metrics.jsonl has them all.",
                      shown, n);
}
