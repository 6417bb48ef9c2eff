/* An allocator with an allowance: refuses once `left` allocations are made, and knows how many
 * blocks live. Tests raise the allowance one by one, so that every allocation of a call fails
 * once. */
#ifndef MPT_TESTS_ALLOWANCE_H
#define MPT_TESTS_ALLOWANCE_H

#include <stdlib.h>

#include "mpt_test.h"

typedef struct allowance {
    long left, live;
} allowance;

static inline void *limited_alloc(void *ud, void *ptr, size_t old_size, size_t new_size) {
    allowance *a = ud;
    if (new_size == 0) {
        a->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (a->left == 0)
        return NULL;
    if (new_size > old_size || !ptr)
        a->left--;
    void *fresh = realloc(ptr, new_size);
    a->live += !ptr;
    return fresh;
}

/* A context with `left` allocations, its own included; -1 is no limit. */
static inline mpt_ctx *allowance_context(allowance *a, long left) {
    mpt_ctx_options options = MPT_CTX_OPTIONS_INIT;
    mpt_ctx *ctx;
    *a = (allowance){.left = left};
    options.alloc = limited_alloc;
    options.alloc_ud = a;
    assert_int_equal(mpt_ctx_create(&options, &ctx), MPT_OK);
    return ctx;
}

#endif
