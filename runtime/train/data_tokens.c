/* Ids of a token file: nanoGPT, llm.c, Megatron.
 *
 * All ids are checked when the file is opened, so that a step need not ask; data_windows.c cuts
 * the row they make, across documents as their own trainers do. */
#include "train/data_windows.h"

#include <math.h>

#include "io/tokens.h"

/* The unigram entropy is counted over the first ids, where a table for it is small. */
enum { COUNTED = 16 * 1024 * 1024, COUNTED_WORDS = 1 << 20, PIECE = 4096 };

typedef struct source {
    mpt_tokens *tokens;
    mpt_windows windows;
} source;

static mpt_status check(const mpt_data *data, int64_t sequence) {
    const source *s = data->self;
    return mpt_windows_check(data, &s->windows, sequence);
}

static void copy_window(const source *s, int64_t at, int64_t sequence, int32_t *tokens,
                        int32_t *targets) {
    mpt_tokens_read(s->tokens, at, sequence, tokens);
    mpt_tokens_read(s->tokens, at + 1, sequence, targets);
}

static void train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                  int64_t sequence, int32_t *tokens, int32_t *targets) {
    const source *s = data->self;
    copy_window(s, mpt_windows_train(&s->windows, seed, step, row, sequence), sequence, tokens,
                targets);
}

static int64_t n_windows(const mpt_data *data, int64_t sequence) {
    const source *s = data->self;
    return mpt_windows_count(&s->windows, sequence);
}

static void window(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                   int32_t *targets) {
    const source *s = data->self;
    copy_window(s, mpt_windows_start(&s->windows, window, sequence), sequence, tokens, targets);
}

static void close_tokens(mpt_data *data) {
    source *s = data->self;
    mpt_tokens_close(s->tokens);
}

static const mpt_data_ops tokens_ops = {.check = check,
                                        .train = train,
                                        .n_windows = n_windows,
                                        .window = window,
                                        .close = close_tokens};

/* Of the training part's beginning; NAN where there is none, or too many words to count. */
static mpt_status count_words(mpt_data *data, const source *s) {
    int64_t words = s->tokens->largest + 1;
    int64_t n = s->windows.n - mpt_windows_validation(&s->windows);
    int32_t piece[PIECE];
    n = n < COUNTED ? n : COUNTED;
    if (n < 1 || words > COUNTED_WORDS)
        return MPT_OK;
    int64_t *count = mpt_alloc(data->ctx, (size_t)words * sizeof *count);
    if (!count)
        return mpt_fail_memory(data->ctx, (size_t)words * sizeof *count);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t k = n - at < PIECE ? n - at : PIECE;
        mpt_tokens_read(s->tokens, at, k, piece);
        for (int64_t i = 0; i < k; i++)
            count[piece[i]]++;
    }
    data->unigram = mpt_windows_entropy(count, words, n);
    mpt_free(data->ctx, count);
    return MPT_OK;
}

/* "1,000 uint16 tokens of shard.bin (llm.c), ids up to 50,256" */
static mpt_status describe(mpt_data *data, const source *s) {
    const mpt_tokens *t = s->tokens;
    char count[32], largest[32];
    mpt_windows_commas(t->n, count);
    mpt_windows_commas(t->largest, largest);
    data->description = mpt_arena_printf(&data->arena, "%s %s tokens of %s (%s), %s%s", count,
                                         mpt_token_type_name(t->type), t->path,
                                         mpt_token_format_name(t->format),
                                         t->n ? "ids up to " : "none", t->n ? largest : "");
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}

void mpt_data_state_vocab(mpt_data *data, const mpt_tokens *tokens, int64_t vocab) {
    int64_t least = tokens->largest < 0 ? 1 : tokens->largest + 1;
    data->vocab = (int32_t)(vocab > 0 ? vocab : least);
    data->unstated = vocab > 0 ? NULL : tokens->path;
    data->id_limit = mpt_token_type_largest(tokens->type);
}

mpt_status mpt_data_open_tokens(mpt_data *data, const char *path, int64_t vocab) {
    source *s = mpt_arena_alloc(&data->arena, sizeof *s);
    if (!s)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_tokens_open(data->ctx, data->where, path, MPT_TOKENS_NANOGPT, &s->tokens));
    data->self = s;
    data->ops = &tokens_ops;
    s->windows = (mpt_windows){s->tokens->path, s->tokens->n};
    MPT_TRY(mpt_tokens_check(s->tokens, vocab));
    mpt_data_state_vocab(data, s->tokens, vocab);
    MPT_TRY(count_words(data, s));
    return describe(data, s);
}
