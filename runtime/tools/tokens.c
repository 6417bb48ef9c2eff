/* Token files outside of training: described, and made from text or from one another.
 *
 * A file without a header is text, unless it has a byte 0 and a whole number of uint16, as
 * nanoGPT's files do; the caller may say which. */
#include "tools/tools.h"

#include <inttypes.h>
#include <string.h>

#include "io/tokens.h"
#include "plan/json.h"
#include "plan/text.h"

enum { PIECE = 1 << 16, SHOWN = 8 };

/* ---- what is read ---- */

static mpt_status format_by_word(mpt_ctx *ctx, const char *option, const char *word,
                                 mpt_token_format *out) {
    const char *names[MPT_TOKENS_FORMAT_COUNT];
    for (int f = 0; f < MPT_TOKENS_FORMAT_COUNT; f++) {
        names[f] = mpt_token_format_word((mpt_token_format)f);
        *out = (mpt_token_format)f;
        if (strcmp(names[f], word) == 0)
            return MPT_OK;
    }
    const char *near = mpt_nearest(word, names, MPT_TOKENS_FORMAT_COUNT);
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                                 "mpt_tokens_file: %s '%s' is "
                                 "no format of token files",
                                 option, word);
    mpt_hint(ctx, near ? "did you mean '%s'?" : "there are nanogpt, llmc, llmc32, megatron%s",
             near ? near : "");
    return status;
}

static mpt_status open_input(mpt_ctx *ctx, const char *in, const mpt_tokens_options *options,
                             mpt_tokens **out) {
    mpt_token_format headerless = MPT_TOKENS_TEXT;
    mpt_tokens *t;
    if (options->from)
        MPT_TRY(format_by_word(ctx, "options.from", options->from, &headerless));
    else if (mpt_content_looks_like_ids(in))
        headerless = MPT_TOKENS_NANOGPT;
    mpt_status status = mpt_tokens_open(ctx, MPT_NOWHERE, in, headerless, &t);
    if (status == MPT_NOT_FOUND && !*ctx->error.hint)
        mpt_hint(ctx, "name a file, or what the two names of Megatron's pair start with");
    MPT_TRY(status);
    status = mpt_tokens_check(t, options->vocab);
    if (status == MPT_OK)
        *out = t;
    else
        mpt_tokens_close(t);
    return status;
}

/* ---- what is written ---- */

/* Megatron's sequences and documents, where the input has them. */
static mpt_status copy_documents(const mpt_tokens *t, mpt_arena *arena, mpt_token_spec *spec) {
    size_t s = (size_t)t->n_sequences, d = (size_t)t->n_documents + 1;
    if (t->format != MPT_TOKENS_MEGATRON || s == 0)
        return MPT_OK;
    int32_t *lengths = mpt_arena_alloc(arena, mpt_size_mul(s, sizeof *lengths));
    int64_t *boundaries = mpt_arena_alloc(arena, mpt_size_mul(d, sizeof *boundaries));
    if (!lengths || !boundaries)
        return MPT_OUT_OF_MEMORY;
    memcpy(lengths, t->lengths, s * sizeof *lengths);
    memcpy(boundaries, t->boundaries, d * sizeof *boundaries);
    spec->n_sequences = t->n_sequences;
    spec->n_documents = t->n_documents;
    spec->lengths = lengths;
    spec->boundaries = boundaries;
    return MPT_OK;
}

static mpt_status copy_ids(const mpt_tokens *t, int32_t *piece, mpt_token_writer *w) {
    for (int64_t at = 0; at < t->n; at += PIECE) {
        int64_t n = t->n - at < PIECE ? t->n - at : PIECE;
        mpt_tokens_read(t, at, n, piece);
        MPT_TRY(mpt_tokens_put(w, at, n, piece));
    }
    return MPT_OK;
}

static mpt_status write_output(const mpt_tokens *t, const char *out,
                               const mpt_token_spec *spec) {
    mpt_token_writer *w;
    int32_t *piece = mpt_alloc(t->ctx, PIECE * sizeof *piece);
    if (!piece)
        return mpt_fail_memory(t->ctx, PIECE * sizeof *piece);
    mpt_status status = mpt_tokens_create(t->ctx, out, spec, &w);
    if (status == MPT_OK) {
        status = copy_ids(t, piece, w);
        if (status == MPT_OK)
            status = mpt_tokens_commit(w);
        else
            mpt_tokens_abandon(w);
    }
    mpt_free(t->ctx, piece);
    return status;
}

/* The input may be read while the output takes its place, but hardly anybody means it. */
static mpt_status refuse_same(const mpt_tokens *t, const char *out) {
    mpt_status status =
        MPT_FAIL(t->ctx, MPT_INVALID, MPT_NOWHERE, "%s: the output is the input", out);
    mpt_hint(t->ctx, "name another output");
    return status;
}

