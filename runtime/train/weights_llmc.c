/* Between a GPT-2 and the checkpoints of llm.c, which hold that model and no other.
 *
 * Names and shapes are checked as those of any checkpoint are; the number of heads, which no
 * shape tells, stands in the header. */
#include "io/llmc.h"

#include <string.h>

#include "train/weights_file.h"

/* Heads of the model's attention; 0: it has none. */
static int32_t heads_of(const mpt_graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == MPT_OP_attention)
            return graph->nodes[i].attrs.heads;
    return 0;
}

/* ---- reading ---- */

static mpt_status check_heads(const mpt_weights_map *map, const char *path,
                              const mpt_llmc *file) {
    int32_t heads = mpt_llmc_get_shape(file).heads, expected = heads_of(map->graph);
    if (heads == expected)
        return MPT_OK;
    return MPT_FAIL(map->ctx, MPT_DATA, MPT_NOWHERE,
                    "%s: the model has %d attention heads, and the checkpoint is of %d", path,
                    (int)expected, (int)heads);
}

mpt_status mpt_weights_load_llmc(const mpt_weights_map *map, const char *path,
                                 float *const *params) {
    mpt_llmc *file;
    const char *root;
    MPT_TRY(mpt_llmc_open(map->ctx, path, &file));
    mpt_weights_source source = {path, mpt_llmc_at(file, 0), mpt_llmc_count(file)};
    mpt_status status = check_heads(map, path, file);
    if (status == MPT_OK)
        status = mpt_weights_load_source(map, &source, params, &root);
    mpt_llmc_close(file);
    return status;
}

/* ---- writing ---- */

static mpt_status fail_model(const mpt_weights_saver *s, const char *name) {
    mpt_status status =
        MPT_FAIL(s->map.ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                 "%s: a checkpoint of llm.c holds a GPT-2, and this model differs in '%s'",
                 s->path, name);
    mpt_hint(s->map.ctx, "name a file that ends in .safetensors, or a folder");
    return status;
}

static const mpt_weight *find_weight(const mpt_weights_saver *s, const char *name) {
    int i = mpt_name_index_find(&s->map.names, name);
    return i >= 0 && i < s->map.n ? &s->map.weights[i] : NULL;
}

static mpt_status shape_of(const mpt_weights_saver *s, mpt_llmc_shape *out) {
    const mpt_weight *wte = find_weight(s, "wte.weight"), *wpe = find_weight(s, "wpe.weight");
    int32_t heads = heads_of(s->map.graph);
    if (!wte || wte->rank != 2 || wte->dims[0] > INT32_MAX / 2 || wte->dims[1] > INT32_MAX / 4)
        return fail_model(s, "wte.weight");
    if (!wpe || wpe->rank != 2 || wpe->dims[0] > INT32_MAX)
        return fail_model(s, "wpe.weight");
    if (heads < 1 || s->map.graph->n_blocks < 1)
        return fail_model(s, "h.0.attn");
    *out = (mpt_llmc_shape){.positions = (int32_t)wpe->dims[0],
                            .vocab = (int32_t)wte->dims[0],
                            .layers = s->map.graph->n_blocks,
                            .heads = heads,
                            .width = (int32_t)wte->dims[1]};
    return MPT_OK;
}

/* The weight that a tensor of the file is; NULL where the model has none of its shape. */
static const mpt_weight *same_weight(const mpt_weights_saver *s, const mpt_stored_tensor *t) {
    const mpt_weight *w = find_weight(s, t->name);
    bool same = w && w->rank == t->rank &&
                memcmp(w->dims, t->dims, (size_t)t->rank * sizeof *t->dims) == 0;
    return same ? w : NULL;
}

static mpt_status fill(mpt_weights_saver *s, mpt_llmc *file) {
    for (int i = 0; i < mpt_llmc_count(file); i++) {
        const mpt_stored_tensor *t = mpt_llmc_at(file, i);
        const mpt_weight *w = same_weight(s, t);
        if (!w)
            return fail_model(s, t->name);
        mpt_weights_fill(s, (int)(w - s->map.weights), mpt_llmc_data(file, i));
    }
    for (int i = 0; i < s->map.n && s->map.n != mpt_llmc_count(file); i++) {
        bool known = false;
        for (int t = 0; t < mpt_llmc_count(file) && !known; t++)
            known = strcmp(mpt_llmc_at(file, t)->name, s->map.weights[i].name) == 0;
        if (!known)
            return fail_model(s, s->map.weights[i].name);
    }
    return mpt_weights_check_overflows(s, s->path);
}

mpt_status mpt_weights_save_llmc(mpt_weights_saver *saver) {
    mpt_llmc_shape shape;
    mpt_llmc *file;
    if (saver->type == MPT_WEIGHT_FP16) {
        mpt_status status = MPT_FAIL(saver->map.ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                                     "%s: llm.c has no float16 checkpoints", saver->path);
        mpt_hint(saver->map.ctx, "write it as fp32 or bf16");
        return status;
    }
    MPT_TRY(shape_of(saver, &shape));
    MPT_TRY(mpt_llmc_create(saver->map.ctx, saver->path, &shape,
                            saver->type == MPT_WEIGHT_FP32 ? MPT_TENSOR_F32 : MPT_TENSOR_BF16,
                            &file));
    mpt_status status = fill(saver, file);
    if (status == MPT_OK)
        return mpt_llmc_commit(file);
    mpt_llmc_close(file);
    return status;
}
