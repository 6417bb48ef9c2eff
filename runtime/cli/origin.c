/* The directories that relative paths of a run start at. See origin.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli/origin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mpt_origin_add(mpt_origin *origin, const char *path) {
    size_t n = strlen(path);
    if (*path != '/' || n >= MPT_FOLDER_PATH || strchr(path, '\n') || origin->n == MPT_ORIGINS)
        return;
    for (int i = 0; i < origin->n; i++)
        if (strcmp(origin->path[i], path) == 0)
            return;
    memcpy(origin->path[origin->n++], path, n + 1);
}

void mpt_origin_find(mpt_origin *origin, const char *recipe) {
    char here[MPT_FOLDER_PATH];
    origin->n = 0;
    if (getcwd(here, sizeof here))
        mpt_origin_add(origin, here);
    char *whole = recipe ? realpath(recipe, NULL) : NULL;
    char *slash = whole ? strrchr(whole, '/') : NULL;
    if (slash) {
        slash[slash == whole] = 0;
        mpt_origin_add(origin, whole);
    }
    free(whole);
}
