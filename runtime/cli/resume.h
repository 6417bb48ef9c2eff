/* `mptrun resume RUN`: goes on from the newest whole checkpoint. */
#ifndef MPT_CLI_RESUME_H
#define MPT_CLI_RESUME_H

#include "cli/options.h"
#include "cli/progress.h"

mpt_exit mpt_cli_resume(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

#endif
