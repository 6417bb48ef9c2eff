/* Files by POSIX: existence and read-only maps. See file.h. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool mpt_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool mpt_file_is_named(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool mpt_file_same(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

bool mpt_file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

size_t mpt_file_start(const char *path, unsigned char *out, size_t n) {
    struct stat st;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        got = pread(fd, out, n, 0);
    close(fd);
    return got > 0 ? (size_t)got : 0;
}

mpt_status mpt_file_make_folder(mpt_ctx *ctx, const char *path, bool *out_made) {
    char part[PATH_MAX];
    size_t n = strlen(path);
    *out_made = false;
    if (n == 0 || n >= sizeof part)
        return mpt_file_fail(ctx, MPT_NOWHERE, path, n ? ENAMETOOLONG : ENOENT);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        bool is_new = mkdir(part, 0777) == 0;
        int error = errno == EEXIST ? ENOTDIR : errno;
        if (!is_new && !mpt_file_is_folder(part))
            return mpt_file_fail(ctx, MPT_NOWHERE, part, error);
        *out_made |= is_new;
    }
    return MPT_OK;
}

void mpt_file_remove(const char *path) {
    (void)remove(path);
}

mpt_status mpt_file_fail(mpt_ctx *ctx, mpt_where where, const char *path, int error) {
    char text[128] = "";
    if (strerror_r(error, text, sizeof text) != 0)
        text[0] = 0;
    bool nowhere =
        error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
    mpt_status status =
        MPT_FAIL(ctx, nowhere ? MPT_NOT_FOUND : MPT_IO, where, "%s: %s", path, text);
    if (error == ENOMEM)
        mpt_hint(ctx, "the file finds no room among the addresses of the process: raise its "
                      "limit (ulimit -v) or vm.max_map_count, or end what else is mapped");
    return status;
}

static mpt_status check_regular(mpt_ctx *ctx, mpt_where where, const char *path, int fd,
                                off_t *out_size) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mpt_file_fail(ctx, where, path, errno);
    *out_size = st.st_size;
    if (S_ISREG(st.st_mode))
        return MPT_OK;
    mpt_status status = MPT_FAIL(ctx, MPT_DATA, where, "%s: not a regular file", path);
    mpt_hint(ctx, "name a file, not a folder, a pipe or a device");
    return status;
}

mpt_status mpt_file_open(mpt_ctx *ctx, mpt_where where, const char *path, int *out_fd,
                         size_t *out_bytes) {
    off_t size = 0;
    *out_bytes = 0;
    *out_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (*out_fd < 0)
        return mpt_file_fail(ctx, where, path, errno);
    mpt_status status = check_regular(ctx, where, path, *out_fd, &size);
    if (status != MPT_OK) {
        close(*out_fd);
        *out_fd = -1;
    }
    *out_bytes = (size_t)size;
    return status;
}

static mpt_status map_descriptor(mpt_ctx *ctx, mpt_where where, const char *path, int fd,
                                 mpt_file_map *out) {
    if (out->size == 0)
        return MPT_OK; /* an empty map is an error to mmap, not to us */
    void *data = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        out->size = 0;
        return mpt_file_fail(ctx, where, path, errno);
    }
    out->data = data;
    return MPT_OK;
}

mpt_status mpt_file_map_open(mpt_ctx *ctx, mpt_where where, const char *path,
                             mpt_file_map *out) {
    *out = (mpt_file_map){NULL, 0};
    int fd;
    MPT_TRY(mpt_file_open(ctx, where, path, &fd, &out->size));
    mpt_status status = map_descriptor(ctx, where, path, fd, out);
    close(fd);
    return status;
}

void mpt_file_map_close(mpt_file_map *map) {
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    *map = (mpt_file_map){NULL, 0};
}
