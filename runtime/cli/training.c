/* One training run into a run folder, as run, resume, compare and sweep do it: the folder, one
 * loop over steps that a signal may end between two of them (signals.h), the result. */
#include "cli/training.h"

#include <math.h>
#include <string.h>

#include "cli/option_rows.h"
#include "mpt/checkpoint.h"
#include "mpt/watch.h"

/* ---- the run folder ---- */

static bool write_file(void *ud, const char *text, size_t length) {
    return fwrite(text, 1, length, (FILE *)ud) == length;
}

/* The recipe's text, without the options of a run that it may have been copied from. */
static void write_text(const char *text, FILE *file) {
    const char *end = NULL;
    for (const char *at = text; at && (at = strstr(at, MPT_FOLDER_AS_RUN)) != NULL; at++)
        end = at;
    if (text)
        fwrite(text, 1, end ? (size_t)(end - text) : strlen(text), file);
}

static void write_options(const mpt_training *r, FILE *file) {
    const mpt_options *o = r->options;
    bool chosen = o->model >= 0 || r->info.proxy || *r->info.why;
    bool of_files = o->data || o->weights || r->info.data_run;
    if (o->n_sets > 0 || of_files || o->n_inject > 0 || chosen || r->changed > 0 ||
        o->device != MPT_DEVICE_AUTO)
        fputs(MPT_FOLDER_AS_RUN, file);
    for (int i = 0; i < o->n_sets; i++)
        fprintf(file, "--   --set %s=%s\n", o->sets[i].path, o->sets[i].value);
    if (o->data)
        fprintf(file, "--   --data %s\n", o->data);
    if (chosen)
        fprintf(file, "--   --model %s\n", r->info.proxy ? "proxy" : "full");
    if (o->device != MPT_DEVICE_AUTO)
        fprintf(file, "--   --device %s\n", mpt_device_words[o->device]);
    if (o->weights)
        fprintf(file, "--   --weights %s\n", o->weights);
    for (int i = 0; i < o->n_inject; i++)
        fprintf(file, "--   --inject %s\n", o->inject[i]);
    if (r->changed > 0)
        fprintf(file, MPT_FOLDER_CHANGED "%lld\n", (long long)r->changed);
    for (int i = 0; of_files && i < r->origin.n; i++)
        fprintf(file, "--   from %s\n", r->origin.path[i]);
}

/* recipe.lua as run: the text, and the command line's changes as comments after it, where they
 * move no line number. */
static mpt_exit write_recipe(mpt_training *r) {
    FILE *file;
    mpt_exit opened = mpt_folder_begin(&r->folder, "recipe.lua", &file);
    if (opened != MPT_EXIT_DONE)
        return opened;
    write_text(mpt_recipe_source(r->recipe), file);
    write_options(r, file);
    return mpt_folder_name(&r->folder, "recipe.lua", file);
}

/* What the recipe required goes along: in the folder it means the same for ever. */
static mpt_exit copy_files(mpt_training *r) {
    mpt_recipe_file file;
    mpt_exit made = MPT_EXIT_DONE;
    for (int i = 0; made == MPT_EXIT_DONE && mpt_recipe_get_file(r->recipe, i, &file); i++)
        made = mpt_folder_copy(&r->folder, file.name, file.text, file.length);
    return made;
}

static mpt_exit write_plan(mpt_training *r) {
    FILE *file;
    mpt_exit made = mpt_folder_begin(&r->folder, "plan.json", &file);
    if (made != MPT_EXIT_DONE)
        return made;
    mpt_status status = mpt_program_print(r->program, MPT_PRINT_JSON, NULL, write_file, file);
    made = mpt_folder_name(&r->folder, "plan.json", file);
    return status != MPT_OK && status != MPT_IO ? mpt_cli_fail(r->ctx, status) : made;
}

mpt_exit mpt_training_describe(mpt_training *r) {
    if (r->origin.n == 0)
        mpt_origin_find(&r->origin, r->recipe_path);
    mpt_exit made = write_plan(r);
    return made == MPT_EXIT_DONE ? write_recipe(r) : made;
}

static mpt_exit fill_folder(mpt_training *r) {
    mpt_exit made = mpt_folder_create(&r->folder, r->options->out, r->info.recipe);
    if (made == MPT_EXIT_DONE)
        made = copy_files(r);
    return made == MPT_EXIT_DONE ? mpt_training_describe(r) : made;
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
        mpt_progress_note(r->progress, "validation loss after %lld steps %.4f", (long long)done,
                          loss);
    return status == MPT_OK ? mpt_events_eval(r->events, done, loss) : status;
}

