/* Bytes of a file as tokens: vocabulary 256, no tokenizer, any content.
 *
 * The file is mapped, not read; data_windows.c cuts it. */
#include "train/data_windows.h"

#include <math.h>

#include "io/file.h"

enum { BYTE_VALUES = 256, COUNTED_BYTES = 16 * 1024 * 1024 };

typedef struct text {
    mpt_file_map map;
    mpt_windows windows;
} text;

static mpt_status check(const mpt_data *data, int64_t sequence) {
    const text *t = data->self;
    return mpt_windows_check(data, &t->windows, sequence);
}

static void copy_window(const text *t, int64_t at, int64_t sequence, int32_t *tokens,
                        int32_t *targets) {
    const unsigned char *bytes = t->map.data + at;
    for (int64_t i = 0; i < sequence; i++) {
        tokens[i] = bytes[i];
        targets[i] = bytes[i + 1];
    }
}

static void train(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                  int64_t sequence, int32_t *tokens, int32_t *targets) {
    const text *t = data->self;
    copy_window(t, mpt_windows_train(&t->windows, seed, step, row, sequence), sequence, tokens,
                targets);
}

static int64_t n_windows(const mpt_data *data, int64_t sequence) {
    const text *t = data->self;
    return mpt_windows_count(&t->windows, sequence);
}

static void window(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                   int32_t *targets) {
    const text *t = data->self;
    copy_window(t, mpt_windows_start(&t->windows, window, sequence), sequence, tokens, targets);
}

static void close_text(mpt_data *data) {
    text *t = data->self;
    mpt_file_map_close(&t->map);
}

static const mpt_data_ops text_ops = {.check = check,
                                      .train = train,
                                      .n_windows = n_windows,
                                      .window = window,
                                      .close = close_text};

/* Of the training part, or of its beginning where the file is large: the figure moves in the
 * third digit at most, and opening stays quick. */
static double unigram_entropy(const text *t) {
    int64_t count[BYTE_VALUES] = {0};
    int64_t n = t->windows.n - mpt_windows_validation(&t->windows);
    n = n < COUNTED_BYTES ? n : COUNTED_BYTES;
    for (int64_t i = 0; i < n; i++)
        count[t->map.data[i]]++;
    return mpt_windows_entropy(count, BYTE_VALUES, n);
}

mpt_status mpt_data_open_text(mpt_data *data, const char *path) {
    char count[32];
    text *t = mpt_arena_alloc(&data->arena, sizeof *t);
    if (!t)
        return MPT_OUT_OF_MEMORY;
    t->windows.path = mpt_arena_strdup(&data->arena, path);
    if (!t->windows.path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_file_map_open(data->ctx, data->where, path, &t->map));
    data->self = t;
    data->ops = &text_ops;
    if (t->map.size == 0) {
        mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: is empty", path);
        mpt_hint(data->ctx, "name a file of text");
        return status;
    }
    t->windows.n = (int64_t)t->map.size;
    data->vocab = BYTE_VALUES;
    data->unigram = unigram_entropy(t);
    mpt_windows_commas(t->windows.n, count);
    data->description = mpt_arena_printf(&data->arena, "bytes of %s, %s tokens", path, count);
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}
