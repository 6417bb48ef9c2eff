/* What is said of a run that gave up. See diagnosis_text.h.
 *
 * Only what the recipe uses is spoken of: the loss scale where it has one, FP16 where the bad
 * tensor is in it. Lines are made in fixed buffers, since memory may be what lacks. */
#include "train/diagnosis_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mpt/watch.h"

enum { TEXT = 768, EVENT_CHANGES = 8 };

static const char *const reasons[] = {"none",      "max_skips", "nonfinite",
                                      "rollbacks", "diverged",  "high_loss"};

static const char *fault_name(bool nan) {
    return nan ? "NaN" : "Inf";
}

/* The first bad gradient's parameter; NULL: a spike, or no step was skipped. */
static const char *gradient_name(const mpt_trainer *trainer) {
    int64_t param = trainer->diagnosis.bad.param;
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    return param < 0 || param >= graph->n_params ? NULL : graph->params[param].name;
}

static bool has_loss_scale(const mpt_trainer *trainer) {
    return trainer->program->recipe->loss_scale.kind != MPT_LOSS_SCALE_NONE;
}

/* "NaN in the weights h.0.attn.weight", "Inf in h.0.mlp (linear, fp16)", the same in the
 * backward pass, "NaN in the gradient of ..." where no value before it was bad. */
static void first_text(const mpt_trainer *trainer, char out[TEXT]) {
    const mpt_bad_tensor *first = &trainer->diagnosis.first;
    const char *gradient = gradient_name(trainer);
    if (first->place == MPT_BAD_WEIGHT)
        snprintf(out, TEXT, "%s in the weights %s", fault_name(first->nan), first->name);
    else if (first->place == MPT_BAD_OUTPUT)
        snprintf(out, TEXT, "%s in %s (%s, %s)%s", fault_name(first->nan), first->name,
                 first->op, mpt_dtype_name(first->format),
                 first->pass == MPT_PASS_BACKWARD ? ", in the backward pass" : "");
    else
        snprintf(out, TEXT, "%s in the gradient of %s",
                 fault_name(trainer->diagnosis.bad.nan != 0), gradient ? gradient : "?");
}

/* Spikes, and weights, for which the layer's format is not to blame. */
static const char *advice_apart(const mpt_trainer *trainer) {
    if (trainer->diagnosis.reason == MPT_STOP_HIGH_LOSS)
        return "lower the learning rate or warm up longer; where another precision does train, "
               "mptrun sweep tells which format is to blame";
    if (gradient_name(trainer) == NULL)
        return "lower the learning rate or warm up longer; where the loss has another level "
               "for "
               "good, raise train.watch.spike.z or take action = 'warn'";
    if (trainer->diagnosis.first.place != MPT_BAD_WEIGHT)
        return NULL;
    return has_loss_scale(trainer)
               ? "no loss scale cures that: go back to a checkpoint, or to weights, from before"
               : "go back to a checkpoint, or to weights, from before";
}

/* What to try. */
static void earnest_text(const mpt_trainer *trainer, char *out, size_t size) {
    const mpt_diagnosis *d = &trainer->diagnosis;
    const char *wider = "lower the learning rate, or keep this layer in a wider format";
    const char *apart = advice_apart(trainer);
    bool forward = d->first.place == MPT_BAD_OUTPUT && d->first.pass != MPT_PASS_BACKWARD;
    mpt_loss_scale_kind kind = trainer->program->recipe->loss_scale.kind;
    if (apart)
        snprintf(out, size, "%s", apart);
    else if (forward && d->first.format == MPT_DTYPE_FP16)
        snprintf(out, size, "FP16 ends at 65504: %s", wider);
    else if (forward || !isfinite(d->bad.loss) || kind == MPT_LOSS_SCALE_NONE)
        snprintf(out, size, "%s", wider);
    else if (kind == MPT_LOSS_SCALE_STATIC)
        snprintf(out, size, "lower precision.loss_scale, which is %g, or make it dynamic { }",
                 d->bad.loss_scale);
    else
        snprintf(out, size, "the loss scale is at its floor of %g: %s", d->bad.loss_scale,
                 wider);
}

