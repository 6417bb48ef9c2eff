/* The run folder on disk. Every file is made exclusively, so that of two runs into one folder
 * the later is refused whatever the timing. Every write is checked and each line is flushed
 * whole; a line that a full disk has torn is cut off again. */
#include "cli/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

mpt_exit mpt_folder_fault(const char *what, const char *path) {
    fprintf(stderr, "mptrun: %s: %s: %s; check space and permissions\n", path, what,
            strerror(errno));
    return MPT_EXIT_MACHINE;
}

mpt_exit mpt_folder_check(const char *out) {
    struct dirent *entry;
    struct stat there;
    int entries = 0;
    if (!out || stat(out, &there) != 0)
        return MPT_EXIT_DONE; /* not there yet, or mkdir will say what is wrong */
    if (!S_ISDIR(there.st_mode)) {
        fprintf(stderr, "mptrun: --out: %s is a file; name a folder\n", out);
        return MPT_EXIT_USAGE;
    }
    DIR *dir = opendir(out);
    if (!dir)
        return mpt_folder_fault("cannot read the folder", out);
    while ((entry = readdir(dir)))
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    if (entries == 0)
        return MPT_EXIT_DONE;
    fprintf(stderr, "mptrun: --out: %s is not empty; name a new folder, or empty this one\n",
            out);
    return MPT_EXIT_USAGE;
}

/* mkdir, and its parents where they are missing. */
static bool make_folders(const char *path) {
    char part[MPT_FOLDER_PATH];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
    }
    return mkdir(path, 0777) == 0;
}

