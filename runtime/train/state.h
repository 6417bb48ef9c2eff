/* The persistent state of a run: masters, gradients, moments, one buffer a parameter and class;
 * and the scales and amax histories of delayed scaling, one pair an operand. All of it is
 * shared by the programs of all phases. */
#ifndef MPT_TRAIN_STATE_H
#define MPT_TRAIN_STATE_H

#include "exec/executor.h"

/* The state of one operand with delayed scaling, by name over all phases. */
typedef struct mpt_scale_state {
    const char *name;    /* "layers.3.mixer.up_proj.fprop.x"; lent by the first such phase */
    int64_t history;     /* entries that the longest window of any phase has */
    float *scale;        /* 0: none yet */
    float *amax_history; /* entry 0 gathers the step's amax */
} mpt_scale_state;

/* Sets of buffers, to name what is read or written. */
enum {
    MPT_STATE_MASTERS = 1,
    MPT_STATE_GRADS = 2,
    MPT_STATE_MOMENTS = 4, /* the first and the second */
    MPT_STATE_SCALES = 8,
    MPT_STATE_ALL = 15
};

struct mpt_state_copy; /* state_device.c */

typedef struct mpt_state {
    mpt_ctx *ctx;
    int n_params;
    float **master, **grad, **moment[2]; /* moment entries NULL where the optimizer has none */
    int n_scales;
    mpt_scale_state *scales; /* those of the first phase first, in the order of its operands */
    struct mpt_state_copy *copy; /* that a device trains on; NULL: these buffers are all */
} mpt_state;

/* The programs of a run, one a phase: parameters are the same in all of them, delayed scales
 * those of any. */
typedef struct mpt_phase_list {
    mpt_phase_program *const *programs;
    int n;
} mpt_phase_list;

/* Bytes of all buffers; SIZE_MAX where they are more than a size can say. Scales that several
 * phases have are counted in each, though they are kept once. */
size_t mpt_state_bytes(mpt_phase_list phases);

/* All zero. Refused as one block, before anything is touched, where memory lacks. */
mpt_status mpt_state_create(mpt_phase_list phases, mpt_state **out);
void mpt_state_destroy(mpt_state *state);

/* Initial weights, keyed by (seed, parameter name): adding a layer changes no other, and the
 * number of threads changes nothing. The transforms are at the head of init.c. */
void mpt_state_initialize(mpt_state *state, const mpt_graph *graph, uint64_t seed,
                          int n_threads);

/* The same for one tensor of n elements. */
void mpt_init_fill(const mpt_init *init, const char *name, uint64_t seed, int n_threads,
                   int64_t n, float *out);

/* Brings weights that were just filled in to the format that they are kept in, to nearest. */
void mpt_state_keep_weights(const mpt_value *value, float *weights);

/* Where the executor's memory is a device's, a copy of the state there, as of now. From then on
 * the buffers above are the host's view: they hold what mpt_state_see or _edit was asked for,
 * until the device runs again. Nothing on the host. */
mpt_status mpt_state_place(mpt_state *state, const mpt_phase_program *program,
                           const mpt_executor *executor);

/* Before the host reads buffers of these sets, and before it writes some: brings them up to
 * date. Fails only where a device has. */
mpt_status mpt_state_see(mpt_state *state, unsigned sets);
mpt_status mpt_state_edit(mpt_state *state, unsigned sets);

/* Before anything runs: the device gets what the host wrote. */
void mpt_state_push(mpt_state *state);

/* The end of the copy. */
void mpt_state_unplace(mpt_state *state);

/* Where kernels find a buffer: here, or in the copy. */
float *mpt_state_at(const mpt_state *state, const float *buffer);

/* Binds all buffers into an executor of one of the phases, or of an evaluation, which may have
 * operands with delayed scaling that no phase keeps. A window that is shorter there than in
 * another phase uses the first entries. */
void mpt_state_bind(mpt_state *state, const mpt_graph *graph, mpt_executor *executor);

/* From one phase to another: operands that the phase before did not scale by their history
 * start anew, and so do entries that its window did not have. A scale that was made for another
 * largest value (of another format or margin) is dropped, but its history stays. */
void mpt_state_switch(mpt_state *state, const mpt_graph *from, const mpt_graph *to);

#endif
