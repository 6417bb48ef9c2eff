/* Writing a file: whole or not at all.
 *
 * The file has its full size from the start and is mapped, so that it can be filled in any
 * order, by any thread; it gets its name when it is whole. safetensors_write.c and
 * tokens_write.c say what goes in. */
#ifndef MPT_IO_FILE_WRITE_H
#define MPT_IO_FILE_WRITE_H

#include "base/base.h"

/* What a file at the output's place must be for it to be replaced; an empty one always is. */
typedef struct mpt_file_kind {
    const char *name; /* "safetensors file" */
    size_t n_start;   /* bytes that tell: 64 at most */
    /* Whether a file with this path and these first bytes (n_start, or fewer where it is
     * shorter) is one. */
    bool (*is)(const char *path, const unsigned char *start, size_t n);
} mpt_file_kind;

typedef struct mpt_file_writer mpt_file_writer;

/* Maps a new file of `bytes` bytes, zeroed, under a temporary name beside `path` (without any
 * name where the file system can do that). Space on the disk is taken here, so that a full disk
 * is an error and no signal. MPT_INVALID where something stands at `path` that is not of this
 * kind: it is not replaced. */
mpt_status mpt_file_create(mpt_ctx *ctx, const char *path, size_t bytes,
                           const mpt_file_kind *kind, mpt_file_writer **out);

/* Its bytes, to be filled; NULL for a file of 0 bytes. */
void *mpt_file_bytes(mpt_file_writer *writer);

/* Makes the file durable and gives it its name: from then on it is whole. The writer is gone
 * either way; where it fails, so is the temporary file, and what had the name before is there.
 * A link is followed: the file that it leads to is replaced. (Should the last step fail, the
 * sync of the folder, then the new file is there, and the message says so.) */
mpt_status mpt_file_commit(mpt_file_writer *writer);

/* Drops the temporary file. Takes NULL. */
void mpt_file_abandon(mpt_file_writer *writer);

#endif
