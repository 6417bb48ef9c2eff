/* Files of text or ids as one corpus: bytes of any files, or nanoGPT's, llm.c's and Megatron's
 * tokens, of several formats at once where the ids fit.
 *
 * All files are mapped and all ids checked when they are opened, so that a step need not ask;
 * data_windows.c cuts them, across documents as their own trainers do. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/data_windows.h"

/* The unigram entropy is counted over the first ids, where a table for it is small: the figure
 * moves in the third digit at most, and opening stays quick. */
enum { COUNTED = 16 * 1024 * 1024, COUNTED_WORDS = 1 << 20, PIECE = 4096 };

/* ---- the calls ---- */

static mpt_status settle(mpt_data *data) {
    mpt_windows *w = data->self;
    MPT_TRY(mpt_windows_settle(w, data, data->sequence));
    data->epochs.windows = mpt_windows_in_epoch(w);
    return MPT_OK;
}

static void copy_window(const mpt_data *data, mpt_window window, int32_t *tokens,
                        int32_t *targets) {
    mpt_tokens_read(window.shard->tokens, window.at, data->sequence, tokens);
    mpt_tokens_read(window.shard->tokens, window.at + 1, data->sequence, targets);
}

static void draw(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                 int32_t *tokens, int32_t *targets) {
    copy_window(data, mpt_windows_draw(data->self, seed, step, row), tokens, targets);
}

static void at(const mpt_data *data, uint64_t seed, int64_t epoch, int64_t index,
               int32_t *tokens, int32_t *targets) {
    copy_window(data, mpt_windows_at(data->self, seed, epoch, index), tokens, targets);
}

static int64_t n_windows(const mpt_data *data) {
    return mpt_windows_n_held(data->self);
}

static void window(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets) {
    copy_window(data, mpt_windows_held(data->self, window), tokens, targets);
}

static void describe(const mpt_data *data, mpt_str *out) {
    const mpt_windows *w = data->self;
    char count[32];
    int64_t n = 0;
    for (int i = 0; i < w->n_shards; i++)
        n += w->shards[i].held;
    mpt_windows_commas(n, count);
    if (n == 0)
        mpt_str_printf(out, "; nothing held back for validation");
    else if (w->validation.path)
        mpt_str_printf(out, "; validation on %s, %s windows", w->validation.path, count);
    else
        mpt_str_printf(out, "; validation on the last %g %% of %s, %s windows",
                       100 * w->validation.share, w->n_shards > 1 ? "each file" : "it", count);
}

static void close_corpus(mpt_data *data) {
    mpt_windows *w = data->self;
    for (int i = 0; i < w->n_shards; i++)
        mpt_tokens_close(w->shards[i].tokens);
}

static const mpt_data_ops corpus_ops = {.settle = settle,
                                        .draw = draw,
                                        .at = at,
                                        .n_windows = n_windows,
                                        .window = window,
                                        .describe = describe,
                                        .close = close_corpus};

/* ---- words ---- */

/* Adds what is counted at the beginning of a shard, as if all of its training part were like
 * it. */
static void count_shard(const mpt_windows *w, const mpt_shard *shard, int64_t most,
                        double *count) {
    int32_t piece[PIECE];
    int64_t all = mpt_windows_training(w, shard), n = all < most ? all : most;
    double each = n > 0 ? shard->weight * (double)all / (double)n : 0;
    for (int64_t first = 0; first < n; first += PIECE) {
        int64_t k = n - first < PIECE ? n - first : PIECE;
        mpt_tokens_read(shard->tokens, first, k, piece);
        for (int64_t i = 0; i < k; i++)
            count[piece[i]] += each;
    }
}

static double entropy_of(const double *count, int64_t words) {
    double h = 0, n = 0;
    for (int64_t w = 0; w < words; w++)
        n += count[w];
    for (int64_t w = 0; w < words; w++)
        if (count[w] > 0)
            h -= count[w] / n * log(count[w] / n);
    return n > 0 ? h : NAN;
}

