/* The commands on tensors, without a recipe: `mptrun quantize`, `probe`, `bench` and `tokens`.
 *
 * What they compute and how it looks is the library's (runtime/tools); here are options, the
 * progress line, the signals and the summary of quantize. */
#ifndef MPT_CLI_TOOLS_H
#define MPT_CLI_TOOLS_H

#include "cli/options.h"
#include "cli/progress.h"

mpt_exit mpt_cli_quantize(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);
mpt_exit mpt_cli_probe(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);
mpt_exit mpt_cli_bench(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);
mpt_exit mpt_cli_tokens(mpt_ctx *ctx, const mpt_options *options);

#endif
