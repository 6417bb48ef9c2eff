/* Stage 7: one flat array of steps, a segment a pass.
 *
 * The graph's nodes already stand in an order that can be run; sorting them stably by pass
 * keeps it, because nothing reads what a later pass makes. That is checked here, once, so that
 * the executor need not. Stage 8 (memplan.c) is next. */
#include "sched/program.h"

#include <string.h>

/* Whether a value must have been made before it is read: state and inputs are there before. */
static bool is_made(const mpt_value *value) {
    return value->kind == MPT_VALUE_ACTIVATION || value->kind == MPT_VALUE_WORKING;
}

/* Every step reads only what a step before it made. */
static mpt_status check_order(const mpt_phase_program *program, bool *made) {
    const mpt_graph *graph = program->graph;
    for (int s = 0; s < program->n_steps; s++) {
        const mpt_node *node = &graph->nodes[program->steps[s].node];
        for (int i = 0; i < node->n_in; i++) {
            mpt_value_id in = node->in[i];
            if (in < 0 || !is_made(&graph->values[in]) || made[in])
                continue;
            return MPT_FAIL(program->ctx, MPT_INTERNAL, node->where,
                            "step %d (%s) reads %s before any step made it", s,
                            mpt_op_get(node->op)->name, graph->values[in].name);
        }
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                made[node->out[k]] = true;
    }
    return MPT_OK;
}

mpt_status mpt_schedule_order(mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    size_t bytes = mpt_size_mul((size_t)program->n_steps, sizeof(mpt_step));
    mpt_step *sorted = mpt_arena_alloc(&program->arena, bytes);
    bool *made = mpt_alloc(program->ctx, (size_t)graph->n_values + 1);
    if (!sorted || !made) {
        mpt_free(program->ctx, made);
        return mpt_fail_memory(program->ctx, bytes);
    }
    int n = 0;
    for (int pass = 0; pass < MPT_PASS_COUNT; pass++) {
        program->segment[pass] = n;
        for (int s = 0; s < program->n_steps; s++)
            if (graph->nodes[program->steps[s].node].pass == (mpt_pass)pass)
                sorted[n++] = program->steps[s];
    }
    program->segment[MPT_PASS_COUNT] = n;
    program->steps = sorted;
    mpt_status status = check_order(program, made);
    mpt_free(program->ctx, made);
    return status;
}
