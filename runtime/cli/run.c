/* The run command. First the plan of the full model, then the program that is trained, the run
 * folder, and one loop over steps that a signal may end between two of them (signals.h). */
#include "cli/run.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "cli/colour.h"
#include "cli/folder.h"
#include "cli/signals.h"
#include "cli/tree.h"

typedef struct run {
    mpt_ctx *ctx;
    const mpt_options *options;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_program_info info;
    mpt_trainer *trainer;
    mpt_folder folder;
    mpt_progress *progress;
    mpt_step_result last;
    int64_t n_done, most; /* steps taken, and to be taken */
    mpt_signals signals;
    int stopped_by; /* a signal, or 0 */
    bool saved;     /* the weights were, or could not be */
    double began;
} run;

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
    bool cuda =
        options->device == MPT_CLI_DEVICE_CUDA; /* plan and check: options.c sees to it */
    compile.device = cuda ? MPT_DEVICE_AUTO : (mpt_device)options->device;
    compile.target = options->target >= 0 ? (mpt_target)options->target
                     : cuda               ? MPT_TARGET_SM100
                                          : MPT_TARGET_HOST;
    compile.n_threads = options->threads;
    compile.data = options->data;
    compile.own_tokens = options->tokens != NULL;
    return mpt_compile(recipe, &compile, out);
}

