/* What a line of metrics.jsonl and of telemetry.jsonl tells the report. */
#include "report/run_data.h"

#include <math.h>
#include <string.h>

/* ---- metrics ---- */

static double last_tokens(const mpt_run_data *data) {
    return data->tokens.n > 0 ? data->tokens.at[data->tokens.n - 1] : 0;
}

/* Of skipped steps those do not count as a fault that a dynamic loss scale answers by falling:
 * it finds its place with them. That shows in the step behind. */
static void count_skip(mpt_run_data *data, const json_t *o) {
    int n = data->step.n;
    bool fell = n > 0 && mpt_json_double(o, "loss_scale") < data->loss_scale.at[n - 1];
    if (fell && data->last_skips > 0 && isfinite(data->loss.at[n - 1])) {
        data->last_skips--;
        data->n_lost--;
    }
    bool skipped = json_is_true(json_object_get(o, "skipped"));
    data->last_skips = skipped ? data->last_skips + 1 : 0;
    data->n_lost += skipped;
    data->n_skipped += skipped;
}

static mpt_status take_step(mpt_run_data *data, const json_t *o) {
    double tokens = mpt_json_double(o, "tokens"), last = last_tokens(data);
    count_skip(data, o);
    MPT_TRY(mpt_numbers_add(data, &data->step, mpt_json_double(o, "step")));
    MPT_TRY(mpt_numbers_add(data, &data->tokens, tokens >= last ? tokens : last));
    MPT_TRY(mpt_numbers_add(data, &data->loss, mpt_json_double(o, "loss")));
    MPT_TRY(mpt_numbers_add(data, &data->lr, mpt_json_double(o, "lr")));
    MPT_TRY(mpt_numbers_add(data, &data->grad_norm, mpt_json_double(o, "grad_norm")));
    return mpt_numbers_add(data, &data->loss_scale, mpt_json_double(o, "loss_scale"));
}

static mpt_status take_eval(mpt_run_data *data, const json_t *o) {
    double tokens = mpt_json_double(o, "tokens");
    int n = data->eval_tokens.n;
    if (isnan(tokens))
        tokens = last_tokens(data);
    if (n > 0 && data->eval_tokens.at[n - 1] > tokens)
        tokens = data->eval_tokens.at[n - 1];
    data->last_eval = mpt_json_double(o, "loss");
    data->last_eval_step = mpt_json_double(o, "step");
    MPT_TRY(mpt_numbers_add(data, &data->eval_tokens, tokens));
    return mpt_numbers_add(data, &data->eval_loss, data->last_eval);
}

/* What the event says beside its step, in a few words. */
static const char *event_text(mpt_run_data *data, mpt_run_event_kind kind, const json_t *o) {
    const char *tensor = mpt_json_string(o, "tensor"), *what = mpt_json_string(o, "what");
    switch (kind) {
    case MPT_RUN_PHASE:
        return mpt_run_text(data, mpt_json_string(o, "phase"));
    case MPT_RUN_SKIP:
        return mpt_arena_printf(&data->arena, "%s in the gradient of %s",
                                mpt_json_string(o, "fault") ? mpt_json_string(o, "fault")
                                                            : "a fault",
                                tensor ? tensor : "a tensor");
    case MPT_RUN_SPIKE:
        return mpt_arena_printf(
            &data->arena, "%s %.4g, median %.4g, z %.3g; %s", what ? what : "value",
            mpt_json_double(o, "value"), mpt_json_double(o, "median"), mpt_json_double(o, "z"),
            mpt_json_string(o, "action") ? mpt_json_string(o, "action") : "");
    case MPT_RUN_ROLLBACK:
        return mpt_arena_printf(&data->arena, "back to step %.0f", mpt_json_double(o, "to"));
    case MPT_RUN_RANGE:
        return mpt_arena_printf(&data->arena, "%s reaches %.4g", tensor ? tensor : "a tensor",
                                mpt_json_double(o, "amax"));
    case MPT_RUN_DEVICE:
        return mpt_arena_printf(&data->arena, "from %s to %s, whose sums round otherwise",
                                mpt_json_string(o, "from") ? mpt_json_string(o, "from") : "?",
                                mpt_json_string(o, "to") ? mpt_json_string(o, "to") : "?");
    case MPT_RUN_INJECT:
        return mpt_run_text(data, mpt_json_string(o, "fault"));
    default:
        return mpt_run_text(data, "");
    }
}

