/* Writing checkpoints, and taking old ones away.
 *
 * A folder step-N.part is filled, each file synced, and gets its name in one rename; only then
 * are older ones removed, each by a rename to step-N.old before its first file goes. So at any
 * moment what is called step-N is whole, and what is not is known by its name and swept out by
 * the next run that saves here. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dir.h"
#include "io/file.h"

/* ---- the files of one ---- */

static mpt_status write_rows(const mpt_saved *list, const char *path) {
    static const char *const metadata[] = {"format", "mpt", NULL};
    mpt_safetensors_writer *writer;
    size_t bytes = mpt_size_mul((size_t)list->n, sizeof(mpt_tensor_spec));
    mpt_tensor_spec *specs = mpt_alloc(list->ctx, bytes);
    if (!specs)
        return mpt_fail_memory(list->ctx, bytes);
    for (int i = 0; i < list->n; i++) {
        const mpt_saved_row *row = &list->rows[i];
        specs[i] = (mpt_tensor_spec){.name = row->name, .type = row->type, .rank = row->rank};
        memcpy(specs[i].dims, row->dims, sizeof row->dims);
    }
    mpt_status status =
        mpt_safetensors_create(list->ctx, path, specs, list->n, metadata, &writer);
    mpt_free(list->ctx, specs);
    if (status != MPT_OK)
        return status;
    for (int i = 0; i < list->n; i++)
        if (list->rows[i].bytes > 0)
            memcpy(mpt_safetensors_data(writer, i), list->rows[i].data, list->rows[i].bytes);
    return mpt_safetensors_commit(writer);
}

/* The rows borrow the trainer's memory, and saving only reads it. */
static mpt_status write_state(const mpt_trainer *trainer, const char *folder) {
    char path[4200];
    mpt_saved list;
    MPT_TRY(mpt_state_see(trainer->state, MPT_STATE_MOMENTS | MPT_STATE_SCALES));
    mpt_saved_init(&list, trainer->ctx);
    snprintf(path, sizeof path, "%s/" MPT_CHECKPOINT_STATE, folder);
    mpt_status status = mpt_trainer_saved((mpt_trainer *)(uintptr_t)trainer, &list);
    if (status == MPT_OK)
        status = write_rows(&list, path);
    mpt_saved_deinit(&list);
    return status;
}

static mpt_status write_files(const mpt_trainer *trainer, const char *folder) {
    json_t *manifest = NULL;
    MPT_TRY(mpt_trainer_save_weights(trainer, folder, NULL));
    MPT_TRY(write_state(trainer, folder));
    mpt_status status = mpt_manifest_make(trainer, &manifest);
    if (status == MPT_OK)
        status = mpt_manifest_write(trainer->ctx, folder, manifest);
    json_decref(manifest);
    return status;
}

/* ---- one folder ---- */

/* Nothing was lost; only the sweeping of what was half made has failed, or there is none. */
static void sweep(mpt_ctx *ctx, const char *path) {
    char text[MPT_ERROR_TEXT], hint[MPT_ERROR_HINT];
    mpt_error kept = *mpt_ctx_error(ctx);
    snprintf(text, sizeof text, "%s", kept.text ? kept.text : "");
    snprintf(hint, sizeof hint, "%s", kept.hint ? kept.hint : "");
    if (mpt_dir_remove(ctx, path, path) == MPT_OK || !*text)
        return;
    (void)mpt_fail(ctx, kept.code, MPT_NOWHERE, kept.c_file, kept.c_line, "%s", text);
    if (*hint)
        mpt_hint(ctx, "%s", hint);
}

/* Whatever the system said, for the run it is a disk that failed: the message says which file.
 */
static mpt_status fail_save(mpt_ctx *ctx, mpt_status status, int64_t step) {
    char text[MPT_ERROR_TEXT], hint[MPT_ERROR_HINT];
    const mpt_error *error = mpt_ctx_error(ctx);
    if (status == MPT_OUT_OF_MEMORY || status == MPT_INTERNAL)
        return status;
    snprintf(text, sizeof text, "%s", error->text);
    snprintf(hint, sizeof hint, "%s", error->hint);
    status = MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE,
                      "the checkpoint after step %" PRId64 " was not saved: %s", step, text);
    mpt_hint(ctx, "%s%sthe checkpoints before it are as they were", hint, *hint ? "; " : "");
    return status;
}

