/* `mptrun compare BASE.lua OTHER.lua...`: trains each alike and says how far apart they are. */
#include "cli/compare.h"

mpt_exit mpt_cli_compare(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    (void)ctx;
    (void)options;
    (void)progress;
    return MPT_EXIT_USAGE;
}
