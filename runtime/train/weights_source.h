/* Inside the reading of weights: what weights.c opens and weights_load.c takes values from. */
#ifndef MPT_TRAIN_WEIGHTS_SOURCE_H
#define MPT_TRAIN_WEIGHTS_SOURCE_H

#include "train/weights.h"

/* Rows and columns that share one scale in checkpoints of 8-bit weights. */
enum { MPT_SCALE_BLOCK = 128 };

/* The tensors of a checkpoint, sorted by name; lent. */
typedef struct mpt_weights_source {
    const char *path; /* for messages */
    const mpt_stored_tensor *tensors;
    int n;
} mpt_weights_source;

/* mpt_weights_load behind the opening of files. */
mpt_status mpt_weights_load_source(const mpt_weights_map *map, const mpt_weights_source *source,
                                   float *const *params, const char **out_root);

#endif
