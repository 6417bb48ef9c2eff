/* The compare command: recipes are checked against the first one before anything is trained,
 * then each is trained with each seed, seed by seed, so that what is there at any time is fair.
 * Run folders are compared as they are. */
#include "cli/compare.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run.h"
#include "cli/runs.h"

static bool note_line(void *ud, const char *text, size_t length) {
    mpt_progress_note(ud, "mptrun: note: %.*s", (int)length - 1, text);
    return true;
}

/* Of all recipes the first says the seed. */
static void note_seed(const mpt_runs *runs, const mpt_program *base,
                      const mpt_program *program) {
    mpt_program_info info = mpt_program_get_info(program);
    uint64_t seed = mpt_program_get_info(base).seed;
    if (info.seed != seed)
        mpt_progress_note(runs->progress,
                          "mptrun: note: %s says train.seed = %llu; it is trained with that of "
                          "the first recipe, %llu, for the same data and weights",
                          info.recipe, (unsigned long long)info.seed, (unsigned long long)seed);
}

/* Compiles all recipes, which costs no tensor, and holds each against the first. */
static mpt_status check_all(mpt_runs *runs) {
    const mpt_options *o = runs->options;
    mpt_recipe *base_recipe = NULL, *recipe = NULL;
    mpt_program *base = NULL, *program = NULL;
    mpt_status status = MPT_OK;
    for (int i = 0; status == MPT_OK && i < o->n_words; i++) {
        mpt_member one = {.path = o->words[i]};
        bool first = i == 0;
        status = mpt_runs_compile(runs, &one, first ? &base_recipe : &recipe,
                                  first ? &base : &program);
        if (status == MPT_OK && !first)
            status = mpt_program_comparable(base, program, note_line, runs->progress);
        if (status == MPT_OK)
            mpt_runs_add(runs, o->words[i], NULL,
                         mpt_program_get_info(first ? base : program).recipe);
        if (status == MPT_OK && !first)
            note_seed(runs, base, program);
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        program = NULL;
        recipe = NULL;
    }
    if (status == MPT_OK) {
        mpt_program_info info = mpt_program_get_info(base);
        runs->seed = info.seed;
        mpt_cli_note_choices(&info, runs->progress);
    }
    mpt_program_destroy(base);
    mpt_recipe_destroy(base_recipe);
    return status;
}

static mpt_exit train_all(mpt_runs *runs) {
    mpt_exit result = mpt_runs_start(runs, "compare", false);
    mpt_signals_training(&runs->signals, true);
    for (int s = 0; result == MPT_EXIT_DONE && s < runs->n_seeds; s++)
        for (int i = 0; result == MPT_EXIT_DONE && !runs->interrupted && i < runs->n; i++)
            result = mpt_runs_train(runs, i, runs->seed + (uint64_t)s);
    mpt_signals_training(&runs->signals, false);
    return result;
}

static mpt_exit compare_recipes(mpt_ctx *ctx, const mpt_options *options,
                                mpt_progress *progress) {
    mpt_runs runs = {.ctx = ctx, .options = options, .progress = progress};
    mpt_exit result;
    runs.n_seeds = options->seeds > 0 ? options->seeds : 1;
    runs.n_all = options->n_words * runs.n_seeds;
    mpt_signals_begin(&runs.signals, "step");
    if (!mpt_runs_begin(&runs, options->n_words)) {
        mpt_runs_end(&runs);
        return MPT_EXIT_MACHINE;
    }
    mpt_status status = check_all(&runs);
    result = status == MPT_OK ? train_all(&runs) : mpt_cli_fail(ctx, status);
    if (status == MPT_OK) {
        mpt_exit told = mpt_runs_tell(&runs, false);
        result = result != MPT_EXIT_DONE ? result : told;
    }
    mpt_runs_end(&runs);
    return result;
}

/* ---- run folders ---- */

