/* Writing parameters as a checkpoint: one safetensors file, a folder of shards, or llm.c's.
 *
 * Files are laid out first and then filled tensor by tensor, rounded on the way to the type
 * that is asked for. A number that is too large for it is found there, and then nothing is
 * written. What a folder of Hugging Face needs beside the tensors is the index of shards. */
#include "train/weights_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/file_write.h"
#include "kernels/numerics_cast.h"

enum { CHUNK = 4096, NAMES_SHOWN = 8 };

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"

static const uint64_t default_shard_bytes = 5000000000u;

static const struct {
    mpt_tensor_type stored;
    mpt_dtype dtype;
} types[MPT_WEIGHT_TYPE_COUNT] = {
    [MPT_WEIGHT_FP32] = {MPT_TENSOR_F32, MPT_DTYPE_FP32},
    [MPT_WEIGHT_BF16] = {MPT_TENSOR_BF16, MPT_DTYPE_BF16},
    [MPT_WEIGHT_FP16] = {MPT_TENSOR_F16, MPT_DTYPE_FP16},
};

typedef mpt_weights_saver saver;

/* ---- values ---- */

/* Rounds to nearest, ties to even. Gives how many finite numbers are too large. */
static int64_t encode(mpt_dtype dtype, const float *in, int64_t n, uint16_t *out) {
    int64_t overflows = 0;
    mpt_format format = mpt_format_of(dtype);
    for (int64_t i = 0; i < n; i++) {
        overflows += isfinite(in[i]) && mpt_overflows(&format, in[i]);
        out[i] = (uint16_t)mpt_encode_as(dtype, &format, in[i], MPT_ROUND_EVEN);
    }
    return overflows;
}

void mpt_weights_fill(saver *s, int index, void *out) {
    const mpt_weight *w = &s->map.weights[index];
    int64_t all = mpt_weight_elements(w), overflows = 0;
    const float *param = s->params[w->param];
    if (s->type == MPT_WEIGHT_FP32) {
        mpt_weight_get(w, param, 0, all, out);
        return;
    }
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < CHUNK ? all - at : CHUNK;
        mpt_weight_get(w, param, at, n, s->chunk);
        overflows += encode(types[s->type].dtype, s->chunk, n, (uint16_t *)out + at);
    }
    if (overflows > 0 && ++s->n_overflows <= NAMES_SHOWN)
        mpt_str_printf(&s->overflows, "%s%.120s (%lld of %lld)", s->n_overflows > 1 ? ", " : "",
                       w->name, (long long)overflows, (long long)all);
}

mpt_status mpt_weights_check_overflows(const saver *s, const char *path) {
    char more[32] = "";
    if (s->n_overflows == 0)
        return MPT_OK;
    if (s->overflows.failed)
        return MPT_OUT_OF_MEMORY;
    if (s->n_overflows > NAMES_SHOWN)
        snprintf(more, sizeof more, " and %d more", s->n_overflows - NAMES_SHOWN);
    mpt_status status = MPT_FAIL(
        s->map.ctx, MPT_DATA, MPT_NOWHERE, "%s: too large for %s: %s%s", path,
        mpt_dtype_name(types[s->type].dtype), s->overflows.data ? s->overflows.data : "", more);
    mpt_hint(s->map.ctx, "write them as fp32%s", s->type == MPT_WEIGHT_FP16 ? " or bf16" : "");
    return status;
}

/* ---- one file ---- */

static mpt_status fill_specs(saver *s) {
    for (int i = 0; i < s->map.n; i++) {
        const mpt_weight *w = &s->map.weights[i];
        mpt_tensor_spec *spec = &s->specs[i];
        spec->name =
            mpt_arena_printf(&s->map.arena, "%s%s", w->rootless ? "" : s->root, w->name);
        if (!spec->name)
            return MPT_OUT_OF_MEMORY;
        spec->type = types[s->type].stored;
        spec->rank = w->rank;
        memcpy(spec->dims, w->dims, (size_t)w->rank * sizeof *w->dims);
    }
    return MPT_OK;
}

