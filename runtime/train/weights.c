/* Weights of a run from and to files: what a host calls.
 *
 * A file is known by its content. What the trainer keeps beside its weights, moments and
 * delayed scales, was made with the old ones, so loading starts it anew. */
#include "train/weights_file.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/llmc.h"
#include "io/system.h"
#include "train/trainer.h"

/* ---- reading ---- */

/* A run folder is taken for its weights before long. */
static mpt_status open_weights(mpt_ctx *ctx, const char *path, mpt_safetensors **out) {
    char inside[4096];
    mpt_status status = mpt_safetensors_open(ctx, path, out);
    int n = snprintf(inside, sizeof inside, "%s/checkpoints", path);
    if (status != MPT_OK && n > 0 && (size_t)n < sizeof inside && mpt_file_is_folder(inside))
        mpt_hint(ctx, "it is a run folder: name its weights, %s/step-N", inside);
    return status;
}

static mpt_status load_safetensors(const mpt_weights_map *map, const char *path,
                                   float *const *params, const char **out_root) {
    mpt_safetensors *file;
    MPT_TRY(open_weights(map->ctx, path, &file));
    mpt_weights_source source = {path, mpt_safetensors_at(file, 0),
                                 mpt_safetensors_count(file)};
    mpt_status status = mpt_weights_load_source(map, &source, params, out_root);
    mpt_safetensors_close(file);
    return status;
}

mpt_status mpt_weights_load(const mpt_graph *graph, const char *path, float *const *params,
                            const char **out_root) {
    mpt_weights_map map;
    bool llmc = mpt_llmc_is(path);
    mpt_status status =
        mpt_weights_map_create(graph, llmc ? MPT_WEIGHTS_PLAIN : MPT_WEIGHTS_HF, &map);
    if (status == MPT_OK && llmc)
        status = mpt_weights_load_llmc(&map, path, params);
    else if (status == MPT_OK)
        status = load_safetensors(&map, path, params, out_root);
    mpt_weights_map_destroy(&map);
    return status;
}

/* ---- what must not be replaced ---- */

enum { PATH_ROOM = 4096 };

/* The folder that a path lies in; false where it is too long to be one. */
static bool folder_of(const char *path, char out[PATH_ROOM]) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= PATH_ROOM - 1)
        return false;
    memcpy(out, path, n);
    strcpy(out + n, !slash ? "." : n ? "" : "/");
    return true;
}

/* Of an output and a checkpoint, by where they lie. */
static bool lies_among(const char *from, const char *out) {
    char folder[PATH_ROOM];
    if (mpt_file_same(from, out))
        return true;
    if (folder_of(out, folder) && mpt_file_same(folder, from))
        return true;
    return !mpt_llmc_is(from) && folder_of(from, folder) && mpt_file_same(folder, out);
}

mpt_status mpt_weights_check_output(mpt_ctx *ctx, const char *from, const char *out) {
    char single[PATH_ROOM]; /* what is written where `out` is a folder */
    bool among = lies_among(from, out);
    int n = snprintf(single, sizeof single, "%s/model.safetensors", out);
    if (n < 0 || (size_t)n >= sizeof single)
        single[0] = 0;
    if (!among && mpt_file_exists(out) && !mpt_llmc_is(from)) {
        mpt_safetensors *file;
        MPT_TRY(open_weights(ctx, from, &file));
        among = mpt_safetensors_reads(file, out) || mpt_safetensors_reads(file, single);
        mpt_safetensors_close(file);
    }
    if (!among)
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                                 "%s: is among the weights that are read from %s", out, from);
    mpt_hint(ctx, "name another output");
    return status;
}

/* ---- the trainer's ---- */

/* Moments and delayed scales belong to the weights that they were made with. */
static void forget_old_weights(mpt_trainer *trainer) {
    const mpt_graph *graph = trainer->program->phases[0]->graph;
    mpt_state *state = trainer->state;
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_value *value = &graph->values[graph->params[p].value];
        size_t n = (size_t)mpt_value_elements(value);
        mpt_state_keep_weights(value, state->master[p]);
        for (int m = 0; m < 2; m++)
            if (state->moment[m][p])
                memset(state->moment[m][p], 0, n * sizeof(float));
    }
    for (int i = 0; i < state->n_scales; i++) {
        const mpt_scale_state *scale = &state->scales[i];
        *scale->scale = 0;
        memset(scale->amax_history, 0, (size_t)scale->history * sizeof *scale->amax_history);
    }
}

