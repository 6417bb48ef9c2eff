/* A host without Lua: its own recipe, model and tokens, by public calls against libmpt_core.
 *
 * Built as a host builds, with the public headers only; linked without Lua.
 * Prints the loss of a few steps on a text that repeats, so it must fall. */
#include <mpt/model.h>
#include <stdio.h>

enum { BATCH = 4, SEQUENCE = 32, WIDTH = 32 };

static mpt_status build(void *ud, mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    mpt_model_value x = mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), 0, WIDTH);
    for (int block = 0; block < 2; block++) {
        mpt_model_block(nn, "h", block);
        mpt_model_value h = mpt_model_rmsnorm(nn, "norm", x, 1e-5f);
        h = mpt_model_linear(nn, "up", h, MPT_LINEAR(.out = 4 * WIDTH));
        h = mpt_model_activation(nn, "relu2", h);
        h = mpt_model_linear(nn, "down", h, MPT_LINEAR(.out = WIDTH));
        x = mpt_model_add(nn, x, h);
        mpt_model_end_block(nn);
    }
    return mpt_model_cross_entropy(
        nn, mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true)));
}

static mpt_status fill(mpt_recipe *recipe) {
    static const mpt_set words[] = {{"weight", "nvfp4 block=16x16"},
                                    {"activation", "nvfp4"},
                                    {"gradient", "nvfp4 rounding=stochastic"},
                                    {"wgrad", "hadamard.size=16"}};
    static const mpt_set fields[] = {{"train.steps", "30"},     {"train.batch", "4"},
                                     {"train.sequence", "32"},  {"train.lr", "constant"},
                                     {"train.lr.peak", "1e-2"}, {"data", "synthetic"},
                                     {"data.vocab", "64"}};
    mpt_status status = mpt_recipe_set_model(recipe, "mine", "small", build, NULL);
    for (size_t i = 0; status == MPT_OK && i < sizeof fields / sizeof fields[0]; i++)
        status = mpt_recipe_set(recipe, fields[i].path, fields[i].value);
    if (status == MPT_OK)
        status = mpt_recipe_add_rule(
            recipe, MPT_RULE(.selector = "linear", .words = words, .n_words = 4));
    if (status == MPT_OK)
        status = mpt_recipe_add_rule(
            recipe, MPT_RULE(.selector = "linear", .blocks = "last 1", .use = "bf16"));
    return status;
}

static mpt_status train(mpt_program *program) {
    static int32_t tokens[BATCH][SEQUENCE + 1];
    mpt_trainer *trainer = NULL;
    mpt_step_result step;
    double first = 0;
    for (int row = 0; row < BATCH; row++)
        for (int t = 0; t <= SEQUENCE; t++)
            tokens[row][t] = (7 * t + row) % 29;
    mpt_status status = mpt_trainer_create(program, NULL, &trainer);
    while (status == MPT_OK && !mpt_trainer_done(trainer)) {
        status = mpt_trainer_step(trainer, &tokens[0][0], &step);
        first = status == MPT_OK && step.step == 0 ? step.loss : first;
    }
    if (status == MPT_OK)
        printf("%s: loss %.4f, then %.4f\n", step.loss < first / 2 ? "learnt" : "did not learn",
               first, step.loss);
    mpt_trainer_destroy(trainer);
    return status;
}

int main(void) {
    mpt_ctx *ctx = NULL;
    mpt_recipe *recipe = NULL;
    mpt_program *program = NULL;
    mpt_status status = mpt_ctx_create(NULL, &ctx);
    if (status == MPT_OK)
        status = mpt_recipe_create(ctx, "host", &recipe);
    if (status == MPT_OK)
        status = fill(recipe);
    if (status == MPT_OK)
        status = mpt_compile(recipe, NULL, &program);
    if (status == MPT_OK)
        status = train(program);
    if (status != MPT_OK)
        fprintf(stderr, "%s\n", ctx ? mpt_ctx_error(ctx)->message : mpt_status_text(status));
    mpt_program_destroy(program);
    mpt_recipe_destroy(recipe);
    mpt_ctx_destroy(ctx);
    return status == MPT_OK ? 0 : 1;
}
