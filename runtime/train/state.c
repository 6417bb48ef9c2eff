/* The persistent state of a run: one block of memory that outlives every program.
 *
 * Masters, gradients and moments lie in it one class after the other, each buffer on its own
 * cache line. One block, because a model that does not fit is then refused by one call before
 * anything is touched. Initial values: init.c. */
#include "train/state.h"

enum { STATE_ALIGN = 64, CLASSES = 4 };

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

static size_t buffer_bytes(const mpt_graph *graph, mpt_value_id id) {
    if (id < 0)
        return 0;
    size_t n = (size_t)mpt_value_elements(&graph->values[id]);
    size_t bytes = mpt_size_add(mpt_size_mul(n, sizeof(float)), STATE_ALIGN - 1);
    return bytes == SIZE_MAX ? bytes : bytes / STATE_ALIGN * STATE_ALIGN;
}

size_t mpt_state_bytes(const mpt_graph *graph) {
    size_t bytes = 0;
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++)
            bytes = mpt_size_add(bytes, buffer_bytes(graph, value_of(&graph->params[p], c)));
    return bytes;
}

static void place_buffers(mpt_state *state, const mpt_graph *graph, char *at) {
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++) {
            mpt_value_id id = value_of(&graph->params[p], c);
            list_of(state, c)[p] = id < 0 ? NULL : (float *)(void *)at;
            at += buffer_bytes(graph, id);
        }
}

mpt_status mpt_state_create(const mpt_graph *graph, mpt_state **out) {
    mpt_ctx *ctx = graph->ctx;
    size_t n = (size_t)graph->n_params, lists = mpt_size_mul(CLASSES * n, sizeof(float *));
    size_t head = (sizeof(mpt_state) + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
    lists = (lists + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
    size_t bytes = mpt_size_add(head + lists, mpt_state_bytes(graph));
    *out = NULL;
    char *block = mpt_alloc(ctx, bytes);
    if (!block)
        return mpt_fail_memory(ctx, bytes);
    mpt_state *state = (mpt_state *)(void *)block;
    state->ctx = ctx;
    state->n_params = graph->n_params;
    float **list = (float **)(void *)(block + head);
    state->master = list;
    state->grad = list + n;
    state->moment[0] = list + 2 * n;
    state->moment[1] = list + 3 * n;
    place_buffers(state, graph, block + head + lists);
    *out = state;
    return MPT_OK;
}

void mpt_state_destroy(mpt_state *state) {
    if (state)
        mpt_free(state->ctx, state);
}

void mpt_state_bind(mpt_state *state, const mpt_graph *graph, mpt_executor *executor) {
    for (int c = 0; c < CLASSES; c++)
        for (int p = 0; p < graph->n_params; p++) {
            mpt_value_id id = value_of(&graph->params[p], c);
            if (id >= 0)
                mpt_executor_bind(executor, id, list_of(state, c)[p]);
        }
}

void mpt_state_initialize(mpt_state *state, const mpt_graph *graph, uint64_t seed,
                          int n_threads) {
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_param *param = &graph->params[p];
        mpt_init_fill(&param->init, param->name, seed, n_threads,
                      mpt_value_elements(&graph->values[param->value]), state->master[p]);
    }
}
