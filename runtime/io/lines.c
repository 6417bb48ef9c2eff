/* Lines of a file, through one buffer that holds the longest there may be. See lines.h. */
#include "io/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"

enum { LONGEST = 1 << 20 };

struct mpt_lines {
    mpt_ctx *ctx;
    const char *path; /* lent */
    int fd;
    bool ended;
    bool cutting;    /* the rest of a line that was too long is passed over */
    size_t at, used; /* of the buffer: the next line, and all that was read */
    char buffer[LONGEST];
};

mpt_status mpt_lines_open(mpt_ctx *ctx, const char *path, mpt_lines **out) {
    *out = NULL;
    int fd;
    size_t bytes;
    MPT_TRY(mpt_file_open(ctx, MPT_NOWHERE, path, &fd, &bytes));
    mpt_lines *lines = mpt_alloc(ctx, sizeof *lines);
    if (!lines) {
        close(fd);
        return mpt_fail_memory(ctx, sizeof *lines);
    }
    lines->ctx = ctx;
    lines->path = path;
    lines->fd = fd;
    *out = lines;
    return MPT_OK;
}

void mpt_lines_close(mpt_lines *lines) {
    if (!lines)
        return;
    close(lines->fd);
    mpt_free(lines->ctx, lines);
}

/* Moves what is left to the front and reads more behind it. */
static mpt_status read_more(mpt_lines *lines) {
    memmove(lines->buffer, lines->buffer + lines->at, lines->used - lines->at);
    lines->used -= lines->at;
    lines->at = 0;
    ssize_t n;
    do
        n = read(lines->fd, lines->buffer + lines->used, LONGEST - lines->used);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return mpt_file_fail(lines->ctx, MPT_NOWHERE, lines->path, errno);
    lines->ended = n == 0;
    lines->used += (size_t)n;
    return MPT_OK;
}

/* The line that the buffer holds, if it holds its end or can hold no more; text NULL: neither.
 */
static mpt_line take(mpt_lines *lines) {
    char *from = lines->buffer + lines->at;
    size_t left = lines->used - lines->at;
    char *end = memchr(from, '\n', left);
    mpt_line line = {.text = from, .n = end ? (size_t)(end - from) : left};
    if (!end && !(lines->ended && left > 0) && left < LONGEST)
        return (mpt_line){.text = NULL};
    line.torn = !end && lines->ended;
    lines->at += line.n + (end ? 1 : 0);
    return line;
}

mpt_status mpt_lines_next(mpt_lines *lines, mpt_line *out) {
    for (;;) {
        *out = take(lines);
        if (!out->text && lines->ended)
            return MPT_OK;
        if (!out->text) {
            MPT_TRY(read_more(lines));
            continue;
        }
        bool rest = lines->cutting;
        lines->cutting = out->n == LONGEST;
        if (!rest)
            return MPT_OK;
    }
}
