/* Finds share/mpt beside the executable. The build knows only the way from the one folder to
 * the other, so an installation can be moved, and what is installed beside an executable is
 * always its own: it is taken before the tree of the sources, which may have changed since. */
#include "cli/tree.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

bool mpt_cli_tree(char *out, size_t size) {
    char exe[PATH_BYTES], models[PATH_BYTES];
    struct stat there;
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (length <= 0)
        return false;
    exe[length] = 0;
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = 0;
    int n = snprintf(out, size, "%s/" MPT_SHARE_FROM_BIN, exe);
    int m = snprintf(models, sizeof models, "%s/" MPT_SHARE_FROM_BIN "/models", exe);
    return n > 0 && (size_t)n < size && m > 0 && (size_t)m < sizeof models &&
           stat(models, &there) == 0 && S_ISDIR(there.st_mode);
}