/* Whether a fault that the host asked for has been in a step until now. */
static bool is_drill(const mpt_trainer *trainer) {
    for (int i = 0; i < trainer->faults.n; i++)
        if (trainer->faults.faults[i].step <= trainer->diagnosis.step)
            return true;
    return false;
}

static void advice_text(const mpt_trainer *trainer, char text[TEXT]) {
    static const char drill[] = "this is a drill, for a fault was injected; in earnest: ";
    size_t lead = is_drill(trainer) ? sizeof drill - 1 : 0;
    memcpy(text, drill, lead);
    earnest_text(trainer, text + lead, TEXT - lead);
}

/* ---- the event ---- */

/* "20 steps in a row were skipped" */
static void reason_text(const mpt_trainer *trainer, char out[TEXT]) {
    const mpt_watch_counts *counts = &trainer->watch.counts;
    switch (trainer->diagnosis.reason) {
    case MPT_STOP_MAX_SKIPS:
        snprintf(out, TEXT, "%d step%s in a row %s skipped", trainer->skips_in_a_row,
                 trainer->skips_in_a_row == 1 ? "" : "s",
                 trainer->skips_in_a_row == 1 ? "was" : "were");
        return;
    case MPT_STOP_NONFINITE:
        snprintf(out, TEXT, "a gradient is not finite, and train.watch.nonfinite is 'stop'");
        return;
    case MPT_STOP_HIGH_LOSS:
        snprintf(out, TEXT, "at the end the loss is far above the first, which was %.4g",
                 trainer->watch.first_loss);
        return;
    case MPT_STOP_ROLLBACKS:
        snprintf(out, TEXT, "after %lld rollbacks to step %lld the spike is there again",
                 (long long)counts->rolled_times, (long long)counts->rolled_to);
        return;
    default:
        snprintf(out, TEXT, "%lld of %lld steps were skipped",
                 (long long)trainer->watch.counts.skipped, (long long)trainer->attempted);
    }
}

static void add_first(const mpt_trainer *trainer, mpt_metrics_line *line) {
    static const char *const passes[] = {"prepare", "forward", "backward", "update"};
    const mpt_bad_tensor *first = &trainer->diagnosis.first;
    bool weight = first->place == MPT_BAD_WEIGHT;
    if (first->place == MPT_BAD_NOWHERE)
        return;
    mpt_metrics_string(line, "tensor", first->name);
    mpt_metrics_string(line, "op", weight ? "weights" : first->op);
    mpt_metrics_string(line, "pass", passes[first->pass]);
    mpt_metrics_string(line, "format", mpt_dtype_name(first->format));
    mpt_metrics_string(line, "fault", fault_name(first->nan));
    mpt_metrics_integer(line, "nan", first->n_nan);
    mpt_metrics_integer(line, "inf", first->n_inf);
    mpt_metrics_integer(line, "elements", first->n);
    mpt_metrics_number(line, "amax", (double)first->amax);
    if (!weight)
        mpt_metrics_number(line, "input_amax", (double)first->input_amax);
}

void mpt_diagnosis_event(const mpt_trainer *trainer, mpt_metrics_line *line) {
    const mpt_diagnosis *d = &trainer->diagnosis;
    double changes[EVENT_CHANGES][2];
    char text[TEXT];
    mpt_metrics_begin(line, "diagnosis");
    mpt_metrics_integer(line, "step", d->step);
    mpt_metrics_string(line, "reason", reasons[d->reason]);
    add_first(trainer, line);
    if (gradient_name(trainer)) {
        mpt_metrics_string(line, "gradient", gradient_name(trainer));
        mpt_metrics_string(line, "gradient_fault", fault_name(d->bad.nan != 0));
        mpt_metrics_number(line, "gradient_amax", d->bad.amax);
    }
    mpt_metrics_number(line, "loss", d->bad.loss);
    if (has_loss_scale(trainer)) {
        int n = mpt_watch_changes(&trainer->watch, EVENT_CHANGES, changes);
        mpt_metrics_number(line, "loss_scale", d->bad.loss_scale);
        mpt_metrics_pairs(line, "loss_scales", changes[0], n);
    }
    reason_text(trainer, text);
    mpt_metrics_string(line, "text", text);
    advice_text(trainer, text);
    mpt_metrics_string(line, "advice", text);
}

