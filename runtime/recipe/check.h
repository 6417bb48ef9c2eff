/* Inside stage 3: what check.c shares with checks that have files of their own. */
#ifndef MPT_RECIPE_CHECK_H
#define MPT_RECIPE_CHECK_H

#include "recipe/select.h"

typedef struct mpt_checker {
    mpt_recipe *recipe;
    mpt_arena *arena;
    mpt_layer_list model;
    mpt_policy *const *policies; /* one list a phase */
    mpt_warning *list;
    int n, cap;
    bool failed; /* out of memory, error set */
} mpt_checker;

/* Adds a warning of check.c's list unless the recipe allows it. */
void mpt_checker_warn(mpt_checker *checker, const char *name, mpt_where where, const char *fmt,
                      ...) MPT_PRINTF(4, 5);

/* What 16 bits are too few for: states that no longer move, sums that no longer grow. */
void mpt_check_numbers(mpt_checker *checker);

#endif