static mpt_status save(const mpt_trainer *trainer, const char *folder) {
    char path[4100], part[4110];
    mpt_ctx *ctx = trainer->ctx;
    bool made;
    snprintf(path, sizeof path, "%s/step-%" PRId64, folder, trainer->attempted);
    snprintf(part, sizeof part, "%s.part", path);
    MPT_TRY(mpt_file_make_folder(ctx, folder, &made));
    mpt_status status = mpt_dir_make(ctx, part);
    if (status == MPT_OK)
        status = write_files(trainer, part);
    if (status != MPT_OK) {
        sweep(ctx, part);
        return status;
    }
    /* Where this fails, the two folders stay: which of them has which name may not be on the
     * disk yet. Else what is swept out is what had the name before. */
    MPT_TRY(mpt_dir_publish(ctx, part, path));
    sweep(ctx, part);
    return MPT_OK;
}

mpt_status mpt_trainer_save_checkpoint(const mpt_trainer *trainer, const char *folder) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, folder);
    if (strlen(folder) >= MPT_CHECKPOINTS_PATH)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: folder: a path of %zu bytes is too long", __func__,
                        strlen(folder));
    mpt_status status = save(trainer, folder);
    return status == MPT_OK ? MPT_OK : fail_save(trainer->ctx, status, trainer->attempted);
}

/* ---- the folder of a run ---- */

int64_t mpt_checkpoint_step(const char *name) {
    int64_t step = 0;
    if (strncmp(name, "step-", 5) != 0 || !name[5] || strlen(name + 5) > 18)
        return -1;
    for (const char *digit = name + 5; *digit; digit++) {
        if (*digit < '0' || *digit > '9')
            return -1;
        step = step * 10 + (*digit - '0');
    }
    return step;
}

/* "step-12.part" and "step-12.old": what a run that was ended has left half done. */
static bool is_leftover(const char *name) {
    char step[64];
    const char *dot = strchr(name, '.');
    if (!dot || dot - name > 40 || (strcmp(dot, ".part") != 0 && strcmp(dot, ".old") != 0))
        return false;
    snprintf(step, sizeof step, "%.*s", (int)(dot - name), name);
    return mpt_checkpoint_step(step) >= 0;
}

/* What is not removed is no loss, so it is no failure: it is said. */
static void warn_of_rest(const mpt_trainer *trainer, mpt_status status) {
    if (status != MPT_OK)
        mpt_log(trainer->ctx, MPT_LOG_WARNING, "an old checkpoint stays: %s",
                mpt_ctx_error(trainer->ctx)->message);
}

static void remove_one(const mpt_trainer *trainer, const char *name, const char *ending) {
    char path[4300], aside[4310];
    snprintf(path, sizeof path, "%s/%s", trainer->checkpoints, name);
    snprintf(aside, sizeof aside, "%s%s", path, ending);
    warn_of_rest(trainer, mpt_dir_remove(trainer->ctx, path, aside));
}

static mpt_status list(mpt_arena *arena, const mpt_trainer *trainer, mpt_dir_names *out) {
    mpt_arena_init(arena, trainer->ctx);
    return mpt_dir_list(arena, trainer->checkpoints, out);
}

static void remove_leftovers(const mpt_trainer *trainer) {
    mpt_arena arena;
    mpt_dir_names names;
    mpt_status status = list(&arena, trainer, &names);
    for (int i = 0; i < names.n && status == MPT_OK; i++)
        if (is_leftover(names.names[i]))
            remove_one(trainer, names.names[i], "");
    warn_of_rest(trainer, status);
    mpt_arena_deinit(&arena);
}

static bool owns(mpt_trainer *trainer) {
    if (!trainer->owns && trainer->loaded_in)
        trainer->owns = mpt_file_same(trainer->loaded_in, trainer->checkpoints);
    return trainer->owns;
}

/* A run that has neither written nor read a checkpoint here must find none: the next one to
 * resume could not tell which are whose, and old ones are removed. */
static mpt_status refuse_others(mpt_trainer *trainer) {
    mpt_arena arena;
    mpt_dir_names names;
    mpt_status status = list(&arena, trainer, &names);
    for (int i = 0; i < names.n && status == MPT_OK && !owns(trainer); i++) {
        if (mpt_checkpoint_step(names.names[i]) < 0)
            continue;
        status = MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                          "%s: holds checkpoints of another run, %s for one",
                          trainer->checkpoints, names.names[i]);
        mpt_hint(trainer->ctx, "name an empty folder, or go on from its newest checkpoint");
    }
    mpt_arena_deinit(&arena);
    return status;
}

