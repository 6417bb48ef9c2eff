/* graph/model.c: models drawn in the public words of mpt/model.h. */
#include "models.h"

#include "mpt/model.h"

static mpt_graph *new_graph(mpt_ctx *ctx) {
    mpt_graph *graph = NULL;
    assert_mpt_ok(ctx, mpt_graph_create(ctx, 2, 6, 32, &graph));
    return graph;
}

static const mpt_param *find_param(const mpt_graph *graph, const char *name) {
    for (int p = 0; p < graph->n_params; p++)
        if (strcmp(graph->params[p].name, name) == 0)
            return &graph->params[p];
    fail_msg("no parameter '%s'", name);
    return NULL;
}

/* The gpt2 of models.h, in the public words. */
static mpt_status build_gpt2(mpt_nn *nn) {
    static const char *const parts[] = {"q_proj", "k_proj", "v_proj"};
    static const int64_t widths[] = {16, 16, 16};
    mpt_model_value ids = mpt_model_tokens(nn), positions = mpt_model_positions(nn);
    mpt_model_value x = mpt_model_embedding(nn, "wte", ids, 0, 16);
    mpt_model_value p = mpt_model_embedding(nn, "wpe", positions, mpt_model_sequence(nn), 16);
    mpt_model_value qkv[3];
    x = mpt_model_add(nn, x, p);
    for (int i = 0; i < 2; i++) {
        mpt_model_block(nn, "h", i);
        mpt_model_value h = mpt_model_layernorm(nn, "ln_1", x, 0, true);
        h = mpt_model_linear(nn, "attn.c_attn", h,
                             MPT_LINEAR(.out = 48, .bias = true, .transposed = true,
                                        .parts = parts, .n_parts = 3));
        mpt_model_split(nn, h, widths, 3, qkv);
        h = mpt_model_attention(nn, "attn", qkv, 4, 0);
        h = mpt_model_linear(nn, "attn.c_proj", h, MPT_LINEAR(.out = 16, .bias = true));
        x = mpt_model_add(nn, x, h);
        h = mpt_model_layernorm(nn, "ln_2", x, 0, true);
        h = mpt_model_linear(nn, "mlp.c_fc", h, MPT_LINEAR(.out = 64, .bias = true));
        h = mpt_model_activation(nn, "gelu", h);
        h = mpt_model_linear(nn, "mlp.c_proj", h, MPT_LINEAR(.out = 16, .bias = true));
        x = mpt_model_add(nn, x, h);
        mpt_model_end_block(nn);
    }
    x = mpt_model_layernorm(nn, "ln_f", x, 0, true);
    x = mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true, .tied = "wte.weight"));
    return mpt_model_cross_entropy(nn, x);
}

static void test_model_when_drawn_in_public_words_then_the_graph_is_the_same(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_str text[2];
    for (int i = 0; i < 2; i++) {
        mpt_graph *graph = new_graph(ctx);
        mpt_nn nn = {.graph = graph, .block = -1};
        mpt_str_init(&text[i], ctx);
        assert_mpt_ok(ctx, i ? build_gpt2(&nn) : draw_gpt2(graph, 2));
        for (int n = 0; n < graph->n_nodes; n++)
            graph->nodes[n].where = MPT_NOWHERE; /* the two stand in different files */
        mpt_graph_print(graph, &text[i]);
        mpt_graph_destroy(graph);
    }
    assert_string_equal(text[0].data, text[1].data);
    mpt_str_deinit(&text[0]);
    mpt_str_deinit(&text[1]);
    mpt_ctx_destroy(ctx);
}

/* A Mamba-2 block with every word that GPT-2 does not use. */
static mpt_status build_mamba(mpt_nn *nn) {
    static const int64_t cut[] = {32, 64, 4}, xbc[] = {32, 16, 16};
    mpt_model_value part[3], in[4], gate[2];
    mpt_model_value x = mpt_model_embedding(nn, "embeddings", mpt_model_tokens(nn), 0, 16);
    mpt_model_block(nn, "layers", 0);
    mpt_model_value u = mpt_model_rmsnorm(nn, "norm", x, 1e-6f);
    u = mpt_model_linear(nn, "mixer.in_proj", u, MPT_LINEAR(.out = 100, .init_std = 0.1f));
    mpt_model_split(nn, u, cut, 3, part);
    u = mpt_model_conv1d(nn, "mixer.conv1d", part[1], 4, true);
    mpt_model_split(nn, mpt_model_activation(nn, "silu", u), xbc, 3, in);
    in[3] = part[2];
    gate[0] = mpt_model_ssm_scan(nn, "mixer", in, 4, 2);
    gate[1] = part[0];
    u = mpt_model_gated_rmsnorm(nn, "mixer.norm", gate, 2, 0);
    u = mpt_model_linear(nn, "mixer.out_proj", u, MPT_LINEAR(.out = 16));
    x = mpt_model_add(nn, x, mpt_model_mul(nn, u, mpt_model_concat(nn, &u, 1)));
    mpt_model_end_block(nn);
    x = mpt_model_linear(nn, "lm_head", mpt_model_activation(nn, "gelu_exact", x),
                         MPT_LINEAR(.head = true));
    return mpt_model_cross_entropy(nn, x);
}

