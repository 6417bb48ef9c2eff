/* Ten training steps inside another program: cc embed.c -lmpt && ./a.out RECIPE.lua */
#include <mpt/mpt.h>
#include <stdio.h>

int main(int argc, char **argv) {
    mpt_ctx *ctx = NULL;
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_trainer *trainer = NULL;
    mpt_step_result step;
    mpt_status status = mpt_ctx_create(NULL, &ctx);
    if (status == MPT_OK)
        status = mpt_recipe_load_file(ctx, argc > 1 ? argv[1] : "recipe.lua", NULL, &recipe);
    if (status == MPT_OK)
        status = mpt_compile(recipe, NULL, &program);
    if (status == MPT_OK)
        status = mpt_trainer_create(program, NULL, &trainer);
    for (int i = 0; status == MPT_OK && i < 10; i++) {
        status = mpt_trainer_step(trainer, NULL, &step);
        if (status == MPT_OK)
            printf("step %d: loss %.4f\n", i, step.loss);
    }
    if (status != MPT_OK)
        fprintf(stderr, "%s\n", ctx ? mpt_ctx_error(ctx)->message : mpt_status_text(status));
    mpt_trainer_destroy(trainer);
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return status == MPT_OK ? 0 : 1;
}
