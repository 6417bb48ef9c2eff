/* Reading a token file: which format it is, and whether it is whole. See tokens.h.
 *
 * The ids themselves are read in tokens_ids.c, Megatron's index in tokens_megatron.c. */
#include "io/tokens.h"

#include <inttypes.h>
#include <string.h>

#include "io/tokens_format.h"

static mpt_status fail(const mpt_tokens *t, const char *hint, const char *fault) {
    mpt_status status = MPT_FAIL(t->ctx, MPT_DATA, t->where, "%s: %s", t->path, fault);
    mpt_hint(t->ctx, "%s", hint);
    return status;
}

/* ---- llm.c ---- */

static mpt_status check_llmc_size(const mpt_tokens *t) {
    int64_t size = (int64_t)t->map.size, bytes = mpt_token_type_bytes(t->type);
    if (size == MPT_LLMC_HEADER + t->n * bytes)
        return MPT_OK;
    mpt_status status = MPT_FAIL(t->ctx, MPT_DATA, t->where,
                                 "%s: the header counts %" PRId64 " tokens, which take %" PRId64
                                 " bytes, and the file has %" PRId64,
                                 t->path, t->n, MPT_LLMC_HEADER + t->n * bytes, size);
    mpt_hint(t->ctx, "it is cut off or damaged: make or fetch it again");
    return status;
}

static mpt_status open_llmc(mpt_tokens *t, uint32_t magic) {
    bool wide = magic == MPT_LLMC_MAGIC32;
    uint32_t wanted = wide ? MPT_LLMC_VERSION32 : MPT_LLMC_VERSION16;
    t->format = wide ? MPT_TOKENS_LLMC32 : MPT_TOKENS_LLMC;
    t->type = wide ? MPT_TOKEN_U32 : MPT_TOKEN_U16;
    if (t->map.size < MPT_LLMC_HEADER)
        return fail(t, "it is cut off: make or fetch it again",
                    "an llm.c shard whose header has fewer than 1024 bytes");
    uint32_t version = mpt_tokens_load32(t->map.data + 4);
    if (version != wanted) {
        mpt_status status =
            MPT_FAIL(t->ctx, MPT_DATA, t->where,
                     "%s: version %" PRIu32 " of an llm.c shard with magic %" PRIu32
                     ", which has version %" PRIu32,
                     t->path, version, magic, wanted);
        mpt_hint(t->ctx, "write it with llm.c's dev/data scripts, or with mptrun tokens");
        return status;
    }
    t->n = (int32_t)mpt_tokens_load32(t->map.data + 8);
    if (t->n < 0)
        return fail(t, "it is damaged: make or fetch it again",
                    "the header counts fewer than 0 tokens");
    MPT_TRY(check_llmc_size(t));
    t->data = t->n ? t->map.data + MPT_LLMC_HEADER : NULL;
    return MPT_OK;
}

/* A file of llm.c that holds something else. */
static mpt_status refuse_llmc(const mpt_tokens *t, const char *what) {
    mpt_status status =
        MPT_FAIL(t->ctx, MPT_DATA, t->where,
                 "%s: is %s of llm.c and holds no tokens to train on", t->path, what);
    mpt_hint(t->ctx, "name a token shard");
    return status;
}

/* ---- without a header ---- */

enum { TEXT_LEAST = 256, TEXT_MOST = 1 << 16 };

/* Bytes that follow a first byte of UTF-8, or -1. */
static int following(unsigned char c) {
    return c < 0x80                ? 0
           : c >= 0xC2 && c < 0xE0 ? 1
           : (c & 0xF0) == 0xE0    ? 2
           : c >= 0xF0 && c < 0xF5 ? 3
                                   : -1;
}

/* Whether a file that is said to be tokens is a text all the same: UTF-8 without a byte 0, over
 * more bytes than chance would give. */
static bool reads_as_text(const mpt_file_map *map) {
    size_t n = map->size < TEXT_MOST ? map->size : TEXT_MOST;
    int left = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = map->data[i];
        if (c == 0 || (left > 0) != ((c & 0xC0) == 0x80))
            return false;
        left = left > 0 ? left - 1 : following(c);
        if (left < 0)
            return false;
    }
    return n >= TEXT_LEAST;
}

/* More than one in a hundred of these is no text of any encoding of bytes: what is packed or
 * random has one in ten. */
enum { ZEROS_MOST = 1 << 20, CONTROL_SHARE = 100 };

static bool is_control(unsigned char c) {
    return c < 0x20 && !strchr("\t\n\v\f\r\b\033", c);
}

const char *mpt_tokens_doubt_text(const mpt_tokens *tokens, bool *out_ids) {
    size_t n = tokens->map.size, controls = 0;
    *out_ids = false;
    if (n == 0)
        return NULL;
    if (memchr(tokens->map.data, 0, n < ZEROS_MOST ? n : ZEROS_MOST)) {
        *out_ids = n % 2 == 0;
        return "has bytes that are 0";
    }
    n = n < TEXT_MOST ? n : TEXT_MOST;
    for (size_t i = 0; i < n; i++)
        controls += is_control(tokens->map.data[i]);
    return controls > n / CONTROL_SHARE ? "is full of control characters" : NULL;
}

