/* Inside the reading and writing of weights: what weights.c, weights_load.c, weights_save.c and
 * weights_llmc.c share. */
#ifndef MPT_TRAIN_WEIGHTS_FILE_H
#define MPT_TRAIN_WEIGHTS_FILE_H

#include "train/weights.h"

/* ---- reading ---- */

/* Rows and columns that share one scale in checkpoints of 8-bit weights. */
enum { MPT_SCALE_BLOCK = 128 };

/* The tensors of a checkpoint, sorted by name where some of them are scales; lent. */
typedef struct mpt_weights_source {
    const char *path; /* for messages */
    const mpt_stored_tensor *tensors;
    int n;
} mpt_weights_source;

/* mpt_weights_load behind the opening of files. */
mpt_status mpt_weights_load_source(const mpt_weights_map *map, const mpt_weights_source *source,
                                   float *const *params, const char **out_root);

/* ---- writing ---- */

typedef struct mpt_weights_saver {
    mpt_weights_map map;
    const char *root;
    const float *const *params;
    const char *path;
    mpt_weight_type type;
    uint64_t shard_bytes;
    mpt_tensor_spec *specs; /* one a weight of the map */
    float *chunk;
    int n_overflows;
    mpt_str overflows; /* the first tensors with numbers too large for the type */
} mpt_weights_saver;

/* Writes a weight in the saver's type, rounded to nearest, and notes what is too large. */
void mpt_weights_fill(mpt_weights_saver *saver, int index, void *out);
/* Whether all that was filled in is a number of the type. */
mpt_status mpt_weights_check_overflows(const mpt_weights_saver *saver, const char *path);

/* ---- llm.c: the map is that of MPT_WEIGHTS_PLAIN ---- */

mpt_status mpt_weights_load_llmc(const mpt_weights_map *map, const char *path,
                                 float *const *params);
mpt_status mpt_weights_save_llmc(mpt_weights_saver *saver);

#endif
