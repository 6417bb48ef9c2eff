/* Reads a run folder. See run_data.h; lines of metrics and telemetry: run_lines.c. */
#include "report/run_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/lines.h"

enum { MOST_RECIPE = 1 << 18 };

/* ---- small steps ---- */

double mpt_json_double(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *mpt_json_string(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

mpt_status mpt_numbers_add(mpt_run_data *data, mpt_numbers *numbers, double value) {
    double *grown = mpt_arena_grow(&data->arena, numbers->at, sizeof *numbers->at, numbers->n,
                                   &numbers->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    numbers->at = grown;
    numbers->at[numbers->n++] = value;
    return MPT_OK;
}

const char *mpt_run_text(mpt_run_data *data, const char *text) {
    return mpt_arena_strdup(&data->arena, text ? text : "");
}

mpt_status mpt_run_note(mpt_run_data *data, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char **grown = mpt_arena_grow(&data->arena, data->notes, sizeof *data->notes,
                                        data->n_notes, &data->cap_notes);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    data->notes = grown;
    data->notes[data->n_notes] = mpt_run_text(data, text);
    return data->notes[data->n_notes++] ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static const char *path_of(mpt_run_data *data, const char *name) {
    return mpt_arena_printf(&data->arena, "%s/%s", data->folder, name);
}

/* ---- files of lines ---- */

/* What became of the lines of a file. */
typedef struct tally {
    int64_t lines, bad, first_bad;
} tally;

static mpt_status take_line(mpt_run_data *data, const mpt_line *line, mpt_run_line_fn take,
                            tally *t) {
    json_error_t error;
    json_t *object = json_loadb(line->text, line->n, 0, &error);
    t->lines++;
    if (json_is_object(object)) {
        mpt_status status = take(data, object);
        json_decref(object);
        return status;
    }
    json_decref(object);
    if (!object && json_error_code(&error) == json_error_out_of_memory)
        return mpt_fail_memory(data->ctx, line->n);
    if (line->torn) { /* the writer was ended, or is at it */
        t->lines--;
        return MPT_OK;
    }
    t->first_bad = t->bad++ == 0 ? t->lines : t->first_bad;
    return MPT_OK;
}

static mpt_status take_lines(mpt_run_data *data, mpt_lines *lines, mpt_run_line_fn take,
                             tally *t) {
    mpt_line line;
    for (;;) {
        MPT_TRY(mpt_lines_next(lines, &line));
        if (!line.text)
            return MPT_OK;
        MPT_TRY(take_line(data, &line, take, t));
    }
}

mpt_status mpt_run_read_lines(mpt_run_data *data, const char *name, bool needed,
                              mpt_run_line_fn take) {
    mpt_lines *lines;
    tally t = {0};
    const char *path = path_of(data, name);
    if (!path)
        return MPT_OUT_OF_MEMORY;
    mpt_status status = mpt_lines_open(data->ctx, path, &lines);
    if ((status == MPT_NOT_FOUND || status == MPT_IO) && !needed)
        return mpt_run_note(data, "%s cannot be read, so what it would show is left out", name);
    MPT_TRY(status);
    status = take_lines(data, lines, take, &t);
    mpt_lines_close(lines);
    if (status == MPT_IO && !needed)
        return mpt_run_note(data, "%s cannot be read to its end", name);
    MPT_TRY(status);
    if (needed && t.lines > 0 && t.bad == t.lines)
        return MPT_FAIL(data->ctx, MPT_DATA, ((mpt_where){path, 1}),
                        "no line of it is an object of JSON");
    if (t.bad > 0)
        return mpt_run_note(data,
                            "%s: %lld of %lld lines cannot be understood and are left out; the "
                            "first is line %lld",
                            name, (long long)t.bad, (long long)t.lines, (long long)t.first_bad);
    return MPT_OK;
}

/* Steps come in order. */
double mpt_run_tokens_at(const mpt_run_data *data, double step, bool *out_exact) {
    int low = 0, high = data->step.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (data->step.at[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    *out_exact = low < data->step.n && data->step.at[low] == step;
    return data->tokens.at[low < data->step.n ? low : data->step.n - 1];
}

static mpt_status take_timing(mpt_run_data *data, const json_t *object) {
    double step = mpt_json_double(object, "step"), ms = mpt_json_double(object, "step_ms");
    double speed = mpt_json_double(object, "tokens_per_s");
    int n = data->timed_tokens.n;
    bool exact = false;
    if (isnan(step) || isnan(speed))
        return MPT_OK;
    data->seconds += isfinite(ms) ? ms * 1e-3 : 0;
    double tokens = data->step.n > 0 ? mpt_run_tokens_at(data, step, &exact) : 0;
    if (!exact || (n > 0 && data->timed_tokens.at[n - 1] > tokens))
        return MPT_OK;
    MPT_TRY(mpt_numbers_add(data, &data->timed_tokens, tokens));
    return mpt_numbers_add(data, &data->tokens_per_s, speed);
}

/* ---- whole files ---- */

/* The plan, or a note that says what is wrong with it. */
static mpt_status read_plan(mpt_run_data *data) {
    mpt_file_map map;
    json_error_t error;
    const char *path = path_of(data, "plan.json");
    if (!path)
        return MPT_OUT_OF_MEMORY;
    mpt_status status = mpt_file_map_open(data->ctx, MPT_NOWHERE, path, &map);
    if (status == MPT_OUT_OF_MEMORY || status == MPT_DATA)
        return status;
    if (status != MPT_OK)
        return mpt_run_note(data, "plan.json cannot be read, so the plan is left out");
    data->plan = map.size ? json_loadb((const char *)map.data, map.size, 0, &error) : NULL;
    bool no_memory =
        map.size && !data->plan && json_error_code(&error) == json_error_out_of_memory;
    mpt_file_map_close(&map);
    if (no_memory)
        return mpt_fail_memory(data->ctx, map.size);
    if (json_is_object(data->plan))
        return MPT_OK;
    json_decref(data->plan);
    data->plan = NULL;
    return mpt_run_note(data, "plan.json is no object of JSON, so the plan is left out");
}

/* The recipe's text, to be shown as it is: where there is none, nothing is said. */
static mpt_status read_recipe(mpt_run_data *data) {
    mpt_file_map map;
    const char *path = path_of(data, "recipe.lua");
    if (!path)
        return MPT_OUT_OF_MEMORY;
    mpt_status status = mpt_file_map_open(data->ctx, MPT_NOWHERE, path, &map);
    if (status != MPT_OK)
        return status == MPT_NOT_FOUND || status == MPT_IO ? MPT_OK : status;
    size_t n = map.size <= MOST_RECIPE ? map.size : 0;
    if (n > 0 && (data->recipe = mpt_arena_alloc(&data->arena, n + 1)))
        memcpy(data->recipe, map.data, n);
    mpt_file_map_close(&map);
    return n > 0 && !data->recipe ? MPT_OUT_OF_MEMORY : MPT_OK;
}

static mpt_status fail_folder(mpt_ctx *ctx, const char *folder) {
    mpt_status status = MPT_FAIL(ctx, MPT_NOT_FOUND, MPT_NOWHERE, "%s: %s", folder,
                                 mpt_file_exists(folder) ? "is a file, and no folder of a run"
                                                         : "there is no such folder");
    mpt_hint(ctx, "name the folder of a run, such as runs/NAME-1");
    return status;
}

mpt_status mpt_run_data_read(mpt_ctx *ctx, const char *folder, mpt_run_data *data) {
    *data =
        (mpt_run_data){.ctx = ctx, .folder = folder, .last_eval = NAN, .last_eval_step = NAN};
    mpt_arena_init(&data->arena, ctx);
    if (!mpt_file_is_folder(folder))
        return fail_folder(ctx, folder);
    mpt_status status = mpt_run_read_lines(data, "metrics.jsonl", true, mpt_run_take_metrics);
    if (status == MPT_NOT_FOUND)
        mpt_hint(ctx, "name the folder of a run, which has one");
    MPT_TRY(status);
    MPT_TRY(mpt_run_read_lines(data, "timing.jsonl", false, take_timing));
    MPT_TRY(mpt_run_read_lines(data, "telemetry.jsonl", false, mpt_run_take_telemetry));
    MPT_TRY(read_plan(data));
    return read_recipe(data);
}

void mpt_run_data_free(mpt_run_data *data) {
    json_decref(data->plan);
    json_decref(data->diagnosis);
    if (data->ctx)
        mpt_arena_deinit(&data->arena);
    *data = (mpt_run_data){.ctx = NULL};
}
