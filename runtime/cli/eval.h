/* mptrun eval: what given weights make of a file of tokens, or of data. */
#ifndef MPT_CLI_EVAL_H
#define MPT_CLI_EVAL_H

#include "cli/options.h"
#include "cli/progress.h"

mpt_exit mpt_cli_eval(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

#endif
