/* Windows over files of tokens: what training draws and what validation reads.
 *
 * Each file keeps its own: no window goes from one file into the next, and the tokens that are
 * held back for validation are at the end of each, or in files of their own. Text and token
 * files are cut alike (data_corpus.c), so that the same tokens train alike wherever they come
 * from. What is drawn depends on seed and place alone. */
#ifndef MPT_TRAIN_DATA_WINDOWS_H
#define MPT_TRAIN_DATA_WINDOWS_H

#include "train/data_source.h"

/* One file of a corpus. */
typedef struct mpt_shard {
    mpt_tokens *tokens;
    double weight; /* how often its windows come for one of a file of weight 1 */
    bool held_out; /* all of it is validation */
    /* Once it is known how long a window is: */
    int64_t n_train; /* tokens that training reads, the first ones */
    int64_t windows; /* of training, without overlap */
    int64_t held;    /* of validation, likewise */
} mpt_shard;

typedef struct mpt_windows {
    mpt_shard *shards;
    int n_shards, cap_shards;
    mpt_part validation; /* its share counts where no file is held out */
    bool validation_said;
    mpt_data_order order;
    int64_t sequence;
    /* Sums over the shards up to each: of what a random draw, an epoch's window and a window of
     * validation is out of. */
    int64_t *draws, *slots, *helds;
} mpt_windows;

/* A window: `sequence` tokens of a shard from `at` on, and the target behind the last. */
typedef struct mpt_window {
    const mpt_shard *shard;
    int64_t at;
} mpt_window;

/* Cuts the shards for sequences of this length. MPT_DATA names the first file that is too short
 * for one sequence and its last target, and tokens needed and present. */
mpt_status mpt_windows_settle(mpt_windows *w, const mpt_data *data, int64_t sequence);

/* Tokens of a shard that training reads, before the length of a sequence is known. */
int64_t mpt_windows_training(const mpt_windows *w, const mpt_shard *shard);

/* Windows of one epoch, and one of them in the order in which they come. */
int64_t mpt_windows_in_epoch(const mpt_windows *w);
mpt_window mpt_windows_at(const mpt_windows *w, uint64_t seed, int64_t epoch, int64_t index);

/* The window of a row where they are drawn at random. */
mpt_window mpt_windows_draw(const mpt_windows *w, uint64_t seed, int64_t step, int64_t row);

/* Validation windows, at most MPT_DATA_MAX_WINDOWS spread over all there are, and one. */
int64_t mpt_windows_n_held(const mpt_windows *w);
mpt_window mpt_windows_held(const mpt_windows *w, int64_t window);

/* "168,894" */
void mpt_windows_commas(int64_t n, char out[32]);

#endif
