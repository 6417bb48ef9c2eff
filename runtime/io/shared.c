/* Shared libraries by dlopen. See shared.h. */
#define _GNU_SOURCE 1 /* dladdr */
#include "io/shared.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *mpt_shared_open(const char *path, char *why, size_t size) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *error = library ? NULL : dlerror();
    snprintf(why, size, "%s", error ? error : "");
    return library;
}

void *mpt_shared_find(void *library, const char *name) {
    return dlsym(library, name);
}

void mpt_shared_close(void *library) {
    dlclose(library);
}

/* What the loader knows of a program is the word that it was started by, which need not have a
 * folder. */
bool mpt_shared_own_folder(char *out, size_t size) {
    static const char here = 0; /* its address lies in the file that is asked for */
    char path[PATH_MAX];
    Dl_info info = {0};
    if (dladdr(&here, &info) == 0)
        return false;
    bool named = info.dli_fname && strchr(info.dli_fname, '/');
    if (!named || !realpath(info.dli_fname, path)) {
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        if (named || n <= 0)
            return false;
        path[n] = 0;
    }
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= size)
        return false;
    memcpy(out, path, (size_t)(slash - path));
    out[slash - path] = 0;
    return true;
}
