/* Robust z-scores over the last applied steps. See watch.h. */
#include "train/watch.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double normal_mad = 0.6745; /* of the normal distribution with deviation 1 */
static const double level_margin = 2;    /* nats */
static const double least_share = 0x1p-10, least = 1e-12; /* of the median; at all */

const char *mpt_watched_name(mpt_watched what) {
    static const char *const names[MPT_WATCHED_COUNT] = {"loss", "grad_norm"};
    return names[what];
}

/* ---- life ---- */

void mpt_watch_begin(const mpt_spike *spike, double entropy, mpt_watch_state *out) {
    memset(out, 0, sizeof *out);
    out->spike = *spike;
    out->first_loss = NAN;
    out->entropy = entropy;
}

mpt_status mpt_watch_saved(mpt_watch_state *watch, mpt_saved *list) {
    static const int64_t n_samples[] = {MPT_WATCHED_COUNT, MPT_WATCH_MOST};
    static const int64_t n_changes[] = {MPT_WATCH_CHANGES, 2};
    static const int64_t n_counts[] = {sizeof watch->counts / sizeof(int64_t)};
    list->kind = MPT_SAVED_PROGRESS;
    MPT_TRY(mpt_saved_add(list, "watch.samples", MPT_TENSOR_F64, 2, n_samples, watch->samples));
    MPT_TRY(
        mpt_saved_add(list, "watch.loss_scales", MPT_TENSOR_F64, 2, n_changes, watch->changes));
    MPT_TRY(mpt_saved_add_f64(list, "watch.first_loss", &watch->first_loss));
    return mpt_saved_add(list, "watch.counts", MPT_TENSOR_I64, 1, n_counts, &watch->counts);
}

/* ---- medians ---- */

/* Puts the k-th smallest at place k, none larger before it, none smaller behind it: Hoare's
 * selection around the middle element, so one order of the input gives one order of the output.
 */
static double select_kth(double *x, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i > j)
                break;
            double held = x[i];
            x[i++] = x[j];
            x[j--] = held;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return x[k];
}

/* The mean of the middle two where n is even. */
static double median_of(double *x, int64_t n) {
    double upper = select_kth(x, n, n / 2), lower = upper;
    for (int64_t i = 0; n % 2 == 0 && i < n / 2; i++)
        lower = i == 0 || x[i] > lower ? x[i] : lower;
    return lower + (upper - lower) / 2;
}

mpt_outlying mpt_watch_measure(double *values, int64_t n, double x) {
    mpt_outlying of = {.value = x, .median = NAN};
    if (n < 1)
        return of;
    of.median = median_of(values, n);
    for (int64_t i = 0; i < n; i++)
        values[i] = fabs(values[i] - of.median);
    double deviation = median_of(values, n) / normal_mad;
    deviation = fmax(deviation, fmax(fabs(of.median) * least_share, least));
    double z = (x - of.median) / deviation;
    of.z = z > 0 ? fmin(z, DBL_MAX) : 0;
    return of;
}

/* ---- steps ---- */

/* A place in a ring, whatever a checkpoint may have said of how many there were. */
static size_t ring(int64_t i, uint64_t size) {
    return (size_t)((uint64_t)i % size);
}

/* The samples of the window into scratch; how many they are. */
static int64_t take_window(mpt_watch_state *watch, int what) {
    int64_t end = watch->counts.samples[what];
    int64_t n = end < watch->spike.window ? end : watch->spike.window;
    for (int64_t i = 0; i < n; i++)
        watch->sorted[i] = watch->samples[what][ring(end - n + i, MPT_WATCH_MOST)];
    return n;
}

static mpt_outlying judge(mpt_watch_state *watch, int what, double x) {
    int64_t enough =
        watch->spike.window < MPT_WATCH_SAMPLES ? watch->spike.window : MPT_WATCH_SAMPLES;
    if (!isfinite(x) || watch->counts.samples[what] < enough)
        return (mpt_outlying){.value = x, .median = NAN};
    int64_t n = take_window(watch, what);
    mpt_outlying of = mpt_watch_measure(watch->sorted, n, x);
    of.spike = of.z >= watch->spike.z;
    return of;
}

mpt_watch_verdict mpt_watch_judge(mpt_watch_state *watch, double loss, double grad_norm) {
    mpt_watch_verdict verdict = {.action = MPT_SPIKE_OFF};
    if (watch->spike.action == MPT_SPIKE_OFF)
        return verdict;
    verdict.of[MPT_WATCHED_LOSS] = judge(watch, MPT_WATCHED_LOSS, loss);
    verdict.of[MPT_WATCHED_GRAD_NORM] = judge(watch, MPT_WATCHED_GRAD_NORM, grad_norm);
    for (int i = 0; i < MPT_WATCHED_COUNT; i++)
        if (verdict.of[i].spike)
            verdict.action = watch->spike.action;
    return verdict;
}

static void take(mpt_watch_state *watch, int what, double x) {
    if (isfinite(x))
        watch->samples[what][ring(watch->counts.samples[what]++, MPT_WATCH_MOST)] = x;
}

void mpt_watch_take(mpt_watch_state *watch, double loss, double grad_norm) {
    if (watch->counts.samples[MPT_WATCHED_LOSS] == 0 && isfinite(loss))
        watch->first_loss = loss;
    take(watch, MPT_WATCHED_LOSS, loss);
    take(watch, MPT_WATCHED_GRAD_NORM, grad_norm);
}

mpt_level mpt_watch_level(const mpt_watch_state *watch, int64_t fewest) {
    int64_t end = watch->counts.samples[MPT_WATCHED_LOSS], later = end > 0 ? end - 1 : 0;
    mpt_level level = {.lowest = INFINITY,
                       .bound = fmax(watch->first_loss, watch->entropy) + level_margin,
                       .n = later < MPT_WATCH_LEVEL ? later : MPT_WATCH_LEVEL};
    for (int64_t i = end - level.n; i < end; i++)
        level.lowest =
            fmin(level.lowest, watch->samples[MPT_WATCHED_LOSS][ring(i, MPT_WATCH_MOST)]);
    level.high = level.n >= fewest && level.lowest > level.bound;
    return level;
}

double mpt_watch_last(const mpt_watch_state *watch, mpt_watched what) {
    int64_t n = watch->counts.samples[what];
    return n > 0 ? watch->samples[what][ring(n - 1, MPT_WATCH_MOST)] : NAN;
}

void mpt_watch_scale(mpt_watch_state *watch, int64_t step, double scale) {
    int64_t n = watch->counts.changes;
    if (n > 0 && watch->changes[ring(n - 1, MPT_WATCH_CHANGES)][1] == scale)
        return;
    watch->changes[ring(n, MPT_WATCH_CHANGES)][0] = (double)step;
    watch->changes[ring(n, MPT_WATCH_CHANGES)][1] = scale;
    watch->counts.changes++;
}

int mpt_watch_changes(const mpt_watch_state *watch, int most, double (*out)[2]) {
    int64_t end = watch->counts.changes;
    int64_t n = end < MPT_WATCH_CHANGES ? end : MPT_WATCH_CHANGES;
    n = n < most ? n : most;
    for (int64_t i = 0; i < n; i++)
        memcpy(out[i], watch->changes[ring(end - n + i, MPT_WATCH_CHANGES)], sizeof *out);
    return (int)n;
}
