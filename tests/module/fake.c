/* A module of an imagined device, for tests of the loader: each symbol is a table with one
 * fault, and mpt_fake_sound one without. */
#include <stdio.h>

#include "kernels/module.h"

#define EXPORT __attribute__((visibility("default")))

static bool there(mpt_module_device *out, char why[MPT_MODULE_WHY]) {
    (void)why;
    *out = (mpt_module_device){"Abacus", 9, 0, MPT_TARGET_SM90, 1000};
    return true;
}

static bool away(mpt_module_device *out, char why[MPT_MODULE_WHY]) {
    (void)out;
    snprintf(why, MPT_MODULE_WHY, "there is no abacus");
    return false;
}

static bool mute(mpt_module_device *out, char why[MPT_MODULE_WHY]) {
    (void)out;
    (void)why;
    return false;
}

static bool unkind(mpt_module_device *out, char why[MPT_MODULE_WHY]) {
    (void)why;
    *out = (mpt_module_device){"Abacus", 9, 0, MPT_TARGET_HOST, 1000};
    return true;
}

static const mpt_backend backend = {.api = MPT_BACKEND_API, .name = "abacus"};
static const mpt_backend newer = {.api = MPT_BACKEND_API + 1, .name = "abacus"};

#define TABLE(name, ...)                                                                       \
    EXPORT const mpt_module *mpt_fake_##name(void);                                            \
    const mpt_module *mpt_fake_##name(void) {                                                  \
        static const mpt_module module = {__VA_ARGS__};                                        \
        return &module;                                                                        \
    }

/* Structs of another version: one of another size, one less, one more. */
#define OTHER_SIZE                                                                             \
    {"mpt_ctx", 8}, {                                                                          \
        NULL, 0                                                                                \
    }
static const mpt_module_size other[] = {OTHER_SIZE}, none[] = {{NULL, 0}};

TABLE(sound, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, there, &backend)
TABLE(version, MPT_MODULE_API + 1, NULL, NULL, NULL, NULL, NULL)
TABLE(size, MPT_MODULE_API, "9.9", other, mpt_module_numbers, there, &backend)
TABLE(fewer, MPT_MODULE_API, "9.9", none, mpt_module_numbers, there, &backend)
TABLE(numbers, MPT_MODULE_API, "9.9", mpt_module_sizes, "add mul ", there, &backend)
TABLE(empty, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, there, NULL)
TABLE(away, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, away, &backend)
TABLE(newer, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, there, &newer)
TABLE(probeless, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, NULL, &backend)
TABLE(mute, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, mute, &backend)
TABLE(unkind, MPT_MODULE_API, "9.9", mpt_module_sizes, mpt_module_numbers, unkind, &backend)

EXPORT const mpt_module *mpt_fake_none(void);
const mpt_module *mpt_fake_none(void) {
    return NULL;
}
