/* `mptrun RECIPE.lua`: the plan, the training, the run folder, the result. */
#ifndef MPT_CLI_RUN_H
#define MPT_CLI_RUN_H

#include "cli/options.h"
#include "cli/progress.h"

/* `progress` is also where the context's log lines go. */
mpt_exit mpt_cli_run(mpt_ctx *ctx, const mpt_options *options, mpt_progress *progress);

/* What every command starts with: the recipe with its --set applied, and a program of it.
 * `model` counts where --model was not given. */
mpt_status mpt_cli_load(mpt_ctx *ctx, const mpt_options *options, const char *path,
                        mpt_recipe **out);
mpt_status mpt_cli_load_sets(mpt_ctx *ctx, const char *path, const mpt_set *sets, int n_sets,
                             mpt_recipe **out);
/* Says what was chosen where the command line left it open: the proxy, and the CPU where a GPU
 * was looked for. */
void mpt_cli_note_choices(const mpt_program_info *info, mpt_progress *progress);

mpt_status mpt_cli_compile(mpt_recipe *recipe, const mpt_options *options,
                           mpt_model_choice model, mpt_program **out);

/* The named warnings of a program, one a line, to stderr. */
void mpt_cli_warn(const mpt_program *program, mpt_progress *progress);

#endif
