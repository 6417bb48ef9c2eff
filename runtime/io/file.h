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

/* Whether two paths, links followed, lead to one thing that is there. */
bool mpt_file_same(const char *a, const char *b);

/* Maps a whole regular file for reading. `where` is the recipe line that asked for it. */
mpt_status mpt_file_map_open(mpt_ctx *ctx, mpt_where where, const char *path,
                             mpt_file_map *out);
void mpt_file_map_close(mpt_file_map *map);

/* Sets the error of a failed system call: the path, then what the system says of `error`, an
 * errno. MPT_NOT_FOUND where the path leads nowhere, else MPT_IO. The way out is said of memory
 * (ENOMEM) only. */
mpt_status mpt_file_fail(mpt_ctx *ctx, mpt_where where, const char *path, int error);

#endif
