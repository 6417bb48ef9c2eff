/* `mptrun report RUN`: writes report.html of a run folder, or compare.html of the folder of a
 * comparison, which has a list of its runs. */
#include "cli/report.h"

#include <string.h>
#include <sys/stat.h>

#include "cli/runs.h"
#include "mpt/evidence.h"

static mpt_exit report_comparison(mpt_ctx *ctx, const mpt_options *options,
                                  const char *folder) {
    char index[MPT_RUNS_PATH + 32];
    mpt_comparison *comparison = NULL;
    snprintf(index, sizeof index, "%s/" MPT_RUNS_INDEX, folder);
    mpt_status status = mpt_comparison_open(ctx, index, &comparison);
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    mpt_exit result = mpt_runs_print(ctx, comparison, folder, options);
    mpt_comparison_destroy(comparison);
    return result == MPT_EXIT_STOPPED ? MPT_EXIT_DONE : result; /* the page is there */
}

mpt_exit mpt_cli_report(mpt_ctx *ctx, const mpt_options *options) {
    char folder[MPT_FOLDER_PATH], index[MPT_RUNS_PATH];
    struct stat there;
    int n = snprintf(folder, sizeof folder, "%s", options->words[0]);
    while (n > 1 && n < (int)sizeof folder && folder[n - 1] == '/')
        folder[--n] = 0;
    snprintf(index, sizeof index, "%s/" MPT_RUNS_INDEX, folder);
    if (n < (int)sizeof folder && stat(index, &there) == 0)
        return report_comparison(ctx, options, folder);
    mpt_status status = mpt_report_run(ctx, options->words[0]);
    if (status != MPT_OK)
        return mpt_cli_fail(ctx, status);
    if (!options->quiet)
        printf("report in %s%sreport.html\n", folder, strcmp(folder, "/") == 0 ? "" : "/");
    return MPT_EXIT_DONE;
}
