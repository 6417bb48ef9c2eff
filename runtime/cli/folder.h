/* The run folder: where a run's recipe, plan, metrics and timing are kept.
 *
 *   recipe.lua     the recipe as it was run
 *   models/ ...    what it required, beside it as it looks for them
 *   plan.json      the plan of the model that was trained
 *   metrics.jsonl  one object a line, the same in every run of the recipe
 *   diagnosis.txt  why training stopped itself, where it has
 *   telemetry.jsonl   what quantizing did to each operand, the same in every run too
 *   timing.jsonl   step times, which differ from run to run
 *   events.out.tfevents.*   the numbers of both for TensorBoard
 *   report.html    all of it as one page, made when the run ends
 *   checkpoints/step-N/   the state after so many steps: mpt/checkpoint.h
 *
 * recipe.lua is written as the last of the files that describe the run: a folder that has one
 * is a run's. The process that trains holds a lock on metrics.jsonl. */
#ifndef MPT_CLI_FOLDER_H
#define MPT_CLI_FOLDER_H

#include <stdio.h>

#include "cli/cli.h"

enum { MPT_FOLDER_PATH = 1024 };

/* Stands in recipe.lua before the options of the run, one a comment. */
#define MPT_FOLDER_AS_RUN "\n-- as run, with these on the command line:\n"

/* Stands among them where the run went on with another recipe or device. */
#define MPT_FOLDER_CHANGED "--   changed after step "

#define MPT_FOLDER_DIAGNOSIS "diagnosis.txt"

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

/* Takes a folder away again that was created and could not be filled: its own files alone. */
void mpt_folder_discard(mpt_folder *folder, const mpt_recipe *recipe);

/* Makes a file of the folder, which must not be there yet: MPT_EXIT_USAGE where it is, because
 * then another run has come in between. The reason is on stderr. */
mpt_exit mpt_folder_open(mpt_folder *folder, const char *name, FILE **out);

/* Writes a file whose name may lead through folders, which are made. */
mpt_exit mpt_folder_copy(mpt_folder *folder, const char *name, const char *text, size_t length);

/* A file that gets its name when it is whole and on the disk: opened under another, then named.
 * It may be there already. */
mpt_exit mpt_folder_begin(mpt_folder *folder, const char *name, FILE **out);
mpt_exit mpt_folder_name(mpt_folder *folder, const char *name, FILE *file);

/* Takes the folder of a run that was ended, for this process alone. Metrics that are gone begin
 * anew where there are checkpoints. MPT_EXIT_WRONG where it is
 * none, or where another process has it; the reason is on stderr. */
mpt_exit mpt_folder_take(mpt_folder *folder, const char *path);

/* Whether the metrics of a folder that was taken end a run behind their first `bytes` bytes. */
bool mpt_folder_has_ended(const mpt_folder *folder, int64_t bytes);

/* Cuts what was written after `step` steps and `bytes` bytes of metrics, and goes on behind it.
 * *out_lost counts the bytes of metrics that should be there and are not. */
mpt_exit mpt_folder_go_on(mpt_folder *folder, int64_t step, int64_t bytes, int64_t *out_lost);

/* Puts the metrics on the disk, before a checkpoint that counts on them. */
bool mpt_folder_sync(mpt_folder *folder);

/* Closes a file; false with the reason on stderr where what was written did not arrive. */
bool mpt_folder_close(mpt_folder *folder, FILE *file, const char *name);

/* A mpt_write_fn over a mpt_folder each: whole lines into metrics.jsonl and telemetry.jsonl. */
bool mpt_folder_metrics(void *ud, const char *text, size_t length);
bool mpt_folder_telemetry(void *ud, const char *text, size_t length);

/* One line into timing.jsonl. */
bool mpt_folder_timing(mpt_folder *folder, int64_t step, double seconds, double tokens);

/* ---- for the files of the folder itself ---- */

/* Opens a file of a run folder that was made before, for reading or for both. *out is NULL
 * where there is none, which is no fault; a pipe or a folder in its place is MPT_EXIT_WRONG,
 * and nobody waits for it. The reason is on stderr. */
mpt_exit mpt_folder_reopen(const char *path, bool writes, FILE **out);

/* Says what the system has refused; MPT_EXIT_MACHINE. */
mpt_exit mpt_folder_fault(const char *what, const char *path);

/* Takes the lock on the metrics, which are open; false, with the reason on stderr, where
 * another process has it. */
bool mpt_folder_lock(const mpt_folder *folder);

/* Closes the files that are open; after a failed write, cuts them back to whole lines. */
mpt_exit mpt_folder_end(mpt_folder *folder);

#endif
