/* What a trainer carries from step to step, as the rows of a checkpoint. Weights are not among
 * them: they lie in a file of their own, under the names that other programs know. */
#include "train/checkpoint.h"

#include "kernels/quantize.h"

/* ---- the optimizer ---- */

/* "adam_m.h.0.attn.c_attn.weight", and the shape of the parameter. */
static mpt_status add_moment(mpt_saved *list, const char *moment, const mpt_graph *graph,
                             const mpt_param *param, float *data) {
    const mpt_value *value = &graph->values[param->value];
    const char *name = mpt_arena_printf(&list->arena, "%s.%s", moment, param->name);
    if (!name)
        return MPT_OUT_OF_MEMORY;
    return mpt_saved_add(list, name, MPT_TENSOR_F32, value->rank, value->dims, data);
}

static mpt_status add_moments(const mpt_trainer *trainer, mpt_saved *list) {
    static const char *const adam[2] = {"adam_m", "adam_v"};
    const mpt_graph *graph = trainer->program->phases[0]->graph;
    bool sgd = trainer->program->train.optimizer.kind == MPT_OPTIMIZER_SGD;
    for (int m = 0; m < 2; m++)
        for (int p = 0; p < graph->n_params; p++)
            if (trainer->state->moment[m][p])
                MPT_TRY(add_moment(list, sgd ? "momentum" : adam[m], graph, &graph->params[p],
                                   trainer->state->moment[m][p]));
    return MPT_OK;
}

/* ---- delayed scaling ---- */

static mpt_status add_scale(mpt_saved *list, const mpt_scale_state *scale) {
    const char *name = mpt_arena_printf(&list->arena, "scale.%s", scale->name);
    const char *history = mpt_arena_printf(&list->arena, "amax_history.%s", scale->name);
    if (!name || !history)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_saved_add(list, name, MPT_TENSOR_F32, 0, NULL, scale->scale));
    return mpt_saved_add(list, history, MPT_TENSOR_F32, 1, &scale->history,
                         scale->amax_history);
}

/* ---- what follows from the recipe ---- */

/* The random signs of one copy's rotation: as drawn for the whole run, so that a seed or a
 * stream that is another one shows. */
static mpt_status add_signs(mpt_saved *list, const mpt_phase_program *phase,
                            const mpt_node *node, bool column) {
    static const int64_t words = 4;
    const mpt_attrs *a = &node->attrs;
    const mpt_hadamard *h = column ? &a->col.hadamard : &a->row.hadamard;
    int32_t operand = column ? a->col_index : a->row_index;
    mpt_random_key key = {.seed = phase->seed};
    bool again = column ? a->col_again : a->row_again;
    if (h->size == 0 || h->signs != MPT_SIGNS_RANDOM || h->redraw != MPT_REDRAW_NEVER ||
        again || node->recomputed)
        return MPT_OK;
    const char *name = mpt_arena_printf(&list->arena, "hadamard_signs.%s.%s", phase->phase,
                                        phase->graph->operands[operand].name);
    uint32_t *signs = mpt_arena_alloc(&list->arena, (size_t)words * sizeof *signs);
    if (!name || !signs)
        return MPT_OUT_OF_MEMORY;
    mpt_hadamard_signs(h, &key, column ? a->col_scope : a->row_scope, signs);
    return mpt_saved_add(list, name, MPT_TENSOR_U32, 1, &words, signs);
}

static mpt_status add_constants(const mpt_trainer *trainer, mpt_saved *list) {
    const mpt_program *program = trainer->program;
    uint64_t *seed = mpt_arena_alloc(&list->arena, sizeof *seed);
    if (!seed)
        return MPT_OUT_OF_MEMORY;
    *seed = program->train.seed;
    MPT_TRY(mpt_saved_add(list, "seed", MPT_TENSOR_U64, 0, NULL, seed));
    for (int p = 0; p < program->n_phases; p++) {
        const mpt_graph *graph = program->phases[p]->graph;
        for (int i = 0; i < graph->n_nodes; i++) {
            const mpt_node *node = &graph->nodes[i];
            if (node->op == MPT_OP_quantize && node->attrs.has_row)
                MPT_TRY(add_signs(list, program->phases[p], node, false));
            if (node->op == MPT_OP_quantize && node->attrs.has_col)
                MPT_TRY(add_signs(list, program->phases[p], node, true));
        }
    }
    return MPT_OK;
}

/* ---- counters ---- */

/* What a diagnosis at the end may still speak of. */
static mpt_status add_bad_step(mpt_bad_step *bad, mpt_saved *list) {
    MPT_TRY(mpt_saved_add_i64(list, "bad_step.step", &bad->step));
    MPT_TRY(mpt_saved_add_i64(list, "bad_step.param", &bad->param));
    MPT_TRY(mpt_saved_add_i64(list, "bad_step.nan", &bad->nan));
    MPT_TRY(mpt_saved_add_f64(list, "bad_step.amax", &bad->amax));
    MPT_TRY(mpt_saved_add_f64(list, "bad_step.loss", &bad->loss));
    MPT_TRY(mpt_saved_add_f64(list, "bad_step.grad_norm", &bad->grad_norm));
    return mpt_saved_add_f64(list, "bad_step.loss_scale", &bad->loss_scale);
}

static mpt_status add_counters(mpt_trainer *trainer, mpt_saved *list) {
    list->kind = MPT_SAVED_LEARNT;
    MPT_TRY(mpt_saved_add_i64(list, "counter.applied", &trainer->applied));
    MPT_TRY(mpt_saved_add_f64(list, "loss_scale.value", &trainer->scaler.loss_scale));
    MPT_TRY(mpt_saved_add_i64(list, "loss_scale.good_steps", &trainer->scaler.good_steps));
    MPT_TRY(mpt_saved_add_i64(list, "loss_scale.hysteresis", &trainer->scaler.hysteresis));
    list->kind = MPT_SAVED_PROGRESS;
    MPT_TRY(mpt_saved_add_i64(list, "counter.data", &trainer->data));
    MPT_TRY(mpt_saved_add_i64(list, "counter.attempted", &trainer->attempted));
    MPT_TRY(mpt_saved_add_i64(list, "counter.lost", &trainer->lost));
    MPT_TRY(mpt_saved_add_i32(list, "counter.skips_in_a_row", &trainer->skips_in_a_row));
    MPT_TRY(add_bad_step(&trainer->bad, list));
    MPT_TRY(mpt_watch_saved(&trainer->watch, list));
    MPT_TRY(mpt_saved_add_f64(list, "counter.tokens", &trainer->tokens_seen));
    MPT_TRY(mpt_saved_add_i64(list, "counter.metrics_bytes", &trainer->metrics_bytes));
    MPT_TRY(mpt_saved_add_f64(list, "eval.last_loss", &trainer->last_eval));
    MPT_TRY(mpt_saved_add_i32(list, "phase.current", &trainer->phase));
    return mpt_saved_add_i32(list, "phase.announced", &trainer->announced);
}

mpt_status mpt_trainer_saved(mpt_trainer *trainer, mpt_saved *list) {
    const mpt_state *state = trainer->state;
    list->kind = MPT_SAVED_LEARNT;
    MPT_TRY(add_moments(trainer, list));
    list->kind = MPT_SAVED_SCALES;
    for (int i = 0; i < state->n_scales; i++)
        MPT_TRY(add_scale(list, &state->scales[i]));
    MPT_TRY(add_counters(trainer, list));
    MPT_TRY(mpt_gemms_saved(&trainer->gemms, list));
    list->kind = MPT_SAVED_CONSTANT;
    return add_constants(trainer, list);
}
