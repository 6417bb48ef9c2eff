/* The persistent state of a run: one block of memory that outlives every program.
 *
 * Masters, gradients and moments lie in it one class after the other, then the state of delayed
 * scaling, each buffer on its own cache line. One block, because a model that does not fit is
 * then refused by one call before anything is touched. Initial values: init.c. */
#include "train/state.h"

#include <string.h>

#include "kernels/quantize.h"

enum { STATE_ALIGN = 64, CLASSES = 4 };

/* ---- the buffers of parameters ---- */

/* The value of class c that belongs to a parameter: master, gradient, the two moments. */
static mpt_value_id value_of(const mpt_param *param, int c) {
    const mpt_value_id id[CLASSES] = {param->value, param->grad, param->moment[0],
                                      param->moment[1]};
    return id[c];
}

static float **list_of(mpt_state *state, int c) {
    float **list[CLASSES] = {state->master, state->grad, state->moment[0], state->moment[1]};
    return list[c];
}

static size_t align_up(size_t bytes) {
    size_t padded = mpt_size_add(bytes, STATE_ALIGN - 1);
    return padded == SIZE_MAX ? padded : padded / STATE_ALIGN * STATE_ALIGN;
}

static size_t floats(int64_t n) {
    return align_up(mpt_size_mul((size_t)n, sizeof(float)));
}

static size_t buffer_bytes(const mpt_graph *graph, mpt_value_id id) {
    return id < 0 ? 0 : floats(mpt_value_elements(&graph->values[id]));
}

static size_t param_bytes(const mpt_graph *graph) {
    size_t bytes = 0;
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++)
            bytes = mpt_size_add(bytes, buffer_bytes(graph, value_of(&graph->params[p], c)));
    return bytes;
}

/* Gives where the buffers end. */
static char *place_params(mpt_state *state, const mpt_graph *graph, char *at) {
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++) {
            mpt_value_id id = value_of(&graph->params[p], c);
            list_of(state, c)[p] = id < 0 ? NULL : (float *)(void *)at;
            at += buffer_bytes(graph, id);
        }
    return at;
}

/* ---- the state of delayed scaling ---- */

/* The operands of all phases that are scaled by their history, each name once. */
typedef struct scale_set {
    mpt_arena arena;
    mpt_name_index names;
    int n, cap;
    mpt_scale_state *scales;
} scale_set;

static mpt_status add_scale(scale_set *set, const mpt_graph *graph,
                            const mpt_graph_operand *operand) {
    if (operand->scale < 0)
        return MPT_OK;
    int64_t history = graph->values[operand->history].dims[0];
    int known = mpt_name_index_find(&set->names, operand->name);
    if (known >= 0) {
        mpt_scale_state *scale = &set->scales[known];
        scale->history = history > scale->history ? history : scale->history;
        return MPT_OK;
    }
    mpt_scale_state *grown =
        mpt_arena_grow(&set->arena, set->scales, sizeof *grown, set->n, &set->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    set->scales = grown;
    grown[set->n] = (mpt_scale_state){.name = operand->name, .history = history};
    return mpt_name_index_add(&set->names, &set->arena, operand->name, set->n++);
}

/* The caller ends the set's arena, also on failure. */
static mpt_status collect_scales(mpt_phase_list phases, scale_set *set) {
    *set = (scale_set){.n = 0};
    mpt_arena_init(&set->arena, phases.programs[0]->ctx);
    for (int p = 0; p < phases.n; p++) {
        const mpt_graph *graph = phases.programs[p]->graph;
        for (int i = 0; i < graph->n_operands; i++)
            MPT_TRY(add_scale(set, graph, &graph->operands[i]));
    }
    return MPT_OK;
}

static size_t scale_bytes(const scale_set *set) {
    size_t bytes = 0;
    for (int i = 0; i < set->n; i++) {
        bytes = mpt_size_add(bytes, floats(1));
        bytes = mpt_size_add(bytes, floats(set->scales[i].history));
    }
    return bytes;
}

static void place_scales(mpt_state *state, const scale_set *set, char *at) {
    for (int i = 0; i < set->n; i++) {
        mpt_scale_state *scale = &state->scales[i];
        *scale = set->scales[i];
        scale->scale = (float *)(void *)at;
        at += floats(1);
        scale->amax_history = (float *)(void *)at;
        at += floats(scale->history);
    }
}

static mpt_scale_state *find_scale(mpt_state *state, const char *name) {
    for (int i = 0; i < state->n_scales; i++)
        if (strcmp(state->scales[i].name, name) == 0)
            return &state->scales[i];
    return NULL;
}

/* ---- life ---- */

size_t mpt_state_bytes(mpt_phase_list phases) {
    size_t bytes = param_bytes(phases.programs[0]->graph);
    for (int p = 0; p < phases.n; p++) {
        const mpt_graph *graph = phases.programs[p]->graph;
        for (int i = 0; i < graph->n_operands; i++) {
            const mpt_graph_operand *operand = &graph->operands[i];
            bytes = mpt_size_add(bytes, buffer_bytes(graph, operand->scale));
            bytes = mpt_size_add(bytes, buffer_bytes(graph, operand->history));
        }
    }
    return bytes;
}

/* The head, the lists and all buffers, in one block. */
static mpt_status create(const mpt_graph *graph, const scale_set *set, mpt_state **out) {
    size_t n = (size_t)graph->n_params, head = align_up(sizeof(mpt_state));
    size_t lists = align_up(mpt_size_mul(CLASSES * n, sizeof(float *)));
    size_t scales = align_up(mpt_size_mul((size_t)set->n, sizeof(mpt_scale_state)));
    size_t bytes = mpt_size_add(mpt_size_add(head + lists, scales),
                                mpt_size_add(param_bytes(graph), scale_bytes(set)));
    char *block = mpt_alloc(graph->ctx, bytes);
    if (!block)
        return mpt_fail_memory(graph->ctx, bytes);
    mpt_state *state = (mpt_state *)(void *)block;
    float **list = (float **)(void *)(block + head);
    *state = (mpt_state){.ctx = graph->ctx,
                         .n_params = graph->n_params,
                         .master = list,
                         .grad = list + n,
                         .moment = {list + 2 * n, list + 3 * n},
                         .n_scales = set->n,
                         .scales = (mpt_scale_state *)(void *)(block + head + lists)};
    place_scales(state, set, place_params(state, graph, block + head + lists + scales));
    *out = state;
    return MPT_OK;
}

mpt_status mpt_state_create(mpt_phase_list phases, mpt_state **out) {
    scale_set set;
    *out = NULL;
    mpt_status status = collect_scales(phases, &set);
    if (status == MPT_OK)
        status = create(phases.programs[0]->graph, &set, out);
    mpt_arena_deinit(&set.arena);
    return status;
}

void mpt_state_destroy(mpt_state *state) {
    if (!state)
        return;
    mpt_state_unplace(state);
    mpt_free(state->ctx, state);
}

/* ---- use ---- */

void mpt_state_initialize(mpt_state *state, const mpt_graph *graph, uint64_t seed,
                          int n_threads) {
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_param *param = &graph->params[p];
        mpt_init_fill(&param->init, param->name, seed, n_threads,
                      mpt_value_elements(&graph->values[param->value]), state->master[p]);
        mpt_state_keep_weights(&graph->values[param->value], state->master[p]);
    }
}

