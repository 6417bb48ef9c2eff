/* `mptrun report RUN`: writes report.html of a run folder. */
#ifndef MPT_CLI_REPORT_H
#define MPT_CLI_REPORT_H

#include "cli/options.h"

mpt_exit mpt_cli_report(mpt_ctx *ctx, const mpt_options *options);

#endif
