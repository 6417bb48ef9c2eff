/* Modules that are found beside a program: what the tests of the loader share. */
#ifndef MPT_TESTS_MODULE_CASE_H
#define MPT_TESTS_MODULE_CASE_H

#include "mpt_test.h"

#include "exec/module.h"

static const char driver_name[] = "the abacus";
#define WAY_OUT " (build it again with this mpt, or remove it)"

/* What is said of a module that is found and not taken. */
static inline void assert_refused(const mpt_module_kind *kind, const char *why) {
    mpt_module_answer answer;
    mpt_module_look(kind, MPT_TEST_MODULES, &answer);
    assert_true(answer.found);
    assert_null(answer.module);
    assert_string_equal(answer.why, why);
}

#endif
