/* Giving up: the step runs once more, op by op, until the first value that is not finite. See
 * diagnosis.h; the words are in diagnosis_text.c.
 *
 * It runs as an evaluation does, so no amax enters a history, and what outlives the step is not
 * touched but for gradients, which every step zeroes. Faults by request are put in again.
 * Delayed scales are those after the step, since its histories have moved on. */
#include "train/diagnosis.h"

#include <math.h>
#include <stdio.h>

#include "kernels/quantize.h"
#include "kernels/tensor.h"
#include "train/diagnosis_text.h"

/* Counts what is in n numbers; whether one of them is not finite. */
static bool count_bad(const float *x, int64_t n, mpt_bad_tensor *out) {
    out->n = n;
    out->n_nan = out->n_inf = 0;
    out->amax = 0;
    for (int64_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        if (isfinite(a)) {
            out->amax = a > out->amax ? a : out->amax;
            continue;
        }
        if (out->n_nan + out->n_inf == 0)
            out->nan = isnan(a);
        out->n_nan += isnan(a);
        out->n_inf += isinf(a);
    }
    return out->n_nan + out->n_inf > 0;
}

/* ---- weights ---- */

static bool find_weight(const mpt_trainer *trainer, mpt_bad_tensor *out) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    if (mpt_state_see(trainer->state, MPT_STATE_MASTERS) != MPT_OK)
        return false;
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_value *value = &graph->values[graph->params[p].value];
        int64_t n = mpt_value_elements(value);
        if (mpt_all_finite(trainer->state->master[p], n))
            continue;
        (void)count_bad(trainer->state->master[p], n, out);
        out->place = MPT_BAD_WEIGHT;
        out->pass = MPT_PASS_PREPARE;
        out->format = value->dtype;
        snprintf(out->name, sizeof out->name, "%s", graph->params[p].name);
        return true;
    }
    return false;
}

/* ---- what nodes put out ---- */

/* A walk through the step. */
typedef struct walk {
    mpt_trainer *trainer;
    mpt_runner runner;
    mpt_run_env env;
    int64_t step; /* attempted, for the faults */
    mpt_bad_tensor *out;
} walk;

static float input_amax(const walk *w, const mpt_node *node) {
    float most = 0;
    for (int i = 0; i < node->n_in; i++) {
        const mpt_tensor *in =
            node->in[i] >= 0 ? mpt_executor_fetch(w->runner.executor, node->in[i]) : NULL;
        if (!in || !in->data || in->dtype == MPT_DTYPE_I32)
            continue;
        float a = mpt_amax_of(in->data, (size_t)mpt_tensor_elements(in));
        most = a > most ? a : most;
    }
    return most;
}

/* Whether the node of this step has put out something that is not finite. */
static bool find_in_step(const walk *w, int step) {
    const mpt_graph *graph = w->runner.graph;
    const mpt_node *node = &graph->nodes[w->runner.program->steps[step].node];
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        const mpt_tensor *t = mpt_executor_fetch(w->runner.executor, node->out[k]);
        if (!t->data || t->dtype == MPT_DTYPE_I32 ||
            mpt_all_finite(t->data, mpt_tensor_elements(t)))
            continue;
        (void)count_bad(t->data, mpt_tensor_elements(t), w->out);
        w->out->place = MPT_BAD_OUTPUT;
        w->out->pass = node->pass;
        w->out->micro_batch = w->env.micro_batch;
        w->out->op = mpt_op_get(node->op)->name;
        w->out->format = t->dtype;
        w->out->input_amax = input_amax(w, node);
        mpt_place_text(graph, node, k, w->out->name);
        return true;
    }
    return false;
}

static bool find_in_pass(const walk *w, mpt_pass pass) {
    const int *segment = w->runner.program->segment;
    for (int s = segment[pass]; s < segment[pass + 1]; s++) {
        mpt_executor_run_step(w->runner.executor, s, &w->env);
        if (pass != MPT_PASS_PREPARE && w->env.micro_batch == 0)
            mpt_faults_after(&w->trainer->faults, w->step, w->runner.program,
                             w->runner.executor, s);
        if (find_in_step(w, s))
            return true;
    }
    return false;
}

static bool find_output(walk *w) {
    const mpt_train *train = &w->trainer->program->train;
    const mpt_graph *graph = w->runner.graph;
    int64_t n = train->batch * train->sequence, step = graph->batch * graph->sequence;
    if (find_in_pass(w, MPT_PASS_PREPARE))
        return true;
    for (int64_t at = 0; at < n; at += step, w->env.micro_batch++) {
        mpt_runner_fill(&w->runner, w->trainer->tokens + at, w->trainer->targets + at);
        if (find_in_pass(w, MPT_PASS_FORWARD) || find_in_pass(w, MPT_PASS_BACKWARD))
            return true;
    }
    return false;
}

static mpt_status find_first(mpt_trainer *trainer, const mpt_step_result *r,
                             mpt_bad_tensor *out) {
    const mpt_train *train = &trainer->program->train;
    int64_t n = train->batch * train->sequence;
    walk w = {.trainer = trainer, .step = r->step, .out = out};
    w.runner = mpt_trainer_runner(trainer, false);
    w.env = mpt_trainer_env(trainer);
    w.env.step = (uint32_t)r->step;
    w.env.evaluating = true;
    w.env.loss_seed = (float)(r->loss_scale / (double)mpt_count_targets(trainer->targets, n));
    MPT_TRY(mpt_faults_weights(&trainer->faults, r->step, trainer->state));
    mpt_state_push(trainer->state);
    if (!find_weight(trainer, out) && !find_output(&w))
        *out = (mpt_bad_tensor){.place = MPT_BAD_NOWHERE};
    MPT_TRY(mpt_faults_restore(&trainer->faults, r->step, trainer->state));
    return mpt_executor_status(w.runner.executor);
}

/* ---- the end ---- */

static mpt_status write_event(const mpt_trainer *trainer) {
    mpt_metrics_line line;
    mpt_diagnosis_event(trainer, &line);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}

mpt_status mpt_trainer_give_up(mpt_trainer *trainer, const mpt_step_result *r,
                               mpt_stop_reason reason) {
    mpt_diagnosis *d = &trainer->diagnosis;
    *d = (mpt_diagnosis){.reason = reason, .step = r->step, .bad = trainer->bad};
    if (r->bad_tensor)
        MPT_TRY(find_first(trainer, r, &d->first));
    mpt_watch_scale(&trainer->watch, trainer->attempted, trainer->scaler.loss_scale);
    MPT_TRY(write_event(trainer));
    return mpt_diagnosis_fail(trainer);
}

mpt_status mpt_trainer_diagnose_end(mpt_trainer *trainer, mpt_stop_reason reason) {
    if (trainer->diagnosis.reason != MPT_STOP_NONE)
        return MPT_OK; /* it gave up before, and was finished all the same */
    trainer->diagnosis =
        (mpt_diagnosis){.reason = reason, .step = trainer->attempted - 1, .bad = trainer->bad};
    if (reason == MPT_STOP_HIGH_LOSS)
        trainer->diagnosis.bad =
            (mpt_bad_step){.step = trainer->attempted - 1,
                           .param = -1,
                           .loss = mpt_watch_last(&trainer->watch, MPT_WATCHED_LOSS),
                           .grad_norm = mpt_watch_last(&trainer->watch, MPT_WATCHED_GRAD_NORM),
                           .loss_scale = trainer->scaler.loss_scale};
    return write_event(trainer);
}
