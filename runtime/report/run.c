/* report.html of a run folder: the verdict, and the parts of the page in their order. */
#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mpt/evidence.h"

/* ---- the verdict ---- */

double mpt_run_planned(const mpt_run_data *data, const char *path) {
    const char *dot = strchr(path, '.');
    char group[32];
    if (!dot)
        return mpt_json_double(data->plan, path);
    snprintf(group, sizeof group, "%.*s", (int)(dot - path), path);
    return mpt_json_double(json_object_get(data->plan, group), dot + 1);
}

/* "validation loss 1.9440 nats a token, 0.31 above the floor of the data (1.63)"; " after 20
 * steps" behind it where it is not of the end. */
static void say_loss(const mpt_run_data *data, double done, char *out, size_t size) {
    double floor = mpt_run_planned(data, "data.floor"), loss = data->last_eval;
    const char *what = "validation loss";
    char after[48] = "";
    if (isnan(loss) && data->loss.n > 0 && data->eval_loss.n == 0) {
        loss = data->loss.at[data->loss.n - 1];
        what = "training loss of the last step";
    } else if (isfinite(data->last_eval_step) && data->last_eval_step != done) {
        snprintf(after, sizeof after, " after %.0f step%s", data->last_eval_step,
                 data->last_eval_step == 1 ? "" : "s");
    }
    if (isnan(loss))
        snprintf(out, size, "%s%s not finite", what, after);
    else if (isnan(floor))
        snprintf(out, size, "%s%s %.4f nats a token", what, after, loss);
    else
        snprintf(out, size, "%s%s %.4f nats a token, %.2f %s the floor of the data (%.2f)",
                 what, after, loss, fabs(loss - floor), loss >= floor ? "above" : "below",
                 floor);
}

/* " 3 steps were skipped." */
static void say_skips(const mpt_run_data *data, char *out, size_t size) {
    out[0] = 0;
    if (data->n_skipped > 0)
        snprintf(out, size, " %d step%s skipped.", data->n_skipped,
                 data->n_skipped == 1 ? " was" : "s were");
}

enum { MOST_SKIPS_AT_END = 2 }; /* as the trainer's end has it */

static bool has_diverged(const mpt_run_data *data) {
    int n = data->step.n;
    bool last_bad = data->eval_loss.n > 0 && !isfinite(data->last_eval);
    return data->diagnosis || last_bad || data->last_skips > MOST_SKIPS_AT_END ||
           (n > 0 && data->n_skipped == n) || (data->done && 2 * data->n_lost > n);
}

void mpt_run_judge(const mpt_run_data *data, mpt_run_verdict *out) {
    char loss[192], skips[64];
    double planned = mpt_run_planned(data, "train.steps");
    int n = data->step.n;
    long long done =
        n > 0 && fabs(data->step.at[n - 1]) < 1e18 ? (long long)data->step.at[n - 1] + 1 : 0;
    say_loss(data, (double)done, loss, sizeof loss);
    say_skips(data, skips, sizeof skips);
    out->tone = MPT_PAGE_PLAIN;
    if (n == 0) {
        snprintf(out->text, sizeof out->text, "No step is recorded yet.");
    } else if (data->diagnosis) {
        out->tone = MPT_PAGE_BAD;
        snprintf(out->text, sizeof out->text, "Diverged after %lld step%s: %.200s; %s.", done,
                 done == 1 ? "" : "s", mpt_run_reason(data), loss);
    } else if (has_diverged(data)) {
        out->tone = MPT_PAGE_BAD;
        snprintf(out->text, sizeof out->text, "Diverged after %lld step%s: %s.%s", done,
                 done == 1 ? "" : "s", loss, skips);
    } else if (!data->done) {
        snprintf(out->text, sizeof out->text,
                 "No end is recorded: %lld of %.0f steps so far, %s.%s", done,
                 isnan(planned) ? (double)done : planned, loss, skips);
    } else if ((double)done < planned) {
        snprintf(out->text, sizeof out->text, "Stopped early after %lld of %.0f steps: %s.%s",
                 done, planned, loss, skips);
    } else {
        out->tone = MPT_PAGE_GOOD;
        snprintf(out->text, sizeof out->text, "Done after %lld step%s: %s.%s", done,
                 done == 1 ? "" : "s", loss, skips);
    }
}

/* ---- the page ---- */

static void put_facts(mpt_page *page, const mpt_run_data *data) {
    int n = data->step.n;
    const char *model = mpt_json_string(data->plan, "model");
    const char *text = mpt_json_string(json_object_get(data->plan, "data"), "source");
    mpt_page_begin_facts(page);
    if (model)
        mpt_page_fact(page, "model", "%s", model);
    if (text)
        mpt_page_fact(page, "data", "%s", text);
    if (n > 0)
        mpt_page_fact(page, "tokens", "%.0f", data->tokens.at[n - 1]);
    if (data->seconds > 0 && data->tokens_per_s.n > 0) {
        mpt_page_fact(page, "training time", "%.1f s", data->seconds);
        mpt_page_fact(page, "tokens a second", "%.0f", data->tokens.at[n - 1] / data->seconds);
    }
    if (n > 0) {
        mpt_page_fact(page, "steps skipped", "%d", data->n_skipped);
        mpt_page_fact(page, "spikes", "%d", data->of_kind[MPT_RUN_SPIKE]);
        mpt_page_fact(page, "rollbacks", "%d", data->of_kind[MPT_RUN_ROLLBACK]);
        mpt_page_fact(page, "checkpoints", "%d", data->of_kind[MPT_RUN_CHECKPOINT]);
    }
    mpt_page_end_facts(page);
}

static mpt_status put_page(mpt_page *page, mpt_run_data *data) {
    put_facts(page, data);
    for (int i = 0; i < data->n_notes; i++)
        mpt_page_note(page, MPT_PAGE_BAD, "%s.", data->notes[i]);
    mpt_run_put_diagnosis(page, data);
    MPT_TRY(mpt_run_put_curves(page, data));
    mpt_run_put_events(page, data);
    MPT_TRY(mpt_run_put_operands(page, data));
    mpt_run_put_plan(page, data);
    if (data->recipe)
        mpt_page_text(page, "recipe.lua as it was run", data->recipe);
    return MPT_OK;
}

static mpt_status write_page(mpt_run_data *data) {
    mpt_page page;
    mpt_run_verdict verdict;
    char title[256];
    const char *recipe = mpt_json_string(data->plan, "recipe");
    const char *path = mpt_arena_printf(&data->arena, "%s/report.html", data->folder);
    if (!path)
        return MPT_OUT_OF_MEMORY;
    mpt_run_judge(data, &verdict);
    snprintf(title, sizeof title, "%.200s: report of a training run",
             recipe ? recipe : "a run");
    mpt_page_begin(&page, data->ctx, title, verdict.tone, verdict.text);
    mpt_status status = put_page(&page, data);
    if (status == MPT_OK)
        return mpt_page_write(&page, path);
    mpt_page_deinit(&page);
    return status;
}

mpt_status mpt_report_run(mpt_ctx *ctx, const char *folder) {
    mpt_run_data data;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, folder);
    mpt_status status = mpt_run_data_read(ctx, folder, &data);
    if (status == MPT_OK)
        status = write_page(&data);
    mpt_run_data_free(&data);
    return status;
}
