/* mptrun sample: text from a model that was trained on bytes. */
#ifndef MPT_CLI_SAMPLE_H
#define MPT_CLI_SAMPLE_H

#include "cli/options.h"
#include "cli/origin.h"
#include "cli/progress.h"

/* Prints the prompt and what the model goes on with, byte by byte as it is drawn. */
mpt_exit mpt_cli_sample(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

/* What a run folder holds of its run (run_folder.c). */
typedef struct mpt_past_run {
    char recipe[1100];  /* the path of its recipe.lua */
    char weights[1200]; /* of its newest checkpoint; "" where there is none */
    char *text;         /* of recipe.lua, cut into the texts below; freed by the caller */
    int n_sets;
    mpt_set sets[MPT_CLI_SETS];
    const char *data;  /* NULL: the recipe's own */
    const char *given; /* weights that the run began with; NULL: none */
    int n_inject;
    const char *inject[MPT_CLI_FAULTS];
    mpt_origin origin; /* from where its files were found */
    int model;         /* mpt_model_choice, or -1: not said */
    int device;        /* mpt_device; AUTO: not said, -1: not known */
    const char *device_word;
    int64_t changed; /* the step after which recipe or device became others; 0: none */
} mpt_past_run;

/* Reads a run folder. MPT_EXIT_WRONG or MPT_EXIT_MACHINE, with the reason on stderr. */
mpt_exit mpt_past_run_read(mpt_past_run *past, const char *folder);

/* The device that a word of a run folder or a checkpoint means; -1: none. */
int mpt_past_run_device(const char *word);

/* The command that runs a recipe.lua of a run folder again, for a shell, where this command
 * line lacks what that run was told: "mptrun run/recipe.lua --set train.steps=20 --device ref".
 * The comments that have it do nothing, so that without it the recipe trains something else.
 * NULL where all is there, the recipe is of no run folder, or memory ran out; freed by the
 * caller. */
char *mpt_past_run_again(const char *source, const char *path, const mpt_options *options);

/* The step after which the run that such a text is of went on otherwise, so that no one command
 * makes it again; 0 where it did not. */
int64_t mpt_past_run_changed(const char *source);

#endif
