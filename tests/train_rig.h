/* A program made by hand, for tests of the trainer: the small network on the synthetic
 * language, without Lua, rules or the pipeline, so that every setting is at hand. */
#ifndef MPT_TRAIN_RIG_H
#define MPT_TRAIN_RIG_H

#include <stdlib.h>

#include "exec/backend.h"
#include "recipe/schema.h"
#include "runtime/pipeline.h"
#include "small_net.h"
#include "train/trainer.h"

enum { RIG_VOCAB = 32, RIG_PHASES = 3, RIG_LAYERS = 80, RIG_MAX_SKIPS = 20 };

typedef struct rig {
    mpt_ctx *ctx;
    mpt_recipe recipe;
    mpt_program program;
    mpt_phase_program *phases[RIG_PHASES], *evals[RIG_PHASES];
    int64_t starts[RIG_PHASES];
    bool applied[RIG_PHASES];
    mpt_trainer *trainer;
    const char *const *inject; /* faults for the trainer, lent */
    int n_inject;
    char *lines; /* all metrics */
    size_t n_lines_bytes;
} rig;

/* Changes the policies of one phase, which are BF16. */
typedef void (*rig_choose_fn)(const void *ud, const mpt_graph *graph, int phase,
                              mpt_policy *policies);

typedef struct rig_options {
    int64_t micro_batch;
    int64_t switch_at;     /* 0: one phase, FP32; else a second one, BF16, from this step on */
    int64_t switch_again;  /* 0: no third phase */
    rig_choose_fn choose;  /* NULL: as above; else it says the precision of every phase */
    const void *choose_ud; /* lent */
    mpt_status (*draw)(mpt_graph *graph); /* NULL: the small network */
    uint64_t seed;                        /* 0: 1 */
    double loss_scale;                    /* static; 0: none */
    const mpt_loss_scale *dynamic;        /* instead; NULL: none */
    bool by_applied;                      /* phases start after so many applied steps */
    bool warm;                            /* each phase records the histories of the next */
    rig_choose_fn choose_eval; /* of an evaluation with a precision of its own; NULL: none */
    int n_threads;
    bool ref;
    const mpt_backend *backend; /* one with a device; NULL: the host's, as `ref` says */
    int recompute;              /* blocks at a time; 0: none */
    mpt_optimizer_kind optimizer;
    double lr, weight_decay, clip;
    int64_t batch;           /* 0: 4 */
    mpt_state_formats state; /* with `choose` only */
    mpt_watch watch;         /* spikes are not looked for */
} rig_options;

static inline rig_options rig_defaults(void) {
    return (rig_options){.micro_batch = 4,
                         .n_threads = 1,
                         .lr = 1e-2,
                         .clip = 1,
                         .watch = {.max_skips = RIG_MAX_SKIPS}};
}

/* FP16 everywhere: a gradient of the logits overflows where scale / 64 is too much for it. */
static inline void rig_choose_fp16(const void *ud, const mpt_graph *graph, int phase,
                                   mpt_policy *policies) {
    (void)ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++) {
        for (int slot = 0; slot < MPT_SLOT_COUNT; slot++)
            assert_true(mpt_quantizer_by_name("fp16", &policies[i].slot[slot]));
        for (int g = 0; g < MPT_GEMM_WGRAD; g++)
            policies[i].output[g] = MPT_DTYPE_FP16;
        policies[i].compute = MPT_DTYPE_FP16;
    }
}

static inline rig_options rig_fp16_options(const mpt_loss_scale *scale) {
    rig_options o = rig_defaults();
    o.choose = rig_choose_fp16;
    o.dynamic = scale;
    return o;
}

static inline bool rig_write(void *ud, const char *text, size_t length) {
    rig *r = ud;
    char *grown = realloc(r->lines, r->n_lines_bytes + length + 1);
    assert_non_null(grown);
    memcpy(grown + r->n_lines_bytes, text, length);
    r->lines = grown;
    r->n_lines_bytes += length;
    grown[r->n_lines_bytes] = 0;
    return true;
}

static inline mpt_train rig_train(const rig_options *o) {
    mpt_train t = {.steps = 30,
                   .watch = o->watch,
                   .batch = o->batch ? o->batch : 4,
                   .micro_batch = o->micro_batch,
                   .sequence = 16};
    t.optimizer = (mpt_optimizer){.kind = o->optimizer,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .weight_decay = o->weight_decay,
                                  .momentum = 0.9};
    t.lr = (mpt_lr){.kind = MPT_LR_CONSTANT, .peak = o->lr};
    t.clip = o->clip;
    t.seed = o->seed ? o->seed : 1;
    return t;
}

