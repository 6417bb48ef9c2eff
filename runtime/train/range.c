/* FP16 near the end of its range. See range.h. */
#include "train/range.h"

#include <math.h>
#include <stdio.h>

#include "kernels/quantize.h"
#include "kernels/tensor.h"
#include "train/trainer.h"

static const float half_of_range = 0.5f * 65504.0f;

static bool is_fp16(const mpt_graph *graph, mpt_value_id id) {
    return id >= 0 && graph->values[id].dtype == MPT_DTYPE_FP16;
}

bool mpt_range_matters(const mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < graph->nodes[i].n_out; k++)
            if (graph->nodes[i].pass != MPT_PASS_UPDATE &&
                is_fp16(graph, graph->nodes[i].out[k]))
                return true;
    return false;
}

void mpt_range_look(void *ud, int step) {
    mpt_range *range = ud;
    const mpt_graph *graph = range->program->graph;
    const mpt_node *node = &graph->nodes[range->program->steps[step].node];
    if (node->op == MPT_OP_zero || node->pass == MPT_PASS_UPDATE ||
        (node->pass == MPT_PASS_BACKWARD && !range->gradients))
        return;
    for (int k = 0; k < node->n_out; k++) {
        if (!is_fp16(graph, node->out[k]))
            continue;
        const mpt_tensor *out = mpt_executor_fetch(range->executor, node->out[k]);
        float amax = out->data ? mpt_amax_of(out->data, (size_t)mpt_tensor_elements(out)) : 0;
        if (!(amax > half_of_range) || isinf(amax) || amax <= range->amax)
            continue;
        range->amax = amax;
        range->step = step;
        range->output = k;
    }
}

void mpt_place_text(const mpt_graph *graph, const mpt_node *node, int output,
                    char out[MPT_PLACE_TEXT]) {
    const char *layer = node->layer >= 0 ? graph->layers[node->layer].path : NULL;
    const char *value = node->out[output] >= 0 ? graph->values[node->out[output]].name : NULL;
    if (layer && node->slot)
        snprintf(out, MPT_PLACE_TEXT, "%s.%s", layer, node->slot);
    else
        snprintf(out, MPT_PLACE_TEXT, "%s", layer ? layer : value ? value : "the model");
}

/* ---- in a step ---- */

void mpt_trainer_start_range(mpt_trainer *trainer) {
    mpt_runner runner = mpt_trainer_runner(trainer, false);
    bool gradients = trainer->program->recipe->loss_scale.kind != MPT_LOSS_SCALE_DYNAMIC;
    trainer->range.amax = 0;
    if (trainer->attempted % MPT_RANGE_EVERY != 0 || !mpt_range_matters(runner.program))
        return;
    trainer->range.program = runner.program;
    trainer->range.executor = runner.executor;
    trainer->range.gradients = gradients;
    mpt_executor_look(runner.executor, mpt_range_look, &trainer->range);
}

/* The log hears of it again when a quarter has been added. */
mpt_status mpt_trainer_end_range(mpt_trainer *trainer, int64_t step) {
    mpt_range *range = &trainer->range;
    mpt_runner runner = mpt_trainer_runner(trainer, false);
    char place[MPT_PLACE_TEXT];
    mpt_metrics_line line;
    mpt_executor_look(runner.executor, NULL, NULL);
    if (range->amax == 0)
        return MPT_OK;
    const mpt_node *node = &runner.graph->nodes[runner.program->steps[range->step].node];
    mpt_place_text(runner.graph, node, range->output, place);
    range->n++;
    if (range->amax > 1.25f * range->told) {
        range->told = range->amax;
        mpt_log(trainer->ctx, MPT_LOG_WARNING,
                "step %lld: %s (%s) reaches %g, and FP16 ends at 65504: keep it in a wider "
                "format before it overflows",
                (long long)step, place, mpt_op_get(node->op)->name, (double)range->amax);
    }
    mpt_metrics_begin(&line, "range");
    mpt_metrics_integer(&line, "step", step);
    mpt_metrics_string(&line, "tensor", place);
    mpt_metrics_string(&line, "op", mpt_op_get(node->op)->name);
    mpt_metrics_string(&line, "format", "fp16");
    mpt_metrics_number(&line, "amax", (double)range->amax);
    mpt_metrics_number(&line, "share", (double)range->amax / 65504);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}
