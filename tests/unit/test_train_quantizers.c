/* Short training runs with every kind of quantizer on three small models: losses stay finite,
 * the backends agree, and the bits depend on nothing but recipe and seed. */
#include "mpt_test.h"

#include <math.h>

#include "models.h"
#include "train_rig.h"

enum { STEPS = 3 };

/* How the six slots are filled. */
typedef struct variant {
    const char *name;
    mpt_quantizer w, x, dy;
    mpt_hadamard wgrad; /* of both its operands */
} variant;

#define CURRENT .scale.kind = MPT_SCALING_CURRENT
#define TENSOR(f)                                                                              \
    { .name = "tensor", .format = MPT_DTYPE_##f, CURRENT }
#define MX(f)                                                                                  \
    {                                                                                          \
        .name = "mx", .format = MPT_DTYPE_##f, .block_rows = 1, .block_cols = 32, CURRENT,     \
        .scale_format = MPT_SCALE_E8M0, .scale_rule.kind = MPT_RULE_UP                         \
    }
#define FP4(...)                                                                               \
    {                                                                                          \
        .name = "nvfp4", .format = MPT_DTYPE_E2M1, .block_rows = 1, .block_cols = 16, CURRENT, \
        .scale_format = MPT_SCALE_E4M3, .outer = MPT_OUTER_TENSOR, __VA_ARGS__                 \
    }
#define FP4_ROWS                                                                               \
    {                                                                                          \
        .name = "nvfp4", .format = MPT_DTYPE_E2M1, .block_rows = 1, .block_cols = 16, CURRENT, \
        .scale_format = MPT_SCALE_E4M3, .outer = MPT_OUTER_ROW                                 \
    }
#define FP4_SQUARE                                                                             \
    {                                                                                          \
        .name = "nvfp4", .format = MPT_DTYPE_E2M1, .block_rows = 16, .block_cols = 16,         \
        CURRENT, .scale_format = MPT_SCALE_E4M3, .outer = MPT_OUTER_TENSOR                     \
    }
#define BLOCK128(rows)                                                                         \
    {                                                                                          \
        .name = "fp8_block", .format = MPT_DTYPE_E4M3, .block_rows = (rows),                   \
        .block_cols = 128, CURRENT, .scale_format = MPT_SCALE_POW2,                            \
        .scale_rule.kind = MPT_RULE_UP                                                         \
    }
#define DELAYED(f)                                                                             \
    {                                                                                          \
        .name = "delayed", .format = MPT_DTYPE_##f, .scale = {                                 \
            .kind = MPT_SCALING_DELAYED,                                                       \
            .history = 2                                                                       \
        }                                                                                      \
    }
#define STATIC(f, x)                                                                           \
    {                                                                                          \
        .name = "static", .format = MPT_DTYPE_##f, .scale = {                                  \
            .kind = MPT_SCALING_STATIC,                                                        \
            .value = (x)                                                                       \
        }                                                                                      \
    }
#define CAST(f)                                                                                \
    { .name = "cast", .format = MPT_DTYPE_##f }
#define RANDOM_SIGNS(...)                                                                      \
    { .size = 16, .signs = MPT_SIGNS_RANDOM, .seed = -1, __VA_ARGS__ }

static const variant variants[] = {
    {"delayed", DELAYED(E4M3), DELAYED(E4M3), DELAYED(E5M2), {0}},
    {"static", STATIC(E4M3, 64), STATIC(E4M3, 64), STATIC(E5M2, 4096), {0}},
    {"rows",
     {.name = "rows", .format = MPT_DTYPE_E4M3, .block_rows = 1, CURRENT},
     {.name = "rows", .format = MPT_DTYPE_E4M3, .block_rows = 1, CURRENT},
     {.name = "rows", .format = MPT_DTYPE_E5M2, .block_rows = 1, CURRENT},
     {0}},
    {"nvfp4 with an outer scale a row", FP4_ROWS, FP4_ROWS, FP4_ROWS, {0}},
    {"four over six",
     FP4(.scale_rule = {MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MAE, 256}),
     FP4(.scale_rule = {MPT_RULE_FOUR_OVER_SIX, MPT_ERROR_MSE, 448}),
     FP4(.rounding = MPT_ROUNDING_STOCHASTIC),
     {0}},
    {"random signs", FP4_SQUARE, FP4(), FP4(.rounding = MPT_ROUNDING_STOCHASTIC),
     RANDOM_SIGNS(.scope = MPT_SCOPE_LAYER, .redraw = MPT_REDRAW_STEP)},
    {"fixed signs", FP4_SQUARE, FP4(), FP4(.rounding = MPT_ROUNDING_STOCHASTIC), {.size = 32}},
    {"int8", MX(INT8), TENSOR(INT8), MX(INT8), {0}},
    {"mx", MX(E2M3), MX(E3M2), MX(E5M2), {0}},
    {"mxfp4", MX(E2M1), MX(E2M1), MX(E4M3), {0}},
    {"fp8 in blocks", BLOCK128(128), BLOCK128(1), BLOCK128(1), {0}},
    {"e5m6", TENSOR(E5M6), TENSOR(E5M6), TENSOR(E5M6), {0}},
    {"from the row copy",
     {.name = "mx",
      .format = MPT_DTYPE_E4M3,
      .block_rows = 1,
      .block_cols = 32,
      CURRENT,
      .scale_format = MPT_SCALE_E8M0,
      .scale_rule.kind = MPT_RULE_UP,
      .source = MPT_SOURCE_DEQUANTIZED},
     FP4(.source = MPT_SOURCE_DEQUANTIZED),
     FP4(.source = MPT_SOURCE_DEQUANTIZED),
     {0}},
    {"tf32", CAST(TF32), CAST(TF32), CAST(TF32), {0}},
    {"fp16", CAST(FP16), CAST(FP16), CAST(FP16), {0}},
};

static void choose_variant(const void *ud, const mpt_graph *graph, int phase,
                           mpt_policy *policies) {
    const variant *v = ud;
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++) {
        mpt_quantizer *slot = policies[i].slot;
        slot[MPT_SLOT_FPROP_W] = slot[MPT_SLOT_DGRAD_W] = v->w;
        slot[MPT_SLOT_FPROP_X] = slot[MPT_SLOT_WGRAD_X] = v->x;
        slot[MPT_SLOT_DGRAD_DY] = slot[MPT_SLOT_WGRAD_DY] = v->dy;
        slot[MPT_SLOT_WGRAD_X].hadamard = slot[MPT_SLOT_WGRAD_DY].hadamard = v->wgrad;
    }
}