static inline void rig_policies(const rig_options *o, const mpt_graph *graph, int phase,
                                mpt_policy policies[RIG_LAYERS]) {
    memset(policies, 0, RIG_LAYERS * sizeof *policies);
    assert_true(graph->n_layers <= RIG_LAYERS);
    for (int i = 0; i < graph->n_layers; i++) {
        for (int s = 0; s < MPT_SLOT_COUNT; s++)
            assert_true(mpt_quantizer_by_name("bf16", &policies[i].slot[s]));
        for (int g = 0; g < MPT_GEMM_COUNT; g++)
            policies[i].output[g] = MPT_DTYPE_BF16;
        policies[i].compute = MPT_DTYPE_BF16;
    }
    if (o->choose)
        o->choose(o->choose_ud, graph, phase, policies);
}

static inline void rig_make_precise(mpt_ctx *ctx, const rig_options *o, int phase,
                                    mpt_graph *graph) {
    mpt_policy policies[RIG_LAYERS], next[RIG_LAYERS];
    rig_policies(o, graph, phase, policies);
    mpt_precision_options options = {.base = MPT_DTYPE_BF16,
                                     .residual = MPT_DTYPE_BF16,
                                     .policies = policies,
                                     .state = o->state};
    if (o->warm && phase + 1 < RIG_PHASES) {
        rig_policies(o, graph, phase + 1, next);
        options.next = next;
    }
    assert_mpt_ok(ctx, mpt_graph_apply_precision(graph, &options));
}

static inline void rig_make_eval(mpt_ctx *ctx, const rig_options *o, int phase,
                                 mpt_graph *graph) {
    mpt_policy policies[RIG_LAYERS];
    rig_policies(o, graph, phase, policies);
    o->choose_eval(o->choose_ud, graph, phase, policies);
    mpt_precision_options options = {.base = MPT_DTYPE_BF16,
                                     .residual = MPT_DTYPE_BF16,
                                     .policies = policies,
                                     .evaluating = true};
    assert_mpt_ok(ctx, mpt_graph_apply_precision(graph, &options));
}

/* The graph after autodiff, or of the forward pass alone. */
static inline mpt_graph *rig_graph(const rig *r, const rig_options *o, bool backward) {
    const small_net net = {
        .width = 16, .hidden = 32, .vocab = RIG_VOCAB, .n_blocks = 1, .n_readers = 1};
    int64_t sequence = r->program.train.sequence;
    mpt_graph *graph;
    if (!o->draw)
        return small_graph(r->ctx, &net, o->micro_batch, sequence, backward);
    assert_mpt_ok(r->ctx,
                  mpt_graph_create(r->ctx, o->micro_batch, sequence, RIG_VOCAB, &graph));
    assert_mpt_ok(r->ctx, o->draw(graph));
    if (backward)
        assert_mpt_ok(r->ctx, mpt_graph_autodiff(graph));
    return graph;
}

/* Stages 6 to 8 over a precise graph. */
static inline mpt_phase_program *rig_schedule(rig *r, const rig_options *o, int index,
                                              mpt_graph *graph) {
    static const char *const names[RIG_PHASES] = {"main", "settle", "end"};
    const mpt_backend *host = mpt_backend_get(o->ref ? MPT_DEVICE_REF : MPT_DEVICE_CPU);
    const mpt_backend *backend = o->backend ? o->backend : host;
    mpt_schedule_options options = {backend->tables, o->n_threads,
                                    o->backend ? MPT_TARGET_SM90 : MPT_TARGET_HOST};
    mpt_phase_program *phase = NULL;
    assert_mpt_ok(r->ctx, mpt_phase_program_create(graph, names[index], &phase));
    phase->backend = o->backend;
    assert_mpt_ok(r->ctx, mpt_schedule_select(phase, &options));
    assert_mpt_ok(r->ctx, mpt_schedule_order(phase));
    assert_mpt_ok(r->ctx, mpt_schedule_plan_memory(phase));
    return phase;
}

static inline mpt_phase_program *rig_phase(rig *r, const rig_options *o, int index) {
    mpt_graph *graph = rig_graph(r, o, true);
    assert_mpt_ok(r->ctx, mpt_graph_append_update(graph, &r->program.train));
    assert_mpt_ok(r->ctx, mpt_graph_verify(graph, "grad"));
    if (index > 0 || o->choose)
        rig_make_precise(r->ctx, o, index, graph);
    assert_mpt_ok(r->ctx, mpt_graph_prune(graph));
    assert_mpt_ok(r->ctx, mpt_graph_recompute(graph, o->recompute));
    return rig_schedule(r, o, index, graph);
}

static inline mpt_phase_program *rig_eval(rig *r, const rig_options *o, int index) {
    mpt_graph *graph = rig_graph(r, o, false);
    rig_make_eval(r->ctx, o, index, graph);
    return rig_schedule(r, o, index, graph);
}