static mpt_status take_event(mpt_run_data *data, mpt_run_event_kind kind, const json_t *o) {
    mpt_run_event *grown = mpt_arena_grow(&data->arena, data->events, sizeof *data->events,
                                          data->n_events, &data->cap_events);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    data->events = grown;
    double step = mpt_json_double(o, "step");
    mpt_run_event event = {.kind = kind,
                           .step = fabs(step) < 1e18 ? (int64_t)step : 0,
                           .tokens = last_tokens(data),
                           .text = event_text(data, kind, o)};
    data->events[data->n_events++] = event;
    data->of_kind[kind]++;
    return event.text ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status take_gemms(mpt_run_data *data, const json_t *o) {
    mpt_run_gemm *grown = mpt_arena_grow(&data->arena, data->gemms, sizeof *data->gemms,
                                         data->n_gemms, &data->cap_gemms);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    data->gemms = grown;
    mpt_run_gemm *gemm = &data->gemms[data->n_gemms++];
    gemm->gemm = mpt_run_text(data, mpt_json_string(o, "gemm"));
    gemm->a = mpt_run_text(data, mpt_json_string(o, "a"));
    gemm->b = mpt_run_text(data, mpt_json_string(o, "b"));
    gemm->runs = mpt_json_double(o, "runs");
    return gemm->gemm && gemm->a && gemm->b ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* The last one counts: a run that went on may have stopped again. */
static mpt_status take_diagnosis(mpt_run_data *data, const json_t *o) {
    json_decref(data->diagnosis);
    data->diagnosis = json_incref((json_t *)(uintptr_t)o);
    return MPT_OK;
}

/* Events that are not known here say nothing to the page. */
mpt_status mpt_run_take_metrics(mpt_run_data *data, const json_t *object) {
    static const struct {
        const char *name;
        mpt_run_event_kind kind;
    } kinds[] = {{"phase", MPT_RUN_PHASE},           {"skip", MPT_RUN_SKIP},
                 {"spike", MPT_RUN_SPIKE},           {"rollback", MPT_RUN_ROLLBACK},
                 {"checkpoint", MPT_RUN_CHECKPOINT}, {"range", MPT_RUN_RANGE},
                 {"inject", MPT_RUN_INJECT},         {"device", MPT_RUN_DEVICE}};
    const char *event = mpt_json_string(object, "event");
    if (!event)
        return MPT_OK;
    if (strcmp(event, "step") == 0)
        return take_step(data, object);
    if (strcmp(event, "eval") == 0)
        return take_eval(data, object);
    if (strcmp(event, "gemms") == 0)
        return take_gemms(data, object);
    if (strcmp(event, "diagnosis") == 0)
        return take_diagnosis(data, object);
    data->done |= strcmp(event, "done") == 0;
    for (size_t i = 0; i < MPT_COUNT(kinds); i++)
        if (strcmp(event, kinds[i].name) == 0)
            return take_event(data, kinds[i].kind, object);
    return MPT_OK;
}

/* ---- telemetry ---- */

/* The operand of a name. A step's lines come in the order of those before, so it is mostly the
 * one behind the last. */
static mpt_run_operand *find_operand(mpt_run_data *data, const char *name, int *last) {
    for (int i = 0; i < data->n_operands; i++) {
        int at = (*last + 1 + i) % data->n_operands;
        if (strcmp(data->operands[at].name, name) == 0) {
            *last = at;
            return &data->operands[at];
        }
    }
    mpt_run_operand *grown =
        mpt_arena_grow(&data->arena, data->operands, sizeof *data->operands, data->n_operands,
                       &data->cap_operands);
    if (!grown)
        return NULL;
    data->operands = grown;
    *last = data->n_operands++;
    grown[*last] = (mpt_run_operand){.name = mpt_run_text(data, name), .lowest = NAN};
    return grown[*last].name ? &grown[*last] : NULL;
}

/* Of what has no number there is no signal, or nothing was lost of it. */
static double sqnr_of(const json_t *o) {
    double sqnr = mpt_json_double(o, "sqnr");
    bool empty = !(mpt_json_double(o, "zeros") < 1);
    return isnan(sqnr) && !empty ? (double)INFINITY : sqnr;
}

mpt_status mpt_run_take_telemetry(mpt_run_data *data, const json_t *o) {
    double step = mpt_json_double(o, "step");
    const char *name = mpt_json_string(o, "operand"), *format = mpt_json_string(o, "format");
    mpt_numbers *steps = &data->telemetry_step;
    if (!name || isnan(step))
        return MPT_OK;
    if (steps->n == 0 || steps->at[steps->n - 1] < step)
        MPT_TRY(mpt_numbers_add(data, steps, step));
    mpt_run_operand *operand = find_operand(data, name, &data->last_operand);
    if (!operand)
        return MPT_OUT_OF_MEMORY;
    double sqnr = sqnr_of(o);
    if (!operand->format || strcmp(operand->format, format ? format : "") != 0)
        operand->format = mpt_run_text(data, format);
    if (!isnan(sqnr) && !(operand->lowest <= sqnr))
        operand->lowest = sqnr;
    operand->amax = mpt_json_double(o, "amax");
    operand->overflow = mpt_json_double(o, "overflow");
    operand->underflow = mpt_json_double(o, "underflow");
    operand->zeros = mpt_json_double(o, "zeros");
    operand->scale = mpt_json_double(o, "scale");
    MPT_TRY(mpt_numbers_add(data, &operand->column, (double)(steps->n - 1)));
    MPT_TRY(mpt_numbers_add(data, &operand->sqnr, sqnr));
    return operand->format ? MPT_OK : MPT_OUT_OF_MEMORY;
}
