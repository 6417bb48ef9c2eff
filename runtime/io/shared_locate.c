/* Where the system's loader finds a library by its bare name. See shared.h.
 *
 * The loader tells the folders that it searches, environment and all, but not what its cache
 * holds. In that file every path stands as a string, so it is searched as bytes: what its
 * tables say besides is not needed to know which files it may give. */
#define _GNU_SOURCE 1 /* dlinfo, memmem */
#include "io/shared.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/elf.h"

/* Whether the loader would take this file, or be ended by it: it passes over what is not there
 * and what is of another kind of processor. */
static bool is_taken(const char *path) {
    char why[128];
    struct stat st;
    return stat(path, &st) == 0 && mpt_elf_check(path, why, sizeof why) != MPT_ELF_FOREIGN;
}

/* ---- the folders that are searched ---- */

/* Other loaders than that of glibc do not tell. */
#ifdef __GLIBC__
enum { FOLDERS_BYTES = 16384 }; /* a longer search path than that is not looked through */

static bool in_folders(void *program, const char *name, char *out, size_t size) {
    union {
        Dl_serinfo list;
        char bytes[FOLDERS_BYTES];
    } at;
    if (dlinfo(program, RTLD_DI_SERINFOSIZE, &at.list) != 0 || at.list.dls_size > sizeof at ||
        dlinfo(program, RTLD_DI_SERINFO, &at.list) != 0)
        return false;
    for (unsigned i = 0; i < at.list.dls_cnt; i++) {
        const char *folder = at.list.dls_serpath[i].dls_name;
        int n = snprintf(out, size, "%s/%s", *folder ? folder : ".", name);
        if (n > 0 && (size_t)n < size && is_taken(out))
            return true;
    }
    return false;
}
#else
static bool in_folders(void *program, const char *name, char *out, size_t size) {
    (void)program, (void)name, (void)out, (void)size;
    return false;
}
#endif

/* ---- the cache ---- */

static bool in_text(const char *text, size_t bytes, const char *name, char *out, size_t size) {
    char want[NAME_MAX + 2];
    size_t n = (size_t)snprintf(want, sizeof want, "/%s", name) + 1; /* its end belongs to it */
    if (n > sizeof want)
        return false;
    for (size_t at = 0; at + n <= bytes;) {
        const char *hit = memmem(text + at, bytes - at, want, n);
        if (!hit)
            return false;
        const char *from = hit;
        while (from > text && from[-1])
            from--;
        size_t length = (size_t)(hit - from) + n;
        if (*from == '/' && length <= size) {
            memcpy(out, from, length);
            if (is_taken(out))
                return true;
        }
        at = (size_t)(hit - text) + n;
    }
    return false;
}

static bool in_cache(const char *cache, const char *name, char *out, size_t size) {
    struct stat st;
    bool found = false;
    int fd = open(cache, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        size_t bytes = (size_t)st.st_size;
        void *text = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text != MAP_FAILED) {
            found = in_text(text, bytes, name, out, size);
            munmap(text, bytes);
        }
    }
    close(fd);
    return found;
}

bool mpt_shared_locate(const char *name, const char *cache, char *out, size_t size) {
    void *program = dlopen(NULL, RTLD_LAZY);
    bool found = program && in_folders(program, name, out, size);
    if (program)
        dlclose(program);
    return found || in_cache(cache, name, out, size);
}
