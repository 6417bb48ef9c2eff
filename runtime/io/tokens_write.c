/* Writing a token file: whole or not at all, over file_write.c. See tokens.h.
 *
 * No id is cut: one that does not fit the type ends the writing. Megatron's index is made when
 * the ids are complete and named last, so that a pair is there whole or has no index. */
#include "io/tokens.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "io/file_write.h"
#include "io/tokens_format.h"

struct mpt_token_writer {
    mpt_ctx *ctx;
    mpt_arena arena;
    mpt_token_format format;
    mpt_token_type type;
    int64_t n, vocab, header; /* bytes before the ids */
    mpt_token_pair pair;      /* Megatron's; of others `data` is the file */
    mpt_file_writer *file, *index;
    int64_t most; /* the largest id that is taken */
};

/* ---- what may be replaced ---- */

static bool is_shard(const char *path, const unsigned char *start, size_t n) {
    uint32_t magic = mpt_llmc_magic(start, n, NULL);
    (void)path;
    return magic == MPT_LLMC_MAGIC16 || magic == MPT_LLMC_MAGIC32;
}

/* What has no header is known by its name only. */
static bool is_headerless(const char *path, const unsigned char *start, size_t n) {
    size_t length = strlen(path);
    bool named = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    if (mpt_llmc_magic(start, n, NULL))
        return is_shard(path, start, n);
    return named && mpt_content_of(path) == MPT_CONTENT_OTHER;
}

static bool is_none(const char *path, const unsigned char *start, size_t n) {
    (void)path;
    (void)start;
    (void)n;
    return false;
}

static const mpt_file_kind shard_kind = {"llm.c token shard", 4, is_shard},
                           headerless_kind = {"token file", 16, is_headerless},
                           pair_kind = {"file that can be replaced in one step with the other "
                                        "of its pair",
                                        4, is_none};

/* ---- the plan of the file ---- */

static mpt_status fail_spec(const mpt_token_writer *w, mpt_status code, const char *fault,
                            const char *hint) {
    mpt_status status = MPT_FAIL(w->ctx, code, MPT_NOWHERE, "%s: %s", w->pair.data, fault);
    if (*hint)
        mpt_hint(w->ctx, "%s", hint);
    return status;
}

/* Megatron's threshold is below 65,536: its readers follow the code, and so does ours. */
enum { MEGATRON_SMALL = 65500 };

static void choose_type(mpt_token_writer *w) {
    w->type = w->format == MPT_TOKENS_LLMC32     ? MPT_TOKEN_U32
              : w->format != MPT_TOKENS_MEGATRON ? MPT_TOKEN_U16
              : w->vocab < MEGATRON_SMALL        ? MPT_TOKEN_U16
                                                 : MPT_TOKEN_I32;
    int64_t most = mpt_token_type_largest(w->type);
    w->most = w->vocab - 1 < most ? w->vocab - 1 : most;
    w->header =
        w->format == MPT_TOKENS_LLMC || w->format == MPT_TOKENS_LLMC32 ? MPT_LLMC_HEADER : 0;
}

static mpt_status check_spec(const mpt_token_writer *w, const mpt_token_spec *spec) {
    int64_t sum = 0, before = 0;
    if (spec->n < 0 || spec->n > INT64_MAX / 16 || spec->vocab < 1 ||
        spec->vocab > MPT_TOKEN_LARGEST + 1)
        return fail_spec(w, MPT_INVALID, "no such number of tokens, or of words", "");
    if (w->header && spec->n > INT32_MAX)
        return fail_spec(w, MPT_DATA, "an llm.c shard counts at most 2147483647 tokens",
                         "write Megatron's format, or several shards");
    for (int64_t i = 0; i < spec->n_sequences; i++) {
        sum += spec->lengths[i];
        if (spec->lengths[i] < 0 || sum > spec->n)
            return fail_spec(w, MPT_INVALID, "its sequences are not those of its tokens", "");
    }
    for (int64_t i = 0; spec->n_sequences && i <= spec->n_documents; i++) {
        int64_t at = spec->boundaries[i];
        if (at < before || at > spec->n_sequences)
            return fail_spec(w, MPT_INVALID, "its documents are not those of its sequences",
                             "");
        before = at;
    }
    if (spec->n_sequences &&
        (sum != spec->n || before != spec->n_sequences || spec->boundaries[0] != 0))
        return fail_spec(w, MPT_INVALID, "its documents do not hold all of its tokens", "");
    return MPT_OK;
}

