/* Small models drawn by C calls: a lookup, and mlp, gpt2 and nemotron_h in miniature.
 *
 * For tests of the builder, of autodiff and of what follows; the last three have the
 * structure of the shipped models, models/NAME.lua. */
#ifndef MPT_TESTS_MODELS_H
#define MPT_TESTS_MODELS_H

#include "mpt_test.h"

#include "graph/nn.h"

typedef struct test_draw {
    mpt_nn nn;
    mpt_status status; /* of the first call that failed */
} test_draw;

/* One call of the builder; its first value, or -1 once anything has failed. */
static inline mpt_value_id draw(test_draw *d, mpt_op op, mpt_nn_args args) {
    mpt_value_id out[MPT_MAX_OUT];
    int n_out = 0;
    d->nn.where.line++;
    mpt_status status = mpt_nn_call(&d->nn, op, &args, out, &n_out);
    if (d->status == MPT_OK)
        d->status = status;
    return n_out ? out[0] : -1;
}

static inline void draw_note(test_draw *d, mpt_status status) {
    if (d->status == MPT_OK)
        d->status = status;
}

static inline mpt_value_id draw1(test_draw *d, mpt_op op, const char *name, mpt_value_id x) {
    return draw(d, op, (mpt_nn_args){.name = name, .n_in = 1, .in = {x}});
}

static inline mpt_value_id draw_linear(test_draw *d, const char *name, mpt_value_id x,
                                       int64_t out, bool bias) {
    return draw(
        d, MPT_OP_linear,
        (mpt_nn_args){.name = name, .n_in = 1, .in = {x}, .out_features = out, .bias = bias});
}

static inline mpt_value_id draw_add(test_draw *d, mpt_value_id a, mpt_value_id b) {
    return draw(d, MPT_OP_add, (mpt_nn_args){.n_in = 2, .in = {a, b}});
}

static inline mpt_value_id draw_embedding(test_draw *d, const char *name, mpt_value_id ids,
                                          int64_t rows, int64_t width) {
    return draw(d, MPT_OP_embedding,
                (mpt_nn_args){
                    .name = name, .n_in = 1, .in = {ids}, .rows = rows, .out_features = width});
}

static inline test_draw draw_begin(mpt_graph *graph) {
    return (test_draw){
        .nn = {.graph = graph, .where = {"model.lua", 0}, .prefix = "", .block = -1}};
}

enum { LOOKUP_WIDTH = 8 };

/* tokens -> table -> head, which reads the table's rows: who writes them chooses its input. */
static inline mpt_status draw_lookup(mpt_graph *graph) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .head = true};
    head.in[0] = draw_embedding(&d, "wte", ids, 0, LOOKUP_WIDTH);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

/* Embedding, one hidden layer a block, an untied head. */
static inline mpt_status draw_mlp(mpt_graph *graph, int blocks) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embed", ids, 0, 8);
    for (int i = 0; i < blocks; i++) {
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_value_id h = draw1(&d, MPT_OP_rmsnorm, "norm", x);
        h = draw1(&d, MPT_OP_relu2, NULL, draw_linear(&d, "up_proj", h, 16, false));
        x = draw_add(&d, x, draw_linear(&d, "down_proj", h, 8, false));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    x = draw(&d, MPT_OP_linear,
             (mpt_nn_args){.name = "lm_head", .n_in = 1, .in = {x}, .head = true});
    draw1(&d, MPT_OP_cross_entropy, NULL, x);
    return d.status;
}

static inline mpt_value_id draw_gpt2_attention(test_draw *d, mpt_value_id h) {
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    mpt_nn_args qkv = {.name = "attn.c_attn",
                       .n_in = 1,
                       .in = {h},
                       .out_features = 48,
                       .bias = true,
                       .transposed = true,
                       .n_parts = 3};
    for (int i = 0; i < 3; i++)
        qkv.parts[i] = parts[i];
    mpt_nn_args cut = {.n_in = 1, .in = {draw(d, MPT_OP_linear, qkv)}, .attrs = {.n_sizes = 3}};
    mpt_nn_args attn = {.name = "attn", .n_in = 3, .attrs = {.heads = 4}};
    mpt_value_id out[MPT_MAX_OUT];
    int n = 0;
    for (int i = 0; i < 3; i++)
        cut.attrs.sizes[i] = 16;
    draw_note(d, mpt_nn_call(&d->nn, MPT_OP_split, &cut, out, &n));
    for (int i = 0; i < 3; i++)
        attn.in[i] = n == 3 ? out[i] : -1;
    return draw_linear(d, "attn.c_proj", draw(d, MPT_OP_attention, attn), 16, true);
}

/* GPT-2: learned positions, LayerNorm with bias, fused q, k, v, head tied to the table. */
static inline mpt_status draw_gpt2(mpt_graph *graph, int blocks) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1, positions = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    draw_note(&d, mpt_nn_positions(&d.nn, &positions));
    mpt_value_id x = draw_embedding(&d, "wte", ids, 0, 16);
    x = draw_add(&d, x, draw_embedding(&d, "wpe", positions, graph->sequence, 16));
    for (int i = 0; i < blocks; i++) {
        draw_note(&d, mpt_nn_block_begin(&d.nn, "h", i));
        mpt_nn_args ln = {.name = "ln_1", .n_in = 1, .in = {x}, .bias = true};
        x = draw_add(&d, x, draw_gpt2_attention(&d, draw(&d, MPT_OP_layernorm, ln)));
        ln.name = "ln_2";
        ln.in[0] = x;
        mpt_value_id h = draw_linear(&d, "mlp.c_fc", draw(&d, MPT_OP_layernorm, ln), 64, true);
        h = draw1(&d, MPT_OP_gelu, NULL, h);
        x = draw_add(&d, x, draw_linear(&d, "mlp.c_proj", h, 16, true));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    mpt_nn_args ln = {.name = "ln_f", .n_in = 1, .in = {x}, .bias = true};
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .head = true, .tied = "wte.weight"};
    head.in[0] = draw(&d, MPT_OP_layernorm, ln);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

