/* For tests of checkpoints: trainers of the smallest model under a recipe, whose metrics are
 * kept, and folders of checkpoints that are compared byte by byte. */
#ifndef MPT_TESTS_CHECKPOINT_CASE_H
#define MPT_TESTS_CHECKPOINT_CASE_H

#include <stdlib.h>
#include <sys/stat.h>

#include "mpt_test.h"

#include "io/dir.h"
#include "runtime/pipeline.h"
#include "safetensors_file.h"
#include "train/checkpoint.h"

#define CHECKPOINT_TRAIN                                                                       \
    "train = { steps = 20, batch = 2, micro_batch = 1, sequence = 16, lr = constant { peak "   \
    "= 1e-2 }, checkpoint = { every = 4, keep = 2 } }"

/* The recipes of the cases, but for the model and train. */
#define CHECKPOINT_FP16                                                                        \
    "precision = { base = fp16, rules = { rule { 'linear', use = fp16 } }, loss_scale = "      \
    "dynamic { init = 2^24, interval = 4, hysteresis = 2 } }"
#define CHECKPOINT_DELAYED                                                                     \
    "precision = { rules = { rule { 'linear', use = gemm { weight = e4m3 { scale = delayed "   \
    "{ history = 16 } }, activation = e4m3 { scale = delayed { history = 16 } }, gradient = "  \
    "e5m2 { scale = delayed { history = 16 } } } } } }"
#define CHECKPOINT_STOCHASTIC                                                                  \
    "precision = { rules = { rule { 'linear', use = gemm { weight = nvfp4 { block = {16, 16} " \
    "}, activation = nvfp4, gradient = nvfp4 { rounding = 'stochastic' }, wgrad = { hadamard " \
    "= hadamard { size = 16, signs = 'random' } } } } } }"

typedef struct checkpoint_case {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    char *lines; /* all metrics */
    size_t n_bytes;
} checkpoint_case;

static inline bool checkpoint_write(void *ud, const char *text, size_t length) {
    checkpoint_case *c = ud;
    char *grown = realloc(c->lines, c->n_bytes + length + 1);
    assert_non_null(grown);
    memcpy(grown + c->n_bytes, text, length);
    c->lines = grown;
    c->n_bytes += length;
    grown[c->n_bytes] = 0;
    return true;
}

/* `sets`: path=value pairs, n of them, over the recipe. */
static inline mpt_status checkpoint_make(checkpoint_case *c, const char *fields, int n_threads,
                                         const mpt_set *sets, int n_sets) {
    char text[4096];
    mpt_load_options load = MPT_LOAD_OPTIONS_INIT;
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    mpt_trainer_options trainer = MPT_TRAINER_OPTIONS_INIT;
    load.sets = sets;
    load.n_sets = n_sets;
    snprintf(text, sizeof text,
             "return recipe { name = 'c', model = require 'models.mlp' 'tiny', allow = { "
             "'no-warmup' }, %s, " CHECKPOINT_TRAIN " }",
             fields);
    options.model = MPT_MODEL_FULL;
    options.device = c->ctx->device_backend ? MPT_DEVICE_CUDA : MPT_DEVICE_CPU;
    options.n_threads = n_threads;
    trainer.metrics = checkpoint_write;
    trainer.metrics_ud = c;
    MPT_TRY(mpt_recipe_load_string(c->ctx, MPT_SOURCE_DIR "/recipes/c.lua", text, strlen(text),
                                   &load, &c->recipe));
    MPT_TRY(mpt_compile(c->recipe, &options, &c->program));
    return mpt_trainer_create(c->program, &trainer, &c->trainer);
}

/* A trainer at its first step, in a context of its own. */
static inline void checkpoint_begin(checkpoint_case *c, const char *fields, int n_threads) {
    *c = (checkpoint_case){.ctx = mpt_test_ctx()};
    assert_mpt_ok(c->ctx, checkpoint_make(c, fields, n_threads, NULL, 0));
}

