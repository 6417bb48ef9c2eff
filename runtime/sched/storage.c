/* How values lie in a device's memory: in two bytes where their format has no more, packed
 * where they are quantized copies, else as on the host.
 *
 * A copy of one scale is made once for products that read it along different sides, and tensor
 * cores read 8-bit operands along the dot product alone: where some product reads a copy across
 * the side that it was packed along, its codes are kept turned round as well. */
#include "sched/program.h"

/* Whether a product takes its sums along the columns of operand i (else down its rows). */
static bool sums_along_columns(mpt_op op, int i) {
    return op == MPT_OP_linear || (op == MPT_OP_linear_dgrad && i == 0);
}

static bool is_product(mpt_op op) {
    return op == MPT_OP_linear || op == MPT_OP_linear_dgrad || op == MPT_OP_linear_wgrad;
}

static bool is_column_copy(const mpt_graph *graph, mpt_value_id v) {
    int32_t producer = graph->values[v].producer;
    return producer >= 0 && graph->nodes[producer].op == MPT_OP_quantize &&
           graph->nodes[producer].out[2] == v;
}

static void find_turned(const mpt_graph *graph, bool *turned) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const mpt_node *node = &graph->nodes[n];
        for (int i = 0; is_product(node->op) && i < 2; i++) {
            mpt_value_id v = node->in[i];
            if (is_column_copy(graph, v) == sums_along_columns(node->op, i))
                turned[v] = true;
        }
    }
}

mpt_status mpt_schedule_choose_storage(mpt_phase_program *program) {
    const mpt_graph *graph = program->graph;
    size_t n = (size_t)graph->n_values;
    if (!program->backend || !program->backend->device)
        return MPT_OK;
    program->packed = mpt_arena_alloc(&program->arena, mpt_size_mul(n, sizeof(mpt_packed)));
    program->storage = mpt_arena_alloc(&program->arena, mpt_size_mul(n, sizeof(mpt_storage)));
    if (!program->packed || !program->storage)
        return MPT_OUT_OF_MEMORY;
    bool *turned = mpt_alloc(program->ctx, n + 1);
    if (!turned)
        return mpt_fail_memory(program->ctx, n + 1);
    find_turned(graph, turned);
    for (int v = 0; v < graph->n_values; v++)
        program->storage[v] = mpt_storage_of(graph, v, turned[v], &program->packed[v]);
    mpt_free(program->ctx, turned);
    return MPT_OK;
}
