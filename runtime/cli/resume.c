/* `mptrun resume RUN`: goes on from the newest whole checkpoint, in the run's own folder. What
 * it ends with is what the run would have ended with, byte for byte, unless the command line
 * changes the recipe. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli/resume.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run.h"
#include "cli/sample.h"
#include "cli/training.h"
#include "mpt/checkpoint.h"

typedef struct resuming {
    mpt_training run;
    mpt_options options; /* those of the run, and over them those of the command line */
    mpt_past_run past;
    bool has_checkpoint; /* else it was ended before its first one */
    mpt_checkpoint_info from;
} resuming;

/* ---- what the run was ---- */

static mpt_exit check_folder(const char *path) {
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        return MPT_EXIT_DONE;
    fprintf(stderr,
            "mptrun: %s: no such folder; name the folder of a run, such as runs/NAME-1\n",
            path);
    return MPT_EXIT_WRONG;
}

/* A later value of a path stands in place of the earlier one. */
static mpt_exit add_set(mpt_options *options, const mpt_set *set) {
    for (int i = 0; i < options->n_sets; i++)
        if (strcmp(options->sets[i].path, set->path) == 0) {
            options->sets[i].value = set->value;
            return MPT_EXIT_DONE;
        }
    if (options->n_sets == MPT_CLI_SETS) {
        fprintf(stderr, "mptrun: --set: more than %d with those of the run\n", MPT_CLI_SETS);
        return MPT_EXIT_USAGE;
    }
    options->sets[options->n_sets++] = *set;
    return MPT_EXIT_DONE;
}

static mpt_exit merge(resuming *r, const mpt_options *said) {
    mpt_exit result = MPT_EXIT_DONE;
    r->options = *said;
    r->options.n_sets = 0;
    for (int i = 0; i < r->past.n_sets; i++)
        (void)add_set(&r->options, &r->past.sets[i]);
    for (int i = 0; i < said->n_sets && result == MPT_EXIT_DONE; i++)
        result = add_set(&r->options, &said->sets[i]);
    if (!said->data)
        r->options.data = r->past.data;
    if (said->device == MPT_DEVICE_AUTO)
        r->options.device = r->past.device;
    if (r->options.device == MPT_DEVICE_AUTO && r->has_checkpoint) /* what AUTO was then */
        r->options.device = (int)mpt_past_run_device(r->from.device);
    r->options.model = r->past.model;
    r->options.n_inject = r->past.n_inject;
    memcpy(r->options.inject, r->past.inject, sizeof r->past.inject);
    /* A run that has taken steps has its weights from its checkpoint. */
    if (!r->has_checkpoint || r->from.step == 0)
        r->options.weights = r->past.given;
    return result;
}

static mpt_exit find_checkpoint(resuming *r) {
    char folder[MPT_FOLDER_PATH + 16];
    snprintf(folder, sizeof folder, "%s/checkpoints", r->run.folder.path);
    mpt_status status = mpt_checkpoint_find(r->run.ctx, folder, &r->from);
    r->has_checkpoint = status == MPT_OK;
    if (status == MPT_OK || status == MPT_NOT_FOUND)
        return MPT_EXIT_DONE;
    return mpt_cli_fail(r->run.ctx, status);
}

static mpt_exit read_run(resuming *r, const mpt_options *said) {
    char path[MPT_FOLDER_PATH];
    mpt_exit result = check_folder(said->words[0]);
    snprintf(path, sizeof path, "%s", said->words[0]);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    if (result == MPT_EXIT_DONE)
        result = mpt_past_run_read(&r->past, path);
    if (result == MPT_EXIT_DONE)
        result = mpt_folder_take(&r->run.folder, path);
    if (result == MPT_EXIT_DONE)
        result = find_checkpoint(r);
    return result == MPT_EXIT_DONE ? merge(r, said) : result;
}

static mpt_status load_and_compile(resuming *r) {
    mpt_training *run = &r->run;
    mpt_recipe_destroy(run->recipe);
    run->recipe = NULL;
    mpt_status status = mpt_cli_load(run->ctx, &r->options, r->past.recipe, &run->recipe);
    if (status == MPT_OK)
        status = mpt_cli_compile(run->recipe, &r->options, MPT_MODEL_AUTO, &run->program);
    return status;
}

