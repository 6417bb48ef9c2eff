/* Files as the operating system gives them: the only place under the library that calls POSIX.
 *
 * A mapped file is lent memory that the kernel pages in; it counts for nothing in the context's
 * memory. Errors name the path and what the system said. */
#ifndef MPT_IO_FILE_H
#define MPT_IO_FILE_H

#include "base/base.h"

typedef struct mpt_file_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
} mpt_file_map;

/* Whether something stands at this path that could be opened as a file. */
bool mpt_file_exists(const char *path);

/* Whether its folder has something of this name, be it a link that leads nowhere. */
bool mpt_file_is_named(const char *path);

/* Whether two paths, links followed, lead to one thing that is there. */
bool mpt_file_same(const char *a, const char *b);

/* Whether a path has characters that stand for others: * ? [ */
bool mpt_file_is_glob(const char *path);

/* The paths that a glob matches, as POSIX reads it, sorted by their bytes. None is no error. */
mpt_status mpt_file_match(mpt_ctx *ctx, mpt_arena *arena, const char *pattern,
                          const char ***out, int *out_n);

/* What may have been meant by a path that leads nowhere: the name in its folder that is nearest
 * to its own. NULL where none is near, or the folder cannot be read. */
const char *mpt_file_nearest(mpt_arena *arena, const char *path);

/* The first n bytes of a regular file: how many there are, 0 where it cannot be read. */
size_t mpt_file_start(const char *path, unsigned char *out, size_t n);

/* Makes a folder, and those above it that are missing; one that is there is taken. *out_made
 * says whether it was not. */
mpt_status mpt_file_make_folder(mpt_ctx *ctx, const char *path, bool *out_made);
bool mpt_file_is_folder(const char *path);

/* Takes away a file, or an empty folder, that this process has made; failing is no matter. */
void mpt_file_remove(const char *path);

/* Opens a regular file for reading and tells its size; MPT_DATA for anything else, without
 * waiting for what a pipe may bring. *out_fd is -1 where it fails. */
mpt_status mpt_file_open(mpt_ctx *ctx, mpt_where where, const char *path, int *out_fd,
                         size_t *out_bytes);

/* Maps a whole regular file for reading. `where` is the recipe line that asked for it. */
mpt_status mpt_file_map_open(mpt_ctx *ctx, mpt_where where, const char *path,
                             mpt_file_map *out);
void mpt_file_map_close(mpt_file_map *map);

/* Sets the error of a failed system call: the path, then what the system says of `error`, an
 * errno. MPT_NOT_FOUND where the path leads nowhere, else MPT_IO. The way out is said of memory
 * (ENOMEM) only. */
mpt_status mpt_file_fail(mpt_ctx *ctx, mpt_where where, const char *path, int error);

#endif
