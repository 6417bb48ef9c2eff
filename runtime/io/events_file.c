/* An event file that grows by whole records. See mpt/evidence.h. */
#include "mpt/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/events.h"
#include "io/file.h"

enum { BUFFER = 1 << 15, HOST = 64, FILES = 1000 };

struct mpt_events {
    mpt_ctx *ctx;
    mpt_arena arena; /* of the path */
    const char *path;
    int fd;
    bool began;  /* a step was written, so a restart needs no word any more */
    bool failed; /* a write did: nothing more is tried */
    off_t whole; /* bytes of the file, all of them whole records */
    size_t n;
    unsigned char buffer[BUFFER];
};

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- writing ---- */

static mpt_status fail(mpt_events *events, int error) {
    events->failed = true;
    mpt_status status = mpt_file_fail(events->ctx, MPT_NOWHERE, events->path, error);
    mpt_hint(events->ctx, "check space and permissions of the folder");
    return status;
}

/* 0, or the errno of the write that failed. What a full disk has torn off is taken back, so
 * that the file ends with a whole record. */
static int write_gathered(mpt_events *events) {
    for (size_t done = 0; done < events->n;) {
        ssize_t n = write(events->fd, events->buffer + done, events->n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int error = n < 0 ? errno : ENOSPC;
            (void)!ftruncate(events->fd, events->whole);
            return error;
        }
        done += (size_t)n;
    }
    events->whole += (off_t)events->n;
    events->n = 0;
    return 0;
}

mpt_status mpt_events_flush(mpt_events *events) {
    MPT_REQUIRE_OBJECT(events);
    if (events->failed)
        return MPT_FAIL(events->ctx, MPT_IO, MPT_NOWHERE,
                        "%s: an earlier write failed, so nothing more is written",
                        events->path);
    int error = write_gathered(events);
    return error ? fail(events, error) : MPT_OK;
}

static mpt_status append(mpt_events *events, const mpt_event_record *record) {
    if (events->failed || events->n + record->n > BUFFER)
        MPT_TRY(mpt_events_flush(events));
    memcpy(events->buffer + events->n, record->bytes, record->n);
    events->n += record->n;
    return MPT_OK;
}

mpt_status mpt_events_scalar(mpt_events *events, const char *tag, int64_t step, float value) {
    mpt_event_record record;
    MPT_REQUIRE_OBJECT(events);
    MPT_REQUIRE(events->ctx, tag);
    double wall = wall_time();
    if (!events->began && step > 0) {
        mpt_event_restart(&record, wall, step);
        MPT_TRY(append(events, &record));
    }
    events->began = true;
    mpt_event_scalar(&record, wall, step, tag, value);
    return append(events, &record);
}

/* ---- the file ---- */

/* The host's name as it may stand in a file's. */
static void host_name(char out[HOST]) {
    static const char fine[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (gethostname(out, HOST) != 0 || !out[0])
        snprintf(out, HOST, "localhost");
    out[HOST - 1] = 0;
    for (char *c = out; *c; c++)
        if (!strchr(fine, *c))
            *c = '_';
}

/* Exclusively, under the first number that is free. */
static mpt_status open_file(mpt_events *events, const char *folder, double wall) {
    char host[HOST];
    host_name(host);
    for (int i = 0; i < FILES; i++) {
        events->path =
            mpt_arena_printf(&events->arena, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                             (long long)wall, host, (long)getpid(), i);
        if (!events->path)
            return MPT_OUT_OF_MEMORY;
        events->fd = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (events->fd >= 0)
            return MPT_OK;
        if (errno != EEXIST)
            break;
    }
    return fail(events, errno);
}

static mpt_status begin(mpt_events *events, const char *folder) {
    mpt_event_record record;
    double wall = wall_time();
    MPT_TRY(open_file(events, folder, wall));
    mpt_event_version(&record, wall);
    MPT_TRY(append(events, &record));
    return mpt_events_flush(events);
}

mpt_status mpt_events_create(mpt_ctx *ctx, const char *folder, mpt_events **out) {
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = NULL;
    MPT_REQUIRE(ctx, folder);
    mpt_events *events = mpt_alloc(ctx, sizeof *events);
    if (!events)
        return mpt_fail_memory(ctx, sizeof *events);
    events->ctx = ctx;
    events->fd = -1;
    mpt_arena_init(&events->arena, ctx);
    mpt_status status = begin(events, folder);
    if (status == MPT_OK)
        *out = events;
    else
        mpt_events_destroy(events);
    return status;
}

void mpt_events_destroy(mpt_events *events) {
    if (!events)
        return;
    mpt_ctx *ctx = events->ctx;
    if (events->fd >= 0 && !events->failed)
        (void)write_gathered(events);
    if (events->fd >= 0)
        close(events->fd);
    mpt_arena_deinit(&events->arena);
    mpt_free(ctx, events);
}
