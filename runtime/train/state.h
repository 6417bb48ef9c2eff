/* The persistent state of a run: masters, gradients, moments; one buffer a parameter and class,
 * shared by the programs of all phases. */
#ifndef MPT_TRAIN_STATE_H
#define MPT_TRAIN_STATE_H

#include "exec/executor.h"

typedef struct mpt_state {
    mpt_ctx *ctx;
    int n_params;
    float **master, **grad, **moment[2]; /* moment entries NULL where the optimizer has none */
} mpt_state;

mpt_status mpt_state_create(const mpt_graph *graph, mpt_state **out);
void mpt_state_destroy(mpt_state *state);

/* Initial weights, keyed by (seed, parameter name): adding a layer changes no other. */
void mpt_state_initialize(mpt_state *state, const mpt_graph *graph, uint64_t seed);

/* Binds all buffers into an executor of a program with the same parameters. */
void mpt_state_bind(mpt_state *state, const mpt_graph *graph, mpt_executor *executor);

#endif