/* ---- headers ---- */

static void store32(unsigned char *at, uint32_t x) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(x >> (8 * i));
}

static void store64(unsigned char *at, uint64_t x) {
    store32(at, (uint32_t)x);
    store32(at + 4, (uint32_t)(x >> 32));
}

static void write_shard_header(const mpt_token_writer *w, unsigned char *at) {
    bool wide = w->format == MPT_TOKENS_LLMC32;
    store32(at, wide ? MPT_LLMC_MAGIC32 : MPT_LLMC_MAGIC16);
    store32(at + 4, wide ? MPT_LLMC_VERSION32 : MPT_LLMC_VERSION16);
    store32(at + 8, (uint32_t)w->n);
}

/* The longest sequence of a document that is not cut by the caller. */
enum { SEQUENCE_MOST = 1 << 30 };

static int64_t length_of(const mpt_token_spec *spec, int64_t i) {
    int64_t left = spec->n - i * SEQUENCE_MOST;
    if (spec->n_sequences)
        return spec->lengths[i];
    return left < SEQUENCE_MOST ? left : SEQUENCE_MOST;
}

static void write_index(const mpt_token_writer *w, const mpt_token_spec *spec, int64_t s,
                        int64_t d) {
    unsigned char *at = mpt_file_bytes(w->index);
    int64_t bytes = mpt_token_type_bytes(w->type), offset = 0;
    memcpy(at, MPT_MEGATRON_MAGIC, MPT_MEGATRON_MAGIC_BYTES);
    store64(at + 9, 1);
    at[17] = mpt_megatron_code(w->type);
    store64(at + 18, (uint64_t)s);
    store64(at + 26, (uint64_t)d + 1);
    at += MPT_MEGATRON_HEADER;
    for (int64_t i = 0; i < s; i++) {
        store32(at + 4 * i, (uint32_t)length_of(spec, i));
        store64(at + 4 * s + 8 * i, (uint64_t)offset);
        offset += length_of(spec, i) * bytes;
    }
    at += 12 * s;
    for (int64_t i = 0; i <= d; i++)
        store64(at + 8 * i, (uint64_t)(spec->n_sequences ? spec->boundaries[i]
                                       : i == d          ? s
                                                         : 0));
}

/* The index takes its space now, as the ids do: a full disk is found before the work. */
static mpt_status create_index(mpt_token_writer *w, const mpt_token_spec *spec) {
    bool given = spec->n_sequences > 0;
    int64_t s = given ? spec->n_sequences : (spec->n + SEQUENCE_MOST - 1) / SEQUENCE_MOST;
    int64_t d = given ? spec->n_documents : s > 0;
    size_t bytes = MPT_MEGATRON_HEADER + 12 * (size_t)s + 8 * ((size_t)d + 1);
    MPT_TRY(mpt_file_create(w->ctx, w->pair.index, bytes, &pair_kind, &w->index));
    write_index(w, spec, s, d);
    return MPT_OK;
}

/* ---- the calls ---- */

static mpt_status prepare(mpt_token_writer *w, const char *path, const mpt_token_spec *spec) {
    const mpt_file_kind *kind = w->format == MPT_TOKENS_MEGATRON  ? &pair_kind
                                : w->format == MPT_TOKENS_NANOGPT ? &headerless_kind
                                                                  : &shard_kind;
    if (!mpt_token_pair_of(&w->arena, path, &w->pair))
        return MPT_OUT_OF_MEMORY;
    if (w->format != MPT_TOKENS_MEGATRON)
        w->pair.data = mpt_arena_strdup(&w->arena, path);
    if (!w->pair.data)
        return MPT_OUT_OF_MEMORY;
    choose_type(w);
    MPT_TRY(check_spec(w, spec));
    size_t bytes = (size_t)(w->header + w->n * mpt_token_type_bytes(w->type));
    MPT_TRY(mpt_file_create(w->ctx, w->pair.data, bytes, kind, &w->file));
    if (w->header)
        write_shard_header(w, mpt_file_bytes(w->file));
    return w->format == MPT_TOKENS_MEGATRON ? create_index(w, spec) : MPT_OK;
}

