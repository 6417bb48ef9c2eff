/* For tests of weights in files: trainers of the small models whose checkpoints lie in
 * tests/oracle, and checkpoints changed on their way into a file. */
#ifndef MPT_TESTS_WEIGHTS_CASE_H
#define MPT_TESTS_WEIGHTS_CASE_H

#include "mpt_test.h"

#include "kernels/numerics_cast.h"
#include "safetensors_file.h"
#include "train/trainer.h"
#include "train/weights.h"

#define ORACLE(model) MPT_TESTS_DIR "/oracle/" model "/model.safetensors"

/* Models as recipes write them, of the sizes in tests/oracle. */
#define WEIGHTS_GPT2                                                                           \
    "require 'models.gpt2' { n_layer = 2, n_embd = 32, n_head = 4, n_positions = 32, "         \
    "vocab_size = 96 }"
#define WEIGHTS_LLAMA                                                                          \
    "require 'models.llama' { hidden_size = 32, intermediate_size = 80, num_hidden_layers = "  \
    "2, num_attention_heads = 4, num_key_value_heads = 2, rms_norm_eps = 1e-5, vocab_size = "  \
    "96 }"
#define WEIGHTS_NEMOTRON_H                                                                     \
    "require 'models.nemotron_h' { hybrid_override_pattern = 'M-M*-', hidden_size = 32, "      \
    "intermediate_size = 64, num_attention_heads = 4, num_key_value_heads = 2, head_dim = 8, " \
    "mamba_num_heads = 8, mamba_head_dim = 8, ssm_state_size = 16, n_groups = 2, "             \
    "conv_kernel = 4, vocab_size = 96 }"

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

/* ---- checkpoints in memory ---- */

enum { STORED_MAX = 64 };

/* All tensors of a file as float32, to be changed and written again. */
typedef struct stored_list {
    int n;
    char names[STORED_MAX][96];
    mpt_tensor_spec specs[STORED_MAX];
    float *data[STORED_MAX];
} stored_list;

static inline int64_t stored_elements(const stored_list *list, int i) {
    int64_t n = 1;
    for (int d = 0; d < list->specs[i].rank; d++)
        n *= list->specs[i].dims[d];
    return n;
}

/* A tensor of zeros; gives its number. */
static inline int stored_add(stored_list *list, const char *name, mpt_tensor_type type,
                             int rank, const int64_t *dims) {
    int i = list->n++;
    assert_true(i < STORED_MAX);
    snprintf(list->names[i], sizeof list->names[i], "%s", name);
    list->specs[i] = (mpt_tensor_spec){.type = type, .rank = rank};
    for (int d = 0; d < rank; d++)
        list->specs[i].dims[d] = dims[d];
    list->data[i] = calloc((size_t)stored_elements(list, i) + 1, sizeof(float));
    assert_non_null(list->data[i]);
    return i;
}

static inline stored_list *stored_read(mpt_ctx *ctx, const char *path) {
    stored_list *list = calloc(1, sizeof *list);
    mpt_safetensors *file;
    assert_non_null(list);
    assert_mpt_ok(ctx, mpt_safetensors_open(ctx, path, &file));
    for (int i = 0; i < mpt_safetensors_count(file); i++) {
        const mpt_stored_tensor *t = mpt_safetensors_at(file, i);
        stored_add(list, t->name, t->type, t->rank, t->dims);
        assert_true(mpt_stored_tensor_floats(t, 0, t->elements, list->data[i]));
    }
    mpt_safetensors_close(file);
    return list;
}

static inline void stored_free(stored_list *list) {
    for (int i = 0; i < list->n; i++)
        free(list->data[i]);
    free(list);
}

static inline int stored_find(const stored_list *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->names[i], name) == 0)
            return i;
    fail_msg("no tensor %s", name);
    return -1;
}

static inline void stored_drop(stored_list *list, const char *name) {
    int i = stored_find(list, name), last = --list->n;
    free(list->data[i]);
    memcpy(list->names[i], list->names[last], sizeof list->names[i]);
    list->specs[i] = list->specs[last];
    list->data[i] = list->data[last];
}

/* Every name gets this root instead of the one it has. */
static inline void stored_root(stored_list *list, const char *from, const char *to) {
    for (int i = 0; i < list->n; i++) {
        char rest[96];
        if (strncmp(list->names[i], from, strlen(from)) != 0)
            continue;
        snprintf(rest, sizeof rest, "%s", list->names[i] + strlen(from));
        snprintf(list->names[i], sizeof list->names[i], "%s%s", to, rest);
    }
}

static inline void stored_put(const stored_list *list, int i, void *out) {
    mpt_tensor_type type = list->specs[i].type;
    for (int64_t k = 0; k < stored_elements(list, i); k++) {
        float x = list->data[i][k];
        if (type == MPT_TENSOR_F64)
            ((double *)out)[k] = (double)x;
        else if (type == MPT_TENSOR_F32)
            ((float *)out)[k] = x;
        else if (type == MPT_TENSOR_BF16)
            ((uint16_t *)out)[k] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, x);
        else if (type == MPT_TENSOR_F16)
            ((uint16_t *)out)[k] = (uint16_t)mpt_encode(MPT_DTYPE_FP16, x);
        else if (type == MPT_TENSOR_F8_E4M3)
            ((uint8_t *)out)[k] = (uint8_t)mpt_encode(MPT_DTYPE_E4M3, x);
    }
}

static inline void stored_write(mpt_ctx *ctx, stored_list *list, const char *path) {
    mpt_safetensors_writer *w;
    for (int i = 0; i < list->n; i++)
        list->specs[i].name = list->names[i];
    assert_mpt_ok(ctx, mpt_safetensors_create(ctx, path, list->specs, list->n, NULL, &w));
    for (int i = 0; i < list->n; i++)
        stored_put(list, i, mpt_safetensors_data(w, i));
    assert_mpt_ok(ctx, mpt_safetensors_commit(w));
}

/* ---- the same bytes ---- */

static inline void assert_same_file(const char *a, const char *b) {
    file_bytes x = bytes_read(a), y = bytes_read(b);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    bytes_free(&x);
    bytes_free(&y);
}

/* XXH3-64 over all parameters, moments and scales of a trainer. */
static inline uint64_t weights_hash(const weights_case *c) {
    const mpt_graph *graph = c->program->phases[0]->graph;
    const mpt_state *state = c->trainer->state;
    uint64_t h[4096];
    size_t n = 0;
    for (int p = 0; p < graph->n_params; p++) {
        size_t bytes =
            sizeof(float) * (size_t)mpt_value_elements(&graph->values[graph->params[p].value]);
        assert_true(n + 3 <= MPT_COUNT(h));
        h[n++] = mpt_hash(state->master[p], bytes);
        for (int m = 0; m < 2; m++)
            if (state->moment[m][p])
                h[n++] = mpt_hash(state->moment[m][p], bytes);
    }
    for (int i = 0; i < state->n_scales; i++) {
        assert_true(n + 2 <= MPT_COUNT(h));
        h[n++] = mpt_hash(state->scales[i].scale, sizeof(float));
        h[n++] = mpt_hash(state->scales[i].amax_history,
                          sizeof(float) * (size_t)state->scales[i].history);
    }
    return mpt_hash(h, n * sizeof h[0]);
}

#endif
