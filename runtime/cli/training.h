/* One training run into a run folder: the loop over steps that run, resume, compare and sweep
 * share. */
#ifndef MPT_CLI_TRAINING_H
#define MPT_CLI_TRAINING_H

#include "cli/folder.h"
#include "cli/options.h"
#include "cli/origin.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "mpt/evidence.h"

/* The first group is the caller's, and lent; the rest starts as zero. */
typedef struct mpt_training {
    mpt_ctx *ctx;
    const mpt_options *options;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_program_info info;
    mpt_progress *progress;
    mpt_signals *signals; /* begun */
    const char
        *recipe_path; /* of which the origin is made, where it has none yet; may be NULL */
    mpt_origin origin;
    int64_t changed; /* the step after which the recipe or the device became others; 0: none */
    bool one_step;
    bool part; /* one of several runs: nothing goes to stdout, and signals stay watched */

    mpt_trainer *trainer;
    mpt_events *events;
    mpt_folder folder;
    mpt_step_result last;
    int64_t first;        /* steps that were taken before this process */
    int64_t n_done, most; /* steps taken, and to be taken */
    int stopped_by;       /* a signal, or 0 */
    bool saved;           /* the end was, or could not be */
    double began;
} mpt_training;

/* Makes trainer and folder, trains, validates, saves the weights, prints the result, writes the
 * report. */
mpt_exit mpt_training_run(mpt_training *training);

/* The same in parts, for a run that goes on in its folder: the trainer with its initial
 * weights; plan.json and recipe.lua anew; the steps, once the folder is open and the trainer is
 * where it should be. */
mpt_exit mpt_training_create(mpt_training *training);
mpt_exit mpt_training_describe(mpt_training *training);
mpt_exit mpt_training_go(mpt_training *training);

/* Frees the trainer and closes the folder's files: to be called whatever came of the run. */
mpt_exit mpt_training_end(mpt_training *training);

#endif
