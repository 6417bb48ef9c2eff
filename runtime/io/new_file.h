/* A file that is written whole or not at all: mapped under a temporary name, or none, and named
 * when it is complete. */
#ifndef MPT_IO_NEW_FILE_H
#define MPT_IO_NEW_FILE_H

#include "base/base.h"

/* Of a file that is there already, at most so many bytes tell its kind. */
enum { MPT_FILE_START = 16 };

/* What a file is. One of the same kind is replaced; any other stays, and is an error. */
typedef struct mpt_file_kind {
    const char *name;                                     /* "safetensors file" */
    bool (*starts)(const unsigned char *start, size_t n); /* n: 1 to MPT_FILE_START */
} mpt_file_kind;

typedef struct mpt_new_file mpt_new_file;

/* Maps a file of `size` bytes, more than 0, zeroed, that will be at `path` (without any name
 * where the file system can do that). Space on the disk is taken here, so that a full disk is
 * an error and no signal. A link is followed: the file that it leads to is replaced. */
mpt_status mpt_new_file_create(mpt_ctx *ctx, const char *path, const mpt_file_kind *kind,
                               size_t size, mpt_new_file **out);
unsigned char *mpt_new_file_data(mpt_new_file *file);

/* Makes the file durable and gives it its name: from then on it is whole. It is gone either
 * way; where this fails, so is the temporary file, and what had the name before is there.
 * (Should the last step fail, the sync of the folder, then the new file is there, and the
 * message says so.)
 */
mpt_status mpt_new_file_commit(mpt_new_file *file);

/* Drops the temporary file. Takes NULL. */
void mpt_new_file_abandon(mpt_new_file *file);

#endif
