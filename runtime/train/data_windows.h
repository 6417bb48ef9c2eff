/* Windows over a row of tokens: what training draws and what validation reads.
 *
 * The last tenth is validation, in windows spread evenly over it that share no target; training
 * windows start anywhere in the rest, documents or not. Sources of one long row (data_text.c,
 * data_tokens.c) cut it alike, so that the same tokens train alike wherever they come from. */
#ifndef MPT_TRAIN_DATA_WINDOWS_H
#define MPT_TRAIN_DATA_WINDOWS_H

#include "train/data_source.h"

typedef struct mpt_windows {
    const char *path; /* for messages */
    int64_t n;        /* tokens in all; sources check that it is the file's */
} mpt_windows;

/* How many tokens at the end are validation, for the figures of a description. */
int64_t mpt_windows_validation(const mpt_windows *w);

/* Refuses what is too short for one sequence and its last target. */
mpt_status mpt_windows_check(const mpt_data *data, const mpt_windows *w, int64_t sequence);

/* Where the window of a training row starts. */
int64_t mpt_windows_train(const mpt_windows *w, uint64_t seed, int64_t step, int64_t row,
                          int64_t sequence);

/* Validation windows, at most MPT_DATA_MAX_WINDOWS, and where one starts. */
int64_t mpt_windows_count(const mpt_windows *w, int64_t sequence);
int64_t mpt_windows_start(const mpt_windows *w, int64_t window, int64_t sequence);

/* Entropy in nats of a distribution that was counted: n in all, over so many words. */
double mpt_windows_entropy(const int64_t *count, int64_t words, int64_t n);

/* "168,894" */
void mpt_windows_commas(int64_t n, char out[32]);

#endif
