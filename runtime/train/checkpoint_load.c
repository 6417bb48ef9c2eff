/* Reading a checkpoint back: all of it is compared with the trainer first, then copied.
 *
 * Copying cannot fail, so a trainer is never left between two states. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 4096 };

typedef enum load_mode { LOAD_ALL, LOAD_CHANGED, LOAD_LEARNT } load_mode;

typedef struct loader {
    mpt_ctx *ctx;
    mpt_trainer *trainer;
    const char *path;
    load_mode mode; /* CHANGED: under another recipe; LEARNT: a rollback */
    mpt_saved rows;
    mpt_weights_map map;
    mpt_safetensors *weights, *state;
    const mpt_stored_tensor **stored; /* of each row; NULL: it keeps what it has */
    const mpt_stored_tensor **stored_weights;
    const char *root;
    char *folder; /* of the path; goes to the trainer */
    char came_from[16];
} loader;

static mpt_status refuse(const loader *l, const char *tensor, const char *how) {
    mpt_status status =
        MPT_FAIL(l->ctx, MPT_DATA, MPT_NOWHERE, "%s: %.160s: %s", l->path, tensor, how);
    mpt_hint(l->ctx, "the checkpoint is of another run, or of another mpt");
    return status;
}

static bool same_shape(const mpt_stored_tensor *stored, mpt_tensor_type type, int rank,
                       const int64_t *dims) {
    if (stored->type != type || stored->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (stored->dims[i] != dims[i])
            return false;
    return true;
}

/* ---- rows ---- */

/* Under another recipe some rows may start anew. */
static bool may_lack(const loader *l, const mpt_saved_row *row) {
    return l->mode == LOAD_CHANGED &&
           (row->kind == MPT_SAVED_SCALES || row->kind == MPT_SAVED_OBSERVED ||
            row->kind == MPT_SAVED_CONSTANT);
}

static bool wanted(const loader *l, const mpt_saved_row *row) {
    if (row->kind == MPT_SAVED_CONSTANT)
        return false;
    return l->mode != LOAD_LEARNT || row->kind == MPT_SAVED_LEARNT ||
           row->kind == MPT_SAVED_SCALES;
}

static mpt_status match_row(loader *l, int i) {
    const mpt_saved_row *row = &l->rows.rows[i];
    const mpt_stored_tensor *stored = mpt_safetensors_find(l->state, row->name);
    bool fits = stored && same_shape(stored, row->type, row->rank, row->dims) &&
                stored->bytes == row->bytes;
    if (!fits && may_lack(l, row))
        return MPT_OK;
    if (!fits)
        return refuse(l, row->name,
                      stored ? "has another type or shape than this run's" : "is missing");
    if (row->kind == MPT_SAVED_CONSTANT && l->mode != LOAD_CHANGED &&
        memcmp(stored->data, row->data, row->bytes) != 0)
        return refuse(l, row->name, "differs from what the recipe gives");
    if (wanted(l, row))
        l->stored[i] = stored;
    return MPT_OK;
}

/* The integer that a row would get; the row is there, since it was matched. */
static int64_t peek(const loader *l, const char *name) {
    const mpt_stored_tensor *stored = mpt_safetensors_find(l->state, name);
    int32_t narrow = 0;
    int64_t value = 0;
    if (stored->type == MPT_TENSOR_I32) {
        memcpy(&narrow, stored->data, sizeof narrow);
        return narrow;
    }
    memcpy(&value, stored->data, sizeof value);
    return value;
}

/* Numbers that index something must be ones that a run can have come to. */
static mpt_status check_counters(const loader *l) {
    static const char *const counters[] = {"counter.attempted", "counter.applied",
                                           "counter.data"};
    int64_t phases = l->trainer->program->n_phases;
    for (size_t i = 0; i < MPT_COUNT(counters); i++)
        if (peek(l, counters[i]) < 0)
            return refuse(l, counters[i], "is below 0");
    if (l->mode == LOAD_CHANGED)
        return MPT_OK;
    int64_t phase = peek(l, "phase.current"), announced = peek(l, "phase.announced");
    if (phase < 0 || phase >= phases || announced < -1 || announced >= phases)
        return refuse(l, "phase.current", "is no phase of this recipe");
    return MPT_OK;
}

static mpt_status match_rows(loader *l) {
    int n_known = 0;
    l->stored = mpt_arena_alloc(&l->rows.arena, ((size_t)l->rows.n + 1) * sizeof *l->stored);
    if (!l->stored)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < l->rows.n; i++) {
        MPT_TRY(match_row(l, i));
        n_known += mpt_safetensors_find(l->state, l->rows.rows[i].name) != NULL;
    }
    if (n_known != mpt_safetensors_count(l->state) && l->mode != LOAD_CHANGED)
        return refuse(l, MPT_CHECKPOINT_STATE, "has tensors that this run does not know");
    return check_counters(l);
}