static mpt_status convert(const mpt_tokens *t, const char *out,
                          const mpt_tokens_options *options) {
    mpt_arena arena;
    mpt_token_spec spec = {.format = MPT_TOKENS_LLMC, .n = t->n};
    if (options->format)
        MPT_TRY(format_by_word(t->ctx, "options.format", options->format, &spec.format));
    if (mpt_file_same(t->path, out))
        return refuse_same(t, out);
    spec.vocab = options->vocab > 0 ? options->vocab : t->largest < 0 ? 1 : t->largest + 1;
    mpt_arena_init(&arena, t->ctx);
    mpt_status status = copy_documents(t, &arena, &spec);
    if (status == MPT_OK)
        status = write_output(t, out, &spec);
    mpt_arena_deinit(&arena);
    return status;
}

/* ---- what is said of a file ---- */

static void print_text(const mpt_tokens *t, mpt_str *out) {
    mpt_words line = {.len = 0};
    int32_t ids[SHOWN];
    int64_t shown = t->n < SHOWN ? t->n : SHOWN;
    mpt_words_count(&line, t->n);
    mpt_str_printf(out, "%s: %s, %s %s tokens", t->path, mpt_token_format_name(t->format),
                   line.data, mpt_token_type_name(t->type));
    if (t->format == MPT_TOKENS_MEGATRON)
        mpt_str_printf(out, " in %" PRId64 " document%s", t->n_documents,
                       t->n_documents == 1 ? "" : "s");
    if (t->n == 0) {
        mpt_str_printf(out, "\n");
        return;
    }
    mpt_str_printf(out, "\nids    up to %" PRId64 "\nfirst ", t->largest);
    mpt_tokens_read(t, 0, shown, ids);
    for (int64_t i = 0; i < shown; i++)
        mpt_str_printf(out, " %" PRId32, ids[i]);
    mpt_str_printf(out, "%s\n", shown < t->n ? " ..." : "");
}

static mpt_status print_json(const mpt_tokens *t, mpt_str *out) {
    int32_t ids[SHOWN];
    int64_t shown = t->n < SHOWN ? t->n : SHOWN;
    json_t *first = json_array();
    int failed = 0;
    mpt_tokens_read(t, 0, shown, ids);
    for (int64_t i = 0; i < shown; i++)
        failed |= json_array_append_new(first, json_integer(ids[i]));
    json_t *largest = t->n ? json_integer(t->largest) : json_null();
    json_t *documents =
        t->format == MPT_TOKENS_MEGATRON ? json_integer(t->n_documents) : json_null();
    json_t *all = json_pack("{s:o, s:s, s:s, s:I, s:o, s:o, s:o}", "file",
                            mpt_json_text(t->path), "format", mpt_token_format_word(t->format),
                            "type", mpt_token_type_name(t->type), "tokens", (json_int_t)t->n,
                            "largest", largest, "documents", documents, "first", first);
    if (failed) {
        json_decref(all);
        all = NULL;
    }
    return mpt_json_print(t->ctx, all, out);
}

static mpt_status print(const mpt_tokens *t, bool json, mpt_write_fn write, void *ud) {
    mpt_str out;
    mpt_status status = MPT_OK;
    mpt_str_init(&out, t->ctx);
    if (json)
        status = print_json(t, &out);
    else
        print_text(t, &out);
    if (status == MPT_OK && out.failed)
        status = mpt_fail_memory(t->ctx, out.cap);
    if (status == MPT_OK && !write(ud, out.data, out.len))
        status = MPT_FAIL(t->ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
    mpt_str_deinit(&out);
    return status;
}

/* ---- the call ---- */

/* Says what was written by reading it: the file is what counts. */
static mpt_status print_output(mpt_ctx *ctx, const char *out, const mpt_tokens_options *options,
                               mpt_write_fn write, void *ud) {
    mpt_tokens *t;
    MPT_TRY(mpt_tokens_open(ctx, MPT_NOWHERE, out, MPT_TOKENS_NANOGPT, &t));
    mpt_status status = mpt_tokens_check(t, 0);
    if (status == MPT_OK)
        status = print(t, options->json, write, ud);
    mpt_tokens_close(t);
    return status;
}

mpt_status mpt_tokens_file(mpt_ctx *ctx, const char *in, const char *out,
                           const mpt_tokens_options *options, mpt_write_fn write, void *ud) {
    mpt_tokens_options o = MPT_TOKENS_OPTIONS_INIT;
    mpt_tokens *t;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, in);
    MPT_REQUIRE(ctx, write);
    MPT_TRY(mpt_options_read(ctx, __func__, options, &o, sizeof o));
    if (o.vocab < 0 || o.vocab > INT32_MAX)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_tokens_file: options.vocab is no number of words");
    MPT_TRY(open_input(ctx, in, &o, &t));
    mpt_status status = out ? convert(t, out, &o) : print(t, o.json, write, ud);
    mpt_tokens_close(t);
    return status == MPT_OK && out ? print_output(ctx, out, &o, write, ud) : status;
}