static mpt_status open_nanogpt(mpt_tokens *t) {
    t->format = MPT_TOKENS_NANOGPT;
    t->type = MPT_TOKEN_U16;
    if (t->map.size % 2) {
        mpt_status status = MPT_FAIL(t->ctx, MPT_DATA, t->where,
                                     "%s: %zu bytes are no whole number of uint16 tokens",
                                     t->path, t->map.size);
        mpt_hint(t->ctx, "it is cut off, or no nanoGPT file: a text is data = text \"file\"");
        return status;
    }
    if (reads_as_text(&t->map))
        return fail(t,
                    "write data = text \"file\" to train on its bytes, or make tokens of it "
                    "with mptrun tokens",
                    "is text, and no token file");
    t->n = (int64_t)(t->map.size / 2);
    t->data = t->map.data;
    return MPT_OK;
}

static void take_bytes(mpt_tokens *t) {
    t->format = MPT_TOKENS_TEXT;
    t->type = MPT_TOKEN_U8;
    t->n = (int64_t)t->map.size;
    t->data = t->map.data;
}

static mpt_status open_headerless(mpt_tokens *t, mpt_token_format headerless) {
    if (mpt_is_safetensors(t->map.data, t->map.size))
        return fail(t, "a tensor of tokens is data = batches \"file\"",
                    "is a safetensors file, and no token file");
    if (headerless == MPT_TOKENS_NANOGPT)
        return open_nanogpt(t);
    take_bytes(t);
    return MPT_OK;
}

/* ---- the calls ---- */

static mpt_status open_file(mpt_tokens *t, const char *path, mpt_token_format headerless) {
    mpt_token_pair pair;
    const char *what = NULL;
    t->path = mpt_arena_strdup(&t->arena, path);
    if (!t->path || !mpt_token_pair_of(&t->arena, path, &pair))
        return MPT_OUT_OF_MEMORY;
    mpt_content content = mpt_content_of(path);
    if (content == MPT_CONTENT_TOKENS && !mpt_file_exists(path))
        return mpt_tokens_open_megatron(t, &pair);
    MPT_TRY(mpt_file_map_open(t->ctx, t->where, path, &t->map));
    uint32_t magic = mpt_llmc_magic(t->map.data, t->map.size, &what);
    if (magic == MPT_LLMC_MAGIC16 || magic == MPT_LLMC_MAGIC32)
        return open_llmc(t, magic);
    if (magic)
        return refuse_llmc(t, what);
    if (content != MPT_CONTENT_TOKENS)
        return open_headerless(t, headerless);
    if (mpt_is_megatron_index(t->map.data, t->map.size))
        pair.index = t->path; /* whatever it is called */
    mpt_file_map_close(&t->map);
    return mpt_tokens_open_megatron(t, &pair);
}

static mpt_status open_bytes(mpt_tokens *t, const char *path) {
    t->path = mpt_arena_strdup(&t->arena, path);
    if (!t->path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_file_map_open(t->ctx, t->where, path, &t->map));
    take_bytes(t);
    return MPT_OK;
}

static mpt_tokens *new_tokens(mpt_ctx *ctx, mpt_where where) {
    mpt_tokens *t = mpt_alloc(ctx, sizeof *t);
    if (!t) {
        (void)mpt_fail_memory(ctx, sizeof *t);
        return NULL;
    }
    t->ctx = ctx;
    t->where = where;
    t->largest = -1;
    mpt_arena_init(&t->arena, ctx);
    return t;
}

/* Hands over what was opened, or drops what was not. */
static mpt_status give(mpt_tokens *t, mpt_status status, mpt_tokens **out) {
    if (status == MPT_OK)
        *out = t;
    else
        mpt_tokens_close(t);
    return status;
}

mpt_status mpt_tokens_open(mpt_ctx *ctx, mpt_where where, const char *path,
                           mpt_token_format headerless, mpt_tokens **out) {
    *out = NULL;
    mpt_tokens *t = new_tokens(ctx, where);
    return t ? give(t, open_file(t, path, headerless), out) : MPT_OUT_OF_MEMORY;
}

mpt_status mpt_tokens_open_bytes(mpt_ctx *ctx, mpt_where where, const char *path,
                                 mpt_tokens **out) {
    *out = NULL;
    mpt_tokens *t = new_tokens(ctx, where);
    return t ? give(t, open_bytes(t, path), out) : MPT_OUT_OF_MEMORY;
}

void mpt_tokens_close(mpt_tokens *tokens) {
    if (!tokens)
        return;
    mpt_file_map_close(&tokens->map);
    mpt_file_map_close(&tokens->index);
    mpt_arena_deinit(&tokens->arena);
    mpt_free(tokens->ctx, tokens);
}
