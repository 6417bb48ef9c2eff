/* Faults by request, put in while a step runs. See inject.h.
 *
 * A step without one runs as ever. In a step with a fault in an activation the program's steps
 * run one by one, so that the fault stands right behind the node whose output it is in; a node
 * that recomputation runs again gets it again, and both passes see the same numbers. */
#include "train/inject.h"

#include "train/trainer.h"

const mpt_node *mpt_fault_maker(const mpt_graph *graph, int32_t layer) {
    const mpt_node *maker = NULL;
    for (int i = 0; i < graph->n_nodes; i++) {
        const mpt_node *node = &graph->nodes[i];
        if (node->layer == layer && node->pass == MPT_PASS_FORWARD &&
            !(mpt_op_get(node->op)->flags & MPT_OP_CAST))
            maker = node;
    }
    return maker;
}

bool mpt_faults_due(const mpt_faults *faults, int64_t step, mpt_fault_place place) {
    for (int i = 0; i < faults->n; i++)
        if (faults->faults[i].step == step && faults->faults[i].place == place)
            return true;
    return false;
}

/* Whether the node makes what a layer puts out, the first time or again. */
static bool makes(const mpt_graph *graph, const mpt_node *node, int32_t layer) {
    const mpt_node *maker = mpt_fault_maker(graph, layer);
    return node == maker ||
           (node->recomputed && node->layer == layer && maker && node->op == maker->op);
}

static void put_in(const mpt_fault *fault, const mpt_node *node, mpt_executor *executor) {
    float x = fault->value;
    mpt_round_to(mpt_executor_tensor(executor, node->out[0])->dtype, &x, 1);
    mpt_executor_write(executor, node->out[0], 0, 1, &x);
}

void mpt_faults_after(const mpt_faults *faults, int64_t attempted,
                      const mpt_phase_program *program, mpt_executor *executor, int step) {
    const mpt_node *node = &program->graph->nodes[program->steps[step].node];
    for (int i = 0; i < faults->n; i++)
        if (faults->faults[i].step == attempted && faults->faults[i].place == MPT_FAULT_ACT &&
            makes(program->graph, node, faults->faults[i].index))
            put_in(&faults->faults[i], node, executor);
}

void mpt_faults_run(const mpt_faults *faults, int64_t step, const mpt_phase_program *program,
                    mpt_executor *executor, mpt_pass pass, const mpt_run_env *env) {
    for (int s = program->segment[pass]; s < program->segment[pass + 1]; s++) {
        mpt_executor_run_step(executor, s, env);
        mpt_faults_after(faults, step, program, executor, s);
    }
}

mpt_status mpt_faults_weights(mpt_faults *faults, int64_t step, mpt_state *state) {
    for (int i = 0; i < faults->n; i++) {
        mpt_fault *fault = &faults->faults[i];
        if (fault->step != step || fault->place != MPT_FAULT_WEIGHT)
            continue;
        MPT_TRY(mpt_state_edit(state, MPT_STATE_MASTERS));
        fault->held = state->master[fault->index][fault->element];
        state->master[fault->index][fault->element] = fault->value;
    }
    return MPT_OK;
}

mpt_status mpt_faults_restore(const mpt_faults *faults, int64_t step, mpt_state *state) {
    for (int i = faults->n - 1; i >= 0; i--) { /* of two in one element the first held it */
        const mpt_fault *fault = &faults->faults[i];
        if (fault->step != step || fault->place != MPT_FAULT_WEIGHT)
            continue;
        MPT_TRY(mpt_state_edit(state, MPT_STATE_MASTERS));
        state->master[fault->index][fault->element] = fault->held;
    }
    return MPT_OK;
}

mpt_status mpt_faults_gradients(const mpt_faults *faults, int64_t step, const mpt_graph *graph,
                                mpt_state *state, double loss_scale) {
    for (int i = 0; i < faults->n; i++) {
        const mpt_fault *fault = &faults->faults[i];
        if (fault->step != step || fault->place != MPT_FAULT_GRAD)
            continue;
        MPT_TRY(mpt_state_edit(state, MPT_STATE_GRADS));
        float *grad = &state->grad[fault->index][fault->element];
        *grad = (float)((double)fault->value * loss_scale);
        mpt_round_to(graph->values[graph->params[fault->index].grad].dtype, grad, 1);
    }
    return MPT_OK;
}

mpt_status mpt_trainer_announce_faults(const mpt_trainer *trainer) {
    for (int i = 0; i < trainer->faults.n; i++) {
        const mpt_fault *fault = &trainer->faults.faults[i];
        mpt_metrics_line line;
        if (fault->step != trainer->attempted)
            continue;
        mpt_log(trainer->ctx, MPT_LOG_WARNING, "step %lld: a fault is injected: %s",
                (long long)fault->step, fault->text);
        mpt_metrics_begin(&line, "inject");
        mpt_metrics_integer(&line, "step", fault->step);
        mpt_metrics_string(&line, "fault", fault->text);
        MPT_TRY(mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud));
    }
    return MPT_OK;
}
