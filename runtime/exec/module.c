/* Finding, opening and checking of a module. See module.h. */
#include "exec/module.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/shared.h"

const mpt_module_kind mpt_module_cuda = {"libmpt_cuda.so", "mpt_cuda_module", "libcuda.so.1",
                                         "the NVIDIA driver is not installed"};

enum { PATH_BYTES = 4096 };

/* ---- where it is ---- */

static bool is_in(const char *folder, const char *file, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", folder, file);
    return n > 0 && n < PATH_BYTES && mpt_file_exists(path);
}

static bool find_file(const mpt_module_kind *kind, const char *folder, char path[PATH_BYTES]) {
    char own[PATH_BYTES];
    return (folder && is_in(folder, kind->file, path)) ||
           (mpt_shared_own_folder(own, sizeof own) && is_in(own, kind->file, path));
}

/* ---- whether it fits ---- */

/* The first thing in which the module was compiled from other sources than this program. */
static bool agrees(const char *file, const mpt_module *module, char why[MPT_MODULE_WHY]) {
    if (module->api != MPT_MODULE_API) {
        snprintf(why, MPT_MODULE_WHY,
                 "%s speaks version %d of the interface to modules, and mpt %s version %d",
                 file, module->api, mpt_version(), MPT_MODULE_API);
        return false;
    }
    const mpt_module_size *has = module->sizes, *want = mpt_module_sizes;
    while (want->name && has->name && strcmp(has->name, want->name) == 0 &&
           has->bytes == want->bytes)
        has++, want++;
    const char *name = want->name ? want->name : has->name;
    if (!name && strcmp(module->numbers, mpt_module_numbers) != 0)
        name = "list of ops and formats";
    if (name)
        snprintf(why, MPT_MODULE_WHY,
                 "%s was built from other sources (of mpt %.32s, this is %s): its %s differs",
                 file, module->version, mpt_version(), name);
    else if (!module->backend)
        snprintf(why, MPT_MODULE_WHY, "%s has no kernels", file);
    return !name && module->backend;
}

/* The library's table, whether it fits or not. */
static const mpt_module *read_table(const mpt_module_kind *kind, void *library,
                                    char why[MPT_MODULE_WHY]) {
    void *symbol = mpt_shared_find(library, kind->symbol);
    mpt_module_fn table = NULL;
    if (!symbol) {
        snprintf(why, MPT_MODULE_WHY, "%s is no module of mpt: it has no %s", kind->file,
                 kind->symbol);
        return NULL;
    }
    memcpy(&table, &symbol, sizeof table); /* ISO C converts no object pointer to a function */
    return table();
}

static const mpt_module *open_file(const mpt_module_kind *kind, const char *path,
                                   char why[MPT_MODULE_WHY]) {
    void *library = mpt_shared_open(path, why, MPT_MODULE_WHY);
    if (!library)
        return NULL;
    const mpt_module *module = read_table(kind, library, why);
    if (module && agrees(kind->file, module, why))
        return module;
    mpt_shared_close(library);
    return NULL;
}

/* ---- the whole ---- */

static bool has_driver(const mpt_module_kind *kind) {
    char why[MPT_MODULE_WHY];
    void *driver = kind->driver ? mpt_shared_open(kind->driver, why, sizeof why) : NULL;
    if (driver)
        mpt_shared_close(driver);
    return driver || !kind->driver;
}

void mpt_module_look(const mpt_module_kind *kind, const char *folder, mpt_module_answer *out) {
    char path[PATH_BYTES];
    *out = (mpt_module_answer){.found = find_file(kind, folder, path)};
    if (!out->found) {
        snprintf(out->why, sizeof out->why, "%s is not there (this mpt was built without it)",
                 kind->file);
        return;
    }
    if (!has_driver(kind)) {
        snprintf(out->why, sizeof out->why, "%s", kind->no_driver);
        return;
    }
    const mpt_module *module = open_file(kind, path, out->why);
    if (module && module->probe(&out->device, out->why))
        out->module = module;
}
