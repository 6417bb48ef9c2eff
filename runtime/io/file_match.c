/* Names in folders: what a glob matches, and what is nearest to a name that is not there. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

bool mpt_file_is_glob(const char *path) {
    return strpbrk(path, "*?[") != NULL;
}

/* By their bytes, not by the locale: the same order everywhere. */
static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mpt_status copy_names(mpt_arena *arena, char **names, size_t n, const char ***out) {
    const char **copy = mpt_arena_alloc(arena, mpt_size_mul(n, sizeof *copy));
    if (!copy)
        return MPT_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (!(copy[i] = mpt_arena_strdup(arena, names[i])))
            return MPT_OUT_OF_MEMORY;
    qsort(copy, n, sizeof *copy, by_bytes);
    *out = copy;
    return MPT_OK;
}

mpt_status mpt_file_match(mpt_ctx *ctx, mpt_arena *arena, const char *pattern,
                          const char ***out, int *out_n) {
    glob_t found;
    memset(&found, 0, sizeof found);
    *out = NULL;
    *out_n = 0;
    int error = glob(pattern, GLOB_NOSORT, NULL, &found);
    mpt_status status = MPT_OK;
    if (error == GLOB_NOSPACE)
        status = mpt_file_fail(ctx, MPT_NOWHERE, pattern, ENOMEM);
    else if (error == 0 && found.gl_pathc > INT32_MAX / 2)
        status = MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE, "%s: matches too many files", pattern);
    else if (error == 0)
        status = copy_names(arena, found.gl_pathv, found.gl_pathc, out);
    if (status == MPT_OK && error == 0)
        *out_n = (int)found.gl_pathc;
    globfree(&found);
    return status;
}

/* ---- near names ---- */

enum { MOST_NAMES = 1024 }; /* of a folder that are looked at */

/* Reads the folder's names into the arena; 0 where it cannot be read. */
static int read_names(mpt_arena *arena, const char *folder, const char **names) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *entry; dir && n < MOST_NAMES && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && (names[n] = mpt_arena_strdup(arena, entry->d_name)))
            n++;
    if (dir)
        closedir(dir);
    return n;
}

const char *mpt_file_nearest(mpt_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *folder =
        slash ? mpt_arena_printf(arena, "%.*s", (int)(slash + 1 - path), path) : ".";
    const char **names = mpt_arena_alloc(arena, MOST_NAMES * sizeof *names);
    if (!folder || !names)
        return NULL;
    int n = read_names(arena, folder, names);
    qsort(names, (size_t)n, sizeof *names, by_bytes);
    const char *near = mpt_nearest(name, names, n);
    return near ? mpt_arena_printf(arena, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path,
                                   near)
                : NULL;
}
