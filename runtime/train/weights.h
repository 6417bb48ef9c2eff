/* Weights in files: what a checkpoint has for each parameter, and how it gets there and back.
 *
 * A checkpoint has the tensors of Hugging Face: a fused layer's parts one by one, experts one
 * by one, GPT-2's matrices as [in, out], tied weights once. The map says all of this for a
 * graph, without values, so that masters and gradients are written by the same names and
 * shapes.
 *
 * Names in the map have no root ("model.", "transformer.", "backbone."): the root belongs to a
 * file. Heads never have one. */
#ifndef MPT_TRAIN_WEIGHTS_H
#define MPT_TRAIN_WEIGHTS_H

#include "graph/graph.h"
#include "io/safetensors.h"

/* One tensor of a checkpoint: rows of one parameter. */
typedef struct mpt_weight {
    const char *name; /* without root: "layers.3.mixer.q_proj.weight" */
    int32_t param;
    int64_t first, rows; /* of the parameter's first dimension */
    bool transposed;     /* stored [in, out], and the parameter is [out, in] */
    bool rootless;       /* no root in any file: "lm_head.weight" */
    int rank;
    int64_t dims[MPT_MAX_RANK]; /* as the checkpoint has them */
} mpt_weight;

/* A second name of a parameter that two layers share: "lm_head.weight" beside "wte.weight". Not
 * written; where a file has it, it must hold the same numbers. */
typedef struct mpt_weight_alias {
    const char *name;
    int32_t weight; /* the tensor that is written */
    bool rootless;
} mpt_weight_alias;

/* HF: as above. PLAIN: every matrix [out, in], as llm.c has them. */
typedef enum mpt_weights_layout { MPT_WEIGHTS_HF, MPT_WEIGHTS_PLAIN } mpt_weights_layout;

typedef struct mpt_weights_map {
    mpt_ctx *ctx;
    mpt_arena arena;
    const mpt_graph *graph; /* lent */
    int n, cap;
    mpt_weight *weights; /* in the order of the parameters */
    int n_aliases, cap_aliases;
    mpt_weight_alias *aliases;
    mpt_name_index names; /* weights, then aliases from n on */
} mpt_weights_map;

/* What was made belongs to `out`, also where this fails. MPT_INVALID for a fused layer whose
 * parts have no widths, and where two tensors would have one name. */
mpt_status mpt_weights_map_create(const mpt_graph *graph, mpt_weights_layout layout,
                                  mpt_weights_map *out);
void mpt_weights_map_destroy(mpt_weights_map *map);

int64_t mpt_weight_elements(const mpt_weight *weight);

/* Elements first ... first + n - 1 of the tensor, in the file's order, out of or into the
 * parameter's values (all of them, not the tensor's rows alone). */
void mpt_weight_get(const mpt_weight *weight, const float *param, int64_t first, int64_t n,
                    float *out);
void mpt_weight_put(const mpt_weight *weight, float *param, int64_t first, int64_t n,
                    const float *in);

/* ---- roots ---- */

/* The root of that number: that of the graph's model first, then "" and those of Hugging Face;
 * NULL past the end. */
const char *mpt_weights_root(const mpt_graph *graph, int index);

/* ---- reading ---- */

/* Reads one checkpoint, a safetensors file, an index of shards, a folder or a file of llm.c,
 * into the parameters of the map's graph, one buffer each. All of it is checked first: MPT_DATA
 * names all tensors that are missing, unknown, misshapen, of a type that holds no weights or
 * not finite, and nothing is written then. `out_root` gets the file's root, static or the
 * graph's. */
mpt_status mpt_weights_load(const mpt_graph *graph, const char *path, float *const *params,
                            const char **out_root);

/* ---- writing ---- */

/* MPT_INVALID where writing to `out` would replace weights that are read from `from`: the file
 * or folder itself, a file of such a folder, or a folder whose model is that file; links are
 * followed. */
mpt_status mpt_weights_check_output(mpt_ctx *ctx, const char *from, const char *out);

/* Writes one buffer a parameter, masters or gradients, as mpt_trainer_save_weights says. `root`
 * is that of the names; NULL: the model's own. */
mpt_status mpt_weights_save(const mpt_graph *graph, const char *root,
                            const float *const *params, const char *path,
                            const mpt_save_options *options);

#endif
