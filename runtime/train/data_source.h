/* What a source of tokens is to data.c: a vtable. One file a source: data_text.c (bytes of a
 * file), data_tokens.c (token files), data_batches.c (batches that were cut before),
 * data_synthetic.c (the embedded language). A new source is one more file and one more line in
 * mpt_data_open. */
#ifndef MPT_TRAIN_DATA_SOURCE_H
#define MPT_TRAIN_DATA_SOURCE_H

#include "io/tokens.h"
#include "train/data.h"

enum { MPT_DATA_MAX_WINDOWS = 200 };

typedef struct mpt_data_ops {
    mpt_status (*check)(const mpt_data *data, int64_t sequence); /* NULL: never too short */
    void (*settle)(mpt_data *data, const mpt_train *train); /* NULL: it needs to know none */
    void (*begin)(const mpt_data *data, const mpt_train *train); /* NULL: nothing to warn of */
    void (*train)(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                  int64_t sequence, int32_t *tokens, int32_t *targets);
    int64_t (*n_windows)(const mpt_data *data, int64_t sequence);
    void (*window)(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                   int32_t *targets);
    void (*close)(mpt_data *data); /* frees what the source holds beside the arena */
} mpt_data_ops;

struct mpt_data {
    mpt_ctx *ctx;
    mpt_arena arena;
    const mpt_data_ops *ops;
    mpt_where where;
    int32_t vocab;        /* what is stated, else what the ids need */
    const char *unstated; /* the file that states none, NULL: it is stated */
    int64_t id_limit;     /* the largest id that the file's type can hold; 0: any */
    const char *description;
    double entropy, unigram;
    void *self; /* the source's own state, in the arena */
};

/* Each fills ops, vocab, description, entropies and self. */
mpt_status mpt_data_open_text(mpt_data *data, const char *path);
mpt_status mpt_data_open_tokens(mpt_data *data, const char *path, int64_t vocab); /* 0: none */
mpt_status mpt_data_open_batches(mpt_data *data, const char *path, int64_t vocab);
mpt_status mpt_data_open_synthetic(mpt_data *data, uint64_t seed, int32_t vocab);

/* For those: fills in what is known of the vocabulary once the ids are checked. */
void mpt_data_state_vocab(mpt_data *data, const mpt_tokens *tokens, int64_t vocab);

#endif