/* Weights first ... first + n - 1 into one file. */
static mpt_status write_single(saver *s, const char *path, int first, int n) {
    static const char *const metadata[] = {"format", "pt",
                                           NULL}; /* what transformers asks for */
    mpt_safetensors_writer *writer;
    MPT_TRY(mpt_safetensors_create(s->map.ctx, path, s->specs + first, n, metadata, &writer));
    for (int i = 0; i < n; i++)
        mpt_weights_fill(s, first + i, mpt_safetensors_data(writer, i));
    mpt_status status = mpt_weights_check_overflows(s, path);
    if (status == MPT_OK)
        return mpt_safetensors_commit(writer);
    mpt_safetensors_abandon(writer);
    return status;
}

/* ---- a folder ---- */

static uint64_t bytes_of(const saver *s, int index) {
    return (uint64_t)mpt_weight_elements(&s->map.weights[index]) *
           (uint64_t)mpt_tensor_type_bits(types[s->type].stored) / 8;
}

/* How many weights from `first` on one shard takes: one at least. */
static int shard_length(const saver *s, int first) {
    uint64_t bytes = 0;
    int n = 0;
    while (first + n < s->map.n) {
        bytes += bytes_of(s, first + n);
        if (n > 0 && bytes > s->shard_bytes)
            break;
        n++;
    }
    return n;
}

static int count_shards(const saver *s) {
    int n = 0;
    for (int first = 0; first < s->map.n; n++)
        first += shard_length(s, first);
    return n;
}

/* "FOLDER/model-00001-of-00003.safetensors", from the folder's name on or the file's alone. */
static const char *shard_path(saver *s, const char *folder, int shard, int n_shards) {
    return mpt_arena_printf(&s->map.arena, "%s%smodel-%05d-of-%05d.safetensors",
                            folder ? folder : "", folder ? "/" : "", shard + 1, n_shards);
}

/* The object of the index file; NULL when out of memory. */
static json_t *make_index(saver *s, int n_shards) {
    json_t *map = json_object(), *root = NULL;
    uint64_t bytes = 0;
    bool failed = !map;
    for (int shard = 0, at = 0; shard < n_shards && !failed; shard++) {
        const char *name = shard_path(s, NULL, shard, n_shards);
        for (int end = at + shard_length(s, at); at < end && !failed; at++) {
            failed =
                !name || json_object_set_new(map, s->specs[at].name, json_string(name)) != 0;
            bytes += bytes_of(s, at);
        }
    }
    if (!failed)
        root = json_pack("{s:{s:I},s:O}", "metadata", "total_size", (json_int_t)bytes,
                         "weight_map", map);
    json_decref(map);
    return root;
}

static bool starts_as_json(const char *path, const unsigned char *start, size_t n) {
    (void)path;
    return n > 0 && start[0] == '{';
}

static mpt_status write_index(saver *s, const char *path, int n_shards) {
    static const mpt_file_kind kind = {"JSON file", 1, starts_as_json};
    mpt_ctx *ctx = s->map.ctx;
    mpt_file_writer *file;
    json_t *index = make_index(s, n_shards);
    char *text = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(index);
    if (!text)
        return mpt_fail_memory(ctx, (size_t)s->map.n);
    size_t n = strlen(text);
    text[n] = '\n'; /* over the end, which is not written */
    mpt_status status = mpt_file_create(ctx, path, n + 1, &kind, &file);
    if (status == MPT_OK) {
        memcpy(mpt_file_bytes(file), text, n + 1);
        status = mpt_file_commit(file);
    }
    free(text);
    return status;
}

/* All shards, then their index: until that is there, nothing is a model. */
static mpt_status write_shards(saver *s, const char *folder, const char *index, int n_shards) {
    mpt_status status = MPT_OK;
    const char **paths = mpt_arena_alloc(&s->map.arena, (size_t)n_shards * sizeof *paths);
    int written = 0;
    if (!paths)
        return MPT_OUT_OF_MEMORY;
    for (int at = 0; written < n_shards && status == MPT_OK;) {
        int n = shard_length(s, at);
        paths[written] = shard_path(s, folder, written, n_shards);
        status = paths[written] ? write_single(s, paths[written], at, n) : MPT_OUT_OF_MEMORY;
        at += n;
        written += status == MPT_OK;
    }
    if (status == MPT_OK)
        status = write_index(s, index, n_shards);
    for (int i = 0; i < written && status != MPT_OK; i++)
        mpt_file_remove(paths[i]);
    return status;
}

