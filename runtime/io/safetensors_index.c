/* The index of a model in shards: which file holds which tensor.
 *
 * {"metadata": {...}, "weight_map": {"tensor": "file", ...}}. An index comes from elsewhere, so
 * the files it names must lie in its own folder, and what they hold must be what it lists: no
 * tensor too few, none too many, each in its file. */
#include "io/safetensors_read.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) {
    const char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

/* A file name and nothing that leads elsewhere. */
static bool stays_in_folder(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The files of the map, each once, in the order of their names. */
static mpt_status list_shards(mpt_safetensors *file, const char *path, json_t *map,
                              const char **names, int *out_n) {
    const char *tensor;
    json_t *value;
    int n = 0, kept = 0;
    json_object_foreach(map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !stays_in_folder(name)) {
            MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE,
                     "%s: weight_map: tensor '%s': '%s' is no name of a file in this folder",
                     path, mpt_brief_name(tensor).text,
                     name ? mpt_brief_name(name).text : "(no string)");
            mpt_hint(file->ctx, "shards lie beside their index");
            return MPT_DATA;
        }
        names[n++] = name;
    }
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    *out_n = kept;
    return MPT_OK;
}

static mpt_status open_shards(mpt_safetensors *file, const char *path, const char **names,
                              int n) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    file->shards = mpt_arena_alloc(&file->arena, (size_t)n * sizeof *file->shards);
    if (!file->shards)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++) {
        mpt_shard *shard = &file->shards[file->n_shards++];
        shard->path = mpt_arena_printf(&file->arena, "%.*s%s", folder, path, names[i]);
        if (!shard->path)
            return MPT_OUT_OF_MEMORY;
        mpt_status status = mpt_shard_open(&file->arena, shard);
        if (status == MPT_NOT_FOUND)
            mpt_hint(file->ctx, "'%s' names it: all shards must be there", path);
        MPT_TRY(status);
    }
    return MPT_OK;
}

static mpt_status open_weight_map(mpt_safetensors *file, const char *path, json_t *index) {
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE,
                 "%s: weight_map: is missing, empty or no object", path);
        mpt_hint(file->ctx, "an index of shards is {\"weight_map\": {\"tensor\": \"file\"}}");
        return MPT_DATA;
    }
    const char **names =
        mpt_arena_alloc(&file->arena, mpt_size_mul(json_object_size(map), sizeof *names));
    int n;
    if (!names)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(list_shards(file, path, map, names, &n));
    return open_shards(file, path, names, n);
}

/* A list of names: larger than the largest header it is no such list. */
static mpt_status parse_index(mpt_ctx *ctx, const char *path, const mpt_file_map *map,
                              json_t **out) {
    if (map->size > MPT_SAFETENSORS_HEADER_MAX) {
        MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE,
                 "%s: has %zu bytes, and an index of shards at most %d", path, map->size,
                 MPT_SAFETENSORS_HEADER_MAX);
        mpt_hint(ctx, "name a safetensors file, an index of shards, or the folder of a model");
        return MPT_DATA;
    }
    const char *text = map->data ? (const char *)map->data : "";
    return mpt_safetensors_json(ctx, path, text, map->size, 0, out);
}

mpt_status mpt_safetensors_read_index(mpt_safetensors *file, const char *path, json_t **out) {
    mpt_file_map map;
    *out = NULL;
    MPT_TRY(mpt_file_map_open(file->ctx, MPT_NOWHERE, path, &map));
    mpt_status status = parse_index(file->ctx, path, &map, out);
    mpt_file_map_close(&map);
    return status == MPT_OK ? open_weight_map(file, path, *out) : status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

mpt_status mpt_safetensors_check_index(const mpt_safetensors *file, const char *path,
                                       const json_t *index) {
    json_t *map = json_object_get(index, "weight_map"), *value;
    const char *name;
    json_object_foreach(map, name, value) {
        const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
        const char *shard = json_string_value(value);
        if (t && strcmp(base_name(t->file), shard) == 0)
            continue;
        MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE,
                 "%s: weight_map: tensor '%s' is not in '%s'%s%s", path,
                 mpt_brief_name(name).text, shard, t ? ", but in " : "",
                 t ? base_name(t->file) : "");
        mpt_hint(file->ctx, "index and shards are of different models: fetch all again");
        return MPT_DATA;
    }
    for (int i = 0; i < file->n_tensors; i++) {
        const mpt_stored_tensor *t = &file->tensors[i];
        if (json_object_get(map, t->name))
            continue;
        MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE, "%s: tensor '%s' is not in weight_map of %s",
                 t->file, mpt_brief_name(t->name).text, base_name(path));
        mpt_hint(file->ctx, "index and shards are of different models: fetch all again");
        return MPT_DATA;
    }
    return MPT_OK;
}
