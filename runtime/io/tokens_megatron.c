/* Megatron's pair: an index that says which sequences and documents the file of ids holds.
 *
 * Everything in the index is checked before an id is read: the ids are then one run from the
 * start of NAME.bin, and windows may cross documents. Its arrays start at byte 34 and are
 * aligned to nothing. */
#include "io/tokens_format.h"

#include <inttypes.h>
#include <stdio.h>

static const char damaged[] = "it is damaged, or of another version: make or fetch it again";

/* The parts of the index, in bytes from its start. */
typedef struct index_layout {
    const unsigned char *at; /* the whole */
    int64_t n_sequences, n_boundaries;
    size_t offsets, boundaries, modes, end; /* modes end at `end`, where there are any */
} index_layout;

static mpt_status fail(const mpt_tokens *t, const char *index, const char *fmt, ...)
    MPT_PRINTF(3, 4);

static mpt_status fail(const mpt_tokens *t, const char *index, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mpt_status status = MPT_FAIL(t->ctx, MPT_DATA, t->where, "%s: %s", index, text);
    mpt_hint(t->ctx, "%s", damaged);
    return status;
}

/* Version and type. */
static mpt_status read_head(mpt_tokens *t, const char *index) {
    const unsigned char *at = t->index.data;
    if (!mpt_is_megatron_index(at, t->index.size))
        return fail(t, index, "is no index of Megatron's: it does not start with MMIDIDX");
    if (t->index.size < MPT_MEGATRON_HEADER)
        return fail(t, index, "%zu bytes are too few for an index", t->index.size);
    uint64_t version = mpt_tokens_load64(at + 9);
    if (version != 1)
        return fail(t, index, "version %" PRIu64 " of an index, where 1 is known", version);
    t->type = mpt_megatron_type(at[17]);
    if (t->type != MPT_TOKEN_TYPE_COUNT)
        return MPT_OK;
    if (at[17] == 6 || at[17] == 7)
        return fail(t, index, "code %d of a type: the file holds floating numbers, no tokens",
                    at[17]);
    return fail(t, index, "code %d of a type, where 1 to 8 are known", at[17]);
}

/* Where each array lies. The counts are compared with the file's size before anything is
 * multiplied. */
static mpt_status lay_out(const mpt_tokens *t, const char *index, index_layout *out) {
    uint64_t size = t->index.size - MPT_MEGATRON_HEADER;
    uint64_t s = mpt_tokens_load64(t->index.data + 18),
             d = mpt_tokens_load64(t->index.data + 26);
    bool fits = s <= size / 12 && d <= size / 8;
    uint64_t need = fits ? 12 * s + 8 * d : 0;
    if (!fits || (size != need && size != need + s))
        return fail(t, index,
                    "%" PRIu64 " sequences and %" PRIu64
                    " boundaries of documents do not make %zu bytes",
                    s, d, t->index.size);
    *out = (index_layout){t->index.data, (int64_t)s, (int64_t)d, 0, 0, 0, t->index.size};
    out->offsets = MPT_MEGATRON_HEADER + (size_t)s * 4;
    out->boundaries = out->offsets + (size_t)s * 8;
    out->modes = out->boundaries + (size_t)d * 8;
    return MPT_OK;
}

/* Sequences follow each other without a gap, from the start of the file of ids. */
static mpt_status check_sequences(mpt_tokens *t, const char *index, const index_layout *l) {
    int64_t bytes = mpt_token_type_bytes(t->type), at = 0;
    for (int64_t i = 0; i < l->n_sequences; i++) {
        int32_t length = (int32_t)mpt_tokens_load32(l->at + MPT_MEGATRON_HEADER + 4 * i);
        int64_t offset = (int64_t)mpt_tokens_load64(l->at + l->offsets + 8 * i);
        if (length < 0)
            return fail(t, index, "sequence %" PRId64 " has %" PRId32 " tokens", i, length);
        if (offset != at)
            return fail(t, index,
                        "sequence %" PRId64 " starts at byte %" PRId64
                        " of the tokens, and those before it end at %" PRId64,
                        i, offset, at);
        if (__builtin_add_overflow(at, length * bytes, &at))
            return fail(t, index, "its sequences have more tokens than can be counted");
    }
    t->n = at / bytes;
    return MPT_OK;
}

