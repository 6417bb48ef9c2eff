/* Runs in turn and their comparison. See runs.h. */
#include "cli/runs.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"
#include "cli/training.h"

/* ---- members ---- */

bool mpt_runs_begin(mpt_runs *runs, int most_members) {
    size_t n_all = (size_t)most_members * (size_t)runs->n_seeds;
    runs->members = calloc((size_t)most_members, sizeof *runs->members);
    runs->runs = calloc(n_all, sizeof *runs->runs);
    if (runs->members && runs->runs)
        return true;
    fprintf(stderr, "mptrun: no memory for %zu runs\n", n_all);
    return false;
}

void mpt_runs_end(mpt_runs *runs) {
    mpt_signals_end(&runs->signals);
    for (int i = 0; runs->runs && i < runs->n_all; i++)
        free((void *)(uintptr_t)runs->runs[i].folder);
    free(runs->runs);
    free(runs->members);
}

static bool is_taken(const mpt_runs *runs, const char *name) {
    for (int i = 0; i < runs->n; i++)
        if (strcmp(runs->members[i].name, name) == 0)
            return true;
    return false;
}

/* The name is that of a folder, too. */
void mpt_runs_add(mpt_runs *runs, const char *path, const char *lift, const char *name) {
    mpt_member *member = &runs->members[runs->n];
    char plain[MPT_RUNS_NAME - 16];
    snprintf(plain, sizeof plain, "%s", *name ? name : "recipe");
    for (char *c = plain; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    plain[0] = plain[0] == '.' ? '_' : plain[0]; /* neither hidden nor above */
    member->path = path;
    member->lift = lift;
    snprintf(member->name, sizeof member->name, "%s", plain);
    for (int i = 2; is_taken(runs, member->name); i++)
        snprintf(member->name, sizeof member->name, "%s-%d", plain, i);
    runs->n++;
}

/* The command line of one run: what was given, then the lift, then its seed. */
static void set_options(const mpt_runs *runs, const mpt_member *member, const char *seed,
                        mpt_options *out) {
    *out = *runs->options;
    if (member->lift)
        out->sets[out->n_sets++] = (mpt_set){"precision.lift", member->lift};
    if (seed)
        out->sets[out->n_sets++] = (mpt_set){"train.seed", seed};
}

static mpt_status compile(const mpt_runs *runs, const mpt_member *member,
                          const mpt_options *options, mpt_recipe **out_recipe,
                          mpt_program **out_program) {
    *out_recipe = NULL;
    *out_program = NULL;
    mpt_status status = mpt_cli_load(runs->ctx, options, member->path, out_recipe);
    return status == MPT_OK ? mpt_cli_compile(*out_recipe, options, MPT_MODEL_AUTO, out_program)
                            : status;
}

mpt_status mpt_runs_compile(const mpt_runs *runs, const mpt_member *member,
                            mpt_recipe **out_recipe, mpt_program **out_program) {
    mpt_options options;
    set_options(runs, member, NULL, &options);
    return compile(runs, member, &options, out_recipe, out_program);
}

/* ---- training ---- */

/* Whether no member before it is of the same recipe, whose warnings are said once. */
static bool is_first_of(const mpt_runs *runs, const mpt_member *member) {
    for (const mpt_member *m = runs->members; m < member; m++)
        if (strcmp(m->path, member->path) == 0)
            return false;
    return true;
}

static mpt_exit train(mpt_runs *runs, const mpt_member *member, mpt_options *options,
                      int64_t *out_steps) {
    mpt_training run = {.ctx = runs->ctx,
                        .options = options,
                        .progress = runs->progress,
                        .signals = &runs->signals,
                        .recipe_path = member->path,
                        .part = true};
    mpt_exit result;
    mpt_status status = compile(runs, member, options, &run.recipe, &run.program);
    if (status == MPT_OK) {
        run.info = mpt_program_get_info(run.program);
        if (run.info.seed == runs->seed && is_first_of(runs, member))
            mpt_cli_warn(run.program, run.progress);
        result = mpt_training_run(&run);
    } else {
        result = mpt_cli_fail(runs->ctx, status);
    }
    runs->interrupted = run.stopped_by != 0;
    *out_steps = run.n_done;
    mpt_exit closed = mpt_training_end(&run);
    mpt_program_destroy(run.program);
    mpt_recipe_destroy(run.recipe);
    return result != MPT_EXIT_DONE ? result : closed;
}

/* A run that ended before its first line was not begun. */
mpt_exit mpt_runs_train(mpt_runs *runs, int index, uint64_t seed) {
    const mpt_member *member = &runs->members[index];
    mpt_compare_run *one = &runs->runs[(seed - runs->seed) * (uint64_t)runs->n];
    mpt_options options;
    char seed_text[32];
    int64_t n_steps = 0;
    double began = mpt_cli_seconds();
    one += index;
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
    set_options(runs, member, seed_text, &options);
    options.out = one->folder;
    runs->n_begun++;
    if (!runs->options->quiet)
        mpt_progress_note(runs->progress, "run %d of %d: %s, seed %s", runs->n_begun,
                          runs->n_all, member->name, seed_text);
    mpt_exit result = train(runs, member, &options, &n_steps);
    runs->seconds += mpt_cli_seconds() - began;
    one->not_begun = n_steps == 0;
    runs->last = n_steps > 0 ? one->folder : NULL;
    return result == MPT_EXIT_STOPPED && n_steps > 0 ? MPT_EXIT_DONE : result;
}

/* ---- all that will be ---- */

static bool list_runs(mpt_runs *runs) {
    size_t size = MPT_FOLDER_PATH + MPT_RUNS_NAME + 32;
    for (int i = 0; i < runs->n_all; i++) {
        const mpt_member *member = &runs->members[i % runs->n];
        uint64_t seed = runs->seed + (uint64_t)(i / runs->n);
        char *folder = malloc(size);
        if (!folder) {
            fprintf(stderr, "mptrun: no memory for the name of a folder\n");
            return false;
        }
        snprintf(folder, size, "%s/%s/seed-%llu", runs->folder.path, member->name,
                 (unsigned long long)seed);
        runs->runs[i] = (mpt_compare_run){.folder = folder,
                                          .name = member->name,
                                          .recipe = i % runs->n,
                                          .seed = seed,
                                          .not_begun = true};
    }
    return true;
}

static mpt_status compare(const mpt_runs *runs, bool sweep, mpt_comparison **out) {
    mpt_compare_options options = MPT_COMPARE_OPTIONS_INIT;
    options.within = runs->options->within;
    options.sweep = sweep;
    return mpt_comparison_create(runs->ctx, runs->runs, runs->n_all, &options, out);
}

mpt_exit mpt_runs_start(mpt_runs *runs, const char *name, bool sweep) {
    mpt_comparison *comparison = NULL;
    char path[MPT_RUNS_PATH];
    mpt_exit made = mpt_folder_make(&runs->folder, runs->options->out, name);
    if (made != MPT_EXIT_DONE)
        return made;
    if (!list_runs(runs))
        return MPT_EXIT_MACHINE;
    snprintf(path, sizeof path, "%s/" MPT_RUNS_INDEX, runs->folder.path);
    mpt_status status = compare(runs, sweep, &comparison);
    if (status == MPT_OK)
        status = mpt_comparison_write_index(comparison, path);
    mpt_comparison_destroy(comparison);
    return status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(runs->ctx, status);
}

/* ---- the result ---- */

static mpt_exit exit_of(const mpt_comparison *comparison, const mpt_options *options) {
    mpt_comparison_row row;
    bool bound = options->within >= 0;
    if (bound && !mpt_comparison_get(comparison, 1, &row))
        return MPT_EXIT_STOPPED; /* a bound that nothing was held against is not kept */
    for (int i = 0; mpt_comparison_get(comparison, i, &row); i++)
        if (row.outcome == MPT_COMPARE_BROKE || row.outcome == MPT_COMPARE_BEYOND ||
            (bound && (row.outcome == MPT_COMPARE_UNFINISHED || row.empty_label ||
                       isnan(row.final_loss))))
            return MPT_EXIT_STOPPED;
    return MPT_EXIT_DONE;
}

mpt_exit mpt_runs_print(mpt_ctx *ctx, const mpt_comparison *comparison, const char *folder,
                        const mpt_options *options) {
    char page[MPT_RUNS_PATH];
    snprintf(page, sizeof page, "%s/compare.html", folder);
    mpt_status status = mpt_comparison_print(comparison, options->json, mpt_cli_write, NULL);
    if (status == MPT_OK)
        status = mpt_comparison_write_page(comparison, page);
    if (status == MPT_OK && !options->json)
        printf("\nreport in %s\n", page);
    return status == MPT_OK ? exit_of(comparison, options) : mpt_cli_fail(ctx, status);
}

/* Which run can be finished by itself, after a signal. */
static void say_stopped(const mpt_runs *runs) {
    mpt_progress_note(runs->progress, "mptrun: stopped early, in run %d of %d", runs->n_begun,
                      runs->n_all);
    if (runs->last)
        mpt_progress_note(runs->progress,
                          "mptrun: mptrun resume %s finishes that one, mptrun report %s then "
                          "compares anew",
                          runs->last, runs->folder.path);
}

mpt_exit mpt_runs_tell(mpt_runs *runs, bool sweep) {
    mpt_comparison *comparison = NULL;
    bool any = false;
    for (int i = 0; i < runs->n_all; i++)
        any = any || (runs->runs[i].folder && !runs->runs[i].not_begun);
    if (!any)
        return MPT_EXIT_DONE;
    mpt_status status = compare(runs, sweep, &comparison);
    mpt_exit result = status == MPT_OK ? mpt_runs_print(runs->ctx, comparison,
                                                        runs->folder.path, runs->options)
                                       : mpt_cli_fail(runs->ctx, status);
    if (runs->interrupted)
        say_stopped(runs);
    mpt_comparison_destroy(comparison);
    return result;
}
