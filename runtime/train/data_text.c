/* Bytes of a file as tokens: vocabulary 256, no tokenizer, any content.
 *
 * The file is mapped, not read. Its last tenth is validation: windows spread evenly over it
 * that share no target. Training windows start anywhere in the rest. */
#include "train/data_source.h"

#include <math.h>
#include <stdio.h>

#include "io/file.h"
#include "train/random.h"

enum { BYTE_VALUES = 256, COUNTED_BYTES = 16 * 1024 * 1024 };

typedef struct text {
    mpt_file_map map;
    const char *path;
    int64_t n;          /* tokens in all */
    int64_t n_validate; /* of them at the end */
} text;

/* A tenth too short for one window is of no use to validation: then training has it all. */
static int64_t validation_tokens(const text *t, int64_t sequence) {
    return t->n_validate > sequence ? t->n_validate : 0;
}

static mpt_status check(const mpt_data *data, int64_t sequence) {
    const text *t = data->self;
    if (t->n - validation_tokens(t, sequence) > sequence)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: needs %lld tokens, has %lld", t->path,
                 (long long)(sequence + 1), (long long)t->n);
    mpt_hint(data->ctx, "use a longer file, or lower train.sequence");
    return status;
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
    int64_t starts = t->n - validation_tokens(t, sequence) - sequence;
    uint32_t r[4];
    mpt_random4(seed, MPT_STREAM_TRAIN, (uint64_t)step, (uint32_t)row, 0, r);
    uint64_t bits = (uint64_t)r[1] << 32 | r[0];
    copy_window(t, (int64_t)mpt_random_below(bits, (uint64_t)starts), sequence, tokens,
                targets);
}

static int64_t windows_in_all(const text *t, int64_t sequence) {
    int64_t n = validation_tokens(t, sequence);
    return n ? (n - 1) / sequence : 0;
}

static int64_t n_windows(const mpt_data *data, int64_t sequence) {
    int64_t all = windows_in_all(data->self, sequence);
    return all < MPT_DATA_MAX_WINDOWS ? all : MPT_DATA_MAX_WINDOWS;
}

static void window(const mpt_data *data, int64_t window, int64_t sequence, int32_t *tokens,
                   int32_t *targets) {
    const text *t = data->self;
    int64_t at = window * windows_in_all(t, sequence) / n_windows(data, sequence);
    copy_window(t, t->n - t->n_validate + at * sequence, sequence, tokens, targets);
}

static void close_text(mpt_data *data) {
    text *t = data->self;
    mpt_file_map_close(&t->map);
}

static const mpt_data_ops text_ops = {check, train, n_windows, window, close_text};

/* Of the training part, or of its beginning where the file is large: the figure moves in the
 * third digit at most, and opening stays quick. */
static double unigram_entropy(const text *t) {
    int64_t count[BYTE_VALUES] = {0}, n = t->n - t->n_validate;
    n = n < COUNTED_BYTES ? n : COUNTED_BYTES;
    for (int64_t i = 0; i < n; i++)
        count[t->map.data[i]]++;
    double h = 0;
    for (int b = 0; b < BYTE_VALUES; b++)
        if (count[b])
            h -= (double)count[b] / (double)n * log((double)count[b] / (double)n);
    return h;
}

/* "168,894" */
static void with_commas(int64_t n, char out[32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
}

mpt_status mpt_data_open_text(mpt_data *data, const char *path) {
    char count[32];
    text *t = mpt_arena_alloc(&data->arena, sizeof *t);
    if (!t)
        return MPT_OUT_OF_MEMORY;
    t->path = mpt_arena_strdup(&data->arena, path);
    if (!t->path)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_file_map_open(data->ctx, data->where, path, &t->map));
    data->self = t;
    data->ops = &text_ops;
    if (t->map.size == 0) {
        mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: is empty", path);
        mpt_hint(data->ctx, "name a file of text");
        return status;
    }
    t->n = (int64_t)t->map.size;
    t->n_validate = t->n / 10;
    data->vocab = BYTE_VALUES;
    data->unigram = unigram_entropy(t);
    with_commas(t->n, count);
    data->description = mpt_arena_printf(&data->arena, "bytes of %s, %s tokens", path, count);
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}