static inline void rig_compile(rig *r, mpt_ctx *ctx, const rig_options *o) {
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->recipe.ctx = ctx;
    if (o->loss_scale > 0)
        r->recipe.loss_scale =
            (mpt_loss_scale){.kind = MPT_LOSS_SCALE_STATIC, .scale = o->loss_scale};
    if (o->dynamic)
        r->recipe.loss_scale = *o->dynamic;
    r->program = (mpt_program){.ctx = ctx, .recipe = &r->recipe, .n_threads = o->n_threads};
    r->program.train = rig_train(o);
    mpt_data_spec spec = {.kind = MPT_DATA_SYNTHETIC, .vocab = RIG_VOCAB};
    assert_mpt_ok(ctx, mpt_data_open(ctx, &spec, NULL, NULL, &r->program.data));
    assert_mpt_ok(ctx, mpt_data_settle(r->program.data, &r->program.train));
    r->program.phases = r->phases;
    r->program.phase_start = r->starts;
    r->program.phase_applied = r->applied;
    r->program.evals = r->evals;
    r->program.n_phases = o->switch_again ? 3 : o->switch_at ? 2 : 1;
    for (int i = 0; i < r->program.n_phases; i++)
        r->phases[i] = rig_phase(r, o, i);
    r->program.n_evals = o->choose_eval ? r->program.n_phases : 0;
    for (int i = 0; i < r->program.n_evals; i++)
        r->evals[i] = rig_eval(r, o, i);
    r->applied[1] = r->applied[2] = o->by_applied;
    r->starts[1] = o->switch_at;
    r->starts[2] = o->switch_again;
}

static inline mpt_status rig_create_trainer(rig *r) {
    mpt_trainer_options options = MPT_TRAINER_OPTIONS_INIT;
    options.metrics = rig_write;
    options.metrics_ud = r;
    options.inject = r->inject;
    options.n_inject = r->n_inject;
    return mpt_trainer_create(&r->program, &options, &r->trainer);
}

/* Compiled, and ready for its first step. */
static inline void rig_init(rig *r, const rig_options *o) {
    rig_compile(r, mpt_test_ctx(), o);
    assert_mpt_ok(r->ctx, rig_create_trainer(r));
}

static inline void rig_deinit(rig *r) {
    mpt_trainer_destroy(r->trainer);
    for (int i = 0; i < r->program.n_phases; i++)
        mpt_phase_program_destroy(r->phases[i]);
    for (int i = 0; i < r->program.n_evals; i++)
        mpt_phase_program_destroy(r->evals[i]);
    mpt_data_close(r->program.data);
    free(r->lines);
    assert_int_equal(mpt_ctx_memory(r->ctx).live_bytes, 0);
    mpt_ctx_destroy(r->ctx);
}

static inline mpt_step_result rig_step(rig *r) {
    mpt_step_result result;
    assert_mpt_ok(r->ctx, mpt_trainer_step(r->trainer, NULL, &result));
    return result;
}

/* The trainer's own buffers of a parameter, to be tampered with. */
static inline float *rig_weights(rig *r, const char *name, int64_t *n) {
    mpt_param_view view;
    *n = 0;
    for (int i = 0; mpt_trainer_param(r->trainer, i, &view); i++) {
        if (strcmp(view.name, name) != 0)
            continue;
        *n = 1;
        for (int d = 0; d < view.rank; d++)
            *n *= view.dims[d];
        return r->trainer->state->master[i];
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Hash of all masters and moments. */
static inline uint64_t rig_state_hash(const rig *r) {
    const mpt_graph *graph = r->phases[0]->graph;
    mpt_state *state = r->trainer->state;
    uint64_t hash = 0;
    assert_mpt_ok(r->ctx, mpt_state_see(state, MPT_STATE_ALL));
    for (int p = 0; p < graph->n_params; p++) {
        size_t n = (size_t)mpt_value_elements(&graph->values[graph->params[p].value]);
        float *const buffers[] = {state->master[p], state->moment[0][p], state->moment[1][p]};
        for (size_t b = 0; b < MPT_COUNT(buffers); b++)
            if (buffers[b])
                hash = hash * 31 + mpt_hash(buffers[b], n * sizeof(float));
    }
    return hash;
}

/* A layer of a graph by its path. */
static inline int rig_layer(const mpt_graph *graph, const char *path) {
    for (int i = 0; i < graph->n_layers; i++)
        if (strcmp(graph->layers[i].path, path) == 0)
            return i;
    fail_msg("no layer %s", path);
    return -1;
}

/* The delayed state of an operand by its name. */
static inline mpt_scale_view rig_scale(const rig *r, const char *name) {
    mpt_scale_view view = {0};
    for (int i = 0; mpt_trainer_scale(r->trainer, i, &view); i++)
        if (strcmp(view.name, name) == 0)
            return view;
    fail_msg("no scale of %s", name);
    return view;
}

#endif