static bool is_folder(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

/* What a path is, as the other words of the line must know it. */
static const char *kind_of(const char *path) {
    struct stat there;
    if (is_folder(path))
        return "is a folder";
    return stat(path, &there) == 0 ? "is a file, so a recipe" : "does not exist";
}

/* All words are folders, or none is; what trains nothing cannot be told how. */
static mpt_exit check_folders(const mpt_options *o, bool *out) {
    int n = 0;
    for (int i = 0; i < o->n_words; i++)
        n += is_folder(o->words[i]);
    *out = n == o->n_words;
    if (n > 0 && !*out) {
        for (int i = 0; i < o->n_words; i++)
            fprintf(stderr, "mptrun: %s %s\n", o->words[i], kind_of(o->words[i]));
        fprintf(stderr, "mptrun: compare takes recipes, which it trains, or run folders, which "
                        "it reads; not both\n");
        return MPT_EXIT_USAGE;
    }
    const char *without = !*out                          ? NULL
                          : o->n_sets > 0                ? "set"
                          : o->seeds > 0                 ? "seeds"
                          : o->data                      ? "data"
                          : o->model >= 0                ? "model"
                          : o->weights                   ? "weights"
                          : o->n_inject > 0              ? "inject"
                          : o->threads > 0               ? "threads"
                          : o->device != MPT_DEVICE_AUTO ? "device"
                                                         : NULL;
    if (!without)
        return MPT_EXIT_DONE;
    fprintf(
        stderr,
        "mptrun: --%s changes nothing in run folders, which are compared as they are; leave "
        "it out\n",
        without);
    return MPT_EXIT_USAGE;
}

/* Their absolute paths, which the list of runs keeps. */
static bool resolve(const mpt_options *o, mpt_compare_run *runs) {
    char here[2 * MPT_FOLDER_PATH] = "";
    for (int i = 0; i < o->n_words; i++) {
        const char *word = o->words[i];
        size_t size = sizeof here + strlen(word) + 2;
        char *folder = malloc(size);
        runs[i].folder = folder;
        if (!folder || (word[0] != '/' && !getcwd(here, sizeof here)))
            return false;
        snprintf(folder, size, "%s%s%s", word[0] == '/' ? "" : here, word[0] == '/' ? "" : "/",
                 word);
        for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
            folder[n - 1] = 0;
    }
    return true;
}

static mpt_exit tell_folders(mpt_ctx *ctx, const mpt_options *o, const mpt_compare_run *runs) {
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    mpt_comparison *comparison = NULL;
    mpt_folder folder;
    char index[MPT_RUNS_PATH];
    options.within = o->within;
    options.find_recipes = true;
    mpt_status status = mpt_comparison_create(ctx, runs, o->n_words, &options, &comparison);
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    mpt_exit result = mpt_folder_make(&folder, o->out, "compare");
    if (result == MPT_EXIT_DONE) {
        snprintf(index, sizeof index, "%s/" MPT_RUNS_INDEX, folder.path);
        status = mpt_comparison_write_index(comparison, index);
        result = status == MPT_OK ? mpt_runs_print(ctx, comparison, folder.path, o)
                                  : mpt_cli_fail(ctx, status);
    }
    mpt_comparison_destroy(comparison);
    return result;
}

static mpt_exit compare_folders(mpt_ctx *ctx, const mpt_options *o) {
    mpt_compare_run *runs = calloc((size_t)o->n_words, sizeof *runs);
    mpt_exit result = MPT_EXIT_MACHINE;
    if (!runs || !resolve(o, runs))
        fprintf(stderr, "mptrun: the paths of %d folders could not be found\n", o->n_words);
    else
        result = tell_folders(ctx, o, runs);
    for (int i = 0; runs && i < o->n_words; i++)
        free((void *)(uintptr_t)runs[i].folder);
    free(runs);
    return result;
}

mpt_exit mpt_cli_compare(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    bool folders = false;
    mpt_exit result = mpt_folder_check(options->out);
    if (result == MPT_EXIT_DONE)
        result = check_folders(options, &folders);
    if (result != MPT_EXIT_DONE)
        return result;
    return folders ? compare_folders(ctx, options) : compare_recipes(ctx, options, progress);
}
