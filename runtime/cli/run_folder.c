/* A run folder read back: recipe.lua, the command line that stands behind it as comments, and
 * the newest checkpoint. run.c writes what is read here. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/folder.h"
#include "cli/option_rows.h"
#include "cli/sample.h"

enum { TEXT_MAX = 2 << 20 };

static mpt_exit fail(const char *path, const char *what) {
    fprintf(stderr, "mptrun: %s: %s\n", path, what);
    return MPT_EXIT_WRONG;
}

static mpt_exit read_text(mpt_past_run *past) {
    FILE *file;
    mpt_exit opened = mpt_folder_reopen(past->recipe, false, &file);
    if (opened != MPT_EXIT_DONE)
        return opened;
    if (!file)
        return fail(past->recipe, "no such file: a run folder has the recipe that was run");
    past->text = malloc(TEXT_MAX + 1);
    size_t n = past->text ? fread(past->text, 1, TEXT_MAX, file) : 0;
    bool failed = !past->text || ferror(file);
    fclose(file);
    if (failed) {
        fprintf(stderr, "mptrun: %s: cannot be read\n", past->recipe);
        return MPT_EXIT_MACHINE;
    }
    past->text[n] = 0;
    return MPT_EXIT_DONE;
}

/* The last place where the text has the heading, behind it; NULL where it has none. */
static const char *find_options(const char *text) {
    const char *found = NULL, *at = text;
    while ((at = strstr(at, MPT_FOLDER_AS_RUN)) != NULL)
        found = at += strlen(MPT_FOLDER_AS_RUN);
    return found;
}

int mpt_past_run_device(const char *word) {
    for (int i = MPT_DEVICE_REF; mpt_device_words[i]; i++)
        if (strcmp(mpt_device_words[i], word) == 0)
            return i;
    return -1;
}

/* One line, "set PATH=VALUE": its pieces stay in the text. */
static void take_option(mpt_past_run *past, char *line) {
    char *value = strchr(line, ' '), *equals;
    if (!value)
        return;
    *value++ = 0;
    if (strcmp(line, "set") == 0 && (equals = strchr(value, '=')) != NULL &&
        past->n_sets < MPT_CLI_SETS) {
        *equals = 0;
        past->sets[past->n_sets++] = (mpt_set){value, equals + 1};
    } else if (strcmp(line, "data") == 0) {
        past->data = value;
    } else if (strcmp(line, "model") == 0) {
        past->model = strcmp(value, "proxy") == 0 ? MPT_MODEL_PROXY : MPT_MODEL_FULL;
    } else if (strcmp(line, "device") == 0) {
        past->device = mpt_past_run_device(value);
        past->device_word = value;
    } else if (strcmp(line, "weights") == 0) {
        past->given = value;
    } else if (strcmp(line, "inject") == 0 && past->n_inject < MPT_CLI_FAULTS) {
        past->inject[past->n_inject++] = value;
    }
}

/* The step of such a line; 0 where it has none. */
static int64_t step_of(const char *line) {
    long long step = strtoll(line + strlen(MPT_FOLDER_CHANGED), NULL, 10);
    return step > 0 && step < INT64_MAX ? step : 0;
}

static void take_options(mpt_past_run *past) {
    static const char lead[] = "--   --", from[] = "--   from ";
    const char *first = find_options(past->text);
    for (char *line = first ? past->text + (first - past->text) : NULL; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (strncmp(line, lead, strlen(lead)) == 0)
            take_option(past, line + strlen(lead));
        else if (strncmp(line, MPT_FOLDER_CHANGED, strlen(MPT_FOLDER_CHANGED)) == 0)
            past->changed = step_of(line);
        else if (strncmp(line, from, strlen(from)) == 0)
            mpt_origin_add(&past->origin, line + strlen(from));
        line = end ? end + 1 : NULL;
    }
}

/* Whether the command line says an option of one such line, "set PATH=VALUE". */
static bool is_said(const mpt_options *o, const char *line, size_t n) {
    static const char set[] = "set ";
    size_t lead = sizeof set - 1, path = n > lead ? strcspn(line + lead, "=\n") : 0;
    if (n > lead && strncmp(line, set, lead) == 0) {
        for (int i = 0; i < o->n_sets; i++)
            if (strlen(o->sets[i].path) == path &&
                memcmp(o->sets[i].path, line + lead, path) == 0)
                return true;
        return false;
    }
    return (strncmp(line, "data ", 5) == 0 && o->data) ||
           (strncmp(line, "model ", 6) == 0 && o->model >= 0) ||
           (strncmp(line, "weights ", 8) == 0 && o->weights) ||
           (strncmp(line, "inject ", 7) == 0 && o->n_inject > 0) ||
           (strncmp(line, "device ", 7) == 0 && o->device != MPT_DEVICE_AUTO);
}

