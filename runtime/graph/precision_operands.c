/* Stage 5, third part: the operands that quantize nodes make, by name.
 *
 * Each copy is an operand of the graph, named after the layer and slot that asked for it first:
 * counts are kept under that name, and the scale and amax history of delayed scaling, which
 * outlive the step and are bound by name in every phase. */
#include "graph/precision.h"

static mpt_value_id state_value(mpt_graph *graph, const char *prefix, const char *operand,
                                int64_t n) {
    const char *name = mpt_arena_printf(&graph->arena, "%s.%s", prefix, operand);
    return name ? mpt_graph_value(graph, name, MPT_VALUE_SCALE, MPT_DTYPE_FP32, 1, &n) : -1;
}

mpt_status mpt_precision_add_operand(mpt_graph *graph, const mpt_copy_side *side,
                                     int32_t *out_index) {
    mpt_graph_operand *grown = mpt_arena_grow(&graph->arena, graph->operands, sizeof *grown,
                                              graph->n_operands, &graph->cap_operands);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    graph->operands = grown;
    mpt_graph_operand operand = {.q = side->q, .scale = -1, .history = -1};
    operand.name = mpt_arena_printf(&graph->arena, "%s.%s", graph->layers[side->layer].path,
                                    mpt_slot_name(side->slot));
    if (!operand.name)
        return MPT_OUT_OF_MEMORY;
    if (side->q.scale.kind == MPT_SCALING_DELAYED) {
        operand.scale = state_value(graph, "scale", operand.name, 1);
        operand.history =
            state_value(graph, "amax_history", operand.name, side->q.scale.history);
        if (operand.scale < 0 || operand.history < 0)
            return graph->ctx->error.code;
    }
    *out_index = graph->n_operands;
    graph->operands[graph->n_operands++] = operand;
    return MPT_OK;
}
