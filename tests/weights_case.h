/* For tests of weights in files: trainers of the small models whose checkpoints lie in
 * tests/oracle, and checkpoints changed on their way into a file. */
#ifndef MPT_TESTS_WEIGHTS_CASE_H
#define MPT_TESTS_WEIGHTS_CASE_H

#include "mpt_test.h"

#include "safetensors_file.h"
#include "train/trainer.h"
#include "train/weights.h"

#define ORACLE(model) MPT_TESTS_DIR "/oracle/" model "/model.safetensors"

/* Models as recipes write them, of the sizes in tests/oracle. */
#define WEIGHTS_GPT2                                                                           \
    "require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 4, n_positions = 32, "         \
    "vocab_size = 96 }"
#define WEIGHTS_NEMOTRON_H "model.from_config '" MPT_TESTS_DIR "/oracle/nemotron_h'"

/* A trainer and all that it stands on. */
typedef struct weights_case {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
} weights_case;

/* `more`: further fields of the recipe, each with a comma before it. */
static inline mpt_status weights_make(weights_case *c, mpt_ctx *ctx, const char *model,
                                      const char *more) {
    char text[2048];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    *c = (weights_case){.ctx = ctx};
    snprintf(
        text, sizeof text,
        "return recipe { name = 'w', model = %s, data = synthetic { vocab = 96 }, train = "
        "{ steps = 4, batch = 2, micro_batch = 2, sequence = 16, optimizer = adamw { }, lr "
        "= constant { peak = 1e-3 }, seed = 7 }%s }",
        model, more);
    options.model = MPT_MODEL_FULL;
    options.device = MPT_DEVICE_CPU;
    options.n_threads = 1;
    MPT_TRY(mpt_recipe_load_string(ctx, "w.lua", text, strlen(text), NULL, &c->recipe));
    MPT_TRY(mpt_compile(c->recipe, &options, &c->program));
    return mpt_trainer_create(c->program, NULL, &c->trainer);
}

static inline weights_case weights_open(const char *model, const char *more) {
    weights_case c;
    mpt_ctx *ctx = mpt_test_ctx();
    assert_mpt_ok(ctx, weights_make(&c, ctx, model, more));
    return c;
}

static inline void weights_free(weights_case *c) {
    mpt_trainer_destroy(c->trainer);
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
}

static inline void weights_close(weights_case *c) {
    weights_free(c);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

/* The parameter of that name. */
static inline mpt_param_view weights_param(const weights_case *c, const char *name) {
    mpt_param_view view;
    for (int i = 0; mpt_trainer_param(c->trainer, i, &view); i++)
        if (strcmp(view.name, name) == 0)
            return view;
    fail_msg("no parameter %s", name);
    return (mpt_param_view){.name = NULL};
}

#endif
