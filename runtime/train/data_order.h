/* The order of data: what an epoch is to a run of steps, and in which order its windows come.
 *
 * An epoch has so many windows, and a step takes so many rows of them. Nothing is counted while
 * a run goes on: step and row give epoch and window by arithmetic, so a run that goes on from a
 * checkpoint needs the step alone. */
#ifndef MPT_TRAIN_DATA_ORDER_H
#define MPT_TRAIN_DATA_ORDER_H

#include "recipe/recipe.h"

typedef struct mpt_epochs {
    int64_t windows; /* of one epoch; 0: the data has none, as it never ends */
    int64_t batch;   /* rows a step takes, at least 1 */
    mpt_remainder remainder;
} mpt_epochs;

typedef struct mpt_epoch_place {
    int64_t epoch, index; /* of the epoch's windows, in the order in which they come */
    bool masked;          /* the epoch is over before this row: it repeats the last window */
} mpt_epoch_place;

/* Where a row of a step comes from. There must be windows, and with DROP as many as a batch. */
mpt_epoch_place mpt_epochs_place(const mpt_epochs *epochs, int64_t step, int64_t row);

/* Steps that so many epochs take, rounded up; 2^53 at most. 0 where there is none. */
int64_t mpt_epochs_steps(const mpt_epochs *epochs, int64_t n);

/* Epochs that so many steps take: 2.3. */
double mpt_epochs_of(const mpt_epochs *epochs, int64_t steps);

/* Place i of a permutation of 0 ... n - 1, another for each seed, epoch and list. No table: a
 * Feistel network of Philox over the next larger square (Luby and Rackoff, 1988), walked on
 * until it is inside (Black and Rogaway, 2002). */
int64_t mpt_permuted(uint64_t seed, int64_t epoch, uint32_t list, int64_t n, int64_t i);

#endif
