/* A model's tensors by name, from one safetensors file or many.
 *
 * The path says what is read: a file, an index of shards, a folder that holds one of the two.
 * safetensors_header.c checks each file; here they become one sorted list. */
#include "io/safetensors_read.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"

static int by_name(const void *a, const void *b) {
    const mpt_stored_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* ---- opening ---- */

/* All tensors in one array, sorted; no name may stand in two shards. */
static mpt_status join_shards(mpt_safetensors *file) {
    size_t n = 0;
    for (int i = 0; i < file->n_shards; i++)
        n += (size_t)file->shards[i].n_tensors;
    file->tensors = mpt_arena_alloc(&file->arena, mpt_size_mul(n, sizeof *file->tensors));
    if (!file->tensors)
        return MPT_OUT_OF_MEMORY;
    if (n > INT_MAX)
        return MPT_FAIL(file->ctx, MPT_UNSUPPORTED, MPT_NOWHERE,
                        "%s: %zu tensors are more than can be counted", file->shards[0].path,
                        n);
    for (int i = 0; i < file->n_shards; i++) {
        const mpt_shard *shard = &file->shards[i];
        if (shard->n_tensors)
            memcpy(file->tensors + file->n_tensors, shard->tensors,
                   (size_t)shard->n_tensors * sizeof *file->tensors);
        file->n_tensors += shard->n_tensors;
    }
    if (n)
        qsort(file->tensors, n, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < n; i++) {
        const mpt_stored_tensor *t = &file->tensors[i];
        if (strcmp(t[-1].name, t->name) != 0)
            continue;
        MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE, "%s: tensor '%s' stands in %s, too", t->file,
                 mpt_brief_name(t->name).text, t[-1].file);
        mpt_hint(file->ctx, "a tensor lies in one shard: fetch all shards of one model");
        return MPT_DATA;
    }
    return MPT_OK;
}

static mpt_status open_single(mpt_safetensors *file, const char *path) {
    file->shards = mpt_arena_alloc(&file->arena, sizeof *file->shards);
    if (!file->shards)
        return MPT_OUT_OF_MEMORY;
    file->shards->path = mpt_arena_strdup(&file->arena, path);
    if (!file->shards->path)
        return MPT_OUT_OF_MEMORY;
    file->n_shards = 1;
    MPT_TRY(mpt_shard_open(&file->arena, file->shards));
    return join_shards(file);
}

static mpt_status open_index(mpt_safetensors *file, const char *path) {
    json_t *index;
    file->index = mpt_arena_strdup(&file->arena, path);
    if (!file->index)
        return MPT_OUT_OF_MEMORY;
    mpt_status status = mpt_safetensors_read_index(file, path, &index);
    if (status == MPT_OK)
        status = join_shards(file);
    if (status == MPT_OK)
        status = mpt_safetensors_check_index(file, path, index);
    json_decref(index);
    return status;
}

/* A folder must say by its files which model is meant. */
static mpt_status open_folder(mpt_safetensors *file, const char *folder) {
    const char *single = mpt_arena_printf(&file->arena, "%s/" SINGLE_FILE, folder);
    const char *index = mpt_arena_printf(&file->arena, "%s/" INDEX_FILE, folder);
    if (!single || !index)
        return MPT_OUT_OF_MEMORY;
    bool has_single = mpt_file_exists(single), has_index = mpt_file_exists(index);
    if (has_single != has_index)
        return has_single ? open_single(file, single) : open_index(file, index);
    if (has_single)
        MPT_FAIL(file->ctx, MPT_DATA, MPT_NOWHERE,
                 "%s: holds both " SINGLE_FILE " and " INDEX_FILE, folder);
    else
        MPT_FAIL(file->ctx, MPT_NOT_FOUND, MPT_NOWHERE,
                 "%s: holds neither " SINGLE_FILE " nor " INDEX_FILE, folder);
    mpt_hint(file->ctx, "name the file that is meant");
    return file->ctx->error.code;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

mpt_status mpt_safetensors_open(mpt_ctx *ctx, const char *path, mpt_safetensors **out) {
    struct stat st;
    mpt_status status;
    *out = NULL;
    mpt_safetensors *file = mpt_alloc(ctx, sizeof *file);
    if (!file)
        return mpt_fail_memory(ctx, sizeof *file);
    file->ctx = ctx;
    mpt_arena_init(&file->arena, ctx);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = open_folder(file, path);
    else if (ends_with(path, ".json"))
        status = open_index(file, path);
    else
        status = open_single(file, path);
    if (status == MPT_NOT_FOUND && !*ctx->error.hint)
        mpt_hint(ctx, "name a safetensors file, an index of shards, or the folder of a model");
    if (status == MPT_OK)
        *out = file;
    else
        mpt_safetensors_close(file);
    return status;
}

void mpt_safetensors_close(mpt_safetensors *file) {
    if (!file)
        return;
    for (int i = 0; i < file->n_shards; i++)
        mpt_file_map_close(&file->shards[i].map);
    mpt_arena_deinit(&file->arena);
    mpt_free(file->ctx, file);
}

/* ---- what is in it ---- */

bool mpt_safetensors_reads(const mpt_safetensors *file, const char *path) {
    bool reads = file->index && mpt_file_same(file->index, path);
    for (int i = 0; !reads && i < file->n_shards; i++)
        reads = mpt_file_same(file->shards[i].path, path);
    return reads;
}

int mpt_safetensors_count(const mpt_safetensors *file) {
    return file->n_tensors;
}

const mpt_stored_tensor *mpt_safetensors_at(const mpt_safetensors *file, int index) {
    return index >= 0 && index < file->n_tensors ? &file->tensors[index] : NULL;
}

const mpt_stored_tensor *mpt_safetensors_find(const mpt_safetensors *file, const char *name) {
    const mpt_stored_tensor key = {.name = name};
    if (file->n_tensors == 0)
        return NULL;
    return bsearch(&key, file->tensors, (size_t)file->n_tensors, sizeof key, by_name);
}

const char *mpt_safetensors_metadata(const mpt_safetensors *file, const char *key) {
    const mpt_shard *shard = &file->shards[0];
    for (int i = 0; i < shard->n_metadata; i++)
        if (strcmp(shard->metadata[2 * i], key) == 0)
            return shard->metadata[2 * i + 1];
    return NULL;
}