void mpt_state_keep_weights(const mpt_value *value, float *weights) {
    mpt_tensor tensor = {.data = weights, .dtype = value->dtype, .rank = value->rank};
    for (int i = 0; i < value->rank; i++)
        tensor.dims[i] = value->dims[i];
    mpt_round_to(value->dtype, weights, (size_t)mpt_value_elements(value));
    if (!value->kept)
        return;
    mpt_quantizer nearest = *value->kept;
    nearest.rounding = MPT_ROUNDING_NEAREST;
    mpt_random_key none = {0};
    mpt_quantize_state_values(&nearest, &tensor, &none);
}

void mpt_state_bind(mpt_state *state, const mpt_graph *graph, mpt_executor *executor) {
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++) {
            mpt_value_id id = value_of(&graph->params[p], c);
            if (id >= 0)
                mpt_executor_bind(executor, id, mpt_state_at(state, list_of(state, c)[p]));
        }
    for (int i = 0; i < graph->n_operands; i++) {
        const mpt_graph_operand *operand = &graph->operands[i];
        if (operand->scale < 0)
            continue;
        mpt_scale_state *scale = find_scale(state, operand->name);
        if (!scale) /* an evaluation's, which no phase keeps: its scales are current */
            continue;
        mpt_executor_bind(executor, operand->scale, mpt_state_at(state, scale->scale));
        mpt_executor_bind(executor, operand->history, mpt_state_at(state, scale->amax_history));
    }
}

/* The operand of this name whose scaling is delayed, or NULL. */
static const mpt_graph_operand *find_operand(const mpt_graph *graph, const char *name) {
    for (int i = 0; i < graph->n_operands; i++)
        if (graph->operands[i].scale >= 0 && strcmp(graph->operands[i].name, name) == 0)
            return &graph->operands[i];
    return NULL;
}

void mpt_state_switch(mpt_state *state, const mpt_graph *from, const mpt_graph *to) {
    if (mpt_state_edit(state, MPT_STATE_SCALES) != MPT_OK)
        return; /* the device has failed, which the next step says */
    for (int i = 0; i < state->n_scales; i++) {
        mpt_scale_state *scale = &state->scales[i];
        const mpt_graph_operand *before = find_operand(from, scale->name);
        const mpt_graph_operand *now = find_operand(to, scale->name);
        if (!now)
            continue;
        if (!before ||
            mpt_quantizer_delayed_max(&before->q) != mpt_quantizer_delayed_max(&now->q))
            *scale->scale = 0;
        int64_t kept = before ? from->values[before->history].dims[0] : 0;
        for (int64_t k = kept; k < scale->history; k++)
            scale->amax_history[k] = 0;
    }
}