static int64_t largest_of(const mpt_windows *w) {
    int64_t largest = -1;
    for (int i = 0; i < w->n_shards; i++)
        if (w->shards[i].tokens->largest > largest)
            largest = w->shards[i].tokens->largest;
    return largest;
}

/* Of the training part; NAN where there is none, or too many words to count. */
static mpt_status count_words(mpt_data *data, const mpt_windows *w) {
    int64_t words = largest_of(w) + 1;
    if (words < 1 || words > COUNTED_WORDS)
        return MPT_OK;
    double *count = mpt_alloc(data->ctx, (size_t)words * sizeof *count);
    if (!count)
        return mpt_fail_memory(data->ctx, (size_t)words * sizeof *count);
    for (int i = 0; i < w->n_shards; i++)
        if (!w->shards[i].held_out)
            count_shard(w, &w->shards[i], COUNTED / w->n_shards + 1, count);
    data->unigram = entropy_of(count, words);
    mpt_free(data->ctx, count);
    return MPT_OK;
}

/* ---- opening ---- */

/* Another mapping of the same tokens would only be counted twice. */
static mpt_status check_new(const mpt_data *data, const mpt_windows *w, const mpt_tokens *t,
                            bool held_out) {
    for (int i = 0; i < w->n_shards; i++) {
        const char *other = w->shards[i].tokens->path;
        if (strcmp(other, t->path) != 0 && !mpt_file_same(other, t->path))
            continue;
        mpt_status status =
            MPT_FAIL(data->ctx, MPT_DATA, t->where, "%s: is among the files already", t->path);
        mpt_hint(data->ctx, held_out ? "validation wants tokens that training does not read"
                                     : "give it a weight to take it more often: { path = ..., "
                                       "weight = 2 }");
        return status;
    }
    return MPT_OK;
}

static mpt_status fail_empty(const mpt_data *data, mpt_tokens *t) {
    mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, t->where, "%s: is empty", t->path);
    mpt_hint(data->ctx, "name a file of text");
    mpt_tokens_close(t);
    return status;
}

static mpt_status open_file(const mpt_data *data, const mpt_corpus_spec *spec, mpt_where where,
                            const char *path, mpt_tokens **out) {
    if (spec->kind == MPT_DATA_TOKENS)
        return mpt_tokens_open(data->ctx, where, path, MPT_TOKENS_NANOGPT, out);
    MPT_TRY(mpt_tokens_open_bytes(data->ctx, where, path, out));
    return (*out)->n > 0 ? MPT_OK : fail_empty(data, *out);
}

