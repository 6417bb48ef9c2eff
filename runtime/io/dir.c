/* Folders as wholes, by POSIX. See dir.h. */
#define _GNU_SOURCE /* renameat2 */
#include "io/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

/* ---- what is in one ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mpt_status add_name(mpt_arena *arena, const char *name, mpt_dir_names *out) {
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return MPT_OK;
    const char **grown =
        mpt_arena_grow(arena, (void *)out->names, sizeof *grown, out->n, &out->cap);
    if (!grown)
        return MPT_OUT_OF_MEMORY;
    out->names = grown;
    grown[out->n] = mpt_arena_strdup(arena, name);
    if (!grown[out->n])
        return MPT_OUT_OF_MEMORY;
    out->n++;
    return MPT_OK;
}

mpt_status mpt_dir_list(mpt_arena *arena, const char *path, mpt_dir_names *out) {
    mpt_status status = MPT_OK;
    *out = (mpt_dir_names){0};
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT)
        return MPT_OK;
    if (!dir && errno == ENOTDIR)
        return MPT_FAIL(arena->ctx, MPT_IO, MPT_NOWHERE, "%s: is no folder", path);
    if (!dir)
        return mpt_file_fail(arena->ctx, MPT_NOWHERE, path, errno);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno)
            status = mpt_file_fail(arena->ctx, MPT_NOWHERE, path, errno);
        if (!entry || status != MPT_OK)
            break;
        status = add_name(arena, entry->d_name, out);
    }
    closedir(dir);
    if (out->n > 1)
        qsort((void *)out->names, (size_t)out->n, sizeof *out->names, by_name);
    return status;
}

/* ---- taking one away ---- */

static mpt_status remove_files(mpt_arena *arena, const char *path) {
    mpt_dir_names files;
    MPT_TRY(mpt_dir_list(arena, path, &files));
    for (int i = 0; i < files.n; i++) {
        const char *file = mpt_arena_printf(arena, "%s/%s", path, files.names[i]);
        if (!file)
            return MPT_OUT_OF_MEMORY;
        if (unlink(file) != 0 && errno != ENOENT)
            return mpt_file_fail(arena->ctx, MPT_NOWHERE, file, errno);
    }
    if (rmdir(path) != 0 && errno != ENOENT)
        return mpt_file_fail(arena->ctx, MPT_NOWHERE, path, errno);
    return MPT_OK;
}

static mpt_status empty_out(mpt_ctx *ctx, const char *path) {
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    mpt_status status = remove_files(&arena, path);
    mpt_arena_deinit(&arena);
    return status;
}

mpt_status mpt_dir_remove(mpt_ctx *ctx, const char *path, const char *aside) {
    if (strcmp(path, aside) != 0) {
        MPT_TRY(empty_out(ctx, aside)); /* of a removal that did not end */
        if (rename(path, aside) != 0)
            return errno == ENOENT ? MPT_OK : mpt_file_fail(ctx, MPT_NOWHERE, path, errno);
    }
    return empty_out(ctx, aside);
}

/* ---- making one ---- */

mpt_status mpt_dir_make(mpt_ctx *ctx, const char *path) {
    MPT_TRY(empty_out(ctx, path));
    return mkdir(path, 0777) == 0 ? MPT_OK : mpt_file_fail(ctx, MPT_NOWHERE, path, errno);
}

/* The folder that a path lies in, synced; one that cannot be synced as such (EINVAL on some
 * network file systems) is as durable as it gets. */
static mpt_status sync_above(mpt_ctx *ctx, const char *path) {
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash + 1 - path) : 1,
             slash ? path : ".");
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
    if (fd < 0)
        return mpt_file_fail(ctx, MPT_NOWHERE, above, errno);
    if (fsync(fd) != 0 && errno != EINVAL)
        error = errno;
    close(fd);
    if (!error)
        return MPT_OK;
    mpt_status status = mpt_file_fail(ctx, MPT_NOWHERE, path, error);
    mpt_hint(ctx, "it is whole, but the folder above it could not be synced");
    return status;
}

mpt_status mpt_dir_publish(mpt_ctx *ctx, const char *from, const char *to) {
    struct stat there;
    int done = -1;
    if (lstat(to, &there) == 0) {
        done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
        if (done != 0 && (errno == EINVAL || errno == ENOSYS))
            MPT_TRY(empty_out(ctx, to));
        else if (done != 0)
            return mpt_file_fail(ctx, MPT_NOWHERE, to, errno);
    }
    if (done != 0 && rename(from, to) != 0)
        return mpt_file_fail(ctx, MPT_NOWHERE, to, errno);
    return sync_above(ctx, to);
}
