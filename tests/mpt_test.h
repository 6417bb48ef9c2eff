/* What every unit test needs: cmocka, a context, and a main that runs one case by name.
 *
 * Each case stands on a line of its own in the list, as `cmocka_unit_test(test_...)`, because
 * tests/CMakeLists.txt reads those lines to register it with ctest. */
#ifndef MPT_TEST_H
#define MPT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

/* A fresh context with the default allocator. */
static inline mpt_ctx *mpt_test_ctx(void) {
    mpt_ctx *ctx = NULL;
    assert_int_equal(mpt_ctx_create(NULL, &ctx), MPT_OK);
    return ctx;
}

/* Asserts success, showing the context's message on failure. */
#define assert_mpt_ok(ctx, expression)                                                         \
    do {                                                                                       \
        mpt_status assert_status = (expression);                                               \
        if (assert_status != MPT_OK)                                                           \
            fail_msg("%s: %s", mpt_status_name(assert_status), mpt_ctx_error(ctx)->message);   \
    } while (0)

/* main(): all cases, or the one named on the command line. */
#define MPT_TEST_MAIN(cases)                                                                   \
    int main(int argc, char **argv) {                                                          \
        if (argc > 1)                                                                          \
            cmocka_set_test_filter(argv[1]);                                                   \
        return cmocka_run_group_tests(cases, NULL, NULL);                                      \
    }

#endif