/* Sizes of a nemotron_h: widths of the stream, MLP and Mamba as in its configuration. */
typedef struct test_hybrid {
    const char *pattern; /* M: Mamba-2, -: MLP, *: attention */
    int64_t hidden, ffn, vocab;
    int32_t heads, kv_heads, head_dim;
    int32_t mamba_heads, mamba_dim, groups, state;
} test_hybrid;

static inline mpt_value_id draw_mamba(test_draw *d, const test_hybrid *s, mpt_value_id u) {
    int64_t inner = (int64_t)s->mamba_heads * s->mamba_dim, bc = (int64_t)s->groups * s->state;
    mpt_value_id part[MPT_MAX_OUT] = {-1, -1, -1}, xbc[MPT_MAX_OUT] = {-1, -1, -1};
    int n = 0;
    mpt_nn_args cut = {
        .n_in = 1, .attrs = {.n_sizes = 3, .sizes = {inner, inner + 2 * bc, s->mamba_heads}}};
    cut.in[0] = draw_linear(d, "mixer.in_proj", u, 2 * inner + 2 * bc + s->mamba_heads, false);
    draw_note(d, mpt_nn_call(&d->nn, MPT_OP_split, &cut, part, &n));
    mpt_nn_args conv = {.name = "mixer.conv1d",
                        .n_in = 1,
                        .in = {part[1]},
                        .bias = true,
                        .attrs = {.kernel = 4}};
    cut = (mpt_nn_args){.n_in = 1, .attrs = {.n_sizes = 3, .sizes = {inner, bc, bc}}};
    cut.in[0] = draw1(d, MPT_OP_silu, NULL, draw(d, MPT_OP_conv1d, conv));
    draw_note(d, mpt_nn_call(&d->nn, MPT_OP_split, &cut, xbc, &n));
    mpt_nn_args scan = {.name = "mixer",
                        .n_in = 4,
                        .in = {xbc[0], xbc[1], xbc[2], part[2]},
                        .attrs = {.heads = s->mamba_heads,
                                  .head_dim = s->mamba_dim,
                                  .groups = s->groups,
                                  .state = s->state}};
    mpt_nn_args gate = {.name = "mixer.norm", .n_in = 2, .attrs = {.groups = s->groups}};
    gate.in[0] = draw(d, MPT_OP_ssm_scan, scan);
    gate.in[1] = part[0];
    return draw_linear(d, "mixer.out_proj", draw(d, MPT_OP_gated_rmsnorm, gate), s->hidden,
                       false);
}

static inline mpt_value_id draw_mixer(test_draw *d, const test_hybrid *s, char kind,
                                      mpt_value_id u) {
    if (kind == 'M')
        return draw_mamba(d, s, u);
    if (kind == '-') {
        mpt_value_id h = draw_linear(d, "mixer.up_proj", u, s->ffn, false);
        return draw_linear(d, "mixer.down_proj", draw1(d, MPT_OP_relu2, NULL, h), s->hidden,
                           false);
    }
    static const char *const names[] = {"mixer.q_proj", "mixer.k_proj", "mixer.v_proj"};
    mpt_nn_args attn = {
        .name = "mixer", .n_in = 3, .attrs = {.heads = s->heads, .kv_heads = s->kv_heads}};
    for (int i = 0; i < 3; i++)
        attn.in[i] = draw_linear(d, names[i], u,
                                 (int64_t)(i ? s->kv_heads : s->heads) * s->head_dim, false);
    return draw_linear(d, "mixer.o_proj", draw(d, MPT_OP_attention, attn), s->hidden, false);
}

static inline mpt_status draw_nemotron(mpt_graph *graph, const test_hybrid *s) {
    test_draw d = draw_begin(graph);
    mpt_value_id ids = -1;
    draw_note(&d, mpt_nn_tokens(&d.nn, &ids));
    mpt_value_id x = draw_embedding(&d, "embeddings", ids, s->vocab, s->hidden);
    for (int i = 0; s->pattern[i]; i++) {
        draw_note(&d, mpt_nn_block_begin(&d.nn, "layers", i));
        mpt_value_id u = draw1(&d, MPT_OP_rmsnorm, "norm", x);
        x = draw_add(&d, x, draw_mixer(&d, s, s->pattern[i], u));
        draw_note(&d, mpt_nn_block_end(&d.nn));
    }
    mpt_nn_args head = {.name = "lm_head", .n_in = 1, .head = true, .out_features = s->vocab};
    head.in[0] = draw1(&d, MPT_OP_rmsnorm, "norm_f", x);
    draw1(&d, MPT_OP_cross_entropy, NULL, draw(&d, MPT_OP_linear, head));
    return d.status;
}

static const test_hybrid small_hybrid = {.pattern = "M-*-",
                                         .hidden = 16,
                                         .ffn = 32,
                                         .vocab = 32,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 4,
                                         .mamba_heads = 4,
                                         .mamba_dim = 8,
                                         .groups = 2,
                                         .state = 8};

/* The 12B of the shipped recipe. */
static const test_hybrid hybrid_12b = {
    .pattern = "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-",
    .hidden = 5120,
    .ffn = 20480,
    .vocab = 131072,
    .heads = 40,
    .kv_heads = 8,
    .head_dim = 128,
    .mamba_heads = 128,
    .mamba_dim = 80,
    .groups = 8,
    .state = 128};

#endif
