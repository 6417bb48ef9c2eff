/* The export command: the recipe says what the model is, and so what its tensors are called. */
#include "cli/export.h"

#include <stdio.h>

#include "cli/run.h"

static mpt_status export_weights(const mpt_program *program, const mpt_options *options) {
    static const char *const types[MPT_WEIGHT_TYPE_COUNT] = {"fp32", "bf16", "fp16"};
    mpt_save_options save = MPT_SAVE_OPTIONS_INIT;
    save.type = (mpt_weight_type)options->dtype;
    mpt_status status =
        mpt_program_export_weights(program, options->weights, options->out, &save);
    mpt_program_info info = mpt_program_get_info(program);
    if (status == MPT_OK)
        printf("%s: %s %s, %lld parameters in %s, %s\n", options->out, info.model,
               info.size_name, (long long)info.parameters, types[save.type],
               options->weights ? options->weights : "initial values");
    return status;
}

mpt_exit mpt_cli_export(mpt_ctx *ctx, const mpt_options *options) {
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_status status = mpt_cli_load(ctx, options, options->words[0], &recipe);
    if (status == MPT_OK)
        status = mpt_cli_compile(recipe, options, MPT_MODEL_FULL, &program);
    if (status == MPT_OK)
        status = export_weights(program, options);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    return status == MPT_OK ? MPT_EXIT_DONE : mpt_cli_fail(ctx, status);
}
