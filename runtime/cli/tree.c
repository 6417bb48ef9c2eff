/* Finds share/mpt beside the executable. The build knows only the way from the one folder to
 * the other, so an installation can be moved, and what is installed beside an executable is
 * always its own: it is taken before the tree of the sources, which may have changed since. */
#include "cli/tree.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* DIR/WAY, DIR being the folder of the executable. */
static bool from_executable(const char *way, char *out, size_t size) {
    char exe[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (length <= 0)
        return false;
    exe[length] = 0;
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = 0;
    int n = snprintf(out, size, "%s/%s", exe, way);
    return n > 0 && (size_t)n < size;
}

bool mpt_cli_tree(char *out, size_t size) {
    char models[PATH_BYTES];
    struct stat there;
    return from_executable(MPT_SHARE_FROM_BIN, out, size) &&
           from_executable(MPT_SHARE_FROM_BIN "/models", models, sizeof models) &&
           stat(models, &there) == 0 && S_ISDIR(there.st_mode);
}

bool mpt_cli_libraries(char *out, size_t size) {
    return from_executable(MPT_LIB_FROM_BIN, out, size);
}
