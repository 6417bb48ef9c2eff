/* A small network that tests of the later stages share: an embedding, blocks of norm, up,
 * relu2, down and a residual sum, then norm, head and loss. Drawn by a source as any model. */
#ifndef MPT_SMALL_NET_H
#define MPT_SMALL_NET_H

#include "graph/nn.h"

/* What the source draws; `ud` of mpt_source points at one. */
typedef struct small_net {
    int64_t width, hidden, vocab; /* vocab 0: the data's */
    int n_blocks;
    int n_readers; /* layers that read each block's norm: their sum is what `down` reads */
} small_net;

static inline mpt_value_id small_call(mpt_nn *nn, mpt_op op, const mpt_nn_args *args,
                                      mpt_status *status) {
    mpt_value_id out[MPT_MAX_OUT] = {-1};
    int n_out = 0;
    if (*status == MPT_OK)
        *status = mpt_nn_call(nn, op, args, out, &n_out);
    return out[0];
}

static inline mpt_value_id small_block(mpt_nn *nn, const small_net *net, mpt_value_id x,
                                       mpt_status *s) {
    static const char *const names[] = {"up", "gate", "side"};
    mpt_value_id sum = -1;
    mpt_value_id n =
        small_call(nn, MPT_OP_rmsnorm,
                   &(mpt_nn_args){.name = "norm", .n_in = 1, .in = {x}, .attrs.eps = 1e-5f}, s);
    for (int i = 0; i < net->n_readers; i++) {
        mpt_value_id up = small_call(
            nn, MPT_OP_linear,
            &(mpt_nn_args){.name = names[i], .n_in = 1, .in = {n}, .out_features = net->hidden},
            s);
        sum = i == 0
                  ? up
                  : small_call(nn, MPT_OP_add, &(mpt_nn_args){.n_in = 2, .in = {sum, up}}, s);
    }
    mpt_value_id r = small_call(nn, MPT_OP_relu2, &(mpt_nn_args){.n_in = 1, .in = {sum}}, s);
    mpt_value_id down = small_call(
        nn, MPT_OP_linear,
        &(mpt_nn_args){
            .name = "down", .n_in = 1, .in = {r}, .out_features = net->width, .bias = true},
        s);
    return small_call(nn, MPT_OP_add, &(mpt_nn_args){.n_in = 2, .in = {x, down}}, s);
}

static inline mpt_status small_build(void *ud, mpt_nn *nn, bool proxy) {
    const small_net *net = ud;
    mpt_value_id tokens;
    mpt_status s = MPT_OK;
    (void)proxy;
    nn->where = (mpt_where){"small.lua", 1};
    MPT_TRY(mpt_nn_tokens(nn, &tokens));
    mpt_value_id x = small_call(nn, MPT_OP_embedding,
                                &(mpt_nn_args){.name = "embeddings",
                                               .n_in = 1,
                                               .in = {tokens},
                                               .rows = net->vocab,
                                               .out_features = net->width},
                                &s);
    for (int b = 0; s == MPT_OK && b < net->n_blocks; b++) {
        nn->where.line = 2;
        MPT_TRY(mpt_nn_block_begin(nn, "layers", b));
        x = small_block(nn, net, x, &s);
        if (s == MPT_OK)
            s = mpt_nn_block_end(nn);
    }
    nn->where.line = 3;
    x = small_call(nn, MPT_OP_rmsnorm,
                   &(mpt_nn_args){.name = "norm_f", .n_in = 1, .in = {x}, .attrs.eps = 1e-5f},
                   &s);
    x = small_call(
        nn, MPT_OP_linear,
        &(mpt_nn_args){
            .name = "lm_head", .n_in = 1, .in = {x}, .out_features = net->vocab, .head = true},
        &s);
    (void)small_call(nn, MPT_OP_cross_entropy, &(mpt_nn_args){.n_in = 1, .in = {x}}, &s);
    return s;
}

/* The forward graph, or the graph after autodiff. */
static inline mpt_graph *small_graph(mpt_ctx *ctx, const small_net *net, int64_t batch,
                                     int64_t sequence, bool backward) {
    mpt_graph *graph = NULL;
    small_net copy = *net;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, batch, sequence, net->vocab, &graph));
    mpt_nn nn = {.graph = graph, .prefix = "", .block = -1};
    assert_mpt_ok(ctx, small_build(&copy, &nn, false));
    if (backward)
        assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    return graph;
}

#endif
