/* Batches that somebody else cut: the tensor `tokens` of a safetensors file, int32
 * [micro-batches, batch, sequence + 1].
 *
 * Training takes its rows in order, so that another trainer's run can be followed step by step:
 * all of them are an epoch. The rows that a run leaves over are its validation. */
#include "train/data_windows.h"

#include <math.h>

#include "io/safetensors.h"
#include "io/tokens.h"

typedef struct batches {
    mpt_safetensors *file;
    mpt_tokens ids;  /* a view of the tensor, for the calls of io/tokens.h */
    int64_t rows;    /* in all */
    int64_t length;  /* of a row: a sequence and its last target */
    int64_t trained; /* rows that the run takes, from the first on */
} batches;

static mpt_status settle(mpt_data *data) {
    batches *b = data->self;
    mpt_status status;
    if (b->rows == 0)
        return MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: holds no batch", b->ids.path);
    if (b->length != data->sequence + 1) {
        status = MPT_FAIL(data->ctx, MPT_DATA, data->where,
                          "%s: its rows have %lld tokens and a last target, and "
                          "train.sequence is %lld",
                          b->ids.path, (long long)(b->length - 1), (long long)data->sequence);
        mpt_hint(data->ctx, "set train.sequence to %lld", (long long)(b->length - 1));
        return status;
    }
    data->epochs.windows = b->rows;
    b->trained = data->steps <= b->rows / data->epochs.batch ? data->steps * data->epochs.batch
                                                             : b->rows;
    return MPT_OK;
}

static void copy_row(const batches *b, int64_t row, int32_t *tokens, int32_t *targets) {
    mpt_tokens_read(&b->ids, row * b->length, b->length - 1, tokens);
    mpt_tokens_read(&b->ids, row * b->length + 1, b->length - 1, targets);
}

static void at(const mpt_data *data, uint64_t seed, int64_t epoch, int64_t index,
               int32_t *tokens, int32_t *targets) {
    (void)seed;
    (void)epoch;
    copy_row(data->self, index, tokens, targets);
}

static int64_t n_windows(const mpt_data *data) {
    const batches *b = data->self;
    int64_t left = b->rows - b->trained;
    return left < MPT_DATA_MAX_WINDOWS ? left : MPT_DATA_MAX_WINDOWS;
}

static void window(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets) {
    const batches *b = data->self;
    copy_row(b, b->trained + window, tokens, targets);
}

static void describe(const mpt_data *data, mpt_str *out) {
    const batches *b = data->self;
    mpt_str_printf(out,
                   b->rows > b->trained ? "; validation on the %lld rows left over"
                                        : "; nothing left over for validation",
                   (long long)(b->rows - b->trained));
}

static void close_batches(mpt_data *data) {
    batches *b = data->self;
    mpt_safetensors_close(b->file);
}

static const mpt_data_ops batches_ops = {.settle = settle,
                                         .at = at,
                                         .n_windows = n_windows,
                                         .window = window,
                                         .describe = describe,
                                         .close = close_batches};

static mpt_status refuse(const mpt_data *data, const char *path, const char *fault) {
    mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: %s", path, fault);
    mpt_hint(data->ctx, "batches are a tensor 'tokens', I32 [micro-batches, batch, "
                        "sequence + 1]");
    return status;
}

static mpt_status read_tensor(mpt_data *data, batches *b, const char *path) {
    const mpt_stored_tensor *t = mpt_safetensors_find(b->file, "tokens");
    if (!t)
        return refuse(data, path, "has no tensor 'tokens'");
    if (t->type != MPT_TENSOR_I32)
        return refuse(data, path, "its tensor 'tokens' is no I32");
    if (t->rank != 3)
        return refuse(data, path, "its tensor 'tokens' has not three dimensions");
    if (t->elements && t->dims[2] < 2)
        return refuse(data, path, "its rows have no target");
    b->ids = (mpt_tokens){.ctx = data->ctx,
                          .where = data->where,
                          .type = MPT_TOKEN_I32,
                          .path = t->file,
                          .n = t->elements,
                          .data = t->data,
                          .largest = -1};
    b->rows = t->elements ? t->dims[0] * t->dims[1] : 0;
    b->length = t->dims[2];
    b->trained = b->rows;
    return MPT_OK;
}

mpt_status mpt_data_open_batches(mpt_data *data, const char *path, int64_t vocab) {
    char count[32];
    batches *b = mpt_arena_alloc(&data->arena, sizeof *b);
    if (!b)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_safetensors_open(data->ctx, path, &b->file));
    data->self = b;
    data->ops = &batches_ops;
    data->order = MPT_ORDER_SEQUENTIAL;
    MPT_TRY(read_tensor(data, b, path));
    MPT_TRY(mpt_tokens_check(&b->ids, vocab));
    mpt_data_state_vocab(data, &b->ids, vocab);
    mpt_data_take_sum(data, &b->ids, false);
    mpt_windows_commas(b->rows, count);
    data->description = mpt_arena_printf(&data->arena, "batches of %s, %s rows of %lld tokens",
                                         b->ids.path, count, (long long)(b->length - 1));
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}
