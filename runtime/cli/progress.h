/* What a person sees while training or work on a file runs: a live line on a terminal, for
 * training also now and then a plain line where stderr goes elsewhere, and notes that do not
 * tear the live line. */
#ifndef MPT_CLI_PROGRESS_H
#define MPT_CLI_PROGRESS_H

#include "mpt/mpt.h"

typedef struct mpt_progress {
    bool quiet;           /* notes still appear */
    bool live;            /* stderr is a terminal */
    int drawn;            /* columns of the live line that stand on the terminal */
    int64_t steps, every; /* a plain line every so many steps */
    double tokens_per_step;
    double floor;            /* NAN where unknown */
    double shown;            /* when a line was last shown */
    double seconds_per_step; /* a running mean, so that the estimate follows the machine */
    int64_t skipped;
} mpt_progress;

void mpt_progress_begin(mpt_progress *progress, const mpt_program_info *info, bool quiet);

/* A step is done, `seconds` after the one before; `now` is on the clock of mpt_cli_seconds. */
void mpt_progress_step(mpt_progress *progress, const mpt_step_result *step, double seconds,
                       double now);

/* A validation begins after `done` steps: it may last, so the line must not look stuck. A plain
 * line is printed before the last validation only, the others end in a note. */
void mpt_progress_validating(mpt_progress *progress, int64_t done);

/* Work on a file: nothing but the live line, and that only once the work lasts. */
void mpt_progress_begin_file(mpt_progress *progress, bool quiet, double now);
void mpt_progress_file(mpt_progress *progress, const char *tensor, uint64_t done,
                       uint64_t total, double now);

/* One line of its own on stderr. */
void mpt_progress_note(mpt_progress *progress, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The columns of the terminal that a descriptor is open on; `otherwise` where it is none. */
int mpt_progress_columns(int fd, int otherwise);

/* Takes the live line away. */
void mpt_progress_end(mpt_progress *progress);

#endif