/* ---- weights ---- */

static mpt_status find_root(loader *l, const char *saved) {
    const mpt_graph *graph = l->trainer->program->phases[0]->graph;
    for (int i = 0; (l->root = mpt_weights_root(graph, i)) != NULL; i++)
        if (strcmp(l->root, saved) == 0)
            return MPT_OK;
    return refuse(l, MPT_CHECKPOINT_MANIFEST, "names a root that no model has");
}

static mpt_status match_weights(loader *l) {
    size_t n = (size_t)l->map.n;
    l->stored_weights = mpt_arena_alloc(&l->rows.arena, (n + 1) * sizeof *l->stored_weights);
    if (!l->stored_weights)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < l->map.n; i++) {
        const mpt_weight *w = &l->map.weights[i];
        const char *name =
            mpt_arena_printf(&l->rows.arena, "%s%s", w->rootless ? "" : l->root, w->name);
        if (!name)
            return MPT_OUT_OF_MEMORY;
        l->stored_weights[i] = mpt_safetensors_find(l->weights, name);
        if (!l->stored_weights[i])
            return refuse(l, name, "is missing");
        if (!same_shape(l->stored_weights[i], MPT_TENSOR_F32, w->rank, w->dims))
            return refuse(l, name, "has another type or shape than this run's");
    }
    if (mpt_safetensors_count(l->weights) != l->map.n)
        return refuse(l, "the weights", "has tensors that this run does not know");
    return MPT_OK;
}

static void copy_weights(const loader *l) {
    float chunk[CHUNK];
    for (int i = 0; i < l->map.n; i++) {
        const mpt_weight *w = &l->map.weights[i];
        const char *data = l->stored_weights[i]->data;
        for (int64_t at = 0, n, all = mpt_weight_elements(w); at < all; at += n) {
            n = all - at < CHUNK ? all - at : CHUNK;
            memcpy(chunk, data + (size_t)at * sizeof *chunk, (size_t)n * sizeof *chunk);
            mpt_weight_put(w, l->trainer->state->master[w->param], at, n, chunk);
        }
    }
}

/* ---- the copy ---- */

static void copy_rows(const loader *l) {
    for (int i = 0; i < l->rows.n; i++)
        if (l->stored[i] && l->rows.rows[i].bytes > 0)
            memcpy(l->rows.rows[i].data, l->stored[i]->data, l->rows.rows[i].bytes);
}

/* Where the checkpoint lies: there a run may save and remove. */
static mpt_status keep_folder(loader *l) {
    size_t n = strlen(l->path);
    while (n > 1 && l->path[n - 1] == '/')
        n--;
    while (n > 0 && l->path[n - 1] != '/')
        n--;
    const char *from = n ? l->path : "./";
    n = n ? n : 2;
    l->folder = mpt_alloc(l->ctx, n + 1);
    if (!l->folder)
        return mpt_fail_memory(l->ctx, n + 1);
    memcpy(l->folder, from, n);
    l->folder[n] = 0;
    return MPT_OK;
}

static void copy(loader *l) {
    mpt_trainer *trainer = l->trainer;
    copy_weights(l);
    copy_rows(l);
    trainer->has_gradients = false;
    if (l->mode == LOAD_LEARNT)
        return;
    mpt_free(l->ctx, trainer->loaded_in);
    trainer->loaded_in = l->folder;
    l->folder = NULL;
    trainer->owns = false; /* until that is compared */
    trainer->root = l->root;
    trainer->counted = -1;
    trainer->saved_at = trainer->attempted;
    trainer->told_at = -1;
    if (l->mode != LOAD_LEARNT)
        memcpy(trainer->came_from, l->came_from, sizeof trainer->came_from);
    if (l->mode == LOAD_CHANGED) /* the metrics say which schedule goes on */
        mpt_trainer_enter_anew(trainer);
}

/* ---- whose it is ---- */

static mpt_status settle_changes(loader *l, const json_t *saved, const json_t *now,
                                 mpt_str *text) {
    int n = 0;
    MPT_TRY(mpt_manifest_changes(saved, now, text, &n));
    if (n == 0) {
        l->mode = l->mode == LOAD_CHANGED ? LOAD_ALL : l->mode;
        return MPT_OK;
    }
    if (l->mode == LOAD_CHANGED) {
        mpt_log(l->ctx, MPT_LOG_WARNING, "the run goes on with another recipe: %s", text->data);
        return MPT_OK;
    }
    mpt_status status = MPT_FAIL(l->ctx, MPT_INVALID, MPT_NOWHERE,
                                 "%s: was saved under another recipe: %s", l->path, text->data);
    mpt_hint(l->ctx, "go on with the recipe that it was saved under, or allow the change "
                     "(--allow-recipe-change)");
    return status;
}