mpt_status mpt_trainer_load_weights(mpt_trainer *trainer, const char *path) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, path);
    size_t bytes = strlen(path) + 1;
    MPT_TRY(mpt_state_edit(trainer->state,
                           MPT_STATE_MASTERS | MPT_STATE_MOMENTS | MPT_STATE_SCALES));
    char *kept = mpt_alloc(trainer->ctx, bytes);
    if (!kept)
        return mpt_fail_memory(trainer->ctx, bytes);
    mpt_status status = mpt_weights_load(trainer->program->phases[0]->graph, path,
                                         trainer->state->master, &trainer->root);
    if (status != MPT_OK) {
        mpt_free(trainer->ctx, kept);
        return status;
    }
    memcpy(kept, path, bytes);
    mpt_free(trainer->ctx, trainer->weights);
    trainer->weights = kept;
    forget_old_weights(trainer);
    return MPT_OK;
}

mpt_status mpt_trainer_save_weights(const mpt_trainer *trainer, const char *path,
                                    const mpt_save_options *options) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, path);
    MPT_TRY(mpt_state_see(trainer->state, MPT_STATE_MASTERS));
    return mpt_weights_save(trainer->program->phases[0]->graph, trainer->root,
                            (const float *const *)trainer->state->master, path, options);
}

/* ---- without a trainer ---- */

/* Room for all parameters in one block: `out` are where each begins. */
static mpt_status alloc_params(const mpt_graph *graph, float ***out) {
    size_t n = (size_t)graph->n_params, head = (n + 1) * sizeof(float *), bytes = head;
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_value *value = &graph->values[graph->params[p].value];
        size_t own = mpt_size_mul((size_t)mpt_value_elements(value), sizeof(float));
        bytes = mpt_size_add(bytes, own);
    }
    uint64_t have = mpt_system_memory();
    if (have != 0 && bytes > have)
        return MPT_FAIL(graph->ctx, MPT_OUT_OF_MEMORY, MPT_NOWHERE,
                        "the weights need %.1f GB of memory, and %.1f GB are free",
                        (double)bytes / 1e9, (double)have / 1e9);
    float **params = mpt_alloc(graph->ctx, bytes);
    if (!params)
        return mpt_fail_memory(graph->ctx, bytes);
    float *at = (float *)(void *)((char *)params + head);
    for (int p = 0; p < graph->n_params; p++) {
        params[p] = at;
        at += mpt_value_elements(&graph->values[graph->params[p].value]);
    }
    *out = params;
    return MPT_OK;
}

static void initialize(const mpt_program *program, const mpt_graph *graph, float **params) {
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_param *param = &graph->params[p];
        const mpt_value *value = &graph->values[param->value];
        int64_t n = mpt_value_elements(value);
        mpt_init_fill(&param->init, param->name, program->train.seed, program->n_threads, n,
                      params[p]);
        mpt_state_keep_weights(value, params[p]);
    }
}

mpt_status mpt_program_export_weights(const mpt_program *program, const char *from,
                                      const char *to, const mpt_save_options *options) {
    const char *root = NULL;
    float **params = NULL;
    mpt_status status = MPT_OK;
    MPT_REQUIRE_OBJECT(program);
    MPT_REQUIRE(program->ctx, to);
    const mpt_graph *graph = program->phases[0]->graph;
    if (from)
        MPT_TRY(mpt_weights_check_output(graph->ctx, from, to));
    MPT_TRY(alloc_params(graph, &params));
    if (from)
        status = mpt_weights_load(graph, from, params, &root);
    else
        initialize(program, graph, params);
    if (status == MPT_OK)
        status = mpt_weights_save(graph, root, (const float *const *)params, to, options);
    mpt_free(graph->ctx, params);
    return status;
}
