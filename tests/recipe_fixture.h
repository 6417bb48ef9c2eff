/* Recipes and layers for the tests of recipe/: a small transformer as the graph would list it,
 * and a recipe made by a host's calls. */
#ifndef MPT_RECIPE_FIXTURE_H
#define MPT_RECIPE_FIXTURE_H

#include "mpt_test.h"
#include "recipe/recipe.h"
#include "recipe/schema.h"
#include "recipe/use.h"

enum { FIXTURE_BLOCKS = 4, FIXTURE_PER_BLOCK = 5 };
enum { FIXTURE_LAYERS = 3 + FIXTURE_BLOCKS * FIXTURE_PER_BLOCK };

typedef struct fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_layer layers[FIXTURE_LAYERS];
    char paths[FIXTURE_LAYERS][64];
    mpt_policy policies[FIXTURE_LAYERS];
} fixture;

static inline mpt_status fixture_build(void *ud, struct mpt_nn *nn, bool proxy) {
    (void)ud;
    (void)nn;
    (void)proxy;
    return MPT_OK;
}

/* The layers: wte; per block ln, attn.qkv (fused), attn, attn.o_proj, mlp.up_proj; ln_f,
 * lm_head. */
static inline void fixture_layers(fixture *f) {
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    static const struct {
        const char *name;
        mpt_layer_kind kind;
    } block[FIXTURE_PER_BLOCK] = {{"ln", MPT_LAYER_NORM},
                                  {"attn.qkv", MPT_LAYER_LINEAR},
                                  {"attn", MPT_LAYER_ATTENTION},
                                  {"attn.o_proj", MPT_LAYER_LINEAR},
                                  {"mlp.up_proj", MPT_LAYER_LINEAR}};
    int n = 0;
    f->layers[n] = (mpt_layer){.path = "wte", .kind = MPT_LAYER_EMBEDDING, .block = -1};
    for (int b = 0; b < FIXTURE_BLOCKS; b++) {
        for (int i = 0; i < FIXTURE_PER_BLOCK; i++) {
            n++;
            snprintf(f->paths[n], sizeof f->paths[n], "layers.%d.%s", b, block[i].name);
            f->layers[n] = (mpt_layer){.path = f->paths[n], .kind = block[i].kind, .block = b};
            if (i == 1) {
                f->layers[n].parts = parts;
                f->layers[n].n_parts = 3;
            }
        }
    }
    f->layers[++n] = (mpt_layer){.path = "ln_f", .kind = MPT_LAYER_NORM, .block = -1};
    f->layers[++n] = (mpt_layer){.path = "lm_head", .kind = MPT_LAYER_HEAD, .block = -1};
    for (int i = 0; i < FIXTURE_LAYERS; i++)
        f->layers[i].where = (mpt_where){"model.lua", i + 1};
}

static inline int fixture_find(const fixture *f, const char *path) {
    for (int i = 0; i < FIXTURE_LAYERS; i++)
        if (strcmp(f->layers[i].path, path) == 0)
            return i;
    fail_msg("no layer %s", path);
    return -1;
}

#define FIXTURE_POLICY(f, path) (&(f)->policies[fixture_find((f), (path))])

static inline void fixture_set(fixture *f, const char *path, const char *value) {
    assert_mpt_ok(f->ctx, mpt_recipe_set(f->recipe, path, value));
}

/* A context and a recipe that freezes as it is. */
static inline void fixture_open(fixture *f) {
    memset(f, 0, sizeof *f);
    f->ctx = mpt_test_ctx();
    assert_mpt_ok(f->ctx, mpt_recipe_create(f->ctx, "test", &f->recipe));
    assert_mpt_ok(f->ctx, mpt_recipe_set_model(f->recipe, "gpt", "tiny", fixture_build, NULL));
    fixture_set(f, "train.steps", "100");
    fixture_set(f, "train.batch", "8");
    fixture_set(f, "train.sequence", "32");
    fixture_set(f, "train.lr", "cosine");
    fixture_set(f, "train.lr.peak", "1e-3");
    fixture_set(f, "train.lr.warmup", "10");
    fixture_layers(f);
}

/* Destroys both, and asserts that nothing leaked. */
static inline void fixture_close(fixture *f) {
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

/* A rule said at r.lua:LINE. */
#define fixture_rule(f, at_line, ...)                                                          \
    assert_mpt_ok(                                                                             \
        (f)->ctx,                                                                              \
        mpt_recipe_add_rule((f)->recipe, &(const mpt_rule_desc){.size = sizeof(mpt_rule_desc), \
                                                                .file = "r.lua",               \
                                                                .line = (at_line),             \
                                                                __VA_ARGS__}))

static inline mpt_status fixture_try_resolve(fixture *f, int phase) {
    return mpt_recipe_resolve(f->recipe, phase, f->layers, FIXTURE_LAYERS, FIXTURE_BLOCKS,
                              f->policies);
}

static inline void fixture_resolve(fixture *f, int phase) {
    assert_mpt_ok(f->ctx, mpt_recipe_freeze(f->recipe));
    assert_mpt_ok(f->ctx, fixture_try_resolve(f, phase));
}

#define assert_message(ctx, text) assert_string_equal(mpt_ctx_error(ctx)->message, (text))

/* Resolves a recipe of one rule and compares the message. */
static inline void fixture_expect(const mpt_rule_desc *rule, const char *message) {
    fixture f;
    fixture_open(&f);
    mpt_rule_desc desc = *rule;
    desc.size = sizeof desc;
    desc.file = "r.lua";
    desc.line = 5;
    mpt_status status = mpt_recipe_add_rule(f.recipe, &desc);
    if (status == MPT_OK)
        status = mpt_recipe_freeze(f.recipe);
    if (status == MPT_OK)
        status = fixture_try_resolve(&f, 0);
    assert_int_equal(status, MPT_INVALID);
    assert_message(f.ctx, message);
    fixture_close(&f);
}

#define RULE(...) (&(const mpt_rule_desc){__VA_ARGS__})

#endif
