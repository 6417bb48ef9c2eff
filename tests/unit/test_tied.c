/* A parameter used more than once: each use adds to its one gradient, in every precision, on
 * every backend, with one micro-batch and with several.
 *
 * One network uses a matrix four times (three blocks, one of them twice), a norm's weight three
 * times, and a table for tokens, for positions and as head. Held against differences of the
 * loss, and against the same network with a parameter for each use, whose gradients must add up
 * to that of the tied one. */
#include "mpt_test.h"

#include <math.h>

#include "models.h"
#include "train_rig.h"

enum { USES_MAX = 4, WIDTH = 16 };

/* Every use of one parameter; the first is the owner's. */
typedef struct shared {
    const char *use[USES_MAX];
} shared;

static const shared parameters[] = {
    {{"layers.0.up.weight", "layers.0.again.weight", "layers.1.up.weight",
      "layers.2.up.weight"}},
    {{"layers.0.norm.weight", "layers.1.norm.weight", "layers.2.norm.weight"}},
    {{"wte.weight", "wpe.weight", "lm_head.weight"}},
};

/* Weights large enough for each use to count; the owner of a parameter says them. */
static void own_or_tie(mpt_nn_args *args, const char *name) {
    args->tied = name;
    args->has_init = !name && args->name && strcmp(args->name, "norm") != 0;
    args->init = (mpt_init){MPT_INIT_NORMAL, 0.4f, 0};
}

static mpt_value_id draw_block(test_draw *d, int block, bool tied, mpt_value_id x) {
    mpt_nn_args norm = {.name = "norm", .n_in = 1, .in = {x}, .attrs.eps = 1e-5f};
    mpt_nn_args up = {.name = "up", .n_in = 1, .out_features = WIDTH};
    own_or_tie(&norm, tied && block > 0 ? "layers.0.norm.weight" : NULL);
    own_or_tie(&up, tied && block > 0 ? "layers.0.up.weight" : NULL);
    draw_note(d, mpt_nn_block_begin(&d->nn, "layers", block));
    up.in[0] = draw(d, MPT_OP_rmsnorm, norm);
    mpt_value_id h = draw1(d, MPT_OP_silu, NULL, draw(d, MPT_OP_linear, up));
    if (block == 0) { /* by its name in the block */
        up.name = "again";
        own_or_tie(&up, tied ? "up.weight" : NULL);
        up.in[0] = h;
        h = draw1(d, MPT_OP_silu, NULL, draw(d, MPT_OP_linear, up));
    }
    x = draw_add(d, x, h);
    draw_note(d, mpt_nn_block_end(&d->nn));
    return x;
}

static mpt_status draw_net(mpt_graph *graph, bool tied) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1, positions = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    draw_note(&d, mpt_nn_positions(&d.nn, &positions));
    mpt_nn_args wte = {.name = "wte", .n_in = 1, .in = {ids}, .out_features = WIDTH};
    mpt_nn_args wpe = {.name = "wpe", .n_in = 1, .in = {positions}};
    own_or_tie(&wte, NULL);
    own_or_tie(&wpe, tied ? "wte.weight" : NULL);
    wpe.rows = tied ? 0 : RIG_VOCAB;
    wpe.out_features = tied ? 0 : WIDTH;
    mpt_value_id x = draw(&d, MPT_OP_embedding, wte);
    x = draw_add(&d, x, draw(&d, MPT_OP_embedding, wpe));
    for (int i = 0; i < 3; i++)
        x = draw_block(&d, i, tied, x);
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .in = {x}, .head = true};
    own_or_tie(&head, tied ? "wte.weight" : NULL);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

static mpt_status draw_tied(mpt_graph *graph) {
    return draw_net(graph, true);
}

static mpt_status draw_own(mpt_graph *graph) {
    return draw_net(graph, false);
}

/* ---- precision ---- */

/* All of the linear layers' operands by one name; the weights of nvfp4 in squares. */
static void choose(const void *ud, const mpt_graph *graph, int phase, mpt_policy *policies) {
    const char *text = ud;
    bool delayed = strcmp(text, "delayed") == 0;
    mpt_quantizer q, w;
    (void)phase;
    assert_true(mpt_quantizer_by_name(delayed ? "e4m3" : text, &q));
    if (delayed)
        q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 2};
    w = q;
    if (strcmp(text, "nvfp4") == 0)
        w.block_rows = w.block_cols = 16;
    for (int i = 0; i < graph->n_layers; i++)
        for (int s = 0; graph->layers[i].kind == MPT_LAYER_LINEAR && s < MPT_SLOT_COUNT; s++)
            policies[i].slot[s] = s == MPT_SLOT_FPROP_W || s == MPT_SLOT_DGRAD_W ? w : q;
}

