/* The run folder: where a run's recipe, plan, metrics and timing are kept.
 *
 *   recipe.lua     the recipe as it was run
 *   models/ ...    what it required, beside it as it looks for them
 *   plan.json      the plan of the model that was trained
 *   metrics.jsonl  one object a line, the same in every run of the recipe
 *   telemetry.jsonl   what quantizing did to each operand, the same in every run too
 *   timing.jsonl   step times, which differ from run to run
 *   events.out.tfevents.*   the numbers of both for TensorBoard
 *   report.html    all of it as one page, made when the run ends
 *   checkpoints/step-N/   the state after so many steps: weights as model.safetensors */
#ifndef MPT_CLI_FOLDER_H
#define MPT_CLI_FOLDER_H

#include <stdio.h>

#include "cli/cli.h"

enum { MPT_FOLDER_PATH = 1024 };

/* Stands in recipe.lua before the options of the run, one a comment. */
#define MPT_FOLDER_AS_RUN "\n-- as run, with these on the command line:\n"

typedef struct mpt_folder {
    char path[MPT_FOLDER_PATH];
    FILE *metrics, *telemetry, *timing;
    int64_t metrics_whole, telemetry_whole, timing_whole; /* bytes of the lines that arrived */
    bool failed; /* a write failed; its reason was said */
} mpt_folder;

/* Refuses a folder given by --out that exists and holds something, before any work is done.
 * MPT_EXIT_USAGE, with the reason on stderr. */
mpt_exit mpt_folder_check(const char *out);

/* Makes a folder for several runs: `out`, or where that is NULL the next free runs/NAME-N. */
mpt_exit mpt_folder_make(mpt_folder *folder, const char *out, const char *name);

/* Makes the folder: `out`, or where that is NULL the next free runs/NAME-N; opens its files. */
mpt_exit mpt_folder_create(mpt_folder *folder, const char *out, const char *recipe_name);

/* Makes a file of the folder, which must not be there yet: MPT_EXIT_USAGE where it is, because
 * then another run has come in between. The reason is on stderr. */
mpt_exit mpt_folder_open(mpt_folder *folder, const char *name, FILE **out);

/* Writes a file whose name may lead through folders, which are made. */
mpt_exit mpt_folder_copy(mpt_folder *folder, const char *name, const char *text, size_t length);

/* Closes a file; false with the reason on stderr where what was written did not arrive. */
bool mpt_folder_close(mpt_folder *folder, FILE *file, const char *name);

/* A mpt_write_fn over a mpt_folder each: whole lines into metrics.jsonl and telemetry.jsonl. */
bool mpt_folder_metrics(void *ud, const char *text, size_t length);
bool mpt_folder_telemetry(void *ud, const char *text, size_t length);

/* One line into timing.jsonl. */
bool mpt_folder_timing(mpt_folder *folder, int64_t step, double seconds, double tokens);

/* Closes the files that are open; after a failed write, cuts them back to whole lines. */
mpt_exit mpt_folder_end(mpt_folder *folder);

#endif
