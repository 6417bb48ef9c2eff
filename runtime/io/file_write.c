/* Writing a file: whole or not at all. See file_write.h.
 *
 * The file grows up without a name in the folder where it will stay, so that the system takes
 * it back whatever ends the process; on file systems that know no such files it has a temporary
 * name. The rename at the end is one step of one file system. Its space is taken before it is
 * mapped: on a full disk a write to a map would be a signal, not an error. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "io/file_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/file.h"

enum { TEMPORARY_NAMES = 100, START_MAX = 64 };

struct mpt_file_writer {
    mpt_ctx *ctx;
    mpt_arena arena;       /* of the paths */
    const char *path;      /* where the file will stay, links followed */
    const char *folder;    /* of that path */
    const char *temporary; /* NULL: there is none */
    bool unnamed;          /* the file has no name before it is committed */
    int fd, folder_fd;     /* -1: not open */
    unsigned char *map;    /* NULL: not mapped */
    size_t size;
};

/* ---- the two names ---- */

/* Whether a file may be replaced: an empty one, or one of the kind that is written. All else
 * was hardly meant: a model's config, its index, a letter. */
static mpt_status check_replaced(mpt_file_writer *w, const char *path,
                                 const mpt_file_kind *kind) {
    unsigned char start[START_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mpt_file_fail(w->ctx, MPT_NOWHERE, path, errno);
    ssize_t got = pread(fd, start, kind->n_start, 0);
    close(fd);
    if (got == 0 || (got > 0 && kind->is(path, start, (size_t)got)))
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(w->ctx, MPT_INVALID, MPT_NOWHERE,
                 "%s: is there and is no %s, so it is not replaced", path, kind->name);
    mpt_hint(w->ctx, "name another output, or remove the file first");
    return status;
}

/* Only a regular file may be replaced: a rename would do away with a device or a folder's name
 * as easily. */
static mpt_status resolve_path(mpt_file_writer *w, const char *path,
                               const mpt_file_kind *kind) {
    struct stat st;
    char real[PATH_MAX];
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (!realpath(path, real))
            return mpt_file_fail(w->ctx, MPT_NOWHERE, path, errno);
        path = real;
    }
    bool there = stat(path, &st) == 0;
    if (there && !S_ISREG(st.st_mode)) {
        MPT_FAIL(w->ctx, MPT_INVALID, MPT_NOWHERE, "%s: is there and is no regular file", path);
        mpt_hint(w->ctx, "name a file to write, not a folder or a device");
        return MPT_INVALID;
    }
    if (there)
        MPT_TRY(check_replaced(w, path, kind));
    w->path = mpt_arena_strdup(&w->arena, path);
    return w->path ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* Where the system shows a file that has no name, to give it one. */
typedef struct descriptor_path {
    char text[48];
} descriptor_path;

static descriptor_path path_of(int fd) {
    descriptor_path path;
    snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", fd);
    return path;
}

/* False where the file system knows no files without a name, or nothing could name it later. */
static bool open_unnamed(mpt_file_writer *w) {
    w->fd = open(w->folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return false;
    w->unnamed = access(path_of(w->fd).text, F_OK) == 0;
    if (!w->unnamed) {
        close(w->fd);
        w->fd = -1;
    }
    return w->unnamed;
}

/* Takes the name for the file, new or open without one; -1 with errno where it cannot.
 * open() applies the umask, which mkstemp() would not. */
static int take_name(mpt_file_writer *w, const char *name) {
    if (w->unnamed)
        return linkat(AT_FDCWD, path_of(w->fd).text, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    w->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return w->fd < 0 ? -1 : 0;
}

/* Gives the file a temporary name beside the one it will have. */
static mpt_status take_temporary_name(mpt_file_writer *w) {
    for (int i = 0; i < TEMPORARY_NAMES; i++) {
        const char *name =
            mpt_arena_printf(&w->arena, "%s.%ld-%d.part", w->path, (long)getpid(), i);
        if (!name)
            return MPT_OUT_OF_MEMORY;
        if (take_name(w, name) == 0) {
            w->temporary = name;
            return MPT_OK;
        }
        if (errno != EEXIST)
            break;
    }
    mpt_status status = mpt_file_fail(w->ctx, MPT_NOWHERE, w->path, errno);
    mpt_hint(w->ctx, "the folder must exist and let files be made in it");
    return status;
}

/* The folder is held open for its sync. Where it may be written but not read, that is left to
 * the system. */
static mpt_status open_folder(mpt_file_writer *w) {
    const char *slash = strrchr(w->path, '/');
    int length = slash ? (int)(slash + 1 - w->path) : 1;
    w->folder = mpt_arena_printf(&w->arena, "%.*s", length, slash ? w->path : ".");
    if (!w->folder)
        return MPT_OUT_OF_MEMORY;
    w->folder_fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return MPT_OK;
}

/* ---- the space ---- */

/* Zeroed and on the disk. A limit of the process would come as a signal, so it is asked first.
 * So is the room: where the file system has no call for this, the C library writes the blocks
 * one by one, and would find the disk full only when it is. */
static int take_space(int fd, size_t size) {
    struct rlimit limit;
    struct statvfs disk;
    int error;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        size > limit.rlim_cur)
        return EFBIG;
    if (fstatvfs(fd, &disk) == 0 && disk.f_blocks && size / disk.f_frsize > disk.f_bavail)
        return ENOSPC;
    do
        error = posix_fallocate(fd, 0, (off_t)size);
    while (error == EINTR);
    return error;
}

static mpt_status map_temporary(mpt_file_writer *w) {
    if (w->size == 0)
        return MPT_OK; /* nothing to map */
    int error = take_space(w->fd, w->size);
    void *map = MAP_FAILED;
    if (error == 0) {
        map = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
        error = map == MAP_FAILED ? errno : 0;
    }
    if (error) {
        mpt_status status = mpt_file_fail(w->ctx, MPT_NOWHERE, w->path, error);
        if (error != ENOMEM)
            mpt_hint(w->ctx, "it takes %zu bytes: make room or write elsewhere", w->size);
        return status;
    }
    w->map = map;
    return MPT_OK;
}

static mpt_status prepare(mpt_file_writer *w, const char *path, const mpt_file_kind *kind) {
    MPT_TRY(resolve_path(w, path, kind));
    MPT_TRY(open_folder(w));
    if (!open_unnamed(w))
        MPT_TRY(take_temporary_name(w));
    return map_temporary(w);
}

/* ---- the calls ---- */

mpt_status mpt_file_create(mpt_ctx *ctx, const char *path, size_t bytes,
                           const mpt_file_kind *kind, mpt_file_writer **out) {
    *out = NULL;
    mpt_file_writer *w = mpt_alloc(ctx, sizeof *w);
    if (!w)
        return mpt_fail_memory(ctx, sizeof *w);
    w->ctx = ctx;
    w->fd = w->folder_fd = -1;
    w->size = bytes;
    mpt_arena_init(&w->arena, ctx);
    mpt_status status = prepare(w, path, kind);
    if (status == MPT_OK)
        *out = w;
    else
        mpt_file_abandon(w);
    return status;
}

void *mpt_file_bytes(mpt_file_writer *writer) {
    return writer->map;
}

static mpt_status fail_commit(const mpt_file_writer *w, const char *hint) {
    mpt_status status = mpt_file_fail(w->ctx, MPT_NOWHERE, w->path, errno);
    mpt_hint(w->ctx, "%s", hint);
    return status;
}

/* From the rename on there is no temporary file. A folder that cannot be synced as such (EINVAL
 * on some network file systems) is as durable as it gets. */
static mpt_status publish(mpt_file_writer *w) {
    static const char unchanged[] = "what had this name before is unchanged";
    if ((w->map && msync(w->map, w->size, MS_SYNC) != 0) || fsync(w->fd) != 0)
        return fail_commit(w, unchanged);
    if (w->unnamed)
        MPT_TRY(take_temporary_name(w));
    if (rename(w->temporary, w->path) != 0)
        return fail_commit(w, unchanged);
    w->temporary = NULL;
    if (w->folder_fd >= 0 && fsync(w->folder_fd) != 0 && errno != EINVAL)
        return fail_commit(w, "the file is whole, but its folder could not be synced");
    return MPT_OK;
}

mpt_status mpt_file_commit(mpt_file_writer *writer) {
    mpt_status status = publish(writer);
    mpt_file_abandon(writer);
    return status;
}

void mpt_file_abandon(mpt_file_writer *writer) {
    if (!writer)
        return;
    mpt_ctx *ctx = writer->ctx;
    if (writer->map)
        munmap(writer->map, writer->size);
    if (writer->temporary)
        unlink(writer->temporary);
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->folder_fd >= 0)
        close(writer->folder_fd);
    mpt_arena_deinit(&writer->arena);
    mpt_free(ctx, writer);
}