mpt_status mpt_tokens_create(mpt_ctx *ctx, const char *path, const mpt_token_spec *spec,
                             mpt_token_writer **out) {
    *out = NULL;
    if (spec->format <= MPT_TOKENS_TEXT || spec->format >= MPT_TOKENS_FORMAT_COUNT)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: no format of token files", path);
    mpt_token_writer *w = mpt_alloc(ctx, sizeof *w);
    if (!w)
        return mpt_fail_memory(ctx, sizeof *w);
    *w = (mpt_token_writer){
        .ctx = ctx, .format = spec->format, .n = spec->n, .vocab = spec->vocab};
    mpt_arena_init(&w->arena, ctx);
    mpt_status status = prepare(w, path, spec);
    if (status == MPT_OK)
        *out = w;
    else
        mpt_tokens_abandon(w);
    return status;
}

/* Why an id is not taken: it is beyond the vocabulary, or the type would cut it. */
static mpt_status refuse_id(const mpt_token_writer *w, int64_t at, int32_t id) {
    bool beyond = id < 0 || w->most == w->vocab - 1;
    mpt_status status =
        beyond ? MPT_FAIL(w->ctx, MPT_DATA, MPT_NOWHERE,
                          "%s: token %" PRId64 " is %" PRId32
                          ", and the vocabulary's ids run from 0 to %" PRId64,
                          w->pair.data, at, id, w->vocab - 1)
               : MPT_FAIL(w->ctx, MPT_DATA, MPT_NOWHERE,
                          "%s: token %" PRId64 " is %" PRId32 ", and %s ends at %" PRId64,
                          w->pair.data, at, id, mpt_token_type_name(w->type), w->most);
    mpt_hint(w->ctx, beyond ? "state the vocabulary of the tokenizer that made them"
                            : "write llmc32 or megatron, which have 32 bits");
    return status;
}

/* All ids of a piece are looked at before one is stored. */
mpt_status mpt_tokens_put(mpt_token_writer *writer, int64_t first, int64_t n,
                          const int32_t *ids) {
    int64_t bytes = mpt_token_type_bytes(writer->type);
    if (first < 0 || n < 0 || n > writer->n - first)
        return fail_spec(writer, MPT_INVALID, "tokens are put beyond its end", "");
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] > writer->most)
            return refuse_id(writer, first + i, ids[i]);
    if (n == 0)
        return MPT_OK;
    unsigned char *at = mpt_file_bytes(writer->file);
    at += writer->header + first * bytes;
    if (bytes == 4) {
        memcpy(at, ids, (size_t)n * 4);
        return MPT_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t id = (uint16_t)ids[i];
        memcpy(at + 2 * i, &id, sizeof id);
    }
    return MPT_OK;
}

mpt_token_type mpt_tokens_writer_type(const mpt_token_writer *writer) {
    return writer->type;
}

const char *mpt_tokens_writer_path(const mpt_token_writer *writer) {
    return writer->pair.data;
}

mpt_status mpt_tokens_commit(mpt_token_writer *writer) {
    mpt_file_writer *file = writer->file, *index = writer->index;
    writer->file = writer->index = NULL;
    mpt_status status = mpt_file_commit(file);
    if (status == MPT_OK && index) {
        status = mpt_file_commit(index);
        index = NULL;
        if (status != MPT_OK && mpt_content_of(writer->pair.index) != MPT_CONTENT_TOKENS)
            unlink(writer->pair.data); /* new, and of no use alone */
    }
    mpt_file_abandon(index);
    mpt_tokens_abandon(writer);
    return status;
}

void mpt_tokens_abandon(mpt_token_writer *writer) {
    if (!writer)
        return;
    mpt_file_abandon(writer->file);
    mpt_file_abandon(writer->index);
    mpt_arena_deinit(&writer->arena);
    mpt_free(writer->ctx, writer);
}