/* Names the folder, what is in it, and what to do from now on, whatever the directory. */
static bool make_absolute(resuming *r) {
    char *whole = realpath(r->run.folder.path, NULL);
    size_t n = whole ? strlen(whole) : 0;
    bool fits = whole && n < MPT_FOLDER_PATH - 64;
    if (fits) {
        memcpy(r->run.folder.path, whole, n + 1);
        snprintf(r->past.recipe, sizeof r->past.recipe, "%s/recipe.lua", whole);
        fits = find_checkpoint(r) == MPT_EXIT_DONE;
    }
    free(whole);
    return fits;
}

/* Relative paths of the run started where it was started, or where its recipe was. */
static mpt_status compile_from_origin(resuming *r, mpt_status status) {
    for (int i = 0; status == MPT_NOT_FOUND && i < r->past.origin.n; i++) {
        if ((i == 0 && !make_absolute(r)) || chdir(r->past.origin.path[i]) != 0)
            continue;
        status = load_and_compile(r);
        if (status == MPT_OK)
            mpt_progress_note(
                r->run.progress,
                "mptrun: the files of the run are found from %s, as when it began",
                r->past.origin.path[i]);
    }
    return status;
}

/* The device was that of the run, whatever --device auto may find here: its way out is another
 * one than that of a command which begins. */
static mpt_exit fail_no_device(const resuming *r) {
    const mpt_error *error = mpt_ctx_error(r->run.ctx);
    bool cuda = !r->has_checkpoint || mpt_past_run_device(r->from.device) == MPT_DEVICE_CUDA;
    fflush(stdout);
    fprintf(stderr, "%s; %s was %s %s: go on %swith --device cpu%s\n",
            error ? error->text : mpt_status_text(MPT_NO_DEVICE),
            r->has_checkpoint ? r->from.path : r->run.folder.path,
            r->has_checkpoint ? "saved on" : "begun with",
            r->has_checkpoint ? r->from.device : "--device cuda",
            cuda ? "where there is a GPU, or here " : "",
            cuda && r->has_checkpoint ? ", whose sums round otherwise" : "");
    return MPT_EXIT_MACHINE;
}

static mpt_exit compile(resuming *r, const mpt_options *said) {
    mpt_training *run = &r->run;
    mpt_status status = load_and_compile(r);
    if (status == MPT_NOT_FOUND && !said->data)
        status = compile_from_origin(r, status);
    run->info = mpt_program_get_info(run->program);
    if (!said->data)
        run->origin = r->past.origin;
    if (status == MPT_OK)
        return MPT_EXIT_DONE;
    if (status == MPT_NO_DEVICE)
        return fail_no_device(r);
    mpt_exit result = mpt_cli_fail(run->ctx, status);
    if (status == MPT_NOT_FOUND)
        mpt_progress_note(run->progress,
                          "mptrun: the run was started where its data were found: go on from "
                          "there, or name them by --data");
    return result;
}

static bool has_ended(const resuming *r) {
    return r->has_checkpoint && r->from.step >= r->run.info.steps &&
           mpt_folder_has_ended(&r->run.folder, r->from.metrics_bytes);
}

/* ---- going on ---- */

static mpt_exit load(resuming *r) {
    mpt_load_checkpoint_options options = MPT_LOAD_CHECKPOINT_OPTIONS_INIT;
    options.allow_recipe_change = r->options.allow_recipe_change;
    mpt_exit result = mpt_training_create(&r->run);
    if (result != MPT_EXIT_DONE || !r->has_checkpoint)
        return result;
    mpt_status status = mpt_trainer_load_checkpoint(r->run.trainer, r->from.path, &options);
    return status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(r->run.ctx, status);
}

/* Whether the command line says something of the run itself. */
static bool says_of_run(const mpt_options *said) {
    return said->n_sets > 0 || said->data || said->device != MPT_DEVICE_AUTO;
}

/* What a run begins with is no change of it, nor what an earlier resume had changed behind the
 * step that this one goes on from. */
static void note_change(resuming *r, const mpt_options *said, int64_t step) {
    bool other = said->allow_recipe_change && (said->n_sets > 0 || said->data);
    bool moved = r->has_checkpoint && strcmp(r->from.device, r->run.info.device) != 0;
    bool before = r->past.changed > 0 && r->past.changed <= step;
    r->run.changed = before ? r->past.changed : other || moved ? step : 0;
}