/* ---- the error ---- */

/* "; first bad tensor: ...", or what stood out where all were finite. */
static void cause_text(const mpt_trainer *trainer, char out[TEXT]) {
    char first[TEXT];
    const mpt_diagnosis *d = &trainer->diagnosis;
    first_text(trainer, first);
    if (gradient_name(trainer))
        snprintf(out, TEXT, "first bad tensor: %.700s", first);
    else
        snprintf(out, TEXT, "%s loss %.4g and gradient norm %.4g",
                 d->reason == MPT_STOP_MAX_SKIPS ? "the last for a spike, with" : "it has",
                 d->bad.loss, d->bad.grad_norm);
}

mpt_status mpt_diagnosis_fail(const mpt_trainer *trainer) {
    char reason[TEXT], cause[TEXT], advice[TEXT];
    reason_text(trainer, reason);
    cause_text(trainer, cause);
    advice_text(trainer, advice);
    mpt_status status = MPT_FAIL(trainer->ctx, MPT_STOPPED, MPT_NOWHERE, "step %lld: %s; %s",
                                 (long long)trainer->diagnosis.step, reason, cause);
    mpt_hint(trainer->ctx, "%s", advice);
    return status;
}

/* ---- for people ---- */

/* NaN has a sign that says nothing. */
static const char *number(double x, char out[32]) {
    snprintf(out, 32, isnan(x) ? "NaN" : "%g", x);
    return out;
}

/* Where the text goes; nothing more once a write was refused. */
typedef struct writing {
    mpt_write_fn write;
    void *ud;
    bool refused;
} writing;

MPT_PRINTF(2, 3) static void say(writing *w, const char *fmt, ...) {
    char line[2 * TEXT];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    w->refused = w->refused || !w->write(w->ud, line, length);
}

static void say_first(const mpt_trainer *trainer, writing *w) {
    const mpt_bad_tensor *first = &trainer->diagnosis.first;
    char text[TEXT];
    if (!gradient_name(trainer))
        return;
    first_text(trainer, text);
    say(w, "first bad tensor   %s\n", text);
    if (first->place == MPT_BAD_NOWHERE)
        return;
    say(w, "                   %lld of its %lld elements NaN, %lld Inf; the others reach %g\n",
        (long long)first->n_nan, (long long)first->n, (long long)first->n_inf,
        (double)first->amax);
    if (first->place == MPT_BAD_OUTPUT)
        say(w, "                   what it was made from reaches %g\n",
            (double)first->input_amax);
}

static void say_scales(const mpt_trainer *trainer, writing *w) {
    double changes[MPT_WATCH_CHANGES][2];
    int n = has_loss_scale(trainer)
                ? mpt_watch_changes(&trainer->watch, MPT_WATCH_CHANGES, changes)
                : 0;
    for (int i = 0; i < n; i++)
        say(w, "%s%g from step %.0f\n", i ? "                   " : "loss scale         ",
            changes[i][1], changes[i][0]);
}

mpt_status mpt_trainer_diagnosis(const mpt_trainer *trainer, mpt_write_fn write, void *ud) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, write);
    const mpt_diagnosis *d = &trainer->diagnosis;
    writing w = {.write = write, .ud = ud};
    char text[TEXT], value[32];
    if (d->reason == MPT_STOP_NONE)
        return MPT_OK;
    reason_text(trainer, text);
    say(&w, "Training stopped itself at step %lld: %s.\n\n", (long long)d->step, text);
    say_first(trainer, &w);
    if (gradient_name(trainer))
        say(&w, "first bad gradient %s, %s at step %lld; its finite elements reach %g\n",
            gradient_name(trainer), fault_name(d->bad.nan != 0), (long long)d->bad.step,
            d->bad.amax);
    say(&w, "loss               %s\n", number(d->bad.loss, value));
    say(&w, "gradient norm      %s\n", number(d->bad.grad_norm, value));
    say_scales(trainer, &w);
    advice_text(trainer, text);
    say(&w, "what to try        %s\n", text);
    return w.refused ? MPT_FAIL(trainer->ctx, MPT_IO, MPT_NOWHERE,
                                "diagnosis: the writer took no more text")
                     : MPT_OK;
}
