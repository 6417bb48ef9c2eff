/* A run folder that is gone on with: its lock, its lines cut back to a checkpoint, and files
 * that are replaced as wholes. See folder.h. */
#define _DEFAULT_SOURCE /* flock */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/folder.h"

typedef struct path_text {
    char text[MPT_FOLDER_PATH + 64];
} path_text;

static path_text path_of(const mpt_folder *folder, const char *name, const char *ending) {
    path_text path;
    snprintf(path.text, sizeof path.text, "%s/%s%s", folder->path, name, ending);
    return path;
}

/* ---- files that are there whole or not at all ---- */

mpt_exit mpt_folder_begin(mpt_folder *folder, const char *name, FILE **out) {
    path_text part = path_of(folder, name, ".part");
    *out = fopen(part.text, "w");
    return *out ? MPT_EXIT_DONE : mpt_folder_fault("cannot open it for writing", part.text);
}

static bool sync_folder(const mpt_folder *folder) {
    int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (fd >= 0)
        close(fd);
    return synced;
}

mpt_exit mpt_folder_name(mpt_folder *folder, const char *name, FILE *file) {
    path_text part = path_of(folder, name, ".part"), path = path_of(folder, name, "");
    bool good = !ferror(file) && fflush(file) == 0 && fsync(fileno(file)) == 0;
    int error = errno;
    if (fclose(file) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(part.text, path.text) == 0 && sync_folder(folder))
        return MPT_EXIT_DONE;
    errno = good ? errno : error;
    mpt_exit result = mpt_folder_fault("cannot write", path.text);
    unlink(part.text);
    return result;
}

/* ---- files that were there before ---- */

static mpt_exit refuse_odd(const char *path) {
    fprintf(stderr, "mptrun: %s: not a regular file, so this is no folder of a run\n", path);
    return MPT_EXIT_WRONG;
}

