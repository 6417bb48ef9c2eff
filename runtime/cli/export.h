/* mptrun export: from a recipe's model and a checkpoint, or none, to a checkpoint. */
#ifndef MPT_CLI_EXPORT_H
#define MPT_CLI_EXPORT_H

#include "cli/options.h"

/* Writes what --out names; one line says so. */
mpt_exit mpt_cli_export(mpt_ctx *ctx, const mpt_options *options);

#endif