/* Between two steps. The metrics are on the disk before a checkpoint that counts on them. */
static mpt_status save_if_due(mpt_training *r) {
    if (mpt_trainer_checkpoint_due(r->trainer) && !mpt_folder_sync(&r->folder))
        return MPT_IO;
    return mpt_trainer_checkpoint(r->trainer, false);
}

/* What the run folder holds of a step beside its metrics, also of the one that ended the run.
 */
static mpt_status record_step(mpt_training *r, double seconds) {
    double tokens = (double)r->info.batch * (double)r->info.sequence;
    r->n_done++;
    mpt_status status = mpt_events_scalar(r->events, "train/tokens_per_s", r->last.step,
                                          (float)(tokens / fmax(seconds, 1e-9)));
    if (status == MPT_OK)
        status = mpt_events_step(r->events, &r->last);
    if (status == MPT_OK)
        status = mpt_events_operands(r->events, r->trainer, r->last.step);
    if (status == MPT_OK && !mpt_folder_timing(&r->folder, r->last.step, seconds, tokens))
        status = MPT_IO;
    return status;
}

static mpt_status one_step(mpt_training *r) {
    double start = mpt_cli_seconds();
    const char *phase = r->last.phase;
    mpt_status status = mpt_trainer_step(r->trainer, NULL, &r->last);
    double now = mpt_cli_seconds();
    if (status != MPT_OK && status != MPT_STOPPED)
        return status;
    mpt_status recorded = record_step(r, now - start);
    if (recorded != MPT_OK || status == MPT_STOPPED)
        return recorded != MPT_OK ? recorded : status;
    if (phase && strcmp(phase, r->last.phase) != 0 && !r->options->quiet)
        mpt_progress_note(r->progress, "step %lld: phase '%s' begins", (long long)r->last.step,
                          r->last.phase);
    mpt_progress_step(r->progress, &r->last, now - start, now);
    status = evaluate_between(r);
    return status == MPT_OK ? save_if_due(r) : status;
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

static int64_t steps_done(const mpt_training *r) {
    return r->first + r->n_done;
}

/* The state as it is now, where the last step has not saved it. */
static mpt_status save_now(mpt_training *r) {
    r->saved = true;
    if (!mpt_folder_sync(&r->folder))
        return MPT_IO;
    return mpt_trainer_checkpoint(r->trainer, true);
}

static void print_saved(const mpt_training *r) {
    printf("weights in %s/checkpoints/step-%lld\n", r->folder.path, (long long)steps_done(r));
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

/* Where results go: of one run of several, stdout is kept for what comes of all of them. */
static FILE *results(const mpt_training *r) {
    return r->part ? stderr : stdout;
}

/* What the watch has seen; nothing where all was well. */
static void print_watch(const mpt_training *r) {
    FILE *out = results(r);
    mpt_watch_view w;
    if (!mpt_trainer_watch(r->trainer, &w) ||
        (w.skipped + w.spikes + w.near_end == 0 && w.high_since < 0))
        return;
    fprintf(out, "watch: %lld skipped, %lld spike%s (%lld left out, %lld rollback%s)",
            (long long)w.skipped, (long long)w.spikes, w.spikes == 1 ? "" : "s",
            (long long)w.left_out, (long long)w.rollbacks, w.rollbacks == 1 ? "" : "s");
    if (w.near_end > 0)
        fprintf(out, ", %lld steps near the end of FP16", (long long)w.near_end);
    if (w.high_since >= 0)
        fprintf(out, ", a loss far above the first since step %lld", (long long)w.high_since);
    fprintf(out, "\n");
}

static void print_result(const mpt_training *r, double seconds, double loss) {
    if (r->part)
        return;
    printf("%s: %s %s, %lld of %lld steps, %.0f tokens, %.1f s of training on %s\n",
           r->info.recipe, r->info.model, r->info.size_name, (long long)steps_done(r),
           (long long)r->info.steps, r->last.tokens, seconds, r->info.device);
    if (mpt_trainer_done(r->trainer))
        print_loss(r, loss);
    else if (r->n_done)
        printf("training loss of the last step %.4f nats a token\n", r->last.loss);
    print_watch(r);
    printf("run folder %s\n", r->folder.path);
    print_saved(r);
}

/* An early end is saved before the metrics' last line, which a run that goes on from there
 * takes away again. */
static mpt_status finish(mpt_training *r) {
    double loss = 0;
    double seconds = mpt_cli_seconds() - r->began;
    mpt_status status = save_now(r);
    if (status == MPT_OK && mpt_trainer_done(r->trainer)) {
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
    print_result(r, seconds, loss);
    if (r->stopped_by)
        mpt_progress_note(r->progress, "mptrun: stopped early, as %s asked",
                          mpt_signals_name(r->stopped_by));
    return status;
}

/* A signal came before the first step: there is nothing to save, and the folder begins anew or
 * goes on from where it was. The status is the signal's, as it is before training; of several
 * runs, who runs them tells. */
static mpt_exit end_unbegun(mpt_training *r) {
    mpt_progress_note(
        r->progress,
        "mptrun: ended before its first step, as %s asked; mptrun resume %s goes on",
        mpt_signals_name(r->stopped_by), r->folder.path);
    return r->part ? MPT_EXIT_DONE : (mpt_exit)(128 + r->stopped_by);
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

/* ---- giving up ---- */

static mpt_exit write_diagnosis(mpt_training *r) {
    FILE *file;
    mpt_exit made = mpt_folder_begin(&r->folder, MPT_FOLDER_DIAGNOSIS, &file);
    if (made != MPT_EXIT_DONE)
        return made;
    mpt_status status = mpt_trainer_diagnosis(r->trainer, write_file, file);
    made = mpt_folder_name(&r->folder, MPT_FOLDER_DIAGNOSIS, file);
    return status != MPT_OK && status != MPT_IO ? mpt_cli_fail(r->ctx, status) : made;
}

/* Training has stopped itself. A good checkpoint stays the newest, to go on from; where there
 * is none yet, the state as it is may help to find out, and says of itself what it is. Why it
 * stopped was said first. */
static void give_up(mpt_training *r, const char *checkpoints) {
    mpt_checkpoint_info good;
    (void)write_diagnosis(r);
    if (!r->saved || r->part) /* else the result has it */
        print_watch(r);
    if (r->saved)
        return;
    mpt_status found = mpt_checkpoint_find(r->ctx, checkpoints, &good);
    if (found == MPT_OK && !good.gave_up) {
        fprintf(results(r), "the last good checkpoint is %s\n", good.path);
        return;
    }
    mpt_status saved = save_now(r);
    if (saved == MPT_OK)
        fprintf(results(r),
                "no good checkpoint: %s/step-%lld is the state in which training stopped\n",
                checkpoints, (long long)r->last.step + 1);
    else
        (void)mpt_cli_fail(r->ctx, saved);
}

/* The page of the run, however it ended. */
static mpt_exit write_report(mpt_training *r, mpt_exit so_far) {
    mpt_status status = mpt_report_run(r->ctx, r->folder.path);
    if (status == MPT_OK)
        return so_far;
    mpt_exit failed = mpt_cli_fail(r->ctx, status);
    return so_far == MPT_EXIT_DONE ? failed : so_far;
}

mpt_exit mpt_training_create(mpt_training *r) {
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
    return status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(r->ctx, status);
}

mpt_exit mpt_training_go(mpt_training *r) {
    char checkpoints[MPT_FOLDER_PATH + 16], before[MPT_FOLDER_PATH + 16];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", r->folder.path);
    snprintf(before, sizeof before, "%s/" MPT_FOLDER_DIAGNOSIS, r->folder.path);
    (void)remove(before); /* of the run that goes on: it may end well this time */
    mpt_status status = mpt_trainer_set_checkpoints(r->trainer, checkpoints);
    if (status == MPT_OK)
        status = mpt_events_create(r->ctx, r->folder.path, &r->events);
    if (status == MPT_OK) /* the line of the checkpoint that the run goes on from */
        status = mpt_trainer_checkpoint(r->trainer, false);
    if (status == MPT_OK)
        status = train(r);
    if (status == MPT_OK && r->stopped_by && r->n_done == 0)
        return end_unbegun(r);
    if (status == MPT_OK)
        status = finish(r);
    mpt_exit result = status == MPT_OK ? MPT_EXIT_DONE : fail(r, status);
    if (status == MPT_STOPPED)
        give_up(r, checkpoints);
    return result == MPT_EXIT_MACHINE ? result : write_report(r, result);
}

/* Memory first: a run that is refused for it leaves no folder behind. */
mpt_exit mpt_training_run(mpt_training *r) {
    mpt_exit made = mpt_training_create(r);
    if (made != MPT_EXIT_DONE)
        return made;
    made = fill_folder(r);
    if (made != MPT_EXIT_DONE)
        mpt_folder_discard(&r->folder, r->recipe);
    return made == MPT_EXIT_DONE ? mpt_training_go(r) : made;
}

mpt_exit mpt_training_end(mpt_training *r) {
    mpt_events_destroy(r->events);
    mpt_trainer_destroy(r->trainer);
    r->events = NULL;
    r->trainer = NULL;
    return mpt_folder_end(&r->folder);
}
