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

/* Bytes of all buffers; SIZE_MAX where they are more than a size can say. */
size_t mpt_state_bytes(const mpt_graph *graph);

/* All zero. Refused as one block, before anything is touched, where memory lacks. */
mpt_status mpt_state_create(const mpt_graph *graph, mpt_state **out);
void mpt_state_destroy(mpt_state *state);

/* Initial weights, keyed by (seed, parameter name): adding a layer changes no other, and the
 * number of threads changes nothing. The transforms are at the head of init.c. */
void mpt_state_initialize(mpt_state *state, const mpt_graph *graph, uint64_t seed,
                          int n_threads);

/* The same for one tensor of n elements. */
void mpt_init_fill(const mpt_init *init, const char *name, uint64_t seed, int n_threads,
                   int64_t n, float *out);

/* Binds all buffers into an executor of a program with the same parameters. */
void mpt_state_bind(mpt_state *state, const mpt_graph *graph, mpt_executor *executor);

#endif