static void test_model_when_a_mamba_block_is_drawn_then_it_differentiates(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_nn nn = {.graph = graph, .block = -1};
    assert_mpt_ok(ctx, build_mamba(&nn));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    assert_true(find_param(graph, "layers.0.mixer.in_proj.weight")->init.a == 0.1f);
    assert_int_equal(mpt_model_vocabulary(&nn), 32);
    bool exact = false;
    for (int i = 0; i < graph->n_nodes; i++)
        exact |= graph->nodes[i].op == MPT_OP_gelu && graph->nodes[i].attrs.exact;
    assert_true(exact);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

/* Llama's words, and the other plain operations. */
static mpt_status build_llama(mpt_nn *nn) {
    static const int64_t cut[] = {16, 8, 8};
    mpt_model_value qkv[3];
    mpt_model_value x = mpt_model_embedding(nn, "embed_tokens", mpt_model_tokens(nn), 0, 16);
    mpt_model_block(nn, "layers", 0);
    mpt_model_value h = mpt_model_rmsnorm(nn, "input_layernorm", x, 0);
    mpt_model_split(nn, mpt_model_linear(nn, "qkv_proj", h, MPT_LINEAR(.out = 32)), cut, 3,
                    qkv);
    qkv[0] = mpt_model_rope(nn, qkv[0], MPT_ROPE(.heads = 4, .theta = 5e5f));
    qkv[1] = mpt_model_rope(nn, qkv[1],
                            MPT_ROPE(.heads = 2, .rotary_dim = 2, .kind = MPT_ROPE_KIND_LLAMA3,
                                     .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,
                                     .original_max_position_embeddings = 8192));
    h = mpt_model_scale(nn, mpt_model_attention(nn, "self_attn", qkv, 4, 2), -0.5f);
    x = mpt_model_add(nn, x, mpt_model_dropout(nn, "dropout", h, 0.25f));
    h = mpt_model_linear(nn, "gate_proj", x, MPT_LINEAR(.out = 16));
    h = mpt_model_swiglu(nn, h, mpt_model_linear(nn, "up_proj", x, MPT_LINEAR(.out = 16)));
    h = mpt_model_activation(nn, "softmax", mpt_model_activation(nn, "softplus", h));
    x = mpt_model_add(nn, x, mpt_model_dropout(nn, "none", h, 0));
    mpt_model_end_block(nn);
    x = mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true));
    return mpt_model_cross_entropy(nn, x);
}

static const mpt_node *find_node(const mpt_graph *graph, mpt_op op, int nth) {
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == op && nth-- == 0)
            return &graph->nodes[i];
    fail_msg("no such node");
    return NULL;
}

static void test_model_when_llama_is_drawn_then_its_nodes_have_what_was_said(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_nn nn = {.graph = graph, .block = -1};
    assert_mpt_ok(ctx, build_llama(&nn));
    assert_mpt_ok(ctx, mpt_graph_autodiff(graph));
    assert_mpt_ok(ctx, mpt_graph_verify(graph, "grad"));
    const mpt_attrs *q = &find_node(graph, MPT_OP_rope, 0)->attrs;
    const mpt_attrs *k = &find_node(graph, MPT_OP_rope, 1)->attrs;
    assert_true(q->heads == 4 && q->head_dim == 4 && q->rope.dims == 4);
    assert_true(q->rope.theta == 5e5f && q->rope.scaling == MPT_ROPE_DEFAULT);
    assert_true(k->heads == 2 && k->rope.dims == 2 && k->rope.theta == 10000.0f);
    assert_true(k->rope.scaling == MPT_ROPE_LLAMA3 && k->rope.original_positions == 8192);
    assert_true(find_node(graph, MPT_OP_dropout, 0)->attrs.p == 0.25f);
    assert_true(find_node(graph, MPT_OP_scale, 0)->attrs.scale == -0.5f);
    (void)find_node(graph, MPT_OP_swiglu_grad, 0);
    (void)find_node(graph, MPT_OP_softmax_grad, 0);
    (void)find_node(graph, MPT_OP_softplus_grad, 0);
    int n_dropouts = 0; /* one and its gradient */
    for (int i = 0; i < graph->n_nodes; i++)
        n_dropouts += graph->nodes[i].op == MPT_OP_dropout;
    assert_int_equal(n_dropouts, 2);
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static void
test_model_when_a_word_is_wrong_then_cross_entropy_gives_the_first_error(void **state) {
    (void)state;
    mpt_ctx *ctx = mpt_test_ctx();
    mpt_graph *graph = new_graph(ctx);
    mpt_nn nn = {.graph = graph, .block = -1};
    mpt_model_at(&nn, "host.c", 12);
    mpt_model_value x = mpt_model_embedding(&nn, "wte", mpt_model_tokens(&nn), 0, 32);
    x = mpt_model_activation(&nn, "gelo", x);
    assert_int_equal(x, -1);
    mpt_model_at(&nn, "host.c", 13);
    x = mpt_model_activation(&nn, "none", x);
    mpt_model_end_block(&nn);
    assert_int_equal(mpt_model_cross_entropy(&nn, x), MPT_INVALID);
    assert_string_equal(mpt_ctx_error(ctx)->message,
                        "host.c:12: no activation 'gelo'; did you mean 'gelu'?");
    mpt_graph_destroy(graph);
    mpt_ctx_destroy(ctx);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_model_when_drawn_in_public_words_then_the_graph_is_the_same),
    cmocka_unit_test(test_model_when_a_mamba_block_is_drawn_then_it_differentiates),
    cmocka_unit_test(test_model_when_llama_is_drawn_then_its_nodes_have_what_was_said),
    cmocka_unit_test(test_model_when_a_word_is_wrong_then_cross_entropy_gives_the_first_error),
};

MPT_TEST_MAIN(cases)
