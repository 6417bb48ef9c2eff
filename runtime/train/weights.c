/* Weights of a run from and to files: what a host calls.
 *
 * A file is known by its content. What the trainer keeps beside its weights, moments and
 * delayed scales, was made with the old ones, so loading starts it anew. */
#include "train/weights_file.h"

#include <string.h>

#include "io/llmc.h"
#include "train/trainer.h"

/* ---- reading ---- */

static mpt_status load_safetensors(const mpt_weights_map *map, const char *path,
                                   float *const *params, const char **out_root) {
    mpt_safetensors *file;
    MPT_TRY(mpt_safetensors_open(map->ctx, path, &file));
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

/* ---- the trainer's ---- */

/* Moments and delayed scales belong to the weights that they were made with. */
static void forget_old_weights(mpt_trainer *trainer) {
    const mpt_graph *graph = trainer->program->phases[0]->graph;
    mpt_state *state = trainer->state;
    for (int p = 0; p < graph->n_params; p++) {
        const mpt_value *value = &graph->values[graph->params[p].value];
        size_t n = (size_t)mpt_value_elements(value);
        mpt_round_to(value->dtype, state->master[p], n);
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
    MPT_TRY(mpt_weights_load(trainer->program->phases[0]->graph, path, trainer->state->master,
                             &trainer->root));
    forget_old_weights(trainer);
    return MPT_OK;
}

mpt_status mpt_trainer_save_weights(const mpt_trainer *trainer, const char *path,
                                    const mpt_save_options *options) {
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, path);
    return mpt_weights_save(trainer->program->phases[0]->graph, trainer->root,
                            (const float *const *)trainer->state->master, path, options);
}
