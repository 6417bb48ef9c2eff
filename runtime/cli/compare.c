/* The compare command: recipes are checked against the first one before anything is trained,
 * then each is trained with each seed, seed by seed, so that what is there at any time is fair.
 */
#include "cli/compare.h"

#include "cli/run.h"
#include "cli/runs.h"

static bool note_line(void *ud, const char *text, size_t length) {
    mpt_progress_note(ud, "mptrun: note: %.*s", (int)length - 1, text);
    return true;
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
        mpt_program_destroy(program);
        mpt_recipe_destroy(recipe);
        program = NULL;
        recipe = NULL;
    }
    if (status == MPT_OK) {
        mpt_program_info info = mpt_program_get_info(base);
        runs->seed = info.seed;
        if (info.proxy && *info.why)
            mpt_progress_note(runs->progress, "mptrun: %s", info.why);
    }
    mpt_program_destroy(base);
    mpt_recipe_destroy(base_recipe);
    return status;
}

static mpt_exit train_all(mpt_runs *runs) {
    mpt_exit result = mpt_folder_make(&runs->folder, runs->options->out, "compare");
    mpt_signals_training(&runs->signals, true);
    for (int s = 0; result == MPT_EXIT_DONE && s < runs->n_seeds; s++)
        for (int i = 0; result == MPT_EXIT_DONE && !runs->interrupted && i < runs->n; i++)
            result = mpt_runs_train(runs, i, runs->seed + (uint64_t)s);
    mpt_signals_training(&runs->signals, false);
    return result;
}

mpt_exit mpt_cli_compare(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_runs runs = {.ctx = ctx, .options = options, .progress = progress};
    mpt_exit result = mpt_folder_check(options->out);
    if (result != MPT_EXIT_DONE)
        return result;
    runs.n_seeds = options->seeds > 0 ? options->seeds : 1;
    runs.n_all = options->n_words * runs.n_seeds;
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