/* From here on the folder is changed. What the command line says is part of the run now, so the
 * next resume finds it there. */
static mpt_exit open_folder(resuming *r, const mpt_options *said) {
    int64_t lost = 0, step = r->has_checkpoint ? r->from.step : 0;
    int64_t bytes = r->has_checkpoint ? r->from.metrics_bytes : 0;
    mpt_exit result = MPT_EXIT_DONE;
    note_change(r, said, step);
    if (says_of_run(said))
        result = mpt_training_describe(&r->run);
    if (result == MPT_EXIT_DONE)
        result = mpt_folder_go_on(&r->run.folder, step, bytes, &lost);
    if (lost > 0)
        mpt_progress_note(
            r->run.progress,
            "mptrun: warning: %s/metrics.jsonl lacks its last %lld bytes before the "
            "checkpoint; it goes on without them",
            r->run.folder.path, (long long)lost);
    r->run.first = step;
    r->run.last.step = step - 1;
    r->run.last.tokens = r->has_checkpoint ? (double)r->from.tokens : 0;
    if (result == MPT_EXIT_DONE && !said->quiet)
        mpt_progress_note(r->run.progress, "mptrun: %s goes on after step %lld of %lld",
                          r->run.folder.path, (long long)step, (long long)r->run.info.steps);
    if (result == MPT_EXIT_DONE && r->has_checkpoint && r->from.gave_up)
        mpt_progress_note(
            r->run.progress,
            "mptrun: warning: %s is no good checkpoint but the state in which training had "
            "stopped itself; without a change it stops again, so begin anew with what "
            "%s/" MPT_FOLDER_DIAGNOSIS " advised, and with train.checkpoint.every",
            r->from.path, r->run.folder.path);
    return result;
}

/* What the command line says of a run that has ended is judged as of any other, and then has no
 * step to take effect in. */
static mpt_exit tell_end(resuming *r, const mpt_options *said) {
    bool beyond = r->from.step > r->run.info.steps;
    bool changes = says_of_run(said);
    if ((said->n_sets > 0 || said->data) && !said->allow_recipe_change) {
        mpt_exit result = load(r);
        if (result != MPT_EXIT_DONE)
            return result;
    }
    printf(beyond ? "%s has ended: %lld steps are done, and the recipe has %lld"
                  : "%s has ended: %lld of %lld steps are done",
           r->run.folder.path, (long long)r->from.step, (long long)r->run.info.steps);
    printf("%s\n", changes ? "; what the command line changes has no effect, for no step is "
                             "left: --set train.steps=N --allow-recipe-change takes more"
                           : "");
    return MPT_EXIT_DONE;
}

static mpt_exit resume(resuming *r, const mpt_options *said) {
    mpt_exit result = read_run(r, said);
    if (result == MPT_EXIT_DONE)
        result = compile(r, said);
    if (result == MPT_EXIT_DONE && has_ended(r))
        return tell_end(r, said);
    if (result == MPT_EXIT_DONE) {
        mpt_cli_warn(r->run.program, r->run.progress);
        mpt_cli_note_choices(&r->run.info, r->run.progress);
        result = load(r);
    }
    if (result == MPT_EXIT_DONE)
        result = open_folder(r, said);
    return result == MPT_EXIT_DONE ? mpt_training_go(&r->run) : result;
}

mpt_exit mpt_cli_resume(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    mpt_signals signals;
    resuming *r = calloc(1, sizeof *r);
    if (!r) {
        fprintf(stderr, "mptrun: out of memory\n");
        return MPT_EXIT_MACHINE;
    }
    r->run = (mpt_training){
        .ctx = ctx, .options = &r->options, .progress = progress, .signals = &signals};
    mpt_signals_begin(&signals, "step");
    mpt_exit result = resume(r, options);
    mpt_signals_end(&signals);
    mpt_exit closed = mpt_training_end(&r->run);
    mpt_program_destroy(r->run.program);
    mpt_recipe_destroy(r->run.recipe);
    free(r->past.text);
    free(r);
    return result != MPT_EXIT_DONE ? result : closed;
}
