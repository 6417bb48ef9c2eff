/* The numbers of PyTorch in tests/oracle, and trainers that are to reach them: each folder
 * holds the weights and config of a small model of Hugging Face, its logits, loss and gradients
 * for 29 tokens, and the course of 16 optimizer steps. */
#ifndef MPT_TESTS_ORACLE_CASE_H
#define MPT_TESTS_ORACLE_CASE_H

#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "train/trainer.h"
#include "train/weights.h"

typedef struct oracle_model {
    const char *folder, *model; /* as a recipe writes it */
    const char *first;          /* PyTorch's first parameter */
} oracle_model;

#define ORACLE_CONFIG(folder)                                                                  \
    "model.from_config '" MPT_TESTS_DIR "/oracle/" folder "/config.json'"
static const oracle_model oracle_models[] = {
    {"gpt2", ORACLE_CONFIG("gpt2"), "transformer.wte.weight"},
    {"llama", ORACLE_CONFIG("llama"), "model.embed_tokens.weight"},
    {"nemotron_h", ORACLE_CONFIG("nemotron_h"), "model.embeddings.weight"},
};

typedef struct oracle_case {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
    mpt_trainer *trainer;
    mpt_safetensors *numbers; /* the file that the test compares with */
    mpt_weights_map map;
} oracle_case;

static inline void oracle_path(const oracle_model *m, const char *file, char path[1024]) {
    snprintf(path, 1024, "%s/oracle/%s/%s", MPT_TESTS_DIR, m->folder, file);
}

typedef struct oracle_options {
    const char *train, *precision; /* fields of the recipe's tables; `precision` may be NULL */
    const char *numbers;           /* the file in the folder to compare with */
    const char *const *inject;
    int n_inject;
} oracle_options;

/* The weights are those of the folder. */
static inline void oracle_open(oracle_case *c, const oracle_model *m, mpt_device device,
                               const oracle_options *o) {
    char text[2048], path[1024];
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    mpt_trainer_options trainer = MPT_TRAINER_OPTIONS_INIT;
    *c = (oracle_case){.ctx = mpt_test_ctx()};
    snprintf(text, sizeof text,
             "return recipe { name = 'o', model = %s, data = synthetic { vocab = 96 }, "
             "precision = derive(presets.fp32, { %s }), allow = { 'no-warmup', "
             "'loss-scale-unused' }, train = { %s } }",
             m->model, o->precision ? o->precision : "", o->train);
    trainer.inject = o->inject;
    trainer.n_inject = o->n_inject;
    options.device = device;
    options.n_threads = device == MPT_DEVICE_REF ? 1 : 2;
    assert_mpt_ok(
        c->ctx, mpt_recipe_load_string(c->ctx, "o.lua", text, strlen(text), NULL, &c->recipe));
    assert_mpt_ok(c->ctx, mpt_compile(c->recipe, &options, &c->program));
    assert_mpt_ok(c->ctx, mpt_trainer_create(c->program, &trainer, &c->trainer));
    oracle_path(m, "model.safetensors", path);
    assert_mpt_ok(c->ctx, mpt_trainer_load_weights(c->trainer, path));
    oracle_path(m, o->numbers, path);
    assert_mpt_ok(c->ctx, mpt_safetensors_open(c->ctx, path, &c->numbers));
    assert_mpt_ok(
        c->ctx, mpt_weights_map_create(c->program->phases[0]->graph, MPT_WEIGHTS_HF, &c->map));
}

static inline void oracle_close(oracle_case *c) {
    mpt_weights_map_destroy(&c->map);
    mpt_safetensors_close(c->numbers);
    mpt_trainer_destroy(c->trainer);
    mpt_program_destroy(c->program);
    mpt_recipe_destroy(c->recipe);
    assert_int_equal(mpt_ctx_memory(c->ctx).live_bytes, 0);
    mpt_ctx_destroy(c->ctx);
}

/* All floats of a tensor of the file; the caller frees them. */
static inline float *oracle_floats(const oracle_case *c, const char *name, int64_t n) {
    const mpt_stored_tensor *t = mpt_safetensors_find(c->numbers, name);
    if (!t || t->elements != n)
        fail_msg("no tensor %s of %lld elements", name, (long long)n);
    float *out = malloc((size_t)n * sizeof *out);
    assert_non_null(out);
    assert_true(mpt_stored_tensor_floats(t, 0, n, out));
    return out;
}

static inline void oracle_ids(const mpt_safetensors *file, const char *name, int64_t first,
                              int64_t n, int32_t *out) {
    const mpt_stored_tensor *t = mpt_safetensors_find(file, name);
    assert_true(t && t->type == MPT_TENSOR_I32 && first + n <= t->elements);
    memcpy(out, (const char *)t->data + (size_t)first * sizeof *out, (size_t)n * sizeof *out);
}

/* The checkpoint's tensor of a weight, out of the parameter's values; the caller frees it. */
static inline float *oracle_stored(const mpt_weight *weight, const float *param) {
    int64_t n = mpt_weight_elements(weight);
    float *out = malloc((size_t)n * sizeof *out);
    assert_non_null(out);
    mpt_weight_get(weight, param, 0, n, out);
    return out;
}

static inline const char *oracle_name(const oracle_case *c, const mpt_weight *weight,
                                      const char *prefix, char name[256]) {
    snprintf(name, 256, "%s%s%s", prefix, weight->rootless ? "" : c->trainer->root,
             weight->name);
    return name;
}

#endif
