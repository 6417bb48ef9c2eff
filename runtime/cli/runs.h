/* Several runs in turn, alike but for what each is to show: what compare and sweep share.
 *
 * Each member is a recipe, with more set on top where it is one of a sweep. A run goes into
 * DIR/NAME/seed-N; what was done stays, whatever ends the command, and DIR/compare.json,
 * written before the first one, says which runs there were to be. */
#ifndef MPT_CLI_RUNS_H
#define MPT_CLI_RUNS_H

#include "cli/folder.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "mpt/compare.h"

enum { MPT_RUNS_NAME = 128 };

typedef struct mpt_member {
    const char *path; /* of its recipe; lent */
    const char *lift; /* what precision.lift is set to, or NULL; lent */
    char name[MPT_RUNS_NAME];
} mpt_member;

typedef struct mpt_runs {
    mpt_ctx *ctx;
    const mpt_options *options;
    mpt_progress *progress;
    mpt_signals signals;
    mpt_folder folder; /* of all runs; none of its files is open */
    int n;             /* members */
    mpt_member *members;
    uint64_t seed; /* the first of n_seeds */
    int n_seeds;
    int n_begun, n_all;    /* runs; those begun count the one at hand */
    mpt_compare_run *runs; /* all n_all, seed by seed; those not begun say so */
    const char *last;      /* folder of the run at hand, once it has a step; or NULL */
    double seconds;        /* of the runs so far */
    bool interrupted;
} mpt_runs;

/* Room for members with their runs. False where memory ran out, which it says. The signals are
 * there from before the first recipe is compiled, which may start threads; mpt_runs_end ends
 * them, too. */
bool mpt_runs_begin(mpt_runs *runs, int most_members);
void mpt_runs_end(mpt_runs *runs);

/* Adds a member; its name gets a number where another has it. */
void mpt_runs_add(mpt_runs *runs, const char *path, const char *lift, const char *name);

/* The recipe of a member, as the command line sets it, and its program. Each is NULL where it
 * could not be made. */
mpt_status mpt_runs_compile(const mpt_runs *runs, const mpt_member *member,
                            mpt_recipe **out_recipe, mpt_program **out_program);

/* Makes the folder, runs/NAME-N where --out does not say another, and writes down in it all the
 * runs that will be. */
mpt_exit mpt_runs_start(mpt_runs *runs, const char *name, bool sweep);

/* Trains a member with one seed. A run that stopped itself is MPT_EXIT_DONE as well: the
 * comparison tells of it. */
mpt_exit mpt_runs_train(mpt_runs *runs, int member, uint64_t seed);

/* Compares what was done: verdict and table, or JSON, on stdout, compare.html in the folder.
 * MPT_EXIT_STOPPED: a recipe is beyond the bound, broke off, or with a bound ran no quantized
 * GEMM though its name promises one; or the bound could not be held against all. */
mpt_exit mpt_runs_tell(mpt_runs *runs, bool sweep);

/* The same of a comparison that is there: prints it, and writes compare.html into a folder. */
mpt_exit mpt_runs_print(mpt_ctx *ctx, const mpt_comparison *comparison, const char *folder,
                        const mpt_options *options);

enum { MPT_RUNS_PATH = MPT_FOLDER_PATH + 32 };
#define MPT_RUNS_INDEX "compare.json"

#endif
