/* The watch over a run: a loss or a gradient norm that stands out of those of the steps before.
 *
 * The distance is robust: from the median, in scaled median absolute deviations (Iglewicz and
 * Hoaglin, "How to Detect and Handle Outliers", 1993: 0.6745 |x - median| / MAD), so that
 * spikes in the window do not hide the next one. Only values above the median stand out. NaN
 * and Inf are events of their own, and no samples.
 *
 * What is judged are numbers that all ranks have in common: the loss and the norm after they
 * were reduced. So is the verdict, then, and mpt_watch_judge is the only place that gives one.
 * A run whose loss has left for good is another matter, which no window shows, for it takes the
 * new level as normal: mpt_watch_level.
 *
 * All that is carried from step to step is in samples, changes and counts, whose sizes no
 * recipe changes: a run goes on under other settings of the watch with what it has seen. */
#ifndef MPT_TRAIN_WATCH_H
#define MPT_TRAIN_WATCH_H

#include "train/saved.h"

#include "recipe/recipe.h"

typedef enum mpt_watched {
    MPT_WATCHED_LOSS,
    MPT_WATCHED_GRAD_NORM,
    MPT_WATCHED_COUNT
} mpt_watched;

const char *mpt_watched_name(mpt_watched what); /* "grad_norm": as the metrics have it */

enum {
    MPT_WATCH_MOST = 1024,   /* samples that are kept: the longest window */
    MPT_WATCH_SAMPLES = 32,  /* before the watch speaks, where the window is no shorter */
    MPT_WATCH_ROLLBACKS = 3, /* to one checkpoint, before it is given up */
    MPT_WATCH_CHANGES = 16,  /* of the loss scale that are remembered */
    MPT_WATCH_LEVEL = 8      /* losses in a row that make a level */
};

typedef struct mpt_watch_counts {
    int64_t samples[MPT_WATCHED_COUNT]; /* taken in all: the last of them are kept */
    int64_t changes;                    /* of the loss scale, its start included */
    int64_t skipped;                    /* steps, whatever the reason */
    int64_t spikes;                     /* steps that stood out */
    int64_t skips;                      /* of these, whose update was left out */
    int64_t rollbacks;                  /* of these, that went back to a checkpoint */
    int64_t rolled_to, rolled_times;    /* the last such checkpoint, and how often in a row */
    int64_t spikes_in_a_row;
    int64_t checkpoint_due; /* one was due, and is saved once a step is good again */
    int64_t high_since; /* the attempted step by which the level was high, + 1; 0: it is not */
} mpt_watch_counts;

typedef struct mpt_watch_state {
    mpt_spike spike;
    double samples[MPT_WATCHED_COUNT][MPT_WATCH_MOST]; /* rings */
    double sorted[MPT_WATCH_MOST];                     /* scratch */
    double changes[MPT_WATCH_CHANGES]
                  [2]; /* a ring: an attempted step, the loss scale from it on
                        */
    mpt_watch_counts counts;
    double first_loss; /* that was taken in; NAN before */
    double entropy; /* of the words alone, in nats; what a loss of no model at all comes to */
} mpt_watch_state;

/* The lowest of the last losses, and what it may be at most: 2 nats above the first loss, and
 * above the entropy. No run that learns is there with each of them, and whatever the noise of
 * its batches. */
typedef struct mpt_level {
    double lowest, bound;
    int64_t n; /* losses that were looked at */
    bool high;
} mpt_level;

/* Where a value lies among others. */
typedef struct mpt_outlying {
    double value, median;
    double z;   /* of the value; 0 where it is not above the median, or there are too few */
    bool spike; /* z is past the bound */
} mpt_outlying;

typedef struct mpt_watch_verdict {
    mpt_spike_action action; /* MPT_SPIKE_OFF: nothing stands out */
    mpt_outlying of[MPT_WATCHED_COUNT];
} mpt_watch_verdict;

/* entropy: NAN where nothing is known of it. */
void mpt_watch_begin(const mpt_spike *spike, double entropy, mpt_watch_state *out);

/* The rows of a checkpoint: progress, which a rollback leaves alone. */
mpt_status mpt_watch_saved(mpt_watch_state *watch, mpt_saved *list);

/* The verdict over a step whose gradients are finite, before its update. Touches scratch only.
 */
mpt_watch_verdict mpt_watch_judge(mpt_watch_state *watch, double loss, double grad_norm);

/* Takes the numbers of an applied step in. */
void mpt_watch_take(mpt_watch_state *watch, double loss, double grad_norm);

/* The level of the last MPT_WATCH_LEVEL losses, or of all but the first where there are fewer:
 * not high where these are fewer than `fewest`. */
mpt_level mpt_watch_level(const mpt_watch_state *watch, int64_t fewest);

/* The last sample; NAN where there is none. */
double mpt_watch_last(const mpt_watch_state *watch, mpt_watched what);

/* Remembers the loss scale of the step to come, where it is another than before. */
void mpt_watch_scale(mpt_watch_state *watch, int64_t step, double scale);

/* The last changes, `most` or fewer, the oldest first: how many there are. */
int mpt_watch_changes(const mpt_watch_state *watch, int most, double (*out)[2]);

/* Median and z of x among n values, which are put in another order. The deviation that z is
 * counted in is at least a thousandth of the median, so that the last bits of a series that
 * stays the same are no spikes. */
mpt_outlying mpt_watch_measure(double *values, int64_t n, double x);

#endif
