/* `mptrun report RUN`: writes report.html of a run folder. */
#include "cli/report.h"

#include <string.h>

#include "mpt/evidence.h"

mpt_exit mpt_cli_report(mpt_ctx *ctx, const mpt_options *options) {
    const char *folder = options->words[0];
    mpt_status status = mpt_report_run(ctx, folder);
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    if (!options->quiet)
        printf("report in %.*s%sreport.html\n", (int)n, folder,
               folder[n - 1] == '/' ? "" : "/");
    return MPT_EXIT_DONE;
}
