/* The run command: the plan of the full model, then the program that is trained (training.c).
 */
#include "cli/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/colour.h"
#include "cli/sample.h"
#include "cli/training.h"
#include "cli/tree.h"

/* ---- loading and compiling ---- */

mpt_status mpt_cli_load_sets(mpt_ctx *ctx, const char *path, const mpt_set *sets, int n_sets,
                             mpt_recipe **out) {
    char tree[4096];
    mpt_load_options load = MPT_LOAD_OPTIONS_INIT;
    load.sets = sets;
    load.n_sets = n_sets;
    if (mpt_cli_tree(tree, sizeof tree))
        load.tree = tree;
    return mpt_recipe_load_file(ctx, path, &load, out);
}

mpt_status mpt_cli_load(mpt_ctx *ctx, const mpt_options *options, const char *path,
                        mpt_recipe **out) {
    return mpt_cli_load_sets(ctx, path, options->sets, options->n_sets, out);
}

mpt_status mpt_cli_compile(mpt_recipe *recipe, const mpt_options *options,
                           mpt_model_choice model, mpt_program **out) {
    mpt_compile_options compile = MPT_COMPILE_OPTIONS_INIT;
    compile.model = options->model >= 0 ? (mpt_model_choice)options->model : model;
    compile.device = (mpt_device)options->device;
    compile.target = options->target >= 0 ? (mpt_target)options->target : MPT_TARGET_HOST;
    compile.n_threads = options->threads;
    compile.data = options->data;
    compile.own_tokens = options->tokens != NULL;
    return mpt_compile(recipe, &compile, out);
}

void mpt_cli_warn(const mpt_program *program, mpt_progress *progress) {
    mpt_warning_view w;
    for (int i = 0; mpt_program_warning(program, i, &w); i++) {
        if (w.file && w.line > 0)
            mpt_progress_note(progress, "warning: %s:%d: %s: %s", w.file, w.line, w.name,
                              w.text);
        else if (w.file)
            mpt_progress_note(progress, "warning: %s: %s: %s", w.file, w.name, w.text);
        else
            mpt_progress_note(progress, "warning: %s: %s", w.name, w.text);
    }
}

void mpt_cli_note_choices(const mpt_program_info *info, mpt_progress *progress) {
    if (info->proxy && *info->why)
        mpt_progress_note(progress, "mptrun: %s", info->why);
    if (*info->no_device)
        mpt_progress_note(progress, "mptrun: warning: the device is the CPU: %s",
                          info->no_device);
}

/* Whether the plan, which ends with the warnings, is in front of whoever reads stderr. */
static bool plan_is_seen(const mpt_options *options) {
    return !options->quiet && isatty(STDOUT_FILENO) == 1;
}

/* Shows the plan of the full model, or of the model that --model names. */
static mpt_status show_plan(mpt_training *r) {
    mpt_program *full = NULL;
    mpt_model_choice asked = (mpt_model_choice)r->options->model;
    mpt_options options = *r->options;
    if (options.quiet)
        return MPT_OK;
    options.model =
        r->options->model < 0 || asked == MPT_MODEL_AUTO ? MPT_MODEL_FULL : r->options->model;
    mpt_status status = mpt_cli_compile(r->recipe, &options, MPT_MODEL_FULL, &full);
    if (status == MPT_OK)
        status = mpt_program_print(full, MPT_PRINT_PLAN, NULL, mpt_cli_write_plan, NULL);
    mpt_program_destroy(full);
    fflush(stdout);
    return status;
}

/* Whether --until ends the command before a stage. */
static bool ends_before(const mpt_training *r, const char *stage) {
    int last = INT_MAX, at = INT_MAX;
    for (int i = 0; mpt_stage_name(i); i++) {
        if (r->options->until && strcmp(mpt_stage_name(i), r->options->until) == 0)
            last = i;
        if (strcmp(mpt_stage_name(i), stage) == 0)
            at = i;
    }
    return last < at;
}

/* A dump alone is all that is wanted; with --until the run goes on as far as that says. */
static bool only_dumps(const mpt_training *r) {
    return r->options->dump && !r->options->until;
}

/* The recipe of a run folder without what that run was told besides. */
static void note_past(const mpt_training *r) {
    const char *path = r->options->words[0];
    char *again = mpt_past_run_again(mpt_recipe_source(r->recipe), path, r->options);
    int64_t changed = mpt_past_run_changed(mpt_recipe_source(r->recipe));
    if (again)
        mpt_progress_note(r->progress,
                          "mptrun: note: %s was run with options, which stand in it as "
                          "comments and do nothing; %s is %s",
                          path, changed ? "what it ended with" : "the same again", again);
    if (changed)
        mpt_progress_note(r->progress,
                          "mptrun: note: that run went on with another recipe or device after "
                          "step %lld, so that no one command makes it again",
                          (long long)changed);
    free(again);
}

static mpt_status prepare(mpt_training *r) {
    const mpt_options *o = r->options;
    mpt_status status = mpt_cli_load(r->ctx, o, o->words[0], &r->recipe);
    if (status == MPT_OK)
        note_past(r);
    if (status != MPT_OK || (ends_before(r, "freeze") && !o->dump))
        return status;
    if (!only_dumps(r))
        status = show_plan(r);
    if (status == MPT_OK)
        status = mpt_cli_compile(r->recipe, o, MPT_MODEL_AUTO, &r->program);
    if (status != MPT_OK)
        return status;
    r->info = mpt_program_get_info(r->program);
    if (!only_dumps(r) && !plan_is_seen(o))
        mpt_cli_warn(r->program, r->progress);
    if (!only_dumps(r))
        mpt_cli_note_choices(&r->info, r->progress);
    if (o->dump)
        status = mpt_program_print(r->program, MPT_PRINT_STAGE, o->dump, mpt_cli_write, NULL);
    fflush(stdout);
    return status;
}

mpt_exit mpt_cli_run(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_signals signals;
    mpt_training run = {.ctx = ctx,
                        .options = options,
                        .progress = progress,
                        .signals = &signals,
                        .recipe_path = options->words[0]};
    mpt_exit result = mpt_folder_check(options->out);
    if (result != MPT_EXIT_DONE)
        return result;
    mpt_signals_begin(&signals, "step");
    mpt_status status = prepare(&run);
    run.one_step = ends_before(&run, "train");
    if (status != MPT_OK)
        result = mpt_cli_fail(ctx, status);
    else if (!only_dumps(&run) && !ends_before(&run, "run"))
        result = mpt_training_run(&run);
    mpt_signals_end(&signals);
    mpt_exit closed = mpt_training_end(&run);
    mpt_program_destroy(run.program);
    mpt_recipe_destroy(run.recipe);
    return result != MPT_EXIT_DONE ? result : closed;
}
