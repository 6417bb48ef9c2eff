/* explain and diff: they compile recipes as plan does, and ask the library for a text. */
#include "cli/inspect.h"

#include "cli/colour.h"
#include "cli/run.h"

typedef struct compiled {
    mpt_recipe *recipe;
    mpt_program *program;
} compiled;

static mpt_status compile(mpt_ctx *ctx, const mpt_options *options, int word, compiled *out) {
    mpt_status status = mpt_cli_load(ctx, options, options->words[word], &out->recipe);
    if (status != MPT_OK)
        return status;
    return mpt_cli_compile(out->recipe, options, MPT_MODEL_FULL, &out->program);
}

static void destroy(compiled *c) {
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
}

/* A layer or phase that the recipe lacks is a slip of the command line. */
mpt_exit mpt_cli_explain(mpt_ctx *ctx, const mpt_options *options) {
    compiled c = {NULL, NULL};
    mpt_explain_options explain = MPT_EXPLAIN_OPTIONS_INIT;
    explain.phase = options->phase;
    explain.json = options->json;
    explain.color = !options->json && mpt_cli_colours();
    mpt_status status = compile(ctx, options, 0, &c);
    mpt_exit result = MPT_EXIT_DONE;
    if (status != MPT_OK) {
        result = mpt_cli_fail(ctx, status);
    } else {
        status =
            mpt_program_explain(c.program, options->words[1], &explain, mpt_cli_write, NULL);
        result = mpt_cli_printed(ctx, status);
        if (status == MPT_INVALID)
            result = MPT_EXIT_USAGE;
    }
    destroy(&c);
    return result;
}

mpt_exit mpt_cli_diff(mpt_ctx *ctx, const mpt_options *options) {
    compiled a = {NULL, NULL}, b = {NULL, NULL};
    mpt_diff_options diff = MPT_DIFF_OPTIONS_INIT;
    diff.json = options->json;
    diff.color = !options->json && mpt_cli_colours();
    mpt_status status = compile(ctx, options, 0, &a);
    if (status == MPT_OK)
        status = compile(ctx, options, 1, &b);
    if (status == MPT_OK)
        status = mpt_program_diff(a.program, b.program, &diff, mpt_cli_write, NULL);
    destroy(&a);
    destroy(&b);
    return mpt_cli_printed(ctx, status);
}
