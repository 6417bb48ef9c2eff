/* Recipes over small C-drawn models for the tests of operations: compiled, looked at, run. */
#ifndef MPT_TESTS_OPS_FIXTURE_H
#define MPT_TESTS_OPS_FIXTURE_H

#include "mpt_test.h"

#include "models.h"
#include "pipeline.h"

typedef struct ops_setting {
    const char *path, *value;
} ops_setting;

typedef struct ops_fixture {
    mpt_ctx *ctx;
    mpt_recipe *recipe;
    mpt_program *program;
} ops_fixture;

static inline mpt_status ops_draw_gpt2(void *ud, struct mpt_nn *nn, bool proxy) {
    (void)ud, (void)proxy;
    return draw_gpt2(nn->graph, 2);
}

static inline mpt_status ops_draw_hybrid(void *ud, struct mpt_nn *nn, bool proxy) {
    test_hybrid s = small_hybrid;
    (void)ud, (void)proxy;
    s.vocab = nn->graph->vocab;
    return draw_nemotron(nn->graph, &s);
}

/* A recipe in BF16 that says nothing more. */
static inline void ops_recipe(ops_fixture *f, mpt_build_fn build) {
    static const ops_setting all[] = {{"train.steps", "8"},      {"train.batch", "2"},
                                      {"train.sequence", "24"},  {"train.lr", "constant"},
                                      {"train.lr.peak", "1e-2"}, {"train.lr.warmup", "2"},
                                      {"train.micro_batch", "2"}};
    *f = (ops_fixture){.ctx = mpt_test_ctx()};
    assert_mpt_ok(f->ctx, mpt_recipe_create(f->ctx, "ops", &f->recipe));
    assert_mpt_ok(f->ctx, mpt_recipe_set_model(f->recipe, "small", "s", build, NULL));
    f->recipe->where = (mpt_where){"r.lua", 1};
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        assert_mpt_ok(f->ctx, mpt_recipe_set(f->recipe, all[i].path, all[i].value));
}

static inline void ops_set(ops_fixture *f, const char *path, const char *value) {
    assert_mpt_ok(f->ctx, mpt_recipe_set(f->recipe, path, value));
}

#define ops_rule(f, ...)                                                                       \
    assert_mpt_ok(                                                                             \
        (f)->ctx,                                                                              \
        mpt_recipe_add_rule((f)->recipe, &(const mpt_rule_desc){.size = sizeof(mpt_rule_desc), \
                                                                .file = "r.lua",               \
                                                                .line = 9,                     \
                                                                __VA_ARGS__}))

static inline void ops_compile(ops_fixture *f, mpt_device device) {
    mpt_compile_options options = MPT_COMPILE_OPTIONS_INIT;
    options.device = device;
    options.n_threads = 1;
    assert_mpt_ok(f->ctx, mpt_compile(f->recipe, &options, &f->program));
}

/* A compiled program with one setting, or none where the path is NULL. */
static inline void ops_open(ops_fixture *f, mpt_build_fn build, const char *path,
                            const char *value) {
    ops_recipe(f, build);
    if (path)
        ops_set(f, path, value);
    ops_compile(f, MPT_DEVICE_REF);
}

static inline void ops_close(ops_fixture *f) {
    mpt_program_destroy(f->program);
    mpt_recipe_destroy(f->recipe);
    assert_int_equal(mpt_ctx_memory(f->ctx).live_bytes, 0);
    mpt_ctx_destroy(f->ctx);
}

static inline const mpt_graph *ops_graph(const ops_fixture *f) {
    return f->program->phases[0]->graph;
}

/* The first node of an op, and the format of one of its outputs. */
static inline const mpt_node *ops_find(const ops_fixture *f, mpt_op op) {
    const mpt_graph *graph = ops_graph(f);
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op)
            return &graph->nodes[i];
    fail_msg("no %s", mpt_op_get(op)->name);
    return NULL;
}

static inline mpt_dtype ops_dtype(const ops_fixture *f, mpt_value_id v) {
    return ops_graph(f)->values[v].dtype;
}

static inline const mpt_node *ops_producer(const ops_fixture *f, mpt_value_id v) {
    return &ops_graph(f)->nodes[ops_graph(f)->values[v].producer];
}

/* Casts with this slot. */
static inline int ops_casts(const ops_fixture *f, const char *slot) {
    const mpt_graph *graph = ops_graph(f);
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == MPT_OP_cast && strcmp(graph->nodes[i].slot, slot) == 0;
    return n;
}

/* The text of the warning of a name, and its line; NULL where there is none. */
static inline const char *ops_warning(const ops_fixture *f, const char *name, int *line) {
    mpt_warning_view w;
    for (int i = 0; mpt_program_warning(f->program, i, &w); i++) {
        if (strcmp(w.name, name) != 0)
            continue;
        *line = w.line;
        return w.text;
    }
    return NULL;
}

#endif
