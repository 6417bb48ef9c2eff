/* A run folder read for a comparison: plan.json for what was compiled, metrics.jsonl for losses
 * and for what ran, timing.jsonl for speed.
 *
 * Lines may come from a run that was killed, so the last one may be torn, and one that was
 * resumed, so steps may come again: the later ones count. */
#include "report/compare.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "io/file.h"

typedef struct reader {
    mpt_ctx *ctx;
    mpt_arena *arena;
    mpt_compared_run *run;
    const char *path;
    int64_t line;
} reader;

/* ---- values ---- */

static mpt_status fail_line(const reader *r, const char *what) {
    mpt_where where = {r->path, (int)r->line};
    return MPT_FAIL(r->ctx, MPT_DATA, where, "%s", what);
}

/* A number; null, as metrics write what is not finite, and anything else give NAN. */
static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* A count; -1 where there is none that a run can have, so that sums of them stay numbers. */
static int64_t whole(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
    return n >= 0 && n < INT64_C(1) << 48 ? n : -1;
}

static mpt_status copy_text(const reader *r, const json_t *object, const char *key,
                            const char **out) {
    const char *text = json_string_value(json_object_get(object, key));
    *out = mpt_arena_strdup(r->arena, text ? text : "?");
    return *out ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* ---- lines ---- */

/* Far more than any run has, and what an array of points can be asked for. */
enum { MOST_POINTS = 1 << 28 };

static mpt_status add_point(const reader *r, mpt_curve *curve, const mpt_point *point) {
    while (curve->n > 0 && curve->at[curve->n - 1].step >= point->step)
        curve->n--;
    if (curve->n == MOST_POINTS)
        return fail_line(r, "more steps than a run can have");
    mpt_point *grown =
        mpt_arena_grow(r->arena, curve->at, sizeof *grown, curve->n, &curve->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    curve->at = grown;
    curve->at[curve->n++] = *point;
    return MPT_OK;
}

void mpt_gemms_ran_add(mpt_gemm_list *list, const mpt_gemms_ran *row) {
    int i = 0;
    while (i < list->n &&
           (strcmp(list->of[i].gemm, row->gemm) != 0 || strcmp(list->of[i].a, row->a) != 0 ||
            strcmp(list->of[i].b, row->b) != 0))
        i++;
    if (i == MPT_GEMMS_RAN_MAX) /* more kinds than the formats there are could make */
        i--;
    if (i == list->n)
        list->of[list->n++] = (mpt_gemms_ran){row->gemm, row->a, row->b, row->quantized, 0};
    list->of[i].runs += row->runs;
}

static mpt_status take_gemms(const reader *r, const json_t *line) {
    mpt_gemms_ran row = {.quantized = json_is_true(json_object_get(line, "quantized"))};
    int64_t runs = whole(line, "runs");
    if (runs < 0)
        return fail_line(r, "gemms: runs is no count");
    row.runs = (uint64_t)runs;
    MPT_TRY(copy_text(r, line, "gemm", &row.gemm));
    MPT_TRY(copy_text(r, line, "a", &row.a));
    MPT_TRY(copy_text(r, line, "b", &row.b));
    mpt_gemms_ran_add(&r->run->gemms, &row);
    return MPT_OK;
}

/* A run that was gone on with elsewhere: its plan is that of the last device. */
static mpt_status take_device(const reader *r, const json_t *line, int64_t step) {
    mpt_compared_run *run = r->run;
    const char *from = json_string_value(json_object_get(line, "from")),
               *to = json_string_value(json_object_get(line, "to"));
    if (!from || !to || step < 0)
        return fail_line(r, "device: from, to or step is missing");
    run->device = mpt_arena_printf(r->arena, "%s until step %lld, then %s",
                                   run->moved ? run->device : from, (long long)step, to);
    run->moved = true;
    return run->device ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status take_metrics(reader *r, const json_t *line) {
    mpt_compared_run *run = r->run;
    const char *event = json_string_value(json_object_get(line, "event"));
    int64_t step = whole(line, "step");
    if (!event)
        return fail_line(r, "event: missing, so this is no line of metrics");
    if (strcmp(event, "gemms") == 0)
        return take_gemms(r, line);
    if (strcmp(event, "device") == 0)
        return take_device(r, line, step);
    run->ended = strcmp(event, "done") == 0;
    if (run->ended) {
        run->ended_at = step;
        run->skipped = whole(line, "skipped");
        run->eval_loss = number(line, "eval_loss");
        return MPT_OK;
    }
    const mpt_point point = {step, number(line, "tokens"), number(line, "loss")};
    run->gemms.n = 0; /* those before were of the run that was resumed */
    if (strcmp(event, "step") == 0 && step >= 0)
        return add_point(r, &run->steps, &point);
    if (strcmp(event, "eval") != 0 || step < 0)
        return MPT_OK;
    run->validates = true;
    return add_point(r, &run->evals, &point);
}

static mpt_status take_timing(reader *r, const json_t *line) {
    mpt_compared_run *run = r->run;
    double ms = number(line, "step_ms"), rate = number(line, "tokens_per_s");
    if (!(ms > 0) || !(rate >= 0))
        return fail_line(r, "step_ms or tokens_per_s is no time");
    if (run->n_ms == MOST_POINTS)
        return fail_line(r, "more steps than a run can have");
    double *grown =
        mpt_arena_grow(r->arena, run->step_ms, sizeof *grown, run->n_ms, &run->cap_ms);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    run->step_ms = grown;
    run->step_ms[run->n_ms++] = ms;
    run->tokens_a_step = ms * rate / 1e3;
    return MPT_OK;
}

/* Each whole line of a file goes to `take`; what a kill has torn off its end is left out. */
static mpt_status read_lines(reader *r, const char *name,
                             mpt_status (*take)(reader *r, const json_t *line)) {
    mpt_file_map map;
    mpt_status status = MPT_OK;
    r->path = mpt_arena_printf(r->arena, "%s/%s", r->run->folder, name);
    if (!r->path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_file_map_open(r->ctx, MPT_NOWHERE, r->path, &map));
    const char *at = (const char *)map.data, *end = at + map.size;
    r->line = 0;
    while (status == MPT_OK && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            break;
        r->line++;
        json_error_t why;
        json_t *line = json_loadb(at, (size_t)(newline - at), 0, &why);
        if (!line && json_error_code(&why) == json_error_out_of_memory)
            status = mpt_fail_memory(r->ctx, (size_t)(newline - at));
        else
            status = json_is_object(line) ? take(r, line) : fail_line(r, "not a JSON object");
        json_decref(line);
        at = newline + 1;
    }
    mpt_file_map_close(&map);
    return status;
}

/* ---- the plan ---- */

/* Steps and schedule hashes, over the phases that run. */
static mpt_status take_phases(const reader *r, const json_t *plan) {
    mpt_compared_run *run = r->run;
    const json_t *phases = json_object_get(plan, "phases");
    run->schedule_hash = "";
    for (size_t i = 0; i < json_array_size(phases) && run->planned < INT64_C(1) << 48; i++) {
        const json_t *phase = json_array_get(phases, i);
        const char *hash = json_string_value(json_object_get(phase, "schedule_hash"));
        int64_t steps = whole(phase, "steps");
        if (steps <= 0)
            continue;
        run->planned += steps;
        run->schedule_hash =
            mpt_arena_printf(r->arena, "%s%s%s", run->schedule_hash,
                             *run->schedule_hash ? "+" : "", hash ? hash : "?");
        if (!run->schedule_hash)
            return MPT_OUT_OF_MEMORY;
    }
    bool fits = run->planned > 0 && run->planned < INT64_C(1) << 48;
    return fits ? MPT_OK : fail_line(r, "phases: the plan has none with steps");
}

/* Plans of older builds have no fields: then nothing is known to differ. */
static mpt_status take_fields(const reader *r, const json_t *plan) {
    mpt_compared_run *run = r->run;
    json_t *train = json_object_get(plan, "train");
    const json_t *data = json_object_get(plan, "data");
    const char *name;
    json_t *value;
    MPT_TRY(copy_text(r, data, "source", &run->source));
    MPT_TRY(copy_text(r, data, "windows", &run->windows));
    run->unigram = number(data, "unigram");
    json_object_foreach(json_object_get(train, "fields"), name, value) {
        mpt_compared_field *grown = mpt_arena_grow(r->arena, run->fields, sizeof *grown,
                                                   run->n_fields, &run->cap_fields);
        if (!grown)
            return MPT_OUT_OF_MEMORY;
        run->fields = grown;
        const char *text = json_string_value(value);
        grown[run->n_fields].name = mpt_arena_strdup(r->arena, name);
        grown[run->n_fields].value = mpt_arena_strdup(r->arena, text ? text : "?");
        if (!grown[run->n_fields].name || !grown[run->n_fields].value)
            return MPT_OUT_OF_MEMORY;
        run->n_fields++;
    }
    return MPT_OK;
}

/* Written as a signed number of 64 bits. */
static void take_seed(const reader *r, const json_t *plan) {
    const json_t *seed = json_object_get(json_object_get(plan, "train"), "seed");
    r->run->own_seed = json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : 0;
}

static mpt_status take_plan(const reader *r, const json_t *plan) {
    mpt_compared_run *run = r->run;
    int64_t bytes = whole(json_object_get(plan, "bytes"), "total");
    run->parameters = whole(plan, "parameters");
    run->bytes = bytes > 0 ? (uint64_t)bytes : 0;
    MPT_TRY(copy_text(r, plan, "recipe", &run->own_name));
    run->name = run->name ? run->name : run->own_name;
    MPT_TRY(copy_text(r, plan, "model", &run->model));
    MPT_TRY(copy_text(r, plan, "recipe_hash", &run->recipe_hash));
    if (json_is_string(json_object_get(plan, "backend")))
        MPT_TRY(copy_text(r, plan, "backend", &run->device));
    take_seed(r, plan);
    MPT_TRY(take_fields(r, plan));
    return take_phases(r, plan);
}

static mpt_status read_plan(reader *r) {
    mpt_file_map map;
    json_error_t why;
    r->path = mpt_arena_printf(r->arena, "%s/plan.json", r->run->folder);
    if (!r->path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_file_map_open(r->ctx, MPT_NOWHERE, r->path, &map));
    json_t *plan = json_loadb((const char *)map.data, map.size, 0, &why);
    bool memory = !plan && json_error_code(&why) == json_error_out_of_memory;
    r->line = plan ? 0 : why.line;
    mpt_status status = memory                 ? mpt_fail_memory(r->ctx, map.size)
                        : json_is_object(plan) ? take_plan(r, plan)
                                               : fail_line(r, "not a plan as JSON");
    json_decref(plan);
    mpt_file_map_close(&map);
    return status;
}

mpt_status mpt_compare_read(mpt_ctx *ctx, mpt_arena *arena, const mpt_compare_run *from,
                            mpt_compared_run *out) {
    reader r = {.ctx = ctx, .arena = arena, .run = out};
    *out = (mpt_compared_run){.recipe = from->recipe, .seed = from->seed};
    out->eval_loss = out->unigram = (double)NAN;
    out->device = "";
    out->model = out->recipe_hash = out->schedule_hash = out->source = out->windows = "";
    out->begun = !from->not_begun;
    out->folder = mpt_arena_strdup(arena, from->folder);
    out->name = from->name ? mpt_arena_strdup(arena, from->name) : NULL;
    if (!out->folder || (from->name && !out->name))
        return MPT_OUT_OF_MEMORY;
    if (!out->begun)
        return MPT_OK;
    MPT_TRY(read_plan(&r));
    MPT_TRY(read_lines(&r, "metrics.jsonl", take_metrics));
    return read_lines(&r, "timing.jsonl", take_timing);
}