/* One doubt is enough: of the first file. */
static mpt_status doubt_text(mpt_data *data, const mpt_tokens *t) {
    bool ids;
    const char *why = mpt_tokens_doubt_text(t, &ids);
    if (!why || data->doubt)
        return MPT_OK;
    data->doubt = mpt_arena_printf(
        &data->arena, "%s: is read as text, byte by byte, and %s; %s", t->path, why,
        ids ? "nanoGPT's tokens are data = tokens { path = ..., vocab = n }, or beside --data "
              "--set data.vocab=n"
            : "a file that is packed or encoded is unpacked first");
    return data->doubt ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status add_shard(mpt_data *data, const mpt_corpus_spec *spec, const char *path,
                            const mpt_data_file *file, bool held_out) {
    mpt_windows *w = data->self;
    mpt_tokens *t;
    mpt_where where = file->where.file ? file->where : data->where;
    mpt_shard *grown =
        mpt_arena_grow(&data->arena, w->shards, sizeof *grown, w->n_shards, &w->cap_shards);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    w->shards = grown;
    mpt_status status = open_file(data, spec, where, path, &t);
    if (status == MPT_NOT_FOUND)
        mpt_data_hint_missing(data, path);
    if (status != MPT_OK)
        return status;
    if (w->n_shards > 0)
        status = check_new(data, w, t, held_out);
    grown[w->n_shards++] = (mpt_shard){t, file->weight, held_out, 0, 0, 0};
    MPT_TRY(status);
    MPT_TRY(mpt_tokens_check(t, spec->words));
    mpt_data_state_vocab(data, t, spec->words);
    mpt_data_take_sum(data, t, held_out);
    if (spec->kind == MPT_DATA_TEXT)
        MPT_TRY(doubt_text(data, t));
    return MPT_OK;
}

static mpt_status add_files(mpt_data *data, const mpt_corpus_spec *spec,
                            const mpt_data_file *file, bool held_out) {
    mpt_paths paths;
    mpt_where where = file->where.file ? file->where : data->where;
    MPT_TRY(mpt_data_find(data, where, file->path, spec->recipe_file, &paths));
    for (int i = 0; i < paths.n; i++)
        MPT_TRY(add_shard(data, spec, paths.path[i], file, held_out));
    return MPT_OK;
}

/* "1,000 uint16 tokens of shard.bin (llm.c), ids up to 50,256", or "bytes of 3 files, 1,000
 * tokens: a.txt to c.txt" */
static mpt_status say_what(mpt_data *data, const mpt_windows *w, int n, mpt_data_kind kind) {
    const mpt_tokens *t = w->shards[0].tokens, *last = w->shards[n - 1].tokens;
    char count[32], largest[32], files[64] = "";
    int64_t tokens = 0;
    for (int i = 0; i < n; i++)
        tokens += w->shards[i].tokens->n;
    mpt_windows_commas(tokens, count);
    mpt_windows_commas(largest_of(w), largest);
    snprintf(files, sizeof files, "%d files", n);
    if (kind == MPT_DATA_TEXT && n == 1)
        data->description =
            mpt_arena_printf(&data->arena, "bytes of %s, %s tokens", t->path, count);
    else if (kind == MPT_DATA_TEXT)
        data->description = mpt_arena_printf(&data->arena, "bytes of %s, %s to %s, %s tokens",
                                             files, t->path, last->path, count);
    else if (n == 1)
        data->description = mpt_arena_printf(&data->arena, "%s %s tokens of %s (%s), %s%s",
                                             count, mpt_token_type_name(t->type), t->path,
                                             mpt_token_format_name(t->format),
                                             t->n ? "ids up to " : "none", t->n ? largest : "");
    else
        data->description =
            mpt_arena_printf(&data->arena, "%s tokens of %s, %s to %s, ids up to %s", count,
                             files, t->path, last->path, largest);
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status make_sums(mpt_data *data, mpt_windows *w) {
    size_t n = (size_t)w->n_shards;
    w->draws = mpt_arena_alloc(&data->arena, mpt_size_mul(3 * n, sizeof *w->draws));
    if (!w->draws)
        return MPT_OUT_OF_MEMORY;
    w->slots = w->draws + n;
    w->helds = w->slots + n;
    return MPT_OK;
}

mpt_status mpt_data_open_corpus(mpt_data *data, const mpt_corpus_spec *spec) {
    mpt_windows *w = mpt_arena_alloc(&data->arena, sizeof *w);
    if (!w)
        return MPT_OUT_OF_MEMORY;
    data->self = w;
    data->ops = &corpus_ops;
    data->order = spec->order;
    w->order = spec->order;
    w->validation = spec->validation;
    w->validation_said = spec->validation_said;
    for (int i = 0; i < spec->n_files; i++)
        MPT_TRY(add_files(data, spec, &spec->files[i], false));
    int n = w->n_shards;
    mpt_data_file held = {.path = spec->validation.path, .weight = 1};
    if (held.path)
        MPT_TRY(add_files(data, spec, &held, true));
    w->validation.path = held.path ? mpt_arena_strdup(&data->arena, held.path) : NULL;
    if (held.path && !w->validation.path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(make_sums(data, w));
    MPT_TRY(count_words(data, w));
    return say_what(data, w, n, spec->kind);
}