static inline void checkpoint_begin_set(checkpoint_case *c, const char *fields,
                                        const char *path, const char *value) {
    const mpt_set set = {path, value};
    *c = (checkpoint_case){.ctx = mpt_test_ctx()};
    assert_mpt_ok(c->ctx, checkpoint_make(c, fields, 1, &set, 1));
}

static inline void checkpoint_end(checkpoint_case *c) {
    mpt_trainer_destroy(c->trainer);
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
    free(c->lines);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

/* So many steps; an evaluation after each `every`-th of the run. */
static inline void checkpoint_train(checkpoint_case *c, int n, int every) {
    mpt_step_result result;
    double loss;
    for (int i = 0; i < n; i++) {
        assert_mpt_ok(c->ctx, mpt_trainer_step(c->trainer, NULL, &result));
        if (every > 0 && c->trainer->attempted % every == 0)
            assert_mpt_ok(c->ctx, mpt_trainer_eval(c->trainer, 2, &loss));
    }
}

/* So many steps, and then a checkpoint into the folder. */
static inline void checkpoint_save_after(checkpoint_case *c, int n, const char *in) {
    checkpoint_train(c, n, 0);
    assert_mpt_ok(c->ctx, mpt_trainer_save_checkpoint(c->trainer, in));
}

/* "FOLDER/step-N", and a file in it. */
typedef struct checkpoint_path {
    char text[256];
} checkpoint_path;

static inline checkpoint_path checkpoint_at(const char *in, int step) {
    checkpoint_path path;
    snprintf(path.text, sizeof path.text, "%s/step-%d", in, step);
    return path;
}

static inline checkpoint_path checkpoint_file(const char *in, int step, const char *name) {
    checkpoint_path path;
    snprintf(path.text, sizeof path.text, "%s/step-%d/%s", in, step, name);
    return path;
}

/* ---- folders of checkpoints ---- */

typedef struct checkpoints {
    char path[64];
} checkpoints;

static inline checkpoints checkpoints_make(void) {
    checkpoints f = {"/tmp/mpt_checkpoints_XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    return f;
}

static inline mpt_dir_names checkpoints_list(mpt_arena *arena, const char *path) {
    mpt_dir_names names;
    assert_mpt_ok(arena->ctx, mpt_dir_list(arena, path, &names));
    return names;
}

static inline void checkpoints_remove(const checkpoints *f) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_arena arena;
    mpt_arena_init(&arena, ctx);
    mpt_dir_names names = checkpoints_list(&arena, f->path);
    for (int i = 0; i < names.n; i++) {
        const char *path = mpt_arena_printf(&arena, "%s/%s", f->path, names.names[i]);
        assert_mpt_ok(ctx, mpt_dir_remove(ctx, path, path));
    }
    assert_int_equal(rmdir(f->path), 0);
    mpt_arena_deinit(&arena);
    mpt_ctx_destroy(ctx);
}

/* What is in the folder: "step-4 step-8". */
static inline void assert_checkpoints(const char *path, const char *expected) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_arena arena;
    char text[1024] = "";
    size_t n = 0;
    mpt_arena_init(&arena, ctx);
    mpt_dir_names names = checkpoints_list(&arena, path);
    for (int i = 0; i < names.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", names.names[i]);
    assert_string_equal(text, expected);
    mpt_arena_deinit(&arena);
    mpt_ctx_destroy(ctx);
}

/* Two checkpoints have the same bytes in all their files. */
static inline void assert_same_checkpoint(const char *a, const char *b, int step) {
    static const char *const names[] = {"model.safetensors", "state.safetensors",
                                        "checkpoint.json"};
    for (size_t i = 0; i < MPT_COUNT(names); i++) {
        file_bytes x = bytes_read(checkpoint_file(a, step, names[i]).text);
        file_bytes y = bytes_read(checkpoint_file(b, step, names[i]).text);
        if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0)
            fail_msg("step-%d/%s differs", step, names[i]);
        bytes_free(&x);
        bytes_free(&y);
    }
}

#endif
