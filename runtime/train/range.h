/* An early warning: values kept in FP16 that come near the end of its range.
 *
 * FP16 ends at 65504, and what grows past it is Inf, from which NaN comes. Growth takes steps,
 * so there is time to say which tensor it is. Looked at is all that a step makes in FP16:
 * working weights, activations, operands, and gradients where no dynamic loss scale brings
 * those near the end on purpose. Every MPT_RANGE_EVERY-th attempted step is looked at, which a
 * resumed run does at the same steps: there is nothing to be saved. One look costs about a
 * twentieth of a step in FP16, so all of them less than a hundredth; what grows by less than 8
 * % a step is seen between half of the range and its end. */
#ifndef MPT_TRAIN_RANGE_H
#define MPT_TRAIN_RANGE_H

#include "exec/executor.h"

enum { MPT_RANGE_EVERY = 8 };

typedef struct mpt_range {
    const mpt_phase_program *program; /* that is looked at; lent */
    const mpt_executor *executor;
    bool gradients;
    float amax; /* the largest one past half of the range; 0: none */
    int step;   /* of the program, that made it */
    int output; /* of that step's node */
    float told; /* the amax that the log has last heard of */
    int64_t n;  /* warnings in the metrics */
} mpt_range;

/* Whether the program makes anything in FP16. */
bool mpt_range_matters(const mpt_phase_program *program);

/* A mpt_step_fn over a mpt_range. */
void mpt_range_look(void *ud, int step);

/* A place in a program, for people: "layers.3.mlp.up", "layers.3.mlp.up.fprop.x" for what a
 * quantize or cast node makes for a slot, "layers.3.add" outside layers. Cut where it does not
 * fit. */
enum { MPT_PLACE_TEXT = 256 };
void mpt_place_text(const mpt_graph *graph, const mpt_node *node, int output,
                    char out[MPT_PLACE_TEXT]);

#endif