mpt_exit mpt_folder_reopen(const char *path, bool writes, FILE **out) {
    struct stat st;
    *out = NULL;
    int fd = open(path, (writes ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return MPT_EXIT_DONE;
    if (fd < 0 && (errno == EISDIR || errno == ENXIO))
        return refuse_odd(path);
    if (fd < 0)
        return mpt_folder_fault(
            writes ? "cannot open it for writing" : "cannot open it for reading", path);
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (regular && (*out = fdopen(fd, writes ? "r+" : "r")) != NULL)
        return MPT_EXIT_DONE;
    int error = errno;
    close(fd);
    errno = error;
    return regular ? mpt_folder_fault("cannot open it", path) : refuse_odd(path);
}

/* ---- the lock ---- */

/* File systems without locks have none to hold. */
bool mpt_folder_lock(const mpt_folder *folder) {
    if (flock(fileno(folder->metrics), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true;
    fprintf(stderr,
            "mptrun: %s: another process trains in this folder; wait for it, or end it\n",
            folder->path);
    return false;
}

mpt_exit mpt_folder_take(mpt_folder *folder, const char *path) {
    *folder = (mpt_folder){.metrics = NULL};
    snprintf(folder->path, sizeof folder->path, "%s", path);
    path_text metrics = path_of(folder, "metrics.jsonl", "");
    path_text checkpoints = path_of(folder, "checkpoints", "");
    mpt_exit opened = mpt_folder_reopen(metrics.text, true, &folder->metrics);
    if (opened != MPT_EXIT_DONE)
        return opened;
    if (!folder->metrics && access(checkpoints.text, F_OK) == 0) {
        folder->metrics = fopen(metrics.text, "w+x");
        if (!folder->metrics)
            return mpt_folder_fault("cannot open it for writing", metrics.text);
    }
    if (!folder->metrics) {
        fprintf(stderr,
                "mptrun: %s: has no metrics.jsonl and no checkpoints, so it is no folder of a "
                "run\n",
                path);
        return MPT_EXIT_WRONG;
    }
    return mpt_folder_lock(folder) ? MPT_EXIT_DONE : MPT_EXIT_WRONG;
}

/* ---- lines ---- */

/* Where the lines from a step on begin; a torn last line counts as one of them. Lines without a
 * step stay. */
static int64_t find_step(FILE *file, int64_t step) {
    char *line = NULL;
    size_t room = 0;
    int64_t at = 0;
    ssize_t n;
    while ((n = getline(&line, &room, file)) > 0 && line[n - 1] == '\n') {
        const char *number = strstr(line, "\"step\":");
        if (number && strtoll(number + strlen("\"step\":"), NULL, 10) >= step)
            break;
        at += n;
    }
    free(line);
    return at;
}

/* Opens a file of lines, one a step at most, behind those of the first `step` steps. */
static mpt_exit open_lines(const mpt_folder *folder, const char *name, int64_t step, FILE **out,
                           int64_t *out_whole) {
    path_text path = path_of(folder, name, "");
    mpt_exit opened = mpt_folder_reopen(path.text, true, out);
    if (opened != MPT_EXIT_DONE)
        return opened;
    FILE *file = *out ? *out : fopen(path.text, "w+");
    *out = file;
    *out_whole = file ? find_step(file, step) : 0;
    if (file && ftruncate(fileno(file), (off_t)*out_whole) == 0 &&
        fseeko(file, (off_t)*out_whole, SEEK_SET) == 0)
        return MPT_EXIT_DONE;
    mpt_exit result = mpt_folder_fault("cannot cut it back to the checkpoint", path.text);
    if (file)
        fclose(file);
    *out = NULL;
    return result;
}

/* Where the last whole line up to a byte ends. */
static int64_t end_of_lines(FILE *file, int64_t most) {
    int64_t end = 0, at = 0;
    int c;
    rewind(file);
    while (at < most && (c = getc(file)) != EOF) {
        at++;
        if (c == '\n')
            end = at;
    }
    return end;
}

bool mpt_folder_has_ended(const mpt_folder *folder, int64_t bytes) {
    static const char done[] = "{\"event\":\"done\"";
    char *line = NULL;
    size_t room = 0;
    bool ended = false;
    ssize_t n = 0;
    if (fseeko(folder->metrics, (off_t)bytes, SEEK_SET) != 0)
        return false;
    while (!ended && (n = getline(&line, &room, folder->metrics)) > 0)
        ended = line[n - 1] == '\n' && strncmp(line, done, sizeof done - 1) == 0;
    free(line);
    return ended;
}

mpt_exit mpt_folder_go_on(mpt_folder *folder, int64_t step, int64_t bytes, int64_t *out_lost) {
    path_text path = path_of(folder, "metrics.jsonl", "");
    mpt_exit opened =
        open_lines(folder, "timing.jsonl", step, &folder->timing, &folder->timing_whole);
    if (opened == MPT_EXIT_DONE)
        opened = open_lines(folder, "telemetry.jsonl", step, &folder->telemetry,
                            &folder->telemetry_whole);
    if (opened != MPT_EXIT_DONE)
        return opened;
    int64_t end = end_of_lines(folder->metrics, bytes);
    *out_lost = bytes - end;
    if (ftruncate(fileno(folder->metrics), (off_t)end) != 0 ||
        fseeko(folder->metrics, (off_t)end, SEEK_SET) != 0)
        return mpt_folder_fault("cannot cut it back to the checkpoint", path.text);
    folder->metrics_whole = end;
    return MPT_EXIT_DONE;
}

bool mpt_folder_sync(mpt_folder *folder) {
    path_text path = path_of(folder, "metrics.jsonl", "");
    if (fsync(fileno(folder->metrics)) == 0 || errno == EINVAL)
        return true;
    if (!folder->failed)
        (void)mpt_folder_fault("cannot write", path.text);
    folder->failed = true;
    return false;
}
