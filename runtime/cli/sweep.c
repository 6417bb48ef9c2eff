/* `mptrun sweep RECIPE.lua`: lifts one thing at a time to BF16 and ranks what costs the loss.
 */
#include "cli/sweep.h"

mpt_exit mpt_cli_sweep(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress) {
    (void)ctx;
    (void)options;
    (void)progress;
    return MPT_EXIT_USAGE;
}