/* A folder with a model in other files would be two models at once. */
static mpt_status refuse_other_model(const saver *s, const char *path) {
    if (!mpt_file_exists(path))
        return MPT_OK;
    mpt_status status = MPT_FAIL(s->map.ctx, MPT_INVALID, MPT_NOWHERE,
                                 "%s: is there, and another model cannot lie beside it", path);
    mpt_hint(s->map.ctx, "name a new folder, or remove the model that is in this one");
    return status;
}

static mpt_status write_in(saver *s, const char *folder) {
    mpt_arena *arena = &s->map.arena;
    const char *single = mpt_arena_printf(arena, "%s/" SINGLE_FILE, folder);
    const char *index = mpt_arena_printf(arena, "%s/" INDEX_FILE, folder);
    int n_shards = count_shards(s);
    if (!single || !index)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(refuse_other_model(s, index));
    if (n_shards <= 1)
        return write_single(s, single, 0, s->map.n);
    MPT_TRY(refuse_other_model(s, single));
    return write_shards(s, folder, index, n_shards);
}

static mpt_status write_folder(saver *s) {
    bool made;
    MPT_TRY(mpt_file_make_folder(s->map.ctx, s->path, &made));
    mpt_status status = write_in(s, s->path);
    if (status != MPT_OK && made)
        mpt_file_remove(s->path);
    return status;
}

/* ---- the call ---- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* By what stands at the path, then by its end. */
static mpt_status write_path(saver *s, bool llmc) {
    MPT_TRY(fill_specs(s));
    if (llmc)
        return mpt_weights_save_llmc(s);
    if (mpt_file_is_folder(s->path))
        return write_folder(s);
    if (ends_with(s->path, ".safetensors"))
        return write_single(s, s->path, 0, s->map.n);
    if (!mpt_file_exists(s->path))
        return write_folder(s);
    mpt_status status = MPT_FAIL(s->map.ctx, MPT_INVALID, MPT_NOWHERE,
                                 "%s: is there and is no folder", s->path);
    mpt_hint(s->map.ctx, "name a folder, or a file that ends in .safetensors or .bin");
    return status;
}

static mpt_status read_options(mpt_ctx *ctx, const mpt_save_options *options,
                               mpt_save_options *out) {
    *out = MPT_SAVE_OPTIONS_INIT;
    MPT_TRY(mpt_options_read(ctx, "mpt_trainer_save_weights", options, out, sizeof *out));
    if ((unsigned)out->type >= MPT_WEIGHT_TYPE_COUNT)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_trainer_save_weights: no type of weights %d", (int)out->type);
    return MPT_OK;
}

mpt_status mpt_weights_save(const mpt_graph *graph, const char *root,
                            const float *const *params, const char *path,
                            const mpt_save_options *options) {
    mpt_save_options o;
    MPT_TRY(read_options(graph->ctx, options, &o));
    bool llmc = ends_with(path, ".bin") && !mpt_file_is_folder(path);
    saver s = {.root = root ? root : mpt_weights_root(graph, 0),
               .params = params,
               .path = path,
               .type = o.type,
               .shard_bytes = o.shard_bytes ? o.shard_bytes : default_shard_bytes};
    mpt_str_init(&s.overflows, graph->ctx);
    mpt_status status =
        mpt_weights_map_create(graph, llmc ? MPT_WEIGHTS_PLAIN : MPT_WEIGHTS_HF, &s.map);
    if (status == MPT_OK) {
        s.specs = mpt_arena_alloc(&s.map.arena, (size_t)s.map.n * sizeof *s.specs);
        s.chunk = mpt_arena_alloc(&s.map.arena, CHUNK * sizeof *s.chunk);
        status = s.specs && s.chunk ? write_path(&s, llmc) : MPT_OUT_OF_MEMORY;
    }
    mpt_str_deinit(&s.overflows);
    mpt_weights_map_destroy(&s.map);
    return status;
}
