/* Windows over a row of tokens: see data_windows.h. */
#include "train/data_windows.h"

#include <math.h>
#include <stdio.h>

#include "train/random.h"

int64_t mpt_windows_validation(const mpt_windows *w) {
    return w->n / 10;
}

/* A tenth too short for one window is of no use to validation: then training has it all. */
static int64_t validation_tokens(const mpt_windows *w, int64_t sequence) {
    int64_t n = mpt_windows_validation(w);
    return n > sequence ? n : 0;
}

mpt_status mpt_windows_check(const mpt_data *data, const mpt_windows *w, int64_t sequence) {
    if (w->n - validation_tokens(w, sequence) > sequence)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(data->ctx, MPT_DATA, data->where, "%s: needs %lld tokens, has %lld", w->path,
                 (long long)(sequence + 1), (long long)w->n);
    mpt_hint(data->ctx, "use a longer file, or lower train.sequence");
    return status;
}

int64_t mpt_windows_train(const mpt_windows *w, uint64_t seed, int64_t step, int64_t row,
                          int64_t sequence) {
    int64_t starts = w->n - validation_tokens(w, sequence) - sequence;
    uint32_t r[4];
    mpt_random4(seed, MPT_STREAM_TRAIN, (uint64_t)step, (uint32_t)row, 0, r);
    uint64_t bits = (uint64_t)r[1] << 32 | r[0];
    return (int64_t)mpt_random_below(bits, (uint64_t)starts);
}

static int64_t windows_in_all(const mpt_windows *w, int64_t sequence) {
    int64_t n = validation_tokens(w, sequence);
    return n ? (n - 1) / sequence : 0;
}

int64_t mpt_windows_count(const mpt_windows *w, int64_t sequence) {
    int64_t all = windows_in_all(w, sequence);
    return all < MPT_DATA_MAX_WINDOWS ? all : MPT_DATA_MAX_WINDOWS;
}

int64_t mpt_windows_start(const mpt_windows *w, int64_t window, int64_t sequence) {
    int64_t at = window * windows_in_all(w, sequence) / mpt_windows_count(w, sequence);
    return w->n - mpt_windows_validation(w) + at * sequence;
}

double mpt_windows_entropy(const int64_t *count, int64_t words, int64_t n) {
    double h = 0;
    for (int64_t w = 0; w < words; w++)
        if (count[w])
            h -= (double)count[w] / (double)n * log((double)count[w] / (double)n);
    return h;
}

void mpt_windows_commas(int64_t n, char out[32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
}
