/* Finding, opening and checking of a module. See module.h. */
#include "exec/module.h"

#include <stdio.h>
#include <string.h>

#include "io/elf.h"
#include "io/file.h"
#include "io/shared.h"
#include "recipe/target.h"

const mpt_module_kind mpt_module_cuda = {"libmpt_cuda.so", "mpt_cuda_module", "libcuda.so.1",
                                         "the NVIDIA driver"};

enum { PATH_BYTES = 4096, FAULT_BYTES = 240, OF_PATH = 220 };

/* What is wrong with the module's own file has one way out. */
#define WAY_OUT "(build it again with this mpt, or remove it)"

/* ---- where it is ---- */

static bool is_in(const char *folder, const char *file, char path[PATH_BYTES]) {
    int n = snprintf(path, PATH_BYTES, "%s/%s", folder, file);
    return n > 0 && n < PATH_BYTES && mpt_file_is_named(path);
}

static bool find_file(const mpt_module_kind *kind, const char *folder, char path[PATH_BYTES]) {
    char own[PATH_BYTES];
    return (folder && is_in(folder, kind->file, path)) ||
           (mpt_shared_own_folder(own, sizeof own) && is_in(own, kind->file, path));
}

/* ---- whether it fits ---- */

/* The first thing in which the module was compiled from other sources than this program; NULL:
 * nothing. */
static const char *find_difference(const mpt_module *module) {
    const mpt_module_size *has = module->sizes, *want = mpt_module_sizes;
    while (want->name && has->name && strcmp(has->name, want->name) == 0 &&
           has->bytes == want->bytes)
        has++, want++;
    if (want->name || has->name)
        return want->name ? want->name : has->name;
    return strcmp(module->numbers, mpt_module_numbers) != 0 ? "list of ops and formats" : NULL;
}

/* Nothing behind the first member is read before that has said what it is. */
static bool agrees(const mpt_module *module, char fault[FAULT_BYTES]) {
    if (module->api != MPT_MODULE_API) {
        snprintf(fault, FAULT_BYTES,
                 "speaks version %d of the interface to modules, and mpt %s version %d",
                 module->api, mpt_version(), MPT_MODULE_API);
        return false;
    }
    const char *differs = find_difference(module);
    if (differs) {
        snprintf(fault, FAULT_BYTES,
                 "was built from other sources (of mpt %.32s, this is %s): its %s differs",
                 module->version, mpt_version(), differs);
        return false;
    }
    if (!module->backend || !module->probe) {
        snprintf(fault, FAULT_BYTES, "has no %s", module->probe ? "kernels" : "probe");
        return false;
    }
    if (module->backend->api != MPT_BACKEND_API) {
        snprintf(fault, FAULT_BYTES,
                 "has a backend of version %d of that interface, and mpt %s takes version %d",
                 module->backend->api, mpt_version(), MPT_BACKEND_API);
        return false;
    }
    return true;
}

/* The library's table, whether it fits or not. */
static const mpt_module *read_table(const mpt_module_kind *kind, void *library,
                                    char fault[FAULT_BYTES]) {
    void *symbol = mpt_shared_find(library, kind->symbol);
    mpt_module_fn table = NULL;
    if (!symbol) {
        snprintf(fault, FAULT_BYTES, "is no module of mpt: it has no %s", kind->symbol);
        return NULL;
    }
    memcpy(&table, &symbol, sizeof table); /* ISO C converts no object pointer to a function */
    const mpt_module *module = table();
    if (!module)
        snprintf(fault, FAULT_BYTES, "is no module of mpt: its %s gives no table",
                 kind->symbol);
    return module;
}

/* The loader's words may begin with the path, which the sentence has already. */
static void *open_library(const char *path, char fault[FAULT_BYTES]) {
    char said[FAULT_BYTES - 32];
    if (mpt_elf_check(path, fault, FAULT_BYTES) != MPT_ELF_SOUND)
        return NULL;
    void *library = mpt_shared_open(path, said, sizeof said);
    size_t n = strlen(path);
    bool twice = strncmp(said, path, n) == 0 && strncmp(said + n, ": ", 2) == 0;
    if (!library)
        snprintf(fault, FAULT_BYTES, "cannot be opened: %s", twice ? said + n + 2 : said);
    return library;
}

static const mpt_module *open_file(const mpt_module_kind *kind, const char *path,
                                   char why[MPT_MODULE_WHY]) {
    char fault[FAULT_BYTES] = "";
    void *library = open_library(path, fault);
    const mpt_module *module = library ? read_table(kind, library, fault) : NULL;
    if (module && agrees(module, fault))
        return module;
    snprintf(why, MPT_MODULE_WHY, "%.*s %s " WAY_OUT, OF_PATH,
             strlen(path) <= OF_PATH ? path : kind->file, fault);
    if (library)
        mpt_shared_close(library);
    return NULL;
}

/* ---- the driver ---- */

/* A driver that is there and does not open is no missing one: what it has, or the loader's
 * words for it, is said. */
static bool has_driver(const mpt_module_kind *kind, char why[MPT_MODULE_WHY]) {
    char path[PATH_BYTES], fault[FAULT_BYTES];
    if (!kind->driver)
        return true;
    bool seen = mpt_shared_locate(kind->driver, MPT_SHARED_CACHE, path, sizeof path);
    if (seen && mpt_elf_check(path, fault, sizeof fault) != MPT_ELF_SOUND) {
        snprintf(why, MPT_MODULE_WHY, "%s is broken: %.*s %s", kind->driver_name, OF_PATH, path,
                 fault);
        return false;
    }
    void *driver = mpt_shared_open(kind->driver, fault, sizeof fault);
    if (driver)
        mpt_shared_close(driver);
    else if (seen)
        snprintf(why, MPT_MODULE_WHY, "%s cannot be opened: %s", kind->driver_name, fault);
    else
        snprintf(why, MPT_MODULE_WHY, "%s is not installed", kind->driver_name);
    return driver != NULL;
}

/* ---- the whole ---- */

/* Whether a module that fits has a device, of a kind that is known here. */
static bool has_device(const mpt_module_kind *kind, const mpt_module *module,
                       mpt_module_answer *out) {
    mpt_module_device device = {.major = 0};
    if (!module->probe(&device, out->why)) {
        if (!*out->why)
            snprintf(out->why, sizeof out->why, "%s has found no device", kind->file);
        return false;
    }
    if (device.target <= MPT_TARGET_HOST || (unsigned)device.target >= MPT_TARGET_COUNT) {
        snprintf(out->why, sizeof out->why, "%s does not say which kind of GPU it has found",
                 kind->file);
        return false;
    }
    out->device = device;
    return true;
}

void mpt_module_look(const mpt_module_kind *kind, const char *folder, mpt_module_answer *out) {
    char path[PATH_BYTES];
    *out = (mpt_module_answer){.found = find_file(kind, folder, path)};
    if (!out->found) {
        snprintf(out->why, sizeof out->why, "%s is not there (this mpt was built without it)",
                 kind->file);
        return;
    }
    if (!has_driver(kind, out->why))
        return;
    const mpt_module *module = open_file(kind, path, out->why);
    if (module && has_device(kind, module, out))
        out->module = module;
}