/* Documents are runs of sequences: from 0, never back, to the last one. */
static mpt_status check_documents(const mpt_tokens *t, const char *index,
                                  const index_layout *l) {
    int64_t before = 0;
    for (int64_t i = 0; i < l->n_boundaries; i++) {
        int64_t at = (int64_t)mpt_tokens_load64(l->at + l->boundaries + 8 * i);
        if (at < before || at > l->n_sequences || (i == 0 && at != 0))
            return fail(t, index,
                        "document %" PRId64 " starts at sequence %" PRId64 " of %" PRId64
                        ", and the one before it at %" PRId64,
                        i, at, l->n_sequences, before);
        before = at;
    }
    if (l->n_boundaries < 1 || before != l->n_sequences)
        return fail(t, index, "its documents end at sequence %" PRId64 ", and it has %" PRId64,
                    before, l->n_sequences);
    return MPT_OK;
}

/* Other modes are those of pictures and sound. */
static mpt_status check_modes(const mpt_tokens *t, const char *index, const index_layout *l) {
    for (size_t i = l->modes; i < l->end; i++) {
        if (!l->at[i])
            continue;
        mpt_status status =
            MPT_FAIL(t->ctx, MPT_UNSUPPORTED, t->where,
                     "%s: sequence %zu has mode %d, and only text (mode 0) is read", index,
                     i - l->modes, (int)(signed char)l->at[i]);
        mpt_hint(t->ctx, "name a data set of text");
        return status;
    }
    return MPT_OK;
}

static mpt_status map_ids(mpt_tokens *t, const mpt_token_pair *pair) {
    int64_t need = t->n * mpt_token_type_bytes(t->type);
    mpt_status status = mpt_file_map_open(t->ctx, t->where, pair->data, &t->map);
    if (status == MPT_NOT_FOUND)
        mpt_hint(t->ctx, "%s counts what is in it: both files are needed", pair->index);
    MPT_TRY(status);
    if ((int64_t)t->map.size < need) {
        status = MPT_FAIL(
            t->ctx, MPT_DATA, t->where,
            "%s: has %zu bytes, and %s counts %" PRId64 " tokens of %s, which take "
            "%" PRId64,
            pair->data, t->map.size, pair->index, t->n, mpt_token_type_name(t->type), need);
        mpt_hint(t->ctx, "one of the two is cut off, or of another data set");
        return status;
    }
    t->data = t->n ? t->map.data : NULL;
    return MPT_OK;
}

mpt_status mpt_tokens_open_megatron(mpt_tokens *tokens, const mpt_token_pair *pair) {
    index_layout layout = {0};
    tokens->format = MPT_TOKENS_MEGATRON;
    tokens->path = pair->data;
    MPT_TRY(mpt_file_map_open(tokens->ctx, tokens->where, pair->index, &tokens->index));
    MPT_TRY(read_head(tokens, pair->index));
    MPT_TRY(lay_out(tokens, pair->index, &layout));
    MPT_TRY(check_sequences(tokens, pair->index, &layout));
    MPT_TRY(check_documents(tokens, pair->index, &layout));
    MPT_TRY(check_modes(tokens, pair->index, &layout));
    tokens->n_sequences = layout.n_sequences;
    tokens->n_documents = layout.n_boundaries - 1;
    tokens->lengths = layout.at + MPT_MEGATRON_HEADER;
    tokens->boundaries = layout.at + layout.boundaries;
    return map_ids(tokens, pair);
}
