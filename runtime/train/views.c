/* What a host may look at in a trainer: parameters, delayed scales, counts of a step. All of it
 * is lent, and changes with the next step. */
#include "mpt/watch.h"
#include "train/trainer.h"

bool mpt_trainer_done(const mpt_trainer *trainer) {
    return trainer && trainer->attempted >= trainer->program->train.steps;
}

bool mpt_trainer_param(const mpt_trainer *trainer, int index, mpt_param_view *out) {
    if (!trainer || !out || index < 0)
        return false;
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    if (index >= graph->n_params)
        return false;
    const mpt_param *param = &graph->params[index];
    const mpt_value *value = &graph->values[param->value];
    *out = (mpt_param_view){.name = param->name, .rank = value->rank};
    for (int i = 0; i < value->rank; i++)
        out->dims[i] = value->dims[i];
    out->data = trainer->state->master[index];
    return mpt_state_see(trainer->state, MPT_STATE_MASTERS) == MPT_OK;
}

bool mpt_trainer_gradient(const mpt_trainer *trainer, int index, mpt_param_view *out) {
    if (!trainer || !trainer->has_gradients || !mpt_trainer_param(trainer, index, out))
        return false;
    out->data = trainer->state->grad[index];
    return mpt_state_see(trainer->state, MPT_STATE_GRADS) == MPT_OK;
}

bool mpt_trainer_scale(const mpt_trainer *trainer, int index, mpt_scale_view *out) {
    if (!trainer || !out || index < 0 || index >= trainer->state->n_scales)
        return false;
    const mpt_scale_state *scale = &trainer->state->scales[index];
    if (mpt_state_see(trainer->state, MPT_STATE_SCALES) != MPT_OK)
        return false;
    *out = (mpt_scale_view){scale->name, *scale->scale, scale->history, scale->amax_history};
    return true;
}

void mpt_trainer_count_next(mpt_trainer *trainer) {
    if (trainer)
        trainer->count_next = true;
}

/* The n-th operand that is quantized; -1 past the end. What is only recorded has no counts. */
static int nth_counted(const mpt_graph *graph, int n) {
    for (int i = 0; i < graph->n_operands; i++)
        if (!graph->operands[i].recorded && n-- == 0)
            return i;
    return -1;
}

bool mpt_trainer_operand(const mpt_trainer *trainer, int index, mpt_operand_view *out) {
    if (!trainer || !out || index < 0 || trainer->counted < 0)
        return false;
    const mpt_graph *graph = trainer->program->phases[trainer->counted]->graph;
    int at = nth_counted(graph, index);
    if (at < 0)
        return false;
    const mpt_quantize_counts *c = &trainer->counts[at];
    const mpt_quantizer *q = &graph->operands[at].q;
    *out = (mpt_operand_view){.name = graph->operands[at].name,
                              .elements = c->elements,
                              .overflow = c->overflow,
                              .underflow = c->underflow,
                              .zeros = c->zeros,
                              .nonfinite = c->nonfinite,
                              .capped = c->capped,
                              .amax = (double)c->amax,
                              .sqnr = mpt_quantize_sqnr(c),
                              .scale = (double)c->scale,
                              .format = q->name ? q->name : mpt_dtype_name(q->format),
                              .step = trainer->counted_step};
    return true;
}

bool mpt_trainer_watch(const mpt_trainer *trainer, mpt_watch_view *out) {
    if (!trainer || !out)
        return false;
    const mpt_watch_counts *counts = &trainer->watch.counts;
    *out = (mpt_watch_view){.skipped = counts->skipped,
                            .spikes = counts->spikes,
                            .left_out = counts->skips,
                            .rollbacks = counts->rollbacks,
                            .near_end = trainer->range.n,
                            .high_since = counts->high_since - 1};
    return true;
}