/* ---- models ---- */

static mpt_status draw_small_mlp(mpt_graph *graph) {
    return draw_mlp(graph, 1);
}

static mpt_status draw_small_gpt2(mpt_graph *graph) {
    return draw_gpt2(graph, 1);
}

static mpt_status draw_small_hybrid(mpt_graph *graph) {
    return draw_nemotron(graph, &small_hybrid);
}

/* ---- runs ---- */

typedef struct outcome {
    double loss[STEPS];
    uint64_t hash;
} outcome;

static outcome run(const variant *v, const rig_options *o) {
    rig r;
    outcome result = {.hash = 0};
    rig_options with = *o;
    with.choose = choose_variant;
    with.choose_ud = v;
    rig_init(&r, &with);
    for (int i = 0; i < STEPS; i++) {
        mpt_step_result step = rig_step(&r);
        if (step.skipped || !isfinite(step.loss))
            fail_msg("%s: loss %g at step %d", v->name, step.loss, i);
        result.loss[i] = step.loss;
    }
    result.hash = rig_state_hash(&r);
    rig_deinit(&r);
    return result;
}

/* The casts of the backends are the same; their sums differ in the last place, and where that
 * moves a value across the border of two codes, by a step of the format. */
static void check_variant(const variant *v, rig_options o) {
    outcome one = run(v, &o), again = run(v, &o);
    o.n_threads = 2;
    outcome two = run(v, &o);
    o.ref = true;
    outcome ref = run(v, &o);
    if (one.hash != again.hash)
        fail_msg("%s: two runs differ", v->name);
    if (one.hash != two.hash)
        fail_msg("%s: two threads give other bits than one", v->name);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(one.loss[i] - ref.loss[i]) < 0.03))
            fail_msg("%s: loss %g at step %d, and %g by ref", v->name, one.loss[i], i,
                     ref.loss[i]);
}

static void check_model(mpt_status (*draw_model)(mpt_graph *graph)) {
    rig_options o = rig_defaults();
    o.draw = draw_model;
    o.micro_batch = 2;
    o.lr = 1e-3;
    for (size_t i = 0; i < MPT_COUNT(variants); i++)
        check_variant(&variants[i], o);
}

static void test_train_when_mlp_then_every_variant_learns_the_same_everywhere(void **s) {
    (void)s;
    check_model(draw_small_mlp);
}

static void test_train_when_gpt2_then_every_variant_learns_the_same_everywhere(void **s) {
    (void)s;
    check_model(draw_small_gpt2);
}

static void test_train_when_hybrid_then_every_variant_learns_the_same_everywhere(void **s) {
    (void)s;
    check_model(draw_small_hybrid);
}

/* Every format that a recipe can name, in all six slots. */
static void test_train_when_a_bare_format_then_it_learns_the_same_everywhere(void **s) {
    (void)s;
    int n;
    const char *const *names = mpt_format_names(&n);
    rig_options o = rig_defaults();
    o.micro_batch = 2;
    o.lr = 1e-3;
    for (int i = 0; i < n; i++) {
        variant v = {.name = names[i]};
        assert_true(mpt_quantizer_by_name(names[i], &v.w));
        v.x = v.dy = v.w;
        check_variant(&v, o);
    }
}

/* ---- what is random ---- */

static const variant rotated = {"rotated", FP4_SQUARE, FP4(), FP4(),
                                RANDOM_SIGNS(.scope = MPT_SCOPE_SHARED)};

