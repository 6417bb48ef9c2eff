/* `mptrun report RUN`: writes report.html of a run folder. */
#include "cli/report.h"

#include "mpt/evidence.h"

mpt_exit mpt_cli_report(mpt_ctx *ctx, const mpt_options *options) {
    mpt_status status = mpt_report_run(ctx, options->words[0]);
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    printf("report in %s/report.html\n", options->words[0]);
    return MPT_EXIT_DONE;
}
