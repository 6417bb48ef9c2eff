/* A text file line by line, for files that may be longer than memory and that another process
 * may be writing. */
#ifndef MPT_IO_LINES_H
#define MPT_IO_LINES_H

#include "base/base.h"

typedef struct mpt_lines mpt_lines;

/* MPT_NOT_FOUND where there is no such file; MPT_DATA where it is a folder or a pipe. */
mpt_status mpt_lines_open(mpt_ctx *ctx, const char *path, mpt_lines **out);
void mpt_lines_close(mpt_lines *lines);

/* One line without its end. A last line that has no end yet is `torn`: it may be half of one. A
 * line of more than 1 MiB is cut, and then no line of ours. Lent until the next call. */
typedef struct mpt_line {
    const char *text; /* NULL past the last one */
    size_t n;
    bool torn;
} mpt_line;
mpt_status mpt_lines_next(mpt_lines *lines, mpt_line *out);

#endif
