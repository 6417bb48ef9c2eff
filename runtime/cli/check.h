/* mptrun check: errors and warnings of recipes, and nothing else. */
#ifndef MPT_CLI_CHECK_H
#define MPT_CLI_CHECK_H

#include "cli/options.h"

/* Each recipe in turn; the first fault decides the exit status, but all are looked at. */
mpt_exit mpt_cli_check(mpt_ctx *ctx, const mpt_options *options);

#endif