static rig_options options_of(const char *format, int accumulate, bool ref) {
    rig_options o = rig_defaults();
    o.micro_batch = 4 / accumulate;
    o.clip = 0;
    o.ref = ref;
    if (format) { /* else FP32 */
        o.choose = choose;
        o.choose_ud = format;
    }
    return o;
}

/* ---- gradients ---- */

static int param_of(const rig *r, const char *name) {
    const mpt_graph *graph = r->phases[0]->graph;
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return p;
    fail_msg("no parameter %s", name);
    return -1;
}

static const float *grad_of(const rig *r, const char *name, int64_t *n) {
    const mpt_graph *graph = r->phases[0]->graph;
    int p = param_of(r, name);
    *n = mpt_value_elements(&graph->values[graph->params[p].value]);
    return r->trainer->state->grad[p];
}

/* Gives each use the numbers of the tied parameter. */
static void copy_weights(rig *own, rig *tied) {
    for (size_t k = 0; k < MPT_COUNT(parameters); k++) {
        int64_t n, m;
        const float *from = rig_weights(tied, parameters[k].use[0], &n);
        for (int u = 0; u < USES_MAX && parameters[k].use[u]; u++) {
            float *to = rig_weights(own, parameters[k].use[u], &m);
            assert_true(n == m);
            memcpy(to, from, (size_t)n * sizeof *to);
        }
    }
}

/* The tied gradient against the sum of those of the single uses, each of which must count. */
static void check_sum(const rig *own, const rig *tied, const shared *s, const char *what) {
    int64_t n, m;
    const float *sum = grad_of(tied, s->use[0], &n);
    double most = 0, worst = 0, least_use = INFINITY;
    for (int u = 0; u < USES_MAX && s->use[u]; u++) {
        const float *g = grad_of(own, s->use[u], &m);
        double largest = 0;
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs((double)g[i]));
        least_use = fmin(least_use, largest);
    }
    for (int64_t i = 0; i < n; i++) {
        double expected = 0;
        for (int u = 0; u < USES_MAX && s->use[u]; u++)
            expected += (double)grad_of(own, s->use[u], &m)[i];
        worst = fmax(worst, fabs(expected - (double)sum[i]));
        most = fmax(most, fabs(expected));
    }
    if (!(worst <= 2e-6 * most && least_use > 1e-3 * most))
        fail_msg("%s, %s: off by %g of %g, the smallest use has %g", what, s->use[0], worst,
                 most, least_use);
}

static void check_uses(const char *format, int accumulate, bool ref) {
    rig_options o = options_of(format, accumulate, ref);
    rig own, tied;
    o.draw = draw_tied;
    rig_init(&tied, &o);
    o.draw = draw_own;
    rig_init(&own, &o);
    copy_weights(&own, &tied);
    double loss = rig_step(&tied).loss;
    assert_true(loss == rig_step(&own).loss);
    for (size_t k = 0; k < MPT_COUNT(parameters); k++)
        check_sum(&own, &tied, &parameters[k], format ? format : "fp32");
    rig_deinit(&tied);
    rig_deinit(&own);
}

static void check_format(const char *format) {
    for (int accumulate = 1; accumulate <= 4; accumulate *= 2)
        for (int ref = 0; ref < 2; ref++)
            check_uses(format, accumulate, ref);
}

static void test_p19_gradient_when_fp32_then_it_is_the_sum_of_the_uses(void **state) {
    (void)state;
    check_format(NULL);
}

static void test_p19_gradient_when_bf16_then_it_is_the_sum_of_the_uses(void **state) {
    (void)state;
    check_format("bf16");
}

static void test_p19_gradient_when_fp8_then_it_is_the_sum_of_the_uses(void **state) {
    (void)state;
    check_format("e4m3");
    check_format("delayed");
}

static void test_p19_gradient_when_blocks_then_it_is_the_sum_of_the_uses(void **state) {
    (void)state;
    check_format("mxfp8");
    check_format("nvfp4");
}

/* ---- differences ---- */

/* The loss of the first step with one parameter moved along `direction`. */
static double loss_along(const rig_options *o, const char *name, const float *direction,
                         double by) {
    rig r;
    int64_t n;
    rig_init(&r, o);
    float *w = rig_weights(&r, name, &n);
    for (int64_t i = 0; i < n; i++)
        w[i] += (float)(by * (double)direction[i]);
    double loss = rig_step(&r).loss;
    rig_deinit(&r);
    return loss;
}

