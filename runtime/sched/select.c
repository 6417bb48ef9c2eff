/* Stage 6: a kernel for each node, and the program that holds the choice.
 *
 * The backends' tables are asked in order, their rows best first; the first row that takes the
 * node has it, and the reasons of those before it are kept. The choice changes the order of
 * sums at most: formats, scales and rounding were decided by stage 5. Stage 7 (order.c) is
 * next. */
#include "sched/program.h"

const char *mpt_memory_class_name(mpt_memory_class c) {
    static const char *const names[] = {"master",          "gradient",    "optimizer",
                                        "working_weights", "activations", "workspace"};
    return (unsigned)c < MPT_MEMORY_CLASS_COUNT ? names[c] : "?";
}

mpt_status mpt_phase_program_create(mpt_graph *graph, const char *phase,
                                    mpt_phase_program **out) {
    mpt_ctx *ctx = graph->ctx;
    mpt_phase_program *program = mpt_alloc(ctx, sizeof *program);
    *out = NULL;
    if (!program) {
        mpt_graph_destroy(graph);
        return mpt_fail_memory(ctx, sizeof *program);
    }
    *program = (mpt_phase_program){.ctx = ctx, .graph = graph, .phase = phase, .n_threads = 1};
    mpt_arena_init(&program->arena, ctx);
    *out = program;
    return MPT_OK;
}

void mpt_phase_program_destroy(mpt_phase_program *program) {
    if (!program)
        return;
    mpt_ctx *ctx = program->ctx;
    mpt_graph_destroy(program->graph);
    mpt_arena_deinit(&program->arena);
    mpt_free(ctx, program);
}

static mpt_status refuse(mpt_phase_program *program, int node, const mpt_kernel *kernel,
                         const char *why) {
    mpt_refusal *list = mpt_arena_grow(&program->arena, program->refusals, sizeof *list,
                                       program->n_refusals, &program->cap_refusals);
    if (!list)
        return MPT_OUT_OF_MEMORY;
    program->refusals = list;
    list[program->n_refusals++] = (mpt_refusal){node, kernel->name, why};
    return MPT_OK;
}

/* The first kernel that takes a node; NULL where none does. */
static mpt_status choose(mpt_phase_program *program, int index, const mpt_kernel *const *tables,
                         const mpt_kernel **out) {
    const mpt_node *node = &program->graph->nodes[index];
    *out = NULL;
    for (; *tables; tables++) {
        for (const mpt_kernel *kernel = *tables; kernel->run; kernel++) {
            const char *why = "it gave no reason";
            if (kernel->op != node->op)
                continue;
            if (!kernel->can || kernel->can(program->graph, node, &why)) {
                *out = kernel;
                return MPT_OK;
            }
            MPT_TRY(refuse(program, index, kernel, why));
        }
    }
    return MPT_OK;
}

static mpt_status fail_no_kernel(const mpt_phase_program *program, int index) {
    const mpt_node *node = &program->graph->nodes[index];
    const char *why = "";
    for (int i = 0; i < program->n_refusals; i++)
        if (program->refusals[i].node == index)
            why = program->refusals[i].why;
    mpt_status status = MPT_FAIL(
        program->ctx, MPT_UNSUPPORTED, mpt_schedule_where(program, node),
        "%s%s%s: this device has no kernel that takes it%s%s",
        node->layer >= 0 ? program->graph->layers[node->layer].path : "",
        node->layer >= 0 ? ": " : "", mpt_op_get(node->op)->name, *why ? ": " : "", why);
    mpt_hint(program->ctx, "the device 'ref' has a kernel for every op");
    return status;
}

mpt_status mpt_schedule_select(mpt_phase_program *program,
                               const mpt_schedule_options *options) {
    const mpt_graph *graph = program->graph;
    size_t bytes = mpt_size_mul((size_t)graph->n_nodes, sizeof *program->steps);
    program->steps = mpt_arena_alloc(&program->arena, bytes);
    if (!program->steps)
        return MPT_OUT_OF_MEMORY;
    program->graph->target = options->target;
    program->n_threads = options->n_threads < 1 ? 1 : options->n_threads;
    program->n_steps = graph->n_nodes;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_kernel *kernel;
        MPT_TRY(choose(program, i, options->tables, &kernel));
        if (!kernel)
            return fail_no_kernel(program, i);
        program->steps[i] = (mpt_step){.node = i, .kernel = kernel};
        if (kernel->scratch)
            program->steps[i].scratch_bytes =
                kernel->scratch(graph, &graph->nodes[i], program->n_threads);
    }
    return MPT_OK;
}
