/* `mptrun compare BASE.lua OTHER.lua...`: trains each alike and says how far apart they are. */
#ifndef MPT_CLI_COMPARE_H
#define MPT_CLI_COMPARE_H

#include "cli/options.h"
#include "cli/progress.h"

mpt_exit mpt_cli_compare(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

#endif