/* Along its gradient the loss rises by the square of the gradient's norm. */
static void check_slope(const rig_options *o, const char *name) {
    rig r;
    int64_t n;
    rig_init(&r, o);
    (void)rig_step(&r);
    const float *gradient = grad_of(&r, name, &n);
    float direction[RIG_VOCAB * WIDTH];
    double squares = 0;
    assert_true(n <= RIG_VOCAB * WIDTH);
    for (int64_t i = 0; i < n; i++)
        squares += (double)gradient[i] * (double)gradient[i];
    for (int64_t i = 0; i < n; i++)
        direction[i] = (float)((double)gradient[i] / sqrt(squares));
    rig_deinit(&r);
    double by = 0.02, near, far;
    near = loss_along(o, name, direction, by) - loss_along(o, name, direction, -by);
    far = loss_along(o, name, direction, 2 * by) - loss_along(o, name, direction, -2 * by);
    double slope = (8 * near - far) / (12 * by);
    if (!(fabs(slope - sqrt(squares)) <= 2e-3 * slope))
        fail_msg("%s, micro-batch %d: gradient %g, differences %g", name, (int)o->micro_batch,
                 sqrt(squares), slope);
}

static void test_p19_gradient_when_fp32_then_as_differences_of_the_loss(void **state) {
    (void)state;
    for (int accumulate = 1; accumulate <= 2; accumulate++)
        for (size_t k = 0; k < MPT_COUNT(parameters); k++) {
            rig_options o = options_of(NULL, accumulate, false);
            o.draw = draw_tied;
            check_slope(&o, parameters[k].use[0]);
        }
}

/* ---- what the builder refuses ---- */

static void refuse(mpt_op op, mpt_nn_args args, const char *message) {
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 4, 8, &graph));
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "wte", ids, 0, 6);
    args.n_in = 1;
    args.in[0] = op == MPT_OP_embedding ? ids : x;
    args.name = "second";
    draw(&d, op, args);
    assert_int_equal(d.status, MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message, message);
    mpt_graph_destroy(graph);
    assert_int_equal(mpt_ctx_memory(ctx).live_bytes, 0);
    mpt_ctx_destroy(ctx);
}

static void test_tied_when_it_cannot_be_then_the_message_says_why(void **state) {
    (void)state;
    refuse(MPT_OP_linear, (mpt_nn_args){.tied = "wta.weight"},
           "model.lua:2: second: linear: tied: no parameter 'wta.weight'; did you mean "
           "'wte.weight'?");
    refuse(MPT_OP_linear, (mpt_nn_args){.tied = "wte.weight", .out_features = 9},
           "model.lua:2: second: linear: input 'w' (wte.weight) is [8, 6], expected [9, 6]");
    refuse(MPT_OP_linear, (mpt_nn_args){.tied = "wte.weight", .has_init = true},
           "model.lua:2: second: linear: tied to 'wte.weight': init belongs to the layer that "
           "has the parameter");
    refuse(
        MPT_OP_linear, (mpt_nn_args){.tied = "wte.weight", .transposed = true},
        "model.lua:2: second: linear: tied to 'wte.weight': layout belongs to the layer that "
        "has the parameter");
    refuse(MPT_OP_rmsnorm, (mpt_nn_args){.tied = "wte.weight"},
           "model.lua:2: second: rmsnorm: input 'weight' (wte.weight) is [8, 6], expected [6]");
    refuse(MPT_OP_embedding, (mpt_nn_args){.tied = "wte.weight", .rows = 9},
           "model.lua:2: second: embedding: input 'table' (wte.weight) is [8, 6], expected "
           "[9, *]");
    refuse(MPT_OP_embedding, (mpt_nn_args){.tied = "wte.weight", .out_features = 5},
           "model.lua:2: second: embedding: input 'table' (wte.weight) is [8, 6], expected "
           "[*, 5]");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_p19_gradient_when_fp32_then_it_is_the_sum_of_the_uses),
    cmocka_unit_test(test_p19_gradient_when_bf16_then_it_is_the_sum_of_the_uses),
    cmocka_unit_test(test_p19_gradient_when_fp8_then_it_is_the_sum_of_the_uses),
    cmocka_unit_test(test_p19_gradient_when_blocks_then_it_is_the_sum_of_the_uses),
    cmocka_unit_test(test_p19_gradient_when_fp32_then_as_differences_of_the_loss),
    cmocka_unit_test(test_tied_when_it_cannot_be_then_the_message_says_why),
};

MPT_TEST_MAIN(cases)
