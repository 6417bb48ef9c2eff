/* Windows over files of tokens: see data_windows.h. */
#include "train/data_windows.h"

#include <math.h>
#include <stdio.h>

#include "train/data_order.h"
#include "train/random.h"

/* ---- cutting ---- */

static int64_t held_tokens(const mpt_windows *w, const mpt_shard *shard) {
    if (shard->held_out)
        return shard->tokens->n;
    return w->validation.path ? 0 : (int64_t)((double)shard->tokens->n * w->validation.share);
}

int64_t mpt_windows_training(const mpt_windows *w, const mpt_shard *shard) {
    return shard->tokens->n - held_tokens(w, shard);
}

static mpt_status fail_short(const mpt_data *data, const mpt_shard *shard, int64_t sequence) {
    int64_t held = shard->tokens->n - shard->n_train;
    bool cut = !shard->held_out && held > 0;
    mpt_status status =
        MPT_FAIL(data->ctx, MPT_DATA, shard->tokens->where, "%s: needs %lld tokens, has %lld%s",
                 shard->tokens->path, (long long)(sequence + 1),
                 (long long)(cut ? shard->n_train : shard->tokens->n),
                 cut ? " that are not held back for validation" : "");
    mpt_hint(data->ctx, "use a longer file, or lower train.sequence%s",
             cut ? " or data.validation" : "");
    return status;
}

/* What is held back and too short for one window is of no use to validation: then training has
 * it all. */
static mpt_status cut_shard(const mpt_windows *w, const mpt_data *data, mpt_shard *shard) {
    int64_t held = held_tokens(w, shard);
    if (held <= w->sequence && !shard->held_out)
        held = 0;
    shard->n_train = shard->tokens->n - held;
    if ((shard->held_out ? held : shard->n_train) <= w->sequence)
        return fail_short(data, shard, w->sequence);
    shard->windows = shard->held_out ? 0 : (shard->n_train - 1) / w->sequence;
    shard->held = held > w->sequence ? (held - 1) / w->sequence : 0;
    return MPT_OK;
}

/* n times a weight; at least one of what is there at all. Weights are up to 1000 and all tokens
 * have addresses in one process, so that no sum of these passes 2^58. */
static int64_t weighted(int64_t n, double weight) {
    int64_t times = (int64_t)floor((double)n * weight + 0.5);
    return weight == 1 || n == 0 ? n : times > 0 ? times : 1;
}

static mpt_status fail_unheld(const mpt_windows *w, const mpt_data *data) {
    mpt_status status = MPT_FAIL(data->ctx, MPT_DATA, data->where,
                                 "data.validation: a share of %g holds no sequence of %lld "
                                 "tokens in any file",
                                 w->validation.share, (long long)w->sequence);
    mpt_hint(data->ctx, "hold back more, name a file of its own, or take none: validation = 0");
    return status;
}

mpt_status mpt_windows_settle(mpt_windows *w, const mpt_data *data, int64_t sequence) {
    int64_t draws = 0, slots = 0, helds = 0;
    w->sequence = sequence;
    for (int i = 0; i < w->n_shards; i++) {
        mpt_shard *shard = &w->shards[i];
        MPT_TRY(cut_shard(w, data, shard));
        int64_t starts = shard->held_out ? 0 : shard->n_train - sequence;
        w->draws[i] = draws += weighted(starts, shard->weight);
        w->slots[i] = slots += weighted(shard->windows, shard->weight);
        w->helds[i] = helds += shard->held;
    }
    if (helds == 0 && w->validation_said && w->validation.share > 0)
        return fail_unheld(w, data);
    return MPT_OK;
}

/* ---- places ---- */

/* The shard that a number below the last sum falls to; *rest is what is left of it there. */
static int find(const int64_t *sums, int n, int64_t number, int64_t *rest) {
    int low = 0, high = n - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (number < sums[middle])
            high = middle;
        else
            low = middle + 1;
    }
    *rest = number - (low > 0 ? sums[low - 1] : 0);
    return low;
}

static int64_t random_below(const uint32_t r[2], int64_t n) {
    return (int64_t)mpt_random_below((uint64_t)r[1] << 32 | r[0], (uint64_t)n);
}

/* A weight makes a file's part of the draws larger or smaller than its starts: then other bits
 * say where in it. */
mpt_window mpt_windows_draw(const mpt_windows *w, uint64_t seed, int64_t step, int64_t row) {
    uint32_t r[4];
    int64_t at;
    mpt_random4(seed, MPT_STREAM_TRAIN, (uint64_t)step, (uint32_t)row, 0, r);
    int i = find(w->draws, w->n_shards, random_below(r, w->draws[w->n_shards - 1]), &at);
    const mpt_shard *shard = &w->shards[i];
    if (shard->weight != 1)
        at = random_below(r + 2, shard->n_train - w->sequence);
    return (mpt_window){shard, at};
}

int64_t mpt_windows_in_epoch(const mpt_windows *w) {
    return w->n_shards ? w->slots[w->n_shards - 1] : 0;
}

/* The tokens that the windows of a shard leave over are left over in front, behind, or both, as
 * the epoch has it. */
static int64_t offset_of(const mpt_windows *w, int i, uint64_t seed, int64_t epoch) {
    uint32_t r[4];
    int64_t left = w->shards[i].n_train - 1 - w->shards[i].windows * w->sequence;
    mpt_random4(seed, MPT_STREAM_OFFSET, (uint64_t)epoch, (uint32_t)i, 0, r);
    return random_below(r, left + 1);
}

/* Order 0 is that of the epoch; order i + 1 chooses the windows of shard i that come once more
 * than others where its weight is no whole number. */
mpt_window mpt_windows_at(const mpt_windows *w, uint64_t seed, int64_t epoch, int64_t index) {
    bool shuffle = w->order == MPT_ORDER_SHUFFLE;
    int64_t n = mpt_windows_in_epoch(w), slot;
    int i = find(w->slots, w->n_shards,
                 shuffle ? mpt_permuted(seed, epoch, 0, n, index) : index, &slot);
    const mpt_shard *shard = &w->shards[i];
    int64_t window = slot % shard->windows;
    if (!shuffle)
        return (mpt_window){shard, window * w->sequence};
    if (weighted(shard->windows, shard->weight) % shard->windows)
        window = mpt_permuted(seed, epoch, (uint32_t)i + 1, shard->windows, window);
    return (mpt_window){shard, offset_of(w, i, seed, epoch) + window * w->sequence};
}

/* ---- validation ---- */

static int64_t n_all_held(const mpt_windows *w) {
    return w->n_shards ? w->helds[w->n_shards - 1] : 0;
}

int64_t mpt_windows_n_held(const mpt_windows *w) {
    int64_t all = n_all_held(w);
    return all < MPT_DATA_MAX_WINDOWS ? all : MPT_DATA_MAX_WINDOWS;
}

mpt_window mpt_windows_held(const mpt_windows *w, int64_t window) {
    int64_t at;
    int i = find(w->helds, w->n_shards, window * n_all_held(w) / mpt_windows_n_held(w), &at);
    const mpt_shard *shard = &w->shards[i];
    int64_t first = shard->held_out ? 0 : shard->n_train;
    return (mpt_window){shard, first + at * w->sequence};
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
