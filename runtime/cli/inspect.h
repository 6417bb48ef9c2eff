/* The commands that look into compiled recipes: explain, diff. */
#ifndef MPT_CLI_INSPECT_H
#define MPT_CLI_INSPECT_H

#include "cli/options.h"

mpt_exit mpt_cli_explain(mpt_ctx *ctx, const mpt_options *options);
mpt_exit mpt_cli_diff(mpt_ctx *ctx, const mpt_options *options);

#endif