/* Shows the plan of the full model, or of the model that --model names. */
static mpt_status show_plan(run *r) {
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
static bool ends_before(const run *r, const char *stage) {
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
static bool only_dumps(const run *r) {
    return r->options->dump && !r->options->until;
}

static mpt_status prepare(run *r) {
    const mpt_options *o = r->options;
    mpt_status status = mpt_cli_load(r->ctx, o, o->words[0], &r->recipe);
    if (status != MPT_OK || (ends_before(r, "freeze") && !o->dump))
        return status;
    if (!only_dumps(r))
        status = show_plan(r);
    if (status == MPT_OK)
        status = mpt_cli_compile(r->recipe, o, MPT_MODEL_AUTO, &r->program);
    if (status != MPT_OK)
        return status;
    r->info = mpt_program_get_info(r->program);
    if (r->info.proxy && *r->info.why)
        mpt_progress_note(r->progress, "mptrun: %s", r->info.why);
    if (o->dump)
        status = mpt_program_print(r->program, MPT_PRINT_STAGE, o->dump, mpt_cli_write, NULL);
    fflush(stdout);
    return status;
}

/* ---- the run folder ---- */

static bool write_file(void *ud, const char *text, size_t length) {
    return fwrite(text, 1, length, (FILE *)ud) == length;
}

/* recipe.lua as run: the text, and the command line's changes as comments after it, where they
 * move no line number. */
static mpt_exit write_recipe(run *r) {
    FILE *file;
    const char *text = mpt_recipe_source(r->recipe);
    mpt_exit opened = mpt_folder_open(&r->folder, "recipe.lua", &file);
    if (opened != MPT_EXIT_DONE)
        return opened;
    fputs(text ? text : "", file);
    bool chosen = r->options->model >= 0 || r->info.proxy || *r->info.why;
    if (r->options->n_sets > 0 || r->options->data || r->options->weights ||
        r->options->n_inject > 0 || chosen)
        fputs(MPT_FOLDER_AS_RUN, file);
    for (int i = 0; i < r->options->n_sets; i++)
        fprintf(file, "--   --set %s=%s\n", r->options->sets[i].path,
                r->options->sets[i].value);
    if (r->options->data)
        fprintf(file, "--   --data %s\n", r->options->data);
    if (chosen)
        fprintf(file, "--   --model %s\n", r->info.proxy ? "proxy" : "full");
    if (r->options->weights)
        fprintf(file, "--   --weights %s\n", r->options->weights);
    for (int i = 0; i < r->options->n_inject; i++)
        fprintf(file, "--   --inject %s\n", r->options->inject[i]);
    return mpt_folder_close(&r->folder, file, "recipe.lua") ? MPT_EXIT_DONE : MPT_EXIT_MACHINE;
}

/* What the recipe required goes along: in the folder it means the same for ever. */
static mpt_exit copy_files(run *r) {
    mpt_recipe_file file;
    mpt_exit made = MPT_EXIT_DONE;
    for (int i = 0; made == MPT_EXIT_DONE && mpt_recipe_get_file(r->recipe, i, &file); i++)
        made = mpt_folder_copy(&r->folder, file.name, file.text, file.length);
    return made;
}

static mpt_exit fill_folder(run *r) {
    FILE *file;
    mpt_exit made = mpt_folder_create(&r->folder, r->options->out, r->info.recipe);
    if (made == MPT_EXIT_DONE)
        made = write_recipe(r);
    if (made == MPT_EXIT_DONE)
        made = copy_files(r);
    if (made == MPT_EXIT_DONE)
        made = mpt_folder_open(&r->folder, "plan.json", &file);
    if (made != MPT_EXIT_DONE)
        return made;
    mpt_status status = mpt_program_print(r->program, MPT_PRINT_JSON, NULL, write_file, file);
    bool closed = mpt_folder_close(&r->folder, file, "plan.json");
    if (status != MPT_OK && status != MPT_IO)
        return mpt_cli_fail(r->ctx, status);
    return closed && status == MPT_OK ? MPT_EXIT_DONE : MPT_EXIT_MACHINE;
}

/* ---- training ---- */

static mpt_status evaluate_between(run *r) {
    double loss;
    int64_t done = r->last.step + 1;
    if (r->info.eval_every <= 0 || done % r->info.eval_every != 0 ||
        mpt_trainer_done(r->trainer))
        return MPT_OK;
    mpt_progress_validating(r->progress, done);
    mpt_status status = mpt_trainer_eval(r->trainer, r->info.eval_batches, &loss);
    if (status == MPT_OK && !r->options->quiet)
        mpt_progress_note(r->progress, "step %lld: validation loss %.4f", (long long)done,
                          loss);
    return status;
}

static mpt_status one_step(run *r) {
    double tokens = (double)r->info.batch * (double)r->info.sequence;
    double start = mpt_cli_seconds();
    const char *phase = r->last.phase;
    mpt_status status = mpt_trainer_step(r->trainer, NULL, &r->last);
    if (status != MPT_OK)
        return status;
    double now = mpt_cli_seconds();
    r->n_done++;
    if (phase && strcmp(phase, r->last.phase) != 0 && !r->options->quiet)
        mpt_progress_note(r->progress, "step %lld: phase '%s' begins", (long long)r->last.step,
                          r->last.phase);
    mpt_progress_step(r->progress, &r->last, now - start, now);
    if (!mpt_folder_timing(&r->folder, r->last.step, now - start, tokens))
        return MPT_IO;
    return evaluate_between(r);
}

static mpt_status train(run *r) {
    mpt_status status = MPT_OK;
    mpt_progress_begin(r->progress, &r->info, r->options->quiet);
    r->began = mpt_cli_seconds();
    r->most = ends_before(r, "train") ? 1 : INT64_MAX;
    mpt_signals_training(&r->signals, true);
    while (status == MPT_OK && r->n_done < r->most && !mpt_trainer_done(r->trainer)) {
        if ((r->stopped_by = mpt_signals_asked(&r->signals)))
            break;
        status = one_step(r);
    }
    mpt_signals_training(&r->signals, false);
    mpt_progress_end(r->progress);
    return status;
}

/* ---- the result ---- */

/* The weights as they are now, in a folder of their own: other state of the run may lie beside
 * them. */
static mpt_status save_weights(run *r) {
    char path[MPT_FOLDER_PATH + 64];
    long long steps = r->n_done ? (long long)r->last.step + 1 : 0;
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld", r->folder.path, steps);
    r->saved = true;
    mpt_status status = mpt_trainer_save_weights(r->trainer, path, NULL);
    if (status == MPT_OK)
        printf("weights in %s\n", path);
    return status;
}

/* ": 0.93 nats below the unigram entropy (4.18)"; nothing where the entropy is unknown. */
static void print_distance(double loss, double entropy, const char *lead, const char *name) {
    if (!isnan(entropy))
        printf("%s%.2f nats %s the %s (%.2f)", lead, fabs(entropy - loss),
               loss <= entropy ? "below" : "above", name, entropy);
}

static void print_loss(const run *r, double loss) {
    if (r->info.eval_windows == 0 || !isfinite(loss)) {
        printf("%s\n", r->info.eval_windows == 0
                           ? "no validation loss: the data is too short to hold any back"
                       : isnan(loss) ? "validation loss NaN"
                                     : "validation loss Inf");
        return;
    }
    printf("validation loss %.4f nats a token", loss);
    print_distance(loss, r->info.unigram, ": ", "unigram entropy");
    print_distance(loss, r->info.floor, ", ", "floor");
    printf("\n");
}

static mpt_status finish(run *r) {
    double loss = 0;
    double seconds = mpt_cli_seconds() - r->began;
    mpt_status status = MPT_OK;
    if (mpt_trainer_done(r->trainer)) {
        mpt_progress_validating(r->progress, r->info.steps);
        status = mpt_trainer_eval(r->trainer, 0, &loss);
        mpt_progress_end(r->progress);
    }
    if (status == MPT_OK)
        status = mpt_trainer_finish(r->trainer);
    if (status != MPT_OK && status != MPT_STOPPED)
        return status;
    printf("%s: %s %s, %lld of %lld steps, %.0f tokens, %.1f s of training\n", r->info.recipe,
           r->info.model, r->info.size_name, (long long)r->n_done, (long long)r->info.steps,
           r->n_done ? r->last.tokens : 0.0, seconds);
    if (mpt_trainer_done(r->trainer))
        print_loss(r, loss);
    else if (r->n_done)
        printf("training loss of the last step %.4f nats a token\n", r->last.loss);
    printf("run folder %s\n", r->folder.path);
    mpt_status saved = save_weights(r);
    if (r->stopped_by)
        mpt_progress_note(r->progress, "mptrun: stopped early, as %s asked",
                          mpt_signals_name(r->stopped_by));
    return saved == MPT_OK ? status : saved;
}

/* A failed write was said where it happened; everything else is in the context. */
static mpt_exit fail(run *r, mpt_status status) {
    mpt_exit result = MPT_EXIT_MACHINE;
    if (status != MPT_IO || !r->folder.failed)
        result = mpt_cli_fail(r->ctx, status);
    if (r->n_done > 0)
        mpt_progress_note(r->progress, "mptrun: %s holds the steps until then", r->folder.path);
    return result;
}

/* Memory first: a run that is refused for it leaves no folder behind. */
static mpt_exit run_program(run *r) {
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    options.metrics = mpt_folder_metrics;
    options.metrics_ud = &r->folder;
    options.inject = r->options->inject;
    options.n_inject = r->options->n_inject;
    mpt_status status = mpt_trainer_create(r->program, &options, &r->trainer);
    if (status == MPT_OK && r->options->weights)
        status = mpt_trainer_load_weights(r->trainer, r->options->weights);
    if (status != MPT_OK)
        return mpt_cli_fail(r->ctx, status);
    mpt_exit filled = fill_folder(r);
    if (filled != MPT_EXIT_DONE)
        return filled;
    status = train(r);
    if (status == MPT_OK)
        status = finish(r);
    mpt_exit result = status == MPT_OK ? MPT_EXIT_DONE : fail(r, status);
    if (status == MPT_STOPPED && !r->saved) { /* why it stopped was said first */
        mpt_status saved = save_weights(r);
        if (saved != MPT_OK)
            (void)mpt_cli_fail(r->ctx, saved);
    }
    return result;
}

mpt_exit mpt_cli_run(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    run r = {.ctx = ctx, .options = options, .progress = progress};
    mpt_exit result = mpt_folder_check(options->out);
    if (result != MPT_EXIT_DONE)
        return result;
    mpt_signals_begin(&r.signals, "step");
    mpt_status status = prepare(&r);
    if (status != MPT_OK)
        result = mpt_cli_fail(ctx, status);
    else if (!only_dumps(&r) && !ends_before(&r, "run"))
        result = run_program(&r);
    mpt_signals_end(&r.signals);
    mpt_trainer_destroy(r.trainer);
    mpt_program_destroy(r.program);
    mpt_recipe_destroy(r.recipe);
    mpt_exit closed = mpt_folder_end(&r.folder);
    return result != MPT_EXIT_DONE ? result : closed;
}
