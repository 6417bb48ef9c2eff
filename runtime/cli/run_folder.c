/* A run folder read back: recipe.lua, the command line that stands behind it as comments, and
 * the newest checkpoint. run.c writes what is read here. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/folder.h"
#include "cli/sample.h"

enum { TEXT_MAX = 2 << 20 };

static mpt_exit fail(const char *path, const char *what) {
    fprintf(stderr, "mptrun: %s: %s\n", path, what);
    return MPT_EXIT_WRONG;
}

static mpt_exit read_text(mpt_past_run *past) {
    FILE *file = fopen(past->recipe, "rb");
    if (!file)
        return fail(past->recipe, errno == ENOENT
                                      ? "no such file: a run folder has the recipe that was run"
                                      : strerror(errno));
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
static char *find_options(char *text) {
    char *found = NULL, *at = text;
    while ((at = strstr(at, MPT_FOLDER_AS_RUN)) != NULL)
        found = at += strlen(MPT_FOLDER_AS_RUN);
    return found;
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
        past->device = strcmp(value, "ref") == 0 ? MPT_DEVICE_REF : MPT_DEVICE_CPU;
    } else if (strcmp(line, "weights") == 0) {
        past->given = value;
    } else if (strcmp(line, "inject") == 0 && past->n_inject < MPT_CLI_FAULTS) {
        past->inject[past->n_inject++] = value;
    }
}

static void take_options(mpt_past_run *past) {
    static const char lead[] = "--   --", from[] = "--   from ";
    for (char *line = find_options(past->text); line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (strncmp(line, lead, strlen(lead)) == 0)
            take_option(past, line + strlen(lead));
        else if (strncmp(line, from, strlen(from)) == 0)
            mpt_origin_add(&past->origin, line + strlen(from));
        line = end ? end + 1 : NULL;
    }
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
    return MPT_EXIT_DONE;
}
