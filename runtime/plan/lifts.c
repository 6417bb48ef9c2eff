/* What a sweep can take to BF16, one thing at a time (recipe/lift.c does it). */
#include "mpt/compare.h"
#include "pipeline.h"
#include "recipe/use.h"

/* Whether one of these slots of a layer is quantized, in any phase. */
static bool is_quantized(const mpt_program *program, int layer, uint32_t slots) {
    for (int p = 0; p < program->n_phases; p++)
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            if (slots >> s & 1 &&
                !mpt_quantizer_is_cast(&program->phases[p]->policies[layer].slot[s]))
                return true;
    return false;
}

static bool any_quantized(const mpt_program *program, uint32_t slots) {
    const mpt_graph *graph = program->phases[0]->graph;
    for (int i = 0; i < graph->n_layers; i++)
        if (mpt_layer_has_gemms(graph->layers[i].kind) && is_quantized(program, i, slots))
            return true;
    return false;
}

/* The index-th layer that has products. */
static bool find_layer(const mpt_program *program, int index, mpt_lift_view *out) {
    const mpt_graph *graph = program->phases[0]->graph;
    for (int i = 0; i < graph->n_layers; i++) {
        if (!mpt_layer_has_gemms(graph->layers[i].kind) || index-- > 0)
            continue;
        *out = (mpt_lift_view){graph->layers[i].path, is_quantized(program, i, ~0U)};
        return true;
    }
    return false;
}

bool mpt_program_lift(const mpt_program *program, mpt_lift_kind kind, int index,
                      mpt_lift_view *out) {
    mpt_slot slots[2];
    if (!program || !out || index < 0)
        return false;
    switch (kind) {
    case MPT_LIFT_LAYERS:
        return find_layer(program, index, out);
    case MPT_LIFT_GEMMS:
        if (index >= MPT_GEMM_COUNT)
            return false;
        mpt_gemm_slots((mpt_gemm)index, slots);
        *out = (mpt_lift_view){mpt_gemm_name((mpt_gemm)index),
                               any_quantized(program, 1U << slots[0] | 1U << slots[1])};
        return true;
    case MPT_LIFT_OPERANDS:
        if (index >= MPT_SLOT_COUNT)
            return false;
        *out = (mpt_lift_view){mpt_slot_name((mpt_slot)index),
                               any_quantized(program, 1U << index)};
        return true;
    }
    return false;
}