/* A word as a shell reads it: in quotes where it would be read apart. */
static size_t put_word(char *out, const char *word, size_t n) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./=:@,+-";
    size_t used = 0;
    if (n > 0 && strspn(word, plain) >= n) {
        memcpy(out, word, n);
        return n;
    }
    out[used++] = '\'';
    for (size_t i = 0; i < n; i++) {
        if (word[i] == '\'') /* ends the quotes, stands alone, and begins them again */
            used += (size_t)sprintf(out + used, "'\\'");
        out[used++] = word[i];
    }
    out[used++] = '\'';
    return used;
}

/* One option of a line, "set PATH=VALUE". */
static size_t put_option(char *out, const char *line, size_t n) {
    size_t word = strcspn(line, " \n");
    if (word >= n)
        return 0;
    size_t used = (size_t)sprintf(out, " --%.*s ", (int)word, line);
    return used + put_word(out + used, line + word + 1, n - word - 1);
}

char *mpt_past_run_again(const char *source, const char *path, const mpt_options *options) {
    static const char lead[] = "--   --", begin[] = "mptrun ";
    size_t skip = sizeof lead - 1, bare = strlen(begin);
    const char *line = source ? find_options(source) : NULL;
    if (!line) /* else at most four bytes a byte, where all of them are quotes */
        return NULL;
    char *out = malloc(4 * (strlen(path) + strlen(line)) + sizeof begin + 8);
    if (!out)
        return NULL;
    memcpy(out, begin, bare);
    size_t first = bare + put_word(out + bare, path, strlen(path)), used = first;
    while (*line) {
        size_t n = strcspn(line, "\n");
        if (n > skip && strncmp(line, lead, skip) == 0 &&
            !is_said(options, line + skip, n - skip))
            used += put_option(out + used, line + skip, n - skip);
        line += n + (line[n] == '\n');
    }
    out[used] = 0;
    if (used > first)
        return out;
    free(out);
    return NULL;
}

int64_t mpt_past_run_changed(const char *source) {
    const char *options = source ? find_options(source) : NULL;
    const char *line = options ? strstr(options, MPT_FOLDER_CHANGED) : NULL;
    return line ? step_of(line) : 0;
}

static bool has_weights(const char *checkpoint) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char path[1400];
    struct stat there;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", checkpoint, names[i]);
        if (stat(path, &there) == 0)
            return true;
    }
    return false;
}

/* The checkpoint of the latest step that has weights. */
static void find_weights(mpt_past_run *past, const char *folder) {
    char path[1100], checkpoint[1200];
    struct dirent *entry;
    long long newest = -1;
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL) {
        char *end = NULL;
        if (strncmp(entry->d_name, "step-", 5) != 0)
            continue;
        long long step = strtoll(entry->d_name + 5, &end, 10);
        int n = snprintf(checkpoint, sizeof checkpoint, "%s/step-%lld", path, step);
        if (*end || step <= newest || n >= (int)sizeof checkpoint || !has_weights(checkpoint))
            continue;
        newest = step;
        memcpy(past->weights, checkpoint, (size_t)n + 1);
    }
    if (dir)
        closedir(dir);
}

mpt_exit mpt_past_run_read(mpt_past_run *past, const char *folder) {
    *past = (mpt_past_run){.model = -1};
    if (strlen(folder) >= MPT_FOLDER_PATH - 64)
        return fail(folder, "the path is too long");
    snprintf(past->recipe, sizeof past->recipe, "%s/recipe.lua", folder);
    mpt_exit result = read_text(past);
    if (result != MPT_EXIT_DONE)
        return result;
    take_options(past);
    find_weights(past, folder);
    if (past->device >= 0)
        return MPT_EXIT_DONE;
    fprintf(stderr,
            "mptrun: %s: its options name the device '%s', which this mpt does not know (there "
            "are ref, cpu, cuda)\n",
            past->recipe, past->device_word);
    return MPT_EXIT_WRONG;
}
