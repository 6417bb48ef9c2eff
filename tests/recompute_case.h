/* What the tests of recomputation share: models of several blocks, and precisions in which
 * forward and backward read the same copies, others, or none. */
#ifndef MPT_RECOMPUTE_CASE_H
#define MPT_RECOMPUTE_CASE_H

#include "models.h"
#include "train_rig.h"

enum { BLOCKS = 5 };

/* ---- models ---- */

typedef mpt_status (*draw_fn)(mpt_graph *graph);

static inline mpt_status draw_three_gpt2(mpt_graph *graph) {
    return draw_gpt2(graph, 3);
}

static inline mpt_status draw_hybrid(mpt_graph *graph) {
    test_hybrid shape = small_hybrid;
    shape.pattern = "M-*M-";
    return draw_nemotron(graph, &shape);
}

static inline mpt_status draw_five(mpt_graph *graph) {
    return draw_mlp(graph, BLOCKS);
}

static inline mpt_status draw_deep(mpt_graph *graph) {
    return draw_mlp(graph, 24);
}

/* Two layers of a block share one weight, and read different values. */
static inline mpt_status draw_shared_weight(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 16);
    for (int i = 0; i < 2; i++) {
        mpt_nn_args tied = {.name = "second", .n_in = 1};
        tied.tied = i ? "layers.1.first.weight" : "layers.0.first.weight";
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_value_id h =
            draw_linear(&d, "first", draw1(&d, MPT_OP_rmsnorm, "norm", x), 16, false);
        tied.in[0] = draw1(&d, MPT_OP_silu, NULL, h);
        x = draw_add(&d, x, draw(&d, MPT_OP_linear, tied));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    x = draw(&d, MPT_OP_linear,
             (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .head = true});
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

static inline mpt_status draw_no_blocks(mpt_graph *graph) {
    return draw_mlp(graph, 0);
}

/* ---- precision ---- */

static inline mpt_quantizer named(const char *name) {
    mpt_quantizer q;
    assert_true(mpt_quantizer_by_name(name, &q));
    return q;
}

static inline mpt_quantizer delayed(const char *name) {
    mpt_quantizer q = named(name);
    q.scale = (mpt_scale_source){.kind = MPT_SCALING_DELAYED, .history = 2};
    return q;
}

static inline mpt_quantizer stochastic(const char *name) {
    mpt_quantizer q = named(name);
    q.rounding = MPT_ROUNDING_STOCHASTIC;
    return q;
}

static inline void fill_slots(mpt_policy *p, mpt_quantizer w, mpt_quantizer x,
                              mpt_quantizer dy) {
    mpt_quantizer *slot = p->slot;
    slot[MPT_SLOT_FPROP_W] = slot[MPT_SLOT_DGRAD_W] = w;
    slot[MPT_SLOT_FPROP_X] = slot[MPT_SLOT_WGRAD_X] = x;
    slot[MPT_SLOT_DGRAD_DY] = slot[MPT_SLOT_WGRAD_DY] = dy;
}

static inline void rotate(mpt_policy *p, mpt_hadamard hadamard) {
    p->slot[MPT_SLOT_WGRAD_X].hadamard = p->slot[MPT_SLOT_WGRAD_DY].hadamard = hadamard;
}

/* "bf16" has casts only; in "wide wgrad" the forward pass needs no copy of x that the backward
 * pass does, in "one copy" both need the same one. */
static const char *const variants[] = {
    "bf16",         "fp16",       "e4m3 delayed",      "e4m3 delayed, one copy",
    "nvfp4 sr rht", "all random", "from the row copy", "wide fprop",
    "wide wgrad"};

static inline void fill_policy(mpt_policy *p, const char *variant) {
    mpt_quantizer square = named("nvfp4");
    square.block_rows = square.block_cols = 16;
    if (strcmp(variant, "fp16") == 0)
        fill_slots(p, named("fp16"), named("fp16"), named("fp16"));
    if (strcmp(variant, "e4m3 delayed, one copy") == 0)
        fill_slots(p, delayed("e4m3"), delayed("e4m3"), delayed("e5m2"));
    if (strcmp(variant, "e4m3 delayed") == 0) { /* two copies: the random one is its own */
        fill_slots(p, delayed("e4m3"), delayed("e4m3"), delayed("e5m2"));
        p->slot[MPT_SLOT_WGRAD_X].rounding = MPT_ROUNDING_STOCHASTIC;
    }
    if (strcmp(variant, "nvfp4 sr rht") == 0) {
        fill_slots(p, square, named("nvfp4"), stochastic("nvfp4"));
        rotate(p, (mpt_hadamard){.size = 16, .signs = MPT_SIGNS_FIXED});
    }
    if (strcmp(variant, "all random") == 0) {
        fill_slots(p, square, stochastic("nvfp4"), stochastic("nvfp4"));
        rotate(p, (mpt_hadamard){.size = 16,
                                 .signs = MPT_SIGNS_RANDOM,
                                 .scope = MPT_SCOPE_LAYER,
                                 .redraw = MPT_REDRAW_STEP,
                                 .seed = -1});
    }
    if (strcmp(variant, "from the row copy") == 0) {
        fill_slots(p, named("nvfp4"), stochastic("nvfp4"), stochastic("nvfp4"));
        p->slot[MPT_SLOT_WGRAD_X].source = MPT_SOURCE_DEQUANTIZED;
    }
    if (strcmp(variant, "wide fprop") == 0) {
        fill_slots(p, named("bf16"), named("bf16"), stochastic("nvfp4"));
        p->slot[MPT_SLOT_WGRAD_X] = stochastic("nvfp4");
    }
    if (strcmp(variant, "wide wgrad") == 0) {
        fill_slots(p, named("mxfp8"), named("mxfp8"), named("mxfp8"));
        p->slot[MPT_SLOT_WGRAD_X] = p->slot[MPT_SLOT_WGRAD_DY] = named("fp16");
    }
}

/* Linear layers are as the variant says, all else is BF16. */
static inline void choose(const void *ud, const mpt_graph *graph, int phase,
                          mpt_policy *policies) {
    (void)phase;
    for (int i = 0; i < graph->n_layers; i++)
        if (graph->layers[i].kind == MPT_LAYER_LINEAR)
            fill_policy(&policies[i], ud);
}

static inline rig_options options_for(draw_fn model, const char *variant) {
    rig_options o = rig_defaults();
    o.draw = model;
    o.choose = choose;
    o.choose_ud = variant;
    o.micro_batch = 2;
    o.lr = 1e-3;
    return o;
}

#endif
