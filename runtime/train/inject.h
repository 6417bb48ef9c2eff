/* Faults put into a run on purpose, one element at one attempted step: drills for what watches
 * over a run, and a way to test it.
 *
 *   grad:NAME=VALUE@STEP    after the step's micro-batches, before the gradients are looked at;
 *                           a number is the gradient itself, so the loss scale multiplies it
 *   act:LAYER=VALUE@STEP    in what the layer puts out for the first micro-batch
 *   weight:NAME=VALUE@STEP  while the step computes; the optimizer has the true weight again
 *
 * VALUE is inf, -inf, nan or a number. NAME is a parameter or, as in a checkpoint, a tensor of
 * one: with its root, or a part of a fused layer. The first element of it is meant. */
#ifndef MPT_TRAIN_INJECT_H
#define MPT_TRAIN_INJECT_H

#include "train/state.h"

typedef enum mpt_fault_place {
    MPT_FAULT_GRAD,
    MPT_FAULT_ACT,
    MPT_FAULT_WEIGHT
} mpt_fault_place;

typedef struct mpt_fault {
    mpt_fault_place place;
    int32_t index;   /* of the parameter, or of the layer */
    int64_t element; /* of the parameter */
    int64_t step;    /* attempted, from 0 */
    float value;
    float held;       /* the true weight, while the fault stands in its place */
    const char *text; /* "grad:wte.weight=inf", for messages */
} mpt_fault;

typedef struct mpt_faults {
    mpt_arena arena; /* not begun where n is 0 */
    int n;
    mpt_fault *faults;
} mpt_faults;

/* Reads texts as above for a run of so many steps. MPT_INVALID names what is wrong and, where a
 * name is not known, the nearest. What was made belongs to `out`, also where this fails. */
mpt_status mpt_faults_read(const mpt_graph *graph, int64_t steps, const char *const *texts,
                           int n, mpt_faults *out);
void mpt_faults_free(mpt_faults *faults);

/* The node that makes what a layer puts out, the last of its own in the forward pass; NULL
 * where there is none. */
const mpt_node *mpt_fault_maker(const mpt_graph *graph, int32_t layer);

/* ---- what is due at a step; nothing where no fault is ---- */

bool mpt_faults_due(const mpt_faults *faults, int64_t step, mpt_fault_place place);

/* Into the masters, from which PREPARE makes the working weights, and out again. */
mpt_status mpt_faults_weights(mpt_faults *faults, int64_t step, mpt_state *state);
mpt_status mpt_faults_restore(const mpt_faults *faults, int64_t step, mpt_state *state);

/* Into gradients that the loss scale has multiplied. */
mpt_status mpt_faults_gradients(const mpt_faults *faults, int64_t step, const mpt_graph *graph,
                                mpt_state *state, double loss_scale);

/* Into what a step of the program has just put out, where a fault of the attempted step is due
 * there. */
void mpt_faults_after(const mpt_faults *faults, int64_t attempted,
                      const mpt_phase_program *program, mpt_executor *executor, int step);

/* A pass as mpt_executor_run, with faults in what layers put out. */
void mpt_faults_run(const mpt_faults *faults, int64_t step, const mpt_phase_program *program,
                    mpt_executor *executor, mpt_pass pass, const mpt_run_env *env);

#endif
