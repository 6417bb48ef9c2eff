/* Write functions for the library's texts: one that keeps all of it, one that takes nothing. */
#ifndef MPT_WRITERS_H
#define MPT_WRITERS_H

#include "base/base.h"

/* Appends to the mpt_str at `ud`; false where its memory was refused. */
static inline bool keep(void *ud, const char *text, size_t length) {
    mpt_str *out = ud;
    mpt_str_append(out, text, length);
    return !out->failed;
}

/* A full disk, a closed pipe. */
static inline bool refuse(void *ud, const char *text, size_t length) {
    (void)ud;
    (void)text;
    (void)length;
    return false;
}

#endif
