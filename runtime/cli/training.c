/* One training run into a run folder, as run, resume, compare and sweep do it: the folder, one
 * loop over steps that a signal may end between two of them (signals.h), the result. */
#include "cli/training.h"

#include <math.h>
#include <string.h>

/* ---- the run folder ---- */

static bool write_file(void *ud, const char *text, size_t length) {
    return fwrite(text, 1, length, (FILE *)ud) == length;
}

/* recipe.lua as run: the text, and the command line's changes as comments after it, where they
 * move no line number. */
static mpt_exit write_recipe(mpt_training *r) {
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
static mpt_exit copy_files(mpt_training *r) {
    mpt_recipe_file file;
    mpt_exit made = MPT_EXIT_DONE;
    for (int i = 0; made == MPT_EXIT_DONE && mpt_recipe_get_file(r->recipe, i, &file); i++)
        made = mpt_folder_copy(&r->folder, file.name, file.text, file.length);
    return made;
}

static mpt_exit fill_folder(mpt_training *r) {
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

static mpt_status evaluate_between(mpt_training *r) {
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
    return status == MPT_OK ? mpt_events_eval(r->events, done, loss) : status;
}

static mpt_status one_step(mpt_training *r) {
    double tokens = (double)r->info.batch * (double)r->info.sequence;
    double start = mpt_cli_seconds();
    const char *phase = r->last.phase;
    mpt_status status = mpt_trainer_step(r->trainer, NULL, &r->last);
    double now = mpt_cli_seconds();
    if (status == MPT_OK)
        status = mpt_events_step(r->events, &r->last);
    if (status == MPT_OK)
        status = mpt_events_operands(r->events, r->trainer, r->last.step);
    if (status != MPT_OK)
        return status;
    r->n_done++;
    if (phase && strcmp(phase, r->last.phase) != 0 && !r->options->quiet)
        mpt_progress_note(r->progress, "step %lld: phase '%s' begins", (long long)r->last.step,
                          r->last.phase);
    mpt_progress_step(r->progress, &r->last, now - start, now);
    if (!mpt_folder_timing(&r->folder, r->last.step, now - start, tokens))
        return MPT_IO;
    return evaluate_between(r);
}

static mpt_status train(mpt_training *r) {
    mpt_status status = MPT_OK;
    mpt_progress_begin(r->progress, &r->info, r->options->quiet);
    r->began = mpt_cli_seconds();
    r->most = r->one_step ? 1 : INT64_MAX;
    mpt_signals_training(r->signals, true);
    while (status == MPT_OK && r->n_done < r->most && !mpt_trainer_done(r->trainer)) {
        if ((r->stopped_by = mpt_signals_asked(r->signals)))
            break;
        status = one_step(r);
    }
    mpt_signals_training(r->signals, r->part);
    mpt_progress_end(r->progress);
    return status;
}

/* ---- the result ---- */

/* The weights as they are now, in a folder of their own: other state of the run may lie beside
 * them. */
static mpt_status save_weights(mpt_training *r) {
    char path[MPT_FOLDER_PATH + 64];
    long long steps = r->n_done ? (long long)r->last.step + 1 : 0;
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld", r->folder.path, steps);
    r->saved = true;
    mpt_status status = mpt_trainer_save_weights(r->trainer, path, NULL);
    if (status == MPT_OK && !r->part)
        printf("weights in %s\n", path);
    return status;
}

/* ": 0.93 nats below the unigram entropy (4.18)"; nothing where the entropy is unknown. */
static void print_distance(double loss, double entropy, const char *lead, const char *name) {
    if (!isnan(entropy))
        printf("%s%.2f nats %s the %s (%.2f)", lead, fabs(entropy - loss),
               loss <= entropy ? "below" : "above", name, entropy);
}

static void print_loss(const mpt_training *r, double loss) {
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

static void print_result(const mpt_training *r, double loss, double seconds) {
    if (r->part)
        return;
    printf("%s: %s %s, %lld of %lld steps, %.0f tokens, %.1f s of training\n", r->info.recipe,
           r->info.model, r->info.size_name, (long long)r->n_done, (long long)r->info.steps,
           r->n_done ? r->last.tokens : 0.0, seconds);
    if (mpt_trainer_done(r->trainer))
        print_loss(r, loss);
    else if (r->n_done)
        printf("training loss of the last step %.4f nats a token\n", r->last.loss);
    printf("run folder %s\n", r->folder.path);
}

static mpt_status finish(mpt_training *r) {
    double loss = 0;
    double seconds = mpt_cli_seconds() - r->began;
    mpt_status status = MPT_OK;
    if (mpt_trainer_done(r->trainer)) {
        mpt_progress_validating(r->progress, r->info.steps);
        status = mpt_trainer_eval(r->trainer, 0, &loss);
        mpt_progress_end(r->progress);
        if (status == MPT_OK)
            status = mpt_events_eval(r->events, r->info.steps, loss);
    }
    if (status == MPT_OK)
        status = mpt_trainer_finish(r->trainer);
    if (status != MPT_OK && status != MPT_STOPPED)
        return status;
    print_result(r, loss, seconds);
    mpt_status saved = save_weights(r);
    if (r->stopped_by)
        mpt_progress_note(r->progress, "mptrun: stopped early, as %s asked",
                          mpt_signals_name(r->stopped_by));
    return saved == MPT_OK ? status : saved;
}

/* A failed write was said where it happened; everything else is in the context. */
static mpt_exit fail(mpt_training *r, mpt_status status) {
    mpt_exit result = MPT_EXIT_MACHINE;
    if (status != MPT_IO || !r->folder.failed)
        result = mpt_cli_fail(r->ctx, status);
    if (r->n_done > 0)
        mpt_progress_note(r->progress, "mptrun: %s holds the steps until then", r->folder.path);
    return result;
}

/* The page of the run, however it ended. */
static mpt_exit write_report(mpt_training *r, mpt_exit so_far) {
    mpt_status status = mpt_report_run(r->ctx, r->folder.path);
    if (status == MPT_OK)
        return so_far;
    mpt_exit failed = mpt_cli_fail(r->ctx, status);
    return so_far == MPT_EXIT_DONE ? failed : so_far;
}

/* Memory first: a run that is refused for it leaves no folder behind. */
mpt_exit mpt_training_run(mpt_training *r) {
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    options.metrics = mpt_folder_metrics;
    options.metrics_ud = &r->folder;
    options.telemetry = mpt_folder_telemetry;
    options.telemetry_ud = &r->folder;
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
    status = mpt_events_create(r->ctx, r->folder.path, &r->events);
    if (status == MPT_OK)
        status = train(r);
    if (status == MPT_OK)
        status = finish(r);
    mpt_exit result = status == MPT_OK ? MPT_EXIT_DONE : fail(r, status);
    if (status == MPT_STOPPED && !r->saved) { /* why it stopped was said first */
        mpt_status saved = save_weights(r);
        if (saved != MPT_OK)
            (void)mpt_cli_fail(r->ctx, saved);
    }
    return r->folder.failed ? result : write_report(r, result);
}

mpt_exit mpt_training_end(mpt_training *r) {
    mpt_events_destroy(r->events);
    mpt_trainer_destroy(r->trainer);
    r->events = NULL;
    r->trainer = NULL;
    return mpt_folder_end(&r->folder);
}
