/* What a checkpoint holds beside the weights: named tensors over live memory.
 *
 * Each module that carries something from step to step adds rows for it; saving writes them
 * all, loading checks all of them against a file and only then copies. A row borrows its
 * memory, so a list lives no longer than what it points to, and is made anew for each use. */
#ifndef MPT_TRAIN_SAVED_H
#define MPT_TRAIN_SAVED_H

#include "io/safetensors.h"

typedef enum mpt_saved_kind {
    MPT_SAVED_LEARNT,   /* what training has made of the model: goes back in a rollback */
    MPT_SAVED_SCALES,   /* the same, but starts anew where a changed recipe has other ones */
    MPT_SAVED_PROGRESS, /* counters and windows of the run: a rollback leaves them alone */
    MPT_SAVED_OBSERVED, /* as progress, and keeps what it has where a changed recipe needs
                         * others
                         */
    MPT_SAVED_CONSTANT  /* follows from the recipe: is never copied, but must be the same */
} mpt_saved_kind;

typedef struct mpt_saved_row {
    const char *name; /* in the list's arena */
    mpt_tensor_type type;
    mpt_saved_kind kind;
    int rank;
    int64_t dims[MPT_TENSOR_MAX_RANK];
    void *data; /* lent; NULL where there is no element */
    size_t bytes;
} mpt_saved_row;

typedef struct mpt_saved {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_saved_kind kind; /* of the rows to come: a module sets it, then adds */
    int n, cap;
    mpt_saved_row *rows;
} mpt_saved;

void mpt_saved_init(mpt_saved *list, mpt_ctx *ctx);
void mpt_saved_deinit(mpt_saved *list);

/* One more tensor, row-major, in memory that is lent: `data` is read when the list is written
 * and written when it is read. Names are unique ("adam_m.wte.weight", "watch.loss") and copied;
 * `dims` may be NULL for a rank of 0. MPT_OUT_OF_MEMORY is the one failure. */
mpt_status mpt_saved_add(mpt_saved *list, const char *name, mpt_tensor_type type, int rank,
                         const int64_t *dims, void *data);

/* One number: a tensor of rank 0. */
mpt_status mpt_saved_add_i64(mpt_saved *list, const char *name, int64_t *value);
mpt_status mpt_saved_add_i32(mpt_saved *list, const char *name, int32_t *value);
mpt_status mpt_saved_add_f64(mpt_saved *list, const char *name, double *value);

#endif
