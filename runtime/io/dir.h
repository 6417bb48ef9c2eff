/* Folders as wholes: what is in one, one that gets its name when it is complete, one that is
 * taken away. Checkpoints are such folders, with files and no folders in them. */
#ifndef MPT_IO_DIR_H
#define MPT_IO_DIR_H

#include "base/base.h"

/* The names of what a folder holds, sorted by their bytes, "." and ".." left out; in the arena.
 * A folder that is not there holds nothing. */
typedef struct mpt_dir_names {
    int n, cap;
    const char **names;
} mpt_dir_names;
mpt_status mpt_dir_list(mpt_arena *arena, const char *path, mpt_dir_names *out);

/* Makes an empty folder; what is left at this path of an earlier try is removed first. */
mpt_status mpt_dir_make(mpt_ctx *ctx, const char *path);

/* Gives a folder whose files are on the disk its name, durably. What stood at `to` then stands
 * at `from`, or, where the file system cannot exchange two names in one step, is gone. Should
 * the sync of the folder above fail, the name is there, and the message says so. */
mpt_status mpt_dir_publish(mpt_ctx *ctx, const char *from, const char *to);

/* Takes away a folder and the files in it. It gets the name `aside` before the first file goes,
 * so that whatever ends the process, nothing incomplete is left under `path`; where both are
 * one, it has such a name already. One that is not there is gone. */
mpt_status mpt_dir_remove(mpt_ctx *ctx, const char *path, const char *aside);

#endif