/* runs/NAME-N with the first N that is free; mkdir itself decides, so two runs never share. */
static bool make_next(mpt_folder *folder, const char *name) {
    char safe[128];
    size_t n = 0;
    for (; name[n] && n < sizeof safe - 1; n++) {
        unsigned char c = (unsigned char)name[n];
        safe[n] = isalnum(c) || strchr("._-", c) ? (char)c : '_';
    }
    safe[n] = 0;
    for (int i = 1; i < 1000000; i++) {
        snprintf(folder->path, sizeof folder->path, "runs/%s-%d", safe, i);
        if (make_folders(folder->path))
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

mpt_exit mpt_folder_make(mpt_folder *folder, const char *out, const char *name) {
    *folder = (mpt_folder){.metrics = NULL};
    if (out && strlen(out) >= sizeof folder->path - 32) {
        errno = ENAMETOOLONG;
        return mpt_folder_fault("cannot make the run folder", out);
    }
    if (out) {
        snprintf(folder->path, sizeof folder->path, "%s", out);
        if (!make_folders(out) && errno != EEXIST)
            return mpt_folder_fault("cannot make the run folder", out);
    } else if (!make_next(folder, name)) {
        return mpt_folder_fault("cannot make the run folder", folder->path);
    }
    return MPT_EXIT_DONE;
}

mpt_exit mpt_folder_create(mpt_folder *folder, const char *out, const char *recipe_name) {
    mpt_exit made = mpt_folder_make(folder, out, recipe_name);
    if (made != MPT_EXIT_DONE)
        return made;
    mpt_exit opened = mpt_folder_open(folder, "metrics.jsonl", &folder->metrics);
    if (opened == MPT_EXIT_DONE && !mpt_folder_lock(folder))
        opened = MPT_EXIT_WRONG;
    if (opened == MPT_EXIT_DONE)
        opened = mpt_folder_open(folder, "telemetry.jsonl", &folder->telemetry);
    if (opened == MPT_EXIT_DONE)
        opened = mpt_folder_open(folder, "timing.jsonl", &folder->timing);
    return opened;
}

mpt_exit mpt_folder_open(mpt_folder *folder, const char *name, FILE **out) {
    char path[2 * MPT_FOLDER_PATH];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    *out = fopen(path, "wx");
    if (*out)
        return MPT_EXIT_DONE;
    if (errno != EEXIST)
        return mpt_folder_fault("cannot open it for writing", path);
    fprintf(stderr,
            "mptrun: --out: %s is there already: another run has taken the folder; name a new "
            "one\n",
            path);
    return MPT_EXIT_USAGE;
}

/* Says once that a file could not be written. */
static bool write_failed(mpt_folder *folder, const char *name) {
    char path[MPT_FOLDER_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (!folder->failed)
        (void)mpt_folder_fault("cannot write", path);
    folder->failed = true;
    return false;
}

bool mpt_folder_close(mpt_folder *folder, FILE *file, const char *name) {
    bool good = !ferror(file);
    if (fclose(file) != 0 || !good)
        return write_failed(folder, name);
    return true;
}

mpt_exit mpt_folder_copy(mpt_folder *folder, const char *name, const char *text,
                         size_t length) {
    char path[MPT_FOLDER_PATH];
    FILE *file;
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    char *slash = n > 0 && n < (int)sizeof path - 32 ? strrchr(path, '/') : NULL;
    if (!slash) {
        errno = ENAMETOOLONG;
        return mpt_folder_fault("cannot copy what the recipe required", name);
    }
    *slash = 0;
    if (!make_folders(path) && errno != EEXIST)
        return mpt_folder_fault("cannot make the folder", path);
    mpt_exit opened = mpt_folder_open(folder, name, &file);
    if (opened != MPT_EXIT_DONE)
        return opened;
    fwrite(text, 1, length, file);
    return mpt_folder_close(folder, file, name) ? MPT_EXIT_DONE : MPT_EXIT_MACHINE;
}

/* After a failed write nothing more is written, so that `whole` stays the end of the lines. */
static bool write_line(mpt_folder *folder, FILE *file, const char *name, const char *text,
                       size_t length, int64_t *whole) {
    if (folder->failed)
        return false;
    if (fwrite(text, 1, length, file) != length || fflush(file) != 0)
        return write_failed(folder, name);
    *whole += (int64_t)length;
    return true;
}

bool mpt_folder_metrics(void *ud, const char *text, size_t length) {
    mpt_folder *folder = ud;
    return write_line(folder, folder->metrics, "metrics.jsonl", text, length,
                      &folder->metrics_whole);
}

bool mpt_folder_telemetry(void *ud, const char *text, size_t length) {
    mpt_folder *folder = ud;
    return write_line(folder, folder->telemetry, "telemetry.jsonl", text, length,
                      &folder->telemetry_whole);
}

bool mpt_folder_timing(mpt_folder *folder, int64_t step, double seconds, double tokens) {
    if (folder->failed)
        return false;
    int n = fprintf(folder->timing, "{\"step\":%lld,\"step_ms\":%.3f,\"tokens_per_s\":%.1f}\n",
                    (long long)step, seconds * 1e3, seconds > 0 ? tokens / seconds : 0.0);
    if (n < 0 || fflush(folder->timing) != 0)
        return write_failed(folder, "timing.jsonl");
    folder->timing_whole += n;
    return true;
}

/* Closes a file of lines. Closing may write once more what a full disk refused, so a torn line
 * can only be cut off afterwards. */
static void end_lines(mpt_folder *folder, FILE *file, const char *name, int64_t whole) {
    char path[MPT_FOLDER_PATH + 32];
    if (!file)
        return;
    mpt_folder_close(folder, file, name);
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (folder->failed && truncate(path, (off_t)whole) != 0)
        (void)mpt_folder_fault("its last line is torn, and cannot be cut off", path);
}

mpt_exit mpt_folder_end(mpt_folder *folder) {
    end_lines(folder, folder->metrics, "metrics.jsonl", folder->metrics_whole);
    end_lines(folder, folder->telemetry, "telemetry.jsonl", folder->telemetry_whole);
    end_lines(folder, folder->timing, "timing.jsonl", folder->timing_whole);
    folder->metrics = folder->telemetry = folder->timing = NULL;
    return folder->failed ? MPT_EXIT_MACHINE : MPT_EXIT_DONE;
}
