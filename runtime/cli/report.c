/* `mptrun report RUN`: writes report.html of a run folder. */
#include "cli/report.h"

mpt_exit mpt_cli_report(mpt_ctx *ctx, const mpt_options *options) {
    (void)ctx;
    (void)options;
    return MPT_EXIT_USAGE;
}
