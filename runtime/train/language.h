/* The synthetic language: its tables, its true model and its entropy.
 *
 * Words belong to classes, Zipf-distributed within each. A sentence walks over the classes by a
 * sparse grammar and ends with the token STOP. After each STOP, with probability `again`, the
 * token AGAIN comes and then an exact copy of the sentence before it, STOP included. So there
 * is something to learn at every range: frequent words, classes that follow each other, and
 * copies that take memory over a whole sentence.
 *
 * All probabilities are multiples of 2^-32, held as integers, so that the sampler draws exactly
 * the distribution whose entropy is computed. */
#ifndef MPT_TRAIN_LANGUAGE_H
#define MPT_TRAIN_LANGUAGE_H

#include "base/base.h"

enum {
    MPT_LANGUAGE_STOP = 0,
    MPT_LANGUAGE_AGAIN = 1,
    MPT_LANGUAGE_MARKERS = 2,
    MPT_LANGUAGE_SUCCESSORS = 3,
    MPT_LANGUAGE_MIN_VOCAB = 8,
    MPT_LANGUAGE_MAX_VOCAB = 1 << 20
};

/* What follows a class: STOP below `stop`, else the successor whose `below` is the first above
 * the drawn 32-bit number. The last `below` is 2^32. */
typedef struct mpt_follow {
    uint64_t stop;
    uint64_t below[MPT_LANGUAGE_SUCCESSORS];
    int32_t to[MPT_LANGUAGE_SUCCESSORS];
} mpt_follow;

typedef struct mpt_language {
    int32_t vocab, n_classes;
    uint64_t again;      /* of 2^32, after every STOP */
    mpt_follow *follow;  /* of each class; entry n_classes starts a sentence (stop = 0) */
    int32_t *first_word; /* n_classes + 1 offsets into the next two */
    int32_t *word;       /* token ids, by class and falling frequency */
    uint64_t *below;     /* cumulative frequency within the class, of 2^32 */
    double entropy;      /* nats per token of the endless stream */
    double unigram;      /* nats per token of its distribution of single tokens */
} mpt_language;

/* Draws the tables of the language with this seed and computes its entropies. */
mpt_status mpt_language_init(mpt_language *language, mpt_arena *arena, uint64_t seed,
                             int32_t vocab);

/* Index of the first of n rising bounds that is above `draw`; the last is 2^32. */
int mpt_language_pick(const uint64_t *below, int n, uint32_t draw);

#endif
