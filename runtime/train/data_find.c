/* From the paths of a recipe to files: beside the recipe, by glob, and what may have been meant
 * where nothing is there. */
#include <string.h>

#include "train/data_source.h"

/* The path in the recipe's folder, NULL where there is none or memory is out (*failed). */
static const char *beside(mpt_data *data, const char *path, const char *recipe_file,
                          bool *failed) {
    const char *slash = recipe_file ? strrchr(recipe_file, '/') : NULL;
    *failed = false;
    if (path[0] == '/' || !slash)
        return NULL;
    const char *made = mpt_arena_printf(&data->arena, "%.*s%s", (int)(slash + 1 - recipe_file),
                                        recipe_file, path);
    *failed = !made;
    return made;
}

/* A glob in the recipe's folder, whose own name stands for itself. */
static const char *glob_beside(mpt_data *data, const char *path, const char *recipe_file,
                               bool *failed) {
    const char *slash = recipe_file ? strrchr(recipe_file, '/') : NULL;
    *failed = false;
    if (path[0] == '/' || !slash)
        return NULL;
    size_t n = (size_t)(slash + 1 - recipe_file), bytes = 2 * n + strlen(path) + 1, used = 0;
    char *made = mpt_arena_alloc(&data->arena, bytes);
    *failed = !made;
    for (size_t i = 0; made && i < n; i++) {
        if (strchr("*?[]\\", recipe_file[i]))
            made[used++] = '\\';
        made[used++] = recipe_file[i];
    }
    if (made)
        strcpy(made + used, path);
    return made;
}

/* Whether paths[i] is the index of a pair of Megatron's whose other file is there too. */
static bool is_index_of_pair(const mpt_paths *paths, int i) {
    size_t n = strlen(paths->path[i]);
    if (n < 4 || strcmp(paths->path[i] + n - 4, ".idx") != 0)
        return false;
    for (int k = 0; k < paths->n; k++)
        if (strlen(paths->path[k]) == n &&
            strncmp(paths->path[i], paths->path[k], n - 4) == 0 &&
            strcmp(paths->path[k] + n - 4, ".bin") == 0)
            return true;
    return false;
}

/* The two files of a pair are one corpus, not two. */
static mpt_status drop_indices(mpt_data *data, mpt_paths *paths) {
    int kept = 0;
    const char **path =
        mpt_arena_alloc(&data->arena, mpt_size_mul((size_t)paths->n + 1, sizeof *path));
    if (!path)
        return MPT_OUT_OF_MEMORY;
    for (int i = 0; i < paths->n; i++)
        if (!is_index_of_pair(paths, i))
            path[kept++] = paths->path[i];
    *paths = (mpt_paths){path, kept};
    return MPT_OK;
}

static mpt_status fail_unmatched(mpt_data *data, mpt_where where, const char *path) {
    mpt_status status = MPT_FAIL(data->ctx, MPT_NOT_FOUND, where, "%s: matches no file", path);
    mpt_data_hint_missing(data, path);
    return status;
}

static mpt_status take_one(mpt_data *data, const char *path, mpt_paths *out) {
    out->path = mpt_arena_alloc(&data->arena, sizeof *out->path);
    if (!out->path)
        return MPT_OUT_OF_MEMORY;
    out->path[0] = path;
    out->n = 1;
    return MPT_OK;
}

mpt_status mpt_data_find(mpt_data *data, mpt_where where, const char *path,
                         const char *recipe_file, mpt_paths *out) {
    bool failed;
    const char *other = beside(data, path, recipe_file, &failed);
    if (failed)
        return MPT_OUT_OF_MEMORY;
    if (mpt_tokens_exist(path))
        return take_one(data, path, out);
    if (other && mpt_tokens_exist(other))
        return take_one(data, other, out);
    if (!mpt_file_is_glob(path))
        return take_one(data, path, out);
    MPT_TRY(mpt_file_match(data->ctx, &data->arena, path, &out->path, &out->n));
    other = out->n ? NULL : glob_beside(data, path, recipe_file, &failed);
    if (failed)
        return MPT_OUT_OF_MEMORY;
    if (other)
        MPT_TRY(mpt_file_match(data->ctx, &data->arena, other, &out->path, &out->n));
    MPT_TRY(drop_indices(data, out));
    return out->n ? MPT_OK : fail_unmatched(data, where, path);
}

void mpt_data_hint_missing(mpt_data *data, const char *path) {
    const char *near = mpt_file_nearest(&data->arena, path);
    if (near)
        mpt_hint(data->ctx, "did you mean '%s'?", near);
    else
        mpt_hint(data->ctx, "a path starts at the working directory or at the recipe's folder");
}