/* Each setting of the signs makes other bits, and about the same loss. */
static void test_train_when_signs_are_drawn_otherwise_then_bits_differ(void **s) {
    (void)s;
    variant changed[5] = {rotated, rotated, rotated, rotated, rotated};
    outcome results[5];
    rig_options o = rig_defaults();
    changed[1].wgrad.seed = 7;
    changed[2].wgrad.seed = 8;
    changed[3].wgrad.scope = MPT_SCOPE_LAYER;
    changed[4].wgrad.redraw = MPT_REDRAW_STEP;
    for (int i = 0; i < 5; i++) {
        results[i] = run(&changed[i], &o);
        assert_true(fabs(results[i].loss[STEPS - 1] - results[0].loss[STEPS - 1]) < 0.05);
        for (int k = 0; k < i; k++)
            assert_true(results[i].hash != results[k].hash);
    }
}

/* Gradients of one micro-batch under the key of a seed. */
static uint64_t gradients(const rig *r, uint64_t seed) {
    const mpt_graph *graph = r->phases[0]->graph;
    mpt_executor *executor = r->trainer->executors[0];
    mpt_run_env env = mpt_trainer_env(r->trainer);
    uint64_t hash = 0;
    env.seed = seed;
    env.loss_seed = 1.0f / 64.0f;
    mpt_executor_run(executor, MPT_PASS_PREPARE, &env);
    mpt_executor_run(executor, MPT_PASS_FORWARD, &env);
    mpt_executor_run(executor, MPT_PASS_BACKWARD, &env);
    for (int p = 0; p < graph->n_params; p++) {
        size_t n = (size_t)mpt_value_elements(&graph->values[graph->params[p].value]);
        hash = hash * 31 + mpt_hash(r->trainer->state->grad[p], n * sizeof(float));
    }
    return hash;
}

static void test_step_when_the_seed_differs_then_only_random_rounding_does(void **s) {
    (void)s;
    static const variant plain = {"plain", FP4(), FP4(), FP4(), {0}};
    static const variant random = {
        "random", FP4(), FP4(), FP4(.rounding = MPT_ROUNDING_STOCHASTIC), {0}};
    for (int i = 0; i < 2; i++) {
        rig r;
        rig_options o = rig_defaults();
        o.choose = choose_variant;
        o.choose_ud = i ? &random : &plain;
        rig_init(&r, &o);
        assert_true(gradients(&r, 1) == gradients(&r, 1));
        assert_true((gradients(&r, 1) == gradients(&r, 2)) == (i == 0));
        rig_deinit(&r);
    }
}

/* ---- zeros ---- */

/* tokens -> table of width 64 -> head */
static mpt_status draw_wide_lookup(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .head = true};
    head.in[0] = draw_embedding(&d, "wte", ids, 0, 64);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

/* A tensor of 32x64 zeros has scale 1, so logits and all gradients through it are zeros. */
static void test_step_when_p33_activations_are_zeros_then_products_are_zeros(void **s) {
    (void)s;
    variant v[2] = {{"plain", FP4(), FP4(), FP4(), {0}},
                    {"rotated", FP4(), FP4(), FP4(), {.size = 16}}};
    for (int i = 0; i < 4; i++) {
        rig r;
        rig_options o = rig_defaults();
        int64_t n;
        o.draw = draw_wide_lookup;
        o.choose = choose_variant;
        o.choose_ud = &v[i / 2];
        o.micro_batch = 2;
        o.ref = i % 2;
        rig_init(&r, &o);
        float *table = rig_weights(&r, "wte.weight", &n);
        memset(table, 0, (size_t)n * sizeof *table);
        mpt_run_env env = mpt_trainer_env(r.trainer);
        mpt_executor_run(r.trainer->executors[0], MPT_PASS_PREPARE, &env);
        mpt_runner runner = mpt_trainer_runner(r.trainer, false);
        (void)mpt_runner_forward(&runner, r.trainer->tokens, r.trainer->targets, &env);
        const float *logits =
            mpt_executor_tensor(r.trainer->executors[0], r.phases[0]->graph->logits)->data;
        for (int64_t k = 0; k < 32 * RIG_VOCAB; k++)
            assert_true(logits[k] == 0);
        mpt_step_result step = rig_step(&r);
        assert_false(step.skipped);
        assert_true(fabs(step.loss - log(RIG_VOCAB)) < 1e-6);
        rig_deinit(&r);
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_train_when_mlp_then_every_variant_learns_the_same_everywhere),
    cmocka_unit_test(test_train_when_gpt2_then_every_variant_learns_the_same_everywhere),
    cmocka_unit_test(test_train_when_hybrid_then_every_variant_learns_the_same_everywhere),
    cmocka_unit_test(test_train_when_a_bare_format_then_it_learns_the_same_everywhere),
    cmocka_unit_test(test_train_when_signs_are_drawn_otherwise_then_bits_differ),
    cmocka_unit_test(test_step_when_the_seed_differs_then_only_random_rounding_does),
    cmocka_unit_test(test_step_when_p33_activations_are_zeros_then_products_are_zeros),
};

MPT_TEST_MAIN(cases)