static int newest_first(const void *a, const void *b) {
    int64_t x = mpt_checkpoint_step(*(const char *const *)a);
    int64_t y = mpt_checkpoint_step(*(const char *const *)b);
    return (x < y) - (x > y);
}

/* After step N was saved: what lies ahead of it was left behind by going on from an earlier
 * one, and is no part of this run; of the others the newest `keep` stay. */
static void remove_old(const mpt_trainer *trainer) {
    int64_t keep = trainer->program->train.checkpoint.keep, kept = 0;
    mpt_arena arena;
    mpt_dir_names names;
    mpt_status status = list(&arena, trainer, &names);
    if (status == MPT_OK && names.n > 1)
        qsort((void *)names.names, (size_t)names.n, sizeof *names.names, newest_first);
    for (int i = 0; i < names.n && status == MPT_OK; i++) {
        int64_t step = mpt_checkpoint_step(names.names[i]);
        if (step < 0)
            continue;
        bool ahead = step > trainer->attempted;
        kept += !ahead;
        if (ahead || (keep > 0 && kept > keep))
            remove_one(trainer, names.names[i], ".old");
    }
    warn_of_rest(trainer, status);
    mpt_arena_deinit(&arena);
}

mpt_status mpt_trainer_set_checkpoints(mpt_trainer *trainer, const char *folder) {
    char *copy = NULL;
    MPT_REQUIRE_OBJECT(trainer);
    size_t bytes = folder ? strlen(folder) + 1 : 0;
    if (bytes == 1 || bytes > MPT_CHECKPOINTS_PATH)
        return MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                        "%s: folder: a path of %zu bytes, expected 1 to %d", __func__,
                        bytes - 1, MPT_CHECKPOINTS_PATH - 1);
    if (folder) {
        copy = mpt_alloc(trainer->ctx, bytes);
        if (!copy)
            return mpt_fail_memory(trainer->ctx, bytes);
        memcpy(copy, folder, bytes);
    }
    mpt_free(trainer->ctx, trainer->checkpoints);
    trainer->checkpoints = copy;
    trainer->swept = trainer->owns = false;
    return MPT_OK;
}

/* ---- when one is due ---- */

bool mpt_trainer_checkpoint_due(const mpt_trainer *trainer) {
    if (!trainer)
        return false;
    int64_t every = trainer->program->train.checkpoint.every;
    bool step = every > 0 && trainer->attempted > 0 && trainer->attempted % every == 0;
    bool put_off = trainer->watch.counts.checkpoint_due != 0;
    return ((step || put_off) && mpt_trainer_is_sound(trainer)) || mpt_trainer_done(trainer);
}

static void sweep_once(mpt_trainer *trainer) {
    if (!trainer->swept)
        remove_leftovers(trainer);
    trainer->swept = true;
}

static mpt_status save_here(mpt_trainer *trainer) {
    mpt_status others = refuse_others(trainer);
    if (others != MPT_OK)
        return others == MPT_INVALID ? others
                                     : fail_save(trainer->ctx, others, trainer->attempted);
    sweep_once(trainer);
    MPT_TRY(mpt_trainer_save_checkpoint(trainer, trainer->checkpoints));
    trainer->saved_at = trainer->attempted;
    trainer->owns = true;
    if (mpt_trainer_is_sound(trainer))
        remove_old(trainer);
    return MPT_OK;
}

mpt_status mpt_trainer_checkpoint(mpt_trainer *trainer, bool now) {
    MPT_REQUIRE_OBJECT(trainer);
    bool due = mpt_trainer_checkpoint_due(trainer);
    if (!trainer->checkpoints)
        return MPT_OK;
    if (owns(trainer))
        sweep_once(trainer);
    if (!due && !now)
        return MPT_OK;
    if (trainer->saved_at != trainer->attempted || !owns(trainer))
        MPT_TRY(save_here(trainer));
    if (!due || trainer->told_at == trainer->attempted)
        return MPT_OK;
    trainer->told_at = trainer->attempted;
    trainer->watch.counts.checkpoint_due = 0;
    mpt_metrics_line line;
    mpt_metrics_begin(&line, "checkpoint");
    mpt_metrics_integer(&line, "step", trainer->attempted);
    return mpt_metrics_end(&line, trainer->ctx, trainer->metrics, trainer->metrics_ud);
}