static mpt_status check_run(loader *l, const json_t *saved) {
    json_t *now;
    mpt_str text;
    MPT_TRY(mpt_manifest_make(l->trainer, &now));
    mpt_str_init(&text, l->ctx);
    mpt_status status = mpt_manifest_check_state(l->ctx, l->path, saved, now);
    if (status == MPT_OK)
        status = settle_changes(l, saved, now, &text);
    const char *was = mpt_manifest_text(saved, "device"),
               *is = mpt_manifest_text(now, "device");
    bool moved = strcmp(was, is) != 0;
    if (status == MPT_OK && l->mode != LOAD_LEARNT) /* a way back is no other run */
        snprintf(l->came_from, sizeof l->came_from, "%s", moved ? was : "");
    if (status == MPT_OK && moved)
        mpt_log(l->ctx, MPT_LOG_WARNING,
                "%s: was saved on the device %s, and %s, which goes on from it, rounds sums "
                "otherwise",
                l->path, was, is);
    mpt_str_deinit(&text);
    json_decref(now);
    return status;
}

/* ---- the call ---- */

static mpt_status load(loader *l, const json_t *manifest) {
    char path[4200];
    MPT_TRY(check_run(l, manifest));
    MPT_TRY(find_root(l, mpt_manifest_text(manifest, "root")));
    MPT_TRY(
        mpt_weights_map_create(l->trainer->program->phases[0]->graph, MPT_WEIGHTS_HF, &l->map));
    MPT_TRY(mpt_trainer_saved(l->trainer, &l->rows));
    MPT_TRY(mpt_safetensors_open(l->ctx, l->path, &l->weights));
    snprintf(path, sizeof path, "%s/" MPT_CHECKPOINT_STATE, l->path);
    MPT_TRY(mpt_safetensors_open(l->ctx, path, &l->state));
    MPT_TRY(match_weights(l));
    MPT_TRY(match_rows(l));
    MPT_TRY(keep_folder(l));
    MPT_TRY(mpt_state_edit(l->trainer->state, MPT_STATE_ALL));
    copy(l);
    return MPT_OK;
}

static mpt_status load_mode_of(mpt_trainer *trainer, const char *path, load_mode mode) {
    json_t *manifest;
    loader l = {.ctx = trainer->ctx, .trainer = trainer, .path = path, .mode = mode};
    MPT_TRY(mpt_manifest_read(l.ctx, path, &manifest));
    mpt_saved_init(&l.rows, l.ctx);
    mpt_status status = load(&l, manifest);
    mpt_safetensors_close(l.state);
    mpt_safetensors_close(l.weights);
    mpt_weights_map_destroy(&l.map);
    mpt_saved_deinit(&l.rows);
    mpt_free(l.ctx, l.folder);
    json_decref(manifest);
    return status;
}

mpt_status mpt_trainer_load_checkpoint(mpt_trainer *trainer, const char *path,
                                       const mpt_load_checkpoint_options *options) {
    mpt_load_checkpoint_options o = MPT_LOAD_CHECKPOINT_OPTIONS_INIT;
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, path);
    MPT_TRY(mpt_options_read(trainer->ctx, __func__, options, &o, sizeof o));
    return load_mode_of(trainer, path, o.allow_recipe_change ? LOAD_CHANGED : LOAD_ALL);
}

/* The scales are those of the checkpoint's phase, and go over into the current one as at a
 * switch. */
static void enter_from(mpt_trainer *trainer, const char *phase) {
    const mpt_program *program = trainer->program;
    for (int p = 0; p < program->n_phases; p++)
        if (p != trainer->phase && strcmp(program->phases[p]->phase, phase) == 0)
            mpt_state_switch(trainer->state, program->phases[p]->graph,
                             program->phases[trainer->phase]->graph);
}

mpt_status mpt_trainer_roll_back(mpt_trainer *trainer, int64_t *out_step) {
    mpt_checkpoint_info info;
    if (!trainer->checkpoints)
        return MPT_FAIL(trainer->ctx, MPT_NOT_FOUND, MPT_NOWHERE, "there are no checkpoints");
    MPT_TRY(mpt_checkpoint_find_until(trainer->ctx, trainer->checkpoints, trainer->attempted,
                                      &info));
    if (info.gave_up)
        return MPT_FAIL(trainer->ctx, MPT_NOT_FOUND, MPT_NOWHERE,
                        "%s: was saved when training had stopped itself, so it is no way back",
                        info.path);
    MPT_TRY(load_mode_of(trainer, info.path, LOAD_LEARNT));
    enter_from(trainer, info.phase);
    *out_step = info.step;
    return MPT_OK;
}
