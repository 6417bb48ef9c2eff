/* `mptrun sweep RECIPE.lua`: lifts one thing at a time to BF16 and ranks what costs the loss.
 */
#ifndef MPT_CLI_SWEEP_H
#define MPT_CLI_SWEEP_H

#include "cli/options.h"
#include "cli/progress.h"

mpt_exit mpt_cli_sweep(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

#endif
