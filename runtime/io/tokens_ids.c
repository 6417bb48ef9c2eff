/* The ids of a token file: all of them checked once, then read window by window.
 *
 * The check reads the whole file, on all cores: 2 GB take about two seconds on two cores
 * where the disk has them at hand. It costs what one epoch reads anyway, and no step has to ask
 * again. */
#include "io/tokens.h"

#include <inttypes.h>
#include <string.h>

/* The smallest and largest id of a run. */
typedef struct id_range {
    int64_t low, high;
} id_range;

/* Of a piece of the file, with a sum over its ids. */
typedef struct id_piece {
    id_range range;
    uint64_t sum;
} id_piece;

/* One loop a type, in that type, so that the compiler can take many ids at once. */
#define RANGE_OF(id, name, type, most)                                                         \
    static id_range range_##id(const unsigned char *at, int64_t n) {                           \
        type low, high, x;                                                                     \
        memcpy(&low, at, sizeof low);                                                          \
        high = low;                                                                            \
        for (int64_t i = 1; i < n; i++) {                                                      \
            memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);                                  \
            low = x < low ? x : low;                                                           \
            high = x > high ? x : high;                                                        \
        }                                                                                      \
        return (id_range){low, high};                                                          \
    }
MPT_TOKEN_TYPE_LIST(RANGE_OF)
#undef RANGE_OF

static id_range (*const ranges[])(const unsigned char *, int64_t) = {
#define RANGE_ROW(id, name, type, most) range_##id,
    MPT_TOKEN_TYPE_LIST(RANGE_ROW)
#undef RANGE_ROW
};

#define COPY_OF(id, name, type, most)                                                          \
    static void copy_##id(const unsigned char *at, int64_t n, int32_t *out) {                  \
        for (int64_t i = 0; i < n; i++) {                                                      \
            type x;                                                                            \
            memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);                                  \
            out[i] = (int32_t)x;                                                               \
        }                                                                                      \
    }
MPT_TOKEN_TYPE_LIST(COPY_OF)
#undef COPY_OF

static void (*const copies[])(const unsigned char *, int64_t, int32_t *) = {
#define COPY_ROW(id, name, type, most) copy_##id,
    MPT_TOKEN_TYPE_LIST(COPY_ROW)
#undef COPY_ROW
};

static const unsigned char *at_id(const mpt_tokens *t, int64_t i) {
    return t->data + i * mpt_token_type_bytes(t->type);
}

void mpt_tokens_read(const mpt_tokens *tokens, int64_t first, int64_t n, int32_t *out) {
    if (n > 0)
        copies[tokens->type](at_id(tokens, first), n, out);
}

/* ---- the check ---- */

enum { PIECES = 64, BLOCK = 2048 };

/* A block at a time, so that the sum finds in the cache what the range has read. */
static id_piece piece_of(const mpt_tokens *t, int64_t first, int64_t end) {
    id_piece piece = {{INT64_MAX, -1}, 0};
    uint64_t chain[2] = {0, 0};
    int32_t ids[BLOCK];
    for (int64_t at = first; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        id_range of = ranges[t->type](at_id(t, at), n);
        piece.range.low = of.low < piece.range.low ? of.low : piece.range.low;
        piece.range.high = of.high > piece.range.high ? of.high : piece.range.high;
        mpt_tokens_read(t, at, n, ids);
        chain[1] = mpt_hash(ids, (size_t)n * sizeof *ids);
        chain[0] = mpt_hash(chain, sizeof chain);
    }
    piece.sum = chain[0];
    return piece;
}

/* Each piece has a place of its own, so that no thread waits for another. */
static id_piece read_all(const mpt_tokens *t) {
    id_piece piece[PIECES], all = {{INT64_MAX, -1}, 0};
    uint64_t sums[PIECES];
    int64_t each = t->n / PIECES + 1;
#pragma omp parallel for schedule(dynamic) if (t->n > 1 << 20)
    for (int p = 0; p < PIECES; p++) {
        int64_t first = p * each, end = first + each < t->n ? first + each : t->n;
        piece[p] = piece_of(t, first, end);
    }
    for (int p = 0; p < PIECES; p++) {
        const id_range *of = &piece[p].range;
        all.range.low = of->low < all.range.low ? of->low : all.range.low;
        all.range.high = of->high > all.range.high ? of->high : all.range.high;
        sums[p] = piece[p].sum;
    }
    all.sum = mpt_hash(sums, sizeof sums);
    return all;
}

/* The first id outside of 0 ... most. */
static mpt_status fail_id(const mpt_tokens *t, int64_t most, bool stated) {
    int64_t i = 0;
    id_range id;
    for (id = ranges[t->type](at_id(t, i), 1); id.low >= 0 && id.high <= most;)
        id = ranges[t->type](at_id(t, ++i), 1);
    mpt_status status = MPT_FAIL(
        t->ctx, MPT_DATA, t->where, "%s: token %" PRId64 " is %" PRId64 ", and %s %" PRId64,
        t->path, i, id.low,
        stated ? "the vocabulary's ids run from 0 to" : "ids run from 0 to at most", most);
    mpt_hint(t->ctx, stated ? "state the vocabulary of the tokenizer that made it"
                            : "it is damaged, or no file of tokens");
    return status;
}

/* Ids that were too large for the type have lost their upper bits when they were written. */
static mpt_status check_type(const mpt_tokens *t, int64_t vocab) {
    int64_t most = mpt_token_type_largest(t->type);
    if (vocab - 1 <= most)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(t->ctx, MPT_DATA, t->where,
                 "%s: holds %s, whose ids end at %" PRId64 ", and the vocabulary has %" PRId64,
                 t->path, mpt_token_type_name(t->type), most, vocab);
    mpt_hint(t->ctx,
             t->format == MPT_TOKENS_TEXT
                 ? "bytes are a vocabulary of 256 words; a tokenizer makes larger ids"
                 : "larger ids would have lost their upper bits: make the file anew with 32 "
                   "bits (mptrun tokens --format llmc32), or state the vocabulary it has");
    return status;
}

mpt_status mpt_tokens_check(mpt_tokens *tokens, int64_t vocab) {
    int64_t most = vocab > 0 ? vocab - 1 : MPT_TOKEN_LARGEST;
    MPT_TRY(check_type(tokens, vocab));
    if (tokens->n == 0)
        return MPT_OK;
    id_piece all = read_all(tokens);
    if (all.range.low < 0 || all.range.high > most)
        return fail_id(tokens, most, vocab > 0);
    tokens->largest = all.range.high;
    tokens->sum = all.sum;
    return MPT_OK;
}
