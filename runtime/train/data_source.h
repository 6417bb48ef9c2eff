/* What a source of tokens is to data.c: a vtable. data_corpus.c (files of text or ids),
 * data_batches.c (batches that were cut before), data_synthetic.c (the embedded language). A
 * new source is one more file and one more line in mpt_data_open. */
#ifndef MPT_TRAIN_DATA_SOURCE_H
#define MPT_TRAIN_DATA_SOURCE_H

#include "io/tokens.h"
#include "train/data.h"
#include "train/data_order.h"

enum { MPT_DATA_MAX_WINDOWS = 200 };

typedef struct mpt_data_ops {
    /* The run's lengths are in the data. Sets the epoch's windows; refuses what is too short.
     */
    mpt_status (*settle)(mpt_data *data);
    /* The window of a row that is drawn at random; NULL: there is none, only epochs. */
    void (*draw)(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                 int32_t *tokens, int32_t *targets);
    /* A window of an epoch; NULL: there are none, the source never ends. */
    void (*at)(const mpt_data *data, uint64_t seed, int64_t epoch, int64_t index,
               int32_t *tokens, int32_t *targets);
    int64_t (*n_windows)(const mpt_data *data);
    void (*window)(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets);
    /* Adds to the words on a run: what is held back. NULL: nothing to say. */
    void (*describe)(const mpt_data *data, mpt_str *out);
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
    const char *description, *run_description;
    const char *doubt; /* why a text seems to be none; NULL */
    double entropy, unigram;
    uint64_t sum;         /* over all ids of all files; 0: the source has none */
    mpt_data_order order; /* RANDOM: rows are drawn, and epochs only say how often */
    mpt_epochs epochs;    /* batch and remainder of the run, windows of the source */
    int64_t sequence, steps;
    void *self; /* the source's own state, in the arena */
};

/* What the source of files is opened with. */
typedef struct mpt_corpus_spec {
    mpt_data_kind kind;         /* TEXT or TOKENS */
    const mpt_data_file *files; /* lent during the call */
    int n_files;
    const char *recipe_file; /* beside which paths are looked for, too; NULL: nowhere */
    int64_t words;           /* the vocabulary; 0: not stated */
    mpt_part validation;
    bool validation_said;
    mpt_data_order order;
} mpt_corpus_spec;

/* Each fills ops, vocab, description, entropies and self. */
mpt_status mpt_data_open_corpus(mpt_data *data, const mpt_corpus_spec *spec);
mpt_status mpt_data_open_batches(mpt_data *data, const char *path, int64_t vocab);
mpt_status mpt_data_open_synthetic(mpt_data *data, uint64_t seed, int32_t vocab);

/* For those: fills in what is known of the vocabulary once the ids are checked. Of several
 * files it is called for each. */
void mpt_data_state_vocab(mpt_data *data, const mpt_tokens *tokens, int64_t vocab);

/* Takes the ids of one more file, which were checked, into the sum; `held_out`: as validation.
 */
void mpt_data_take_sum(mpt_data *data, const mpt_tokens *tokens, bool held_out);

/* The files that a path means, in the data's arena: itself, or what it matches as a glob,
 * looked for from the working directory and then beside the recipe. MPT_NOT_FOUND where nothing
 * matches; a path that leads nowhere is left to whoever opens it. data_find.c. */
typedef struct mpt_paths {
    const char **path;
    int n;
} mpt_paths;
mpt_status mpt_data_find(mpt_data *data, mpt_where where, const char *path,
                         const char *recipe_file, mpt_paths *out);

/* Adds the way out to the error of a path that leads nowhere. */
void mpt_data_hint_missing(mpt_data *data, const char *path);

#endif
