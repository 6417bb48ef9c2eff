/* The second half of reading a command line: what was read, seen as a whole. `given` says of
 * each row of option_rows.c whether it was there. */
#ifndef MPT_CLI_OPTIONS_CHECK_H
#define MPT_CLI_OPTIONS_CHECK_H

#include "cli/options.h"

/* --version and the lists take nothing beside them, which they would ignore. `alone`: the row
 * of the option that stands for itself. MPT_EXIT_USAGE: something is, and stderr names it. */
mpt_exit mpt_options_check_alone(const bool *given, int alone, char **words, int n_words);

/* Whether the command takes all the words and options that were given. MPT_EXIT_USAGE, or
 * MPT_EXIT_MACHINE where this build cannot do it; stderr says why. */
mpt_exit mpt_options_check(const mpt_options *options, const bool *given);

#endif
